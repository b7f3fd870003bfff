# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from karpenter.api import labels as names
from karpenter.controllers.interruption import Interruptions
from karpenter.kit.clock import FakeClock
from karpenter.kube import NotFoundError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.observe import DecisionLog, Metrics
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, pod

ID = "aws:///us-west-2a/i-1"


@dataclass(frozen=True)
class Said:
    """What the cloud says."""

    kind: str = "spot_interrupted"
    instance_ids: tuple[str, ...] = ("i-1", "i-foreign")
    detail: str = ""


class Scene:
    """Two claims, one with its node and a pod on it, and who acts on interruptions."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.recorder = Recorder(self.client, clock=self.clock)
        self.decisions = DecisionLog(self.clock)
        self.spots: list[str] = []
        held: dict[str, Any] = {"finalizers": [names.TERMINATION_FINALIZER]}
        joined = [{"type": "Registered", "status": "True"}]
        self.client.store(
            NODE_CLAIMS, claim("c1", provider_id=ID, metadata=held, nodeName="n1", conditions=joined)
        )
        self.client.store(NODE_CLAIMS, claim("c2", provider_id="aws:///us-west-2a/i-2", metadata=held))
        self.client.store(NODES, node("n1", ID))
        self.client.store(PODS, pod("a", "n1", phase="Running"))
        self.interruptions = self.process()

    def process(self) -> Interruptions:
        """Begin a process that acts on interruptions."""
        return Interruptions(
            client=self.client,
            cluster=self.cluster,
            recorder=self.recorder,
            decisions=self.decisions,
            metrics=Metrics(),
            clock=self.clock,
            on_spot=lambda each: self.spots.append(each.metadata.name),
        )

    def is_leaving(self, name: str) -> bool:
        """Whether a claim is on its way out."""
        found = self.cluster.informers.claims.get(name)
        return found is None or found.metadata.deletion_timestamp is not None

    @property
    def is_tainted(self) -> bool:
        """Whether the node has our taint."""
        found = self.cluster.informers.nodes.get("n1")
        assert found is not None
        return any(taint.key == names.DISRUPTED_TAINT.key for taint in found.spec.taints)

    @property
    def told(self) -> list[tuple[str, str]]:
        """Events by kind of object and reason."""
        return [(each.subject.kind, each.reason) for each in self.recorder._queue]


async def test_a_spot_warning_taints_the_node_and_drains_it_when_its_pods_have_places() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said(detail="in two minutes"), ends=True, forceful=False)

    assert scene.is_tainted
    assert [each.metadata.name for each in scene.cluster.displaced()] == ["a"]
    assert await scene.interruptions.reconcile("c1") == 0.5
    assert not scene.is_leaving("c1")
    scene.cluster.nominations.promise(["uid-a"], "c9", 60.0)
    assert await scene.interruptions.reconcile("c1") is None
    assert scene.is_leaving("c1")
    assert not scene.is_leaving("c2")
    assert scene.spots == ["c1"]
    assert scene.told == [
        ("NodeClaim", "SpotInterrupted"),
        ("Node", "SpotInterrupted"),
        ("NodeClaim", "TerminatingOnInterruption"),
        ("Node", "TerminatingOnInterruption"),
    ]
    assert [each.reason for each in scene.decisions.since()] == ["SpotInterrupted"]


async def test_a_node_is_drained_in_time_even_if_its_pods_find_no_place() -> None:
    scene = Scene()
    await scene.interruptions.handle(Said(), ends=True, forceful=False)

    await scene.clock.advance(20.0)
    await scene.interruptions.reconcile("c1")

    assert scene.is_leaving("c1")


async def test_a_notice_is_not_forgotten_when_another_process_goes_on() -> None:
    scene = Scene()
    await scene.interruptions.handle(Said(), ends=True, forceful=False)
    scene.cluster.unmark_leaving(["c1"])
    await scene.clock.advance(20.0)

    successor = scene.process()
    assert len(successor._queue) == 1
    await successor.reconcile("c1")

    assert scene.is_leaving("c1")


async def test_a_recommendation_is_told_and_nothing_else() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said("rebalance_recommendation"), ends=False, forceful=False)

    assert not scene.is_tainted
    assert await scene.interruptions.reconcile("c1") is None
    assert not scene.is_leaving("c1")
    assert scene.told == [
        ("NodeClaim", "SpotRebalanceRecommendation"),
        ("Node", "SpotRebalanceRecommendation"),
    ]


async def test_a_machine_that_does_not_answer_is_neither_waited_for_nor_drained() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said("system_status", ("i-2",)), ends=True, forceful=True)
    await scene.interruptions.reconcile("c2")

    found = scene.cluster.informers.claims.get("c2")
    assert found is not None
    assert found.metadata.annotations[names.TERMINATION_TIMESTAMP] == "2026-01-01T00:00:00Z"
    assert scene.is_leaving("c2")
    assert scene.told[0] == ("NodeClaim", "InstanceUnhealthy")


async def test_an_instance_that_is_ending_is_not_waited_for() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said("instance_terminated"), ends=True, forceful=False)
    await scene.interruptions.reconcile("c1")

    assert scene.is_leaving("c1")


async def test_a_claim_that_is_leaving_already_is_not_deleted_again() -> None:
    scene = Scene()
    await scene.client.delete(NODE_CLAIMS, "c1")
    before = len(scene.client.calls)

    await scene.interruptions.handle(Said("instance_terminated"), ends=True, forceful=False)
    await scene.interruptions.reconcile("c1")

    assert len(scene.client.calls) == before


async def test_a_claim_that_went_meanwhile_is_no_trouble() -> None:
    scene = Scene()
    scene.client.fail("patch", "nodeclaims", NotFoundError("gone", status=404))
    await scene.interruptions.handle(Said("instance_stopped"), ends=True, forceful=False)
    scene.client.fail("delete", "nodeclaims", NotFoundError("gone", status=404))
    await scene.interruptions.handle(Said("instance_stopped"), ends=True, forceful=False)

    await scene.interruptions.reconcile("c1")
    await scene.interruptions.reconcile("gone")

    assert scene.decisions.since() == ()


async def test_a_notice_written_by_hand_is_taken_at_its_word() -> None:
    scene = Scene()

    change = {"metadata": {"annotations": {names.INTERRUPTED: "true"}}}
    await scene.client.patch(NODE_CLAIMS, "c1", change)
    await scene.interruptions.reconcile("c1")

    assert scene.is_leaving("c1")


async def test_an_instance_that_ends_before_its_node_joined_is_left_to_who_waits_for_it() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said("instance_terminated", ("i-2",)), ends=True, forceful=False)
    await scene.interruptions.reconcile("c2")

    assert not scene.is_leaving("c2")
