# SPDX-License-Identifier: Apache-2.0
"""Which pods must leave a node, in which order, and which are past waiting: pure.

Pods leave in tiers, one after the other: ordinary pods, then those of DaemonSets, then critical ones, critical
DaemonSets last, so that what others depend on goes last. Within a tier each is evicted, and a budget that forbids it
is waited for. A deadline, where there is one, ends the waiting: as soon as a pod could no longer take its own grace
before it, the pod is deleted with what is left, whatever tier, budget or wish protects it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from karpenter.api import labels as names
from karpenter.api.core import Pod
from karpenter.kit.durations import later
from karpenter.model.pods import (
    do_not_disrupt,
    is_critical,
    is_daemon,
    is_mirror,
    is_terminal,
    is_terminating,
)
from karpenter.model.taints import tolerates

__all__ = ["Draining", "draining", "is_stuck", "must_leave"]

_DEFAULT_GRACE_S: Final = 30
# A kubelet that has not ended a pod so long after its time will not end it any more.
_STUCK_AFTER: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Draining:
    """What is to be done for a node now.

    Attributes:
        evict: Pods to ask the Eviction API for.
        force: Pods to delete, each with the seconds of grace it still gets.
        waiting: Every pod that must be gone before the node is drained.
        protected: Pods that ask not to be disturbed; they are waited for.
    """

    evict: tuple[Pod, ...] = ()
    force: tuple[tuple[Pod, int], ...] = ()
    waiting: tuple[Pod, ...] = ()
    protected: tuple[Pod, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to wait for."""
        return not self.waiting


def must_leave(pod: Pod, now: datetime) -> bool:
    """Tells whether a node is not drained while the pod is on it."""
    return (
        not is_terminal(pod)
        and not is_mirror(pod)
        and not tolerates(pod.spec.tolerations, names.DISRUPTED_TAINT)
        and not is_stuck(pod, now)
    )


def is_stuck(pod: Pod, now: datetime) -> bool:
    """Tells whether a pod should have ended long ago, so that its kubelet is gone."""
    ending = pod.metadata.deletion_timestamp
    return ending is not None and now > later(ending, _STUCK_AFTER)


def draining(pods: Iterable[Pod], now: datetime, deadline: datetime | None = None) -> Draining:
    """Decides what to do with the pods of a node that is to be drained."""
    waiting = tuple(pod for pod in pods if must_leave(pod, now))
    force = tuple(
        (pod, _grace_left(now, deadline))
        for pod in waiting
        if deadline is not None and _is_late(pod, now, deadline)
    )
    forced = {pod.metadata.uid for pod, _ in force}
    tiers: dict[int, list[Pod]] = {}
    for pod in waiting:
        tiers.setdefault(_tier(pod), []).append(pod)
    first = tiers[min(tiers)] if tiers else []
    leaving = [pod for pod in first if not is_terminating(pod) and pod.metadata.uid not in forced]
    protected = tuple(pod for pod in leaving if do_not_disrupt(pod, now).active)
    return Draining(
        evict=tuple(pod for pod in leaving if pod not in protected),
        force=force,
        waiting=waiting,
        protected=protected,
    )


def _tier(pod: Pod) -> int:
    return 2 * is_critical(pod) + is_daemon(pod)


def _is_late(pod: Pod, now: datetime, deadline: datetime) -> bool:
    """Tells whether the pod's grace would end after the deadline; one that ends in time is left to end."""
    if is_terminating(pod):
        return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_timestamp > deadline
    grace = pod.spec.termination_grace_period_seconds
    grace_s = _DEFAULT_GRACE_S if grace is None else grace
    return now > later(deadline, -grace_s)


def _grace_left(now: datetime, deadline: datetime | None) -> int:
    if deadline is None:
        return _DEFAULT_GRACE_S
    return max(int((deadline - now).total_seconds()), 1)
