# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.sandbox.ec2.behaviour.throttling import Bucket, Limits, Rate, Throttle, is_mutating
from karpenter.sandbox.ec2.contract import ModelError


class Time:
    """Model seconds that a test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def passed(throttle: Throttle, operation: str, count: int, **parameters: Any) -> int:
    """Counts how many of so many calls get through."""
    through = 0
    for _ in range(count):
        try:
            throttle.check("ec2", operation, parameters)
        except ModelError:
            continue
        through += 1
    return through


def test_a_bucket_holds_its_burst_and_fills_at_its_rate() -> None:
    time = Time()
    bucket = Bucket(Rate(2, 5), time)

    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]
    time.seconds += 1
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    time.seconds += 1000
    assert not bucket.take(6)
    assert bucket.take(5)


# The buckets also fill by real time, so a slow machine may let a call or two more through.
@pytest.mark.parametrize(
    ("operation", "burst"),
    [
        ("DescribeInstances", 100),
        ("CreateLaunchTemplate", 50),
        ("CreateFleet", 5),
        ("TerminateInstances", 100),
        ("CreateTags", 100),
    ],
)
def test_each_group_of_calls_has_the_burst_that_ec2_publishes(operation: str, burst: int) -> None:
    throttle = Throttle(Limits(), Time())

    assert burst <= passed(throttle, operation, burst + 50) <= burst + 10
    assert throttle.throttled >= 40


def test_a_throttled_call_is_told_as_ec2_tells_it() -> None:
    throttle = Throttle(Limits(launches=Rate(0.001, 1)), Time())
    throttle.check("ec2", "CreateFleet", {})

    with pytest.raises(ModelError) as refused:
        throttle.check("ec2", "CreateFleet", {})

    assert (refused.value.code, refused.value.status) == ("RequestLimitExceeded", 503)


def test_groups_do_not_use_up_each_others_tokens() -> None:
    throttle = Throttle(Limits(), Time())
    passed(throttle, "CreateFleet", 50)

    assert passed(throttle, "DescribeInstances", 10) == 10


def test_launches_draw_instances_from_a_bucket_of_their_own() -> None:
    time = Time()
    throttle = Throttle(Limits(launches=Rate(100, 100)), time)
    fleet = {"TargetCapacitySpecification": {"TotalTargetCapacity": 600}}

    assert passed(throttle, "CreateFleet", 2, **fleet) == 1
    assert passed(throttle, "RunInstances", 1, MaxCount=300) == 1
    time.seconds += 300
    assert passed(throttle, "CreateFleet", 1, **fleet) == 1


def test_a_dry_run_costs_no_instances() -> None:
    throttle = Throttle(Limits(), Time())

    assert passed(throttle, "RunInstances", 3, MaxCount=1000, DryRun=True) == 3


def test_other_services_and_switched_off_buckets_throttle_nobody() -> None:
    throttle = Throttle(Limits(launches=Rate(1, 1)), Time())
    for _ in range(300):
        throttle.check("iam", "CreateRole", {})
    throttle.set(Limits(enabled=False))

    assert passed(throttle, "CreateFleet", 300) == 300


@pytest.mark.parametrize(("rate", "burst"), [(0, 5), (-1, 5), (1, 0)])
def test_a_bucket_that_never_fills_is_refused(rate: float, burst: float) -> None:
    with pytest.raises(ValueError, match="perSecond"):
        Rate(rate, burst)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("DescribeInstances", False), ("GetRole", False), ("ReceiveMessage", False), ("CreateTags", True)],
)
def test_reading_is_told_from_changing(operation: str, expected: bool) -> None:  # noqa: FBT001
    assert is_mutating(operation) is expected
