# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from karpenter.cloud.aws.interruption import Actor, Interruption, InterruptionKind, Outcome
from karpenter.kit.clock import FakeClock

SPOT = InterruptionKind.SPOT_INTERRUPTED


class Handler:
    """Remembers what it was told; fails as often as it is told to; may be held up."""

    def __init__(self, failures: int = 0) -> None:
        self.told: list[Interruption] = []
        self.failures = failures
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, interruption: Interruption) -> None:
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.told.append(interruption)


async def test_the_same_is_told_once_and_another_kind_or_instance_is_not_the_same() -> None:
    handler = Handler()
    actor = Actor(handler, FakeClock())

    outcomes = [
        await actor.act(Interruption(SPOT, ("i-1",), message_id="a")),
        await actor.act(Interruption(SPOT, ("i-1",), message_id="b")),
        await actor.act(Interruption(SPOT, ("i-2",))),
        await actor.act(Interruption(InterruptionKind.INSTANCE_TERMINATED, ("i-1",))),
    ]

    assert outcomes == [Outcome.ACTED, Outcome.DUPLICATE, Outcome.ACTED, Outcome.ACTED]


async def test_of_several_instances_only_the_new_ones_are_told() -> None:
    handler = Handler()
    actor = Actor(handler, FakeClock())
    await actor.act(Interruption(SPOT, ("i-1",)))

    await actor.act(Interruption(SPOT, ("i-1", "i-2", "i-3")))

    assert handler.told[1].instance_ids == ("i-2", "i-3")


async def test_after_a_quarter_of_an_hour_it_is_told_again() -> None:
    handler, clock = Handler(), FakeClock()
    actor = Actor(handler, clock)
    await actor.act(Interruption(SPOT, ("i-1",)))
    clock.tick(900)

    assert await actor.act(Interruption(SPOT, ("i-1",))) is Outcome.ACTED


async def test_a_handler_that_fails_has_done_nothing() -> None:
    handler = Handler(failures=1)
    actor = Actor(handler, FakeClock())

    with pytest.raises(RuntimeError):
        await actor.act(Interruption(SPOT, ("i-1",)))

    assert await actor.act(Interruption(SPOT, ("i-1",))) is Outcome.ACTED


async def test_two_at_the_same_time_are_told_once() -> None:
    handler = Handler()
    actor = Actor(handler, FakeClock())
    handler.gate.clear()

    both = [asyncio.create_task(actor.act(Interruption(SPOT, ("i-1",)))) for _ in range(2)]
    await asyncio.sleep(0)
    handler.gate.set()

    assert sorted(each.value for each in await asyncio.gather(*both)) == ["acted", "duplicate"]
    assert len(handler.told) == 1


async def test_whoever_waited_for_a_handler_that_failed_tries_it_itself() -> None:
    handler = Handler(failures=1)
    actor = Actor(handler, FakeClock())
    handler.gate.clear()

    both = [asyncio.create_task(actor.act(Interruption(SPOT, ("i-1",)))) for _ in range(2)]
    await asyncio.sleep(0)
    handler.gate.set()
    outcomes = await asyncio.gather(*both, return_exceptions=True)

    assert isinstance(outcomes[0], RuntimeError)
    assert outcomes[1] is Outcome.ACTED
