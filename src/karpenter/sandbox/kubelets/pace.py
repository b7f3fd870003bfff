# SPDX-License-Identifier: Apache-2.0
"""Waiting in the model's time: a clock, and how many model seconds pass in one of its seconds."""

from __future__ import annotations

import asyncio

from karpenter.kit.clock import Clock, within

__all__ = ["Pace"]


class Pace:
    """A clock with a speed; the speed may change while others wait, and holds for waits that begin afterwards."""

    def __init__(self, clock: Clock, speed: float = 1.0) -> None:
        self.clock = clock
        self.speed = speed

    async def sleep(self, model_s: float) -> None:
        """Waits that many model seconds; none at all lets nobody else run first."""
        if model_s > 0:
            await self.clock.sleep(model_s / self.speed)

    def model_s_since(self, moment: float) -> float:
        """Gives the model seconds since a moment of the clock's stopwatch, at the present speed."""
        return (self.clock.monotonic() - moment) * self.speed

    async def wait(self, event: asyncio.Event, real_s: float) -> None:
        """Waits for the event, at most that many seconds of the clock."""
        try:
            await within(self.clock, real_s, event.wait())
        except TimeoutError:
            return
