# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.protocol import Machine
from karpenter.controllers.departures import Departures
from karpenter.controllers.termination import ClaimTermination, Evictions, NodeTermination, termination_time
from karpenter.kit.clock import FakeClock
from karpenter.kube import ApiError, ForbiddenError, Recorder, ServerError
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, VOLUME_ATTACHMENTS
from karpenter.observe import DecisionLog, Metrics
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, pod

ID = "aws:///us-west-2a/i-1"
OURS = {names.NODEPOOL: "default", names.REGISTERED: "true", names.INITIALIZED: "true"}
HELD = {"finalizers": [names.TERMINATION_FINALIZER], "creationTimestamp": "2025-12-31T00:00:00Z", "uid": "u"}
READY = [{"type": "Ready", "status": "True"}]


class Cloud:
    """Instances that take one more look to go."""

    name = "paper"

    def __init__(self, *living: str) -> None:
        self.living = dict.fromkeys(living, "running")
        self.machines: list[Machine] = []
        self.deleted: list[str] = []
        self.lingers = 0

    async def delete(self, provider_id: str) -> None:
        """Order one to go."""
        if provider_id not in self.living:
            raise NodeClaimNotFoundError(provider_id)
        self.deleted.append(provider_id)
        if self.lingers:
            self.lingers -= 1
        else:
            del self.living[provider_id]
            self.machines = [each for each in self.machines if each.provider_id != provider_id]

    async def get(self, provider_id: str) -> Machine:
        """Look at one."""
        if provider_id not in self.living:
            raise NodeClaimNotFoundError(provider_id)
        return Machine(provider_id)

    async def list(self) -> list[Machine]:
        """Look at all."""
        return self.machines


class Scene:
    """A node with its claim, and the two controllers that end them."""

    def __init__(self, **spec: Any) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.cloud = Cloud(ID)
        self.recorder = Recorder(self.client, clock=self.clock)
        metrics = self.metrics = Metrics()
        common: dict[str, Any] = {
            "client": self.client,
            "cluster": self.cluster,
            "cloud": self.cloud,
            "recorder": self.recorder,
            "decisions": DecisionLog(self.clock),
            "metrics": metrics,
            "clock": self.clock,
        }
        self.departures = Departures(self.clock)
        evictions = Evictions(self.client, self.recorder, metrics, self.clock, self.departures)
        self.nodes = NodeTermination(evictions=evictions, **common)
        self.departures.on_open(self.nodes.wake)
        self.claims = ClaimTermination(**common)
        made = self.client.store(NODE_CLAIMS, claim("c1", provider_id=ID, metadata=HELD, nodeName="n1"))
        if spec:
            raw = self.client.raw_object(NODE_CLAIMS, "c1")
            assert raw is not None
            self.client.store(NODE_CLAIMS, {**raw, "spec": {**raw["spec"], **spec}})
        assert isinstance(made, NodeClaim)
        self.client.store(NODES, node("n1", ID, OURS, metadata=HELD, conditions=READY))

    async def step(self, times: int = 1) -> None:
        """Let both look a few times, a second apart."""
        for _ in range(times):
            await self.claims.reconcile("c1")
            await self.nodes.reconcile("n1")
            self.clock.tick(1)

    def run_pod(self, name: str, **parts: Any) -> None:
        """Put a running pod on the node."""
        self.client.store(PODS, pod(name, "n1", phase="Running", **parts))

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return (
            not len(self.cluster.informers.nodes)
            and not len(self.cluster.informers.claims)
            and not self.cloud.living
        )

    @property
    def refusals_counted(self) -> float:
        """How often the cloud refused to end an instance."""
        families = self.metrics.registry.collect()
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "karpenter_cloudprovider_instance_termination_failures_total"
        )

    @property
    def told(self) -> list[str]:
        """Reasons of the events."""
        return [each.reason for each in self.recorder._queue]


