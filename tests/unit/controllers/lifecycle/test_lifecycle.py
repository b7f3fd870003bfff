# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import (
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
    NodeClaimNotFoundError,
    NodeClassNotReadyError,
)
from karpenter.cloud.protocol import LAUNCH_ATTEMPT, Machine
from karpenter.controllers.lifecycle import Lifecycle, LifecycleSettings
from karpenter.controllers.lifecycle.disarming import ANSWER
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.model.resources import CPU
from karpenter.observe import DecisionLog, Metrics
from karpenter.state import STORED_NODE_CLASSES
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, stored_class

MACHINE = Machine(
    "aws:///us-west-2a/i-1",
    image_id="ami-1",
    labels={names.INSTANCE_TYPE: "m5.large", names.ZONE: "us-west-2a", names.CAPACITY_TYPE: "on-demand"},
    annotations={names.EC2NODECLASS_HASH: "7"},
    capacity={CPU: 2000},
    allocatable={CPU: 1930},
)
READY = [{"type": "Ready", "status": "True"}]
JOINED = [
    {"key": names.UNREGISTERED_TAINT.key, "effect": "NoExecute"},
    {"key": "foreign", "effect": "NoSchedule"},
]
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
BOOTING: dict[str, Any] = {"taints": [*JOINED, NOT_READY], "conditions": []}


class Cloud:
    """Launches one machine, or fails as told."""

    name = "paper"

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[str] = []
        self.died = ""
        self.lists = True

    async def get(self, provider_id: str) -> Machine:
        """Look after it."""
        if self.died:
            raise NodeClaimNotFoundError(provider_id, hint=self.died, has_ended=True)
        if not self.lists:
            raise NodeClaimNotFoundError(provider_id)
        return MACHINE

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Give the next answer."""
        self.asked.append(f"{claim.metadata.name}/{node_class.metadata.name}")
        answer = self.answers.pop(0) if self.answers else MACHINE
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Machine)
        return answer


class Scene:
    """One claim and the controller that brings it to life."""

    def __init__(self, **settings: float) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.cloud = Cloud()
        self.recorder = Recorder(self.client, clock=self.clock)
        self.decisions = DecisionLog(self.clock)
        self.lifecycle = Lifecycle(
            client=self.client,
            cluster=self.cluster,
            cloud=self.cloud,  # type: ignore[arg-type]
            recorder=self.recorder,
            decisions=self.decisions,
            metrics=Metrics(),
            clock=self.clock,
            settings=LifecycleSettings(**settings),  # type: ignore[arg-type]
        )
        self.client.store(STORED_NODE_CLASSES, stored_class())
        created = {"creationTimestamp": "2026-01-01T00:00:00Z"}
        self.client.store(
            NODE_CLAIMS, claim("c1", metadata={**created, "finalizers": [names.TERMINATION_FINALIZER]})
        )

    @property
    def claim(self) -> NodeClaim:
        """The claim as it is stored."""
        found = self.cluster.informers.claims.get("c1")
        assert found is not None
        return found

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        return next(
            ((each.status, each.reason) for each in self.claim.status.conditions if each.type == kind),
            ("", ""),
        )

    def join(self, **parts: Any) -> None:
        """Let the node of the machine appear."""
        annotated = {"annotations": {ANSWER: "0"}}
        parts = {"taints": JOINED, "conditions": READY, "metadata": annotated, **parts}
        self.client.store(NODES, node("n1", MACHINE.provider_id, parts.pop("labels", {}), **parts))

    async def settle(self, times: int = 4) -> None:
        """Look at the claim a few times, and let the controller manager look at the node in between."""
        for _ in range(times):
            await self.lifecycle.reconcile("c1")
            await self.answer()

    async def answer(self) -> None:
        """Let the controller manager see the node as it is."""
        raw = self.client.raw_object(NODES, "n1")
        if raw is not None and ANSWER not in raw["metadata"].get("annotations", {}):
            await self.client.patch(NODES, "n1", {"metadata": {"annotations": {ANSWER: "0"}}})

    @property
    def taints(self) -> list[tuple[str, str]]:
        """The node's taints."""
        found = self.cluster.informers.nodes.get("n1")
        assert found is not None
        return [(each.key.rpartition("/")[2], each.effect) for each in found.spec.taints]

    @property
    def told(self) -> list[str]:
        """Reasons of the events."""
        return [each.reason for each in self.recorder._queue]


