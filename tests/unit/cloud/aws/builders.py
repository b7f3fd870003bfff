# SPDX-License-Identifier: Apache-2.0
"""Claims, node classes and instance types with sensible defaults, for the tests of launching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from karpenter.api import conditions, labels
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.ec2nodeclass import (
    AMI,
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    EC2NodeClassStatus,
    SecurityGroup,
    Subnet,
)
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassRef, Requirement, ResourceRequests
from karpenter.cloud.aws.userdata import Cluster
from karpenter.model.instancetypes import InstanceType, Offering

GIB = 1024**3
ZONES = ("us-west-2a", "us-west-2b")
CLUSTER = Cluster("demo", "https://api.demo", "Q0E=", service_cidr="10.100.0.0/16", dns_ip="10.100.0.10")


def ready(generation: int = 1) -> tuple[Condition, ...]:
    types = (*conditions.EC2_NODE_CLASS.dependents, conditions.READY)
    return tuple(Condition(type=each, status="True", observed_generation=generation) for each in types)


def image(image_id: str = "ami-amd64", arch: str = labels.AMD64) -> AMI:
    requirement = NodeSelectorRequirement(key=labels.ARCH, operator="In", values=(arch,))
    return AMI(id=image_id, requirements=(requirement,))


def node_class(
    *,
    name: str = "default",
    generation: int = 1,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> EC2NodeClass:
    return EC2NodeClass(
        metadata=ObjectMeta(
            name=name, uid=f"{name}-uid", generation=generation, annotations=annotations or {}
        ),
        spec=EC2NodeClassSpec(
            **{
                "ami_selector_terms": (AMISelectorTerm(alias="al2023@latest"),),
                "role": "node-role",
                **(spec or {}),
            }
        ),
        status=EC2NodeClassStatus(
            **{
                "subnets": tuple(
                    Subnet(id=f"subnet-{zone[-1]}", zone=zone, zone_id=f"usw2-{zone[-1]}") for zone in ZONES
                ),
                "security_groups": (SecurityGroup(id="sg-1", name="nodes"), SecurityGroup(id="sg-2")),
                "amis": (image(), image("ami-arm64", labels.ARM64)),
                "instance_profile": "demo_profile",
                "conditions": ready(generation),
                **(status or {}),
            }
        ),
    )


def claim(
    uid: str = "uid-1",
    *,
    requirements: Mapping[str, tuple[str, ...]] | None = None,
    entries: tuple[Requirement, ...] = (),
    requests: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_labels: Mapping[str, str] | None = None,
    provider_id: str = "",
) -> NodeClaim:
    wanted = {labels.CAPACITY_TYPE: (labels.ON_DEMAND,), **(requirements or {})}
    made = NodeClaim(
        metadata=ObjectMeta(
            name=f"claim-{uid}",
            uid=uid,
            labels={labels.NODEPOOL: "general", **(node_labels or {})},
            annotations=annotations or {},
        ),
        spec=NodeClaimSpec(
            requirements=(
                *(Requirement(key=key, operator="In", values=values) for key, values in wanted.items()),
                *entries,
            ),
            node_class_ref=NodeClassRef(group=labels.AWS_GROUP, kind="EC2NodeClass", name="default"),
            resources=ResourceRequests(requests=requests or {"cpu": "1", "memory": "1Gi"}),
        ),
    )
    if not provider_id:
        return made
    return NodeClaim(
        metadata=made.metadata, spec=made.spec, status=type(made.status)(provider_id=provider_id)
    )


def offering(
    zone: str = ZONES[0],
    capacity_type: str = labels.ON_DEMAND,
    price: float = 0.1,
    *,
    available: bool = True,
    more: Mapping[str, str] | None = None,
    reservation: str = "",
    room: int = 0,
    kind: str = "default",
) -> Offering:
    found = {labels.ZONE_ID: f"usw2-{zone[-1]}", labels.INSTANCE_TENANCY: "default", **(more or {})}
    if reservation:
        found |= {
            labels.CAPACITY_RESERVATION_ID: reservation,
            labels.CAPACITY_RESERVATION_TYPE: "capacity-block" if kind == "capacity-block" else "default",
            labels.CAPACITY_RESERVATION_INTERRUPTIBLE: str(kind == "interruptible").lower(),
        }
    return Offering(
        zone, capacity_type, price, available, found, reservation_id=reservation, reservation_capacity=room
    )


def kind(
    name: str = "m5.large",
    *offerings: Offering,
    arch: str = labels.AMD64,
    cpu: int = 2,
    memory_gib: int = 8,
    pods: int = 29,
    more_labels: Mapping[str, str] | None = None,
    more_capacity: Mapping[str, int] | None = None,
    price: float = 0.1,
) -> InstanceType:
    capacity = {"cpu": cpu * 1000, "memory": memory_gib * GIB, "pods": pods, **(more_capacity or {})}
    made = offerings or tuple(offering(zone, price=price) for zone in ZONES)
    found = {
        labels.INSTANCE_TYPE: name,
        labels.ARCH: arch,
        labels.OS: labels.LINUX,
        labels.INSTANCE_FAMILY: name.partition(".")[0],
        labels.INSTANCE_CATEGORY: name[0],
        **(more_labels or {}),
    }
    return InstanceType(name, found, capacity, capacity, made)
