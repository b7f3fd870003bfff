# SPDX-License-Identifier: Apache-2.0
"""When a pending pod was seen, decided on, planned, bound and ready, and what that comes to in metrics.

Only pods that were seen pending are measured: of one that ran before we did, the time is not known. Every replica
follows pods, but only the one that leads counts, or each pod would be counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from karpenter.api.conditions import READY
from karpenter.api.core import Pod
from karpenter.kit.clock import Clock
from karpenter.kube import Change
from karpenter.model.pods import is_terminal
from karpenter.observe import Metrics

__all__ = ["PodTimes", "Times"]

_SCHEDULED = "PodScheduled"


@dataclass(slots=True)
class Times:
    """What is known of a pod on its way; None for what has not happened."""

    pod: Pod
    seen_at: datetime | None = None
    decided_at: datetime | None = None
    planned_at: datetime | None = None
    is_bound: bool = False


class PodTimes:
    """The pods that are not ready yet.

    Args:
        metrics: Where durations go.
        clock: Their time.
        counts: Tells whether this replica counts now.
    """

    def __init__(self, metrics: Metrics, clock: Clock, counts: Callable[[], bool] = lambda: True) -> None:
        self._metrics = metrics
        self._clock = clock
        self._counts = counts
        self._times: dict[str, Times] = {}

    def __iter__(self) -> Iterator[Times]:
        """Yields what is known of each pod that is not ready yet."""
        return iter(tuple(self._times.values()))

    def seen(self, pods: Iterable[Pod]) -> None:
        """Notes that pods are to be decided on."""
        now = self._clock.now()
        for pod in pods:
            times = self._times.get(pod.metadata.uid)
            if times is not None and times.seen_at is None:
                times.seen_at = now

    def decided(self, placed: Iterable[Pod], refused: Iterable[Pod]) -> None:
        """Notes what a solve decided on pods."""
        now = self._clock.now()
        for pods, is_placed in ((placed, True), (refused, False)):
            for pod in pods:
                times = self._times.get(pod.metadata.uid)
                if times is not None:
                    self._decide(times, now)
                    times.planned_at = (times.planned_at or now) if is_placed else None

    def _decide(self, times: Times, now: datetime) -> None:
        if times.decided_at is None:
            times.decided_at = now
            if times.seen_at is not None and self._counts():
                self._metrics.pod_decision_seconds.observe(_seconds(times.seen_at, now))

    def changed(self, change: Change[Pod]) -> None:
        """Hears of a change of a pod."""
        uid, pod = change.object.metadata.uid, change.new
        if pod is None or is_terminal(pod):
            self._times.pop(uid, None)
            return
        times = self._times.get(uid)
        if times is None:
            if pod.status.phase != "Pending":
                return
            # A pod that is bound when it is first seen says nothing about how long that took.
            times = self._times[uid] = Times(pod, is_bound=bool(pod.spec.node_name))
        times.pod = pod
        if pod.spec.node_name and not times.is_bound:
            times.is_bound = True
            self._bound(times, _since(pod, _SCHEDULED) or self._clock.now())
        if (ready_at := _since(pod, READY)) is not None:
            self._ready(times, ready_at)
            del self._times[uid]

    def _bound(self, times: Times, at: datetime) -> None:
        if not self._counts():
            return
        born = times.pod.metadata.creation_timestamp
        if born is not None:
            self._metrics.pod_bound_seconds.observe(_seconds(born, at))
        if times.planned_at is not None:
            self._metrics.pod_planned_bound_seconds.observe(_seconds(times.planned_at, at))

    def _ready(self, times: Times, at: datetime) -> None:
        if not self._counts():
            return
        born = times.pod.metadata.creation_timestamp
        if born is not None:
            self._metrics.pod_startup_seconds.observe(_seconds(born, at))
        if times.planned_at is not None:
            self._metrics.pod_planned_startup_seconds.observe(_seconds(times.planned_at, at))


def _since(pod: Pod, condition: str) -> datetime | None:
    """Gives since when a condition holds; None if it does not."""
    for each in pod.status.conditions:
        if each.type == condition and each.status == "True":
            return each.last_transition_time
    return None


def _seconds(start: datetime, end: datetime) -> float:
    # The server writes whole seconds, so that an end may seem to be before its beginning.
    return max((end - start).total_seconds(), 0.0)
