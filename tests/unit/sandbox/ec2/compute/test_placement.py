# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account, codes_of, ids_of, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def group(account: Account, strategy: str, name: str = "racks", **params: Any) -> Any:
    made = account.call("CreatePlacementGroup", GroupName=name, Strategy=strategy, **params)["PlacementGroup"]
    account.add_template(name, Placement={"GroupName": name})
    return made


def test_a_spread_group_takes_seven_in_a_zone(account: Account) -> None:
    group(account, "spread")

    fleet = account.fleet(
        account.at("m5.large", ZONES[0]), account.at("m5.large", ZONES[1]), count=10, template="racks"
    )

    assert {row["AvailabilityZone"]: len(row["InstanceIds"]) for row in fleet["Instances"]} == {
        ZONES[0]: 7,
        ZONES[1]: 3,
    }
    assert codes_of(fleet) == ["InsufficientInstanceCapacity"]
    assert "spread placement group 'racks' has reached its limit of 7" in fleet["Errors"][0]["ErrorMessage"]
    account.call("TerminateInstances", InstanceIds=ids_of(fleet)[:1])
    assert len(ids_of(account.fleet(template="racks"))) == 1


def test_a_cluster_group_stays_in_the_zone_of_its_first_member(account: Account) -> None:
    group(account, "cluster")
    account.launch(template="racks")

    fleet = account.fleet(account.at("m5.large", ZONES[1]), template="racks")

    assert codes_of(fleet) == ["InvalidPlacementGroup.InUse"]


def test_a_partition_group_fills_the_emptiest_or_the_asked_partition(account: Account) -> None:
    made = group(account, "partition", PartitionCount=3)
    account.add_template("asked", Placement={"GroupId": made["GroupId"], "PartitionNumber": 2})
    account.add_template("beyond", Placement={"GroupId": made["GroupId"], "PartitionNumber": 4})

    spread = [account.instance(each) for each in ids_of(account.fleet(count=3, template="racks"))]
    asked = account.instance(account.launch(template="asked"))

    assert [each["Placement"]["PartitionNumber"] for each in spread] == [1, 2, 3]
    assert spread[0]["Placement"]["GroupName"] == "racks"
    assert asked["Placement"]["PartitionNumber"] == 2
    assert codes_of(account.fleet(template="beyond")) == ["InvalidParameterValue"]


def test_groups_are_found_by_id_name_and_filter(account: Account) -> None:
    made = group(account, "spread", TagSpecifications=[tags("placement-group", team="a")])
    group(account, "cluster", "other")

    for params in (
        {"GroupIds": [made["GroupId"]]},
        {"GroupNames": ["racks"]},
        {"Filters": [only("strategy", "spread"), only("state", "available")]},
        {"Filters": [only("tag:team", "a")]},
        {"Filters": [only("group-arn", "*/racks")]},
    ):
        (found,) = account.call("DescribePlacementGroups", **params)["PlacementGroups"]
        assert (found["GroupName"], found["SpreadLevel"]) == ("racks", "rack")


def test_a_group_in_use_is_kept_and_an_empty_one_goes(account: Account) -> None:
    group(account, "spread")
    instance_id = account.launch(template="racks")

    assert account.refused("DeletePlacementGroup", GroupName="racks").code == "InvalidPlacementGroup.InUse"
    account.call("TerminateInstances", InstanceIds=[instance_id])
    account.call("DeletePlacementGroup", GroupName="racks")
    assert account.call("DescribePlacementGroups")["PlacementGroups"] == []


def test_a_type_that_cannot_be_placed_so_is_refused(account: Account) -> None:
    group(account, "cluster")

    assert codes_of(account.fleet(account.at("t3.medium"), template="racks")) == [
        "InvalidParameterCombination"
    ]


@pytest.mark.parametrize(
    ("action", "params", "code"),
    [
        ("CreatePlacementGroup", {"Strategy": "spread"}, "MissingParameter"),
        ("CreatePlacementGroup", {"GroupName": "x", "Strategy": "heap"}, "InvalidParameterValue"),
        (
            "CreatePlacementGroup",
            {"GroupName": "x", "Strategy": "partition", "PartitionCount": 8},
            "InvalidParameterValue",
        ),
        (
            "CreatePlacementGroup",
            {"GroupName": "x", "Strategy": "spread", "PartitionCount": 2},
            "InvalidParameterValue",
        ),
        (
            "CreatePlacementGroup",
            {"GroupName": "racks", "Strategy": "spread"},
            "InvalidPlacementGroup.Duplicate",
        ),
        ("CreatePlacementGroup", {"GroupName": "x", "DryRun": True}, "DryRunOperation"),
        ("DescribePlacementGroups", {"GroupNames": ["gone"]}, "InvalidPlacementGroup.Unknown"),
        ("DescribePlacementGroups", {"GroupIds": ["pg-01"]}, "InvalidPlacementGroup.Unknown"),
        ("DeletePlacementGroup", {"GroupName": "gone"}, "InvalidPlacementGroup.Unknown"),
    ],
)
def test_bad_requests_for_groups_are_refused(
    account: Account, action: str, params: dict[str, Any], code: str
) -> None:
    group(account, "spread")

    assert account.refused(action, **params).code == code
