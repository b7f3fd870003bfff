# SPDX-License-Identifier: Apache-2.0
"""The scheduler at work: hears of changes, decides for one pod at a time, and carries decisions out in the background.

A pod that was given a node counts there at once, before the API server has said so; if binding fails it is taken back
and tried again. A pod whose volumes wait for a node is bound only after they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from karpenter.kit.clock import Clock
from karpenter.sandbox.scheduler.cluster import Cluster
from karpenter.sandbox.scheduler.deciding import Decider, Placed, Refused
from karpenter.sandbox.scheduler.matching import Wire
from karpenter.sandbox.scheduler.pods import PodInfo, read_pod
from karpenter.sandbox.scheduler.queueing import SchedulingQueue
from karpenter.sandbox.scheduler.speaking import Spokesman, Word
from karpenter.sandbox.scheduler.storage import is_bound

__all__ = ["Hands", "NotCarriedOutError", "Pace", "Scheduler"]

_NAME: Final = "default-scheduler"
_FLUSH_EVERY_S: Final = 30.0
_VOLUME_POLL_S: Final = 0.05
_ROOM: Final = frozenset(
    {"NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity", "VolumeBinding"}
)
_COMPANY: Final = frozenset({"PodTopologySpread", "InterPodAffinity"})
_STORAGE: Final = frozenset({"VolumeBinding"})


class NotCarriedOutError(Exception):
    """A decision that the API server did not accept; the pod is tried again."""


class Hands(Protocol):
    """How decisions are carried out."""

    async def bind(self, pod: Wire, node: str) -> None:
        """Binds a pod to a node; NotCarriedOutError if that is refused."""
        ...

    async def refuse(self, pod: Wire, message: str, nominated: str | None) -> None:
        """Says on the pod why it has no node; a nomination that is not None replaces the one it has."""
        ...

    def tell_refused(self, pod: Wire, message: str) -> None:
        """Tells of a refusal in an event."""
        ...

    async def choose_node(self, claim: Wire, node: str) -> None:
        """Says for which node a claim's volume is to be made; NotCarriedOutError if that is refused."""
        ...

    async def evict(self, victim: Wire, by: Wire, node: str) -> None:
        """Removes a pod to make room for another."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient the scheduler is, in seconds."""

    first_backoff_s: float = 1.0
    longest_backoff_s: float = 10.0
    flush_s: float = 300.0
    bind_timeout_s: float = 600.0


