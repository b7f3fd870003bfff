# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from karpenter.api import labels
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.fleet import CLAIM_UID_TAG, LAUNCH_TAG, Launched
from karpenter.cloud.aws.instances import (
    Instances,
    ProviderIdError,
    format_provider_id,
    launched_instance,
    parse_provider_id,
    read_instance,
)
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.fakes import FakeAws, aws_error

_T = TypeVar("_T")


def _described(instance_id: str = "i-1", state: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "InstanceId": instance_id,
        "InstanceType": "m5.large",
        "Placement": {"AvailabilityZone": "us-west-2a", "Tenancy": "default"},
        "State": {"Name": state},
        **more,
    }


def _answer(*instances: dict[str, Any]) -> dict[str, Any]:
    return {"Reservations": [{"Instances": [each]} for each in instances]}


class Desk:
    def __init__(self, **answers: Any) -> None:
        self.clock = FakeClock()
        self.aws = FakeAws(answers)
        self.batches: list[tuple[str, int]] = []
        self.instances = Instances(
            self.aws,
            self.clock,
            cluster_name="demo",
            on_batch=lambda name, size, _: self.batches.append((name, size)),
        )

    async def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        task = asyncio.create_task(work)
        await self.clock.advance(1.5)
        return await task


FRESH = launched_instance(
    Launched("i-new", "m5.large", "us-west-2a", "spot", "ami-1", "subnet-1"), {"k": "v"}
)


def test_provider_ids_go_both_ways_and_foreign_ones_are_refused() -> None:
    assert parse_provider_id(format_provider_id("us-west-2a", "i-1")) == "i-1"
    for odd in ("", "gce:///z/i-1", "aws:///i-1", "aws:///z/i-1/more"):
        with pytest.raises(ProviderIdError):
            parse_provider_id(odd)


def test_an_instance_is_read_with_everything_that_later_questions_need() -> None:
    instance = read_instance(
        _described(
            Placement={
                "AvailabilityZone": "us-west-2a",
                "AvailabilityZoneId": "usw2-az1",
                "GroupId": "pg-1",
                "PartitionNumber": 2,
                "Tenancy": "dedicated",
            },
            ImageId="ami-1",
            SubnetId="subnet-1",
            SecurityGroups=[{"GroupId": "sg-1"}, {"GroupId": "sg-2"}],
            IamInstanceProfile={"Arn": "arn:aws:iam::1:instance-profile/karpenter/x/nodes"},
            PrivateDnsName="ip-10-0-0-1",
            StateReason={"Code": "Client.InvalidKMSKey.InvalidState", "Message": "the key is disabled"},
            LaunchTime=datetime(2026, 1, 1, tzinfo=UTC),
            Tags=[{"Key": "a", "Value": "1"}],
        )
    )

    assert instance.provider_id == "aws:///us-west-2a/i-1"
    assert (instance.zone_id, instance.partition, instance.tenancy) == ("usw2-az1", "2", "dedicated")
    assert instance.security_group_ids == {"sg-1", "sg-2"}
    assert instance.instance_profile == "nodes"
    assert instance.state_reason == "Client.InvalidKMSKey.InvalidState: the key is disabled"
    assert instance.tags == {"a": "1"}
    assert instance.is_living


@pytest.mark.parametrize(
    ("told", "capacity_type"),
    [
        ({}, labels.ON_DEMAND),
        ({"SpotInstanceRequestId": "sir-1"}, labels.SPOT),
        ({"InstanceLifecycle": "spot"}, labels.SPOT),
        ({"InstanceLifecycle": "capacity-block"}, labels.RESERVED),
        (
            {
                "CapacityReservationId": "cr-1",
                "CapacityReservationSpecification": {
                    "CapacityReservationPreference": "capacity-reservations-only"
                },
            },
            labels.RESERVED,
        ),
        (
            {
                "CapacityReservationId": "cr-1",
                "CapacityReservationSpecification": {"CapacityReservationPreference": "open"},
            },
            labels.ON_DEMAND,
        ),
    ],
)
def test_spot_and_reserved_capacity_are_recognised(told: dict[str, Any], capacity_type: str) -> None:
    assert read_instance(_described(**told)).capacity_type == capacity_type


async def test_many_look_ups_are_one_call_and_are_kept_for_a_moment() -> None:
    desk = Desk(DescribeInstances=_answer(_described("i-1"), _described("i-2")))

    async def both() -> list[Any]:
        return await asyncio.gather(*(desk.instances.get(each) for each in ("i-1", "i-2")))

    found = await desk.wait(both())
    kept = await desk.instances.get("i-1")
    fresh = await desk.wait(desk.instances.get("i-1", cached=False))

    assert [each.id for each in found] == ["i-1", "i-2"]
    assert kept == fresh == found[0]
    assert [call["Filters"][0]["Values"] for call in desk.aws.named("DescribeInstances")] == [
        ["i-1", "i-2"],
        ["i-1"],
    ]
    assert desk.batches == [("describe_instances", 2), ("describe_instances", 1)]


