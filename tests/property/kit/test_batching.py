# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.kit.batching import BatchWindow
from karpenter.kit.clock import FakeClock

# Not multiples of the whole seconds at which keys come, so that no key comes at the moment of closing.
IDLE_S, MAX_S = 2.5, 7.25
TRIGGERS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=25)


def expected_batches(arrivals: list[tuple[float, int]]) -> list[tuple[float, frozenset[int]]]:
    """Says by the rule what the window does, from the arrivals alone."""
    batches: list[tuple[float, frozenset[int]]] = []
    keys, opened_at, closes_at = set[int](), 0.0, 0.0
    for at, key in arrivals:
        if keys and at > closes_at:
            batches.append((closes_at, frozenset(keys)))
            keys = set()
        if not keys:
            opened_at = at
        if key not in keys:
            keys.add(key)
            closes_at = min(at + IDLE_S, opened_at + MAX_S)
    return [*batches, (closes_at, frozenset(keys))] if keys else batches


async def observed_batches(pauses: list[tuple[int, int]]) -> list[tuple[float, frozenset[int]]]:
    clock = FakeClock()
    window = BatchWindow[int](clock, idle_s=IDLE_S, max_s=MAX_S)
    batches: list[tuple[float, frozenset[int]]] = []

    async def consume() -> None:
        while True:
            batch = await window.wait()
            batches.append((clock.monotonic(), batch))

    consumer = asyncio.create_task(consume())
    for pause_s, key in pauses:
        await clock.advance(pause_s)
        window.trigger(key)
    await clock.advance(MAX_S)
    consumer.cancel()
    await asyncio.wait({consumer})
    return batches


@settings(deadline=None, max_examples=60)
@given(TRIGGERS)
def test_batches_are_those_that_the_rule_says(pauses: list[tuple[int, int]]) -> None:
    at = 0.0
    arrivals = []
    for pause_s, key in pauses:
        at += pause_s
        arrivals.append((at, key))

    batches = asyncio.run(observed_batches(pauses))

    assert batches == expected_batches(arrivals)
    assert {key for _, batch in batches for key in batch} == {key for _, key in pauses}
