# SPDX-License-Identifier: Apache-2.0
"""The model's time: it follows the machine's clock, runs faster or slower, stands still, or is set by hand.

Model time is a line over real time: ``anchor + speed * (real now - real anchor)``. Setting the time or the speed
moves the anchors. It refuses to run backwards, because machines and messages of the model are functions of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from karpenter.errors import KarpenterError

__all__ = ["ClockError", "ModelClock"]


class ClockError(KarpenterError):
    """A time or a speed that the model's clock cannot take."""


class ModelClock:
    """A clock for the whole model; ``speed`` 0 stands still, 1 is real time, 60 makes a minute of each second."""

    def __init__(
        self,
        start: datetime | None = None,
        *,
        speed: float = 1.0,
        real: Callable[[], float] = time.monotonic,
    ) -> None:
        self._real = real
        self._given_start = start
        self._start = _checked(start) if start else datetime.now(UTC)
        self._anchor = self._start
        self._real_anchor = real()
        self._speed = _checked_speed(speed)

    @classmethod
    def fixed(cls, start: datetime) -> ModelClock:
        """Makes a clock that stands still until it is advanced or set."""
        return cls(start, speed=0.0)

    @property
    def speed(self) -> float:
        """Tells how many model seconds pass in a real one."""
        return self._speed

    @property
    def start(self) -> datetime:
        """Tells when this model's time began; scenario times count from here."""
        return self._start

    def now(self) -> datetime:
        """Gives the model's time of day, in UTC and carrying its zone."""
        if not self._speed:
            return self._anchor
        return self._anchor + timedelta(seconds=(self._real() - self._real_anchor) * self._speed)

    def elapsed_s(self) -> float:
        """Gives the model seconds since its start."""
        return (self.now() - self._start).total_seconds()

    def advance(self, seconds: float) -> datetime:
        """Moves the time forward and gives the new one.

        Raises:
            ClockError: The seconds are negative.
        """
        if not seconds >= 0:
            raise ClockError(f"the model's clock does not run backwards: advance by {seconds} s")
        return self._anchor_at(self.now() + timedelta(seconds=seconds))

    def set(self, moment: datetime) -> datetime:
        """Sets the time, forward only, and gives it.

        Raises:
            ClockError: The moment has no zone or lies in the past of the model.
        """
        now = self.now()
        if _checked(moment) < now:
            raise ClockError(
                f"the model's clock does not run backwards: it is {now.isoformat()}, asked for {moment.isoformat()}",
                hint="start the model with an earlier time, or reset it",
            )
        return self._anchor_at(moment.astimezone(UTC))

    def set_speed(self, speed: float) -> None:
        """Makes time run faster, slower, or stand still from now on.

        Raises:
            ClockError: The speed is negative or not a number.
        """
        checked = _checked_speed(speed)
        self._anchor_at(self.now())
        self._speed = checked

    def restarted(self) -> ModelClock:
        """Gives a clock that starts as this one did, at the present speed."""
        return ModelClock(self._given_start, speed=self._speed, real=self._real)

    def _anchor_at(self, moment: datetime) -> datetime:
        self._anchor = moment
        self._real_anchor = self._real()
        return moment


def _checked(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ClockError(
            f"a time of the model needs its zone: {moment.isoformat()}",
            hint="add Z, as in 2026-01-01T00:00:00Z",
        )
    return moment


def _checked_speed(speed: float) -> float:
    if not 0 <= speed <= 1e6:
        raise ClockError(f"the speed of the model's clock is a number from 0 to 1000000, not {speed}")
    return speed
