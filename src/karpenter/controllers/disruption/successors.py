# SPDX-License-Identifier: Apache-2.0
"""Pods that take the place of evicted ones go where the plan has room for them.

When a node is drained, the controllers of its pods make new ones. Each is promised to the node that its predecessor
was planned onto, and nominated to it as soon as it is seen; the scheduler, if it has not bound it by then, looks there
first. A successor is known by its controller; one of a StatefulSet also by its name. Where a successor ends up is
counted: a plan that is not followed is a plan that saves less.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from karpenter.api.core import Pod
from karpenter.kit.clock import Clock
from karpenter.kube import Change
from karpenter.model.pods import is_active
from karpenter.observe import Metrics
from karpenter.state import Cluster

__all__ = ["Successors"]

# A successor that the scheduler has not bound by then is an ordinary pod that waits.
_PROMISED_S: Final = 60.0
# One that the scheduler finds no place for: room may still come with a pod that ends, but not for long.
_REFUSED_S: Final = 5.0
# A controller that has made no successor by then makes none: the workload has fewer replicas now.
_EXPECTED_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Place:
    """Room that is kept for the successor of a pod."""

    uid: str
    name: str
    member: str
    until: float


class Successors:
    """Knows who is expected where; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        clock: Clock,
        nominate: Callable[[Collection[str]], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._clock = clock
        self._nominate = nominate
        self._places: dict[str, list[_Place]] = {}
        self._planned: dict[str, str] = {}
        self._to_tell: set[str] = set()
        self._arrived = asyncio.Event()
        cluster.informers.pods.on_change(self._pod_changed)

    async def run(self) -> None:
        """Nominates successors as they appear, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            members, self._to_tell = self._to_tell, set()
            await self._nominate(members)

    def expect(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """Keeps room for the successors of pods, each with the member that has it."""
        now = self._clock.monotonic()
        for owner in list(self._places):
            kept = [place for place in self._places[owner] if place.until > now]
            if kept:
                self._places[owner] = kept
            else:
                del self._places[owner]
        for pod, member in pods:
            owner = _owner(pod)
            if owner:
                place = _Place(pod.metadata.uid, pod.metadata.name, member, now + _EXPECTED_S)
                self._places.setdefault(owner, []).append(place)

    def on_the_way(self, node: str) -> int:
        """Counts the successors that a node has room for: those that are to be made, and those not bound yet."""
        member = self._cluster.member(node)
        names = {
            node,
            member.claim.metadata.name if member is not None and member.claim is not None else node,
        }
        now = self._clock.monotonic()
        to_come = sum(
            place.member in names and place.until > now and self._is_free(place)
            for places in self._places.values()
            for place in places
        )
        return to_come + sum(planned in names for planned in self._planned.values())

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is None:
            self._planned.pop(change.object.metadata.uid, None)
        elif pod.spec.node_name:
            self._landed(pod)
        elif change.old is None and is_active(pod):
            self._appeared(pod)
        elif _is_refused(pod) and not (change.old is not None and _is_refused(change.old)):
            self._was_refused(pod)

    def _appeared(self, pod: Pod) -> None:
        places = self._places.get(_owner(pod), [])
        now = self._clock.monotonic()
        free = [place for place in places if place.until > now and self._is_free(place)]
        if not free:
            return
        # Pods of a StatefulSet keep their names; for others any place will do.
        chosen = next((place for place in free if place.name == pod.metadata.name), free[0])
        places.remove(chosen)
        self._cluster.nominations.withdraw(chosen.uid)
        self._cluster.nominations.promise([pod.metadata.uid], chosen.member, _PROMISED_S)
        self._planned[pod.metadata.uid] = chosen.member
        self._to_tell.add(chosen.member)
        self._arrived.set()

    def _was_refused(self, pod: Pod) -> None:
        """Lets the promise to a pod end soon: others have come to where it was to go."""
        planned = self._planned.get(pod.metadata.uid)
        if planned and self._cluster.nominations.member_of(pod.metadata.uid) == planned:
            self._cluster.nominations.promise([pod.metadata.uid], planned, _REFUSED_S)

    def _is_free(self, place: _Place) -> bool:
        """Tells whether the predecessor is on its way out or gone."""
        return all(not is_active(pod) for pod in self._cluster.informers.pods.by("uid", place.uid))

    def _landed(self, pod: Pod) -> None:
        planned = self._planned.pop(pod.metadata.uid, None)
        if planned is None:
            return
        member = self._cluster.member(planned)
        names = {planned, member.name if member is not None else planned}
        outcome = "planned" if pod.spec.node_name in names else "elsewhere"
        self._metrics.placements.labels(outcome).inc()


def _is_refused(pod: Pod) -> bool:
    return any(each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions)


def _owner(pod: Pod) -> str:
    return next((each.uid for each in pod.metadata.owner_references if each.controller), "")
