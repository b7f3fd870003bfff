# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import CloudError, NodeClaimNotFoundError
from karpenter.controllers.disruption import DaemonPlans, Marking
from karpenter.kube import ConflictError, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS, PODS
from karpenter.model.hashes import POOL_HASH_VERSION, pool_hash
from karpenter.observe import DecisionLog
from karpenter.scheduling import SolveOptions, solve
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS
from tests.unit.controllers.disruption.world import Shop, World


class Cloud(Shop):
    """A cloud that has an opinion on drift."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""
        self.error: Exception | None = None
        self.asked = 0

    async def drift_reason(self, claim: NodeClaim, node_class: Any) -> str:
        """Say what was set."""
        del claim, node_class
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.reason


class Scene:
    """A world with one node, and who marks its claim."""

    def __init__(self, **pool: Any) -> None:
        self.world = World(**pool)
        self.cloud = Cloud()
        self.daemons = DaemonPlans(
            cluster=self.world.cluster,
            catalogues=self.world.market.catalogues,
            solver=solve,
            options=SolveOptions(),
            recorder=self.world.recorder,
            decisions=DecisionLog(self.world.clock),
            metrics=self.world.metrics,
            clock=self.world.clock,
        )
        self.marking = Marking(
            client=self.world.client,
            cluster=self.world.cluster,
            cloud=self.cloud,  # type: ignore[arg-type]
            metrics=self.world.metrics,
            clock=self.world.clock,
            daemons=self.daemons,
        )
        self.world.node("n1")

    async def reason(self, condition: str) -> str:
        """The reason of a condition after a look, empty if it is not there."""
        await self.marking.reconcile("claim-n1")
        [claim] = self.world.claims
        return next((each.reason for each in claim.status.conditions if each.type == condition), "")

    def annotate(self, **annotations: str) -> None:
        """Put annotations on the claim."""
        raw = dict(self.world.client.raw_object(NODE_CLAIMS, "claim-n1") or {})
        raw["metadata"] = {**raw["metadata"], "annotations": annotations}
        self.world.client.store(NODE_CLAIMS, raw)


async def test_a_quiet_node_is_consolidatable_and_a_busy_one_is_not() -> None:
    scene = Scene(disruption={"consolidateAfter": "30s"})

    assert await scene.reason("Consolidatable") == "Consolidatable"
    scene.world.pods(1, "n1")
    [pod] = scene.world.cluster.informers.pods
    await scene.world.client.delete(PODS, pod.metadata.name, "shop")
    assert await scene.reason("Consolidatable") == ""
    assert 0 < (await scene.marking.reconcile("claim-n1") or 0) <= 30
    [claim] = scene.world.claims
    assert claim.status.last_pod_event_time == scene.world.clock.now()
    await scene.world.clock.advance(30)

    assert await scene.reason("Consolidatable") == "Consolidatable"


async def test_a_busy_node_is_written_to_every_ten_seconds_at_most() -> None:
    scene = Scene(disruption={"consolidateAfter": "1m"})
    for _ in range(5):
        scene.world.pods(1, "n1")
        pod = next(iter(scene.world.cluster.informers.pods))
        await scene.world.client.delete(PODS, pod.metadata.name, "shop")
        again_s = await scene.marking.reconcile("claim-n1")
        await scene.world.clock.advance(3)

    stamps = [
        call.body["status"]["lastPodEventTime"]
        for call in scene.world.client.writes("patch", "nodeclaims")
        if "lastPodEventTime" in call.body.get("status", {})
    ]
    assert stamps == ["2026-01-01T00:00:00Z", "2026-01-01T00:00:12Z"]
    assert again_s is not None


@pytest.mark.parametrize("after", ["Never", "soon"])
async def test_a_pool_that_never_consolidates_has_no_consolidatable_node(after: str) -> None:
    scene = Scene(disruption={"consolidateAfter": after})

    assert await scene.reason("Consolidatable") == ""


async def test_a_claim_of_another_template_has_drifted() -> None:
    scene = Scene()
    pool = scene.world.cluster.pool("default")
    assert pool is not None
    version = {names.NODEPOOL_HASH_VERSION: POOL_HASH_VERSION}

    assert await scene.reason("Drifted") == ""
    scene.annotate(**{names.NODEPOOL_HASH: "1", names.NODEPOOL_HASH_VERSION: "v2"})
    assert await scene.reason("Drifted") == ""
    scene.annotate(**{names.NODEPOOL_HASH: "1", **version})
    assert await scene.reason("Drifted") == "NodePoolDrifted"
    scene.annotate(**{names.NODEPOOL_HASH: pool_hash(pool), **version})
    assert await scene.reason("Drifted") == ""


@pytest.mark.parametrize(
    ("operator", "values", "reason"),
    [("In", ["arm64"], "RequirementsDrifted"), ("In", ["amd64"], ""), ("Sometimes", [], "")],
)
async def test_a_claim_that_its_pool_would_not_make_any_more_has_drifted(
    operator: str, values: list[str], reason: str
) -> None:
    scene = Scene()
    template = dict(scene.world.cluster.informers.pools.get("default").spec["template"])  # type: ignore[union-attr]
    wanted = [{"key": names.ARCH, "operator": operator, "values": values}]
    scene.world.pool(template={"spec": {**template["spec"], "requirements": wanted}})

    assert await scene.reason("Drifted") == reason


async def test_the_cloud_is_asked_now_and_then_and_when_its_class_changes() -> None:
    scene = Scene()
    await scene.reason("Drifted")
    scene.cloud.reason = "AMIDrift"

    assert await scene.reason("Drifted") == ""
    await scene.world.clock.advance(300)
    assert await scene.reason("Drifted") == "AMIDrift"
    scene.cloud.error = NodeClaimNotFoundError("i-1")
    raw = dict(scene.world.client.raw_object(STORED_NODE_CLASSES, "default") or {})
    scene.world.client.store(STORED_NODE_CLASSES, raw)
    assert await scene.reason("Drifted") == ""
    assert scene.cloud.asked == 3


async def test_a_type_that_is_no_longer_sold_is_drift() -> None:
    scene = Scene()
    scene.cloud.types = scene.cloud.types[:1]

    assert await scene.reason("Drifted") == "InstanceTypeNotFound"


async def test_a_cloud_that_cannot_say_what_it_sells_makes_nothing_drift() -> None:
    scene = Scene()

    async def refuse(*_: Any) -> Any:
        raise CloudError("no subnets")

    scene.cloud.instance_types = refuse  # type: ignore[assignment]

    assert await scene.reason("Drifted") == ""


async def test_without_its_class_a_claim_does_not_drift() -> None:
    scene = Scene()
    scene.cloud.reason = "AMIDrift"
    await scene.world.client.delete(STORED_NODE_CLASSES, "default")

    assert await scene.reason("Drifted") == ""


async def test_a_claim_without_a_pool_and_one_that_is_gone_are_left_alone() -> None:
    scene = Scene()
    await scene.world.client.delete(STORED_NODE_POOLS, "default")

    assert await scene.marking.reconcile("claim-n1") is None
    assert await scene.marking.reconcile("gone") is None
    assert scene.world.client.writes("patch") == ()


async def test_a_claim_that_others_write_to_is_looked_at_again_at_once() -> None:
    scene = Scene()
    scene.world.client.fail("patch", "nodeclaims", ConflictError("modified", status=409))
    scene.world.client.fail("patch", "nodeclaims", NotFoundError("gone", status=404))

    assert await scene.marking.reconcile("claim-n1") == 0.5
    assert await scene.marking.reconcile("claim-n1") == 300.0


async def test_what_we_write_about_a_pool_wakes_none_of_its_claims() -> None:
    scene = Scene()
    scene.marking._queue._ready.clear()
    raw = dict(scene.world.client.raw_object(STORED_NODE_POOLS, "default") or {})

    scene.world.client.store(STORED_NODE_POOLS, {**raw, "status": {**raw["status"], "nodes": 7}})
    assert len(scene.marking._queue) == 0
    scene.world.pool()
    assert len(scene.marking._queue) == 1


async def test_it_works_through_what_changed_and_leaves_nodes_that_are_not_ready() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.marking.run())
    await scene.world.clock.advance(1.0)
    task.cancel()

    assert await scene.reason("Consolidatable") == "Consolidatable"
    raw = dict(scene.world.client.raw_object(NODE_CLAIMS, "claim-n1") or {})
    launched = [each for each in raw["status"]["conditions"] if each["type"] == "Launched"]
    scene.world.client.store(NODE_CLAIMS, {**raw, "status": {**raw["status"], "conditions": launched}})
    assert await scene.reason("Consolidatable") == ""


async def test_a_young_claim_is_not_asked_whether_its_type_is_still_sold() -> None:
    scene = Scene()
    scene.cloud.types = scene.cloud.types[:1]
    raw = dict(scene.world.client.raw_object(NODE_CLAIMS, "claim-n1") or {})
    young = {**raw["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
    scene.world.client.store(NODE_CLAIMS, {**raw, "metadata": young})

    assert await scene.reason("Drifted") == ""
