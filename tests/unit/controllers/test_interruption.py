# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.controllers.interruption import Interruptions
from karpenter.kit.clock import FakeClock
from karpenter.kube import NotFoundError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import DecisionLog, Metrics
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node

ID = "aws:///us-west-2a/i-1"


@dataclass(frozen=True)
class Said:
    """What the cloud says."""

    kind: str = "spot_interrupted"
    instance_ids: tuple[str, ...] = ("i-1", "i-foreign")
    detail: str = ""


class Scene:
    """A claim with its node, and who acts on interruptions."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.client, self.cluster = paper_cluster(clock)
        self.recorder = Recorder(self.client, clock=clock)
        self.decisions = DecisionLog(clock)
        self.spots: list[str] = []
        self.interruptions = Interruptions(
            client=self.client,
            cluster=self.cluster,
            recorder=self.recorder,
            decisions=self.decisions,
            metrics=Metrics(),
            clock=clock,
            on_spot=lambda each: self.spots.append(each.metadata.name),
        )
        held: dict[str, Any] = {"finalizers": [names.TERMINATION_FINALIZER]}
        joined = [{"type": "Registered", "status": "True"}]
        self.client.store(
            NODE_CLAIMS, claim("c1", provider_id=ID, metadata=held, nodeName="n1", conditions=joined)
        )
        self.client.store(NODE_CLAIMS, claim("c2", provider_id="aws:///us-west-2a/i-2", metadata=held))
        self.client.store(NODES, node("n1", ID))

    def is_leaving(self, name: str) -> bool:
        """Whether a claim is on its way out."""
        found = self.cluster.informers.claims.get(name)
        return found is None or found.metadata.deletion_timestamp is not None

    @property
    def told(self) -> list[tuple[str, str]]:
        """Events by kind of object and reason."""
        return [(each.subject.kind, each.reason) for each in self.recorder._queue]


async def test_a_spot_warning_gives_the_node_up_and_is_remembered() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said(detail="in two minutes"), ends=True, forceful=False)

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


async def test_a_recommendation_is_told_and_nothing_else() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said("rebalance_recommendation"), ends=False, forceful=False)

    assert not scene.is_leaving("c1")
    assert scene.told == [
        ("NodeClaim", "SpotRebalanceRecommendation"),
        ("Node", "SpotRebalanceRecommendation"),
    ]


async def test_a_machine_that_does_not_answer_is_not_drained() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said("system_status", ("i-2",)), ends=True, forceful=True)

    found = scene.cluster.informers.claims.get("c2")
    assert found is not None
    assert found.metadata.annotations[names.TERMINATION_TIMESTAMP] == "2026-01-01T00:00:00Z"
    assert scene.is_leaving("c2")
    assert scene.told[0] == ("NodeClaim", "InstanceUnhealthy")


async def test_a_claim_that_is_leaving_already_is_not_deleted_again() -> None:
    scene = Scene()
    await scene.client.delete(NODE_CLAIMS, "c1")
    before = len(scene.client.calls)

    await scene.interruptions.handle(Said("instance_terminated"), ends=True, forceful=False)

    assert len(scene.client.calls) == before


async def test_a_claim_that_went_meanwhile_is_no_trouble_and_other_failures_are_raised() -> None:
    scene = Scene()
    scene.client.fail("delete", "nodeclaims", NotFoundError("gone", status=404), ValueError("a bug"))

    await scene.interruptions.handle(Said(), ends=True, forceful=False)
    assert scene.decisions.since() == ()
    with pytest.raises(ValueError, match="a bug"):
        await scene.interruptions.handle(Said(), ends=True, forceful=False)


async def test_an_instance_that_ends_before_its_node_joined_is_left_to_who_waits_for_it() -> None:
    scene = Scene()

    await scene.interruptions.handle(Said("instance_terminated", ("i-2",)), ends=True, forceful=False)
    await scene.interruptions.handle(Said("instance_terminated", ("i-1",)), ends=True, forceful=False)

    assert not scene.is_leaving("c2")
    assert scene.is_leaving("c1")
