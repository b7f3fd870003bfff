# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from karpenter.api import conditions, labels
from karpenter.api.ec2nodeclass import (
    AMISelectorTerm,
    CapacityReservationSelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    KubeletConfiguration,
    PlacementGroupSelector,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.cloud.aws.amis import Amis
from karpenter.cloud.aws.discovery import Account
from karpenter.cloud.aws.launchtemplates import LaunchTemplates
from karpenter.cloud.aws.nodeclass import DryRuns, NodeClassStatus, Problem, Resolved, StatusParts
from karpenter.cloud.aws.placementgroups import PlacementGroups
from karpenter.cloud.aws.profiles import InstanceProfiles, profile_name
from karpenter.cloud.aws.reservations import Reservations
from karpenter.cloud.aws.securitygroups import SecurityGroups
from karpenter.cloud.aws.subnets import Subnets
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import CLUSTER, kind
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

OUTAGE = aws_error("InternalError", "sorry", status=500)
DENIED = aws_error("UnauthorizedOperation", status=403)
SUBNET = {
    "SubnetId": "subnet-a",
    "AvailabilityZone": "us-west-2a",
    "AvailabilityZoneId": "usw2-az1",
    "VpcId": "vpc-1",
    "OwnerId": "111111111111",
    "AvailableIpAddressCount": 10,
}
GROUP = {"GroupId": "sg-1", "GroupName": "nodes", "VpcId": "vpc-1", "OwnerId": "111111111111"}
IMAGE = {
    "ImageId": "ami-1",
    "Name": "image",
    "Architecture": "x86_64",
    "CreationDate": "2025-01-01T00:00:00Z",
    "OwnerId": "111111111111",
}
RESERVATION = {
    "CapacityReservationId": "cr-1",
    "AvailabilityZone": "us-west-2a",
    "InstanceType": "m5.large",
    "OwnerId": "222222222222",
    "InstanceMatchCriteria": "targeted",
    "State": "active",
    "AvailableInstanceCount": 1,
}
GOOD: dict[str, Any] = {
    "GetCallerIdentity": {"Account": "111111111111"},
    "DescribeSubnets": {"Subnets": [SUBNET]},
    "DescribeSecurityGroups": {"SecurityGroups": [GROUP]},
    "DescribeImages": {"Images": [IMAGE]},
    "GetInstanceProfile": {"InstanceProfile": {"Roles": [{"RoleName": "node-role"}]}},
    "DescribeCapacityReservations": {"CapacityReservations": [RESERVATION]},
    "CreateLaunchTemplate": {},
    "CreateFleet": aws_error("DryRunOperation", status=412),
    "RunInstances": aws_error("DryRunOperation", status=412),
}


def written(*, generation: int = 1, **spec: Any) -> EC2NodeClass:
    wanted = {
        "ami_selector_terms": (AMISelectorTerm(id="ami-1"),),
        "ami_family": "AL2023",
        "subnet_selector_terms": (SubnetSelectorTerm(id="subnet-a"),),
        "security_group_selector_terms": (SecurityGroupSelectorTerm(id="sg-1"),),
        "role": "node-role",
        **spec,
    }
    return EC2NodeClass(
        metadata=ObjectMeta(name="default", uid="uid-1", generation=generation),
        spec=EC2NodeClassSpec(**wanted),
    )


class Stand:
    """All parts over one prepared AWS."""

    def __init__(self, *, dry_runs: bool = True, uses_reservations: bool = True, **answers: Any) -> None:
        self.clock = FakeClock()
        self.aws = FakeAws({**GOOD, **answers})
        aws, clock = self.aws, self.clock
        self.templates = LaunchTemplates(aws, clock, cluster_name="demo")
        groups = PlacementGroups(aws, clock)
        asking = DryRuns(
            aws,
            clock,
            templates=self.templates,
            types_of=lambda _: (kind(),),
            cluster=lambda: CLUSTER,
            group_of=groups.group_of,
        )
        self.status = NodeClassStatus(
            StatusParts(
                clock=clock,
                cluster_name="demo",
                kubernetes=lambda: "1.33",
                cluster=lambda: CLUSTER,
                account=Account(aws, clock, cluster_name="demo"),
                amis=Amis(aws, clock),
                reservations=Reservations(aws, clock),
                placement_groups=groups,
                subnets=Subnets(aws, clock),
                security_groups=SecurityGroups(aws, clock),
                profiles=InstanceProfiles(aws, clock, cluster_name="demo"),
                templates=self.templates,
                dry_runs=asking if dry_runs else None,
                uses_reservations=uses_reservations,
            )
        )

    async def resolve(self, wanted: EC2NodeClass | None = None) -> Resolved:
        return await self.status.resolve(wanted or written())

    def changed(self, **answers: Any) -> None:
        self.aws.answers = {**self.aws.answers, **answers}


def condition(resolved: Resolved, condition_type: str) -> Condition:
    return next(each for each in resolved.status.conditions if each.type == condition_type)


def said(resolved: Resolved, condition_type: str) -> tuple[str, str]:
    found = condition(resolved, condition_type)
    return found.status, found.reason


def is_ready(resolved: Resolved) -> bool:
    return condition(resolved, conditions.READY).status == "True"


async def test_a_class_whose_selectors_find_everything_is_ready_and_shows_what_was_found() -> None:
    stand = Stand()

    resolved = await stand.resolve()

    assert is_ready(resolved)
    status = resolved.status
    assert [each.id for each in status.subnets] == ["subnet-a"]
    assert [each.id for each in status.security_groups] == ["sg-1"]
    assert [each.id for each in status.amis] == ["ami-1"]
    assert status.instance_profile == profile_name("demo", "us-west-2", written())
    assert resolved.annotations[labels.EC2NODECLASS_HASH_VERSION] == "py2"
    assert (resolved.notices, resolved.problems, resolved.look_again_s) == ((), {}, 60.0)


async def test_looking_again_changes_nothing_so_that_nothing_is_written() -> None:
    stand = Stand()
    first = await stand.resolve()
    stand.clock.tick(300)

    again = await stand.resolve(replace(written(), status=first.status))

    assert again.status == first.status


async def test_without_dry_runs_nothing_is_made_or_asked() -> None:
    stand = Stand(dry_runs=False)

    assert is_ready(await stand.resolve())
    assert not stand.aws.named("CreateLaunchTemplate") + stand.aws.named("RunInstances")


@pytest.mark.parametrize(
    ("operation", "condition_type", "field"),
    [
        ("DescribeImages", conditions.AMIS_READY, "spec.amiSelectorTerms"),
        ("DescribeSubnets", conditions.SUBNETS_READY, "spec.subnetSelectorTerms"),
        ("DescribeSecurityGroups", conditions.SECURITY_GROUPS_READY, "spec.securityGroupSelectorTerms"),
        ("GetInstanceProfile", conditions.INSTANCE_PROFILE_READY, "spec.role"),
        (
            "DescribeCapacityReservations",
            conditions.CAPACITY_RESERVATIONS_READY,
            "spec.capacityReservationSelectorTerms",
        ),
        ("DescribePlacementGroups", conditions.PLACEMENT_GROUP_READY, "spec.placementGroupSelector"),
    ],
)
async def test_a_refusal_makes_its_own_condition_false_names_the_field_and_the_rest_goes_on(
    operation: str, condition_type: str, field: str
) -> None:
    group = {"GroupId": "pg-1", "State": "available", "Strategy": "cluster"}
    answers: dict[str, Any] = {"DescribePlacementGroups": {"PlacementGroups": [group]}, operation: DENIED}
    stand = Stand(**answers)
    wanted = written(
        capacity_reservation_selector_terms=(CapacityReservationSelectorTerm(id="cr-1"),),
        placement_group_selector=PlacementGroupSelector(id="pg-1"),
    )

    resolved = await stand.resolve(wanted)

    failed = {each.type for each in resolved.status.conditions if each.status == "False"}
    assert failed == {condition_type, conditions.VALIDATION_SUCCEEDED, conditions.READY}
    assert condition(resolved, condition_type).message.startswith(f"{field}: the controller may not call ")
    assert said(resolved, conditions.VALIDATION_SUCCEEDED) == ("False", "DependenciesNotReady")
    assert resolved.problems[condition_type].reason == "Unauthorized"
    assert resolved.look_again_s == 60.0


@pytest.mark.parametrize(
    "operation",
    [
        "DescribeImages",
        "DescribeSubnets",
        "DescribeSecurityGroups",
        "DescribeCapacityReservations",
        "GetInstanceProfile",
    ],
)
async def test_in_an_outage_a_class_that_was_ready_stays_ready_with_what_is_known(operation: str) -> None:
    stand = Stand()
    wanted = written(capacity_reservation_selector_terms=(CapacityReservationSelectorTerm(id="cr-1"),))
    before = await stand.resolve(wanted)
    stand.changed(**{operation: OUTAGE})
    stand.clock.tick(1000)

    during = await stand.resolve(replace(wanted, status=before.status))

    assert is_ready(during)
    assert during.status == before.status
    assert during.look_again_s == 10.0
    (problem,) = during.problems.values()
    assert not problem.is_verdict


async def test_in_an_outage_a_changed_class_is_neither_ready_nor_refused() -> None:
    stand = Stand()
    before = await stand.resolve()
    stand.changed(DescribeSubnets=OUTAGE)

    during = await stand.resolve(replace(written(generation=2), status=before.status))

    assert said(during, conditions.SUBNETS_READY) == ("Unknown", "AWSUnreachable")
    assert condition(during, conditions.READY).status == "Unknown"


async def test_a_class_that_was_never_found_waits_for_aws() -> None:
    stand = Stand(DescribeSubnets=OUTAGE)

    resolved = await stand.resolve()

    assert said(resolved, conditions.SUBNETS_READY) == ("Unknown", "AWSUnreachable")
    assert said(resolved, conditions.VALIDATION_SUCCEEDED) == ("Unknown", "DependenciesNotReady")


async def test_events_tell_notices_and_problems_but_not_that_one_follows_from_the_other() -> None:
    other = {**SUBNET, "OwnerId": "222222222222"}
    stand = Stand(DescribeSubnets={"Subnets": [other]}, DescribeSecurityGroups={"SecurityGroups": []})

    resolved = await stand.resolve()

    assert [(each.reason, each.field) for each in resolved.remarks] == [
        ("ForeignOwner", "spec.subnetSelectorTerms"),
        ("SecurityGroupsNotFound", "SecurityGroupsReady"),
    ]
    assert "spec.securityGroupSelectorTerms" in resolved.remarks[1].message


async def test_selectors_that_match_nothing_are_told_in_karpenters_words_and_events_say_what_to_check() -> (
    None
):
    stand = Stand(
        DescribeSubnets={"Subnets": []},
        DescribeSecurityGroups={"SecurityGroups": []},
        DescribeImages={"Images": []},
        DescribePlacementGroups={"PlacementGroups": []},
    )

    resolved = await stand.resolve(written(placement_group_selector=PlacementGroupSelector(name="fast")))

    assert said(resolved, conditions.SUBNETS_READY) == ("False", "SubnetsNotFound")
    assert said(resolved, conditions.SECURITY_GROUPS_READY) == ("False", "SecurityGroupsNotFound")
    assert said(resolved, conditions.AMIS_READY) == ("False", "AMINotFound")
    assert said(resolved, conditions.PLACEMENT_GROUP_READY) == ("False", "PlacementGroupNotFound")
    sentences = {
        conditions.SUBNETS_READY: "SubnetSelector did not match any Subnets",
        conditions.SECURITY_GROUPS_READY: "SecurityGroupSelector did not match any SecurityGroups",
        conditions.AMIS_READY: "AMISelector did not match any AMIs",
    }
    for which, sentence in sentences.items():
        assert condition(resolved, which).message == sentence
    events = {each.field: str(each) for each in resolved.remarks}
    assert "no subnet matches any term" in events[conditions.SUBNETS_READY]
    assert "carry every tag" in events[conditions.SECURITY_GROUPS_READY]
    assert "images must be available" in events[conditions.AMIS_READY]
    assert resolved.look_again_s == 60.0


async def test_empty_selectors_are_named_and_nobody_is_asked_for_everything() -> None:
    stand = Stand()
    wanted = written(
        subnet_selector_terms=(),
        security_group_selector_terms=(),
        ami_selector_terms=(AMISelectorTerm(owner="self"),),
    )

    resolved = await stand.resolve(wanted)

    assert condition(resolved, conditions.SUBNETS_READY).message.startswith(
        "spec.subnetSelectorTerms is empty, so no subnet is selected"
    )
    assert "is empty" in condition(resolved, conditions.SECURITY_GROUPS_READY).message
    assert "spec.amiSelectorTerms: term 0 is empty" in condition(resolved, conditions.AMIS_READY).message
    assert not stand.aws.named("DescribeSubnets") + stand.aws.named("DescribeImages")


async def test_a_missing_role_has_a_reason_of_its_own() -> None:
    no_profile = aws_error("NoSuchEntity", "Instance Profile x cannot be found.", status=404)
    no_role = aws_error("NoSuchEntity", "The role with name node-role cannot be found.", status=404)
    stand = Stand(GetInstanceProfile=no_profile, CreateInstanceProfile={}, AddRoleToInstanceProfile=no_role)

    by_role = await stand.resolve()

    assert said(by_role, conditions.INSTANCE_PROFILE_READY) == ("Unknown", "NodeRoleNotFound")
    assert by_role.status.instance_profile == ""


async def test_a_class_that_names_its_profile_never_asks_iam() -> None:
    stand = Stand(GetInstanceProfile=OUTAGE, ListInstanceProfiles=OUTAGE)
    named = written(role="", instance_profile="mine")

    resolved = await stand.resolve(named)

    assert said(resolved, conditions.INSTANCE_PROFILE_READY)[0] == "True"
    assert resolved.status.instance_profile == "mine"
    assert not stand.aws.named("GetInstanceProfile")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"tags": {"karpenter.sh/nodepool": "x"}}, "TagValidationFailed"),
        ({"kubelet": KubeletConfiguration(max_pods=-1)}, "InvalidKubeletConfiguration"),
        ({"user_data": "x" * 20_000}, "UserDataSizeLimitExceeded"),
        (
            {"ami_family": "Bottlerocket", "user_data": "[settings"},
            "InvalidUserData",
        ),
    ],
)
async def test_what_can_be_read_from_the_class_is_judged_before_ec2_is_asked(
    spec: dict[str, Any], reason: str
) -> None:
    stand = Stand()

    resolved = await stand.resolve(written(**spec))

    assert said(resolved, conditions.VALIDATION_SUCCEEDED) == ("False", reason)
    assert not stand.aws.named("CreateLaunchTemplate")


