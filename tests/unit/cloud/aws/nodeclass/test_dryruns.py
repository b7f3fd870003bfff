# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.api import AwsUnreachableError
from karpenter.cloud.aws.instancetypes.provider import NoInstanceTypesError
from karpenter.cloud.aws.launchtemplates import LaunchTemplates
from karpenter.cloud.aws.nodeclass import DryRuns, Problem
from karpenter.cloud.aws.userdata import Cluster
from karpenter.kit.clock import FakeClock
from karpenter.model.instancetypes import InstanceType
from tests.unit.cloud.aws.builders import CLUSTER, ZONES, kind, node_class, offering
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

PASSED = aws_error("DryRunOperation", status=412)
DENIED = aws_error(
    "UnauthorizedOperation",
    "User: arn:me is not authorized to perform: ec2:Any on resource: arn:it",
    status=403,
)


class Stand:
    """EC2 that answers as told, and dry runs that ask it."""

    def __init__(self, *types: InstanceType, **answers: Any) -> None:
        self.clock = FakeClock()
        self.aws = FakeAws(
            {"CreateLaunchTemplate": {}, "CreateFleet": PASSED, "RunInstances": PASSED, **answers}
        )
        self.types: tuple[InstanceType, ...] = types or (kind(),)
        self.cluster = CLUSTER
        self.dry_runs = DryRuns(
            self.aws,
            self.clock,
            templates=LaunchTemplates(self.aws, self.clock, cluster_name="demo"),
            types_of=self._types,
            cluster=self._cluster,
        )

    def _types(self, _: EC2NodeClass) -> tuple[InstanceType, ...]:
        if not self.types:
            raise NoInstanceTypesError("no instance types are known yet")
        return self.types

    def _cluster(self) -> Cluster:
        return self.cluster

    async def check(self, wanted: EC2NodeClass | None = None) -> Problem | None:
        return await self.dry_runs.check(wanted or node_class())

    def operations(self) -> list[str]:
        return [operation for operation, _ in self.aws.calls]


async def test_a_template_is_made_and_fleet_and_instances_are_asked_for_as_dry_runs() -> None:
    stand = Stand(kind("m5.large", price=0.2), kind("c5.large", price=0.1))

    assert await stand.check() is None

    assert stand.operations() == ["CreateLaunchTemplate", "CreateFleet", "RunInstances"]
    (template,) = stand.aws.named("CreateLaunchTemplate")
    (fleet,) = stand.aws.named("CreateFleet")
    (run,) = stand.aws.named("RunInstances")
    assert fleet["DryRun"] is run["DryRun"] is True
    assert "ClientToken" not in fleet
    (config,) = fleet["LaunchTemplateConfigs"]
    assert config["LaunchTemplateSpecification"]["LaunchTemplateName"] == template["LaunchTemplateName"]
    assert config["Overrides"][0]["InstanceType"] == run["InstanceType"] == "c5.large"
    assert config["Overrides"][0]["SubnetId"] == "subnet-a"
    tags = {tag["Key"]: tag["Value"] for tag in run["TagSpecifications"][0]["Tags"]}
    assert tags[labels.EKS_CLUSTER_NAME_TAG] == "demo"
    assert labels.NODEPOOL_TAG in tags


async def test_what_passed_is_believed_for_half_an_hour_as_long_as_findings_stay() -> None:
    stand = Stand()

    await stand.check()
    stand.clock.tick(1799)
    await stand.check()
    assert len(stand.aws.named("RunInstances")) == 1
    await stand.check(node_class(status={"instance_profile": "another"}))
    assert len(stand.aws.named("RunInstances")) == 2
    stand.clock.tick(1)
    await stand.check()

    assert len(stand.aws.named("RunInstances")) == 3


