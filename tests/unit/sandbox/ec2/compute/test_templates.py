# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import Account, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def encoded(size: int) -> str:
    return base64.b64encode(b"x" * size).decode()


def test_a_template_is_read_back_with_every_field(account: Account) -> None:
    data = {
        "ImageId": account.image,
        "UserData": encoded(100),
        "Monitoring": {"Enabled": True},
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "VolumeSize": 30,
                    "VolumeType": "gp3",
                    "Iops": 3000,
                    "KmsKeyId": "k",
                    "Encrypted": True,
                },
            }
        ],
        "NetworkInterfaces": [
            {"DeviceIndex": 0, "Groups": [account.group], "AssociatePublicIpAddress": False}
        ],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "TagSpecifications": [tags("network-interface", a="b")],
        "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
    }
    account.call("CreateLaunchTemplate", LaunchTemplateName="karpenter.k8s.aws/1234", LaunchTemplateData=data)

    answer = account.call(
        "DescribeLaunchTemplateVersions", LaunchTemplateName="karpenter.k8s.aws/1234", Versions=["$Latest"]
    )

    (version,) = answer["LaunchTemplateVersions"]
    assert version["LaunchTemplateData"] == data
    assert (version["VersionNumber"], version["DefaultVersion"]) == (1, True)


def test_templates_are_found_by_id_name_tag_and_in_pages(account: Account) -> None:
    for number in range(6):
        account.call(
            "CreateLaunchTemplate",
            LaunchTemplateName=f"made/{number}",
            LaunchTemplateData={"ImageId": account.image},
            TagSpecifications=[tags("launch-template", cluster="c")],
        )

    first = account.call("DescribeLaunchTemplates", Filters=[only("tag:cluster", "c")], MaxResults=5)
    rest = account.call(
        "DescribeLaunchTemplates",
        Filters=[only("tag:cluster", "c")],
        MaxResults=5,
        NextToken=first["NextToken"],
    )

    names = [each["LaunchTemplateName"] for page in (first, rest) for each in page["LaunchTemplates"]]
    assert names == [f"made/{number}" for number in range(6)]
    (by_id,) = account.call("DescribeLaunchTemplates", LaunchTemplateIds=[account.template])[
        "LaunchTemplates"
    ]
    (by_name,) = account.call("DescribeLaunchTemplates", LaunchTemplateNames=["nodes"])["LaunchTemplates"]
    assert by_id == by_name


@pytest.mark.parametrize(
    ("action", "params", "code"),
    [
        (
            "DescribeLaunchTemplates",
            {"LaunchTemplateNames": ["gone"]},
            "InvalidLaunchTemplateName.NotFoundException",
        ),
        ("DescribeLaunchTemplates", {"LaunchTemplateIds": ["lt-01"]}, "InvalidLaunchTemplateId.NotFound"),
        (
            "DeleteLaunchTemplate",
            {"LaunchTemplateName": "gone"},
            "InvalidLaunchTemplateName.NotFoundException",
        ),
        ("DeleteLaunchTemplate", {"LaunchTemplateId": "lt-01"}, "InvalidLaunchTemplateId.NotFound"),
        ("DeleteLaunchTemplate", {}, "MissingParameter"),
        (
            "DeleteLaunchTemplate",
            {"LaunchTemplateName": "nodes", "LaunchTemplateId": "lt-01"},
            "InvalidParameterCombination",
        ),
        (
            "DescribeLaunchTemplateVersions",
            {"LaunchTemplateName": "nodes", "Versions": ["7"]},
            "InvalidLaunchTemplateId.VersionNotFound",
        ),
        ("DescribeLaunchTemplateVersions", {}, "MissingParameter"),
        (
            "DescribeLaunchTemplateVersions",
            {"LaunchTemplateName": "nodes", "MinVersion": "new"},
            "InvalidParameterValue",
        ),
        (
            "CreateLaunchTemplate",
            {"LaunchTemplateName": "nodes", "LaunchTemplateData": {"ImageId": "ami-1"}},
            "InvalidLaunchTemplateName.AlreadyExistsException",
        ),
        (
            "CreateLaunchTemplate",
            {"LaunchTemplateName": "a b", "LaunchTemplateData": {"ImageId": "ami-1"}},
            "InvalidLaunchTemplateName.MalformedException",
        ),
        ("CreateLaunchTemplate", {"LaunchTemplateName": "abc"}, "MissingParameter"),
        (
            "CreateLaunchTemplate",
            {"LaunchTemplateName": "abc", "LaunchTemplateData": {"UserData": encoded(16385)}},
            "InvalidUserData.Malformed",
        ),
        (
            "CreateLaunchTemplate",
            {"LaunchTemplateName": "abc", "LaunchTemplateData": {"UserData": "not base64"}},
            "InvalidUserData.Malformed",
        ),
        (
            "CreateLaunchTemplate",
            {"LaunchTemplateName": "abc", "LaunchTemplateData": {"ImageId": "a"}, "DryRun": True},
            "DryRunOperation",
        ),
    ],
)
def test_bad_template_requests_are_refused(
    account: Account, action: str, params: dict[str, Any], code: str
) -> None:
    assert account.refused(action, **params).code == code


def test_user_data_of_exactly_the_limit_is_taken(account: Account) -> None:
    account.add_template("full", UserData=encoded(16384))

    assert len(next(iter(account.ec2.template_names["full"].versions.values())).data["UserData"]) > 16384


def test_a_deleted_name_can_be_used_again(account: Account) -> None:
    account.call("DeleteLaunchTemplate", LaunchTemplateName="nodes")

    again = account.add_template("nodes")

    assert again != account.template
    account.call("DeleteLaunchTemplate", LaunchTemplateId=again)
    assert account.call("DescribeLaunchTemplates")["LaunchTemplates"] == []


def test_versions_lie_over_each_other(account: Account) -> None:
    account.call(
        "CreateLaunchTemplateVersion",
        LaunchTemplateName="nodes",
        SourceVersion="1",
        LaunchTemplateData={"KeyName": "k"},
    )

    latest, default = (
        account.call("DescribeLaunchTemplateVersions", LaunchTemplateName="nodes", Versions=[name])[
            "LaunchTemplateVersions"
        ][0]
        for name in ("$Latest", "$Default")
    )

    assert (latest["VersionNumber"], default["VersionNumber"]) == (2, 1)
    assert latest["LaunchTemplateData"]["ImageId"] == account.image
    assert latest["LaunchTemplateData"]["KeyName"] == "k"
    every = account.call("DescribeLaunchTemplateVersions", LaunchTemplateName="nodes")[
        "LaunchTemplateVersions"
    ]
    assert [each["VersionNumber"] for each in every] == [1, 2]
    everywhere = account.call("DescribeLaunchTemplateVersions", Versions=["$Latest"])[
        "LaunchTemplateVersions"
    ]
    assert [each["VersionNumber"] for each in everywhere] == [2]
    assert account.instance(account.launch())["KeyName"] == "k"
