# SPDX-License-Identifier: Apache-2.0
"""NodePools, nodes, volumes and namespaces, with sensible defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from karpenter.api.core import (
    AWSElasticBlockStoreSource,
    ClaimReference,
    CSIVolumeSource,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    Pod,
    StorageClass,
    Taint,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from karpenter.api.labels import (
    BIND_COMPLETED,
    CAPACITY_TYPE,
    EC2NODECLASS,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    REGISTERED,
    STABLE_NAMES,
    ZONE,
)
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import NodeClassRef, Requirement
from karpenter.api.nodepool import (
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodePool,
    NodePoolSpec,
    TemplateMetadata,
)
from karpenter.model.instancetypes import InstanceType
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView
from tests.strategies.expressions import expression, node_term
from tests.strategies.machines import ZONES, instance_type

__all__ = ["EBS_DRIVER", "node", "nodepool", "storage_class", "volume", "volume_claim"]

EBS_DRIVER: Final = "ebs.csi.aws.com"


def nodepool(
    name: str = "default",
    *,
    requirements: Iterable[Requirement] = (),
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    startup_taints: Iterable[Taint] = (),
    weight: int | None = None,
    limits: Mapping[str, str] | None = None,
) -> NodePool:
    """Make a NodePool that may use every instance type, unless requirements say otherwise."""
    template = NodeClaimTemplate(
        metadata=TemplateMetadata(labels=labels or {}),
        spec=NodeClaimTemplateSpec(
            requirements=tuple(requirements),
            node_class_ref=NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default"),
            taints=tuple(taints),
            startup_taints=tuple(startup_taints),
        ),
    )
    return NodePool(
        metadata=ObjectMeta(name=name, uid=f"nodepool-{name}"),
        spec=NodePoolSpec(template=template, weight=weight, limits=limits or {}),
    )


def node(
    name: str = "node-1",
    kind: InstanceType | None = None,
    *,
    zone: str = ZONES[0],
    capacity_type: str = ON_DEMAND,
    pool: str = "default",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    pods: Iterable[Pod] = (),
    initialized: bool = True,
    volume_limits: Mapping[str, int] | None = None,
    allocatable: Mapping[str, int] | None = None,
) -> NodeView:
    """Make a node that stands, of some instance type; one without a pool is not ours.

    Args:
        name: Its name.
        kind: Its instance type, an m5.large if left out.
        zone: Where it stands.
        capacity_type: How it was bought.
        pool: The NodePool it belongs to, empty for none.
        labels: More labels.
        taints: Its taints.
        pods: The pods bound to it.
        initialized: Whether it is ready for work.
        volume_limits: How many volumes it can hold, by driver.
        allocatable: What it has for pods, in base units; its type's if left out.
    """
    kind = kind or instance_type()
    own = {
        **kind.labels,
        INSTANCE_TYPE: kind.name,
        ZONE: zone,
        HOSTNAME: name,
    }
    if pool:
        own |= {
            CAPACITY_TYPE: capacity_type,
            NODEPOOL: pool,
            EC2NODECLASS: "default",
            REGISTERED: "true",
        }
        own |= {INITIALIZED: "true"} if initialized else {}
    # Kubelets and drivers still write the old names beside the new ones.
    own |= {old: own[new] for old, new in STABLE_NAMES.items() if new in own}
    return NodeView(
        name=name,
        labels=own | dict(labels or {}),
        allocatable=Resources(kind.allocatable if allocatable is None else allocatable),
        taints=tuple(taints),
        pods=tuple(pods),
        initialized=initialized or not pool,
        managed=bool(pool),
        pool=pool,
        volume_limits=volume_limits or {},
    )


def storage_class(
    name: str = "ebs",
    *,
    zones: Iterable[str] = (),
    zone_key: str = ZONE,
    provisioner: str = EBS_DRIVER,
    immediate: bool = False,
) -> StorageClass:
    """Make a storage class; each zone is a topology of its own, none means that all are allowed."""
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode="Immediate" if immediate else "WaitForFirstConsumer",
        allowed_topologies=tuple(
            TopologySelectorTerm(
                match_label_expressions=(TopologySelectorLabelRequirement(key=zone_key, values=(zone,)),)
            )
            for zone in zones
        ),
    )


def volume_claim(
    name: str = "data",
    *,
    namespace: str = "default",
    storage_class_name: str | None = "ebs",
    volume_name: str = "",
    bound: bool | None = None,
    phase: str = "",
) -> PersistentVolumeClaim:
    """Make a claim; one that names a volume is bound to it, unless ``bound`` says otherwise."""
    is_bound = bool(volume_name) if bound is None else bound
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name, namespace=namespace, annotations={BIND_COMPLETED: "yes"} if is_bound else {}
        ),
        spec=PersistentVolumeClaimSpec(storage_class_name=storage_class_name, volume_name=volume_name),
        status=PersistentVolumeClaimStatus(phase=phase or ("Bound" if is_bound else "Pending")),
    )


def volume(
    name: str = "volume-1",
    *,
    zones: Iterable[str] = (),
    zone_key: str = ZONE,
    terms: Iterable[NodeSelectorTerm] = (),
    driver: str = EBS_DRIVER,
    in_tree: bool = False,
    claim: tuple[str, str] | None = None,
) -> PersistentVolume:
    """Make a volume that nodes of the zones reach, or nodes that meet one of the terms; all nodes without either.

    Args:
        name: Its name.
        zones: The zones it is reached from.
        zone_key: The label that names the zones.
        terms: Further ways to reach it.
        driver: The CSI driver that serves it.
        in_tree: Whether it is written in the old way, as an EBS volume without a driver.
        claim: Namespace and name of the claim that it is bound to.
    """
    found = tuple(terms)
    if zoned := tuple(zones):
        found = (node_term(expression(zone_key, "In", *zoned)), *found)
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            node_affinity=VolumeNodeAffinity(required=NodeSelector(node_selector_terms=found))
            if found
            else None,
            csi=None if in_tree else CSIVolumeSource(driver=driver, volume_handle=f"vol-{name}"),
            aws_elastic_block_store=AWSElasticBlockStoreSource(volume_id=f"vol-{name}") if in_tree else None,
            claim_ref=None if claim is None else ClaimReference(namespace=claim[0], name=claim[1]),
        ),
    )
