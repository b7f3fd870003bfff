# SPDX-License-Identifier: Apache-2.0
"""The one way to ask for the time and to wait: a Clock, real in production and faked in tests.

Two times are told apart. ``now()`` is the time of day in UTC, for what is written down; it may jump when
the machine's clock is set. ``monotonic()`` only ever runs forward and measures how long things take; every
timeout and every age is counted with it. It goes on while the machine is suspended: a lease, a token or a copy of
the cluster grows old in that time too. Timers do not: a sleep may take longer by as much.

The fake clock stands still until a test moves it. It wakes sleepers in the order of their deadlines and, for
equal deadlines, in the order they lay down, so that a test runs the same way each time. It refuses to run
backwards; only its time of day can be set back, as real ones are.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

__all__ = ["Clock", "FakeClock", "SystemClock", "within"]

_T = TypeVar("_T")

# On Linux CLOCK_MONOTONIC stands still while the machine is suspended. Where there is no other, it has to do.
_STOPWATCH: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

# How often the fake clock lets the event loop turn after each waking. A task that was woken may need several
# turns to reach its next sleep, one per nested task or group; nothing of ours nests fifty deep.
_TURNS: Final = 50


class Clock(Protocol):
    """The time of day, a stopwatch, and a way to wait."""

    def now(self) -> datetime:
        """Gives the time of day, in UTC and carrying its zone."""
        ...

    def monotonic(self) -> float:
        """Gives seconds since some fixed moment; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits that many seconds of ``monotonic()``; zero or less only lets others run."""
        ...


class SystemClock:
    """The machine's clocks and the event loop's timers."""

    def now(self) -> datetime:
        """Gives the time of day, in UTC and carrying its zone."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Gives seconds since some fixed moment; only differences mean something."""
        return time.clock_gettime(_STOPWATCH)

    async def sleep(self, seconds: float) -> None:
        """Waits that many seconds; zero or less only lets others run."""
        await asyncio.sleep(max(seconds, 0))


class FakeClock:
    """A clock that stands still until told to move."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._wall = start
        self._monotonic = 0.0
        self._order = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Gives the time of day that the test has set, in UTC."""
        return self._wall

    def monotonic(self) -> float:
        """Gives the seconds by which the test has moved the clock so far."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Waits until the test has moved the clock that far; zero or less only lets others run."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waking = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._sleepers, (self._monotonic + seconds, self._order, waking))
        await waking

    @property
    def sleeping(self) -> int:
        """Counts those who wait on this clock."""
        return sum(not waking.done() for _, _, waking in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Moves the clock and lives through all that happens on the way.

        The clock stops at each deadline, wakes one sleeper, and lets it run until it sleeps again; a sleep
        begun on the way that ends on the way is woken too.
        """
        end = self._end_of(seconds)
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._move_to(self._sleepers[0][0])
            self._wake_first()
            await self.settle()
        self._move_to(end)

    def tick(self, seconds: float) -> None:
        """Moves the clock in one jump; those whose time has come run when the event loop next turns."""
        self._move_to(self._end_of(seconds))
        while self._sleepers and self._sleepers[0][0] <= self._monotonic:
            self._wake_first()

    def set_time_of_day(self, moment: datetime) -> None:
        """Sets ``now()`` alone, forward or back, as an administrator or a time server does."""
        self._wall = moment

    async def settle(self) -> None:
        """Lets every task run until all of them wait for something."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def _end_of(self, seconds: float) -> float:
        if seconds < 0:
            raise ValueError(f"a clock does not run backwards: {seconds} s")
        return self._monotonic + seconds

    def _move_to(self, moment: float) -> None:
        # Whoever woke on the way may have moved the clock further already.
        passed_s = max(moment - self._monotonic, 0.0)
        self._wall += timedelta(seconds=passed_s)
        self._monotonic += passed_s

    def _wake_first(self) -> None:
        _, _, waking = heapq.heappop(self._sleepers)
        if not waking.done():
            waking.set_result(None)


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, _T]) -> _T:
    """Runs ``work`` and gives its result, unless the clock says that it takes too long.

    The event loop's own timeouts know only real time; this one obeys the clock. Whatever the end, neither the
    work nor the timer is left behind: the loser is cancelled and waited for.

    Raises:
        TimeoutError: The seconds have passed and the work was cancelled.
    """
    working = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({working, timer}, return_when=asyncio.FIRST_COMPLETED)
        is_late = not working.done()
    finally:
        working.cancel()
        timer.cancel()
        await asyncio.wait({working, timer})
    if is_late and working.cancelled():
        raise TimeoutError(f"not done within {seconds} s")
    return working.result()
