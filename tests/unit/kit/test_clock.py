# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from karpenter.kit.clock import Clock, FakeClock, SystemClock, within

START = datetime(2026, 1, 1, tzinfo=UTC)


class Sleepers:
    """Tasks that sleep and write down when they wake."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.woken: list[tuple[str, float]] = []

    async def nap(self, name: str, *seconds: float) -> None:
        for each in seconds:
            await self.clock.sleep(each)
            self.woken.append((name, self.clock.monotonic()))


async def test_the_system_clock_tells_real_time() -> None:
    clock: Clock = SystemClock()
    started_at = clock.monotonic()

    await clock.sleep(0.01)
    await clock.sleep(-1)

    assert 0.005 < clock.monotonic() - started_at < 1.5
    assert clock.now().tzinfo is UTC
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=10)


def test_the_stopwatch_goes_on_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended_s = 3600.0
    clocks = {time.CLOCK_MONOTONIC: 100.0, time.CLOCK_BOOTTIME: 100.0 + suspended_s}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)

    assert SystemClock().monotonic() == 100.0 + suspended_s


async def test_a_fake_clock_stands_still_until_moved() -> None:
    clock = FakeClock(START)

    await clock.advance(90)

    assert clock.now() == START + timedelta(seconds=90)
    assert clock.monotonic() == 90


async def test_sleepers_wake_in_the_order_of_their_deadlines_then_of_lying_down() -> None:
    clock = FakeClock()
    sleepers = Sleepers(clock)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleepers.nap("late", 3))
        group.create_task(sleepers.nap("first of two", 2))
        group.create_task(sleepers.nap("second of two", 2))
        group.create_task(sleepers.nap("early", 1))
        await clock.advance(10)

    assert sleepers.woken == [("early", 1), ("first of two", 2), ("second of two", 2), ("late", 3)]


async def test_a_sleep_begun_on_the_way_ends_on_the_way() -> None:
    clock = FakeClock()
    sleepers = Sleepers(clock)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleepers.nap("often", 1, 1, 1, 1))
        group.create_task(sleepers.nap("between", 2.5))
        await clock.advance(3)
        seen = list(sleepers.woken)
        await clock.advance(1)

    assert seen == [("often", 1), ("often", 2), ("between", 2.5), ("often", 3)]
    assert sleepers.woken[-1] == ("often", 4)


async def test_who_sleeps_beyond_the_end_goes_on_sleeping() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(5))

    await clock.advance(4.5)

    assert not task.done()
    assert clock.sleeping == 1
    await clock.advance(0.5)
    assert task.done()
    assert clock.sleeping == 0


async def test_a_tick_jumps_and_wakes_all_whose_time_has_come() -> None:
    clock = FakeClock()
    sleepers = Sleepers(clock)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleepers.nap("two", 2))
        group.create_task(sleepers.nap("one", 1))
        group.create_task(sleepers.nap("nine", 9))
        await clock.settle()
        clock.tick(0)
        clock.tick(2)
        await clock.settle()
        seen = list(sleepers.woken)
        clock.tick(10)

    assert seen == [("one", 2), ("two", 2)]


async def test_a_cancelled_sleeper_is_passed_over() -> None:
    clock = FakeClock()
    cancelled = asyncio.create_task(clock.sleep(1))
    other = asyncio.create_task(clock.sleep(1))
    await clock.settle()

    cancelled.cancel()
    await clock.advance(1)

    assert cancelled.cancelled()
    assert other.done()


async def test_a_sleep_of_nothing_only_lets_others_run() -> None:
    clock = FakeClock()
    ran: list[bool] = []
    task = asyncio.create_task(clock.sleep(0))
    asyncio.get_running_loop().call_soon(ran.append, True)

    await clock.sleep(0)
    await task

    assert ran == [True]
    assert clock.sleeping == 0


async def test_a_fake_clock_refuses_to_run_backwards() -> None:
    clock = FakeClock()

    with pytest.raises(ValueError, match="backwards"):
        await clock.advance(-1)
    with pytest.raises(ValueError, match="backwards"):
        clock.tick(-1)


async def test_the_time_of_day_may_be_set_back_while_the_stopwatch_runs_on() -> None:
    clock = FakeClock(START)
    clock.tick(10)

    clock.set_time_of_day(START - timedelta(hours=1))
    clock.tick(5)

    assert clock.now() == START - timedelta(hours=1) + timedelta(seconds=5)
    assert clock.monotonic() == 15


async def test_a_sleeper_that_moves_the_clock_itself_does_not_set_it_back() -> None:
    clock = FakeClock()

    async def impatient() -> None:
        await clock.sleep(1)
        clock.tick(10)

    task = asyncio.create_task(impatient())
    await clock.advance(2)
    await task

    assert clock.monotonic() == 11


async def test_work_done_in_time_gives_its_result_and_leaves_no_timer() -> None:
    clock = FakeClock()

    async def work() -> str:
        await clock.sleep(1)
        return "done"

    task = asyncio.create_task(within(clock, 5, work()))
    await clock.advance(1)

    assert await task == "done"
    assert clock.sleeping == 0


async def test_work_that_takes_too_long_is_cancelled_and_waited_for() -> None:
    clock = FakeClock()
    ended = []

    async def work() -> None:
        try:
            await clock.sleep(10)
        finally:
            await asyncio.sleep(0)
            ended.append(clock.monotonic())

    task = asyncio.create_task(within(clock, 5, work()))
    await clock.advance(5)

    with pytest.raises(TimeoutError, match="not done within 5 s"):
        await task
    assert ended == [5]


async def test_work_that_fails_in_time_fails_with_its_own_error() -> None:
    async def work() -> None:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        await within(FakeClock(), 5, work())


async def test_work_that_fails_while_being_cancelled_fails_with_its_own_error() -> None:
    clock = FakeClock()

    async def work() -> None:
        try:
            await clock.sleep(10)
        finally:
            raise LookupError("lost")

    task = asyncio.create_task(within(clock, 5, work()))
    await clock.advance(5)

    with pytest.raises(LookupError, match="lost"):
        await task


async def test_cancelling_the_waiter_cancels_the_work() -> None:
    clock = FakeClock()
    work = asyncio.create_task(within(clock, 5, clock.sleep(3)))
    await clock.settle()

    work.cancel()
    await clock.settle()

    assert work.cancelled()
    assert clock.sleeping == 0
