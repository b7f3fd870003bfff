# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from karpenter.api import labels
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.profiles import (
    InstanceProfiles,
    RoleNotFoundError,
    profile_name,
    profiles_in_use,
)
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import claim, node_class
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

MISSING = aws_error("NoSuchEntity", "Instance Profile cannot be found", status=404)
NAME = profile_name("demo", "us-west-2", node_class())


def holding(*roles: str) -> dict[str, Any]:
    return {"InstanceProfile": {"Roles": [{"RoleName": each} for each in roles]}}


def profiles(aws: FakeAws, clock: FakeClock | None = None) -> InstanceProfiles:
    return InstanceProfiles(aws, clock or FakeClock(), cluster_name="demo")


def listed(name: str, made: datetime | None, *roles: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "InstanceProfileName": name,
        "Roles": [{"RoleName": each} for each in roles],
    }
    return found if made is None else {**found, "CreateDate": made}


def test_a_name_follows_from_cluster_region_class_and_role_and_fits_iam() -> None:
    other_role = node_class(spec={"role": "other"})
    names = {
        NAME,
        profile_name("demo", "eu-west-1", node_class()),
        profile_name("other", "us-west-2", node_class()),
        profile_name("demo", "us-west-2", node_class(name="b")),
        profile_name("demo", "us-west-2", other_role),
    }

    assert len(names) == 5
    assert profile_name("demo", "us-west-2", node_class()) == NAME
    assert NAME.startswith("demo_")
    assert len(profile_name("c" * 200, "us-west-2", node_class())) <= 128


async def test_a_role_gets_a_profile_with_path_tags_and_the_role_without_its_own_path() -> None:
    aws = FakeAws(
        {"GetInstanceProfile": MISSING, "CreateInstanceProfile": {}, "AddRoleToInstanceProfile": {}}
    )
    wanted = node_class(spec={"role": "team/path/node-role", "tags": {"cost": "1"}})

    name = await profiles(aws).resolve(wanted)

    (made,) = aws.named("CreateInstanceProfile")
    assert made["InstanceProfileName"] == name
    assert made["Path"] == "/karpenter/us-west-2/demo/default-uid/"
    assert {tag["Key"]: tag["Value"] for tag in made["Tags"]} == {
        "cost": "1",
        "kubernetes.io/cluster/demo": "owned",
        labels.EKS_CLUSTER_NAME_TAG: "demo",
        labels.EC2NODECLASS_TAG: "default",
        labels.REGION: "us-west-2",
    }
    assert aws.named("AddRoleToInstanceProfile") == [{"InstanceProfileName": name, "RoleName": "node-role"}]


async def test_a_profile_that_is_right_is_left_alone_and_believed_for_a_quarter_of_an_hour() -> None:
    aws, clock = FakeAws({"GetInstanceProfile": holding("node-role")}), FakeClock()
    made = profiles(aws, clock)

    assert await made.resolve(node_class()) == NAME
    clock.tick(899)
    await made.resolve(node_class())
    assert len(aws.calls) == 1
    clock.tick(1)
    await made.resolve(node_class())

    assert len(aws.calls) == 2


async def test_a_wrong_role_is_taken_out_and_the_right_one_put_in() -> None:
    aws = FakeAws(
        {
            "GetInstanceProfile": holding("old-role"),
            "RemoveRoleFromInstanceProfile": {},
            "AddRoleToInstanceProfile": {},
        }
    )

    await profiles(aws).resolve(node_class())

    assert [name for name, _ in aws.calls] == [
        "GetInstanceProfile",
        "RemoveRoleFromInstanceProfile",
        "AddRoleToInstanceProfile",
    ]


@pytest.mark.parametrize("ours", [True, False])
async def test_tags_follow_those_of_the_class_while_the_profile_is_marked_as_ours(*, ours: bool) -> None:
    marks = {
        "kubernetes.io/cluster/demo": "owned",
        labels.EC2NODECLASS_TAG: "default",
        labels.REGION: "us-west-2",
    }
    there = [{"Key": key, "Value": value} for key, value in marks.items() if ours or key != labels.REGION]
    found = {"InstanceProfile": {"Roles": [{"RoleName": "node-role"}], "Tags": there}}
    aws = FakeAws({"GetInstanceProfile": found, "TagInstanceProfile": {}})
    made = profiles(aws)

    await made.resolve(node_class(spec={"tags": {"cost": "1"}}))
    await made.resolve(node_class(spec={"tags": {"cost": "2"}}))

    written = [{tag["Key"]: tag["Value"] for tag in call["Tags"]} for call in aws.named("TagInstanceProfile")]
    wanted = [{**marks, labels.EKS_CLUSTER_NAME_TAG: "demo", "cost": cost} for cost in ("1", "2")]
    assert written == (wanted if ours else [])