async def test_a_missing_permission_to_launch_is_a_condition_before_any_pod_waits() -> None:
    stand = Stand(CreateFleet=DENIED)

    resolved = await stand.resolve()

    assert said(resolved, conditions.VALIDATION_SUCCEEDED) == ("False", "CreateFleetAuthCheckFailed")
    assert "ec2:" in condition(resolved, conditions.VALIDATION_SUCCEEDED).message


async def test_what_belongs_to_others_is_used_and_told_in_condition_and_notices() -> None:
    other = {**SUBNET, "OwnerId": "222222222222"}
    tagged = {**GROUP, "Tags": [{"Key": "kubernetes.io/cluster/other", "Value": "owned"}]}
    stand = Stand(DescribeSubnets={"Subnets": [other]}, DescribeSecurityGroups={"SecurityGroups": [tagged]})
    terms = (CapacityReservationSelectorTerm(tags={"a": "b"}),)

    resolved = await stand.resolve(written(capacity_reservation_selector_terms=terms))

    assert is_ready(resolved)
    assert {(each.reason, each.field) for each in resolved.notices} == {
        ("ForeignOwner", "spec.subnetSelectorTerms"),
        ("ForeignCluster", "spec.securityGroupSelectorTerms"),
        ("ForeignOwner", "spec.capacityReservationSelectorTerms"),
    }
    assert "222222222222" in condition(resolved, conditions.SUBNETS_READY).message


