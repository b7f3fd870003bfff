# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account, codes_of, ids_of, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def reserve(account: Account, count: int = 2, match: str = "targeted", **params: Any) -> str:
    made = account.call(
        "CreateCapacityReservation",
        InstanceType="m5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=ZONES[0],
        InstanceCount=count,
        InstanceMatchCriteria=match,
        **params,
    )
    return str(made["CapacityReservation"]["CapacityReservationId"])


def targeted(account: Account, reservation: str, name: str = "reserved") -> str:
    account.add_template(
        name,
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation},
        },
    )
    return name


def shown(account: Account, reservation: str) -> Any:
    (found,) = account.call("DescribeCapacityReservations", CapacityReservationIds=[reservation])[
        "CapacityReservations"
    ]
    return found


def test_a_targeted_reservation_takes_those_who_name_it_until_it_is_full(account: Account) -> None:
    reservation = reserve(account, 2)
    template = targeted(account, reservation)

    fleet = account.fleet(count=3, template=template)

    assert len(ids_of(fleet)) == 2
    assert codes_of(fleet) == ["ReservationCapacityExceeded"]
    instance = account.instance(ids_of(fleet)[0])
    assert instance["CapacityReservationId"] == reservation
    assert (
        instance["CapacityReservationSpecification"]["CapacityReservationPreference"]
        == "capacity-reservations-only"
    )
    assert shown(account, reservation)["AvailableInstanceCount"] == 0


def test_a_place_is_free_again_when_its_instance_ends(account: Account) -> None:
    reservation = reserve(account, 1)
    template = targeted(account, reservation)
    (first,) = ids_of(account.fleet(template=template))

    account.call("TerminateInstances", InstanceIds=[first])

    assert shown(account, reservation)["AvailableInstanceCount"] == 1
    assert len(ids_of(account.fleet(template=template))) == 1


def test_a_reserved_place_is_there_even_if_the_pool_is_dry(account: Account) -> None:
    template = targeted(account, reserve(account))
    account.ec2.apply({"capacity": {"count": 0}})

    assert len(ids_of(account.fleet(template=template))) == 1


def test_an_open_reservation_takes_launches_that_match_unless_they_say_none(account: Account) -> None:
    reservation = reserve(account, 1, match="open")
    account.add_template("apart", CapacityReservationSpecification={"CapacityReservationPreference": "none"})

    apart, first, second = (account.launch(template=name) for name in ("apart", "nodes", "nodes"))

    assert "CapacityReservationId" not in account.instance(apart)
    assert account.instance(first)["CapacityReservationId"] == reservation
    assert "CapacityReservationId" not in account.instance(second)


def test_a_targeted_reservation_is_not_taken_by_chance(account: Account) -> None:
    reserve(account, 5)

    assert "CapacityReservationId" not in account.instance(account.launch())


def test_reservations_only_without_one_is_refused(account: Account) -> None:
    account.add_template(
        "only",
        CapacityReservationSpecification={"CapacityReservationPreference": "capacity-reservations-only"},
    )

    assert codes_of(account.fleet(template="only")) == ["ReservationCapacityExceeded"]


def test_another_type_or_zone_does_not_fit(account: Account) -> None:
    template = targeted(account, reserve(account))

    assert codes_of(account.fleet(account.at("c5.large"), template=template)) == [
        "ReservationCapacityExceeded"
    ]
    assert codes_of(account.fleet(account.at("m5.large", ZONES[1]), template=template)) == [
        "ReservationCapacityExceeded"
    ]


@pytest.mark.parametrize("market", ["capacity-block", "reserved-capacity"])
def test_fleets_for_reserved_capacity_need_a_reservation(account: Account, market: str) -> None:
    account.ec2.apply(
        {
            "reservations": {
                "id": "cr-0b10c",
                "instanceType": "m5.large",
                "zone": ZONES[0],
                "count": 1,
                "type": "capacity-block",
                "endsInSeconds": 3600,
            }
        }
    )
    template = targeted(account, "cr-0b10c")

    first, second = (
        account.fleet(market=market, template=template),
        account.fleet(market=market, template=template),
    )

    assert len(ids_of(first)) == 1
    assert codes_of(second) == ["ReservationCapacityExceeded"]
    assert shown(account, "cr-0b10c")["ReservationType"] == "capacity-block"
    assert codes_of(account.fleet(market=market)) == ["ReservationCapacityExceeded"]


def test_state_follows_time(account: Account) -> None:
    now = account.clock.now()
    reservation = reserve(
        account,
        StartDate=now + timedelta(hours=1),
        EndDate=now + timedelta(hours=2),
        EndDateType="limited",
    )

    states = []
    for _ in range(3):
        states.append(shown(account, reservation)["State"])
        account.wait(3600)

    assert states == ["scheduled", "active", "expired"]
    assert codes_of(account.fleet(template=targeted(account, reservation))) == ["ReservationCapacityExceeded"]


def test_filters_and_tags_find_reservations(account: Account) -> None:
    first = reserve(account, TagSpecifications=[tags("capacity-reservation", team="a")])
    reserve(account, match="open")

    for name, value in (("tag:team", "a"), ("instance-match-criteria", "targeted")):
        found = account.call(
            "DescribeCapacityReservations", Filters=[only(name, value), only("state", "active")]
        )["CapacityReservations"]
        assert [each["CapacityReservationId"] for each in found] == [first]


