# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from karpenter.api import labels as names
from karpenter.cloud.errors import (
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
    NodeClassNotReadyError,
)
from karpenter.cloud.protocol import LAUNCH_ATTEMPT
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.state import STORED_NODE_CLASSES
from tests.unit.controllers.lifecycle.scene import MACHINE, Scene
from tests.unit.state.worlds import claim


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


async def test_a_claim_waits_while_its_node_class_is_not_judged_yet() -> None:
    scene = Scene()
    scene.cloud.answers = [
        NodeClassNotReadyError("default", "NodeClassReadinessUnknown", "no conditions yet", is_undecided=True)
    ]

    again = await scene.lifecycle.reconcile("c1")

    assert again == 1.0
    assert scene.claim.metadata.deletion_timestamp is None
    assert scene.told == []
    await scene.lifecycle.reconcile("c1")
    assert scene.condition("Launched")[0] == "True"


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
