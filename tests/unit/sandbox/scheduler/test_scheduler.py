# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from karpenter.kit.clock import FakeClock
from karpenter.sandbox.scheduler import NotCarriedOutError, Pace, Scheduler
from karpenter.sandbox.scheduler.matching import Wire
from tests.unit.sandbox.scheduler.builders import anti, node, wire_pod


class _Hands:
    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.refused: dict[str, tuple[str, str | None]] = {}
        self.told: list[str] = []
        self.chosen: dict[str, str] = {}
        self.evicted: list[str] = []
        self.broken = 0

    async def bind(self, pod: Wire, node: str) -> None:
        await asyncio.sleep(0)
        if self.broken:
            self.broken -= 1
            raise NotCarriedOutError("the server is tired")
        self.bound[pod["metadata"]["name"]] = node

    async def refuse(self, pod: Wire, message: str, nominated: str | None) -> None:
        self.refused[pod["metadata"]["name"]] = (message, nominated)

    def tell_refused(self, pod: Wire, message: str) -> None:
        self.told.append(f"{pod['metadata']['name']}: {message}")

    async def choose_node(self, claim: Wire, node: str) -> None:
        self.chosen[claim["metadata"]["name"]] = node

    async def evict(self, victim: Wire, by: Wire, node: str) -> None:
        del by, node
        self.evicted.append(victim["metadata"]["name"])


class _Play:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.hands = _Hands()
        self.said: list[str] = []
        self.scheduler = Scheduler(self.hands, self.clock, Pace(), tell=self.said.append)

    async def pods(self, *wires: Wire) -> None:
        for each in wires:
            self.scheduler.pod_changed(None, each)
        await self.clock.settle()


@asynccontextmanager
async def _playing(*nodes: Wire) -> AsyncIterator[_Play]:
    play = _Play()
    for each in nodes:
        play.scheduler.node_changed(None, each)
    running = asyncio.create_task(play.scheduler.run())
    await play.clock.settle()
    yield play
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _bound(wire: Wire, node_name: str, **status: Any) -> Wire:
    return {
        **wire,
        "spec": {**wire["spec"], "nodeName": node_name},
        "status": {**wire["status"], **status},
    }


async def test_a_pod_is_bound_and_counts_before_the_server_says_so() -> None:
    async with _playing(node("n0", cpu="1")) as play:
        await play.pods(wire_pod("a"), wire_pod("b"))

        assert play.hands.bound == {"a": "n0"}
        assert "Insufficient cpu" in play.hands.refused["b"][0]
        assert play.scheduler.waiting == 1


async def test_the_most_important_pod_comes_first() -> None:
    async with _playing() as play:
        await play.pods(wire_pod("small"), wire_pod("great", priority=9))

        play.scheduler.node_changed(None, node("n0", cpu="1"))
        await play.clock.advance(2)

        assert play.hands.bound == {"great": "n0"}


async def test_a_refused_pod_comes_back_when_a_node_comes_but_not_before_its_back_off() -> None:
    async with _playing(node("n0", cpu="0")) as play:
        await play.pods(wire_pod("a"))
        assert len(play.hands.told) == 1

        play.scheduler.node_changed(None, node("n1"))
        await play.clock.settle()
        assert play.hands.bound == {}
        await play.clock.advance(1.5)

        assert play.hands.bound == {"a": "n1"}


async def test_room_that_a_pod_leaves_is_given_to_one_that_waits() -> None:
    async with _playing(node("n0", cpu="1")) as play:
        first = wire_pod("a")
        await play.pods(first, wire_pod("b"))
        play.scheduler.pod_changed(first, _bound(first, "n0"))

        play.scheduler.pod_changed(_bound(first, "n0"), None)
        await play.clock.advance(2)

        assert play.hands.bound == {"a": "n0", "b": "n0"}


async def test_gated_pods_and_those_of_other_schedulers_are_left_alone() -> None:
    async with _playing(node("n0")) as play:
        gated = wire_pod("gated", schedulingGates=[{"name": "x"}])
        await play.pods(gated, wire_pod("foreign", schedulerName="other"))
        assert play.hands.bound == {}

        free = {
            **gated,
            "spec": {key: value for key, value in gated["spec"].items() if key != "schedulingGates"},
        }
        play.scheduler.pod_changed(gated, free)
        await play.clock.advance(0.1)

        assert play.hands.bound == {"gated": "n0"}


async def test_a_binding_that_fails_is_taken_back_and_tried_again() -> None:
    async with _playing(node("n0", cpu="1")) as play:
        play.hands.broken = 1

        await play.pods(wire_pod("a"))
        assert play.hands.bound == {}
        await play.clock.advance(2)

        assert play.hands.bound == {"a": "n0"}
        assert "the server is tired" in play.said[0]


