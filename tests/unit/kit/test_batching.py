# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from karpenter.kit.batching import BatchWindow
from karpenter.kit.clock import FakeClock


class Consumer:
    """Waits for one batch after the other and writes down when each came."""

    def __init__(self, clock: FakeClock, window: BatchWindow[str], busy_s: float = 0) -> None:
        self.clock = clock
        self.window = window
        self.busy_s = busy_s
        self.batches: list[tuple[float, str]] = []

    async def run(self) -> None:
        while True:
            batch = await self.window.wait()
            self.batches.append((self.clock.monotonic(), "".join(sorted(batch))))
            await self.clock.sleep(self.busy_s)


@asynccontextmanager
async def consuming(clock: FakeClock, window: BatchWindow[str], busy_s: float = 0) -> AsyncIterator[Consumer]:
    consumer = Consumer(clock, window, busy_s)
    task = asyncio.create_task(consumer.run())
    await clock.settle()
    yield consumer
    task.cancel()
    await asyncio.wait({task})


async def test_a_window_closes_when_no_new_key_has_come_for_the_idle_time() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock)

    async with consuming(clock, window) as consumer:
        await clock.advance(5)
        window.trigger("a")
        await clock.advance(0.75)
        window.trigger("b")
        await clock.advance(0.75)
        before = list(consumer.batches)
        await clock.advance(0.25)

        assert before == []
        assert consumer.batches == [(6.75, "ab")]


async def test_a_key_seen_again_does_not_keep_the_window_open() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock)

    async with consuming(clock, window) as consumer:
        first = window.trigger("a")
        await clock.advance(0.75)
        second = window.trigger("a")
        await clock.advance(10)

        assert (first, second) == (True, False)
        assert consumer.batches == [(1, "a")]


async def test_a_window_closes_at_its_maximum_however_many_keys_come() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock, idle_s=1, max_s=3)

    async with consuming(clock, window) as consumer:
        for key in "abcdefgh":
            window.trigger(key)
            await clock.advance(0.5)

        assert consumer.batches == [(3, "abcdef")]
        assert window.pending == 2


async def test_a_key_may_come_again_in_the_next_window() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock)

    async with consuming(clock, window) as consumer:
        window.trigger("a")
        await clock.advance(2)
        window.trigger("a")
        await clock.advance(2)

        assert consumer.batches == [(1, "a"), (3, "a")]


async def test_keys_that_came_while_the_consumer_was_busy_do_not_wait_again() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock)

    async with consuming(clock, window, busy_s=5) as consumer:
        window.trigger("a")
        await clock.advance(2)
        window.trigger("b")
        window.trigger("c")
        await clock.advance(4)

        assert consumer.batches == [(1, "a"), (6, "bc")]


async def test_the_first_key_after_a_quiet_spell_may_go_at_once() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock, first_idle_s=0)

    async with consuming(clock, window) as consumer:
        await clock.advance(5)
        window.trigger("a")
        window.trigger("b")
        await clock.settle()
        at_once = list(consumer.batches)
        await clock.advance(0.5)
        window.trigger("c")
        await clock.advance(0.5)
        window.trigger("d")
        await clock.advance(5)

        assert at_once == [(5, "ab")]
        assert consumer.batches == [(5, "ab"), (7, "cd")]


async def test_after_a_quiet_spell_the_next_key_goes_at_once_again() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock, first_idle_s=0)

    async with consuming(clock, window) as consumer:
        window.trigger("a")
        await clock.advance(1)
        window.trigger("b")
        await clock.settle()

        assert consumer.batches == [(0, "a"), (1, "b")]


async def test_who_is_cancelled_while_waiting_loses_no_key() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock)
    waiter = asyncio.create_task(window.wait())
    window.trigger("a")
    await clock.advance(0.5)

    waiter.cancel()
    await asyncio.wait({waiter})

    async with consuming(clock, window) as consumer:
        await clock.advance(0.5)

        assert consumer.batches == [(1, "a")]