async def test_deleting_a_claim_ends_node_instance_and_claim_in_that_order() -> None:
    scene = Scene()
    scene.run_pod("a")
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(9)

    assert scene.is_over
    order = [(call.verb, call.plural) for call in scene.client.calls if call.verb in ("evict", "delete")]
    assert order == [("delete", "nodeclaims"), ("delete", "nodes"), ("evict", "pods")]
    finalizers = [
        call.plural
        for call in scene.client.calls
        if call.verb == "patch" and "finalizers" in call.body.get("metadata", {})
    ]
    assert finalizers == ["nodes", "nodeclaims"]
    assert scene.cloud.deleted == [ID]


async def test_how_long_the_end_took_is_measured_for_node_claim_and_instance() -> None:
    scene = Scene()
    scene.cloud.lingers = 3
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(14)

    value, of = scene.metrics.registry.get_sample_value, {"nodepool": "default"}
    for name in ("nodeclaims_instance_termination", "nodeclaims_termination", "nodes_termination"):
        assert value(f"karpenter_{name}_duration_seconds_count", of) == 1
    longest = value("karpenter_nodes_termination_duration_seconds", {**of, "quantile": "1"})
    assert longest == value("karpenter_nodes_termination_duration_seconds_sum", of)


async def test_deleting_a_node_by_hand_ends_its_claim_too() -> None:
    scene = Scene()
    await scene.client.delete(NODES, "n1")

    await scene.step(9)

    assert scene.is_over


async def test_a_node_on_its_way_out_is_tainted_and_kept_from_load_balancers() -> None:
    scene = Scene()
    scene.client.blocked_by_budget.add("a")
    scene.run_pod("a")
    await scene.client.delete(NODES, "n1")

    await scene.step()

    found = scene.cluster.informers.nodes.get("n1")
    assert found is not None
    assert [taint.key for taint in found.spec.taints] == [names.DISRUPTED_TAINT.key]
    assert found.metadata.labels[names.EXCLUDE_FROM_LOAD_BALANCERS] == "karpenter"


async def test_a_budget_is_waited_for_and_told_about() -> None:
    scene = Scene()
    scene.run_pod("a")
    scene.client.blocked_by_budget.add("a")
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.step(20)
    blocked = scene.is_over
    scene.client.blocked_by_budget.clear()

    await scene.step(20)

    assert not blocked
    assert scene.is_over
    assert "FailedDraining" in scene.told
    assert len(scene.client.writes("evict")) < 20


async def test_a_pod_that_asks_not_to_be_disturbed_is_waited_for() -> None:
    scene = Scene()
    shy = pod("shy", "n1", phase="Running")
    raw = {
        "metadata": {
            "name": "shy",
            "namespace": "shop",
            "uid": "uid-shy",
            "annotations": {names.DO_NOT_DISRUPT: "true"},
        }
    }
    scene.client.store(
        PODS, {**raw, "spec": {"nodeName": shy.spec.node_name}, "status": {"phase": "Running"}}
    )
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(10)

    assert not scene.is_over
    assert scene.client.writes("evict") == ()
    assert "FailedDraining" in scene.told


async def test_a_grace_period_ends_the_waiting() -> None:
    scene = Scene(terminationGracePeriod="60s")
    scene.run_pod("a")
    scene.client.blocked_by_budget.add("a")
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.step()
    stamped = scene.cluster.informers.claims.get("c1")

    await scene.step(70)

    assert stamped is not None
    assert stamped.metadata.annotations[names.TERMINATION_TIMESTAMP] == "2026-01-01T00:01:00Z"
    assert scene.is_over
    assert {"TerminationGracePeriodExpiring", "Disrupted"} <= set(scene.told)
    forced = scene.client.writes("delete", "pods")
    assert forced[0].body["gracePeriodSeconds"] <= 30