async def test_a_launch_fills_in_labels_annotations_and_status() -> None:
    scene = Scene()

    again = await scene.lifecycle.reconcile("c1")

    status = scene.claim.status
    assert again == 0.0
    assert (status.provider_id, status.image_id) == (MACHINE.provider_id, "ami-1")
    assert (status.capacity["cpu"], status.allocatable["cpu"]) == ("2", "1930m")
    assert scene.claim.metadata.labels[names.INSTANCE_TYPE] == "m5.large"
    assert scene.claim.metadata.annotations[names.EC2NODECLASS_HASH] == "7"
    assert scene.condition("Launched") == ("True", "Launched")
    assert [each.kind for each in scene.decisions.since()] == ["launch"]


async def test_a_claim_that_is_launched_is_not_launched_again() -> None:
    scene = Scene()
    await scene.settle()

    assert len(scene.cloud.asked) == 1
    assert scene.condition("Registered") == ("Unknown", "NodeNotFound")


async def test_a_node_that_joins_gets_what_its_claim_promised() -> None:
    scene = Scene()
    await scene.settle()
    scene.join()

    await scene.settle()

    joined = scene.cluster.informers.nodes.get("n1")
    assert joined is not None
    assert joined.metadata.labels[names.NODEPOOL] == "default"
    assert joined.metadata.labels[names.REGISTERED] == "true"
    assert joined.metadata.finalizers == (names.TERMINATION_FINALIZER,)
    assert joined.metadata.owner_references[0].name == "c1"
    assert [taint.key for taint in joined.spec.taints] == ["foreign", "team", "cni"]
    assert scene.claim.status.node_name == "n1"
    assert scene.condition("Registered")[0] == "True"
    assert scene.condition("Initialized") == ("Unknown", "StartupTaintsExist")
    assert scene.told == []


async def test_a_node_takes_no_pods_before_it_is_ready_and_the_scheduler_knows_which_are_for_it() -> None:
    scene = Scene()
    scene.cluster.nominations.is_telling = True
    scene.cluster.nominations.promise(["uid-a"], "c1", 900)
    await scene.settle()
    states = []

    scene.join(taints=[*JOINED, NOT_READY])
    scene.cluster.nominations.tell("c1")
    again_s = await scene.lifecycle.reconcile("c1")
    states.append(scene.condition("Registered")[0])
    scene.join()
    scene.cluster.nominations.untell("c1")
    await scene.settle()
    states.append(scene.condition("Registered")[0])
    scene.cluster.nominations.tell("c1")
    await scene.settle()
    states.append(scene.condition("Registered")[0])

    assert again_s == 15
    assert "True" not in states[:2]
    assert states[2] == "True"


@pytest.mark.parametrize(
    ("parts", "registered"),
    [
        (BOOTING, "True"),
        ({}, "Unknown"),
    ],
    ids=["while it boots", "ready already"],
)
async def test_where_pods_are_placed_early_a_node_registers_as_soon_as_it_joins_unless_the_scheduler_may_use_it(
    parts: dict[str, Any], registered: str
) -> None:
    scene = Scene(places_early=True)
    scene.cluster.nominations.is_telling = True
    scene.cluster.nominations.promise(["uid-a"], "c1", 900)
    await scene.settle()

    scene.join(**parts)
    await scene.settle()
    scene.clock.tick(1)
    await scene.settle()

    assert scene.condition("Registered")[0] == registered


async def test_a_node_whose_pods_cannot_be_told_waits_for_a_while_only() -> None:
    scene = Scene()
    scene.cluster.nominations.is_telling = True
    scene.cluster.nominations.promise(["uid-a"], "c1", 900)
    await scene.settle()
    scene.join()
    await scene.lifecycle.reconcile("c1")
    scene.clock.tick(15)

    await scene.settle()

    assert scene.condition("Registered")[0] == "True"


