# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

from karpenter.api.labels import REPLACE_FOR_DAEMONSETS
from karpenter.controllers.disruption import DaemonPlans
from karpenter.controllers.disruption.daemons import DOES_NOT_FIT
from karpenter.kube.kinds import DAEMON_SETS, PODS
from karpenter.scheduling import SolveOptions, solve
from tests.unit.controllers.disruption.world import World


class Scene:
    """Two nodes, one of them full, and a DaemonSet that came later."""

    def __init__(self) -> None:
        self.world = World()
        self.world.node("full")
        self.world.node("free")
        self.world.pods(7, "full")
        self.plans = DaemonPlans(
            cluster=self.world.cluster,
            catalogues=self.world.market.catalogues,
            solver=solve,
            options=SolveOptions(),
            recorder=self.world.recorder,
            decisions=self.world.decisions,
            metrics=self.world.metrics,
            clock=self.world.clock,
        )
        self.heard: list[str] = []
        self.plans.listen(self.heard.append)
        container = {"name": "agent", "resources": {"requests": {"memory": "2Gi"}}}
        template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
        self.world.client.store(
            DAEMON_SETS,
            {
                "metadata": {"name": "agent", "namespace": "shop", "uid": "uid-agent"},
                "spec": {"template": template},
            },
        )
        for name in ("full", "free"):
            self.daemon(name, container)

    def daemon(self, node: str, container: dict[str, Any], **status: Any) -> None:
        """Let a pod of the DaemonSet wait for its node."""
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "agent",
            "uid": "uid-agent",
            "controller": True,
        }
        made = {
            "metadata": {
                "name": f"agent-{node}",
                "namespace": "shop",
                "uid": f"uid-agent-{node}",
                "ownerReferences": [owner],
            },
            "spec": {
                "containers": [container],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            },
            "status": {"phase": "Pending", **status},
        }
        self.world.client.store(PODS, made)

    def claim(self, name: str) -> Any:
        """A claim."""
        return self.world.cluster.informers.claims.get(name)


async def test_the_nodes_without_room_are_found_and_their_replacement_is_reckoned() -> None:
    scene = Scene()

    assert await scene.plans.reconcile("all") == 300.0
    await scene.plans.reconcile("all")

    assert list(scene.plans.unfit) == ["claim-full"]
    assert "memory: 2Gi asked, 1Gi free" in scene.plans.unfit["claim-full"].words
    [plan] = scene.world.decisions.since()
    assert plan.reason == DOES_NOT_FIT
    assert plan.price_before == 0.096
    assert plan.price_after is not None
    assert f"{REPLACE_FOR_DAEMONSETS}=true" in plan.message
    assert ("DaemonSet", DOES_NOT_FIT) in scene.world.told
    assert scene.heard == ["claim-full"]


async def test_nodes_are_replaced_for_it_only_where_their_pool_allows_it() -> None:
    scene = Scene()
    await scene.plans.reconcile("all")

    assert scene.plans.drift(scene.claim("claim-full")) == ""
    scene.world.pool(annotations={REPLACE_FOR_DAEMONSETS: "true"})
    assert scene.plans.drift(scene.claim("claim-full")) == DOES_NOT_FIT
    assert scene.plans.drift(scene.claim("claim-free")) == ""
    scene.plans.unfit.clear()
    await scene.plans.reconcile("all")

    assert "they are replaced within budgets" in scene.world.decisions.since()[-1].message


async def test_when_its_pods_have_room_nothing_is_left_to_say() -> None:
    scene = Scene()
    await scene.plans.reconcile("all")

    await scene.world.client.delete(PODS, "agent-full", "shop")
    again_s = await scene.plans.reconcile("all")

    assert again_s is None
    assert scene.plans.unfit == {}
    assert scene.heard == ["claim-full", "claim-full"]


async def test_a_pod_that_the_scheduler_makes_room_for_is_no_trouble() -> None:
    scene = Scene()
    scene.daemon("full", {"name": "agent", "resources": {}}, nominatedNodeName="full")
    scene.daemon("nowhere", {"name": "agent"})

    assert await scene.plans.reconcile("all") is None


async def test_nodes_on_their_way_out_do_not_count_unless_that_is_why_they_go() -> None:
    scene = Scene()
    scene.world.cluster.mark_leaving(["claim-full"])
    assert await scene.plans.reconcile("all") is None
    scene.world.cluster.unmark_leaving(["claim-full"])
    await scene.plans.reconcile("all")

    scene.world.cluster.mark_leaving(["claim-full"])
    await scene.world.client.delete(PODS, "agent-full", "shop")
    await scene.plans.reconcile("all")

    assert list(scene.plans.unfit) == ["claim-full"]


async def test_pods_that_would_have_no_place_are_told() -> None:
    scene = Scene()
    scene.world.client._drop(DAEMON_SETS, {"metadata": {"name": "agent", "namespace": "shop"}})
    scene.world.shop.types = ()

    await scene.plans.reconcile("all")

    assert scene.world.decisions.since()[0].price_after == 0.0
    assert ("DaemonSet", DOES_NOT_FIT) not in scene.world.told


async def test_waiting_pods_of_daemon_sets_wake_it_a_moment_later() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.plans.run())

    await scene.world.clock.advance(11.0)
    for _ in range(100):
        if scene.plans.unfit:
            break
        await asyncio.sleep(0.01)
    task.cancel()

    assert list(scene.plans.unfit) == ["claim-full"]