async def test_absence_is_proof_but_for_what_was_just_launched() -> None:
    desk = Desk(DescribeInstances=_answer())
    desk.instances.note(FRESH)

    unknown = await desk.wait(desk.instances.get("i-1"))
    fresh = await desk.wait(desk.instances.get("i-new"))
    listed = await desk.instances.list()
    known_as_fresh = desk.instances.is_fresh("i-new")
    await desk.clock.advance(60)
    later = await desk.wait(desk.instances.get("i-new"))

    assert unknown is None
    assert fresh == FRESH
    assert listed == (FRESH,)
    assert known_as_fresh
    assert later is None


async def test_the_list_asks_for_our_tags_and_for_what_is_not_terminated() -> None:
    desk = Desk(
        DescribeInstances=[{**_answer(_described("i-2")), "NextToken": "n"}, _answer(_described("i-1"))]
    )

    listed = await desk.instances.list()

    assert [each.id for each in listed] == ["i-1", "i-2"]
    first = desk.aws.calls[0][1]
    assert first["MaxResults"] == 1000
    assert {each["Name"] for each in first["Filters"]} == {
        "tag:eks:eks-cluster-name",
        "tag-key",
        "instance-state-name",
    }


async def test_instances_of_claims_are_found_in_one_call_the_oldest_first() -> None:
    def of(instance_id: str, uid: str, year: int) -> dict[str, Any]:
        tags = [{"Key": CLAIM_UID_TAG, "Value": uid}]
        return _described(instance_id, Tags=tags, LaunchTime=datetime(year, 1, 1, tzinfo=UTC))

    desk = Desk(
        DescribeInstances=_answer(of("i-2", "u1", 2026), of("i-1", "u1", 2027), of("i-3", "u2", 2026))
    )

    async def all_three() -> list[Any]:
        return await asyncio.gather(*(desk.instances.of_claim(uid) for uid in ("u1", "u2", "u3")))

    first, second, third = await desk.wait(all_three())

    assert [each.id for each in first] == ["i-2", "i-1"]
    assert [each.id for each in second] == ["i-3"]
    assert third == ()
    assert len(desk.aws.calls) == 1


async def test_living_instances_of_a_launch_are_found_by_its_tag() -> None:
    desk = Desk(
        DescribeInstances=_answer(
            _described("i-2"), _described("i-1", "pending"), _described("i-3", "terminated")
        )
    )

    found = await desk.instances.of_launch("token")

    assert [each.id for each in found] == ["i-1", "i-2"]
    assert {"Name": f"tag:{LAUNCH_TAG}", "Values": ["token"]} in desk.aws.calls[0][1]["Filters"]


async def test_many_terminations_are_one_call() -> None:
    desk = Desk(TerminateInstances={})
    desk.instances.note(FRESH)

    async def both() -> list[bool]:
        return await asyncio.gather(*(desk.instances.terminate(each) for each in ("i-1", "i-new")))

    assert await desk.wait(both()) == [True, True]
    assert desk.aws.calls == [("TerminateInstances", {"InstanceIds": ["i-1", "i-new"]})]
    assert not desk.instances.is_fresh("i-new")


async def test_an_unknown_instance_does_not_keep_the_others_from_being_terminated() -> None:
    def answer(**parameters: Any) -> Any:
        return aws_error("InvalidInstanceID.NotFound") if "i-3" in parameters["InstanceIds"] else {}

    desk = Desk(TerminateInstances=answer)

    async def some() -> list[bool]:
        return await asyncio.gather(*(desk.instances.terminate(f"i-{n}") for n in range(1, 6)))

    assert await desk.wait(some()) == [True, True, False, True, True]


async def test_an_instance_that_may_not_be_ended_does_not_keep_the_others() -> None:
    def answer(**parameters: Any) -> Any:
        return aws_error("UnauthorizedOperation", "no") if "i-3" in parameters["InstanceIds"] else {}

    desk = Desk(TerminateInstances=answer)

    async def all_of_them() -> list[Any]:
        wanted = (desk.instances.terminate(f"i-{n}") for n in range(1, 6))
        return await asyncio.gather(*wanted, return_exceptions=True)

    found = await desk.wait(all_of_them())

    assert [each for n, each in enumerate(found) if n != 2] == [True] * 4
    assert isinstance(found[2], AwsError)


async def test_any_other_refusal_to_terminate_is_raised() -> None:
    desk = Desk(TerminateInstances=aws_error("UnauthorizedOperation"))

    with pytest.raises(AwsError):
        await desk.wait(desk.instances.terminate("i-1"))


async def test_tags_are_written_and_seen_at_once() -> None:
    desk = Desk(DescribeInstances=_answer(_described("i-1")), CreateTags={})
    await desk.wait(desk.instances.get("i-1"))

    await desk.instances.tag("i-1", {"b": "2", "a": "1"})
    await desk.instances.tag("i-2", {"a": "1"})
    seen = await desk.instances.get("i-1")

    assert seen is not None
    assert seen.tags == {"a": "1", "b": "2"}
    assert desk.aws.named("CreateTags")[0] == {
        "Resources": ["i-1"],
        "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}],
    }


async def test_closing_gives_up_on_what_was_asked() -> None:
    desk = Desk()

    asked = asyncio.create_task(desk.instances.get("i-1"))
    await desk.clock.settle()
    await desk.instances.close()
    await desk.clock.settle()

    assert asked.cancelled()
