# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.unit.sandbox.ec2.compute.account import ZONES, Account, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def test_tags_are_added_and_replaced_on_anything(account: Account) -> None:
    subnet = account.subnets[ZONES[0]]
    instance_id = account.launch()

    account.call(
        "CreateTags",
        Resources=[subnet, instance_id, account.template, account.image],
        Tags=[{"Key": "team", "Value": "a"}, {"Key": "karpenter.sh/discovery", "Value": "new"}],
    )

    found = account.call("DescribeTags", Filters=[only("key", "team"), only("value", "a")])["Tags"]
    assert [(each["ResourceType"], each["ResourceId"]) for each in found] == [
        ("subnet", subnet),
        ("image", account.image),
        ("launch-template", account.template),
        ("instance", instance_id),
    ]
    assert [each["InstanceId"] for each in account.listed(only("tag:team", "a"))] == [instance_id]
    (shown,) = account.call("DescribeSubnets", SubnetIds=[subnet])["Subnets"]
    assert {"Key": "karpenter.sh/discovery", "Value": "new"} in shown["Tags"]


def test_tags_are_deleted_by_key_by_key_and_value_or_all(account: Account) -> None:
    instance_id = account.launch(TagSpecifications=[tags("instance", a="1", b="2", c="3")])

    account.call("DeleteTags", Resources=[instance_id], Tags=[{"Key": "a"}, {"Key": "b", "Value": "other"}])

    keys = {tag["Key"] for tag in account.instance(instance_id)["Tags"]}
    assert {"b", "c"} <= keys
    assert "a" not in keys
    account.call("DeleteTags", Resources=[instance_id])
    assert account.instance(instance_id)["Tags"] == []
    assert account.listed(only("tag-key", "b")) == []


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ("i-0123456789abcdef0", "InvalidInstanceID.NotFound"),
        ("subnet-0123456789abcdef0", "InvalidSubnetID.NotFound"),
        ("sg-0123456789abcdef0", "InvalidGroup.NotFound"),
        ("ami-0123456789abcdef0", "InvalidAMIID.NotFound"),
        ("vol-0123456789abcdef0", "InvalidVolume.NotFound"),
        ("lt-0123456789abcdef0", "InvalidLaunchTemplateId.NotFound"),
        ("fleet-00000000-0000-0000-0000-000000000000", "InvalidFleetId.NotFound"),
        ("banana", "InvalidID"),
    ],
)
def test_an_unknown_id_refuses_the_call_with_the_code_of_its_kind(
    account: Account, resource: str, code: str
) -> None:
    instance_id = account.launch()

    refused = account.refused(
        "CreateTags", Resources=[instance_id, resource], Tags=[{"Key": "a", "Value": "b"}]
    )

    assert refused.code == code
    assert account.listed(only("tag-key", "a")) == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([{"Key": "aws:mine", "Value": "x"}], "InvalidParameterValue"),
        ([{"Key": "", "Value": "x"}], "InvalidParameterValue"),
        ([{"Key": "a", "Value": "x" * 256}], "InvalidParameterValue"),
        ([{"Key": str(n), "Value": "x"} for n in range(51)], "TagLimitExceeded"),
        ([], "MissingParameter"),
    ],
)
def test_tags_that_ec2_does_not_take_are_refused(
    account: Account, given: list[dict[str, str]], code: str
) -> None:
    assert account.refused("CreateTags", Resources=[account.image], Tags=given).code == code


def test_no_resource_is_no_request(account: Account) -> None:
    assert account.refused("DeleteTags", Resources=[]).code == "MissingParameter"


def test_a_dry_run_tags_nothing(account: Account) -> None:
    for action in ("CreateTags", "DeleteTags"):
        refused = account.refused(
            action,
            Resources=[account.subnets[ZONES[0]]],
            Tags=[{"Key": "karpenter.sh/discovery", "Value": "x"}],
            DryRun=True,
        )
        assert refused.code == "DryRunOperation"
    assert len(account.call("DescribeTags", Filters=[only("value", "sandbox")])["Tags"]) == 3


def test_tags_are_told_in_pages(account: Account) -> None:
    account.call(
        "CreateTags", Resources=[account.image], Tags=[{"Key": f"k{n}", "Value": "v"} for n in range(12)]
    )

    first = account.call("DescribeTags", MaxResults=10, Filters=[only("resource-type", "image")])
    second = account.call(
        "DescribeTags", MaxResults=10, Filters=[only("resource-type", "image")], NextToken=first["NextToken"]
    )

    keys = [each["Key"] for each in [*first["Tags"], *second["Tags"]]]
    assert len(keys) == len(set(keys)) == 12
    assert "NextToken" not in second
