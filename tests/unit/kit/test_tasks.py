# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import FakeClock
from karpenter.kit.tasks import Supervisor, SupervisorError, TaskFailure, TaskState, TaskStatus, supervise

DOUBLING = BackoffPolicy(base_s=1, cap_s=8)


class World:
    """A clock, a supervisor with plain backoff, and the failures it reported."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.failures: list[TaskFailure] = []
        self.supervisor = Supervisor(
            self.clock, on_failure=self.failures.append, backoff=DOUBLING, grace_s=5, healthy_after_s=60
        )

    def told(self) -> list[tuple[str, str, int, float | None]]:
        return [(told.name, str(told.error), told.failures, told.retry_in_s) for told in self.failures]


class Work:
    """Work that fails after a while the first few times, then runs until cancelled."""

    def __init__(self, clock: FakeClock, *fails_after_s: float) -> None:
        self.clock = clock
        self.fails_after_s = list(fails_after_s)
        self.started_at: list[float] = []
        self.stopped_at: list[float] = []

    async def __call__(self) -> None:
        self.started_at.append(self.clock.monotonic())
        if self.fails_after_s:
            await self.clock.sleep(self.fails_after_s.pop(0))
            raise LookupError("lost")
        try:
            await self.clock.sleep(1e9)
        finally:
            self.stopped_at.append(self.clock.monotonic())


async def test_a_task_that_raises_is_reported_and_started_again_after_a_growing_delay() -> None:
    world = World()
    work = Work(world.clock, 0, 0, 0)

    async with world.supervisor as supervisor:
        supervisor.start("loop", work)
        await world.clock.advance(20)

    assert work.started_at == [0, 1, 3, 7]
    assert world.told() == [("loop", "lost", 1, 1), ("loop", "lost", 2, 2), ("loop", "lost", 3, 4)]


async def test_running_well_for_a_while_forgives_earlier_failures() -> None:
    world = World()
    work = Work(world.clock, 0, 0, 60, 0)

    async with world.supervisor as supervisor:
        supervisor.start("loop", work)
        await world.clock.advance(100)

    assert [told.failures for told in world.failures] == [1, 2, 1, 2]
    assert work.started_at == [0, 1, 3, 64, 66]


async def test_a_failing_task_disturbs_no_other() -> None:
    world = World()
    bad, good = Work(world.clock, 0, 0), Work(world.clock)

    async with world.supervisor as supervisor:
        supervisor.start("bad", bad)
        supervisor.start("good", good)
        await world.clock.advance(10)

    assert good.started_at == [0]
    assert bad.started_at == [0, 1, 3]


async def test_leaving_the_block_stops_every_task() -> None:
    world = World()
    works = [Work(world.clock) for _ in range(3)]

    async with world.supervisor as supervisor:
        for number, work in enumerate(works):
            supervisor.start(f"loop-{number}", work)
        await world.clock.advance(2)

    assert [work.stopped_at for work in works] == [[2]] * 3
    assert world.failures == []
    assert world.supervisor.statuses() == {}
    assert world.clock.sleeping == 0


async def test_an_error_in_the_block_stops_every_task_and_goes_on() -> None:
    world = World()
    work = Work(world.clock)

    async def block() -> None:
        async with world.supervisor as supervisor:
            supervisor.start("loop", work)
            await world.clock.settle()
            raise LookupError("elsewhere")

    with pytest.raises(LookupError, match="elsewhere"):
        await block()

    assert work.stopped_at == [0]


async def test_cancelling_the_block_stops_every_task() -> None:
    world = World()
    work = Work(world.clock)

    async def block() -> None:
        async with world.supervisor as supervisor:
            supervisor.start("loop", work)
            await world.clock.sleep(1e9)

    outer = asyncio.create_task(block())
    await world.clock.settle()
    outer.cancel()
    await asyncio.wait({outer})

    assert outer.cancelled()
    assert work.stopped_at == [0]


async def test_a_task_waiting_to_be_started_again_stops_too() -> None:
    world = World()
    work = Work(world.clock, 0)

    async with world.supervisor as supervisor:
        supervisor.start("loop", work)
        await world.clock.advance(0.5)

        assert supervisor.statuses()["loop"].state is TaskState.BACKING_OFF

    assert work.started_at == [0]
    assert world.clock.sleeping == 0


async def test_a_task_that_returns_is_done_and_its_name_free() -> None:
    world = World()
    runs = []

    async def once() -> None:
        runs.append(world.clock.monotonic())

    async with world.supervisor as supervisor:
        supervisor.start("once", once)
        await world.clock.advance(100)
        status = supervisor.statuses()["once"]
        supervisor.start("once", once)
        await world.clock.settle()

    assert status == TaskStatus(TaskState.DONE)
    assert runs == [0, 100]


async def test_the_status_tells_state_failures_and_last_error() -> None:
    world = World()
    work = Work(world.clock, 0)

    async with world.supervisor as supervisor:
        supervisor.start("loop", work)
        fresh = supervisor.statuses()["loop"]
        await world.clock.settle()
        failed = supervisor.statuses()["loop"]
        await world.clock.advance(1)
        again = supervisor.statuses()["loop"]

    assert fresh == TaskStatus(TaskState.RUNNING)
    assert (failed.state, failed.failures, str(failed.last_error)) == (TaskState.BACKING_OFF, 1, "lost")
    assert (again.state, again.failures, str(again.last_error)) == (TaskState.RUNNING, 1, "lost")


async def test_a_task_that_does_not_stop_in_time_is_reported_by_name() -> None:
    world = World()
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with world.supervisor as supervisor:
        supervisor.start("stubborn", stubborn)
        supervisor.start("polite", Work(world.clock))
        await world.clock.settle()
        stopping = asyncio.create_task(supervisor.stop())
        await world.clock.advance(4.5)
        early = stopping.done()
        await world.clock.advance(0.5)

        assert not early
        assert await stopping == ("stubborn",)
        assert world.told() == [("stubborn", 'task "stubborn" did not stop within 5 s', 1, None)]
        release.set()
        await world.clock.settle()
        assert supervisor.statuses() == {}


async def test_one_task_can_be_stopped_while_the_others_run() -> None:
    world = World()
    one, other = Work(world.clock), Work(world.clock)

    async with world.supervisor as supervisor:
        supervisor.start("one", one)
        supervisor.start("other", other)
        await world.clock.advance(1)

        assert await supervisor.stop("one", "unknown") == ()
        assert one.stopped_at == [1]
        assert other.stopped_at == []
        assert list(supervisor.statuses()) == ["other"]
        supervisor.start("one", Work(world.clock))


async def test_two_who_stop_at_once_do_not_disturb_each_other() -> None:
    world = World()
    work = Work(world.clock)

    async with world.supervisor as supervisor:
        supervisor.start("loop", work)
        await world.clock.settle()

        stopped = await asyncio.gather(supervisor.stop("loop"), supervisor.stop("loop"))

    assert [*stopped] == [(), ()]
    assert work.stopped_at == [0]


async def test_a_task_stopped_before_it_began_never_begins() -> None:
    world = World()
    work = Work(world.clock)

    async with world.supervisor as supervisor:
        supervisor.start("loop", work)
        await supervisor.stop("loop")

    assert work.started_at == []


async def test_a_name_cannot_be_used_twice_at_a_time() -> None:
    world = World()

    async with world.supervisor as supervisor:
        supervisor.start("loop", Work(world.clock))

        with pytest.raises(SupervisorError) as caught:
            supervisor.start("loop", Work(world.clock))

    assert '"loop"' in caught.value.message
    assert caught.value.hint


async def test_nothing_starts_outside_the_block() -> None:
    world = World()

    with pytest.raises(SupervisorError) as caught:
        world.supervisor.start("early", Work(world.clock))
    async with world.supervisor:
        await world.supervisor.stop()
        with pytest.raises(SupervisorError):
            world.supervisor.start("late", Work(world.clock))

    assert "async with" in caught.value.hint


async def test_a_cancellation_from_within_is_a_failure_and_not_the_end() -> None:
    world = World()
    runs = []

    async def awaits_something_cancelled() -> None:
        runs.append(world.clock.monotonic())
        if len(runs) == 1:
            cancelled = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled

    async with world.supervisor as supervisor:
        supervisor.start("loop", awaits_something_cancelled)
        await world.clock.advance(5)

    assert runs == [0, 1]
    assert isinstance(world.failures[0].error, asyncio.CancelledError)


async def test_a_task_that_fails_while_stopping_is_reported_and_not_started_again() -> None:
    world = World()
    starts = []

    async def untidy() -> None:
        starts.append(world.clock.monotonic())
        try:
            await world.clock.sleep(1e9)
        finally:
            raise LookupError("lost while tidying up")

    async with world.supervisor as supervisor:
        supervisor.start("untidy", untidy)
        await world.clock.settle()

        assert await supervisor.stop() == ()

    assert starts == [0]
    assert world.told() == [("untidy", "lost while tidying up", 1, None)]


async def test_a_broken_reporter_does_not_stop_the_work() -> None:
    clock = FakeClock()
    work = Work(clock, 0)
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    def broken(_: TaskFailure) -> None:
        raise RuntimeError("no paper")

    async with Supervisor(clock, on_failure=broken, backoff=DOUBLING) as supervisor:
        supervisor.start("loop", work)
        await clock.advance(2)

    assert work.started_at == [0, 1]
    assert [str(complaint["exception"]) for complaint in complaints] == ["no paper"]
    assert '"loop"' in complaints[0]["message"]


async def test_supervised_work_fits_into_a_task_group() -> None:
    clock = FakeClock()
    failures: list[TaskFailure] = []
    work = Work(clock, 0)

    async def outer() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(
                supervise("loop", work, clock=clock, on_failure=failures.append, backoff=DOUBLING)
            )
            await clock.sleep(5)
            raise LookupError("the group fails")

    task = asyncio.create_task(outer())
    await clock.advance(5)

    with pytest.raises(ExceptionGroup):
        await task
    assert work.started_at == [0, 1]
    assert work.stopped_at == [5]
