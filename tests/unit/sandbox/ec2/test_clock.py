# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from karpenter.sandbox.ec2.clock import ClockError, ModelClock
from tests.unit.sandbox.ec2.calling import START


class Real:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_fixed_clock_stands_still_until_it_is_moved() -> None:
    clock = ModelClock.fixed(START)

    assert clock.now() == START
    assert clock.advance(90) == clock.now() == START + timedelta(seconds=90)
    assert clock.elapsed_s() == 90


def test_a_fast_clock_makes_minutes_of_seconds() -> None:
    real = Real()
    clock = ModelClock(START, speed=60, real=real)

    real.seconds += 2

    assert clock.now() == START + timedelta(minutes=2)


def test_a_change_of_speed_moves_no_time() -> None:
    real = Real()
    clock = ModelClock(START, speed=10, real=real)
    real.seconds += 1

    clock.set_speed(0)
    real.seconds += 1000

    assert clock.speed == 0
    assert clock.now() == START + timedelta(seconds=10)


def test_time_does_not_run_backwards() -> None:
    clock = ModelClock.fixed(START)

    with pytest.raises(ClockError, match="backwards"):
        clock.advance(-1)
    with pytest.raises(ClockError, match="backwards"):
        clock.set(START - timedelta(seconds=1))


def test_a_time_without_a_zone_is_refused_with_a_hint() -> None:
    with pytest.raises(ClockError, match="zone") as refused:
        ModelClock.fixed(datetime(2026, 1, 1))  # noqa: DTZ001 - the point
    assert "Z" in refused.value.hint


@pytest.mark.parametrize("speed", [-1, float("nan"), 1e7])
def test_a_speed_out_of_range_is_refused(speed: float) -> None:
    with pytest.raises(ClockError, match="speed"):
        ModelClock(START, speed=speed)


def test_a_restarted_clock_begins_where_the_first_did() -> None:
    clock = ModelClock.fixed(START)
    clock.advance(500)

    again = clock.restarted()

    assert again.now() == again.start == START
