# SPDX-License-Identifier: Apache-2.0
"""No number that the author of an object chooses stops a controller, or keeps it from the objects beside it."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from karpenter.api import labels as names
from karpenter.cloud.protocol import RepairPolicy
from karpenter.controllers.disruption.marking import Marking
from karpenter.controllers.expiration import Expiration
from karpenter.controllers.repair import Repair
from karpenter.kube.kinds import NODE_CLAIMS, NODES, POD_DISRUPTION_BUDGETS, PODS
from karpenter.model.instancetypes import InstanceType
from karpenter.observe import Metrics
from karpenter.state import STORED_NODE_POOLS
from tests.strategies import numbers
from tests.unit.controllers.disruption.world import Shop, World
from tests.unit.controllers.lifecycle.scene import Scene as LifecycleScene
from tests.unit.controllers.provisioning.test_provisioner import Scene as ProvisioningScene
from tests.unit.controllers.termination.test_termination import Scene as TerminationScene
from tests.unit.controllers.test_static import Scene as StaticScene


def _merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in change.items():
        found = merged.get(key)
        merged[key] = _merged(found, value) if isinstance(found, dict) and isinstance(value, dict) else value
    return merged


def _odd_pod(name: str, node: str, parts: dict[str, Any], **status: Any) -> dict[str, Any]:
    plain = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", **status},
    }
    return _merged(plain, parts)


@given(odd=st.lists(numbers.pods(), min_size=1, max_size=3), grace=numbers.DURATIONS, claim=numbers.claims())
def test_no_number_keeps_the_other_pods_on_a_node(
    odd: list[dict[str, Any]], grace: str, claim: dict[str, Any]
) -> None:
    async def live() -> TerminationScene:
        scene = TerminationScene(terminationGracePeriod=grace)
        raw = scene.client.raw_object(NODE_CLAIMS, "c1")
        assert raw is not None
        metadata = {"annotations": claim["annotations"]}
        scene.client.store(NODE_CLAIMS, _merged(raw, {"metadata": metadata, "status": claim["status"]}))
        for number, parts in enumerate(odd):
            scene.client.store(PODS, _odd_pod(f"odd{number}", "n1", parts))
        scene.run_pod("plain")
        await scene.client.delete(NODE_CLAIMS, "c1")
        await scene.step(2)
        return scene

    scene = asyncio.run(live())

    assert "plain" not in [pod.metadata.name for pod in scene.cluster.pods_on("n1")]


def _odd_world(
    pods: list[dict[str, Any]],
    node: dict[str, Any],
    claim: dict[str, Any],
    pool: dict[str, Any],
    allowed: int,
) -> World:
    """A world with an empty node of the pool "default", and a node full of odd numbers of the pool "odd"."""
    world = World()
    world.node("plain")
    world.node("odd")
    ready = world.client.raw_object(STORED_NODE_POOLS, "default")
    assert ready is not None
    world.client.store(
        STORED_NODE_POOLS, _merged(ready, {"metadata": {"name": "odd", "uid": "odd"}, "spec": pool})
    )
    labels = {"metadata": {"labels": {names.NODEPOOL: "odd"}}}
    raw_node, raw_claim = (
        world.client.raw_object(NODES, "odd"),
        world.client.raw_object(NODE_CLAIMS, "claim-odd"),
    )
    assert raw_node is not None
    assert raw_claim is not None
    world.client.store(NODES, _merged(_merged(raw_node, labels), node))
    conditions = [
        {**each, "lastTransitionTime": claim["transition"]} for each in raw_claim["status"]["conditions"]
    ]
    parts = {
        "metadata": {"annotations": claim["annotations"]},
        "spec": claim["spec"],
        "status": claim["status"],
    }
    raw_claim = _merged(_merged(raw_claim, labels), parts)
    raw_claim["status"]["conditions"] = conditions
    world.client.store(NODE_CLAIMS, raw_claim)
    for number, each in enumerate(pods):
        world.client.store(PODS, _odd_pod(f"odd{number}", "odd", each))
    world.client.store(
        POD_DISRUPTION_BUDGETS,
        {
            "metadata": {"name": "odd", "namespace": "shop", "uid": "pdb"},
            "spec": {"selector": {}},
            "status": {"disruptionsAllowed": allowed},
        },
    )
    return world


_ODD = {
    "pods": st.lists(numbers.pods(), max_size=2),
    "node": numbers.nodes(),
    "claim": numbers.claims(),
    "pool": numbers.pools(),
    "allowed": numbers.INT32,
}


@given(**_ODD)
def test_no_number_keeps_an_empty_node_of_another_pool(**odd: Any) -> None:
    async def live() -> World:
        world = _odd_world(**odd)
        await world.look()
        return world

    world = asyncio.run(live())

    assert "plain" in world.tainted


class _Cloud:
    """Names what means that a node is broken, and finds no drift."""

    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        """Name it."""
        return (RepairPolicy("Ready", "False", 1800.0), RepairPolicy("Ready", "Unknown", 1e15))

    async def drift_reason(self, *_: Any) -> str:
        """Find none."""
        return ""

    async def instance_types(self, *_: Any) -> tuple[InstanceType, ...]:
        """Sell what the world sells."""
        return tuple(Shop().types)


@given(**_ODD)
def test_no_number_stops_expiry_repair_or_marking(**odd: Any) -> None:
    async def live() -> None:
        world = _odd_world(**odd)
        common: dict[str, Any] = {
            "client": world.client,
            "cluster": world.cluster,
            "metrics": Metrics(),
            "clock": world.clock,
        }
        told: dict[str, Any] = {"recorder": world.recorder, "decisions": world.decisions}
        await Marking(cloud=_Cloud(), **common).reconcile("claim-odd")  # type: ignore[arg-type]
        await Repair(cloud=_Cloud(), **common, **told).reconcile("odd")  # type: ignore[arg-type]
        await Expiration(**common, **told).reconcile("claim-odd")

    asyncio.run(live())


@given(odd=st.lists(numbers.pods(), min_size=1, max_size=3), node=numbers.nodes(), pool=numbers.pools())
def test_no_number_keeps_a_pending_pod_from_its_node(
    odd: list[dict[str, Any]], node: dict[str, Any], pool: dict[str, Any]
) -> None:
    async def live() -> ProvisioningScene:
        scene = ProvisioningScene(limits={}, weight=100)
        scene.pool("odd", **{**pool, "weight": 1})
        plain = {"metadata": {"name": "foreign", "uid": "foreign"}, "spec": {}, "status": {}}
        scene.client.store(NODES, _merged(plain, node))
        waiting = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
        for number, parts in enumerate(odd):
            made = _odd_pod(f"odd{number}", "", parts, phase="Pending", conditions=waiting)
            scene.client.store(PODS, made)
        scene.pend("plain", nodeSelector={names.NODEPOOL: "default"})
        await scene.provisioner.provision()
        return scene

    scene = asyncio.run(live())

    assert scene.cluster.nominations.member_of("uid-plain")


@given(claim=numbers.claims(), node=numbers.nodes(), timeout=st.sampled_from([1.0, 1e9, 1e15]))
def test_no_number_stops_a_claim_on_its_way_to_a_node(
    claim: dict[str, Any], node: dict[str, Any], timeout: float
) -> None:
    async def live() -> None:
        scene = LifecycleScene(launch_timeout_s=timeout, registration_timeout_s=timeout)
        raw = scene.client.raw_object(NODE_CLAIMS, "c1")
        assert raw is not None
        scene.client.store(NODE_CLAIMS, _merged(raw, {"spec": claim["spec"]}))
        await scene.lifecycle.reconcile("c1")
        scene.join(**node["status"])
        await scene.settle()

    asyncio.run(live())


@given(replicas=st.integers(0, 3), limit=numbers.CRD_QUANTITIES, claim=numbers.claims())
def test_no_number_stops_a_static_pool(replicas: int, limit: str | float, claim: dict[str, Any]) -> None:
    async def live() -> None:
        scene = StaticScene(replicas, limits={"nodes": limit})
        for name in ("a", "b"):
            scene.stand(name)
            raw = scene.client.raw_object(NODE_CLAIMS, name)
            assert raw is not None
            scene.client.store(NODE_CLAIMS, _merged(raw, {"spec": claim["spec"]}))
        await scene.static.reconcile("default")

    asyncio.run(live())
