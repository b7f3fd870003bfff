# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from karpenter.api.core import Pod
from karpenter.controllers.disruption.successors import Successors
from karpenter.kube.kinds import PODS
from tests.unit.controllers.disruption.world import World


class Scene:
    """A node that is drained, one with room, and who knows where successors go."""

    def __init__(self) -> None:
        self.world = World()
        self.world.node("old")
        self.world.node("new")
        self.told: list[Collection[str]] = []

        async def nominate(members: Collection[str]) -> None:
            self.told.append(members)

        world = self.world
        self.successors = Successors(world.cluster, world.metrics, world.clock, nominate)

    def pod(self, app: str = "web", node: str = "old", **metadata: Any) -> Pod:
        """A pod of a workload."""
        return self.world._pod(app, node, "1Gi", metadata=metadata)

    def promised(self, pod: Pod) -> str:
        """Whom a pod is promised to."""
        return self.world.cluster.nominations.member_of(pod.metadata.uid)

    async def end(self, pod: Pod) -> None:
        """Let a pod go."""
        await self.world.client.delete(PODS, pod.metadata.name, "shop")

    def count(self, outcome: str) -> float:
        """How many successors ended up so."""
        value: float = self.world.metrics.placements.labels(outcome)._value.get()
        return value


async def test_a_successor_is_promised_to_its_predecessors_place_and_nominated() -> None:
    scene = Scene()
    first = scene.pod()
    scene.successors.expect([(first, "claim-new")])
    task = asyncio.ensure_future(scene.successors.run())

    await scene.end(first)
    second = scene.pod(node="")
    third = scene.pod(node="")
    await scene.world.clock.settle()
    task.cancel()

    assert scene.promised(second) == "claim-new"
    assert scene.promised(third) == ""
    assert scene.told == [{"claim-new"}]


async def test_a_place_is_not_given_away_while_its_pod_stays() -> None:
    scene = Scene()
    first = scene.pod()
    scene.successors.expect([(first, "claim-new")])

    grown = scene.pod(node="")

    assert scene.promised(grown) == ""


async def test_pods_of_a_stateful_set_get_the_place_of_their_name() -> None:
    scene = Scene()
    zero, one = scene.pod(name="db-0"), scene.pod(name="db-1")
    scene.successors.expect([(zero, "claim-a"), (one, "claim-b")])
    await scene.end(zero)
    await scene.end(one)

    again = scene.pod(node="", name="db-1", uid="uid-again")

    assert scene.promised(again) == "claim-b"


async def test_where_successors_end_up_is_counted() -> None:
    scene = Scene()
    pods = [scene.pod() for _ in range(3)]
    scene.successors.expect((pod, "claim-new") for pod in pods)
    for pod in pods:
        await scene.end(pod)
    made = [scene.pod(node="") for _ in range(3)]
    for pod, node in zip(made, ("new", "old"), strict=False):
        await scene.world.client.patch(PODS, pod.metadata.name, {"spec": {"nodeName": node}}, "shop")
    await scene.end(made[2])

    assert scene.count("planned") == 1
    assert scene.count("elsewhere") == 1


async def test_who_makes_no_successor_in_time_is_not_waited_for() -> None:
    scene = Scene()
    first, bare = scene.pod(), scene.pod(ownerReferences=[])
    scene.successors.expect([(first, "claim-new"), (bare, "claim-new")])
    await scene.end(first)
    await scene.world.clock.advance(601)

    late = scene.pod(node="")
    assert scene.promised(late) == ""
    scene.successors.expect([])
    assert scene.successors._places == {}


async def test_a_place_that_is_still_waited_for_is_kept_when_others_come() -> None:
    scene = Scene()
    first, other = scene.pod(), scene.pod("api")
    scene.successors.expect([(first, "claim-new")])
    scene.successors.expect([(other, "claim-new")])

    assert len(scene.successors._places) == 2


async def test_a_successor_that_the_scheduler_finds_no_place_for_is_soon_an_ordinary_pod() -> None:
    scene = Scene()
    first = scene.pod()
    scene.successors.expect([(first, "claim-new")])
    await scene.end(first)
    second = scene.pod(node="")
    refused = {
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    }

    await scene.world.client.edit(PODS, second.metadata.name, refused, "shop", subresource="status")
    await scene.world.clock.advance(4.0)
    before = scene.promised(second)
    await scene.world.client.patch(PODS, second.metadata.name, {"metadata": {"labels": {"a": "b"}}}, "shop")
    await scene.world.clock.advance(2.0)

    assert before == "claim-new"
    assert scene.promised(second) == ""