def test_count_end_and_criteria_can_be_modified(account: Account) -> None:
    reservation = reserve(account, 2, EndDate=account.clock.now() + timedelta(days=1), EndDateType="limited")

    account.call(
        "ModifyCapacityReservation",
        CapacityReservationId=reservation,
        InstanceCount=5,
        EndDateType="unlimited",
        InstanceMatchCriteria="open",
    )

    now = shown(account, reservation)
    assert (now["TotalInstanceCount"], now["EndDateType"], now["InstanceMatchCriteria"]) == (
        5,
        "unlimited",
        "open",
    )
    end = account.clock.now() + timedelta(days=2)
    account.call("ModifyCapacityReservation", CapacityReservationId=reservation, EndDate=end)
    assert shown(account, reservation)["EndDate"] == end
    account.fleet(count=3)
    refused = account.refused("ModifyCapacityReservation", CapacityReservationId=reservation, InstanceCount=2)
    assert refused.code == "InvalidParameterValue"


def test_a_cancelled_reservation_keeps_its_instances_and_takes_no_more(account: Account) -> None:
    reservation = reserve(account, match="open")
    instance_id = account.launch()

    account.call("CancelCapacityReservation", CapacityReservationId=reservation)

    assert shown(account, reservation)["State"] == "cancelled"
    assert account.instance(instance_id)["State"]["Name"] == "pending"
    assert "CapacityReservationId" not in account.instance(account.launch())
    assert account.call("CancelCapacityReservation", CapacityReservationId=reservation) == {"Return": True}
    modified = account.refused(
        "ModifyCapacityReservation", CapacityReservationId=reservation, InstanceCount=3
    )
    assert modified.code == "InvalidCapacityReservationState"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"InstanceType": "m99.large"}, "InvalidParameterValue"),
        ({"AvailabilityZone": "us-west-2z"}, "Unsupported"),
        ({"AvailabilityZone": None, "AvailabilityZoneId": "usw2-az99"}, "InvalidParameterValue"),
        ({"InstanceCount": 0}, "InvalidParameterValue"),
        ({"EndDateType": "limited"}, "InvalidParameterValue"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_bad_reservations_are_refused(account: Account, params: dict[str, Any], code: str) -> None:
    good = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": ZONES[0],
        "InstanceCount": 1,
    }

    assert account.refused("CreateCapacityReservation", **{**good, **params}).code == code
    unknown = account.refused("DescribeCapacityReservations", CapacityReservationIds=["cr-01"])
    assert unknown.code == "InvalidCapacityReservationId.NotFound"


def test_a_zone_may_be_named_by_its_id(account: Account) -> None:
    made = account.call(
        "CreateCapacityReservation",
        InstanceType="m5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZoneId=account.ec2.zones()[ZONES[1]],
        InstanceCount=1,
    )

    assert made["CapacityReservation"]["AvailabilityZone"] == ZONES[1]


def test_instances_of_an_expired_reservation_go_on_as_on_demand_ones(account: Account) -> None:
    end = account.clock.now() + timedelta(hours=1)
    reservation = reserve(account, 2, match="open", EndDate=end, EndDateType="limited")
    instance_id = account.launch()
    assert account.instance(instance_id)["CapacityReservationId"] == reservation

    account.wait(3600)

    instance = account.instance(instance_id)
    assert "CapacityReservationId" not in instance
    assert instance["State"]["Name"] == "running"
    account.call("TerminateInstances", InstanceIds=[instance_id])
    assert not +account.ec2.capacity.used
    assert not -account.ec2.capacity.used


def test_a_reservation_whose_end_was_moved_does_not_expire_at_the_old_one(account: Account) -> None:
    now = account.clock.now()
    reservation = reserve(account, match="open", EndDate=now + timedelta(hours=1), EndDateType="limited")
    instance_id = account.launch()
    account.call(
        "ModifyCapacityReservation",
        CapacityReservationId=reservation,
        EndDate=now + timedelta(hours=2),
        EndDateType="limited",
    )

    account.wait(3600)

    assert account.instance(instance_id)["CapacityReservationId"] == reservation
    account.wait(3600)
    assert "CapacityReservationId" not in account.instance(instance_id)


@pytest.mark.parametrize("extended", [False, True])
def test_a_capacity_block_ends_its_instances_half_an_hour_before_its_end(
    account: Account, *, extended: bool
) -> None:
    block = {"id": "cr-0b10c", "instanceType": "m5.large", "zone": ZONES[0], "type": "capacity-block"}
    account.ec2.apply({"reservations": {**block, "endsInSeconds": 7200}})
    instance_id = account.launch(market="capacity-block", template=targeted(account, "cr-0b10c"))
    assert account.instance(instance_id)["InstanceLifecycle"] == "capacity-block"
    if extended:
        end = account.clock.now() + timedelta(hours=3)
        account.call("ModifyCapacityReservation", CapacityReservationId="cr-0b10c", EndDate=end)

    account.wait(5400 + 3600 * extended - 1)

    assert account.instance(instance_id)["State"]["Name"] == "running"
    account.wait(1)
    assert account.instance(instance_id)["StateReason"]["Code"] == "Server.CapacityBlockEnded"


def test_an_instance_in_an_interruptible_reservation_says_so(account: Account) -> None:
    account.ec2.apply(
        {
            "reservations": {
                "instanceType": "m5.large",
                "zone": ZONES[0],
                "interruptible": True,
                "match": "open",
            }
        }
    )

    assert account.instance(account.launch())["InstanceLifecycle"] == "interruptible-capacity-reservation"