class Scheduler:
    """Gives pods their nodes."""

    def __init__(
        self, hands: Hands, clock: Clock, pace: Pace, *, tell: Callable[[str], None], minor: int = 33
    ) -> None:
        self.cluster = Cluster()
        self.placed = 0
        self.refused = 0
        self._hands = hands
        self._clock = clock
        self._pace = pace
        self._tell = tell
        self._decider = Decider(self.cluster, minor=minor)
        self._queue = SchedulingQueue(
            clock,
            first_backoff_s=pace.first_backoff_s,
            longest_backoff_s=pace.longest_backoff_s,
            flush_s=pace.flush_s,
        )
        self._assumed: dict[str, str] = {}
        self._spokesman = Spokesman(clock, self._say)
        self._busy: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Counts the pods that wait for a node."""
        return len(self._queue)

    # What happens.

    def pod_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of a pod."""
        if new is None:
            if old is not None:
                self._pod_gone(old["metadata"]["uid"])
            return
        pod = read_pod(new)
        if pod.node:
            self._pod_has_node(pod)
        elif pod.uid in self._assumed:
            return
        elif pod.scheduler != _NAME or pod.gated or pod.terminating or pod.terminal:
            self._queue.drop(pod.uid)
            self.cluster.unpromise(pod.uid)
        else:
            self.cluster.promise(pod)
            self._queue.put(pod)

    def _pod_has_node(self, pod: PodInfo) -> None:
        self._queue.drop(pod.uid)
        self.cluster.unpromise(pod.uid)
        known = self.cluster.pods.get(pod.uid)
        self._assumed.pop(pod.uid, None)
        self._spokesman.forget(pod.uid)
        self.cluster.set_pod(pod)
        if known is not None and (pod.terminal or pod.terminating != known.terminating):
            self._queue.move(_ROOM)
        elif known is None:
            self._queue.move(_COMPANY)

    def _pod_gone(self, uid: str) -> None:
        self._queue.drop(uid)
        self.cluster.unpromise(uid)
        self._assumed.pop(uid, None)
        self._spokesman.forget(uid)
        if self.cluster.drop_pod(uid) is not None:
            self._queue.move(_ROOM)

    def node_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of a node."""
        if new is None:
            if old is not None:
                self.cluster.drop_node(old["metadata"]["name"])
                self._queue.move(_COMPANY)
        elif self.cluster.set_node(new):
            self._queue.move()

    def namespace_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of a namespace."""
        known = new or old
        if known is not None:
            labels = None if new is None else new["metadata"].get("labels") or {}
            self.cluster.set_namespace(known["metadata"]["name"], labels)
            self._queue.move(_COMPANY)

    def claim_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of a claim."""
        self._stored(self.cluster.storage.claims, old, new, _key)

    def volume_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of a volume."""
        self._stored(self.cluster.storage.volumes, old, new, _name)

    def class_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of a storage class."""
        self._stored(self.cluster.storage.classes, old, new, _name)

    def csi_node_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of a node's drivers."""
        known = new or old
        if known is not None:
            self.cluster.storage.set_csi_node(known["metadata"]["name"], new)
            self._storage_moved()

    def attachment_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of an attachment."""
        known = new or old
        if known is not None:
            self.cluster.storage.set_attachment(known["metadata"]["name"], new)
            self._storage_moved()

    def budget_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Hears of a disruption budget."""
        self._put(self.cluster.budgets, old, new, _key)

    def _stored(
        self, holder: dict[Any, Wire], old: Wire | None, new: Wire | None, key: Callable[[Wire], Any]
    ) -> None:
        self._put(holder, old, new, key)
        self._storage_moved()

    def _put(
        self, holder: dict[Any, Wire], old: Wire | None, new: Wire | None, key: Callable[[Wire], Any]
    ) -> None:
        if new is not None:
            holder[key(new)] = new
        elif old is not None:
            holder.pop(key(old), None)

    def _storage_moved(self) -> None:
        self.cluster.touch()
        self._queue.move(_STORAGE)

    # What is done about it.

    async def run(self) -> None:
        """Schedules until cancelled."""
        flushed = self._clock.monotonic()
        try:
            while True:
                pod = self._queue.pop()
                self._spokesman.pump()
                if pod is None:
                    await self._queue.wait()
                else:
                    self._handle(pod)
                    # Others must run too: what they hear of may be what the next pod needs.
                    await asyncio.sleep(0)
                if self._clock.monotonic() - flushed > _FLUSH_EVERY_S:
                    flushed = self._clock.monotonic()
                    self._queue.flush()
        finally:
            for task in self._busy:
                task.cancel()

    def _handle(self, pod: PodInfo) -> None:
        decision = self._decider.decide(pod)
        if isinstance(decision, Placed):
            self._assume(pod, decision.node)
            self._background(self._bind(pod, decision.node))
            return
        self.refused += 1
        self._queue.refuse(pod, decision.plugins)
        if decision.room is not None:
            self._background(self._make_room(pod, decision))
            return
        nominated = "" if decision.gives_up_promise and pod.nominated else None
        self._spokesman.refused(pod, decision.message, nominated)

    def _assume(self, pod: PodInfo, node: str) -> None:
        self._queue.drop(pod.uid)
        self._spokesman.forget(pod.uid)
        self.cluster.unpromise(pod.uid)
        self._assumed[pod.uid] = node
        self.cluster.set_pod(replace(pod, node=node))

    def _say(self, word: Word) -> None:
        self._background(self._say_it(word))

    async def _say_it(self, word: Word) -> None:
        try:
            self._hands.tell_refused(word.pod.wire, word.message)
            if word.is_news:
                await self._hands.refuse(word.pod.wire, word.message, word.nominated)
        finally:
            self._spokesman.done()

    async def _bind(self, pod: PodInfo, node: str) -> None:
        try:
            await self._settle_volumes(pod, node)
            if self._assumed.get(pod.uid) == node:
                await self._hands.bind(pod.wire, node)
                self.placed += 1
        except NotCarriedOutError as refused:
            self._tell(f"scheduler: {pod.namespace}/{pod.name} was not bound to {node}: {refused}")
            if self._assumed.pop(pod.uid, None) is not None:
                self.cluster.drop_pod(pod.uid)
                self._queue.retry(pod)
        finally:
            for use in pod.shape.claims:
                self.cluster.storage.assumed.pop((pod.namespace, pod.claim_name(use)), None)

    async def _settle_volumes(self, pod: PodInfo, node: str) -> None:
        storage = self.cluster.storage
        keys = [(pod.namespace, pod.claim_name(use)) for use in pod.shape.claims]
        waiting = [key for key in keys if not is_bound(storage.claims[key])]
        for key in waiting:
            storage.assumed[key] = node
        for key in waiting:
            await self._hands.choose_node(storage.claims[key], node)
        deadline = self._clock.monotonic() + self._pace.bind_timeout_s
        while any(key not in storage.claims or not is_bound(storage.claims[key]) for key in waiting):
            if self._clock.monotonic() > deadline or pod.uid not in self._assumed:
                raise NotCarriedOutError("its volumes were not bound in time")
            await self._clock.sleep(_VOLUME_POLL_S)

    async def _make_room(self, pod: PodInfo, decision: Refused) -> None:
        assert decision.room is not None  # noqa: S101 - the caller looked
        node = decision.room.node.name
        await self._hands.refuse(pod.wire, decision.message, node)
        self._hands.tell_refused(pod.wire, decision.message)
        for victim in decision.room.victims:
            await self._hands.evict(victim.wire, pod.wire, node)

    def _background(self, work: Any) -> None:
        task = asyncio.ensure_future(self._guard(work))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _guard(self, work: Any) -> None:
        try:
            await work
        except NotCarriedOutError as refused:
            self._tell(f"scheduler: {refused}")


def _key(wire: Wire) -> tuple[str, str]:
    return wire["metadata"]["namespace"], wire["metadata"]["name"]


def _name(wire: Wire) -> str:
    found: str = wire["metadata"]["name"]
    return found