async def test_a_node_that_was_tainted_long_before_is_not_held_for_pods_that_come_late() -> None:
    scene = Scene()
    marked = {
        "type": "DisruptionReason",
        "status": "True",
        "reason": "Underutilized",
        "lastTransitionTime": "2025-12-31T23:59:00Z",
    }
    await scene.client.edit(NODE_CLAIMS, "c1", {"status": {"conditions": [marked]}}, subresource="status")
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(2)

    assert scene.cloud.deleted == [ID]


async def test_pods_that_come_late_are_seen_before_the_instance_goes() -> None:
    scene = Scene()
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.step(3)
    scene.run_pod("late")

    await scene.step(15)

    assert [call.name for call in scene.client.writes("evict")] == ["late"]
    assert scene.is_over


async def test_volumes_are_detached_before_the_instance_goes() -> None:
    scene = Scene()
    spec = {"nodeName": "n1", "attacher": "ebs.csi.aws.com", "source": {"persistentVolumeName": "pv"}}
    scene.client.store(VOLUME_ATTACHMENTS, {"metadata": {"name": "va"}, "spec": spec})
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.step(10)
    waiting = bool(scene.cloud.living)
    await scene.client.delete(VOLUME_ATTACHMENTS, "va")

    await scene.step(5)

    assert waiting
    assert scene.is_over
    assert "AwaitingVolumeDetachment" in scene.told


async def test_volumes_of_pods_that_stay_do_not_hold_up_the_end() -> None:
    scene = Scene()
    scene.run_pod(
        "agent",
        tolerations=[{"operator": "Exists"}],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp"}],
    )
    scene.client.store(
        PERSISTENT_VOLUME_CLAIMS,
        {"metadata": {"name": "data", "namespace": "shop"}, "spec": {"volumeName": "pv"}},
    )
    spec = {"nodeName": "n1", "attacher": "ebs.csi.aws.com", "source": {"persistentVolumeName": "pv"}}
    scene.client.store(VOLUME_ATTACHMENTS, {"metadata": {"name": "va"}, "spec": spec})
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(12)

    assert scene.is_over


async def test_after_the_grace_period_volumes_are_not_waited_for() -> None:
    scene = Scene(terminationGracePeriod="10s")
    spec = {"nodeName": "n1", "attacher": "ebs.csi.aws.com", "source": {"persistentVolumeName": "pv"}}
    scene.client.store(VOLUME_ATTACHMENTS, {"metadata": {"name": "va"}, "spec": spec})
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(20)

    assert scene.is_over


async def test_a_node_whose_instance_is_gone_is_let_go_at_once() -> None:
    scene = Scene()
    scene.cloud.living.clear()
    scene.client.store(NODES, node("n1", ID, OURS, metadata=HELD, conditions=[]))
    scene.run_pod("a")
    await scene.client.delete(NODES, "n1")

    await scene.step(2)

    assert not len(scene.cluster.informers.nodes)
    assert scene.client.writes("evict") == ()


async def test_the_finalizers_stay_until_the_cloud_no_longer_knows_the_instance() -> None:
    scene = Scene()
    scene.cloud.lingers = 3
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.step(8)
    found = scene.cluster.informers.claims.get("c1")

    await scene.step(6)

    assert found is not None
    assert any(
        each.type == "InstanceTerminating" and each.status == "True" for each in found.status.conditions
    )
    assert scene.is_over


async def test_a_claim_whose_launch_was_lost_leaves_no_instance_behind() -> None:
    scene = Scene()
    scene.client.store(NODE_CLAIMS, claim("c2", metadata={**HELD, "uid": "lost"}))
    scene.cloud.machines = [Machine(ID, claim_uid="lost"), Machine("other", claim_uid="else")]
    await scene.client.delete(NODE_CLAIMS, "c2")

    first = await scene.claims.reconcile("c2")
    second = await scene.claims.reconcile("c2")

    assert (first, second) == (5.0, None)
    assert scene.cloud.deleted == [ID]
    assert scene.cluster.informers.claims.get("c2") is None


