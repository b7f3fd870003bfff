# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.controllers.disruption.records import Record
from karpenter.controllers.provisioning.orders import Orders
from karpenter.controllers.static import StaticPools
from karpenter.kit.clock import FakeClock
from karpenter.kube import ForbiddenError, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.observe import DecisionLog, Metrics
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, pod, stored_pool

READY = [
    {"type": kind, "status": "True", "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for kind in ("ValidationSucceeded", "NodeClassReady", "Ready")
]
HELD = [names.TERMINATION_FINALIZER]


class Scene:
    """A static pool, and who keeps its size."""

    def __init__(self, replicas: int | None = 3, *, ready: bool = True, **spec: Any) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.pauses: set[str] = set()
        self.decisions = DecisionLog(self.clock)
        self.pool(replicas, ready=ready, **spec)
        metrics = Metrics()
        self.static = StaticPools(
            client=self.client,
            cluster=self.cluster,
            orders=Orders(self.client, self.cluster, metrics, controller="static.provisioning"),
            decisions=self.decisions,
            metrics=metrics,
            clock=self.clock,
            is_backing_off=self.pauses.__contains__,
        )

    def pool(self, replicas: int | None, *, ready: bool = True, **spec: Any) -> None:
        """Put the pool in place."""
        made = stored_pool(replicas=replicas, **{"limits": {}, **spec})
        whole = {"metadata": {"name": "default", "uid": "u", "generation": 3}, "spec": dict(made.spec)}
        self.client.store(STORED_NODE_POOLS, {**whole, "status": {"conditions": READY if ready else []}})

    def stand(self, name: str, pods: int = 0, *, launched: bool = True, **metadata: Any) -> None:
        """Put a claim in place, with its node if it is launched."""
        metadata = {"finalizers": HELD, "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
        made = claim(
            name, provider_id=f"p-{name}" if launched else "", metadata=metadata, nodeName=f"n-{name}"
        )
        self.client.store(NODE_CLAIMS, made)
        if launched:
            self.client.store(NODES, node(f"n-{name}", f"p-{name}", {names.NODEPOOL: "default"}))
        for number in range(pods):
            self.client.store(PODS, pod(f"{name}-{number}", f"n-{name}", phase="Running"))

    @property
    def staying(self) -> list[str]:
        """The claims that are not on their way out."""
        return sorted(
            each.metadata.name
            for each in self.cluster.informers.claims
            if each.metadata.deletion_timestamp is None
        )


async def test_what_is_missing_is_ordered_at_once_from_the_template() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "requirements": [{"key": names.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        },
    }
    scene = Scene(3, template=template)
    scene.stand("a")

    assert await scene.static.reconcile("default") == 60.0
    assert await scene.static.reconcile("default") == 60.0

    assert len(scene.staying) == 3
    made = [each for each in scene.cluster.informers.claims if each.metadata.name != "a"]
    assert all(each.metadata.labels["team"] == "a" for each in made)
    assert all(each.spec.requirements[0].values == ("m5.large",) for each in made)
    assert [each.reason for each in scene.decisions.since()] == ["Static"]


@pytest.mark.parametrize(("limit", "nodes"), [("2", 2), ("9", 3), ("0", 0), ("many", 0)])
async def test_no_more_are_ordered_than_the_limit_allows(limit: str, nodes: int) -> None:
    scene = Scene(3, limits={"nodes": limit})

    again_s = await scene.static.reconcile("default")

    assert len(scene.staying) == nodes
    assert again_s == (60.0 if nodes == 3 else 30.0)


async def test_a_pool_that_is_not_ready_or_whose_launches_fail_waits() -> None:
    scene = Scene(1, ready=False)
    assert await scene.static.reconcile("default") == 30.0
    scene.pool(1)
    scene.pauses.add("default")

    assert await scene.static.reconcile("default") == 30.0
    assert scene.staying == []


async def test_those_that_are_missed_least_go_first() -> None:
    scene = Scene(5)
    scene.stand("protected", annotations={names.DO_NOT_DISRUPT: "true"})
    scene.stand("busy", 3)
    scene.stand("less-busy", 1)
    scene.stand("empty")
    scene.stand("unlaunched", launched=False)

    order: list[str] = []
    for left in range(4, -1, -1):
        scene.pool(left)
        before = set(scene.staying)
        await scene.static.reconcile("default")
        order += before - set(scene.staying)

    assert order == ["unlaunched", "empty", "less-busy", "busy", "protected"]


async def test_of_equal_nodes_the_one_that_expires_sooner_goes_first() -> None:
    scene = Scene(1)
    scene.stand("young", 1)
    scene.stand("old", 1, creationTimestamp="2025-12-10T00:00:00Z")

    await scene.static.reconcile("default")

    assert scene.staying == ["young"]


async def test_a_node_that_is_exchanged_counts_once() -> None:
    record = Record("id", 1.0, role="launch", remove=("old",), launch=("new",))
    scene = Scene(1)
    scene.stand("old", 1)
    scene.stand("new", annotations={names.DISRUPTION_COMMAND: record.text()})
    await scene.static.reconcile("default")
    assert scene.staying == ["new", "old"]

    await scene.client.delete(NODE_CLAIMS, "old")
    await scene.static.reconcile("default")

    assert scene.staying == ["new"]
    scene.stand("odd", annotations={names.DISRUPTION_COMMAND: "[]"})
    await scene.static.reconcile("default")
    assert len(scene.staying) == 1


async def test_other_pools_and_pools_that_are_gone_are_left_alone() -> None:
    scene = Scene(None)
    scene.stand("a")

    assert await scene.static.reconcile("default") is None
    assert await scene.static.reconcile("gone") is None
    assert scene.staying == ["a"]
    assert len(scene.static._queue._due) == 0


async def test_a_claim_that_went_meanwhile_and_one_that_cannot_be_made_are_no_trouble() -> None:
    scene = Scene(0)
    scene.stand("a")
    scene.client.fail("delete", "nodeclaims", NotFoundError("gone", status=404))
    await scene.static.reconcile("default")
    assert scene.decisions.since() == ()
    scene.pool(2)
    scene.client.fail("create", "nodeclaims", ForbiddenError("quota", status=403))

    await scene.static.reconcile("default")

    assert scene.decisions.since()[0].details["nodes"] == 0


async def test_changes_of_its_pool_and_its_claims_wake_it() -> None:
    scene = Scene(1)
    scene.static._queue._due.clear()

    scene.pool(2)
    assert len(scene.static._queue._due) == 1
    scene.static._queue._due.clear()
    scene.stand("a")
    assert len(scene.static._queue._due) == 1


@pytest.mark.parametrize("life", ["Never", "0s", "999999h"])
async def test_a_claim_that_does_not_expire_has_its_life_before_it(life: str) -> None:
    scene = Scene(1)
    made = claim("c", metadata={"creationTimestamp": "2025-01-01T00:00:00Z"})
    changed = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, expire_after=life))

    assert scene.static._life_left(changed) == 1.0


