# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta

import pytest

from karpenter.sandbox.ec2.compute.capacity import quota_family
from tests.unit.sandbox.ec2.compute.account import ZONES, Account, codes_of, ids_of, tags


@pytest.fixture
def account() -> Account:
    return Account()


def test_a_pool_has_room_again_when_its_instance_ends(account: Account) -> None:
    account.ec2.apply({"capacity": {"instanceType": "m5.*", "count": 1}})
    first = account.launch()
    assert codes_of(account.fleet()) == ["InsufficientInstanceCapacity"]

    account.call("TerminateInstances", InstanceIds=[first])

    assert len(ids_of(account.fleet())) == 1


def test_of_several_rules_the_last_one_wins(account: Account) -> None:
    account.ec2.apply({"capacity": [{"count": 0}, {"instanceType": "m5.*", "count": None}]})

    assert len(ids_of(account.fleet(account.at("m5.large")))) == 1
    assert codes_of(account.fleet(account.at("c5.large"))) == ["InsufficientInstanceCapacity"]


def test_spot_and_on_demand_draw_on_different_pools(account: Account) -> None:
    account.ec2.apply({"capacity": {"capacityType": "spot", "count": 0}})

    spot = account.fleet(market="spot")

    assert (
        spot["Errors"][0]["ErrorMessage"] == "There is no Spot capacity available that matches your request."
    )
    assert len(ids_of(account.fleet())) == 1


def test_a_scripted_error_holds_for_its_span(account: Account) -> None:
    account.ec2.apply(
        {
            "errors": {
                "code": "UnfulfillableCapacity",
                "zone": ZONES[0],
                "forSeconds": 180,
                "message": "not now",
            }
        }
    )

    fleet = account.fleet(account.at("m5.large", ZONES[0]), account.at("m5.large", ZONES[1]))

    assert [error["ErrorMessage"] for error in fleet["Errors"]] == ["not now"]
    assert fleet["Instances"][0]["AvailabilityZone"] == ZONES[1]
    account.wait(180)
    assert account.fleet(account.at("m5.large", ZONES[0]))["Errors"] == []


def test_a_scripted_error_in_the_future_waits_for_its_time(account: Account) -> None:
    begins = account.clock.now() + timedelta(seconds=60)
    account.ec2.apply({"errors": {"code": "Unsupported", "from": begins, "forSeconds": 10}})

    assert account.fleet()["Errors"] == []
    account.wait(60)
    assert codes_of(account.fleet()) == ["Unsupported"]
    account.wait(10)
    assert account.fleet()["Errors"] == []


def test_a_scripted_error_can_strike_a_number_of_times(account: Account) -> None:
    account.ec2.apply({"errors": {"code": "MaxFleetCountExceeded", "times": 2}})

    codes = [codes_of(account.fleet()) for _ in range(3)]

    assert codes == [["MaxFleetCountExceeded"], ["MaxFleetCountExceeded"], []]


@pytest.mark.parametrize(
    ("market", "code"), [("on-demand", "VcpuLimitExceeded"), ("spot", "MaxSpotInstanceCountExceeded")]
)
def test_a_quota_counts_vcpus_of_its_market_and_family(account: Account, market: str, code: str) -> None:
    account.ec2.apply({"quotas": {"capacityType": market, "family": "standard", "vcpus": 6}})

    fleet = account.fleet(account.at("m5.large"), count=5, market=market)

    assert len(ids_of(fleet)) == 3
    assert codes_of(fleet) == [code]
    other = "spot" if market == "on-demand" else "on-demand"
    assert len(ids_of(account.fleet(market=other))) == 1
    gpu = account.fleet(account.at("g5.xlarge"), market=market)
    assert len(ids_of(gpu)) == 1


def test_a_quota_set_again_replaces_the_old_one(account: Account) -> None:
    account.ec2.apply({"quotas": {"vcpus": 0}})
    account.ec2.apply({"quotas": {"vcpus": 100}})

    assert len(ids_of(account.fleet())) == 1


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("m5.large", "standard"),
        ("t3.micro", "standard"),
        ("g5.xlarge", "g"),
        ("vt1.3xlarge", "g"),
        ("p5.48xlarge", "p"),
        ("inf2.xlarge", "inf"),
        ("trn1.2xlarge", "trn"),
        ("dl1.24xlarge", "dl"),
        ("hpc7g.16xlarge", "hpc"),
        ("u-6tb1.metal", "u"),
        ("u7i-12tb.224xlarge", "u"),
        ("x2idn.large", "x"),
        ("f1.2xlarge", "f"),
    ],
)
def test_types_count_against_the_quota_of_their_family(name: str, family: str) -> None:
    assert quota_family(name) == family


def test_a_subnet_without_addresses_is_an_error_and_another_serves(account: Account) -> None:
    account.ec2.apply({"subnets": {"zone": ZONES[0], "freeAddresses": 1}})

    fleet = account.fleet(account.at("m5.large", ZONES[0]), account.at("m5.large", ZONES[1]), count=3)

    assert codes_of(fleet) == ["InsufficientFreeAddressesInSubnet"]
    assert [row["AvailabilityZone"] for row in fleet["Instances"]] == [ZONES[0], ZONES[1]]


def test_without_the_service_linked_role_there_is_no_spot(account: Account) -> None:
    account.ec2.apply({"settings": {"spotServiceLinkedRole": False}})

    assert codes_of(account.fleet(market="spot")) == ["AuthFailure.ServiceLinkedRoleCreationNotPermitted"]
    assert len(ids_of(account.fleet())) == 1


def test_a_refused_launch_takes_nothing(account: Account) -> None:
    account.ec2.apply({"capacity": {"instanceType": "c5.large", "count": 0}})
    before = account.ec2.subnets[account.subnets[ZONES[0]]].free_addresses

    account.fleet(account.at("c5.large"), count=3)

    assert account.ec2.subnets[account.subnets[ZONES[0]]].free_addresses == before
    assert not +account.ec2.capacity.used
    assert not +account.ec2.capacity.used_vcpus


def test_a_template_with_tags_that_ec2_does_not_take_launches_nothing_and_takes_nothing(
    account: Account,
) -> None:
    account.add_template("odd", TagSpecifications=[tags("volume", **{"aws:mine": "x"})])

    assert codes_of(account.fleet(template="odd")) == ["InvalidParameterValue"]
    assert not +account.ec2.capacity.used
    assert account.ec2.subnets[account.subnets[ZONES[0]]].taken == set()