async def test_of_two_waiters_each_key_goes_to_one() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock)
    waiters = [asyncio.create_task(window.wait()) for _ in range(2)]

    window.trigger("a")
    await clock.advance(5)
    done_first = [waiter.done() for waiter in waiters]
    window.trigger("b")
    await clock.advance(5)

    assert sum(done_first) == 1
    assert sorted("".join(waiter.result()) for waiter in waiters) == ["a", "b"]


async def test_rounding_errors_of_the_clock_do_not_hold_a_window_open() -> None:
    clock = FakeClock()
    clock.tick(1e9 + 0.1)
    window = BatchWindow[str](clock, idle_s=0.1)

    async with consuming(clock, window) as consumer:
        window.trigger("a")
        await clock.advance(0.11)

        assert [keys for _, keys in consumer.batches] == ["a"]


async def test_without_an_idle_time_every_key_goes_at_once() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock, idle_s=0)

    async with consuming(clock, window) as consumer:
        window.trigger("a")
        await clock.settle()
        window.trigger("b")
        await clock.settle()

        assert consumer.batches == [(0, "a"), (0, "b")]


async def test_the_first_window_waits_for_what_is_known_to_come_but_no_longer_than_the_idle_time() -> None:
    clock = FakeClock()
    coming = [True]
    window = BatchWindow[str](clock, first_idle_s=0.125, expects_more=lambda: coming[0])

    async with consuming(clock, window) as consumer:
        await clock.advance(5)
        window.trigger("a")
        await clock.advance(0.5)
        window.trigger("b")
        coming[0] = False
        await clock.advance(0.25)
        coming[0] = True
        await clock.advance(5)
        window.trigger("c")
        await clock.advance(0.875)
        before = list(consumer.batches)
        await clock.advance(0.125)

        assert before == [(5.625, "ab")]
        assert consumer.batches == [(5.625, "ab"), (11.75, "c")]


@pytest.mark.parametrize(("distance_s", "closes_after_s"), [(0.0, 0.125), (0.015625, 0.3125), (0.125, 1.0)])
async def test_a_later_window_closes_early_after_a_burst(distance_s: float, closes_after_s: float) -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock, first_idle_s=0.125)

    async with consuming(clock, window) as consumer:
        await clock.advance(5)
        window.trigger("z")
        await clock.advance(0.125)
        for key in "abcdefghijklmnop":
            window.trigger(key)
            await clock.advance(distance_s)
        last = clock.monotonic() - distance_s
        await clock.advance(2)

        assert consumer.batches == [(5.125, "z"), (last + closes_after_s, "abcdefghijklmnop")]


async def test_enough_keys_close_the_window_however_many_more_come() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock, first_idle_s=0.125, enough=3, expects_more=lambda: True)

    async with consuming(clock, window) as consumer:
        await clock.advance(5)
        for key in "abc":
            window.trigger(key)
        await clock.advance(0.0625)
        window.trigger("d")
        await clock.advance(1)

        assert consumer.batches == [(5, "abc"), (6.0625, "d")]


async def test_a_later_window_has_the_ordinary_idle_time_whatever_comes() -> None:
    clock = FakeClock()
    window = BatchWindow[str](clock, first_idle_s=0.125, expects_more=lambda: True)

    async with consuming(clock, window) as consumer:
        await clock.advance(5)
        window.trigger("a")
        await clock.advance(1)
        window.trigger("b")
        await clock.advance(1)

        assert consumer.batches == [(6, "a"), (7, "b")]


@pytest.mark.parametrize(("idle_s", "max_s"), [(2, 1), (-1, 1)])
async def test_a_window_that_cannot_close_as_told_is_refused(idle_s: float, max_s: float) -> None:
    with pytest.raises(ValueError, match="never closes"):
        BatchWindow[str](FakeClock(), idle_s=idle_s, max_s=max_s)