async def test_a_profile_that_another_process_has_just_made_is_taken() -> None:
    aws = FakeAws(
        {
            "GetInstanceProfile": MISSING,
            "CreateInstanceProfile": aws_error("EntityAlreadyExists", status=409),
            "AddRoleToInstanceProfile": {},
        }
    )

    assert await profiles(aws).resolve(node_class()) == NAME


async def test_a_role_that_does_not_exist_is_named_and_not_asked_for_again_within_a_minute() -> None:
    clock = FakeClock()
    no_role = aws_error("NoSuchEntity", "The role with name node-role cannot be found.", status=404)
    aws = FakeAws(
        {"GetInstanceProfile": MISSING, "CreateInstanceProfile": {}, "AddRoleToInstanceProfile": no_role}
    )
    made = profiles(aws, clock)

    for _ in range(2):
        with pytest.raises(RoleNotFoundError, match=r"^spec.role: no IAM role is called node-role$"):
            await made.resolve(node_class())
    assert len(aws.named("AddRoleToInstanceProfile")) == 1
    clock.tick(60)
    with pytest.raises(RoleNotFoundError):
        await made.resolve(node_class())

    assert len(aws.named("AddRoleToInstanceProfile")) == 2


@pytest.mark.parametrize(
    "operation", ["GetInstanceProfile", "CreateInstanceProfile", "AddRoleToInstanceProfile"]
)
async def test_any_other_refusal_goes_to_the_caller(operation: str) -> None:
    answers = {"GetInstanceProfile": MISSING, "CreateInstanceProfile": {}, "AddRoleToInstanceProfile": {}}
    aws = FakeAws({**answers, operation: aws_error("AccessDenied", status=403)})

    with pytest.raises(AwsError):
        await profiles(aws).resolve(node_class())


async def test_a_named_profile_is_taken_without_asking_iam() -> None:
    aws = FakeAws()

    assert await profiles(aws).resolve(node_class(spec={"role": "", "instance_profile": "mine"})) == "mine"
    assert aws.calls == []


async def test_only_what_nobody_names_and_is_older_than_an_hour_is_swept() -> None:
    clock = FakeClock()
    old, young = clock.now() - timedelta(hours=1), clock.now() - timedelta(minutes=59)
    found = [
        listed("used", old, "r"),
        listed("unused", old.replace(tzinfo=None), "r"),
        listed("young", young),
        listed("ageless", None),
    ]
    aws = FakeAws(
        {
            "ListInstanceProfiles": {"InstanceProfiles": found},
            "RemoveRoleFromInstanceProfile": {},
            "DeleteInstanceProfile": {},
        }
    )

    swept = await profiles(aws, clock).sweep({"used"})

    assert swept == ("unused",)
    assert aws.named("ListInstanceProfiles") == [{"PathPrefix": "/karpenter/us-west-2/demo/"}]
    assert aws.named("RemoveRoleFromInstanceProfile") == [{"InstanceProfileName": "unused", "RoleName": "r"}]
    assert aws.named("DeleteInstanceProfile") == [{"InstanceProfileName": "unused"}]


async def test_with_its_class_go_all_its_profiles_also_those_that_are_half_gone() -> None:
    aws = FakeAws(
        {
            "ListInstanceProfiles": {"InstanceProfiles": [listed("a", None, "r"), listed("b", None)]},
            "RemoveRoleFromInstanceProfile": MISSING,
            "DeleteInstanceProfile": {},
        }
    )

    assert await profiles(aws).delete_of(node_class()) == 2
    assert aws.named("ListInstanceProfiles") == [{"PathPrefix": "/karpenter/us-west-2/demo/default-uid/"}]


async def test_a_profile_that_may_not_be_removed_is_an_error() -> None:
    aws = FakeAws(
        {
            "ListInstanceProfiles": {"InstanceProfiles": [listed("a", None)]},
            "DeleteInstanceProfile": aws_error("AccessDenied", status=403),
        }
    )

    with pytest.raises(AwsError):
        await profiles(aws).delete_of(node_class())


def test_profiles_are_in_use_by_classes_and_by_claims() -> None:
    other = node_class(
        name="b", spec={"role": "", "instance_profile": "named"}, status={"instance_profile": ""}
    )
    old = claim(annotations={labels.INSTANCE_PROFILE_NAME: "old"})

    assert profiles_in_use([node_class(), other], [old, claim("uid-2")]) == {"demo_profile", "named", "old"}
