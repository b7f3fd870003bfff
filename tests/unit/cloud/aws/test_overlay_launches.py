# SPDX-License-Identifier: Apache-2.0
"""Launches for claims that rely on what a NodeOverlay adds to instance types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from karpenter.cloud.errors import InsufficientCapacityError
from karpenter.model.instancetypes import InstanceType
from karpenter.model.resources import Resources
from tests.unit.cloud.aws.builders import claim, node_class
from tests.unit.cloud.aws.test_provider import Stand

_WANTED = {"cpu": "1", "example.com/slots": "2"}


def with_slots(pool: str, types: Sequence[InstanceType]) -> Sequence[InstanceType]:
    """Add four slots to the types of the pool general."""
    if pool != "general":
        return types
    more = Resources.parse({"example.com/slots": "4"})
    return [
        replace(each, capacity={**each.capacity, **more}, allocatable={**each.allocatable, **more})
        for each in types
    ]


async def test_a_resource_that_an_overlay_adds_has_room_at_the_launch_and_is_in_the_capacity() -> None:
    stand = Stand()
    provider = await stand.connect(adjust=with_slots)

    machine = await stand.wait(provider.create(claim(requests=_WANTED), node_class()))
    await provider.close()

    assert machine.capacity["example.com/slots"] == 4
    assert machine.allocatable["example.com/slots"] == 4


async def test_a_resource_that_no_overlay_adds_to_the_pool_is_still_refused() -> None:
    stand = Stand()
    provider = await stand.connect(adjust=with_slots)
    other = claim(requests=_WANTED, node_labels={"karpenter.sh/nodepool": "other"})

    with pytest.raises(InsufficientCapacityError, match="has room for its pods"):
        await stand.wait(provider.create(other, node_class()))
    await provider.close()
