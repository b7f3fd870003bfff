# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from karpenter.api import labels as names
from karpenter.api.core import Pod
from karpenter.controllers.disruption import conducting
from karpenter.controllers.tainting import is_tainted
from karpenter.kube import ForbiddenError
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from tests.unit.controllers.disruption.world import World


class Scene:
    """A node that is drained onto two others, and one that has nothing to do with it."""

    def __init__(self) -> None:
        self.world = World()
        for name in ("old", "a", "b", "other"):
            self.world.node(name)
        self.world.pods(1, "old", app="web")
        self.world.pods(1, "old", app="db")
        self.web, self.db = self.world.cluster.pods_on("old")
        self.conductor = self.world.disruption.conductor

    def expect(self) -> None:
        """Let both pods be told to go, each to a node of its own."""
        self.conductor.expect([(self.web, "claim-a"), (self.db, "claim-b")])

    @property
    def shunned(self) -> list[str]:
        """The nodes that pods had better not go to."""
        return [
            each.metadata.name for each in self.world.nodes if is_tainted(each, names.DISRUPTED_LATER_TAINT)
        ]

    async def move(self, pod: Pod, node: str) -> None:
        """Evict a pod, and let its successor be bound to a node."""
        await self.world.client.delete(PODS, pod.metadata.name, "shop")
        made = self.world._pod(pod.metadata.labels["app"], "", "1Gi")
        await self.world.client.patch(PODS, made.metadata.name, {"spec": {"nodeName": node}}, "shop")

    def may_go(self) -> list[bool]:
        """Whether each of the two pods may go now."""
        return [self.world.departures.may_go(each) for each in (self.web, self.db)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let the conductor work meanwhile."""
        task = asyncio.ensure_future(self.conductor.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_pods_leave_one_destination_after_the_other_while_all_other_nodes_are_shunned() -> None:
    scene = Scene()
    scene.expect()
    at_first = scene.may_go()

    async with scene.running():
        await scene.world.clock.advance(0.1)
        first = scene.may_go(), scene.shunned
        await scene.move(scene.web, "a")
        await scene.world.clock.advance(0.2)
        second = scene.may_go(), scene.shunned
        await scene.move(scene.db, "b")
        await scene.world.clock.advance(0.2)
        afterwards = scene.shunned
        await scene.world.clock.advance(11.0)

    assert at_first == [False, False]
    assert first == ([True, False], ["b", "old", "other"])
    assert second == ([True, True], ["a", "old", "other"])
    assert afterwards == ["a", "b", "old", "other"]
    assert scene.shunned == []


async def test_a_turn_in_which_nothing_happens_is_over_soon_and_comes_again() -> None:
    scene = Scene()
    scene.expect()
    turns = []

    async with scene.running():
        for _ in range(30):
            await scene.world.clock.advance(0.2)
            turns.append(scene.may_go())

    assert [True, False] in turns
    assert [False, True] in turns
    assert turns.index([False, True]) < len(turns) - 1 - turns[::-1].index([True, False])


async def test_commands_that_follow_each_other_need_no_taints_in_between() -> None:
    scene = Scene()
    scene.conductor.expect([(scene.web, "claim-a")])

    async with scene.running():
        await scene.world.clock.advance(0.1)
        await scene.move(scene.web, "a")
        await scene.world.clock.advance(5.0)
        between = scene.shunned
        scene.conductor.expect([(scene.db, "claim-b")])
        await scene.world.clock.advance(0.2)
        again = scene.shunned

    assert between == ["a", "b", "old", "other"]
    assert again == ["a", "old", "other"]


async def test_who_is_called_upon_after_a_rest_gives_turns_again() -> None:
    scene = Scene()

    async with scene.running():
        await scene.world.clock.advance(60.0)
        scene.expect()
        await scene.world.clock.advance(0.2)
        found = scene.may_go()

    assert found == [True, False]


async def test_when_the_conductor_ends_everybody_may_go() -> None:
    scene = Scene()
    scene.expect()

    async with scene.running():
        await scene.world.clock.advance(0.1)

    assert scene.may_go() == [True, True]


async def test_a_destination_that_is_gone_holds_nobody() -> None:
    scene = Scene()

    scene.conductor.expect([(scene.web, "claim-gone")])

    assert scene.may_go() == [True, True]


async def test_in_a_very_large_cluster_pods_leave_as_they_like(monkeypatch: Any) -> None:
    monkeypatch.setattr(conducting, "_MOST_NODES", 3)
    scene = Scene()

    scene.expect()
    scene.conductor.expect([])

    assert scene.may_go() == [True, True]


async def test_nodes_that_go_later_are_shunned_while_nobody_has_a_turn() -> None:
    scene = Scene()

    await scene.conductor.avoid(["a", "unknown"])
    found = scene.shunned
    await scene.conductor.avoid(())

    assert found == ["a"]
    assert scene.shunned == []


async def test_a_node_gets_no_taint_of_ours_before_its_startup_taints_are_off() -> None:
    scene = Scene()
    client = scene.world.client
    startup = {"key": "example.com/starting", "effect": "PreferNoSchedule"}
    claim, node = (dict(client.raw_object(*each) or {}) for each in ((NODE_CLAIMS, "claim-a"), (NODES, "a")))
    client.store(NODE_CLAIMS, {**claim, "spec": {**claim["spec"], "startupTaints": [startup]}})
    client.store(NODES, {**node, "spec": {**node["spec"], "taints": [startup]}})

    await scene.conductor.avoid(["a", "b"])
    before = scene.shunned
    client.store(NODES, node)
    await scene.conductor.avoid(["a", "b"])

    assert before == ["b"]
    assert scene.shunned == ["a", "b"]


async def test_a_node_that_cannot_be_written_to_is_left_for_the_next_time() -> None:
    scene = Scene()

    async def refuse(*_: Any, **__: Any) -> Any:
        raise ForbiddenError("no", status=403)

    scene.world.client.patch = refuse  # type: ignore[method-assign]

    await scene.conductor.avoid(["a"])

    assert scene.shunned == []
