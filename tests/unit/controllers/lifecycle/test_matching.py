# SPDX-License-Identifier: Apache-2.0
"""Machines that are not what was asked for, and Nodes that are not the machine's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.cloud.errors import CloudError, LaunchPendingError, NodeClaimNotFoundError
from karpenter.cloud.protocol import Machine
from karpenter.controllers.lifecycle.matching import unmet_requirement
from karpenter.kube import ForbiddenError
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.lifecycle.scene import JOINED, MACHINE, READY, Scene
from tests.unit.state.worlds import claim, node, pod, stored_pool

WHY = "EC2 calls the instance i-1 n1, not evil"


def forge(scene: Scene, name: str = "evil") -> None:
    """Let a Node appear that names the claim's instance and is not its node."""
    scene.cloud.mismatches[name] = WHY
    scene.client.store(
        NODES,
        node(
            name,
            MACHINE.provider_id,
            {},
            taints=JOINED,
            conditions=READY,
            metadata={"uid": f"uid-{name}"},
        ),
    )


def untaint(scene: Scene) -> None:
    """Let the startup taints of the true node go."""
    raw = scene.client.raw_object(NODES, "n1")
    assert raw is not None
    scene.client.store(NODES, {**raw, "spec": {**raw["spec"], "taints": []}})


async def test_a_forged_node_is_told_and_nothing_of_it_is_touched() -> None:
    scene = Scene()
    await scene.settle()
    forge(scene)
    before = scene.client.raw_object(NODES, "evil")

    await scene.settle()

    assert scene.client.raw_object(NODES, "evil") == before
    assert scene.client.writes("patch", "nodes") == ()
    assert scene.condition("Registered") == ("Unknown", "NodeRefused")
    told = [each for each in scene.recorder._queue if each.reason == "NodeRefused"]
    assert {each.subject.kind for each in told} == {"NodeClaim", "Node"}
    assert all(WHY in each.message for each in told)
    member = scene.cluster.member("evil")
    assert member is not None
    assert member.claim is None
    assert scene.cluster.member("c1").node is None  # type: ignore[union-attr]


async def test_the_claims_own_node_registers_beside_a_forged_one_that_came_first() -> None:
    scene = Scene()
    await scene.settle()
    forge(scene)
    await scene.settle()

    scene.join()
    await scene.settle()
    scene.clock.tick(1)
    await scene.settle()

    assert scene.condition("Registered")[0] == "True"
    assert scene.claim.status.node_name == "n1"
    untaint(scene)
    await scene.settle()
    assert scene.condition("Initialized")[0] == "True"
    assert names.REGISTERED not in (scene.client.raw_object(NODES, "evil") or {})["metadata"]["labels"]


async def test_a_node_forged_later_does_not_get_in_the_way_of_the_registered_one() -> None:
    scene = Scene()
    await scene.settle()
    scene.join(taints=[*JOINED, {"key": "cni", "effect": "NoSchedule"}])
    await scene.settle()
    scene.clock.tick(1)
    await scene.settle()
    forge(scene)
    untaint(scene)

    await scene.settle()

    assert scene.condition("Initialized")[0] == "True"
    assert scene.node.metadata.labels[names.INITIALIZED] == "true"


async def test_a_claim_with_a_forged_node_alone_still_hears_that_its_instance_died() -> None:
    scene = Scene()
    await scene.settle()
    forge(scene)
    await scene.settle()
    scene.cloud.died = "Client.InvalidKMSKey.InvalidState"

    await scene.settle()

    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.failures == ["InstanceDied"]


async def test_a_forged_node_that_is_gone_is_forgotten() -> None:
    scene = Scene()
    await scene.settle()
    forge(scene)
    await scene.settle()

    await scene.client.delete(NODES, "evil")
    await scene.settle()

    assert scene.condition("Registered") == ("Unknown", "NodeNotFound")
    assert scene.cluster._disowned == set()


async def test_a_node_waits_while_the_cloud_cannot_tell_its_name() -> None:
    scene = Scene()
    await scene.settle()
    scene.cloud.mismatches["n1"] = LaunchPendingError("not yet", retry_after_s=1)
    scene.join()

    assert await scene.lifecycle.reconcile("c1") == 1
    assert scene.client.writes("patch", "nodes") == ()

    scene.cloud.mismatches["n1"] = NodeClaimNotFoundError("i-1")
    await scene.lifecycle.reconcile("c1")
    assert scene.client.writes("patch", "nodes") == ()


def asking(*requirements: dict[str, Any], **labels: str) -> Any:
    """A claim with these requirements besides its own."""
    made = claim("c1", metadata={"labels": {names.NODEPOOL: "default", **labels}})
    wire = to_wire(made)
    wire["spec"]["requirements"] = [*wire["spec"]["requirements"], *requirements]
    return msgspec.convert(wire, type(made), strict=False)


