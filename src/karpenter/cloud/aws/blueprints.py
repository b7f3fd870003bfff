# SPDX-License-Identifier: Apache-2.0
"""What each offering of a choice is launched with: image, user data, disks, network; grouped into launch templates.

Offerings share a template as long as nothing in it differs: image, number of pods, EFA devices, tenancy, partition,
reservation. A type for which the node class has no image is left out; if that leaves nothing, the node class is not
ready for this claim, and the error says which types it has no image for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from karpenter.api import labels
from karpenter.api.core.nodes import Taint
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.amis.images import ami_for
from karpenter.cloud.aws.blockdevices import block_device_mappings
from karpenter.cloud.aws.choice import Choice
from karpenter.cloud.aws.instancetypes.compatibility import PlacementGroup
from karpenter.cloud.aws.instancetypes.offerings import DEFAULT_TENANCY, TENANCIES
from karpenter.cloud.aws.launchtemplates import LaunchSpec
from karpenter.cloud.aws.userdata import Cluster, UserDataError, user_data
from karpenter.cloud.errors import LaunchError, NodeClassNotReadyError
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.requirements import Requirements
from karpenter.model.resources import PODS, Resources

__all__ = ["Blueprint", "Wish", "blueprints", "owner_tags", "wish_of"]


@dataclass(frozen=True)
class Wish:
    """What a claim wants launched; equal wishes may share one launch.

    The node class takes part by its identity and version, so that a changed class never joins the old one's launch.
    """

    requirements: Requirements
    requests: Resources
    node_labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]
    min_values_relaxed: bool
    price_overlaid: bool
    class_version: tuple[str, str, int, str]
    node_class: EC2NodeClass = field(compare=False)

    @property
    def nodepool(self) -> str:
        """The pool that the claim belongs to."""
        return dict(self.node_labels).get(labels.NODEPOOL, "")

    @property
    def without_requests(self) -> Wish:
        """The same wish, whatever the pods ask for."""
        return replace(self, requests=Resources())

    @property
    def tenancies(self) -> tuple[str, ...]:
        """The tenancies that will do, shared hardware first."""
        wanted = self.requirements.get(labels.INSTANCE_TENANCY)
        allowed = [each for each in TENANCIES if wanted is not None and wanted.has(each)]
        return tuple(allowed) or DEFAULT_TENANCY


def wish_of(claim: NodeClaim, node_class: EC2NodeClass) -> Wish:
    """Return what a claim wants, without anything that sets it apart from others that want the same.

    Raises:
        RequirementError: A requirement of the claim says nothing sensible.
        QuantityError: A request of the claim cannot be read.
    """
    meta = node_class.metadata
    return Wish(
        requirements=Requirements.from_expressions(claim.spec.requirements),
        requests=Resources.parse(claim.spec.resources.requests),
        node_labels=tuple(sorted(claim.metadata.labels.items())),
        taints=(*claim.spec.taints, *claim.spec.startup_taints),
        min_values_relaxed=claim.metadata.annotations.get(labels.MIN_VALUES_RELAXED) == "true",
        price_overlaid=labels.PRICE_OVERLAY_APPLIED in claim.metadata.annotations,
        class_version=(meta.name, meta.uid, meta.generation, meta.resource_version),
        node_class=node_class,
    )


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A launch template to be, and the offerings that are launched with it."""

    spec: LaunchSpec
    offers: tuple[tuple[InstanceType, Offering], ...]


def owner_tags(node_class: EC2NodeClass, cluster_name: str, nodepool: str) -> dict[str, str]:
    """Return the tags on everything that is launched; ours win over those of the node class."""
    return {
        **node_class.spec.tags,
        f"{labels.CLUSTER_TAG_PREFIX}{cluster_name}": "owned",
        labels.EKS_CLUSTER_NAME_TAG: cluster_name,
        labels.EC2NODECLASS_TAG: node_class.metadata.name,
        labels.NODEPOOL_TAG: nodepool,
    }


