# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from karpenter.api.core import Pod
from karpenter.controllers.provisioning.nominating import Nominator
from karpenter.controllers.provisioning.orders import Orders, claim_manifest
from karpenter.kube import AlreadyExistsError
from karpenter.kube.kinds import PODS
from karpenter.observe import Metrics
from karpenter.scheduling import NewNode, solve
from karpenter.scheduling.options import SolveOptions
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.disruption.world import World


async def planned(world: World) -> NewNode:
    """A node for one pod."""
    pod: Pod = world._pod("web", "", "1Gi")
    plan = solve(world.cluster.snapshot(await world.market.catalogues()), (pod,), SolveOptions())
    return plan.new_nodes[0]


async def test_a_claim_of_a_name_is_made_once_however_often_it_is_ordered() -> None:
    world = World()
    orders = Orders(world.client, world.cluster, Metrics(), controller="disruption")
    node = await planned(world)

    first = await orders.create(node, reason="drifted", name="default-abc", annotations={"a": "b"})
    second = await orders.create(node, name="default-abc")

    assert first is not None
    assert second is not None
    assert first.metadata.uid == second.metadata.uid
    assert first.metadata.annotations["a"] == "b"
    assert len(world.claims) == 1


async def test_a_claim_that_was_there_and_is_gone_cannot_be_had() -> None:
    world = World()
    orders = Orders(world.client, world.cluster, Metrics(), controller="disruption")
    there = AlreadyExistsError("there", status=409, reason="AlreadyExists")
    world.client.fail("create", "nodeclaims", there)

    assert await orders.create(await planned(world), name="default-abc") is None


async def test_nothing_is_ordered_from_a_pool_that_is_gone() -> None:
    world = World()
    orders = Orders(world.client, world.cluster, Metrics(), controller="disruption")
    node = await planned(world)
    await world.client.delete(STORED_NODE_POOLS, "default")

    assert await orders.create(node) is None


async def test_a_claim_carries_what_its_template_says() -> None:
    world = World()
    template: dict[str, Any] = dict(world.cluster.informers.pools.get("default").spec["template"])  # type: ignore[union-attr]
    spec = {
        **template["spec"],
        "taints": [{"key": "team", "value": "a", "effect": "NoExecute"}],
        "startupTaints": [{"key": "cni", "effect": "NoSchedule"}],
        "terminationGracePeriod": "1h",
    }
    node = await planned(world)
    world.pool(template={**template, "spec": spec})
    pool = world.cluster.pool("default")
    assert pool is not None

    made = claim_manifest(node, pool)["spec"]

    assert made["taints"] == [{"key": "team", "value": "a", "effect": "NoExecute"}]
    assert made["startupTaints"] == [{"key": "cni", "effect": "NoSchedule"}]
    assert made["terminationGracePeriod"] == "1h"


async def test_who_knows_which_nodes_have_news_has_only_those_looked_at() -> None:
    world = World()
    for name in ("n1", "n2"):
        world.node(name)
        pod = world._pod("web", "", "1Gi")
        world.cluster.nominations.promise([pod.metadata.uid], f"claim-{name}", 60.0)
    nominator = Nominator(world.client, world.cluster)

    await nominator.renew(["claim-n1", "gone"])
    first = [pod.status.nominated_node_name for pod in world.cluster.unbound()]
    await nominator.renew()

    assert sorted(first) == ["", "n1"]
    assert sorted(pod.status.nominated_node_name for pod in world.cluster.unbound()) == ["n1", "n2"]
    assert len(world.client.writes("patch", PODS.plural)) == 2
