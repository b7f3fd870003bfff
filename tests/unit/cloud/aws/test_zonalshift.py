# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.zonalshift import NotRegisteredError, ShiftChange, ZonalShifts, cluster_arn
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws, aws_error


def shift(zone_id: str, clock: FakeClock, *, minutes: float = 60, status: str = "APPLIED") -> dict[str, Any]:
    ends = clock.now() + timedelta(minutes=minutes)
    return {"appliedStatus": status, "awayFrom": zone_id, "expiryTime": ends}


async def test_the_arn_of_the_cluster_comes_from_eks() -> None:
    aws = FakeAws({"DescribeCluster": {"cluster": {"arn": "arn:demo"}}})

    assert await cluster_arn(aws, "demo") == "arn:demo"


async def test_only_applied_shifts_count_and_those_that_aws_starts_itself() -> None:
    clock = FakeClock()
    answer = {
        "zonalShifts": [shift("usw2-az1", clock), shift("usw2-az2", clock, status="NOT_APPLIED")],
        "autoshifts": [
            {"appliedStatus": "APPLIED", "awayFrom": "usw2-az3"},
            {"appliedStatus": "NOT_APPLIED", "awayFrom": "usw2-az4"},
        ],
    }
    shifts = ZonalShifts(FakeAws({"GetManagedResource": answer}), clock, arn="arn:demo")
    assert shifts.shifted_zone_ids() == frozenset()

    change = await shifts.refresh()

    assert shifts.shifted_zone_ids() == {"usw2-az1", "usw2-az3"}
    assert change == ShiftChange(started=frozenset({"usw2-az1", "usw2-az3"}))


async def test_a_shift_ends_by_our_own_clock_between_two_questions_and_is_then_told_as_cleared() -> None:
    clock = FakeClock()
    answers = [{"zonalShifts": [shift("usw2-az1", clock, minutes=1)]}, {"zonalShifts": []}]
    shifts = ZonalShifts(FakeAws({"GetManagedResource": answers}), clock, arn="arn:demo")
    await shifts.refresh()

    clock.tick(60)
    assert shifts.shifted_zone_ids() == frozenset()

    assert await shifts.refresh() == ShiftChange(cleared=frozenset({"usw2-az1"}))
    assert not await shifts.refresh()


async def test_an_end_without_its_zone_is_utc() -> None:
    clock = FakeClock()
    told = shift("usw2-az1", clock, minutes=1)
    bare = {**told, "expiryTime": told["expiryTime"].replace(tzinfo=None)}
    shifts = ZonalShifts(FakeAws({"GetManagedResource": {"zonalShifts": [bare]}}), clock, arn="arn:demo")
    await shifts.refresh()

    clock.tick(59)
    assert shifts.shifted_zone_ids() == {"usw2-az1"}
    clock.tick(1)

    assert shifts.shifted_zone_ids() == frozenset()


async def test_a_cluster_that_is_not_registered_is_an_error_with_a_way_out() -> None:
    aws = FakeAws({"GetManagedResource": aws_error("ResourceNotFoundException")})

    with pytest.raises(NotRegisteredError) as refused:
        await ZonalShifts(aws, FakeClock(), arn="arn:demo").refresh()

    assert "enable-zonal-shift" in refused.value.hint


async def test_an_outage_of_arc_leaves_what_is_known() -> None:
    clock = FakeClock()
    answers = [{"zonalShifts": [shift("usw2-az1", clock)]}, aws_error("InternalServerException", status=500)]
    shifts = ZonalShifts(FakeAws({"GetManagedResource": answers}), clock, arn="arn:demo")
    await shifts.refresh()

    with pytest.raises(AwsError):
        await shifts.refresh()

    assert shifts.shifted_zone_ids() == {"usw2-az1"}
