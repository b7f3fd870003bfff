# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from karpenter.kit.clock import FakeClock
from karpenter.kit.workqueue import Work, WorkQueue


@asynccontextmanager
async def running(queue: WorkQueue[str], clock: FakeClock) -> AsyncIterator[None]:
    """Workers at work, settled."""
    task = asyncio.ensure_future(queue.run())
    await clock.settle()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def noting(seen: list[str], again_s: float | None = None) -> Work[str]:
    """Work that only writes the key down."""

    async def work(key: str) -> float | None:
        seen.append(key)
        return again_s

    return work


async def test_each_key_that_was_added_is_worked_on_once() -> None:
    clock, seen = FakeClock(), list[str]()
    queue = WorkQueue(noting(seen), clock)
    for key in ("a", "b", "a"):
        queue.add(key)
    waiting = len(queue)

    async with running(queue, clock):
        assert queue.is_idle

    assert waiting == 2
    assert seen == ["a", "b"]


async def test_a_key_added_while_it_is_worked_on_is_worked_on_again_and_never_twice_at_once() -> None:
    clock, seen, at_once = FakeClock(), list[str](), list[int]()
    busy = 0
    go_on = asyncio.Event()

    async def work(key: str) -> None:
        nonlocal busy
        busy += 1
        at_once.append(busy)
        seen.append(key)
        await go_on.wait()
        busy -= 1

    queue = WorkQueue(work, clock, workers=5)
    queue.add("a")
    async with running(queue, clock):
        queue.add("a")
        queue.add("a")
        await clock.settle()
        before = list(seen)
        go_on.set()
        await clock.settle()

    assert before == ["a"]
    assert seen == ["a", "a"]
    assert max(at_once) == 1


async def test_work_that_wants_to_come_back_does_so_in_time() -> None:
    clock, seen = FakeClock(), list[str]()
    queue = WorkQueue(noting(seen, again_s=10), clock)
    queue.add("a")

    async with running(queue, clock):
        await clock.advance(9)
        early = len(seen)
        await clock.advance(2)

    assert (early, len(seen)) == (1, 2)


async def test_the_earliest_wish_counts_and_an_order_for_now_overrides_it() -> None:
    clock, seen = FakeClock(), list[str]()
    queue = WorkQueue(noting(seen), clock)
    async with running(queue, clock):
        queue.add_after("a", 60)
        queue.add_after("a", 5)
        queue.add_after("a", 30)
        await clock.advance(6)
        first = len(seen)
        queue.add_after("b", 20)
        queue.add("b")
        await clock.advance(100)

    assert first == 1
    assert seen == ["a", "b"]


async def test_a_wish_for_no_time_at_all_is_now() -> None:
    clock, seen = FakeClock(), list[str]()
    queue = WorkQueue(noting(seen), clock)
    queue.add_after("a", 0)
    queue.add_after("a", 10)

    async with running(queue, clock):
        await clock.advance(20)

    assert seen == ["a"]


async def test_a_failure_is_reported_and_tried_again_with_growing_delays() -> None:
    clock, told = FakeClock(), list[tuple[str, str, float]]()
    tries = 0

    async def work(key: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ValueError(f"{key} is broken")

    queue = WorkQueue(work, clock, on_error=lambda key, error, wait: told.append((key, str(error), wait)))
    queue.add("a")
    async with running(queue, clock):
        await clock.advance(10)

    assert tries == 3
    assert [(key, words) for key, words, _ in told] == [("a", "a is broken")] * 2
    assert told[1][2] > told[0][2]


async def test_a_failure_without_a_listener_is_tried_again_too() -> None:
    clock = FakeClock()
    tries = 0

    async def work(_: str) -> None:
        nonlocal tries
        tries += 1
        raise ValueError

    queue = WorkQueue(work, clock)
    queue.add("a")
    async with running(queue, clock):
        await clock.advance(1.5)

    assert tries == 2


async def test_one_broken_key_does_not_hold_up_the_others() -> None:
    clock, seen = FakeClock(), list[str]()

    async def work(key: str) -> None:
        if key == "broken":
            raise ValueError
        seen.append(key)

    queue = WorkQueue(work, clock, workers=1)
    for key in ("broken", "b", "c"):
        queue.add(key)
    async with running(queue, clock):
        pass

    assert seen == ["b", "c"]


async def test_a_forgotten_key_does_not_come_back() -> None:
    clock, seen = FakeClock(), list[str]()
    queue = WorkQueue(noting(seen), clock)
    async with running(queue, clock):
        queue.add_after("a", 5)
        queue.forget("a")
        await clock.advance(10)

    assert seen == []


async def test_what_waits_when_the_workers_are_stopped_is_done_by_the_next() -> None:
    clock, seen = FakeClock(), list[str]()
    queue = WorkQueue(noting(seen), clock)
    async with running(queue, clock):
        pass
    queue.add("a")

    async with running(queue, clock):
        pass

    assert seen == ["a"]


async def test_a_queue_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="does nothing"):
        WorkQueue(noting([]), FakeClock(), workers=0)


async def test_what_was_broken_off_when_the_workers_were_stopped_is_done_by_the_next() -> None:
    clock, begun, done = FakeClock(), list[str](), list[str]()

    async def work(key: str) -> None:
        begun.append(key)
        if len(begun) == 1:
            await asyncio.Event().wait()
        done.append(key)

    queue = WorkQueue(work, clock)
    queue.add("a")
    async with running(queue, clock):
        assert done == []

    async with running(queue, clock):
        pass

    assert done == ["a"]
