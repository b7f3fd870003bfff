# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter import facts
from tests.unit.sandbox.ec2.compute.account import ZONES, Account, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def request(account: Account, **params: Any) -> dict[str, Any]:
    return {
        "LaunchTemplate": {"LaunchTemplateName": "nodes"},
        "InstanceType": "m5.large",
        "SubnetId": account.subnets[ZONES[1]],
        "MinCount": 1,
        "MaxCount": 1,
        **params,
    }


def test_a_launch_answers_with_its_instances(account: Account) -> None:
    answer = account.call(
        "RunInstances",
        **request(account, MaxCount=3, MinCount=3, TagSpecifications=[tags("instance", a="b")]),
    )

    assert [each["AmiLaunchIndex"] for each in answer["Instances"]] == [0, 1, 2]
    assert answer["Instances"][0]["State"]["Name"] == "pending"
    assert answer["Instances"][0]["Placement"]["AvailabilityZone"] == ZONES[1]
    assert len(account.listed(only("tag:a", "b"), only("reservation-id", answer["ReservationId"]))) == 3


def test_without_a_template_the_parameters_stand_alone(account: Account) -> None:
    answer = account.call(
        "RunInstances",
        ImageId=account.arm_image,
        InstanceType="m6g.large",
        SecurityGroupIds=[account.group],
        InstanceMarketOptions={"MarketType": "spot"},
        MinCount=1,
        MaxCount=1,
    )

    assert answer["Instances"][0]["InstanceLifecycle"] == "spot"
    assert answer["Instances"][0]["Architecture"] == "arm64"


def test_a_launch_gets_as_many_as_there_are_from_the_minimum_on(account: Account) -> None:
    account.ec2.apply({"capacity": {"count": 3}})

    assert len(account.call("RunInstances", **request(account, MaxCount=5))["Instances"]) == 3
    refused = account.refused("RunInstances", **request(account, MaxCount=5))
    assert refused.code == "InsufficientInstanceCapacity"


def test_below_the_minimum_nothing_is_kept(account: Account) -> None:
    account.ec2.apply({"capacity": {"count": 3}})

    assert account.refused("RunInstances", **request(account, MinCount=4, MaxCount=4)).code
    assert account.listed() == []
    assert len(account.call("RunInstances", **request(account, MaxCount=3, MinCount=3))["Instances"]) == 3


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, "DryRunOperation"),
        ({"LaunchTemplate": {"LaunchTemplateName": "gone"}}, "InvalidLaunchTemplateName.NotFoundException"),
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"IamInstanceProfile": {"Arn": "arn:nobody"}}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-01"}, "InvalidSubnetID.NotFound"),
        ({"ImageId": "ami-01"}, "InvalidAMIID.NotFound"),
        ({"InstanceType": None}, "MissingParameter"),
        ({"InstanceType": "m6g.large"}, "InvalidParameterValue"),
        ({"UserData": "?"}, "InvalidUserData.Malformed"),
        ({"MinCount": None}, "MissingParameter"),
        ({"MaxCount": None}, "MissingParameter"),
        ({"MinCount": 2, "MaxCount": 1}, "InvalidParameterValue"),
    ],
)
def test_a_dry_run_checks_all_that_a_launch_would(
    account: Account, params: dict[str, Any], code: str
) -> None:
    refused = account.refused("RunInstances", **request(account, **params), DryRun=True)

    assert refused.code == code
    assert account.listed() == []


def test_an_instance_without_an_image_is_refused(account: Account) -> None:
    refused = account.refused("RunInstances", InstanceType="m5.large", MinCount=1, MaxCount=1)

    assert refused.message == "The request must contain the parameter ImageId"


def test_groups_on_the_interface_and_on_the_instance_exclude_each_other(account: Account) -> None:
    nic = [{"DeviceIndex": 0, "Groups": [account.group]}]

    refused = account.refused("RunInstances", **request(account, NetworkInterfaces=nic))

    assert refused.code == "InvalidParameterCombination"


def test_a_type_that_is_not_sold_in_the_zone_is_unsupported(account: Account) -> None:
    rare = next(
        name
        for name, zones in account.ec2.prices.offered.items()
        if ZONES[1] not in zones and "x86_64" in facts.instance_types()[name].architectures
    )

    assert account.refused("RunInstances", **request(account, InstanceType=rare)).code == "Unsupported"


def test_without_groups_the_default_group_of_the_network_is_used(account: Account) -> None:
    default = account.call("CreateSecurityGroup", GroupName="default", Description="d", VpcId=account.vpc)[
        "GroupId"
    ]

    answer = account.call(
        "RunInstances", ImageId=account.image, InstanceType="m5.large", MinCount=1, MaxCount=1
    )

    assert answer["Instances"][0]["SecurityGroups"][0]["GroupId"] == default


def test_groups_may_be_named(account: Account) -> None:
    answer = account.call(
        "RunInstances",
        ImageId=account.image,
        InstanceType="m5.large",
        SecurityGroups=["nodes"],
        MinCount=1,
        MaxCount=1,
    )

    assert answer["Instances"][0]["SecurityGroups"][0]["GroupId"] == account.group
