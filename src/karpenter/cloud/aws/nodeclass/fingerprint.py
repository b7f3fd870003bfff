# SPDX-License-Identifier: Apache-2.0
"""A fingerprint of what a node class says of its instances: when it changes, instances made before have drifted.

It covers every field that ends up in an instance, but for what is compared with each instance instead: the selectors
of subnets, security groups, images and reservations, whose findings are compared. Of the image family the one that is
meant counts, whether named or implied by an alias. The certificate of the cluster counts too: a node with an old one
cannot be told a new one. Lists whose order means nothing are sorted, a field left out equals one at its default, and
amounts and lengths of time count by what they mean: 20Gi is 20480Mi, and 1m is 60s.

The version names this way of computing it. A claim that carries another version, such as the Go Karpenter's, has not
drifted: its fingerprint is written anew, unless it had drifted already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from karpenter.api import conditions, labels
from karpenter.api.base import to_wire
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.amis.families import family_of
from karpenter.kit.durations import DurationError, parse_duration
from karpenter.kit.quantity import QuantityError, parse_quantity

__all__ = ["NODE_CLASS_HASH_VERSION", "claim_annotations", "hash_annotations", "node_class_hash"]

NODE_CLASS_HASH_VERSION: Final = "py2"

_COMPARED_OTHERWISE: Final = (
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "amiSelectorTerms",
    "capacityReservationSelectorTerms",
    "amiFamily",
    "ipPrefixCount",
)
_UNORDERED: Final = ("blockDeviceMappings", "networkInterfaces")
_AMOUNTS: Final = ("systemReserved", "kubeReserved", "evictionHard", "evictionSoft")


def node_class_hash(node_class: EC2NodeClass, *, ca_bundle: str = "") -> str:
    """Return the fingerprint of a node class, as a decimal number like Karpenter's.

    Raises:
        FamilyError: The node class names a family that does not exist.
    """
    spec: dict[str, Any] = _without_empty(to_wire(node_class.spec))
    for name in _COMPARED_OTHERWISE:
        spec.pop(name, None)
    if not spec.get("detailedMonitoring"):
        spec.pop("detailedMonitoring", None)
    for device in spec.get("blockDeviceMappings", ()):
        if "volumeSize" in device.get("ebs", {}):
            device["ebs"]["volumeSize"] = _amount(device["ebs"]["volumeSize"])
    if "kubelet" in spec:
        spec["kubelet"] = _kubelet(spec["kubelet"])
    for name in _UNORDERED:
        if name in spec:
            spec[name] = sorted(spec[name], key=lambda each: msgspec.json.encode(each, order="deterministic"))
    covered = {"spec": spec, "family": family_of(node_class).name, "caBundle": ca_bundle}
    canonical = msgspec.json.encode(covered, order="deterministic")
    return str(int.from_bytes(hashlib.blake2b(canonical, digest_size=8).digest(), "big"))


def _kubelet(kubelet: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a kubelet with every value as it is meant, however it was written."""
    meant = dict(kubelet)
    for name in _AMOUNTS:
        if name in meant:
            meant[name] = {key: _amount(text) for key, text in meant[name].items()}
    graces = "evictionSoftGracePeriod"
    if graces in meant:
        meant[graces] = {key: _length(text) for key, text in meant[graces].items()}
    if "clusterDNS" in meant:
        meant["clusterDNS"] = sorted(meant["clusterDNS"])
    return meant


def _amount(text: str) -> str:
    """Return a quantity or a percentage in one spelling; text that does not parse is compared as it is written."""
    try:
        if text.endswith("%"):
            return f"{float(text.removesuffix('%')):g}%"
        return str(parse_quantity(text).nano)
    except (ValueError, QuantityError):
        return text


def _length(text: str) -> str:
    try:
        return str(parse_duration(text).nanoseconds)
    except DurationError:
        return text


def _without_empty(value: Any) -> Any:
    """Leave out objects in which everything is at its default: whether they are written means nothing."""
    if not isinstance(value, dict):
        return value
    inner = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}


def hash_annotations(node_class: EC2NodeClass, *, ca_bundle: str = "") -> Mapping[str, str]:
    """Return the annotations that a node class is to carry; claims copy them when they are launched."""
    return {
        labels.EC2NODECLASS_HASH: node_class_hash(node_class, ca_bundle=ca_bundle),
        labels.EC2NODECLASS_HASH_VERSION: NODE_CLASS_HASH_VERSION,
    }


def claim_annotations(claim: NodeClaim, annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Return what to write to a claim whose fingerprint is of another version; nothing for one of ours.

    A claim that has drifted keeps its fingerprint, so that a new version does not hide the drift.
    """
    version = annotations[labels.EC2NODECLASS_HASH_VERSION]
    if claim.metadata.annotations.get(labels.EC2NODECLASS_HASH_VERSION) == version:
        return {}
    drifted = any(
        each.type == conditions.DRIFTED and each.status == "True" for each in claim.status.conditions
    )
    return {labels.EC2NODECLASS_HASH_VERSION: version} if drifted else dict(annotations)