async def test_taints_are_left_alone_where_the_user_data_sets_them() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(labels={names.DO_NOT_SYNC_TAINTS: "true"})

    await scene.settle()

    joined = scene.cluster.informers.nodes.get("n1")
    assert joined is not None
    assert [taint.key for taint in joined.spec.taints] == ["foreign"]


async def test_a_node_is_ready_for_work_when_everything_is_there() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(labels={names.DO_NOT_SYNC_TAINTS: "true"})

    await scene.settle()

    joined = scene.cluster.informers.nodes.get("n1")
    assert joined is not None
    assert joined.metadata.labels[names.INITIALIZED] == "true"
    assert scene.condition("Initialized")[0] == "True"
    assert scene.condition("Ready")[0] == "True"
    assert [each.kind for each in scene.decisions.since()] == ["launch", "register", "initialize"]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (BOOTING, "NodeNotReady"),
        (
            {**BOOTING, "conditions": [{"type": "Ready", "status": "False", "message": "no CNI"}]},
            "NodeNotReady",
        ),
        ({"taints": [{"key": "cni", "effect": "NoSchedule"}]}, "StartupTaintsExist"),
        ({"taints": [NOT_READY]}, "KnownEphemeralTaintsExist"),
        ({"allocatable": {"cpu": "2"}}, "ResourceNotRegistered"),
    ],
)
async def test_what_a_node_lacks_is_its_claims_condition(parts: dict[str, Any], reason: str) -> None:
    scene = Scene()
    await scene.settle()
    scene.join(labels={names.DO_NOT_SYNC_TAINTS: "true"}, **parts)

    await scene.settle()

    assert scene.condition("Initialized") == ("Unknown", reason)


async def test_a_node_without_the_unregistered_taint_is_reported_and_taken() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(taints=[])

    await scene.settle()

    assert scene.told == ["UnregisteredTaintMissing"]
    assert scene.condition("Registered")[0] == "True"


async def test_two_nodes_of_one_instance_are_a_mistake_that_is_named() -> None:
    scene = Scene()
    await scene.settle()
    scene.join()
    scene.client.store(NODES, node("n2", MACHINE.provider_id))

    await scene.settle()

    assert scene.condition("Registered") == ("False", "MultipleNodesFound")


async def test_a_node_changed_by_another_at_the_same_time_is_tried_again() -> None:
    scene = Scene()
    await scene.settle()
    scene.join()
    modified = ConflictError("modified", status=409)
    scene.client.fail("patch", "nodes", modified)

    again_s = await scene.lifecycle.reconcile("c1")
    armed = scene.taints
    await scene.settle(1)
    scene.client.fail("patch", "nodes", modified)
    await scene.lifecycle.reconcile("c1")
    first = scene.condition("Registered")[0]
    await scene.lifecycle.reconcile("c1")

    assert (again_s, armed[0]) == (0.05, ("unregistered", "NoExecute"))
    assert (first, scene.condition("Registered")[0]) == ("Unknown", "True")


async def test_a_ready_node_registers_when_whoever_evicts_has_seen_that_it_evicts_no_more() -> None:
    scene = Scene()
    await scene.settle()
    scene.join()

    again_s = await scene.lifecycle.reconcile("c1")
    await scene.lifecycle.reconcile("c1")
    meanwhile, registered = scene.taints, scene.condition("Registered")[0]
    await scene.answer()
    await scene.lifecycle.reconcile("c1")

    assert again_s == 15
    assert (meanwhile, registered) == ([("foreign", "NoSchedule"), ("unregistered", "NoSchedule")], "Unknown")
    assert "unregistered" not in dict(scene.taints)
    assert scene.condition("Registered")[0] == "True"


async def test_a_node_that_nobody_answers_for_registers_after_a_while() -> None:
    scene = Scene()
    await scene.settle()
    scene.join()
    await scene.lifecycle.reconcile("c1")

    scene.clock.tick(15)
    await scene.lifecycle.reconcile("c1")

    assert scene.condition("Registered")[0] == "True"