async def test_a_pod_waits_for_its_volume_to_be_made_on_its_node() -> None:
    async with _playing(node("n0")) as play:
        claim: Wire = {
            "metadata": {"name": "c", "namespace": "default", "uid": "c"},
            "spec": {"storageClassName": "gp3"},
        }
        wait = {"metadata": {"name": "gp3"}, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}
        play.scheduler.class_changed(None, wait)
        play.scheduler.claim_changed(None, claim)
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]

        await play.pods(wire_pod("a", volumes=volumes))
        assert play.hands.chosen == {"c": "n0"}
        assert play.hands.bound == {}

        done = {"pv.kubernetes.io/bind-completed": "yes"}
        bound = {
            "metadata": {**claim["metadata"], "annotations": done},
            "spec": {**claim["spec"], "volumeName": "v"},
        }
        play.scheduler.claim_changed(claim, bound)
        await play.clock.advance(1)
        assert play.hands.bound == {"a": "n0"}


async def test_an_important_pod_is_nominated_and_its_victims_go() -> None:
    async with _playing(node("n0", cpu="1")) as play:
        weak = wire_pod("weak", on="n0")
        play.scheduler.pod_changed(None, weak)

        await play.pods(wire_pod("vip", priority=9))

        assert play.hands.evicted == ["weak"]
        assert play.hands.refused["vip"] == ("0/1 nodes are available: 1 Insufficient cpu.", "n0")


async def test_a_promise_that_no_node_can_keep_is_given_up() -> None:
    async with _playing(node("n0", cpu="0")) as play:
        await play.pods(wire_pod("a", nominated="n0"))

        assert play.hands.refused["a"][1] == ""


async def test_the_same_refusal_is_not_told_over_and_over() -> None:
    async with _playing(node("n0", cpu="0")) as play:
        await play.pods(wire_pod("a"))

        for index in range(5):
            play.scheduler.node_changed(None, node("n0", cpu="0", mark=str(index)))
            await play.clock.advance(4)

        assert len(play.hands.told) == 1


async def test_pods_that_may_not_meet_are_spread_over_nodes() -> None:
    async with _playing(*(node(f"n{index}") for index in range(5))) as play:
        await play.pods(*(wire_pod(f"p{index}", affinity=anti()) for index in range(6)))

        assert len(set(play.hands.bound.values())) == 5
        assert len(play.hands.refused) == 1
        play.scheduler.node_changed(node("n4"), None)
        play.scheduler.namespace_changed(None, {"metadata": {"name": "default", "labels": {}}})
        play.scheduler.budget_changed(None, {"metadata": {"name": "b", "namespace": "default"}, "spec": {}})
        play.scheduler.volume_changed(None, {"metadata": {"name": "v"}, "spec": {}})
        play.scheduler.csi_node_changed(None, {"metadata": {"name": "n0"}, "spec": {}})
        source = {"nodeName": "n0", "source": {"persistentVolumeName": "v"}}
        play.scheduler.attachment_changed(None, {"metadata": {"name": "x"}, "spec": source})
        await play.clock.advance(2)
        assert len(play.hands.bound) == 5


async def test_one_that_was_refused_long_ago_is_tried_again() -> None:
    async with _playing(node("n0", cpu="0")) as play:
        await play.pods(wire_pod("a"))

        await play.clock.advance(400)

        assert len(play.hands.told) >= 2


async def test_a_pod_that_changes_what_it_asks_for_is_tried_again() -> None:
    async with _playing(node("n0", cpu="2")) as play:
        big = wire_pod("a", cpu="3")
        await play.pods(big)
        assert play.hands.bound == {}

        small = wire_pod("a", cpu="1")
        small["metadata"]["uid"] = big["metadata"]["uid"]
        play.scheduler.pod_changed(big, small)
        await play.clock.advance(2)

        assert play.hands.bound == {"a": "n0"}


async def test_news_of_a_refusal_waits_its_turn_and_only_the_newest_is_told() -> None:
    async with _playing(node("n0", cpu="0")) as play:
        await play.pods(wire_pod("a"))
        first = play.hands.refused["a"][0]

        for number in range(1, 4):
            play.scheduler.node_changed(None, node(f"n{number}", cpu="0"))
            await play.clock.advance(0.3)
        assert play.hands.refused["a"][0] == first
        await play.clock.advance(3)

        assert play.hands.refused["a"][0].startswith("0/4 nodes are available")
        assert len(play.hands.told) == 2


async def test_who_gets_a_node_has_nothing_more_to_say() -> None:
    async with _playing(node("n0", cpu="0")) as play:
        await play.pods(wire_pod("a"))
        play.scheduler.node_changed(None, node("n1", cpu="0"))
        await play.clock.advance(0.5)

        play.scheduler.node_changed(None, node("n2", cpu="4"))
        await play.clock.advance(5)

        assert play.hands.bound == {"a": "n2"}
        assert len(play.hands.told) == 1


async def test_a_node_that_only_says_that_it_lives_changes_nothing() -> None:
    async with _playing(node("n0", cpu="0")) as play:
        before = play.scheduler.cluster.generation

        play.scheduler.node_changed(None, node("n0", cpu="0"))

        assert play.scheduler.cluster.generation == before
