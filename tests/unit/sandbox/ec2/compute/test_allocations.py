# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import START, ZONES, Account, codes_of, ids_of, tags

CREATE = "CreateInterruptibleCapacityReservationAllocation"
UPDATE = "UpdateInterruptibleCapacityReservationAllocation"
WARNING = "EC2 Capacity Reservation Instance Interruption Warning"


@pytest.fixture
def account() -> Account:
    return Account()


def reserve(account: Account, count: int = 3, **params: Any) -> str:
    made = account.call(
        "CreateCapacityReservation",
        InstanceType="m5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=ZONES[0],
        InstanceCount=count,
        InstanceMatchCriteria="targeted",
        **params,
    )
    return str(made["CapacityReservation"]["CapacityReservationId"])


def shown(account: Account, reservation: str) -> Any:
    answer = account.call("DescribeCapacityReservations", CapacityReservationIds=[reservation])
    return answer["CapacityReservations"][0]


def lend(account: Account, source: str, count: int, **params: Any) -> str:
    account.call(CREATE, CapacityReservationId=source, InstanceCount=count, **params)
    allocation = shown(account, source)["InterruptibleCapacityAllocation"]
    return str(allocation["InterruptibleCapacityReservationId"])


def launch_into(account: Account, reservation: str, count: int = 1) -> list[str]:
    account.add_template(
        f"into-{reservation}",
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation},
        },
    )
    fleet = account.fleet(template=f"into-{reservation}", count=count)
    assert codes_of(fleet) == []
    return ids_of(fleet)


def test_an_allocation_moves_unused_places_to_an_interruptible_reservation(account: Account) -> None:
    source = reserve(account, 3)

    answer = account.call(
        CREATE,
        CapacityReservationId=source,
        InstanceCount=2,
        TagSpecifications=[tags("capacity-reservation", team="a")],
    )

    allocation = shown(account, source)["InterruptibleCapacityAllocation"]
    lent = shown(account, allocation["InterruptibleCapacityReservationId"])
    assert answer == {
        "SourceCapacityReservationId": source,
        "TargetInstanceCount": 2,
        "Status": "active",
        "InterruptionType": "adhoc",
    }
    assert (allocation["InstanceCount"], allocation["TargetInstanceCount"]) == (2, 2)
    assert shown(account, source)["TotalInstanceCount"] == 1
    assert lent["TotalInstanceCount"] == lent["AvailableInstanceCount"] == 2
    assert lent["Interruptible"] is True
    assert lent["InterruptionInfo"]["SourceCapacityReservationId"] == source
    assert lent["Tags"] == [{"Key": "team", "Value": "a"}]
    assert (lent["InstanceType"], lent["AvailabilityZone"]) == ("m5.large", ZONES[0])


def test_reclaimed_places_come_back_two_minutes_after_their_instances_were_warned(account: Account) -> None:
    source = reserve(account, 1)
    lent = lend(account, source, 1)
    (instance,) = launch_into(account, lent)
    account.wait(5)

    answer = account.call(UPDATE, CapacityReservationId=source, TargetInstanceCount=0)
    warned = account.events(WARNING)
    account.wait(119)
    before = account.instance(instance)["State"]["Name"]
    during = shown(account, lent)["State"]
    account.wait(1)

    assert (answer["Status"], answer["InstanceCount"], answer["TargetInstanceCount"]) == ("canceling", 1, 0)
    assert [each["instance-id"] for each in warned] == [instance]
    assert (before, during) == ("running", "active")
    assert account.instance(instance)["State"]["Name"] == "shutting-down"
    assert shown(account, lent)["State"] == "cancelled"
    assert shown(account, source)["AvailableInstanceCount"] == 1
    assert shown(account, source)["InterruptibleCapacityAllocation"]["Status"] == "canceled"
    (complete,) = account.events("EC2 Capacity Reservation Interruptible Reclamation Complete")
    assert (complete["ReclaimedInstanceCount"], complete["TotalInstanceCount"]) == (1, 1)


