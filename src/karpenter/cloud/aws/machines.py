# SPDX-License-Identifier: Apache-2.0
"""An instance of EC2 as the node that it is or will be: labels, annotations, resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.instances import Instance
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources

__all__ = ["machine_annotations", "machine_labels", "machine_resources"]


def machine_labels(instance: Instance, kind: InstanceType | None) -> dict[str, str]:
    """Return the labels of an instance's node: what the instance says, and with its type all that follows from it."""
    told = {
        labels.INSTANCE_TYPE: instance.instance_type,
        labels.ZONE: instance.zone,
        labels.CAPACITY_TYPE: instance.capacity_type,
        labels.ZONE_ID: instance.zone_id,
        labels.PLACEMENT_GROUP_ID: instance.placement_group_id,
        labels.PLACEMENT_GROUP_PARTITION: instance.partition,
        labels.INSTANCE_TENANCY: instance.tenancy,
        labels.NODEPOOL: instance.tags.get(labels.NODEPOOL_TAG, ""),
        labels.EC2NODECLASS: instance.tags.get(labels.EC2NODECLASS_TAG, ""),
    }
    found = {key: value for key, value in told.items() if value}
    if instance.capacity_type == labels.RESERVED:
        found[labels.CAPACITY_RESERVATION_ID] = instance.reservation_id
    if kind is None:
        return found
    if not instance.partition and any(
        labels.PLACEMENT_GROUP_PARTITION in each.labels for each in kind.offerings
    ):
        # EC2 has chosen one and tells it only once the instance is described: filled in when the node registers.
        found[labels.PLACEMENT_GROUP_PARTITION] = ""
    bought = next((each for each in kind.offerings if _is_offer(instance, each)), None)
    more = {} if bought is None else bought.labels
    # The tenancy and the partition of the offering are only what was possible; the instance says what it is.
    settled = {key: more[key] for key in (labels.ZONE_ID, *_RESERVATION_LABELS) if key in more}
    return {**kind.labels, **settled, **found}


_RESERVATION_LABELS: Final = (labels.CAPACITY_RESERVATION_TYPE, labels.CAPACITY_RESERVATION_INTERRUPTIBLE)


def _is_offer(instance: Instance, offering: Offering) -> bool:
    return (
        offering.zone == instance.zone
        and offering.capacity_type == instance.capacity_type
        and (instance.capacity_type != labels.RESERVED or offering.reservation_id == instance.reservation_id)
    )


def machine_annotations(node_class: EC2NodeClass) -> dict[str, str]:
    """Return what later tells whether an instance still equals its node class."""
    there = node_class.metadata.annotations
    profile = node_class.spec.instance_profile or node_class.status.instance_profile
    told = {
        labels.EC2NODECLASS_HASH: there.get(labels.EC2NODECLASS_HASH, ""),
        labels.EC2NODECLASS_HASH_VERSION: there.get(labels.EC2NODECLASS_HASH_VERSION, ""),
        labels.INSTANCE_PROFILE_NAME: profile,
    }
    return {key: value for key, value in told.items() if value}


def machine_resources(
    amounts: Mapping[str, int], node_class: EC2NodeClass | None, claim: NodeClaim | None
) -> dict[str, int]:
    """Leave out EFA devices that were not asked for: the instance is launched without them."""
    asked = claim is not None and labels.EFA in Resources.parse(claim.spec.resources.requests)
    configured = node_class is not None and bool(node_class.spec.network_interfaces)
    return {name: amount for name, amount in amounts.items() if name != labels.EFA or asked or configured}
