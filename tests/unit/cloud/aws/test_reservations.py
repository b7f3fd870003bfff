# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from karpenter.api import labels
from karpenter.api.ec2nodeclass import CapacityReservation, CapacityReservationSelectorTerm, EC2NodeClass
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.reservations import (
    ReservationCounts,
    Reservations,
    expiring_claims,
    released_claims,
)
from karpenter.cloud.protocol import Machine
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import claim, node_class
from tests.unit.cloud.aws.fakes import FakeAws, aws_error


def reservation(reservation_id: str = "cr-1", **more: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": reservation_id,
        "AvailabilityZone": "us-west-2a",
        "InstanceType": "m5.large",
        "OwnerId": "111111111111",
        "InstanceMatchCriteria": "targeted",
        "AvailableInstanceCount": 3,
        "State": "active",
        **more,
    }


def with_terms(*terms: CapacityReservationSelectorTerm) -> EC2NodeClass:
    return node_class(spec={"capacity_reservation_selector_terms": terms})


def answering(*found: dict[str, Any]) -> FakeAws:
    return FakeAws({"DescribeCapacityReservations": {"CapacityReservations": list(found)}})


BY_TAG = CapacityReservationSelectorTerm(tags={"team": "a"}, owner_id="111111111111")


async def test_a_class_without_terms_has_no_reservations_and_asks_nobody() -> None:
    aws = FakeAws()

    assert await Reservations(aws, FakeClock()).find(with_terms()) == ()
    assert aws.calls == []


async def test_a_term_asks_by_tags_owner_and_criteria_for_active_ones() -> None:
    aws = answering(reservation())
    term = CapacityReservationSelectorTerm(
        tags={"team": "a"}, owner_id="111111111111", instance_match_criteria="open"
    )

    (found,) = await Reservations(aws, FakeClock()).find(with_terms(term))

    (call,) = aws.named("DescribeCapacityReservations")
    assert call["Filters"] == [
        {"Name": "tag:team", "Values": ["a"]},
        {"Name": "owner-id", "Values": ["111111111111"]},
        {"Name": "instance-match-criteria", "Values": ["open"]},
        {"Name": "state", "Values": ["active"]},
    ]
    assert found.reservation.id == "cr-1"
    assert found.reservation.state == "active"
    assert found.room == 3


async def test_a_term_that_names_only_an_owner_never_asks_for_all_of_theirs() -> None:
    aws = FakeAws()

    found = await Reservations(aws, FakeClock()).find(
        with_terms(CapacityReservationSelectorTerm(owner_id="111111111111"))
    )

    assert (found, aws.calls) == ((), [])


async def test_one_id_that_is_gone_does_not_hide_the_others() -> None:
    def answer(**parameters: Any) -> Any:
        ids = parameters["CapacityReservationIds"]
        if "cr-gone" in ids:
            return aws_error("InvalidCapacityReservationId.NotFound")
        return {"CapacityReservations": [reservation(each) for each in ids]}

    aws = FakeAws({"DescribeCapacityReservations": answer})
    terms = [CapacityReservationSelectorTerm(id=each) for each in ("cr-2", "cr-gone", "cr-1")]

    found = await Reservations(aws, FakeClock()).find(with_terms(*terms))

    assert [each.reservation.id for each in found] == ["cr-1", "cr-2"]


async def test_a_refusal_goes_to_the_caller() -> None:
    aws = FakeAws({"DescribeCapacityReservations": aws_error("UnauthorizedOperation")})

    with pytest.raises(AwsError):
        await Reservations(aws, FakeClock()).find(with_terms(CapacityReservationSelectorTerm(id="cr-1")))


@pytest.mark.parametrize(
    ("kind", "minutes", "state"),
    [("capacity-block", 41, "active"), ("capacity-block", 40, "expiring"), ("default", 5, "active")],
)
async def test_a_capacity_block_expires_forty_minutes_before_its_end(
    kind: str, minutes: int, state: str
) -> None:
    clock = FakeClock()
    # As boto3 would never give it, but a test double of somebody else might: without its zone.
    ends = (clock.now() + timedelta(minutes=minutes)).replace(tzinfo=None)
    aws = answering(reservation(ReservationType=kind, EndDate=ends, Interruptible=True))

    (found,) = await Reservations(aws, clock).find(with_terms(BY_TAG))

    assert found.reservation.state == state
    assert found.reservation.reservation_type == kind
    assert found.reservation.interruptible
    assert found.reservation.end_time == clock.now() + timedelta(minutes=minutes)


