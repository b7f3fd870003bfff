# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.world import World
from tests.unit.sandbox.ec2.calling import a_world, ask

NODE_ROLE = "KarpenterNodeRole-sandbox"
DOCUMENT = json.dumps({"Version": "2012-10-17", "Statement": []})
WORKER = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"


@pytest.fixture
def world() -> World:
    return a_world()


def refused(world: World, operation: str, **parameters: Any) -> tuple[str, str, int]:
    with pytest.raises(ModelError) as caught:
        ask(world, "iam", operation, **parameters)
    return caught.value.code, caught.value.message, caught.value.status


def test_a_profile_lives_through_what_the_provider_does_with_it(world: World) -> None:
    path = "/karpenter/us-west-2/sandbox/uid/"
    ask(
        world,
        "iam",
        "CreateInstanceProfile",
        InstanceProfileName="p",
        Path=path,
        Tags=[{"Key": "a", "Value": "b"}],
    )
    ask(world, "iam", "AddRoleToInstanceProfile", InstanceProfileName="p", RoleName=NODE_ROLE)
    ask(world, "iam", "TagInstanceProfile", InstanceProfileName="p", Tags=[{"Key": "c", "Value": "d"}])
    ask(world, "iam", "UntagInstanceProfile", InstanceProfileName="p", TagKeys=["a"])

    shown = ask(world, "iam", "GetInstanceProfile", InstanceProfileName="p")["InstanceProfile"]
    below = ask(world, "iam", "ListInstanceProfiles", PathPrefix="/karpenter/us-west-2/sandbox/")
    beside = ask(world, "iam", "ListInstanceProfiles", PathPrefix="/karpenter/us-west-2/other/")
    of_role = ask(world, "iam", "ListInstanceProfilesForRole", RoleName=NODE_ROLE)

    assert shown["Arn"] == f"arn:aws:iam::123456789012:instance-profile{path}p"
    assert [role["RoleName"] for role in shown["Roles"]] == [NODE_ROLE]
    assert shown["Tags"] == [{"Key": "c", "Value": "d"}]
    assert ask(world, "iam", "ListInstanceProfileTags", InstanceProfileName="p")["Tags"] == shown["Tags"]
    assert [each["InstanceProfileName"] for each in below["InstanceProfiles"]] == ["p"]
    assert beside["InstanceProfiles"] == []
    assert len(of_role["InstanceProfiles"]) == 1
    ask(world, "iam", "RemoveRoleFromInstanceProfile", InstanceProfileName="p", RoleName=NODE_ROLE)
    ask(world, "iam", "DeleteInstanceProfile", InstanceProfileName="p")
    assert world.iam.profiles == {}


def test_refusals_of_profiles_are_worded_as_iam_words_them(world: World) -> None:
    ask(world, "iam", "CreateInstanceProfile", InstanceProfileName="p")
    ask(world, "iam", "AddRoleToInstanceProfile", InstanceProfileName="p", RoleName=NODE_ROLE)
    named = {"InstanceProfileName": "p"}

    assert refused(world, "GetInstanceProfile", InstanceProfileName="q") == (
        "NoSuchEntity",
        "Instance Profile q cannot be found.",
        404,
    )
    assert refused(world, "CreateInstanceProfile", **named) == (
        "EntityAlreadyExists",
        "Instance Profile p already exists.",
        409,
    )
    assert refused(world, "AddRoleToInstanceProfile", **named, RoleName="none") == (
        "NoSuchEntity",
        "The role with name none cannot be found.",
        404,
    )
    assert refused(world, "AddRoleToInstanceProfile", **named, RoleName=NODE_ROLE)[:2] == (
        "LimitExceeded",
        "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1",
    )
    assert refused(world, "DeleteInstanceProfile", **named)[0] == "DeleteConflict"
    assert refused(world, "RemoveRoleFromInstanceProfile", **named, RoleName="none")[0] == "NoSuchEntity"


def test_a_role_is_made_given_policies_and_deleted_in_the_right_order(world: World) -> None:
    ask(
        world,
        "iam",
        "CreateRole",
        RoleName="r",
        AssumeRolePolicyDocument=DOCUMENT,
        Tags=[{"Key": "a", "Value": "b"}],
    )
    ask(world, "iam", "AttachRolePolicy", RoleName="r", PolicyArn=WORKER)
    ask(world, "iam", "PutRolePolicy", RoleName="r", PolicyName="inline", PolicyDocument=DOCUMENT)
    ask(world, "iam", "CreateInstanceProfile", InstanceProfileName="p")
    ask(world, "iam", "AddRoleToInstanceProfile", InstanceProfileName="p", RoleName="r")
    ask(world, "iam", "TagRole", RoleName="r", Tags=[{"Key": "c", "Value": "d"}])
    ask(world, "iam", "UntagRole", RoleName="r", TagKeys=["a"])
    ask(world, "iam", "UpdateAssumeRolePolicy", RoleName="r", PolicyDocument=DOCUMENT)

    assert ask(world, "iam", "GetRole", RoleName="r")["Role"]["Tags"] == [{"Key": "c", "Value": "d"}]
    assert ask(world, "iam", "ListAttachedRolePolicies", RoleName="r")["AttachedPolicies"] == [
        {"PolicyName": "AmazonEKSWorkerNodePolicy", "PolicyArn": WORKER}
    ]
    assert ask(world, "iam", "ListRolePolicies", RoleName="r")["PolicyNames"] == ["inline"]
    assert (
        "%22Statement%22"
        in ask(world, "iam", "GetRolePolicy", RoleName="r", PolicyName="inline")["PolicyDocument"]
    )
    assert "instance profile" in refused(world, "DeleteRole", RoleName="r")[1]
    ask(world, "iam", "RemoveRoleFromInstanceProfile", InstanceProfileName="p", RoleName="r")
    assert "detach all policies" in refused(world, "DeleteRole", RoleName="r")[1]
    ask(world, "iam", "DetachRolePolicy", RoleName="r", PolicyArn=WORKER)
    assert "delete policies" in refused(world, "DeleteRole", RoleName="r")[1]
    ask(world, "iam", "DeleteRolePolicy", RoleName="r", PolicyName="inline")
    ask(world, "iam", "DeleteRole", RoleName="r")
    assert refused(world, "GetRole", RoleName="r")[:2] == (
        "NoSuchEntity",
        "The role with name r cannot be found.",
    )


