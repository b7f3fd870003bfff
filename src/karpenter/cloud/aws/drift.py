# SPDX-License-Identifier: Apache-2.0
"""Why an instance no longer equals its node class, the first reason in Karpenter's order.

Static fields by their fingerprint; then the image of its instance type, its security groups, its subnet, its capacity
reservation, its placement group. ``first_drift`` is pure. What is not known is never drift: a class that has found
nothing yet, an instance that EC2 does not show in full yet, fingerprints of different versions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.amis.images import ami_for
from karpenter.cloud.aws.instances import Instance
from karpenter.cloud.aws.instancetypes.compatibility import PlacementGroup

__all__ = [
    "AMI_DRIFT",
    "CAPACITY_RESERVATION_DRIFT",
    "NODE_CLASS_DRIFT",
    "PLACEMENT_GROUP_DRIFT",
    "SECURITY_GROUP_DRIFT",
    "SUBNET_DRIFT",
    "Drift",
    "Drifted",
    "TypeLabels",
    "first_drift",
]

NODE_CLASS_DRIFT: Final = "NodeClassDrift"
AMI_DRIFT: Final = "AMIDrift"
SECURITY_GROUP_DRIFT: Final = "SecurityGroupDrift"
SUBNET_DRIFT: Final = "SubnetDrift"
CAPACITY_RESERVATION_DRIFT: Final = "CapacityReservationDrift"
PLACEMENT_GROUP_DRIFT: Final = "PlacementGroupDrift"

# The labels of an instance type, which images are chosen by; None for a type that nobody knows.
TypeLabels: TypeAlias = Callable[[str, EC2NodeClass], Mapping[str, str] | None]


@dataclass(frozen=True, slots=True)
class Drifted:
    """Why an instance has drifted: the reason, and what differs."""

    reason: str
    message: str


def first_drift(
    claim: NodeClaim,
    node_class: EC2NodeClass,
    instance: Instance,
    *,
    type_labels: Mapping[str, str] | None,
    group: PlacementGroup | None,
) -> Drifted | None:
    """Return the first thing in which an instance differs from its node class, or None.

    Args:
        claim: The claim, with the fingerprint that it was launched with.
        node_class: The class, with what it has found.
        instance: The instance as EC2 describes it.
        type_labels: The labels of its instance type.
        group: The placement group that the class's selector has found.
    """
    checks = (
        _static(claim, node_class),
        _image(node_class, instance, type_labels),
        _groups(node_class, instance),
        _subnet(node_class, instance),
        _reservation(node_class, instance),
        _placement(node_class, instance, group),
    )
    return next((found for found in checks if found is not None), None)


def _static(claim: NodeClaim, node_class: EC2NodeClass) -> Drifted | None:
    ours, theirs = node_class.metadata.annotations, claim.metadata.annotations
    keys = (labels.EC2NODECLASS_HASH, labels.EC2NODECLASS_HASH_VERSION)
    if any(not each.get(key) for each in (ours, theirs) for key in keys):
        return None
    hash_key, version_key = keys
    if ours[version_key] != theirs[version_key] or ours[hash_key] == theirs[hash_key]:
        return None
    return Drifted(
        NODE_CLASS_DRIFT,
        f"EC2NodeClass {node_class.metadata.name} was changed since {claim.metadata.name} was launched",
    )


def _image(
    node_class: EC2NodeClass, instance: Instance, type_labels: Mapping[str, str] | None
) -> Drifted | None:
    amis = node_class.status.amis
    if not amis or not instance.image_id or type_labels is None:
        return None
    wanted = ami_for(amis, type_labels)
    if wanted is not None and wanted.id == instance.image_id:
        return None
    now = f"{wanted.id} is chosen for it" if wanted else "no image of the class is for it"
    return Drifted(
        AMI_DRIFT, f"{instance.id} ({instance.instance_type}) runs image {instance.image_id}; now {now}"
    )


def _groups(node_class: EC2NodeClass, instance: Instance) -> Drifted | None:
    wanted = frozenset(each.id for each in node_class.status.security_groups)
    if not wanted or not instance.security_group_ids or wanted == instance.security_group_ids:
        return None
    return Drifted(
        SECURITY_GROUP_DRIFT,
        f"{instance.id} has security groups {_listed(instance.security_group_ids)}; now {_listed(wanted)}",
    )


def _subnet(node_class: EC2NodeClass, instance: Instance) -> Drifted | None:
    wanted = frozenset(each.id for each in node_class.status.subnets)
    if not wanted or not instance.subnet_id or instance.subnet_id in wanted:
        return None
    return Drifted(SUBNET_DRIFT, f"{instance.id} is in {instance.subnet_id}, which is not selected any more")


def _reservation(node_class: EC2NodeClass, instance: Instance) -> Drifted | None:
    if instance.capacity_type != labels.RESERVED or not instance.reservation_id:
        return None
    if any(each.id == instance.reservation_id for each in node_class.status.capacity_reservations):
        return None
    return Drifted(
        CAPACITY_RESERVATION_DRIFT,
        f"{instance.id} is in reservation {instance.reservation_id}, which is not selected any more",
    )


def _placement(node_class: EC2NodeClass, instance: Instance, group: PlacementGroup | None) -> Drifted | None:
    if node_class.spec.placement_group_selector is not None and group is None:
        return None  # not found yet
    wanted = group.id if group is not None else ""
    if instance.launched_at is None or instance.placement_group_id == wanted:
        return None  # one that EC2 has not described yet shows no group
    return Drifted(
        PLACEMENT_GROUP_DRIFT,
        f"{instance.id} is in placement group {instance.placement_group_id or 'none'}; now {wanted or 'none'}",
    )


def _listed(ids: frozenset[str]) -> str:
    return ", ".join(sorted(ids))


class Drift:
    """The check that a provider makes; see ``provider.DriftCheck``."""

    def __init__(
        self,
        *,
        type_labels: TypeLabels,
        group_of: Callable[[EC2NodeClass], PlacementGroup | None] = lambda _: None,
        reread: Callable[[str], Awaitable[Instance | None]],
    ) -> None:
        """Takes what it asks.

        Args:
            type_labels: Gives the labels of an instance type for a node class.
            group_of: Gives the placement group of a node class.
            reread: Reads an instance from EC2, past every cache.
        """
        self._type_labels = type_labels
        self._group_of = group_of
        self._reread = reread

    async def __call__(self, claim: NodeClaim, node_class: EC2NodeClass, instance: Instance) -> str:
        """Return the reason why an instance has drifted, or an empty text.

        Raises:
            AwsError: EC2 refuses to describe the instance again.
            AwsUnreachableError: EC2 did not answer.
        """
        found = await self.explain(claim, node_class, instance)
        return "" if found is None else found.reason

    async def explain(self, claim: NodeClaim, node_class: EC2NodeClass, instance: Instance) -> Drifted | None:
        """Return why an instance has drifted, with what differs; raises as a call does."""
        found = self._first(claim, node_class, instance)
        if found is None or found.reason != CAPACITY_RESERVATION_DRIFT:
            return found
        # An expired reservation lets its instances go; what was read a moment ago may not know.
        fresh = await self._reread(instance.id)
        return None if fresh is None else self._first(claim, node_class, fresh)

    def _first(self, claim: NodeClaim, node_class: EC2NodeClass, instance: Instance) -> Drifted | None:
        return first_drift(
            claim,
            node_class,
            instance,
            type_labels=self._type_labels(instance.instance_type, node_class),
            group=self._group_of(node_class),
        )
