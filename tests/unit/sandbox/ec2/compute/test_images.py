# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.sandbox.ec2.compute.account import Account, codes_of, only, tags


@pytest.fixture
def account() -> Account:
    return Account()


def names(account: Account, **params: Any) -> list[str]:
    return [each["Name"] for each in account.call("DescribeImages", **params)["Images"]]


def test_images_are_found_by_name_pattern_owner_and_architecture(account: Account) -> None:
    account.call(
        "RegisterImage", Name="mine", Architecture="arm64", TagSpecifications=[tags("image", team="a")]
    )

    assert names(account, Filters=[only("name", "al2023-*")]) == ["al2023-x86", "al2023-arm"]
    assert names(account, Owners=["self"]) == ["mine"]
    assert names(account, Owners=["amazon"]) == ["al2023-x86", "al2023-arm"]
    assert names(account, Owners=["self", "amazon"], Filters=[only("architecture", "arm64")]) == [
        "al2023-arm",
        "mine",
    ]
    assert names(account, Owners=["1"], Filters=[only("state", "available"), only("name", "*x86")]) == [
        "al2023-x86"
    ]
    assert names(account, Filters=[only("tag:team", "a")]) == ["mine"]
    assert names(account, ImageIds=[account.image]) == ["al2023-x86"]


def test_a_deprecated_image_is_hidden_unless_asked_for(account: Account) -> None:
    soon = account.clock.now() + timedelta(days=1)
    old = account.ec2.add_image(name="old", architecture="x86_64", owner="1", deprecated_at=soon)
    assert "old" in names(account)

    account.wait(86400)

    assert "old" not in names(account)
    assert "old" in names(account, IncludeDeprecated=True)
    assert names(account, ImageIds=[old.id]) == ["old"]
    (shown,) = account.call("DescribeImages", ImageIds=[old.id])["Images"]
    assert shown["DeprecationTime"] == "2026-01-02T00:00:00.000Z"


def test_an_own_image_is_deprecated_and_undeprecated_by_call(account: Account) -> None:
    image_id = account.call("RegisterImage", Name="mine", Architecture="x86_64")["ImageId"]

    account.call("EnableImageDeprecation", ImageId=image_id, DeprecateAt=account.clock.now())

    (shown,) = account.call("DescribeImages", ImageIds=[image_id])["Images"]
    assert shown["DeprecationTime"] == "2026-01-01T00:00:00.000Z"
    assert "mine" in names(account, Owners=["self"])
    account.call("DisableImageDeprecation", ImageId=image_id)
    (shown,) = account.call("DescribeImages", ImageIds=[image_id])["Images"]
    assert "DeprecationTime" not in shown


def test_a_deregistered_image_launches_nothing_more(account: Account) -> None:
    image_id = account.call("RegisterImage", Name="mine", Architecture="x86_64")["ImageId"]
    account.add_template("own", ImageId=image_id)
    running = account.launch(template="own")

    account.call("DeregisterImage", ImageId=image_id)

    assert codes_of(account.fleet(template="own")) == ["InvalidAMIID.NotFound"]
    assert account.instance(running)["ImageId"] == image_id


def test_an_image_that_is_not_available_launches_nothing(account: Account) -> None:
    account.ec2.images[account.image].state = "pending"

    assert codes_of(account.fleet()) == ["InvalidAMIID.Unavailable"]


@pytest.mark.parametrize(
    ("action", "params", "code"),
    [
        ("DescribeImages", {"ImageIds": ["ami-01"]}, "InvalidAMIID.NotFound"),
        ("RegisterImage", {"Architecture": "arm64"}, "MissingParameter"),
        ("RegisterImage", {"Name": "x", "Architecture": "arm64"}, "InvalidAMIName.Malformed"),
        ("RegisterImage", {"Name": "mine", "Architecture": "vax"}, "InvalidParameterValue"),
        ("DeregisterImage", {"ImageId": "ami-01"}, "InvalidAMIID.NotFound"),
        ("RegisterImage", {"Name": "mine", "Architecture": "arm64", "DryRun": True}, "DryRunOperation"),
    ],
)
def test_bad_image_requests_are_refused(
    account: Account, action: str, params: dict[str, Any], code: str
) -> None:
    assert account.refused(action, **params).code == code