def blueprints(
    choice: Choice,
    wish: Wish,
    cluster: Cluster,
    *,
    group: PlacementGroup | None = None,
    uses_reservations: bool = True,
) -> tuple[Blueprint, ...]:
    """Return the launch templates of a launch, each with its offerings.

    Args:
        choice: The offerings.
        wish: What the claims want.
        cluster: The cluster that nodes join.
        group: The placement group of the node class.
        uses_reservations: Whether reserved capacity is handled at all (gate ReservedCapacity).

    Raises:
        NodeClassNotReadyError: The node class has no image for any of the types.
        LaunchError: User data cannot be made.
    """
    base = _base_spec(choice, wish, cluster, group, uses_reservations=uses_reservations)
    texts: dict[int, str] = {}
    found: dict[tuple[Any, ...], tuple[LaunchSpec, list[tuple[InstanceType, Offering]]]] = {}
    for candidate in choice.candidates:
        image = ami_for(wish.node_class.status.amis, candidate.kind.labels)
        if image is None:
            continue
        pods = candidate.kind.capacity.get(PODS, 0)
        if pods not in texts:
            texts[pods] = _user_data(wish, cluster, choice.capacity_type, pods)
        for offering in candidate.offerings:
            spec = replace(
                base, image_id=image.id, user_data=texts[pods], **_of_offer(wish, candidate.kind, offering)
            )
            key = (image.id, pods, spec.efa_count, spec.tenancy, spec.partition, spec.reservation_id)
            found.setdefault(key, (spec, []))[1].append((candidate.kind, offering))
    if not found:
        name = wish.node_class.metadata.name
        names = ", ".join(candidate.kind.name for candidate in choice.candidates[:5])
        raise NodeClassNotReadyError(
            name,
            "AMINotFound",
            f"no image of it runs on {names}",
            hint="add an image for their architecture to spec.amiSelectorTerms",
        )
    return tuple(Blueprint(spec, tuple(offers)) for spec, offers in found.values())


def _base_spec(
    choice: Choice, wish: Wish, cluster: Cluster, group: PlacementGroup | None, *, uses_reservations: bool
) -> LaunchSpec:
    node_class = wish.node_class
    spec = node_class.spec
    nitro_sandbox = wish.requirements.get(labels.NITRO_SANDBOX)
    return LaunchSpec(
        image_id="",
        user_data="",
        security_group_ids=tuple(each.id for each in node_class.status.security_groups),
        block_devices=tuple(block_device_mappings(node_class)),
        instance_profile=spec.instance_profile or node_class.status.instance_profile,
        tags=owner_tags(node_class, cluster.name, wish.nodepool),
        metadata=spec.metadata_options,
        detailed_monitoring=bool(spec.detailed_monitoring),
        public_ip=spec.associate_public_ip_address,
        ip_prefix_count=spec.ip_prefix_count,
        ipv6=cluster.ip_family == "ipv6",
        network_interfaces=spec.network_interfaces,
        connection_tracking=spec.connection_tracking,
        nested_virtualization=spec.cpu_options.nested_virtualization if spec.cpu_options else "",
        placement_group_id=group.id if group else "",
        enclave=nitro_sandbox is not None and nitro_sandbox.has("true") and not nitro_sandbox.absence,
        capacity_type=choice.capacity_type,
        reservation_type="capacity-block" if choice.reservation_kind == "capacity-block" else "default",
        interruptible=choice.reservation_kind == "interruptible",
        keeps_off_reservations=uses_reservations,
    )


def _of_offer(wish: Wish, kind: InstanceType, offering: Offering) -> Mapping[str, Any]:
    partition = offering.labels.get(labels.PLACEMENT_GROUP_PARTITION, "")
    tenancy = offering.labels.get(labels.INSTANCE_TENANCY, "default")
    return {
        "efa_count": kind.capacity.get(labels.EFA, 0) if wish.requests[labels.EFA] else 0,
        "tenancy": "" if tenancy == "default" else tenancy,
        "partition": int(partition) if partition else None,
        "reservation_id": offering.reservation_id,
    }


def _user_data(wish: Wish, cluster: Cluster, capacity_type: str, pods: int) -> str:
    told = {**dict(wish.node_labels), labels.CAPACITY_TYPE: capacity_type}
    try:
        return user_data(cluster, wish.node_class, labels=told, taints=wish.taints, max_pods=pods).base64
    except UserDataError as error:
        raise LaunchError(error.message, reason=error.reason, hint=error.hint) from error