async def test_what_is_told_does_not_move_with_free_addresses() -> None:
    def subnets(*free: int) -> dict[str, Any]:
        return {
            "Subnets": [
                {
                    **SUBNET,
                    "SubnetId": f"subnet-{n}",
                    "AvailableIpAddressCount": each,
                    "OwnerId": "222222222222",
                }
                for n, each in enumerate(free)
            ]
        }

    told = [
        condition(await Stand(DescribeSubnets=subnets(*free)).resolve(), conditions.SUBNETS_READY).message
        for free in ((1, 2), (2, 1))
    ]

    assert told[0] == told[1]
    assert told[0].index("subnet-0") < told[0].index("subnet-1")


async def test_a_reservation_of_an_owner_whom_the_term_names_needs_no_notice() -> None:
    terms = (CapacityReservationSelectorTerm(tags={"a": "b"}, owner_id="222222222222"),)

    resolved = await Stand().resolve(written(capacity_reservation_selector_terms=terms))

    assert resolved.notices == ()
    assert [each.id for each in resolved.status.capacity_reservations] == ["cr-1"]


async def test_whose_credentials_these_are_may_stay_unknown() -> None:
    other = {**SUBNET, "OwnerId": "222222222222"}
    stand = Stand(GetCallerIdentity=OUTAGE, DescribeCluster=OUTAGE, DescribeSubnets={"Subnets": [other]})

    resolved = await stand.resolve()

    assert is_ready(resolved)
    assert resolved.notices == ()