def test_refusals_of_roles(world: World) -> None:
    assert (
        refused(world, "CreateRole", RoleName=NODE_ROLE, AssumeRolePolicyDocument=DOCUMENT)[0]
        == "EntityAlreadyExists"
    )
    assert (
        refused(world, "CreateRole", RoleName="x", AssumeRolePolicyDocument="{")[0]
        == "MalformedPolicyDocument"
    )
    assert (
        refused(world, "CreateRole", RoleName="x", AssumeRolePolicyDocument="[]")[0]
        == "MalformedPolicyDocument"
    )
    assert refused(world, "AttachRolePolicy", RoleName=NODE_ROLE, PolicyArn="arn:x")[0] == "NoSuchEntity"
    assert refused(world, "DetachRolePolicy", RoleName=NODE_ROLE, PolicyArn="arn:x")[0] == "NoSuchEntity"
    assert refused(world, "GetRolePolicy", RoleName=NODE_ROLE, PolicyName="x")[0] == "NoSuchEntity"
    assert refused(world, "DeleteRolePolicy", RoleName=NODE_ROLE, PolicyName="x")[0] == "NoSuchEntity"
    assert refused(world, "CreateServiceLinkedRole", AWSServiceName="moon.amazonaws.com")[0] == "InvalidInput"
    assert (
        "has been taken" in refused(world, "CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")[1]
    )


def test_the_role_that_spot_needs_can_be_made_again(world: World) -> None:
    del world.iam.roles["AWSServiceRoleForEC2Spot"]

    made = ask(world, "iam", "CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")["Role"]

    assert made["Arn"].endswith(":role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot")


def test_lists_are_given_in_pages(world: World) -> None:
    for number in range(5):
        ask(world, "iam", "CreateInstanceProfile", InstanceProfileName=f"p{number}")

    first = ask(world, "iam", "ListInstanceProfiles", MaxItems=3)
    second = ask(world, "iam", "ListInstanceProfiles", MaxItems=3, Marker=first["Marker"])

    names = [
        each["InstanceProfileName"] for each in [*first["InstanceProfiles"], *second["InstanceProfiles"]]
    ]
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert (first["IsTruncated"], second["IsTruncated"]) == (True, False)
    assert refused(world, "ListRoles", Marker="\u00e9")[0] == "ValidationError"


def test_policies_are_made_attached_and_deleted(world: World) -> None:
    made = ask(world, "iam", "CreatePolicy", PolicyName="mine", PolicyDocument=DOCUMENT)["Policy"]
    arn = made["Arn"]
    ask(world, "iam", "AttachRolePolicy", RoleName=NODE_ROLE, PolicyArn=arn)

    assert (
        refused(world, "CreatePolicy", PolicyName="mine", PolicyDocument=DOCUMENT)[0] == "EntityAlreadyExists"
    )
    assert ask(world, "iam", "GetPolicy", PolicyArn=arn)["Policy"]["AttachmentCount"] == 1
    assert ask(world, "iam", "GetPolicyVersion", PolicyArn=arn, VersionId="v1")["PolicyVersion"][
        "IsDefaultVersion"
    ]
    assert refused(world, "GetPolicyVersion", PolicyArn=arn, VersionId="v2")[0] == "NoSuchEntity"
    assert len(ask(world, "iam", "ListPolicies", Scope="Local")["Policies"]) == 1
    assert ask(world, "iam", "ListPolicies", Scope="AWS")["Policies"] == []
    assert refused(world, "DeletePolicy", PolicyArn=arn)[0] == "DeleteConflict"
    ask(world, "iam", "DetachRolePolicy", RoleName=NODE_ROLE, PolicyArn=arn)
    ask(world, "iam", "DeletePolicy", PolicyArn=arn)
    assert refused(world, "GetPolicy", PolicyArn=arn)[0] == "NoSuchEntity"


def test_identity_providers_come_and_go(world: World) -> None:
    made = ask(
        world,
        "iam",
        "CreateOpenIDConnectProvider",
        Url="https://oidc.x/id/1",
        ClientIDList=["sts.amazonaws.com"],
    )
    arn = made["OpenIDConnectProviderArn"]

    assert arn == "arn:aws:iam::123456789012:oidc-provider/oidc.x/id/1"
    assert ask(world, "iam", "GetOpenIDConnectProvider", OpenIDConnectProviderArn=arn)["Url"] == "oidc.x/id/1"
    assert {"Arn": arn} in ask(world, "iam", "ListOpenIDConnectProviders")["OpenIDConnectProviderList"]
    assert (
        refused(world, "CreateOpenIDConnectProvider", Url="https://oidc.x/id/1")[0] == "EntityAlreadyExists"
    )
    ask(world, "iam", "DeleteOpenIDConnectProvider", OpenIDConnectProviderArn=arn)
    assert refused(world, "GetOpenIDConnectProvider", OpenIDConnectProviderArn=arn)[0] == "NoSuchEntity"