async def test_a_claim_that_was_deleted_counts_no_more_before_the_watch_shows_it() -> None:
    scene = Scene(1)
    for name in ("a", "b", "c"):
        scene.stand(name)
    # The watch is late: nobody hears of the deletions.
    scene.client.informers = None

    await scene.static.reconcile("default")
    scene.cluster.informers.claims.observe(claim("a", metadata={"finalizers": HELD}))
    await scene.static.reconcile("default")

    gone = [call.name for call in scene.client.writes("delete", "nodeclaims")]
    assert len(gone) == 2


async def test_a_static_pool_and_a_replacement_share_the_limit() -> None:
    scene = Scene(2, limits={"nodes": "2"})
    pool = scene.cluster.pool("default")
    assert pool is not None

    with scene.cluster.launches.reserve("default", {"nodes": 1}, {"nodes": 2}, dict):
        await scene.static.reconcile("default")

    assert len(scene.staying) == 1


async def test_a_limit_that_cannot_be_read_lets_nothing_be_ordered() -> None:
    scene = Scene(1, limits={"nodes": "many"})
    pool = scene.cluster.pool("default")
    assert pool is not None

    made = await Orders(scene.client, scene.cluster, Metrics(), controller="x").create_from_template(
        pool, reason="static"
    )

    assert made is None


@pytest.mark.parametrize("trouble", ["unreadable", "stale"])
async def test_a_pool_keeps_its_size_while_its_claims_are_not_surely_known(trouble: str) -> None:
    scene = Scene(3)
    for name in ("a", "b", "c", "d"):
        scene.stand(name)
    if trouble == "unreadable":
        scene.client.store(NODE_CLAIMS, {"metadata": {"name": "odd", "labels": 5}})
    else:
        scene.cluster.informers.claims.heard_at = scene.clock.monotonic()
        scene.clock.tick(71)

    await scene.static.reconcile("default")

    assert scene.staying == ["a", "b", "c", "d"]