async def test_a_claim_whose_instance_lingers_is_looked_at_again() -> None:
    scene = Scene()
    await scene.client.edit(NODES, "n1", {"metadata": {"finalizers": []}})
    await scene.client.delete(NODES, "n1")
    scene.cloud.lingers = 1
    await scene.client.delete(NODE_CLAIMS, "c1")

    again = [await scene.claims.reconcile("c1") for _ in range(3)]

    assert again == [5.0, None, None]


async def test_what_is_not_ours_to_end_is_left_alone() -> None:
    scene = Scene()
    scene.client.store(NODES, node("foreign", metadata={"finalizers": ["else"], "uid": "f"}))
    await scene.client.delete(NODES, "foreign")
    scene.client.store(NODE_CLAIMS, claim("c9", metadata={"finalizers": ["else"], "uid": "c9"}))
    await scene.client.delete(NODE_CLAIMS, "c9")
    before = len(scene.client.calls)

    for name in ("n1", "foreign", "nobody"):
        assert await scene.nodes.reconcile(name) is None
    for name in ("c1", "c9", "nobody"):
        assert await scene.claims.reconcile(name) is None

    assert len(scene.client.calls) == before


@pytest.mark.parametrize(
    "refusal",
    [
        ServerError("more than one PodDisruptionBudget", status=500),
        ForbiddenError('admission webhook "guard" denied the request', status=403),
    ],
)
async def test_a_pod_that_the_server_does_not_let_go_is_told_of_and_the_others_leave(
    refusal: ApiError,
) -> None:
    scene = Scene()
    scene.run_pod("a")
    scene.run_pod("b")
    scene.client.fail("evict", "pods", refusal)
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.step()
    left = [pod.metadata.name for pod in scene.cluster.pods_on("n1")]

    await scene.step(12)

    assert left == ["a"]
    assert "FailedDraining" in scene.told
    assert scene.is_over


async def test_a_pod_that_may_not_be_deleted_after_the_deadline_holds_up_no_other() -> None:
    scene = Scene(terminationGracePeriod="10s")
    scene.run_pod("guarded")
    scene.run_pod("plain")
    scene.client.fail("delete", "pods", ForbiddenError("denied", status=403))
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(1)

    assert [pod.metadata.name for pod in scene.cluster.pods_on("n1")] == ["guarded"]
    assert "FailedDraining" in scene.told


@pytest.mark.parametrize("grace_s", [100_000_000_000, 2**63 - 1])
async def test_a_pod_with_an_endless_grace_keeps_its_node_no_longer_than_the_claim_says(grace_s: int) -> None:
    scene = Scene(terminationGracePeriod="60s")
    scene.run_pod("endless", terminationGracePeriodSeconds=grace_s)
    scene.run_pod("plain", terminationGracePeriodSeconds=0)
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.step()
    left = [pod.metadata.name for pod in scene.cluster.pods_on("n1")]

    await scene.step(12)

    assert left == []
    assert [call.body["gracePeriodSeconds"] for call in scene.client.writes("delete", "pods")] == [60]
    assert scene.is_over


@pytest.mark.parametrize(
    ("annotation", "period", "expected"),
    [
        ("2026-01-01T00:05:00Z", "", "2026-01-01T00:05:00+00:00"),
        ("2026-01-01T00:05:00", "", "2026-01-01T00:05:00+00:00"),
        ("soon", "", None),
        ("", "1m", "2026-01-01T00:01:00+00:00"),
        ("", "ever", None),
        ("", "", None),
    ],
)
def test_the_deadline_is_the_annotation_or_the_deletion_plus_the_grace(
    annotation: str, period: str, expected: str | None
) -> None:
    metadata: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    if annotation:
        metadata["annotations"] = {names.TERMINATION_TIMESTAMP: annotation}
    made = claim("c", metadata=metadata)

    made = msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, termination_grace_period=period)
    )

    found = termination_time(made)

    assert (found.isoformat() if found else None) == expected


