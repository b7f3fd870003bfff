# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from karpenter.cloud.aws.batching import Batcher, chunks
from karpenter.kit.clock import FakeClock


class Desk:
    """Answers each number with its square, except odd ones above ten, which it does not know."""

    def __init__(self, clock: FakeClock, **options: float) -> None:
        self.batches: list[tuple[int, ...]] = []
        self.sizes: list[int] = []
        self.gathered_s: list[float] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.batcher: Batcher[int, int] = Batcher(
            clock,
            self._answer,
            idle_s=0.1,
            max_s=1.0,
            max_items=int(options.get("max_items", 500)),
            on_batch=self._batched,
        )

    def _batched(self, size: int, seconds: float) -> None:
        self.sizes.append(size)
        self.gathered_s.append(seconds)

    async def _answer(self, keys: tuple[int, ...]) -> Mapping[int, int]:
        self.batches.append(keys)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return {key: key * key for key in keys if key < 10 or key % 2 == 0}


async def test_questions_of_one_moment_become_one_call() -> None:
    clock = FakeClock()
    desk = Desk(clock)

    asked = [asyncio.create_task(desk.batcher.ask(key)) for key in (3, 1, 2, 2)]
    await clock.advance(1)

    assert [await each for each in asked] == [9, 1, 4, 4]
    assert desk.batches == [(3, 1, 2)]
    assert desk.sizes == [3]


async def test_a_large_batch_is_cut_into_calls() -> None:
    clock = FakeClock()
    desk = Desk(clock, max_items=2)

    asked = [asyncio.create_task(desk.batcher.ask(key)) for key in range(5)]
    await clock.advance(1)

    assert [await each for each in asked] == [0, 1, 4, 9, 16]
    assert desk.sizes == [2, 2, 1]


async def test_what_a_batch_does_not_know_is_answered_with_nothing() -> None:
    clock = FakeClock()
    desk = Desk(clock)

    asked = asyncio.create_task(desk.batcher.ask(11))
    await clock.advance(1)

    assert await asked is None


async def test_a_batch_that_fails_fails_for_all_who_asked_and_the_next_one_works() -> None:
    clock = FakeClock()
    desk = Desk(clock)
    desk.error = RuntimeError("no")

    asked = [asyncio.create_task(desk.batcher.ask(key)) for key in (1, 2)]
    await clock.advance(1)
    for each in asked:
        with pytest.raises(RuntimeError, match="no"):
            await each
    desk.error = None
    again = asyncio.create_task(desk.batcher.ask(1))
    await clock.advance(1)

    assert await again == 1


async def test_a_question_asked_while_its_batch_is_under_way_goes_into_the_next() -> None:
    clock = FakeClock()
    desk = Desk(clock)
    desk.gate = asyncio.Event()

    first = asyncio.create_task(desk.batcher.ask(1))
    await clock.advance(0.2)
    second = asyncio.create_task(desk.batcher.ask(1))
    await clock.advance(0.2)
    desk.gate.set()
    await clock.settle()

    assert await first == await second == 1
    assert desk.batches == [(1,), (1,)]


async def test_who_gives_up_leaves_the_others_alone() -> None:
    clock = FakeClock()
    desk = Desk(clock)

    leaving = asyncio.create_task(desk.batcher.ask(1))
    staying = asyncio.create_task(desk.batcher.ask(1))
    await clock.settle()
    leaving.cancel()
    await clock.advance(1)

    assert await staying == 1
    assert leaving.cancelled()


async def test_a_failure_that_nobody_waits_for_any_more_is_not_complained_about() -> None:
    clock = FakeClock()
    desk = Desk(clock)
    desk.error = RuntimeError("no")

    leaving = asyncio.create_task(desk.batcher.ask(1))
    await clock.settle()
    leaving.cancel()
    await clock.advance(1)

    assert leaving.cancelled()


async def test_closing_gives_up_on_what_waits_and_on_what_is_under_way() -> None:
    clock = FakeClock()
    desk = Desk(clock)
    desk.gate = asyncio.Event()

    under_way = asyncio.create_task(desk.batcher.ask(1))
    await clock.advance(0.2)
    waiting = asyncio.create_task(desk.batcher.ask(2))
    await clock.settle()
    await desk.batcher.close()
    await clock.settle()

    assert under_way.cancelled()
    assert waiting.cancelled()


async def test_some_of_a_batch_may_be_answered_before_the_rest() -> None:
    clock = FakeClock()
    desk = Desk(clock)
    desk.gate = asyncio.Event()

    asked = [asyncio.create_task(desk.batcher.ask(key)) for key in (1, 2)]
    await clock.advance(0.2)
    desk.batcher.settle({1: 100, 7: 0})
    await clock.settle()
    early = [each.done() for each in asked]
    again = asyncio.create_task(desk.batcher.ask(2))
    await clock.advance(0.2)
    desk.gate.set()
    await clock.settle()
    desk.batcher.settle({1: 5})

    assert early == [True, False]
    assert [await each for each in (*asked, again)] == [100, 4, 4]
    assert desk.batches == [(1, 2), (2,)]


def test_chunks_keep_the_order() -> None:
    assert list(chunks((1, 2, 3, 4, 5), 2)) == [(1, 2), (3, 4), (5,)]
    assert list(chunks((), 2)) == []


async def test_how_long_a_batch_was_gathered_is_told() -> None:
    clock = FakeClock()
    desk = Desk(clock)
    first = asyncio.ensure_future(desk.batcher.ask(1))
    await clock.advance(0.05)
    second = asyncio.ensure_future(desk.batcher.ask(2))
    await clock.advance(1)
    await asyncio.gather(first, second)

    assert desk.sizes == [2]
    assert desk.gathered_s == pytest.approx([0.15])
