# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.kube import ConflictError
from karpenter.kube.kinds import NODES
from tests.unit.controllers.lifecycle.scene import BOOTING, JOINED, MACHINE, NOT_READY, Scene
from tests.unit.state.worlds import node


async def test_a_node_that_joins_gets_what_its_claim_promised() -> None:
    scene = Scene()
    await scene.settle()
    scene.join()

    await scene.settle()

    assert scene.node.metadata.labels[names.NODEPOOL] == "default"
    assert scene.node.metadata.labels[names.REGISTERED] == "true"
    assert scene.node.metadata.finalizers == (names.TERMINATION_FINALIZER,)
    assert scene.node.metadata.owner_references[0].name == "c1"
    assert [taint.key for taint in scene.node.spec.taints] == ["foreign", "team", "cni"]
    assert scene.claim.status.node_name == "n1"
    assert scene.condition("Registered")[0] == "True"
    assert scene.condition("Initialized") == ("Unknown", "StartupTaintsExist")
    assert scene.told == []


async def test_a_node_registers_once_the_partition_that_ec2_chose_is_known() -> None:
    scene = Scene()
    key = names.PLACEMENT_GROUP_PARTITION
    scene.cloud.answers = [replace(MACHINE, labels={**MACHINE.labels, key: ""})]
    await scene.settle()
    scene.join()
    states = []

    scene.cloud.lists = False
    await scene.settle()
    states.append(scene.condition("Registered")[0])
    scene.cloud.lists = True
    await scene.settle()
    states.append(scene.condition("Registered")[0])
    scene.cloud.machine = replace(MACHINE, labels={**MACHINE.labels, key: "3"})
    await scene.settle()

    assert states == ["Unknown", "Unknown"]
    assert scene.condition("Registered")[0] == "True"
    assert (scene.claim.metadata.labels[key], scene.node.metadata.labels[key]) == ("3", "3")


async def test_a_node_that_joins_does_not_wait_for_a_cloud_that_answers_late() -> None:
    scene = Scene()
    answered = asyncio.Event()
    get = scene.cloud.get

    async def late(provider_id: str) -> Any:
        await answered.wait()
        return await get(provider_id)

    scene.cloud.get = late  # type: ignore[method-assign]
    await scene.lifecycle.reconcile("c1")
    look = asyncio.ensure_future(scene.lifecycle.reconcile("c1"))
    await scene.clock.advance(2)
    scene.join()
    await look

    await scene.settle()

    assert scene.condition("Registered")[0] == "True"


async def test_an_answer_that_came_late_still_tells_of_a_death() -> None:
    scene = Scene()
    answered = asyncio.Event()
    get = scene.cloud.get

    async def late(provider_id: str) -> Any:
        await answered.wait()
        return await get(provider_id)

    scene.cloud.get = late  # type: ignore[method-assign]
    await scene.lifecycle.reconcile("c1")
    look = asyncio.ensure_future(scene.lifecycle.reconcile("c1"))
    await scene.clock.advance(2)
    early = await look
    scene.cloud.died = "Client.InstanceInitiatedShutdown"
    answered.set()
    await scene.clock.advance(0)
    await scene.lifecycle.reconcile("c1")

    assert early is not None
    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.told == ["InstanceDied"]


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

    assert [taint.key for taint in scene.node.spec.taints] == ["foreign"]


async def test_a_node_is_ready_for_work_when_everything_is_there() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(labels={names.DO_NOT_SYNC_TAINTS: "true"})

    await scene.settle()

    assert scene.node.metadata.labels[names.INITIALIZED] == "true"
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
