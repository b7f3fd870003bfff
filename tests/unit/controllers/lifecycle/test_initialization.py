# SPDX-License-Identifier: Apache-2.0
"""Nodes that register and do not become ready for work."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.kube.kinds import NODES, PODS
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.lifecycle.scene import BOOTING, READY, Scene
from tests.unit.state.worlds import pod, stored_pool

CNI = {"key": "cni", "effect": "NoSchedule"}


async def registered(**settings: float) -> Scene:
    """A node that has registered and does not become ready."""
    scene = Scene(**settings)
    scene.client.store(STORED_NODE_POOLS, stored_pool())
    await scene.settle()
    scene.join(**BOOTING)
    await scene.settle()
    scene.clock.tick(1)
    await scene.settle()
    assert scene.condition("Registered")[0] == "True"
    return scene


async def test_what_is_missing_is_told_on_claim_node_and_pool_after_five_minutes() -> None:
    scene = await registered()
    scene.clock.tick(290)
    await scene.settle()
    assert "NodeNotInitialized" not in scene.told

    scene.clock.tick(10)
    await scene.settle()

    told = {
        (each.subject.kind, each.message)
        for each in scene.recorder._queue
        if each.reason == "NodeNotInitialized"
    }
    [message] = {words for _, words in told}
    assert {kind for kind, _ in told} == {"NodeClaim", "Node", "NodePool"}
    assert message.startswith("Node n1 registered at 00:00:")
    assert "the kubelet of n1 does not say that it is ready" in message
    assert scene.claim.metadata.deletion_timestamp is None


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        ({"taints": [CNI], "conditions": READY}, "startup taints are still there: cni"),
        (
            {"conditions": READY, "taints": [], "allocatable": {"cpu": "4"}},
            "not reported by the node yet: pods",
        ),
    ],
)
async def test_the_startup_taint_or_the_resource_is_named(node: dict[str, Any], missing: str) -> None:
    scene = await registered()
    labels = {names.REGISTERED: "true", names.NODEPOOL: "default"}
    scene.join(labels=labels, **node)
    scene.clock.tick(301)

    await scene.settle()

    [message] = {each.message for each in scene.recorder._queue if each.reason == "NodeNotInitialized"}
    assert missing in message


async def test_a_node_that_is_not_ready_in_time_goes_and_counts_before_its_pods_are_planned_anew() -> None:
    scene = await registered()
    scene.cluster.nominations.promise(["uid-a"], "c1", 9000)
    scene.clock.tick(890)
    await scene.settle()
    assert scene.failures == []

    scene.clock.tick(11)
    await scene.settle()

    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.decisions.since()[-1].reason == "initialization_timeout"
    assert scene.failures == ["NodeNotInitialized"]
    assert scene.cluster.nominations.pods_of("c1") == ()


async def test_with_no_timeout_it_is_told_again_and_again_and_stays() -> None:
    scene = await registered(initialization_timeout_s=0)
    for _ in range(4):
        scene.clock.tick(1000)
        await scene.settle()

    assert scene.claim.metadata.deletion_timestamp is None
    assert scene.told.count("NodeNotInitialized") == 12
    assert scene.failures == []


async def test_a_short_timeout_is_told_when_it_ends() -> None:
    scene = await registered(initialization_timeout_s=60)
    scene.clock.tick(61)

    await scene.settle()

    assert scene.told.count("NodeNotInitialized") == 3
    assert scene.claim.metadata.deletion_timestamp is not None


async def test_a_node_that_runs_a_workload_stays_and_takes_no_more_pods() -> None:
    scene = await registered()
    scene.client.store(PODS, pod("web", "n1", phase="Running"))
    scene.cluster.nominations.promise(["uid-a"], "c1", 9000)
    scene.clock.tick(901)

    await scene.settle()
    scene.clock.tick(901)
    await scene.settle()

    assert scene.claim.metadata.deletion_timestamp is None
    assert scene.condition("Initialized") == ("False", "NodeNotReady")
    assert scene.failures == ["NodeNotInitialized"]
    assert scene.cluster.nominations.pods_of("c1") == ()
    member = scene.cluster.member("n1")
    assert member is not None
    assert member.is_late
    assert "node.kubernetes.io/not-ready" in {taint.key for taint in member.taints}
    assert "cni" in {taint.key for taint in member.taints}


async def test_a_pod_that_is_bound_and_has_not_started_keeps_no_node() -> None:
    scene = await registered()
    scene.client.store(PODS, pod("web", "n1"))
    scene.clock.tick(901)

    await scene.settle()

    assert scene.claim.metadata.deletion_timestamp is not None


async def test_it_is_used_when_it_is_ready_after_all() -> None:
    scene = await registered()
    scene.client.store(PODS, pod("web", "n1", phase="Running"))
    scene.clock.tick(901)
    await scene.settle()
    assert scene.condition("Initialized")[0] == "False"

    raw = scene.client.raw_object(NODES, "n1")
    assert raw is not None
    raw["spec"]["taints"] = []
    raw["status"]["conditions"] = READY
    scene.client.store(NODES, raw)
    await scene.settle()

    assert scene.condition("Initialized")[0] == "True"
    member = scene.cluster.member("n1")
    assert member is not None
    assert not member.is_late


@pytest.mark.parametrize("kind", ["node", "claim"])
async def test_a_node_that_its_owner_looks_into_is_left_alone(kind: str) -> None:
    scene = await registered()
    mark = {"metadata": {"annotations": {names.DO_NOT_DISRUPT: "true"}}}
    if kind == "node":
        await scene.client.patch(NODES, "n1", mark)
    else:
        await scene.lifecycle._patch_metadata(scene.claim, {}, mark["metadata"]["annotations"])
    scene.clock.tick(901)

    await scene.settle()

    assert scene.claim.metadata.deletion_timestamp is None
    assert scene.failures == ["NodeNotInitialized"]


async def test_a_node_that_is_gone_is_told_of_without_it() -> None:
    scene = await registered()
    raw = scene.client.raw_object(NODES, "n1")
    assert raw is not None
    scene.client._drop(NODES, raw)
    await scene.client.delete(STORED_NODE_POOLS, "default")
    scene.clock.tick(301)

    await scene.settle()

    assert scene.told.count("NodeNotInitialized") == 1
