# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import pytest

from karpenter.api import labels as names
from karpenter.cloud.protocol import RepairPolicy
from karpenter.controllers.repair import Repair, is_outage
from karpenter.kit.clock import FakeClock
from karpenter.kube import NotFoundError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import DecisionLog, Metrics
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, stored_pool

POLICIES = (
    RepairPolicy("Ready", "False", 1800.0),
    RepairPolicy("Ready", "Unknown", 1800.0),
    RepairPolicy("KernelReady", "False", 600.0),
)


class Cloud:
    """A cloud that says what is broken."""

    def repair_policies(self) -> Sequence[RepairPolicy]:
        """Say it."""
        return POLICIES


class Scene:
    """Ten nodes of a pool, and who replaces those that are broken."""

    def __init__(self, pool: str = "default") -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.recorder = Recorder(self.client, clock=self.clock)
        self.decisions = DecisionLog(self.clock)
        self.metrics = Metrics()
        self.labels = {names.NODEPOOL: pool} if pool else {}
        self.client.store(STORED_NODE_POOLS, stored_pool())
        held = {"finalizers": [names.TERMINATION_FINALIZER], "labels": self.labels}
        for number in range(10):
            made = claim(f"c{number}", provider_id=f"p{number}", metadata=held, nodeName=f"n{number}")
            self.client.store(NODE_CLAIMS, made)
            self.ail(number, "Ready", "True")
        self.repair = Repair(
            client=self.client,
            cluster=self.cluster,
            cloud=Cloud(),  # type: ignore[arg-type]
            recorder=self.recorder,
            decisions=self.decisions,
            metrics=self.metrics,
            clock=self.clock,
        )

    def ail(self, number: int, kind: str, status: str, since: str | None = "2026-01-01T00:00:00Z") -> None:
        """Give a node a condition."""
        condition = {"type": kind, "status": status, "lastTransitionTime": since}
        made = node(f"n{number}", f"p{number}", self.labels, conditions=[condition])
        self.client.store(NODES, made)

    def is_leaving(self, number: int) -> bool:
        """Whether a claim is on its way out."""
        found = self.cluster.informers.claims.get(f"c{number}")
        return found is None or found.metadata.deletion_timestamp is not None


@pytest.mark.parametrize(
    ("kind", "status", "after_s"),
    [("Ready", "False", 1800), ("Ready", "Unknown", 1800), ("KernelReady", "False", 600)],
)
async def test_a_node_is_given_up_by_force_when_it_has_been_broken_for_too_long(
    kind: str, status: str, after_s: float
) -> None:
    scene = Scene()
    scene.ail(0, kind, status)

    assert await scene.repair.reconcile("n0") == after_s
    assert not scene.is_leaving(0)
    await scene.clock.advance(after_s)
    assert await scene.repair.reconcile("n0") is None

    assert scene.is_leaving(0)
    found = scene.cluster.informers.claims.get("c0")
    assert found is not None
    assert found.metadata.annotations[names.TERMINATION_TIMESTAMP].startswith("2026-01-01T00:")
    assert [each.reason for each in scene.decisions.since()] == [kind]
    counted = scene.metrics.unhealthy_disrupted.labels(kind, "default", "", "")
    assert counted._value.get() == 1


async def test_a_node_that_is_well_is_left_alone() -> None:
    scene = Scene()
    scene.ail(1, "KernelReady", "False", None)

    assert await scene.repair.reconcile("n0") is None
    assert await scene.repair.reconcile("n1") is None
    assert await scene.repair.reconcile("gone") is None
    assert scene.client.writes("delete") == ()


@pytest.mark.parametrize("pool", ["default", ""])
async def test_nothing_is_replaced_while_more_than_a_fifth_are_in_trouble(pool: str) -> None:
    scene = Scene(pool)
    for number in range(3):
        scene.ail(number, "Ready", "False")
    await scene.clock.advance(1800)

    assert await scene.repair.reconcile("n0") == 300.0
    kinds = [each.subject.kind for each in scene.recorder._queue]
    assert kinds == (["Node", "NodeClaim", "NodePool"] if pool else ["Node", "NodeClaim"])
    scene.ail(2, "Ready", "True")
    await scene.repair.reconcile("n0")

    assert scene.is_leaving(0)
    assert not scene.is_leaving(1)


async def test_a_claim_that_went_meanwhile_is_no_trouble() -> None:
    scene = Scene()
    scene.ail(0, "Ready", "False")
    await scene.clock.advance(1800)
    scene.client.fail("delete", "nodeclaims", NotFoundError("gone", status=404))

    await scene.repair.reconcile("n0")

    assert scene.decisions.since() == ()


async def test_only_trouble_wakes_it() -> None:
    scene = Scene()
    scene.repair._queue._ready.clear()

    scene.ail(5, "Ready", "True")
    assert len(scene.repair._queue) == 0
    scene.ail(5, "Ready", "False")
    assert len(scene.repair._queue) == 1


def test_one_node_alone_may_be_replaced() -> None:
    broken = node("n", conditions=[{"type": "Ready", "status": "False"}])

    assert not is_outage([broken], POLICIES)
    assert is_outage([broken, broken], POLICIES)


async def test_nothing_is_replaced_while_the_copy_of_the_cluster_is_stale() -> None:
    scene = Scene()
    scene.ail(0, "Ready", "False")
    scene.cluster.informers.nodes.heard_at = scene.clock.monotonic()
    scene.clock.tick(1801)

    assert await scene.repair.reconcile("n0") == 5.0
    assert not scene.is_leaving(0)
