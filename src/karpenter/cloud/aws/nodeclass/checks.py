# SPDX-License-Identifier: Apache-2.0
"""What can be said of a node class by reading it: its tags and its kubelet's settings.

The CRD refuses most of this when an object is written. It is checked again before anything is launched, because an
object may be older than the rule, and EC2 or a kubelet would say it later and worse. All that is wrong is told at once.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Final

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass, KubeletConfiguration
from karpenter.cloud.aws.amis.families import AL2023, CUSTOM, FamilyError, family_of
from karpenter.cloud.aws.fleet import CLAIM_UID_TAG, LAUNCH_TAG
from karpenter.cloud.aws.nodeclass.problems import Problem
from karpenter.errors import KarpenterError
from karpenter.kit.durations import parse_duration
from karpenter.kit.quantity import parse_value

__all__ = ["INVALID_KUBELET", "TAG_VALIDATION_FAILED", "kubelet_problem", "tag_problem"]

TAG_VALIDATION_FAILED: Final = "TagValidationFailed"
INVALID_KUBELET: Final = "InvalidKubeletConfiguration"

_RESTRICTED_TAGS: Final = (
    re.compile(rf"{re.escape(labels.CLUSTER_TAG_PREFIX.rstrip('/'))}.*"),
    re.compile(re.escape(labels.EKS_CLUSTER_NAME_TAG)),
    re.compile(re.escape(labels.NODEPOOL_TAG)),
    re.compile(re.escape(labels.NODECLAIM_TAG)),
    re.compile(re.escape(labels.EC2NODECLASS_TAG)),
    re.compile(re.escape(CLAIM_UID_TAG)),
    re.compile(re.escape(LAUNCH_TAG)),
)
_LONGEST_KEY: Final = 128
_LONGEST_VALUE: Final = 256
# EC2 takes 50 a resource; we add up to eight of our own.
_MOST_TAGS: Final = 42

_RESERVED_KEYS: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})
_SIGNALS: Final = frozenset(
    {
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "pid.available",
    }
)
_PERCENT: Final = re.compile(r"(\d{1,2}(\.\d{1,2})?|100(\.0{1,2})?)%")


def tag_problem(node_class: EC2NodeClass) -> Problem | None:
    """Return what is wrong with the tags that a node class puts on what is launched, or None."""
    wrong = list(_tags(node_class.spec.tags))
    if not wrong:
        return None
    return Problem(
        TAG_VALIDATION_FAILED,
        f"spec.tags: {'; '.join(wrong)}",
        "remove or shorten these tags; those of clusters, NodePools and NodeClaims are written by us",
    )


def _tags(tags: Mapping[str, str]) -> Iterator[str]:
    if len(tags) > _MOST_TAGS:
        yield f"{len(tags)} tags are more than the {_MOST_TAGS} that EC2 leaves beside our own"
    for key, value in sorted(tags.items()):
        if not key:
            yield "a tag has an empty key"
        elif any(pattern.fullmatch(key) for pattern in _RESTRICTED_TAGS):
            yield f"{key} is reserved"
        elif key.lower().startswith("aws:"):
            yield f"{key} begins with aws:, which AWS keeps for itself"
        if len(key) > _LONGEST_KEY or len(value) > _LONGEST_VALUE:
            yield f"{key[:40]} is longer than EC2 takes ({_LONGEST_KEY} for keys, {_LONGEST_VALUE} for values)"


def kubelet_problem(node_class: EC2NodeClass) -> Problem | None:
    """Return what is wrong with the kubelet's settings, by themselves or for the image family, or None."""
    kubelet = node_class.spec.kubelet
    if kubelet is None:
        return None
    try:
        family = family_of(node_class)
    except FamilyError:
        return None  # told by the condition of the images
    wrong = [*_values(kubelet), *_pairs(kubelet)]
    if family not in {AL2023, CUSTOM} and len(kubelet.cluster_dns) > 1:
        wrong.append(f"clusterDNS: {family.name} takes one address, not {len(kubelet.cluster_dns)}")
    if not wrong:
        return None
    return Problem(
        INVALID_KUBELET, f"spec.kubelet: {'; '.join(wrong)}", "correct these fields; nodes could not start"
    )


def _values(kubelet: KubeletConfiguration) -> Iterator[str]:
    for address in kubelet.cluster_dns:
        if not _is_address(address):
            yield f"clusterDNS: {address!r} is not an IP address"
    for name, number in (("maxPods", kubelet.max_pods), ("podsPerCore", kubelet.pods_per_core)):
        if number is not None and number < 0:
            yield f"{name}: {number} is negative"
    yield from _amounts("systemReserved", kubelet.system_reserved)
    yield from _amounts("kubeReserved", kubelet.kube_reserved)
    yield from _thresholds("evictionHard", kubelet.eviction_hard)
    yield from _thresholds("evictionSoft", kubelet.eviction_soft)
    for key, grace in sorted(kubelet.eviction_soft_grace_period.items()):
        if not _is_duration(grace):
            yield f"evictionSoftGracePeriod.{key}: {grace!r} is not a duration such as 1m30s"


def _amounts(name: str, amounts: Mapping[str, str]) -> Iterator[str]:
    for key, amount in sorted(amounts.items()):
        if key not in _RESERVED_KEYS:
            yield f"{name}: {key!r} is none of {', '.join(sorted(_RESERVED_KEYS))}"
        elif not _is_amount(amount):
            yield f"{name}.{key}: {amount!r} is not a quantity of zero or more"


def _thresholds(name: str, thresholds: Mapping[str, str]) -> Iterator[str]:
    for key, threshold in sorted(thresholds.items()):
        if key not in _SIGNALS:
            yield f"{name}: {key!r} is none of {', '.join(sorted(_SIGNALS))}"
        elif not _PERCENT.fullmatch(threshold) and not _is_amount(threshold):
            yield f"{name}.{key}: {threshold!r} is neither a percentage nor a quantity"


def _pairs(kubelet: KubeletConfiguration) -> Iterator[str]:
    for key in sorted(kubelet.eviction_soft.keys() ^ kubelet.eviction_soft_grace_period.keys()):
        yield f"evictionSoft and evictionSoftGracePeriod must both name {key}"
    high, low = kubelet.image_gc_high_threshold_percent, kubelet.image_gc_low_threshold_percent
    if high is not None and low is not None and high <= low:
        yield f"imageGCHighThresholdPercent ({high}) must be above imageGCLowThresholdPercent ({low})"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_amount(text: str) -> bool:
    try:
        return parse_value(text) >= 0
    except KarpenterError:
        return False


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except KarpenterError:
        return False
    return True
