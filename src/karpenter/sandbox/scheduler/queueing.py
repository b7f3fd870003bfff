# SPDX-License-Identifier: Apache-2.0
"""Pods that wait for a node: who is next, who waits a little after a refusal, and who waits for something to change.

The most important pod comes first, then the one that waits longest. A refused pod comes back when something happened
that could change the answer of who refused it, but not before its back-off is over; and after some minutes in any case.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass
from enum import Enum

from karpenter.kit.clock import Clock
from karpenter.sandbox.scheduler.pods import PodInfo

__all__ = ["SchedulingQueue"]


class _Place(Enum):
    READY = "ready"
    RESTING = "resting"
    REFUSED = "refused"


@dataclass(slots=True, eq=False)
class _Entry:
    pod: PodInfo
    order: int
    place: _Place
    attempts: int = 0
    tried: float = 0.0
    plugins: frozenset[str] = frozenset()


class SchedulingQueue:
    """The pods that wait."""

    def __init__(
        self, clock: Clock, *, first_backoff_s: float, longest_backoff_s: float, flush_s: float
    ) -> None:
        self._clock = clock
        self._first_s = first_backoff_s
        self._longest_s = longest_backoff_s
        self._flush_s = flush_s
        self._entries: dict[str, _Entry] = {}
        # Those of them that were refused: every change asks them all, and most others are on their way already.
        self._refused: dict[str, _Entry] = {}
        self._ready: list[tuple[int, int, str]] = []
        self._resting: list[tuple[float, int, str]] = []
        self._order = 0
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, pod: PodInfo) -> None:
        """Adds a pod, or takes over its new state; one that changed what it asks for is tried again."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            self._order += 1
            self._entries[pod.uid] = entry = _Entry(pod, self._order, _Place.READY)
            self._push(entry)
            return
        old, entry.pod = entry.pod, pod
        changed = (old.shape, old.priority, old.nominated) != (pod.shape, pod.priority, pod.nominated)
        if entry.place is _Place.READY and old.priority != pod.priority:
            self._push(entry)
        elif entry.place is _Place.REFUSED and changed:
            self._come_back(entry)

    def drop(self, uid: str) -> None:
        """Forgets a pod."""
        self._entries.pop(uid, None)
        self._refused.pop(uid, None)

    def pop(self) -> PodInfo | None:
        """Gives the next pod and forgets it, or None if nobody is to be tried now."""
        self._wake_rested()
        while self._ready:
            _, order, uid = heapq.heappop(self._ready)
            entry = self._entries.get(uid)
            if entry is not None and entry.place is _Place.READY and entry.order == order:
                entry.attempts += 1
                entry.tried = self._clock.monotonic()
                entry.place = _Place.REFUSED
                self._refused[uid] = entry
                return entry.pod
        return None

    def refuse(self, pod: PodInfo, plugins: frozenset[str]) -> None:
        """Notes that no node would do, and who said so."""
        entry = self._entries.get(pod.uid)
        if entry is not None:
            entry.plugins = plugins
            entry.place = _Place.REFUSED
            self._refused[pod.uid] = entry

    def retry(self, pod: PodInfo) -> None:
        """Tries a pod again after its back-off: what was decided could not be carried out."""
        entry = self._entries.get(pod.uid)
        if entry is None:
            self._order += 1
            entry = self._entries[pod.uid] = _Entry(pod, self._order, _Place.REFUSED, attempts=1)
            entry.tried = self._clock.monotonic()
        self._come_back(entry)

    def move(self, plugins: frozenset[str] | None = None) -> None:
        """Brings back the pods that one of these refused; all with None."""
        for entry in tuple(self._refused.values()):
            if plugins is None or not entry.plugins or entry.plugins & plugins:
                self._come_back(entry)

    async def wait(self) -> None:
        """Waits until somebody may be there to be tried."""
        now = self._clock.monotonic()
        wait_s = min(self._resting[0][0] - now, 1.0) if self._resting else 1.0
        if wait_s <= 0 or self._ready:
            return
        self._wake.clear()
        sleeping = asyncio.ensure_future(self._clock.sleep(wait_s))
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()

    def flush(self) -> None:
        """Brings back those that were refused long ago."""
        now = self._clock.monotonic()
        for entry in tuple(self._refused.values()):
            if now - entry.tried >= self._flush_s:
                self._come_back(entry)

    def _come_back(self, entry: _Entry) -> None:
        self._refused.pop(entry.pod.uid, None)
        due = entry.tried + min(self._first_s * 2 ** min(entry.attempts - 1, 10), self._longest_s)
        if due <= self._clock.monotonic():
            entry.place = _Place.READY
            self._push(entry)
        else:
            entry.place = _Place.RESTING
            heapq.heappush(self._resting, (due, entry.order, entry.pod.uid))
            self._wake.set()

    def _push(self, entry: _Entry) -> None:
        heapq.heappush(self._ready, (-entry.pod.priority, entry.order, entry.pod.uid))
        self._wake.set()

    def _wake_rested(self) -> None:
        now = self._clock.monotonic()
        while self._resting and self._resting[0][0] <= now:
            _, order, uid = heapq.heappop(self._resting)
            entry = self._entries.get(uid)
            if entry is not None and entry.place is _Place.RESTING and entry.order == order:
                entry.place = _Place.READY
                self._push(entry)