@pytest.mark.parametrize("more", [{"State": "cancelled"}, {"EndDate": "now"}])
async def test_what_is_over_is_not_found(more: dict[str, Any]) -> None:
    clock = FakeClock()
    told: dict[str, Any] = {key: clock.now() if value == "now" else value for key, value in more.items()}

    assert await Reservations(answering(reservation(**told)), clock).find(with_terms(BY_TAG)) == ()


async def test_room_follows_launches_and_ends_until_ec2_is_asked_again() -> None:
    aws, clock = answering(reservation()), FakeClock()
    reservations = Reservations(aws, clock)
    await reservations.find(with_terms(BY_TAG))
    counts = reservations.counts

    clock.tick(1)
    counts.used("cr-1")
    counts.used("cr-1")
    counts.freed("cr-1")
    assert counts.room("cr-1") == 2
    clock.tick(60)
    await reservations.find(with_terms(BY_TAG))

    assert counts.room("cr-1") == 3
    assert len(aws.calls) == 2


async def test_remembered_findings_do_not_bring_back_room_that_was_used() -> None:
    reservations = Reservations(answering(reservation()), FakeClock())
    await reservations.find(with_terms(BY_TAG))
    reservations.counts.used("cr-1")

    await reservations.find(with_terms(BY_TAG))

    assert reservations.counts.room("cr-1") == 2


def test_room_never_falls_below_nothing_and_an_unknown_reservation_has_none() -> None:
    counts = ReservationCounts(FakeClock())
    counts.set("cr-1", 1, asked_at=0)
    for _ in range(3):
        counts.used("cr-1")
    counts.freed("cr-unknown")

    assert (counts.room("cr-1"), counts.room("cr-unknown")) == (0, 0)


def test_a_reservation_that_turned_out_full_has_no_room() -> None:
    counts = ReservationCounts(FakeClock(datetime.fromisoformat("2026-01-01T00:00:00+00:00")))
    counts.set("cr-1", 5, asked_at=0)

    counts.used("cr-1", True)

    assert counts.room("cr-1") == 0


def test_a_launch_while_ec2_is_asked_still_counts_after_its_answer() -> None:
    clock = FakeClock()
    counts = ReservationCounts(clock)
    asked_at = clock.monotonic()
    clock.tick(0.5)
    counts.used("cr-1")

    counts.set("cr-1", 1, asked_at=asked_at)

    assert counts.room("cr-1") == 0


def test_an_answer_that_was_overtaken_changes_nothing() -> None:
    counts = ReservationCounts(FakeClock())
    counts.set("cr-1", 1, asked_at=10)

    counts.set("cr-1", 9, asked_at=5)

    assert counts.room("cr-1") == 1


RESERVED = {labels.CAPACITY_TYPE: labels.RESERVED, labels.CAPACITY_RESERVATION_ID: "cr-1"}


@pytest.mark.parametrize(("state", "ends"), [("expiring", ["uid-1"]), ("active", [])])
def test_claims_in_a_block_that_is_about_to_end_are_found(state: str, ends: list[str]) -> None:
    block = CapacityReservation(
        id="cr-1",
        availability_zone="us-west-2a",
        instance_type="p5.48xlarge",
        owner_id="111111111111",
        instance_match_criteria="targeted",
        reservation_type="capacity-block",
        state=state,
    )
    claims = [claim("uid-1", node_labels=RESERVED), claim("uid-2")]

    found = expiring_claims(claims, [node_class(status={"capacity_reservations": (block,)})])

    assert [each.metadata.uid for each in found] == ends


def test_claims_whose_reservation_let_their_machine_go_are_found() -> None:
    claims = [
        claim("uid-1", node_labels=RESERVED, provider_id="aws:///z/i-1"),
        claim("uid-2", node_labels=RESERVED, provider_id="aws:///z/i-2"),
        claim("uid-3", provider_id="aws:///z/i-3"),
        claim("uid-4", node_labels=RESERVED, provider_id="aws:///z/i-4"),
    ]
    paid, held = {labels.CAPACITY_TYPE: labels.ON_DEMAND}, {labels.CAPACITY_TYPE: labels.RESERVED}
    machines = [
        Machine("aws:///z/i-1", labels=paid),
        Machine("aws:///z/i-2", labels=held),
        Machine("aws:///z/i-3", labels=paid),
        Machine("aws:///z/i-4", labels=paid, state="shutting-down"),
    ]

    assert [each.metadata.uid for each in released_claims(claims, machines)] == ["uid-1"]