async def test_where_nobody_can_be_asked_a_node_waits_for_a_moment() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(metadata={})

    again_s = await scene.lifecycle.reconcile("c1")
    meanwhile = scene.taints
    scene.clock.tick(0.25)
    await scene.lifecycle.reconcile("c1")

    assert (again_s, meanwhile[-1]) == (0.25, ("unregistered", "NoSchedule"))
    assert scene.condition("Registered")[0] == "True"


async def test_a_node_that_boots_registers_at_once_for_the_control_plane_will_look_at_it_again() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(**BOOTING)

    await scene.lifecycle.reconcile("c1")

    assert scene.condition("Registered")[0] == "True"
    assert "unregistered" not in dict(scene.taints)


async def test_what_a_controller_that_died_left_on_a_node_is_finished_by_the_next() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(taints=[{"key": names.UNREGISTERED_TAINT.key, "effect": "NoSchedule"}])

    await scene.lifecycle.reconcile("c1")
    asked = scene.condition("Registered")[0]
    await scene.settle(2)

    assert asked == "Unknown"
    assert scene.condition("Registered")[0] == "True"
    assert "unregistered" not in dict(scene.taints)
    assert scene.told == []


async def test_our_taint_goes_from_a_node_that_another_program_has_registered() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(labels={names.DO_NOT_SYNC_TAINTS: "true"})
    await scene.settle()

    scene.join(taints=[{"key": names.UNREGISTERED_TAINT.key, "effect": "NoSchedule"}])
    await scene.lifecycle.reconcile("c1")

    assert scene.taints == []


@pytest.mark.parametrize(
    ("error", "event", "reason"),
    [
        (InsufficientCapacityError("all sold out"), "InsufficientCapacityError", "insufficient_capacity"),
        (
            NodeClassNotReadyError("default", "SubnetsNotFound", "no subnets"),
            "NodeClassNotReady",
            "nodeclass_not_ready",
        ),
    ],
)
async def test_a_claim_that_nothing_can_be_bought_for_goes(error: Exception, event: str, reason: str) -> None:
    scene = Scene()
    scene.cloud.answers = [error]
    scene.cluster.nominations.promise(["p1"], "c1", 100)

    await scene.lifecycle.reconcile("c1")

    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.told == [event]
    assert scene.decisions.since()[-1].reason == reason
    assert scene.cluster.nominations.member_of("p1") == ""


async def test_a_claim_without_its_node_class_goes() -> None:
    scene = Scene()
    await scene.client.delete(STORED_NODE_CLASSES, "default")

    await scene.lifecycle.reconcile("c1")

    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.cloud.asked == []


async def test_a_refusal_is_kept_as_a_condition_and_the_next_try_is_another_attempt() -> None:
    scene = Scene()
    scene.cloud.answers = [LaunchError("key is disabled", reason="InvalidKMSKey", hint="enable the key")]

    with pytest.raises(LaunchError):
        await scene.lifecycle.reconcile("c1")

    assert scene.condition("Launched") == ("Unknown", "InvalidKMSKey")
    assert scene.claim.metadata.annotations[LAUNCH_ATTEMPT] == "1"
    assert scene.told == ["InvalidKMSKey"]
    assert scene.claim.metadata.deletion_timestamp is None


async def test_a_launch_that_may_still_come_to_light_is_waited_for() -> None:
    scene = Scene()
    scene.cloud.answers = [LaunchPendingError("not seen yet", retry_after_s=7)]

    assert await scene.lifecycle.reconcile("c1") == 7


async def test_a_claim_that_cannot_be_launched_in_time_goes() -> None:
    scene = Scene()
    scene.cloud.answers = [LaunchPendingError("not seen yet", retry_after_s=7)]
    await scene.lifecycle.reconcile("c1")
    scene.clock.tick(301)

    await scene.lifecycle._late("c1")

    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.decisions.since()[-1].reason == "launch_timeout"