async def test_deprecated_images_and_nearly_full_user_data_are_told() -> None:
    old = {**IMAGE, "DeprecationTime": "2025-06-01T00:00:00Z"}
    stand = Stand(DescribeImages={"Images": [old]})

    resolved = await stand.resolve(written(user_data="#!/bin/sh\n" + "x" * 14_200))

    assert [each.reason for each in resolved.notices] == ["DeprecatedAMI", "UserDataWarning"]
    assert "ami-1 (image) is deprecated" in condition(resolved, conditions.AMIS_READY).message
    assert "spec.userData" in condition(resolved, conditions.VALIDATION_SUCCEEDED).message


async def test_a_nearly_full_user_data_is_told_also_when_ec2_refuses_something_else() -> None:
    resolved = await Stand(CreateFleet=DENIED).resolve(written(user_data="#!/bin/sh\n" + "x" * 14_200))

    assert [each.reason for each in resolved.notices] == ["UserDataWarning"]


async def test_an_image_of_another_architecture_is_told_by_name() -> None:
    odd = {**IMAGE, "ImageId": "ami-2", "Architecture": "i386"}
    both = await Stand(DescribeImages={"Images": [IMAGE, odd]}).resolve()
    alone = await Stand(DescribeImages={"Images": [odd]}).resolve()

    assert [each.reason for each in both.notices] == ["UnsupportedArchitecture"]
    assert "ami-2 is for i386" in condition(alone, conditions.AMIS_READY).message
    assert said(alone, conditions.AMIS_READY) == ("False", "AMINotFound")