async def test_both_work_by_themselves() -> None:
    scene = Scene()
    scene.run_pod("a")
    tasks = [asyncio.ensure_future(each.run()) for each in (scene.nodes, scene.claims)]
    await scene.client.delete(NODES, "n1")
    for _ in range(30):
        await scene.clock.advance(1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert scene.is_over


async def test_a_pod_waits_for_the_turn_of_the_node_that_it_goes_to() -> None:
    scene = Scene()
    scene.run_pod("a")
    [waiting] = scene.cluster.pods_on("n1")
    scene.departures.plan([(waiting, "n2")])
    await scene.client.delete(NODE_CLAIMS, "c1")
    await scene.step(3)
    before = [call.verb for call in scene.client.calls if call.verb == "evict"]

    scene.departures.open("n2")
    await scene.step(1)

    assert before == []
    assert [call.verb for call in scene.client.calls if call.verb == "evict"] == ["evict"]


class Unheard:
    """Writes of others that the informers do not hear of: their watches hang."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __enter__(self) -> None:
        self._informers, self._scene.client.informers = self._scene.client.informers, None

    def __exit__(self, *_: object) -> None:
        self._scene.client.informers = self._informers


async def test_pods_that_only_the_server_knows_are_evicted_before_the_instance_ends() -> None:
    scene = Scene()
    with Unheard(scene):
        for name in ("a", "b", "c", "d"):
            scene.run_pod(name)
    scene.client.blocked_by_budget |= {"a", "b", "c", "d"}
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(30)
    held = list(scene.cloud.deleted)
    scene.client.blocked_by_budget.clear()
    await scene.step(30)

    assert held == []
    assert {call.name for call in scene.client.writes("evict")} == {"a", "b", "c", "d"}
    assert "FailedDraining" in scene.told
    assert scene.is_over


async def test_a_pod_that_cannot_be_read_holds_its_instance() -> None:
    scene = Scene()
    odd = {
        "metadata": {"name": "odd", "namespace": "shop", "uid": "u", "labels": 5},
        "spec": {"nodeName": "n1"},
    }
    scene.client.store(PODS, odd)
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(20)

    assert scene.cloud.deleted == []
    words = [each.message for each in scene.recorder._queue if each.reason == "FailedDraining"]
    assert words == ["Failed to drain node, the API server has pods on it: shop/odd, which cannot be read"]


async def test_a_node_that_only_the_server_knows_is_drained_before_the_instance_ends() -> None:
    scene = Scene()
    scene.run_pod("a")
    scene.client.blocked_by_budget.add("a")
    found = scene.cluster.informers.nodes.get("n1")
    assert found is not None
    scene.cluster.informers.nodes._remove(("", "n1"), 0)
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(10)

    assert scene.cloud.deleted == []
    assert len(scene.client.writes("evict")) > 0


async def test_a_node_of_the_same_name_that_is_not_the_claims_own_is_no_reason_to_wait() -> None:
    scene = Scene()
    scene.cluster.informers.nodes._remove(("", "n1"), 0)
    with Unheard(scene):
        scene.client.store(NODES, node("n1", "aws:///us-west-2a/i-2", OURS, conditions=READY))
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.step(3)

    assert scene.cloud.deleted == [ID]


async def test_a_node_is_let_go_only_when_its_instance_is_gone() -> None:
    scene = Scene()
    scene.cloud.lingers = 3
    await scene.client.delete(NODE_CLAIMS, "c1")
    seen = []

    for _ in range(16):
        await scene.step()
        is_there = scene.client.raw_object(NODES, "n1") is not None
        seen.append((is_there, bool(scene.cloud.living)))

    assert (False, True) not in seen
    assert (True, True) in seen
    assert len(scene.cloud.deleted) > 1
    assert scene.is_over