def test_the_newest_instances_are_interrupted_and_no_more_than_needed(account: Account) -> None:
    source = reserve(account, 3)
    lent = lend(account, source, 3)
    _, middle, newest = launch_into(account, lent, 3)

    account.call(UPDATE, CapacityReservationId=source, TargetInstanceCount=1)
    during = shown(account, lent)
    account.wait(120)

    assert [each["instance-id"] for each in account.events(WARNING)] == [newest, middle]
    assert during["AvailableInstanceCount"] == 0
    assert shown(account, lent)["TotalInstanceCount"] == 1
    assert shown(account, lent)["State"] == "active"
    assert shown(account, source)["TotalInstanceCount"] == 2
    assert shown(account, source)["InterruptibleCapacityAllocation"]["Status"] == "active"


def test_unused_places_come_back_at_once_and_more_can_be_lent(account: Account) -> None:
    source = reserve(account, 4)
    lent = lend(account, source, 2)

    account.call(UPDATE, CapacityReservationId=source, TargetInstanceCount=3)
    more = shown(account, lent)["TotalInstanceCount"], shown(account, source)["TotalInstanceCount"]
    account.call(UPDATE, CapacityReservationId=source, TargetInstanceCount=1)

    assert more == (3, 1)
    assert (shown(account, lent)["TotalInstanceCount"], shown(account, source)["TotalInstanceCount"]) == (
        1,
        3,
    )


def test_an_allocation_of_zero_is_kept_where_that_is_preferred(account: Account) -> None:
    source = reserve(account, 1)
    lent = lend(account, source, 1, ZeroSizePreference="retain")

    account.call(UPDATE, CapacityReservationId=source, TargetInstanceCount=0)

    assert (shown(account, lent)["State"], shown(account, lent)["TotalInstanceCount"]) == ("active", 0)
    account.call(UPDATE, CapacityReservationId=source, TargetInstanceCount=1)
    assert shown(account, lent)["AvailableInstanceCount"] == 1


def test_a_source_is_cancelled_only_after_it_has_its_places_back(account: Account) -> None:
    source = reserve(account, 1)
    lend(account, source, 1)

    refused = account.refused("CancelCapacityReservation", CapacityReservationId=source)
    account.call(UPDATE, CapacityReservationId=source, TargetInstanceCount=0)

    assert "has an active interruptible capacity allocation" in refused.message
    account.call("CancelCapacityReservation", CapacityReservationId=source)
    assert shown(account, source)["State"] == "cancelled"


def test_a_source_without_an_allocation_has_nothing_to_update(account: Account) -> None:
    source = reserve(account, 1)
    refused = account.refused(UPDATE, CapacityReservationId=source, TargetInstanceCount=0)
    lend(account, source, 1)
    account.call(UPDATE, CapacityReservationId=source, TargetInstanceCount=0)
    again = account.refused(UPDATE, CapacityReservationId=source, TargetInstanceCount=0)

    for each in (refused, again):
        assert "doesn't have an active interruptible capacity allocation" in each.message


def test_allocations_that_ec2_refuses(account: Account) -> None:
    source, ending = (
        reserve(account, 2),
        reserve(account, 2, EndDateType="limited", EndDate=START + timedelta(hours=1)),
    )

    def code(reservation: str, count: int, **params: Any) -> str:
        return account.refused(CREATE, CapacityReservationId=reservation, InstanceCount=count, **params).code

    assert code("cr-01", 1) == "InvalidCapacityReservationId.NotFound"
    assert code(ending, 1) == "InvalidCapacityReservationState"
    assert code(source, 3) == "InvalidParameterValue"
    assert code(source, 0) == "InvalidParameterValue"
    assert code(source, 1, ZeroSizePreference="maybe") == "InvalidParameterValue"
    assert code(source, 1, DryRun=True) == "DryRunOperation"
    lent = lend(account, source, 1)
    assert code(source, 1) == "InvalidCapacityReservationState"
    assert code(lent, 1) == "UnsupportedOperation"
    assert (
        account.refused("CancelCapacityReservation", CapacityReservationId=lent).code
        == "UnsupportedOperation"
    )
    assert account.refused(UPDATE, CapacityReservationId=source, TargetInstanceCount=3).code == (
        "InvalidParameterValue"
    )
    assert account.refused(UPDATE, CapacityReservationId=source).code == "MissingParameter"