def test_names_of_own_images_are_unique_and_others_images_are_not_ours_to_change(account: Account) -> None:
    account.call("RegisterImage", Name="mine", Architecture="x86_64")

    assert (
        account.refused("RegisterImage", Name="mine", Architecture="x86_64").code
        == "InvalidAMIName.Duplicate"
    )
    assert account.refused("DeregisterImage", ImageId=account.image).code == "AuthFailure"


def test_a_windows_image_makes_windows_instances(account: Account) -> None:
    image = account.ec2.add_image(
        name="win",
        architecture="x86_64",
        platform="windows",
        root_device="/dev/sda1",
        owner_alias="amazon",
        owner="1",
    )
    account.add_template("win", ImageId=image.id)

    instance = account.instance(account.launch(template="win"))

    assert (instance["Platform"], instance["RootDeviceName"]) == ("Windows", "/dev/sda1")
    (shown,) = account.call("DescribeImages", ImageIds=[image.id])["Images"]
    assert shown["Platform"] == "Windows"


def copied(account: Account, **params: Any) -> str:
    made = account.call(
        "CopyImage",
        **{"Name": "a copy", "SourceImageId": account.image, "SourceRegion": "us-west-2", **params},
    )
    return str(made["ImageId"])


def test_a_copy_is_a_private_image_of_the_account_that_launches_once_it_is_done(account: Account) -> None:
    copy = copied(account, TagSpecifications=[tags("image", team="a")])

    (pending,) = account.call("DescribeImages", ImageIds=[copy])["Images"]
    account.add_template("copied", ImageId=copy)
    early = account.fleet(template="copied")
    account.wait(30)
    (done,) = account.call("DescribeImages", ImageIds=[copy])["Images"]

    assert (pending["State"], done["State"]) == ("pending", "available")
    assert codes_of(early) == ["InvalidAMIID.Unavailable"]
    assert done["OwnerId"] == "123456789012"
    assert done["Public"] is False
    assert (done["SourceImageId"], done["SourceImageRegion"]) == (account.image, "us-west-2")
    assert done["Architecture"] == "x86_64"
    assert done["Tags"] == [{"Key": "team", "Value": "a"}]
    assert account.instance(account.launch(template="copied"))["ImageId"] == copy


def test_a_copy_has_snapshots_of_its_own_and_is_encrypted_when_asked(account: Account) -> None:
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"SnapshotId": "snap-01", "VolumeSize": 20, "Encrypted": False}}
    source = account.ec2.add_image(name="with a disk", architecture="arm64", disks=[disk]).id

    copy = copied(account, SourceImageId=source, Encrypted=True, KmsKeyId="alias/mine")

    ((image,)) = account.call("DescribeImages", ImageIds=[copy])["Images"]
    ebs = image["BlockDeviceMappings"][0]["Ebs"]
    assert ebs["SnapshotId"] != "snap-01"
    assert (ebs["Encrypted"], ebs["KmsKeyId"], ebs["VolumeSize"]) == (True, "alias/mine", 20)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"Name": "x"}, "InvalidAMIName.Malformed"),
        ({"SourceImageId": "ami-01"}, "InvalidAMIID.NotFound"),
        ({"SourceRegion": "eu-central-1"}, "InvalidAMIID.NotFound"),
        ({"SourceRegion": "the-moon-1"}, "InvalidParameterValue"),
        ({"KmsKeyId": "alias/mine"}, "InvalidParameterCombination"),
        ({"TagSpecifications": [tags("instance", team="a")]}, "InvalidParameterValue"),
        ({"DryRun": True}, "DryRunOperation"),
    ],
)
def test_a_copy_that_ec2_refuses(account: Account, params: dict[str, Any], code: str) -> None:
    base = {"Name": "a copy", "SourceImageId": account.image, "SourceRegion": "us-west-2"}

    assert account.refused("CopyImage", **{**base, **params}).code == code


def test_an_image_that_is_being_copied_cannot_be_copied_and_its_name_is_taken(account: Account) -> None:
    copy = copied(account)

    assert account.refused(
        "CopyImage", Name="another", SourceImageId=copy, SourceRegion="us-west-2"
    ).code == ("InvalidRequest")
    assert account.refused(
        "CopyImage", Name="a copy", SourceImageId=account.image, SourceRegion="us-west-2"
    ).code == ("InvalidAMIName.Duplicate")