@pytest.mark.parametrize(
    ("wanted", "unmet"),
    [
        (asking(), ""),
        (
            asking({"key": names.INSTANCE_TENANCY, "operator": "In", "values": ["dedicated"]}),
            f"{names.INSTANCE_TENANCY} In [dedicated] is asked for, and the machine has no such label",
        ),
        (
            asking({"key": names.ZONE, "operator": "In", "values": ["us-west-2b"]}),
            f"{names.ZONE} In [us-west-2b] is asked for, and the machine has us-west-2a",
        ),
        (asking({"key": names.INSTANCE_GPU_NAME, "operator": "DoesNotExist"}), ""),
        (asking({"key": "team", "operator": "In", "values": ["a", "b"]}), ""),
        (
            asking(
                {"key": names.PLACEMENT_GROUP_PARTITION, "operator": "In", "values": ["2"]},
                **{names.PLACEMENT_GROUP_PARTITION: ""},
            ),
            "",
        ),
        (asking({"key": "team", "operator": "In", "values": ["a"]}, team="a"), ""),
    ],
)
def test_a_machine_must_have_the_labels_that_its_claim_asks_for(wanted: Any, unmet: str) -> None:
    assert unmet_requirement(wanted, MACHINE) == unmet


async def test_a_machine_that_its_pods_could_not_use_is_a_failed_launch() -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_POOLS, stored_pool())
    scene.client.store(PODS, pod("web"))
    scene.cluster.nominations.promise(["uid-web"], "c1", 900)
    scene.cloud.answers = [replace(MACHINE, labels={**MACHINE.labels, names.CAPACITY_TYPE: "spot"})]

    await scene.lifecycle.reconcile("c1")

    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.claim.status.provider_id == MACHINE.provider_id
    assert scene.condition("Launched") == ("False", "LabelsDoNotMatch")
    assert scene.failures == ["LabelsDoNotMatch"]
    told = {(each.subject.kind, each.reason) for each in scene.recorder._queue}
    assert told == {
        ("NodePool", "LabelsDoNotMatch"),
        ("NodeClaim", "LabelsDoNotMatch"),
        ("Pod", "FailedScheduling"),
    }
    [words] = [each.message for each in scene.recorder._queue if each.subject.kind == "Pod"]
    assert words.startswith(
        "NodePool default makes no node: aws:///us-west-2a/i-1 is not what NodeClaim c1 asks"
    )


async def test_a_partition_that_is_not_the_one_asked_for_is_found_when_the_node_joins() -> None:
    scene = Scene()
    wanted = {"key": names.PLACEMENT_GROUP_PARTITION, "operator": "In", "values": ["2"]}
    held = {"finalizers": [names.TERMINATION_FINALIZER]}
    made = to_wire(asking(wanted, **{names.PLACEMENT_GROUP_PARTITION: ""}))
    scene.client.store(NODE_CLAIMS, {**made, "metadata": {**made["metadata"], **held}})
    await scene.settle()
    assert scene.condition("Launched")[0] == "True"
    scene.cloud.machine = replace(MACHINE, labels={**MACHINE.labels, names.PLACEMENT_GROUP_PARTITION: "1"})
    scene.join()

    await scene.settle()
    scene.clock.tick(1)
    await scene.settle()

    assert scene.claim.metadata.deletion_timestamp is not None
    assert scene.failures == ["LabelsDoNotMatch"]
    assert names.REGISTERED not in scene.node.metadata.labels


async def test_an_outage_is_told_on_the_claim_its_pool_and_its_pods_until_it_is_over() -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_POOLS, stored_pool())
    scene.client.store(PODS, pod("web"))
    scene.cluster.nominations.promise(["uid-web"], "c1", 900)
    error = CloudError("ec2 CreateFleet: no answer", hint="see the AWS Health Dashboard")

    scene.lifecycle._failed("c1", error, 1.0)

    [words] = {each.message for each in scene.recorder._queue if each.subject.kind == "Pod"}
    assert words == (
        "NodePool default makes no node: NodeClaim c1 is not launched: ec2 CreateFleet: no answer;"
        " see the AWS Health Dashboard"
    )
    assert {each.subject.kind for each in scene.recorder._queue} == {"Pod", "NodeClaim", "NodePool"}
    assert scene.lifecycle._problems.about("default")
    await scene.settle()
    assert scene.lifecycle._problems.about("default") == ()


async def test_what_holds_up_a_claim_later_is_told_on_it_and_what_passes_is_not() -> None:
    scene = Scene()
    await scene.settle()
    refused = ForbiddenError("admission webhook denied the request", status=403)

    scene.lifecycle._failed("c1", refused, 1.0)
    scene.lifecycle._failed("c1", ValueError("a defect"), 1.0)
    scene.lifecycle._failed("gone", refused, 1.0)

    assert [(each.subject.kind, each.reason) for each in scene.recorder._queue] == [
        ("NodeClaim", "ReconcileFailed")
    ]


async def test_a_cloud_that_does_not_answer_is_told_while_it_is_asked() -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_POOLS, stored_pool())
    asked = asyncio.Event()

    async def create(*_: Any) -> Machine:
        await asked.wait()
        return MACHINE

    scene.cloud.create = create  # type: ignore[assignment,method-assign]
    task = asyncio.ensure_future(scene.lifecycle.reconcile("c1"))
    await scene.clock.advance(14)
    assert scene.told == []

    await scene.clock.advance(2)

    assert scene.told == ["LaunchFailed", "LaunchFailed"]
    asked.set()
    assert await task == 0.0
    assert scene.lifecycle._problems.about("default") == ()