async def test_groups_and_subnets_of_different_networks_are_told() -> None:
    stand = Stand(DescribeSecurityGroups={"SecurityGroups": [{**GROUP, "VpcId": "vpc-2"}]})

    resolved = await stand.resolve()

    (notice,) = resolved.notices
    assert notice.reason == "SecurityGroupSubnetVPCMismatch"
    assert notice.message == "security group sg-1 is of vpc-2, subnets are of vpc-1"


async def test_without_the_gate_reservations_are_neither_asked_for_nor_a_condition() -> None:
    stand = Stand(uses_reservations=False)
    terms = (CapacityReservationSelectorTerm(id="cr-1"),)
    before = await Stand().resolve(written(capacity_reservation_selector_terms=terms))

    resolved = await stand.resolve(
        replace(written(capacity_reservation_selector_terms=terms), status=before.status)
    )

    assert is_ready(resolved)
    assert resolved.status.capacity_reservations == ()
    assert all(each.type != conditions.CAPACITY_RESERVATIONS_READY for each in resolved.status.conditions)
    assert not stand.aws.named("DescribeCapacityReservations")


async def test_a_family_that_does_not_exist_is_told_and_has_no_fingerprint() -> None:
    resolved = await Stand().resolve(written(ami_family="Ubuntu"))

    assert not is_ready(resolved)
    assert resolved.annotations == {}


async def test_with_a_class_go_its_profiles_and_templates_but_not_a_profile_of_the_users() -> None:
    stand = Stand(
        ListInstanceProfiles={"InstanceProfiles": [{"InstanceProfileName": "a"}]},
        DeleteInstanceProfile={},
        DescribeLaunchTemplates={
            "LaunchTemplates": [
                {"LaunchTemplateName": "karpenter.k8s.aws/1"},
                {"LaunchTemplateName": "theirs"},
            ]
        },
        DeleteLaunchTemplate={},
    )

    made = await stand.status.cleanup(written())
    named = await stand.status.cleanup(written(role="", instance_profile="mine"))

    assert (made.profiles, made.templates) == (1, 1)
    assert (named.profiles, named.templates) == (0, 1)


def test_a_problem_reads_as_one_sentence_with_its_hint() -> None:
    assert str(Problem("R", "spec.x: wrong", "mend it")) == "spec.x: wrong (hint: mend it)"
