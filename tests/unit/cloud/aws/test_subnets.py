# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass, SubnetSelectorTerm
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.subnets import Subnets
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import node_class
from tests.unit.cloud.aws.fakes import FakeAws, aws_error


def subnet(subnet_id: str, free: int = 100, zone: str = "us-west-2a") -> dict[str, Any]:
    return {
        "SubnetId": subnet_id,
        "AvailabilityZone": zone,
        "AvailabilityZoneId": "usw2-az1",
        "AvailableIpAddressCount": free,
        "VpcId": "vpc-1",
        "OwnerId": "111111111111",
    }


def with_terms(*terms: SubnetSelectorTerm, generation: int = 1) -> EC2NodeClass:
    return node_class(spec={"subnet_selector_terms": terms}, generation=generation)


BY_TAG = SubnetSelectorTerm(tags={"discovery": "demo"})


async def test_the_subnet_with_the_most_free_addresses_comes_first_and_equals_go_by_id() -> None:
    aws = FakeAws(
        {
            "DescribeSubnets": {
                "Subnets": [subnet("subnet-c", 5), subnet("subnet-b", 9), subnet("subnet-a", 5)]
            }
        }
    )

    found = await Subnets(aws, FakeClock()).find(with_terms(BY_TAG))

    assert [each.id for each in found] == ["subnet-b", "subnet-a", "subnet-c"]
    shown = found[0].status()
    assert (shown.id, shown.zone, shown.zone_id) == ("subnet-b", "us-west-2a", "usw2-az1")


async def test_ids_share_one_question_and_each_tag_term_has_its_own() -> None:
    aws = FakeAws({"DescribeSubnets": {"Subnets": [subnet("subnet-1")]}})
    terms = (SubnetSelectorTerm(id="subnet-1"), BY_TAG, SubnetSelectorTerm(id="subnet-2"))

    found = await Subnets(aws, FakeClock()).find(with_terms(*terms))

    asked = [call["Filters"] for call in aws.named("DescribeSubnets")]
    assert asked == [
        [{"Name": "subnet-id", "Values": ["subnet-1", "subnet-2"]}],
        [{"Name": "tag:discovery", "Values": ["demo"]}],
    ]
    assert len(found) == 1


async def test_a_term_that_says_nothing_never_asks_for_everything() -> None:
    aws = FakeAws()

    assert await Subnets(aws, FakeClock()).find(with_terms(SubnetSelectorTerm())) == ()
    assert aws.calls == []


async def test_what_was_found_is_believed_for_a_minute() -> None:
    aws, clock = FakeAws({"DescribeSubnets": {"Subnets": [subnet("subnet-1")]}}), FakeClock()
    subnets = Subnets(aws, clock)

    await subnets.find(with_terms(BY_TAG))
    clock.tick(59)
    await subnets.find(with_terms(BY_TAG))
    assert len(aws.calls) == 1
    clock.tick(1)
    await subnets.find(with_terms(BY_TAG))

    assert len(aws.calls) == 2


async def test_another_generation_is_another_question() -> None:
    aws = FakeAws({"DescribeSubnets": {"Subnets": [subnet("subnet-1")]}})
    subnets = Subnets(aws, FakeClock())

    await subnets.find(with_terms(BY_TAG))
    await subnets.find(with_terms(BY_TAG, generation=2))

    assert len(aws.calls) == 2


async def test_finding_nothing_is_not_remembered() -> None:
    aws = FakeAws({"DescribeSubnets": [{"Subnets": []}, {"Subnets": [subnet("subnet-1")]}]})
    subnets = Subnets(aws, FakeClock())

    assert await subnets.find(with_terms(BY_TAG)) == ()
    assert len(await subnets.find(with_terms(BY_TAG))) == 1


async def test_a_refusal_goes_to_the_caller() -> None:
    aws = FakeAws({"DescribeSubnets": aws_error("UnauthorizedOperation")})

    with pytest.raises(AwsError):
        await Subnets(aws, FakeClock()).find(with_terms(BY_TAG))
