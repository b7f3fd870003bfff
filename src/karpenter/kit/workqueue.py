# SPDX-License-Identifier: Apache-2.0
"""Work by key: each thing that may need doing is named, done by one worker at a time, and tried again if it fails.

A key that is added while it is being worked on is worked on once more afterwards; one that waits already is not
queued twice. Work says when it wants to be called again, and who adds a key meanwhile is served at once. A failure
is reported and the key comes back after a growing delay, so one broken thing neither blocks others nor spins.

Nothing here knows what the work is. Workers are started by `run` and end when it is cancelled; what waits then, and
what was broken off, is kept for the next `run`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeAlias, TypeVar

from karpenter.kit.backoff import BackoffPolicy, BackoffTable
from karpenter.kit.clock import Clock
from karpenter.kit.rounds import Outcome, ended, queue_known

__all__ = ["Work", "WorkQueue"]

_K = TypeVar("_K", bound=Hashable)

# Does the work for a key; gives the seconds after which to come back, or None when there is nothing more to do.
Work: TypeAlias = Callable[[_K], Awaitable[float | None]]

_BACKOFF: Final = BackoffPolicy(base_s=1.0, cap_s=60.0, jitter=0.2)


class WorkQueue(Generic[_K]):
    """Keys that wait for work, and the workers that do it."""

    def __init__(
        self,
        work: Work[_K],
        clock: Clock,
        *,
        workers: int = 10,
        backoff: BackoffPolicy = _BACKOFF,
        on_error: Callable[[_K, Exception, float], None] | None = None,
    ) -> None:
        """Makes an empty queue.

        Args:
            work: What is done for a key.
            clock: Where its time comes from.
            workers: How many keys are worked on side by side.
            backoff: How long a key that failed waits.
            on_error: Hears of each failure, with the key and the seconds until it is tried again.
        """
        if workers < 1:
            raise ValueError(f"a queue with {workers} workers does nothing")
        self._work = work
        self._clock = clock
        self._workers = workers
        self._failures: BackoffTable[_K] = BackoffTable(clock, backoff)
        self._on_error = on_error
        self._ready: set[_K] = set()
        self._queue: asyncio.Queue[_K] = asyncio.Queue()
        self._busy: set[_K] = set()
        self._again: set[_K] = set()
        self._due: dict[_K, float] = {}
        self._timers: list[tuple[float, int, _K]] = []
        self._order = 0
        self._wake_timer = asyncio.Event()

    def __len__(self) -> int:
        """Counts the keys that wait for a worker now."""
        return len(self._ready)

    @property
    def is_idle(self) -> bool:
        """Tells whether nothing waits for a worker and nothing is being worked on."""
        return not self._ready and not self._busy

    def add(self, key: _K) -> None:
        """Asks for work on a key now."""
        self._due.pop(key, None)
        if key in self._busy:
            self._again.add(key)
        elif key not in self._ready:
            self._ready.add(key)
            self._queue.put_nowait(key)

    def add_after(self, key: _K, seconds: float) -> None:
        """Asks for work on a key later; the earliest wish counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if key in self._ready or due >= self._due.get(key, due + 1):
            return
        self._due[key] = due
        self._order += 1
        heapq.heappush(self._timers, (due, self._order, key))
        self._wake_timer.set()

    def forget(self, key: _K) -> None:
        """Drops the failures and later wishes of a key that is gone."""
        self._failures.reset(key)
        self._due.pop(key, None)

    async def run(self) -> None:
        """Works until cancelled."""
        with queue_known(self.__len__):
            await self._run()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_time())
            for _ in range(self._workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            key = await self._queue.get()
            self._ready.discard(key)
            self._busy.add(key)
            try:
                await self._do(key)
            except asyncio.CancelledError:
                self._again.add(key)
                raise
            finally:
                self._busy.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _do(self, key: _K) -> None:
        started = self._clock.monotonic()
        outcome = await self._try(key)
        ended(self._clock.monotonic() - started, outcome)

    async def _try(self, key: _K) -> Outcome:
        try:
            again_s = await self._work(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the key is tried again and the rest goes on
            delay_s = self._failures.failed(key)
            if self._on_error is not None:
                self._on_error(key, error, delay_s)
            self.add_after(key, delay_s)
            return Outcome.ERROR
        self._failures.reset(key)
        if again_s is None:
            return Outcome.SUCCESS
        self.add_after(key, again_s)
        return Outcome.REQUEUE_AFTER

    async def _keep_time(self) -> None:
        """Moves keys whose time has come to those that wait for a worker."""
        while True:
            now = self._clock.monotonic()
            while self._timers and self._timers[0][0] <= now:
                due, _, key = heapq.heappop(self._timers)
                # A key that was added or asked for earlier meanwhile has another time, or none.
                if self._due.get(key) == due:
                    self.add(key)
            self._wake_timer.clear()
            await self._until_next_timer()

    async def _until_next_timer(self) -> None:
        if not self._timers:
            await self._wake_timer.wait()
            return
        sleeping = asyncio.ensure_future(self._clock.sleep(self._timers[0][0] - self._clock.monotonic()))
        waking = asyncio.ensure_future(self._wake_timer.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
