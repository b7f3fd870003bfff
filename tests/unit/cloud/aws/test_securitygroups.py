# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.api.ec2nodeclass import SecurityGroup, SecurityGroupSelectorTerm
from karpenter.cloud.aws.securitygroups import SecurityGroups
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import node_class
from tests.unit.cloud.aws.fakes import FakeAws

GROUPS = {
    "SecurityGroups": [
        {"GroupId": "sg-2", "GroupName": "nodes", "VpcId": "vpc-1"},
        {"GroupId": "sg-1", "GroupName": "default", "VpcId": "vpc-1"},
    ]
}


async def test_groups_are_listed_by_id_whatever_found_them() -> None:
    aws = FakeAws({"DescribeSecurityGroups": GROUPS})
    terms = (
        SecurityGroupSelectorTerm(id="sg-1"),
        SecurityGroupSelectorTerm(name="nodes"),
        SecurityGroupSelectorTerm(tags={"team": "*"}),
    )

    found = await SecurityGroups(aws, FakeClock()).find(
        node_class(spec={"security_group_selector_terms": terms})
    )

    assert [each.status() for each in found] == [
        SecurityGroup(id="sg-1", name="default"),
        SecurityGroup(id="sg-2", name="nodes"),
    ]
    assert [call["Filters"] for call in aws.named("DescribeSecurityGroups")] == [
        [{"Name": "group-id", "Values": ["sg-1"]}],
        [{"Name": "group-name", "Values": ["nodes"]}],
        [{"Name": "tag-key", "Values": ["team"]}],
    ]


async def test_what_was_found_is_remembered_and_nothing_is_not() -> None:
    aws = FakeAws({"DescribeSecurityGroups": [{"SecurityGroups": []}, GROUPS]})
    groups = SecurityGroups(aws, FakeClock())
    wanted = node_class(spec={"security_group_selector_terms": (SecurityGroupSelectorTerm(id="sg-1"),)})

    assert await groups.find(wanted) == ()
    assert await groups.find(wanted) == await groups.find(wanted)
    assert len(aws.calls) == 2


async def test_a_term_that_says_nothing_never_asks_for_everything() -> None:
    aws = FakeAws()
    wanted = node_class(spec={"security_group_selector_terms": (SecurityGroupSelectorTerm(),)})

    assert await SecurityGroups(aws, FakeClock()).find(wanted) == ()
    assert aws.calls == []
