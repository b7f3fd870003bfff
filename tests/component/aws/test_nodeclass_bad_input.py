# SPDX-License-Identifier: Apache-2.0
"""Bad input: a condition on the node class names the field and the fix, and other classes go on."""

from __future__ import annotations

import asyncio
from typing import Any

import boto3
import pytest

from karpenter.api import conditions
from karpenter.api.ec2nodeclass import (
    AMISelectorTerm,
    PlacementGroupSelector,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.cloud.aws.api import BotoAws
from karpenter.cloud.errors import NodeClassNotReadyError
from tests.component.aws.classes import condition, desk_for, is_ready, written_class
from tests.component.aws.conftest import Connect
from tests.component.aws.stand import Model, Remembering, simple_claim
from tests.component.aws.test_nodeclass import settled

PRINCIPAL = "KarpenterControllerRole-sandbox"


async def test_wrong_credentials_are_told_in_every_condition_that_needs_them(
    model: Model, aws: Remembering
) -> None:
    desk = await desk_for(aws)
    model.do("credentials", {"accept": ["another-key"]})

    resolved = await desk.resolve(written_class())

    assert not is_ready(resolved)
    for each in (conditions.AMIS_READY, conditions.SUBNETS_READY, conditions.INSTANCE_PROFILE_READY):
        found = condition(resolved, each)
        assert (found.status, found.reason) == ("False", "Unauthorized")
        assert "does not accept the controller's credentials" in found.message
        assert "hint: " in found.message


async def test_credentials_of_another_region_are_told_with_the_region(model: Model, aws: Remembering) -> None:
    model.do("credentials", {"region": "own"})
    elsewhere = BotoAws(region="eu-west-1")
    desk = await desk_for(elsewhere, listed=aws)

    resolved = await desk.resolve(written_class())
    elsewhere.close()

    found = condition(resolved, conditions.SUBNETS_READY)
    assert (found.status, found.reason) == ("False", "Unauthorized")
    assert "not 'eu-west-1'" in found.message
    assert "check region, key and clock" in found.message


async def test_a_region_that_cannot_be_reached_is_no_verdict_but_told(
    model: Model, aws: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model.url
    await desk_for(aws)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    nowhere = BotoAws(region="us-nowhere-1", deadline_s=0.1)
    desk = await desk_for(nowhere, listed=aws)

    resolved = await desk.resolve(written_class())
    nowhere.close()

    found = condition(resolved, conditions.SUBNETS_READY)
    assert (found.status, found.reason) == ("Unknown", "AWSUnreachable")
    assert "region us-nowhere-1" in found.message
    assert resolved.look_again_s == 10.0


async def test_a_role_that_does_not_exist_is_named_and_the_other_class_goes_on(aws: Remembering) -> None:
    desk = await desk_for(aws)

    bad, good = await asyncio.gather(
        desk.resolve(written_class("bad", role="no-such-role")), desk.resolve(written_class("good"))
    )

    found = condition(bad, conditions.INSTANCE_PROFILE_READY)
    assert (found.status, found.reason) == ("Unknown", "NodeRoleNotFound")
    assert found.message.startswith("spec.role: no IAM role is called no-such-role (hint: ")
    assert not is_ready(bad)
    assert is_ready(good)


async def test_a_profile_that_does_not_exist_is_named(aws: Remembering) -> None:
    desk = await desk_for(aws)

    resolved = await desk.resolve(written_class(instance_profile="no-such-profile"))

    found = condition(resolved, conditions.VALIDATION_SUCCEEDED)
    assert (found.status, found.reason) == ("False", "InstanceProfileNameInvalid")
    assert found.message.startswith("spec.instanceProfile: ec2 RunInstances was refused: ")
    assert "no-such-profile" in found.message


@pytest.mark.parametrize(
    ("service", "operation", "condition_type", "reason", "field"),
    [
        ("ssm", "GetParameter", conditions.AMIS_READY, "Unauthorized", "spec.amiSelectorTerms"),
        ("ec2", "DescribeImages", conditions.AMIS_READY, "Unauthorized", "spec.amiSelectorTerms"),
        ("ec2", "DescribeSubnets", conditions.SUBNETS_READY, "Unauthorized", "spec.subnetSelectorTerms"),
        (
            "ec2",
            "DescribeSecurityGroups",
            conditions.SECURITY_GROUPS_READY,
            "Unauthorized",
            "spec.securityGroupSelectorTerms",
        ),
        (
            "ec2",
            "DescribePlacementGroups",
            conditions.PLACEMENT_GROUP_READY,
            "Unauthorized",
            "spec.placementGroupSelector",
        ),
        ("iam", "CreateInstanceProfile", conditions.INSTANCE_PROFILE_READY, "Unauthorized", "spec.role"),
        ("iam", "AddRoleToInstanceProfile", conditions.INSTANCE_PROFILE_READY, "Unauthorized", "spec.role"),
        (
            "ec2",
            "CreateLaunchTemplate",
            conditions.VALIDATION_SUCCEEDED,
            "CreateLaunchTemplateAuthCheckFailed",
            "spec",
        ),
        ("ec2", "CreateFleet", conditions.VALIDATION_SUCCEEDED, "CreateFleetAuthCheckFailed", "spec"),
        ("ec2", "RunInstances", conditions.VALIDATION_SUCCEEDED, "RunInstancesAuthCheckFailed", "spec"),
    ],
)
async def test_a_missing_permission_is_named_with_action_resource_and_whose_policy(
    model: Model,
    aws: Remembering,
    service: str,
    operation: str,
    condition_type: str,
    reason: str,
    field: str,
) -> None:
    boto3.client("ec2", region_name="us-west-2").create_placement_group(GroupName="g", Strategy="spread")
    desk = await desk_for(aws)
    resource = f"arn:aws:{service}:us-west-2:1:thing/x"
    model.do("deny", {"service": service, "operation": operation, "resource": resource})

    resolved = await desk.resolve(written_class(placement_group_selector=PlacementGroupSelector(name="g")))

    found = condition(resolved, condition_type)
    assert (found.status, found.reason) == ("False", reason)
    assert found.message.startswith(
        f"{field}: the controller may not call {service}:{operation} on {resource} (hint: allow "
    )
    assert PRINCIPAL in found.message
    assert "Encoded" not in found.message


async def test_selectors_that_are_empty_or_match_nothing_are_named(aws: Remembering) -> None:
    desk = await desk_for(aws)
    nothing = {"team": "nobody"}

    unmatched = await desk.resolve(
        written_class(
            "unmatched",
            subnet_selector_terms=(SubnetSelectorTerm(tags=nothing),),
            security_group_selector_terms=(SecurityGroupSelectorTerm(name="nobody"),),
            ami_selector_terms=(AMISelectorTerm(tags=nothing),),
            ami_family="AL2023",
            placement_group_selector=PlacementGroupSelector(name="nobody"),
        )
    )
    empty = await desk.resolve(
        written_class(
            "empty",
            subnet_selector_terms=(),
            security_group_selector_terms=(SecurityGroupSelectorTerm(),),
            ami_selector_terms=(AMISelectorTerm(),),
            ami_family="AL2023",
        )
    )

    for resolved in (unmatched, empty):
        assert condition(resolved, conditions.SUBNETS_READY).reason == "SubnetsNotFound"
        assert condition(resolved, conditions.SECURITY_GROUPS_READY).reason == "SecurityGroupsNotFound"
        assert condition(resolved, conditions.AMIS_READY).reason == "AMINotFound"
    assert condition(unmatched, conditions.PLACEMENT_GROUP_READY).reason == "PlacementGroupNotFound"
    assert "spec.subnetSelectorTerms is empty" in condition(empty, conditions.SUBNETS_READY).message
    assert "term 0 is empty" in condition(empty, conditions.AMIS_READY).message


async def test_what_another_cluster_or_account_owns_is_told_by_field_and_owner(
    model: Model, aws: Remembering
) -> None:
    subnets = (await aws.call("ec2", "DescribeSubnets"))["Subnets"]
    theirs = [{"Key": "kubernetes.io/cluster/theirs", "Value": "owned"}]
    await aws.call("ec2", "CreateTags", Resources=[subnets[0]["SubnetId"]], Tags=theirs)
    model.do(
        "images",
        [
            {
                "id": "ami-0f0f0f0f0f0f0f0f0",
                "name": "look-alike",
                "owner": "999999999999",
                "tags": {"team": "a"},
            }
        ],
    )
    desk = await desk_for(aws)

    resolved = await desk.resolve(
        written_class(ami_selector_terms=(AMISelectorTerm(tags={"team": "a"}),), ami_family="AL2023")
    )

    assert is_ready(resolved)
    told = {each.field: each for each in resolved.notices}
    assert "owned by cluster theirs, not sandbox" in told["spec.subnetSelectorTerms"].message
    assert "account 999999999999" in told["spec.amiSelectorTerms"].message
    assert all(each.hint for each in told.values())
    assert "theirs" in condition(resolved, conditions.SUBNETS_READY).message
    assert "999999999999" in condition(resolved, conditions.AMIS_READY).message


async def test_an_image_that_no_node_can_boot_is_named_with_its_architecture(aws: Remembering) -> None:
    made = boto3.client("ec2", region_name="us-west-2").register_image(
        Name="old", Architecture="i386", RootDeviceName="/dev/xvda"
    )
    desk = await desk_for(aws)

    resolved = await desk.resolve(
        written_class(ami_selector_terms=(AMISelectorTerm(id=made["ImageId"]),), ami_family="AL2023")
    )

    found = condition(resolved, conditions.AMIS_READY)
    assert (found.status, found.reason) == ("False", "AMINotFound")
    assert f"image {made['ImageId']} is for i386, which no node can have" in found.message
    assert "spec.amiSelectorTerms" in found.message


async def test_an_image_of_another_architecture_than_the_claim_is_refused_with_the_types(
    model: Model, aws: Remembering, connected: Connect
) -> None:
    model.do("images", [{"id": "ami-0a0a0a0a0a0a0a0a0", "name": "arm", "architecture": "arm64"}])
    desk = await desk_for(aws)
    terms = (AMISelectorTerm(id="ami-0a0a0a0a0a0a0a0a0"),)
    node_class = await settled(desk, written_class(ami_selector_terms=terms, ami_family="AL2023"))

    with pytest.raises(NodeClassNotReadyError) as refused:
        await (await connected()).create(simple_claim(1), node_class)

    assert refused.value.reason == "AMINotFound"
    assert "c5.large" in refused.value.message
    assert "spec.amiSelectorTerms" in refused.value.hint


@pytest.mark.parametrize(
    ("spec", "reason", "said"),
    [
        ({"user_data": "x" * 17_000}, "UserDataSizeLimitExceeded", "more than the 16384 that EC2 takes"),
        (
            {
                "ami_selector_terms": (AMISelectorTerm(alias="bottlerocket@latest"),),
                "user_data": "[settings\nbroken",
            },
            "InvalidUserData",
            "spec.userData line 1",
        ),
        ({"tags": {"kubernetes.io/cluster/x": "owned"}}, "TagValidationFailed", "spec.tags"),
    ],
)
async def test_broken_or_oversize_user_data_and_reserved_tags_are_named_and_others_go_on(
    aws: Remembering, spec: dict[str, Any], reason: str, said: str
) -> None:
    desk = await desk_for(aws)

    bad, good = await asyncio.gather(
        desk.resolve(written_class("bad", **spec)), desk.resolve(written_class("good"))
    )

    found = condition(bad, conditions.VALIDATION_SUCCEEDED)
    assert (found.status, found.reason) == ("False", reason)
    assert said in found.message
    assert is_ready(good)


async def test_user_data_close_to_the_limit_is_told_and_used(aws: Remembering) -> None:
    desk = await desk_for(aws)

    resolved = await desk.resolve(written_class(user_data="#!/bin/sh\n" + "x" * 14_300))

    assert is_ready(resolved)
    assert [(each.reason, each.field) for each in resolved.notices] == [("UserDataWarning", "spec.userData")]


async def test_a_deprecated_image_is_told_and_used(model: Model, aws: Remembering) -> None:
    model.do(
        "images",
        [{"id": "ami-0d0d0d0d0d0d0d0d0", "name": "old", "deprecatedAt": "2020-01-01T00:00:00Z"}],
    )
    desk = await desk_for(aws)

    resolved = await desk.resolve(
        written_class(ami_selector_terms=(AMISelectorTerm(id="ami-0d0d0d0d0d0d0d0d0"),), ami_family="AL2023")
    )

    assert is_ready(resolved)
    assert [each.reason for each in resolved.notices] == ["DeprecatedAMI"]
    assert resolved.status.amis[0].deprecated


async def test_groups_of_another_network_are_told_and_refused_by_the_dry_run(aws: Remembering) -> None:
    ec2 = boto3.client("ec2", region_name="us-west-2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    group = ec2.create_security_group(GroupName="elsewhere", Description="elsewhere", VpcId=vpc)["GroupId"]
    desk = await desk_for(aws)

    resolved = await desk.resolve(
        written_class(security_group_selector_terms=(SecurityGroupSelectorTerm(id=group),))
    )

    assert [each.reason for each in resolved.notices] == ["SecurityGroupSubnetVPCMismatch"]
    assert condition(resolved, conditions.VALIDATION_SUCCEEDED).status == "False"
    assert not is_ready(resolved)


async def test_an_outage_of_ec2_leaves_a_ready_class_ready(model: Model, aws: Remembering) -> None:
    desk = await desk_for(aws)
    node_class = await settled(desk, written_class())
    model.do("fault", {"service": "ec2", "operation": "Describe*", "code": "InternalError", "status": 500})
    impatient = BotoAws(deadline_s=0.1)
    fresh = await desk_for(impatient, listed=aws)

    resolved = await fresh.resolve(node_class)
    impatient.close()

    assert is_ready(resolved)
    assert resolved.status.subnets == node_class.status.subnets
    assert {each.reason for each in resolved.problems.values()} == {"AWSUnreachable"}