async def test_each_question_has_its_own_reason() -> None:
    reasons = []
    for operation in ("CreateLaunchTemplate", "CreateFleet", "RunInstances"):
        problem = await Stand(**{operation: DENIED}).check()
        assert problem is not None
        assert "ec2:Any on arn:it" in problem.message
        reasons.append(problem.reason)

    assert reasons == [
        "CreateLaunchTemplateAuthCheckFailed",
        "CreateFleetAuthCheckFailed",
        "RunInstancesAuthCheckFailed",
    ]


async def test_what_failed_is_asked_again_after_a_minute() -> None:
    stand = Stand(CreateFleet=[DENIED, PASSED])

    assert await stand.check() is not None
    stand.clock.tick(59)
    assert await stand.check() is not None
    stand.clock.tick(1)

    assert await stand.check() is None


async def test_one_subnet_that_passes_is_enough_and_those_without_the_type_are_not_asked() -> None:
    refused = aws_error("InsufficientFreeAddressesInSubnet", "full")
    stand = Stand(RunInstances=[refused, PASSED])
    alone = Stand(kind("m5.large", offering(ZONES[1])), RunInstances=refused)

    assert await stand.check() is None
    problem = await alone.check()

    asked = [call["NetworkInterfaces"][0]["SubnetId"] for call in stand.aws.named("RunInstances")]
    assert asked == ["subnet-a", "subnet-b"]
    assert [call["NetworkInterfaces"][0]["SubnetId"] for call in alone.aws.named("RunInstances")] == [
        "subnet-b"
    ]
    assert problem is not None
    assert problem.reason == "InsufficientFreeAddressesInSubnet"


async def test_trouble_of_ec2_is_not_remembered_and_asked_about_once() -> None:
    stand = Stand(RunInstances=[AwsUnreachableError("ec2", "RunInstances", "no answer"), PASSED])

    problem = await stand.check()

    assert problem is not None
    assert not problem.is_verdict
    assert len(stand.aws.named("RunInstances")) == 1
    assert await stand.check() is None


async def test_a_profile_that_we_have_just_made_may_not_be_known_to_ec2_yet() -> None:
    unknown = aws_error("InvalidParameterValue", "Invalid IAM Instance Profile name")

    ours = await Stand(RunInstances=unknown).check()
    theirs = await Stand(RunInstances=unknown).check(
        node_class(spec={"role": "", "instance_profile": "mine"})
    )

    assert ours is not None
    assert theirs is not None
    assert (ours.is_verdict, theirs.is_verdict) == (False, True)
    assert theirs.reason == "InstanceProfileNameInvalid"


async def test_an_answer_without_an_error_is_taken_as_passed() -> None:
    assert await Stand(CreateFleet={}, RunInstances={}).check() is None


async def test_images_that_no_type_boots_are_told_with_zones_and_images() -> None:
    stand = Stand(kind(arch="riscv"))

    problem = await stand.check()

    assert problem is not None
    assert problem.reason == "AMINotFound"
    assert problem.message == (
        "spec.amiSelectorTerms: none of the 1 instance types sold in us-west-2a, us-west-2b boots"
        " ami-amd64, ami-arm64"
    )
    assert stand.aws.calls == []


async def test_before_instance_types_are_known_nothing_can_be_said() -> None:
    stand = Stand()
    stand.types = ()

    problem = await stand.check()

    assert problem is not None
    assert not problem.is_verdict


async def test_user_data_that_cannot_be_made_is_told_with_its_own_reason() -> None:
    problem = await Stand().check(node_class(spec={"user_data": "x" * 20_000}))

    assert problem is not None
    assert problem.reason == "UserDataSizeLimitExceeded"
    assert "spec.userData" in problem.message


async def test_a_sold_out_type_is_asked_about_only_if_nothing_else_is_there() -> None:
    stand = Stand(
        kind("m5.large", offering(price=0.1, available=False)), kind("m6i.large", offering(price=0.2))
    )

    await stand.check()

    assert stand.aws.named("RunInstances")[0]["InstanceType"] == "m6i.large"
