# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from karpenter.kit.clock import FakeClock
from karpenter.kit.lookups import Lookups


class Desk:
    """Answers after some seconds of its clock, and counts how often it was asked."""

    def __init__(self, *, takes_s: float = 0.0) -> None:
        self.clock = FakeClock()
        self.takes_s = takes_s
        self.asked: list[str] = []
        self.late: list[str] = []
        self.error: Exception | None = None
        self.lookups: Lookups[str, str] = Lookups(self.clock, self._answer, on_late=self.late.append)

    async def _answer(self, key: str) -> str:
        self.asked.append(key)
        await self.clock.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        return f"{key}!"

    async def ask(self, key: str = "a", seconds: float = 2.0) -> str:
        task = asyncio.ensure_future(self.lookups.within(key, seconds))
        await self.clock.advance(seconds)
        return await task


async def test_an_answer_in_time_is_given_and_asked_for_anew_the_next_time() -> None:
    desk = Desk()

    assert [await desk.ask(), await desk.ask()] == ["a!", "a!"]
    assert desk.asked == ["a", "a"]
    assert desk.late == []


async def test_who_asks_again_joins_a_question_that_takes_long() -> None:
    desk = Desk(takes_s=5)

    for _ in range(2):
        with pytest.raises(TimeoutError):
            await desk.ask()

    assert await desk.ask() == "a!"
    assert desk.asked == ["a"]
    assert desk.late == []


async def test_an_answer_that_came_when_nobody_waited_is_told_and_kept() -> None:
    desk = Desk(takes_s=5)

    with pytest.raises(TimeoutError):
        await desk.ask()
    await desk.clock.advance(10)

    assert desk.late == ["a"]
    assert await desk.ask() == "a!"
    assert desk.asked == ["a"]


async def test_an_answer_that_came_when_nobody_waited_is_dropped_where_nobody_is_told() -> None:
    desk = Desk(takes_s=5)
    desk.lookups = Lookups(desk.clock, desk._answer)

    with pytest.raises(TimeoutError):
        await desk.ask()
    await desk.clock.advance(10)
    desk.takes_s = 0

    assert await desk.ask() == "a!"
    assert desk.asked == ["a", "a"]


async def test_two_who_wait_for_one_key_hear_the_same() -> None:
    desk = Desk(takes_s=1)

    both = asyncio.gather(desk.lookups.within("a", 2), desk.lookups.within("a", 2))
    await desk.clock.advance(2)

    assert list(await both) == ["a!", "a!"]
    assert desk.asked == ["a"]


async def test_a_failure_is_raised_once_and_asked_anew() -> None:
    desk = Desk(takes_s=5)
    desk.error = ValueError("no")

    with pytest.raises(TimeoutError):
        await desk.ask()
    await desk.clock.advance(10)
    with pytest.raises(ValueError, match="no"):
        await desk.ask()
    desk.error, desk.takes_s = None, 0

    assert await desk.ask() == "a!"


async def test_what_is_forgotten_is_not_told_of() -> None:
    desk = Desk(takes_s=5)

    for key in ("a", "b"):
        with pytest.raises(TimeoutError):
            await desk.ask(key)
    desk.lookups.forget("a")
    desk.lookups.forget("nothing")
    await desk.lookups.close()
    await desk.clock.advance(10)

    assert desk.late == []
