# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from karpenter.cloud.aws.calls import Limit
from karpenter.cloud.aws.ratelimit import PUBLISHED, Bucket, buckets
from karpenter.kit.clock import FakeClock


async def _taken_at(clock: FakeClock, bucket: Bucket, count: int) -> list[float]:
    times: list[float] = []

    async def take() -> None:
        await bucket.take()
        times.append(clock.monotonic())

    tasks = [asyncio.create_task(take()) for _ in range(count)]
    await clock.advance(60)
    await asyncio.gather(*tasks)
    return times


async def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    clock = FakeClock()
    bucket = Bucket(clock, rate_per_s=2, burst=3)

    times = await _taken_at(clock, bucket, 7)

    assert times[:3] == [0, 0, 0]
    assert times[3:] == pytest.approx([0.5, 1.0, 1.5, 2.0], abs=0.01)


async def test_a_refusal_empties_the_bucket_and_halves_the_rate_for_a_while() -> None:
    clock = FakeClock()
    bucket = Bucket(clock, rate_per_s=4, burst=10)

    bucket.refused()
    slowed = bucket.rate_per_s
    times = await _taken_at(clock, bucket, 2)

    assert slowed == 2
    assert times[0] == pytest.approx(0.5, abs=0.02)
    assert bucket.rate_per_s == 4


async def test_many_refusals_leave_a_tenth_of_the_rate() -> None:
    bucket = Bucket(FakeClock(), rate_per_s=10, burst=10)

    for _ in range(20):
        bucket.refused()

    assert bucket.rate_per_s == pytest.approx(1.0)


async def test_more_than_a_bucket_holds_counts_as_a_full_bucket() -> None:
    clock = FakeClock()
    bucket = Bucket(clock, rate_per_s=1, burst=5)

    await bucket.take(100)
    times = await _taken_at(clock, bucket, 1)

    assert times[0] == pytest.approx(1.0, abs=0.01)


async def test_our_limits_lie_below_the_published_ones_but_for_whole_instances() -> None:
    ours = buckets(FakeClock())

    assert set(ours) == set(Limit)
    for limit, (rate, _) in PUBLISHED.items():
        assert ours[limit].rate_per_s < rate


def test_a_bucket_that_lets_nothing_through_is_refused() -> None:
    with pytest.raises(ValueError, match="lets nothing through"):
        Bucket(FakeClock(), rate_per_s=0, burst=5)