async def test_a_node_that_does_not_join_in_time_takes_its_claim_along() -> None:
    scene = Scene()
    await scene.settle()
    left = await scene.lifecycle.reconcile("c1")
    scene.clock.tick(901)

    await scene.lifecycle.reconcile("c1")

    assert left == pytest.approx(10)
    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.decisions.since()[-1].reason == "registration_timeout"


async def test_a_node_that_is_never_ready_goes_only_where_that_is_asked_for() -> None:
    patient, strict = Scene(), Scene(initialization_timeout_s=1800)
    for scene in (patient, strict):
        await scene.settle()
        scene.join(**BOOTING)
        await scene.settle()
        scene.clock.tick(1801)
        await scene.lifecycle.reconcile("c1")

    assert patient.claim.metadata.deletion_timestamp is None
    assert strict.claim.metadata.deletion_timestamp is not None
    assert strict.decisions.since()[-1].reason == "initialization_timeout"


async def test_a_claim_made_by_hand_gets_our_finalizer_before_anything_is_launched() -> None:
    scene = Scene()
    scene.client.store(NODE_CLAIMS, claim("bare"))

    await scene.lifecycle.reconcile("bare")

    first = scene.client.writes("patch", "nodeclaims")[0]
    assert first.body["metadata"]["finalizers"] == [names.TERMINATION_FINALIZER]


async def test_claims_that_are_gone_or_going_are_left_alone() -> None:
    scene = Scene()
    await scene.client.delete(NODE_CLAIMS, "c1")

    assert await scene.lifecycle.reconcile("c1") is None
    assert await scene.lifecycle.reconcile("nobody") is None
    assert scene.cloud.asked == []


async def test_it_works_by_itself_from_a_claim_to_a_ready_node() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.lifecycle.run())
    await scene.clock.settle()
    scene.join(labels={names.DO_NOT_SYNC_TAINTS: "true"})
    for _ in range(20):
        await scene.clock.advance(0.2)
        await scene.answer()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.condition("Ready")[0] == "True"
    assert len(scene.cloud.asked) == 1


async def test_a_failure_is_tried_again() -> None:
    scene = Scene()
    scene.cloud.answers = [ValueError("a bug"), LaunchError("no"), MACHINE]
    task = asyncio.ensure_future(scene.lifecycle.run())
    for _ in range(40):
        await scene.clock.advance(0.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.condition("Launched")[0] == "True"


async def test_an_instance_that_died_before_it_joined_is_told_with_the_clouds_words() -> None:
    scene = Scene()
    await scene.settle()
    scene.cloud.died = "EC2 says of its end: Client.InvalidKMSKey.InvalidState"

    await scene.lifecycle.reconcile("c1")

    assert scene.condition("Registered") == ("False", "InstanceDied")
    message = next(each.message for each in scene.claim.status.conditions if each.type == "Registered")
    assert "Client.InvalidKMSKey.InvalidState" in message
    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.told == ["InstanceDied"]
    assert scene.decisions.since()[-1].reason == "instance_died"


async def test_an_instance_that_the_clouds_lists_lack_is_not_given_up_until_they_had_time() -> None:
    scene = Scene()
    await scene.settle()
    scene.cloud.lists = False

    await scene.clock.advance(50)
    await scene.lifecycle.reconcile("c1")
    kept = scene.claim.metadata.deletion_timestamp is None
    await scene.clock.advance(20)
    await scene.lifecycle.reconcile("c1")

    assert kept
    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.told == ["InstanceDied"]


async def test_a_launch_that_is_refused_again_and_again_is_asked_for_ever_more_rarely_and_given_up() -> None:
    scene = Scene(launch_timeout_s=120.0)
    scene.cloud.answers = [LaunchError("no", reason="Unauthorized") for _ in range(100)]
    task = asyncio.ensure_future(scene.lifecycle.run())

    for _ in range(60):
        await scene.clock.advance(1)
    asked_in_a_minute = len(scene.cloud.asked)
    for _ in range(130):
        await scene.clock.advance(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert 4 <= asked_in_a_minute <= 8
    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.decisions.since()[-1].reason == "launch_timeout"
