# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account

NOTIFICATION = "EC2 Instance State-change Notification"


@pytest.fixture
def account() -> Account:
    return Account()


def running(account: Account, **options: Any) -> str:
    instance = account.launch(**options)
    account.wait(5)
    return instance


def state(account: Account, instance: str) -> str:
    return str(account.instance(instance)["State"]["Name"])


def test_a_stopped_instance_is_stopping_first_and_says_so(account: Account) -> None:
    instance = running(account)

    (row,) = account.call("StopInstances", InstanceIds=[instance], Force=True)["StoppingInstances"]
    at_once = state(account, instance)
    account.wait(5)

    assert (row["PreviousState"]["Name"], row["CurrentState"]["Name"]) == ("running", "stopping")
    assert (at_once, state(account, instance)) == ("stopping", "stopped")
    assert [each["state"] for each in account.events(NOTIFICATION)] == [
        "pending",
        "running",
        "stopping",
        "stopped",
    ]
    assert account.instance(instance)["StateReason"]["Code"] == "Client.UserInitiatedShutdown"


def test_a_stopped_instance_keeps_its_address_and_volumes_and_gives_back_its_place(account: Account) -> None:
    account.ec2.apply({"capacity": {"instanceType": "m5.large", "count": 1}})
    instance = running(account)
    before = account.instance(instance)

    account.call("StopInstances", InstanceIds=[instance])
    account.wait(5)
    after = account.instance(instance)

    assert after["PrivateIpAddress"] == before["PrivateIpAddress"]
    assert after["BlockDeviceMappings"] == before["BlockDeviceMappings"]
    assert running(account) != instance


def test_a_stopped_instance_that_is_terminated_gives_back_its_place_once(account: Account) -> None:
    account.ec2.apply({"capacity": {"instanceType": "m5.large", "count": 1}})
    instance = running(account)
    account.call("StopInstances", InstanceIds=[instance])
    account.wait(5)

    account.call("TerminateInstances", InstanceIds=[instance])
    account.wait(5)

    assert state(account, instance) == "terminated"
    assert len(account.fleet(count=2)["Instances"][0]["InstanceIds"]) == 1


def test_a_stopped_instance_leaves_its_capacity_reservation(account: Account) -> None:
    account.call(
        "CreateCapacityReservation",
        InstanceType="m5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=ZONES[0],
        InstanceCount=1,
    )
    instance = running(account)
    assert account.instance(instance)["CapacityReservationId"]

    account.call("StopInstances", InstanceIds=[instance])

    assert "CapacityReservationId" not in account.instance(instance)
    (reservation,) = account.call("DescribeCapacityReservations")["CapacityReservations"]
    assert reservation["AvailableInstanceCount"] == 1


def test_stopping_twice_changes_nothing(account: Account) -> None:
    instance = running(account)
    account.call("StopInstances", InstanceIds=[instance])
    account.wait(5)

    (row,) = account.call("StopInstances", InstanceIds=[instance])["StoppingInstances"]

    assert (row["PreviousState"]["Name"], row["CurrentState"]["Name"]) == ("stopped", "stopped")


def test_a_status_check_does_not_apply_to_a_stopped_instance(account: Account) -> None:
    instance = running(account)
    account.call("StopInstances", InstanceIds=[instance])
    account.wait(5)

    assert account.call("DescribeInstanceStatus", InstanceIds=[instance])["InstanceStatuses"] == []


def test_what_cannot_be_stopped_is_refused(account: Account) -> None:
    pending = account.launch()
    account.wait(5)
    spot = running(account, market="spot")
    account.add_template("kept", DisableApiStop=True)
    kept = running(account, template="kept")
    fresh = account.launch()

    def code(*ids: str, **params: Any) -> str:
        return account.refused("StopInstances", InstanceIds=list(ids), **params).code

    assert code(spot) == "UnsupportedOperation"
    assert code(kept) == "OperationNotPermitted"
    assert code(fresh) == "IncorrectInstanceState"
    assert code("i-01") == "InvalidInstanceID.NotFound"
    assert code() == "MissingParameter"
    assert code(pending, Hibernate=True) == "UnsupportedHibernationConfiguration"
    assert code(pending, DryRun=True) == "DryRunOperation"
    assert state(account, pending) == "running"
