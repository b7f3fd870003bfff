# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account, ids_of, tags

SPOT_WARNING = "EC2 Spot Instance Interruption Warning"


@pytest.fixture
def account() -> Account:
    return Account()


def test_a_spot_instance_is_warned_and_ends_two_minutes_later(account: Account) -> None:
    instance_id = account.launch(market="spot")
    account.wait(10)

    account.ec2.apply({"interrupt": {"instanceIds": [instance_id]}})

    assert account.events(SPOT_WARNING) == [{"instance-id": instance_id, "instance-action": "terminate"}]
    account.wait(119)
    assert account.instance(instance_id)["State"]["Name"] == "running"
    account.wait(1)
    instance = account.instance(instance_id)
    assert instance["State"]["Name"] == "shutting-down"
    assert instance["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert instance["StateTransitionReason"].startswith("Server initiated")


def test_an_instance_that_left_by_itself_is_not_ended_again(account: Account) -> None:
    instance_id = account.launch(market="spot")
    account.ec2.apply({"interrupt": {}})

    account.call("TerminateInstances", InstanceIds=[instance_id])
    account.wait(200)

    assert account.instance(instance_id)["StateReason"]["Code"] == "Client.UserInitiatedShutdown"


def test_on_demand_instances_are_never_interrupted(account: Account) -> None:
    instance_id = account.launch()

    account.ec2.apply({"interrupt": {}, "rebalance": {}, "interruptReserved": {}})
    account.wait(200)

    assert account.instance(instance_id)["State"]["Name"] == "running"
    assert {kind for kind, _, _ in account.bus.events} == {"EC2 Instance State-change Notification"}


def test_victims_are_chosen_by_pool_tags_and_count(account: Account) -> None:
    spec = [tags("instance", team="a")]
    account.fleet(account.at("m5.large", ZONES[0]), count=3, market="spot", TagSpecifications=spec)
    account.fleet(account.at("m5.large", ZONES[1]), count=3, market="spot", TagSpecifications=spec)
    account.fleet(account.at("m5.large", ZONES[1]), count=3, market="spot")

    account.ec2.apply(
        {"interrupt": {"zone": ZONES[1], "tags": {"team": "a"}, "count": 2, "warningSeconds": 0}}
    )

    assert len(account.events(SPOT_WARNING)) == 2
    account.wait(0)
    gone = [each for each in account.ec2.instances.values() if not each.alive]
    assert {(each.zone, each.tags["team"]) for each in gone} == {(ZONES[1], "a")}


def test_a_rebalance_recommendation_is_a_hint_and_no_more(account: Account) -> None:
    instance_id = account.launch(market="spot")

    account.ec2.apply({"rebalance": {"instanceIds": [instance_id]}})
    account.wait(600)

    assert account.events("EC2 Instance Rebalance Recommendation") == [{"instance-id": instance_id}]
    assert account.instance(instance_id)["State"]["Name"] == "running"


def test_a_scheduled_change_is_one_health_event_for_all_its_instances(account: Account) -> None:
    ids = ids_of(account.fleet(count=3))

    account.ec2.apply({"scheduleEvent": {"instanceIds": ids[:2]}})

    (detail,) = account.events("AWS Health Event")
    assert (detail["service"], detail["eventTypeCategory"]) == ("EC2", "scheduledChange")
    assert [each["entityValue"] for each in detail["affectedEntities"]] == ids[:2]


def test_a_scheduled_change_for_nobody_is_no_event(account: Account) -> None:
    account.ec2.apply({"scheduleEvent": {}})

    assert account.events("AWS Health Event") == []


def test_an_instance_in_a_reservation_is_warned_and_ended(account: Account) -> None:
    account.ec2.apply(
        {
            "reservations": {
                "id": "cr-01",
                "instanceType": "m5.large",
                "zone": ZONES[0],
                "interruptible": True,
                "match": "open",
            }
        }
    )
    instance_id = account.launch()

    account.ec2.apply({"interruptReserved": {}})

    (detail,) = account.events("EC2 Capacity Reservation Instance Interruption Warning")
    assert detail["instance-id"] == instance_id
    account.wait(120)
    assert account.instance(instance_id)["StateReason"]["Code"] == "Server.CapacityReservationInterruption"


def test_somebody_ends_instances_by_hand(account: Account) -> None:
    ids = ids_of(account.fleet(count=2))

    account.ec2.apply({"terminate": {"instanceIds": ids[:1], "code": "Server.InternalError"}})
    account.ec2.apply({"terminate": {"instanceIds": ids[1:]}})

    assert account.instance(ids[0])["StateReason"]["Code"] == "Server.InternalError"
    assert account.instance(ids[1])["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
