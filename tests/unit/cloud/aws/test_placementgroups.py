# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.ec2nodeclass import EC2NodeClass, PlacementGroupSelector
from karpenter.cloud.aws.api import AwsError
from karpenter.cloud.aws.placementgroups import (
    FoundPlacementGroup,
    PlacementGroupNotFoundError,
    PlacementGroups,
)
from karpenter.kit.clock import FakeClock
from tests.unit.cloud.aws.builders import node_class
from tests.unit.cloud.aws.fakes import FakeAws, aws_error


def group(**more: Any) -> dict[str, Any]:
    made = {"GroupId": "pg-1", "GroupName": "fast", "State": "available", "Strategy": "cluster", **more}
    return {"PlacementGroups": [made]}


def selecting(**selector: str) -> EC2NodeClass:
    return node_class(spec={"placement_group_selector": PlacementGroupSelector(**selector)})


async def test_a_class_that_names_no_group_has_none_and_asks_nobody() -> None:
    aws = FakeAws()
    groups = PlacementGroups(aws, FakeClock())

    assert await groups.find(node_class()) is None
    assert groups.group_of(node_class()) is None
    assert aws.calls == []


@pytest.mark.parametrize(
    ("selector", "asked"),
    [({"id": "pg-1"}, {"GroupIds": ["pg-1"]}), ({"name": "fast"}, {"GroupNames": ["fast"]})],
)
async def test_a_group_is_found_by_id_or_by_name_and_then_known(
    selector: dict[str, str], asked: dict[str, list[str]]
) -> None:
    aws = FakeAws({"DescribePlacementGroups": group(Strategy="partition", PartitionCount=4)})
    groups = PlacementGroups(aws, FakeClock())
    wanted = selecting(**selector)
    assert groups.group_of(wanted) is None

    found = await groups.find(wanted)

    assert found == FoundPlacementGroup("pg-1", "fast", "partition", 4)
    assert groups.group_of(wanted) == found
    assert aws.named("DescribePlacementGroups") == [asked]
    assert await groups.find(wanted) is found


@pytest.mark.parametrize("answer", [{"PlacementGroups": []}, aws_error("InvalidPlacementGroup.Unknown")])
async def test_a_group_that_does_not_exist_is_refused_with_the_field(answer: Any) -> None:
    groups = PlacementGroups(FakeAws({"DescribePlacementGroups": answer}), FakeClock())

    with pytest.raises(PlacementGroupNotFoundError) as refused:
        await groups.find(selecting(name="fast"))

    assert refused.value.message == "spec.placementGroupSelector: no placement group has the name fast"
    assert "us-west-2" in refused.value.hint


async def test_a_group_that_is_being_deleted_is_refused_and_forgotten() -> None:
    clock = FakeClock()
    groups = PlacementGroups(FakeAws({"DescribePlacementGroups": [group(), group(State="deleting")]}), clock)
    await groups.find(selecting(id="pg-1"))
    clock.tick(60)

    with pytest.raises(PlacementGroupNotFoundError, match="with the id pg-1 is deleting, not available"):
        await groups.find(selecting(id="pg-1"))

    assert groups.group_of(selecting(id="pg-1")) is None


async def test_a_group_that_cannot_be_looked_up_now_stays_known() -> None:
    clock = FakeClock()
    groups = PlacementGroups(
        FakeAws({"DescribePlacementGroups": [group(), aws_error("RequestLimitExceeded")]}), clock
    )
    await groups.find(selecting(id="pg-1"))
    clock.tick(3600)

    with pytest.raises(AwsError):
        await groups.find(selecting(id="pg-1"))

    assert groups.group_of(selecting(id="pg-1")) == FoundPlacementGroup("pg-1", "fast", "cluster")
