# SPDX-License-Identifier: Apache-2.0
"""Small questions about one pod: must we find room for it, may we move it, and what does moving it cost.

Decides from the pod alone, and the time where one is passed in. It refuses nothing: an annotation that cannot
be read counts as not there, and the answer says so.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_BUFFER_FAKE_POD, DO_NOT_DISRUPT, POD_DELETION_COST
from karpenter.kit.durations import DurationError, parse_duration

__all__ = [
    "DoNotDisrupt",
    "do_not_disrupt",
    "eviction_cost",
    "is_active",
    "is_critical",
    "is_daemon",
    "is_mirror",
    "is_provisionable",
    "is_reschedulable",
    "is_terminal",
    "is_terminating",
    "stands_for_buffer",
]

_MIRROR: Final = "kubernetes.io/config.mirror"
_CRITICAL_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DELETION_COST_UNIT: Final = 2.0**27
_PRIORITY_UNIT: Final = 2.0**25
_LARGEST_COST: Final = 10.0


def is_provisionable(pod: Pod) -> bool:
    """Tells whether the pod waits for a node that does not exist yet.

    The scheduler has found no place for it, it is not about to push others out, and it does not come with a
    node of its own, as the pods of DaemonSets and kubelets do.
    """
    return (
        _is_unschedulable(pod)
        and not pod.spec.node_name
        and not pod.status.nominated_node_name
        and not is_daemon(pod)
        and not is_mirror(pod)
    )


def is_reschedulable(pod: Pod) -> bool:
    """Tells whether the pod, or its successor, needs another place when its node goes.

    A terminating pod of a StatefulSet does: its successor comes only when it is gone.
    """
    needed = is_active(pod) or (is_terminating(pod) and _is_owned_by(pod, "apps/v1", "StatefulSet"))
    return needed and not is_daemon(pod) and not is_mirror(pod)


def is_active(pod: Pod) -> bool:
    """Tells whether the pod runs or will run: neither over nor on its way out."""
    return not is_terminal(pod) and not is_terminating(pod)


def is_terminal(pod: Pod) -> bool:
    """Tells whether the pod is over, well or badly, and takes no more room."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_terminating(pod: Pod) -> bool:
    """Tells whether the pod has been asked to stop."""
    return pod.metadata.deletion_timestamp is not None


def is_daemon(pod: Pod) -> bool:
    """Tells whether the pod belongs to a DaemonSet."""
    return _is_owned_by(pod, "apps/v1", "DaemonSet")


def stands_for_buffer(pod: Pod) -> bool:
    """Tells whether a pod stands for a capacity buffer and does not exist."""
    return CAPACITY_BUFFER_FAKE_POD in pod.metadata.annotations


def is_mirror(pod: Pod) -> bool:
    """Tells whether the pod is a static one of the kubelet, which the API can neither move nor delete."""
    return _MIRROR in pod.metadata.annotations or _is_owned_by(pod, "v1", "Node")


def is_critical(pod: Pod) -> bool:
    """Tells whether the cluster or the node depends on the pod, so that it leaves last."""
    return pod.spec.priority_class_name in _CRITICAL_CLASSES


class DoNotDisrupt(msgspec.Struct, frozen=True, cache_hash=True):
    """What a pod's do-not-disrupt annotation means at one moment.

    Attributes:
        active: Whether the pod must be left in peace now.
        until: When that ends or ended; None where it has no end, or none is known yet.
        problem: Why the annotation could not be read and protects nothing, or empty.
    """

    active: bool = False
    until: datetime | None = None
    problem: str = ""


_UNPROTECTED: Final = DoNotDisrupt()


def do_not_disrupt(pod: Pod, now: datetime) -> DoNotDisrupt:
    """Reads the annotation: "true" protects for ever, a duration for that long after the pod's start.

    A pod that has not started yet is protected.
    """
    text = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    if text is None:
        return _UNPROTECTED
    if text == "true":
        return DoNotDisrupt(active=True)
    try:
        duration = parse_duration(text)
    except DurationError as error:
        return DoNotDisrupt(problem=f"{DO_NOT_DISRUPT}: {error.message}")
    if duration.nanoseconds <= 0:
        return DoNotDisrupt(problem=f'{DO_NOT_DISRUPT}: "{text}" is not positive')
    start = pod.status.start_time
    if start is None:
        return DoNotDisrupt(active=True)
    return DoNotDisrupt(active=not duration.has_elapsed(start, now), until=duration.ends(start))


def eviction_cost(pod: Pod) -> float:
    """Gives what evicting the pod costs, from -10 to 10; an ordinary pod costs 1.

    The pod-deletion-cost annotation and the priority move it; an annotation that is no number does not.
    """
    cost = 1.0
    annotation = pod.metadata.annotations.get(POD_DELETION_COST, "")
    if _NUMBER.fullmatch(annotation) is not None:
        cost += float(annotation) / _DELETION_COST_UNIT
    cost += (pod.spec.priority or 0) / _PRIORITY_UNIT
    return max(-_LARGEST_COST, min(_LARGEST_COST, cost))


def _is_unschedulable(pod: Pod) -> bool:
    return any(
        condition.type == "PodScheduled" and condition.reason == "Unschedulable"
        for condition in pod.status.conditions
    )


def _is_owned_by(pod: Pod, api_version: str, kind: str) -> bool:
    return any(
        owner.kind == kind and owner.api_version == api_version for owner in pod.metadata.owner_references
    )
