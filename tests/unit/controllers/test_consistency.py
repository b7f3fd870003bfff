# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.controllers.consistency import Consistency, shortfalls
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError, NotFoundError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import Metrics
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node

INITIALIZED = {"type": "Initialized", "status": "True", "reason": "Initialized"}


class Scene:
    """A claim that promised four cores, and its node."""

    def __init__(self, cpu: str = "4", *, initialized: bool = True) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.recorder = Recorder(self.client, clock=self.clock)
        self.metrics = Metrics()
        self.consistency = Consistency(
            client=self.client,
            cluster=self.cluster,
            recorder=self.recorder,
            metrics=self.metrics,
            clock=self.clock,
        )
        conditions = [INITIALIZED] if initialized else []
        self.client.store(
            NODE_CLAIMS,
            claim("c1", provider_id="p1", capacity={"cpu": "4", "memory": "8Gi"}, conditions=conditions),
        )
        self.client.store(NODES, node("n1", "p1", capacity={"cpu": cpu, "memory": "1Gi"}))

    @property
    def condition(self) -> dict[str, Any]:
        """What the claim says about its consistency."""
        raw = self.client.raw_object(NODE_CLAIMS, "c1")
        assert raw is not None
        conditions = raw["status"].get("conditions", ())
        return next((each for each in conditions if each["type"] == "ConsistentStateFound"), {})


@pytest.mark.parametrize(("cpu", "short"), [("4", False), ("3600m", False), ("3599m", True), ("0", True)])
def test_nine_tenths_of_what_was_asked_for_is_enough(cpu: str, *, short: bool) -> None:
    promised = claim("c1", capacity={"cpu": "4", "memory": "8Gi"})

    found = shortfalls(promised, node("n1", capacity={"cpu": cpu}))

    assert bool(found) is short


def test_a_shortfall_is_told_with_both_amounts() -> None:
    found = shortfalls(claim("c1", capacity={"cpu": "4"}), node("n1", capacity={"cpu": "2"}))

    assert found == ("expected 4 of resource cpu, but found 2 (50.0% of expected)",)


async def test_a_node_that_is_what_it_was_bought_as_is_consistent() -> None:
    scene = Scene()

    again_s = await scene.consistency.reconcile("c1")

    assert again_s == 600
    assert scene.condition["status"] == "True"
    writes = len(scene.client.calls)
    assert await scene.consistency.reconcile("c1") == 600
    assert len(scene.client.calls) == writes


async def test_a_node_that_has_less_is_named_in_a_condition_and_an_event_until_it_has_enough() -> None:
    scene = Scene("2")
    await scene.consistency.reconcile("c1")
    assert scene.condition["status"] == "False"
    assert scene.condition["reason"] == "ConsistencyCheckFailed"
    assert [each.reason for each in scene.recorder._queue] == ["FailedConsistencyCheck"]

    scene.client.store(NODES, node("n1", "p1", capacity={"cpu": "4"}))
    await scene.consistency.reconcile("c1")

    assert scene.condition["status"] == "True"


async def test_it_looks_every_ten_minutes_from_when_the_node_is_initialised() -> None:
    scene = Scene("2", initialized=False)
    task = asyncio.ensure_future(scene.consistency.run())
    await scene.clock.advance(1200)
    assert scene.condition == {}

    change = {"status": {"conditions": [INITIALIZED]}}
    await scene.client.edit(NODE_CLAIMS, "c1", change, subresource="status")
    await scene.clock.advance(1)
    assert scene.condition["status"] == "False"
    scene.client.store(NODES, node("n1", "p1", capacity={"cpu": "4"}))
    await scene.clock.advance(590)
    assert scene.condition["status"] == "False"
    await scene.clock.advance(20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.condition["status"] == "True"


async def test_what_is_going_or_has_no_node_is_left_alone() -> None:
    scene = Scene()
    scene.client.store(
        NODE_CLAIMS,
        claim("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, conditions=[INITIALIZED]),
    )
    scene.client.store(NODE_CLAIMS, claim("alone", provider_id="p9", conditions=[INITIALIZED]))

    assert await scene.consistency.reconcile("leaving") is None
    assert await scene.consistency.reconcile("nobody") is None
    assert await Scene(initialized=False).consistency.reconcile("c1") is None
    assert await scene.consistency.reconcile("alone") == 600
    assert scene.client.calls == []


async def test_a_conflict_is_tried_again_and_a_claim_that_went_is_not() -> None:
    scene = Scene()
    scene.client.fail("patch", "nodeclaims", ConflictError("changed", status=409))
    assert await scene.consistency.reconcile("c1") == 1
    scene.client.fail("patch", "nodeclaims", NotFoundError("gone", status=404))
    assert await scene.consistency.reconcile("c1") == 600

    scene.client.fail("patch", "nodeclaims", ValueError("x"))
    task = asyncio.ensure_future(scene.consistency.run())
    await scene.clock.settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.metrics.reconcile_errors.labels("nodeclaim.consistency")._value.get() == 1
