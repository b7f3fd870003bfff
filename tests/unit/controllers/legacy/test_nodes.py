# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from karpenter.api import labels as names
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.legacy import CONVERTED_FROM, Hydration, OldNodeLabels
from karpenter.controllers.legacy.hydration import class_label
from karpenter.controllers.legacy.nodelabels import MACHINE_NAME
from karpenter.kit.clock import FakeClock
from karpenter.kube import NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import Metrics
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.paper import PaperClient, paper_cluster
from tests.unit.state.worlds import claim, node, stored_pool


def owned_pool() -> dict[str, Any]:
    """A NodePool that was made from a Provisioner."""
    pool: dict[str, Any] = msgspec.to_builtins(stored_pool())
    pool["metadata"] |= {
        "annotations": {CONVERTED_FROM: "Provisioner/default"},
        "ownerReferences": [{"kind": "Provisioner", "name": "default", "uid": "u"}],
    }
    return pool


class Scene:
    """A node of a pool, and who completes it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.client: PaperClient
        self.client, self.cluster = paper_cluster(self.clock)
        common: Any = {
            "client": self.client,
            "cluster": self.cluster,
            "metrics": self.metrics,
            "clock": self.clock,
        }
        self.labels = OldNodeLabels(**common, cluster_name="prod")
        self.hydration = Hydration(**common)

    def metadata(self, kind: Any, name: str) -> dict[str, Any]:
        """The metadata of an object as it is stored."""
        raw = self.client.raw_object(kind, name)
        assert raw is not None
        metadata: dict[str, Any] = raw["metadata"]
        return metadata

    async def run(self, controller: Any) -> None:
        """Let a controller work until it rests."""
        task = asyncio.ensure_future(controller.run())
        await self.clock.settle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_node_of_a_provisioner_gets_the_old_labels() -> None:
    scene = Scene()
    scene.client.store(NODE_CLAIMS, claim("default-x", provider_id="p1", imageID="ami-1"))
    scene.client.store(NODES, node("n1", "p1"))
    await scene.run(scene.labels)
    assert scene.client.calls == []

    scene.client.store(STORED_NODE_POOLS, owned_pool())
    await scene.run(scene.labels)

    metadata = scene.metadata(NODES, "n1")
    assert metadata["labels"] == {
        names.PROVISIONER_NAME: "default",
        MACHINE_NAME: "default-x",
        names.INSTANCE_PODS: "58",
        names.INSTANCE_AMI_ID: "ami-1",
    }
    assert metadata["annotations"] == {names.MANAGED_BY: "prod"}
    assert len(scene.client.calls) == 1


async def test_a_node_of_a_nodepool_is_left_alone() -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_POOLS, stored_pool())
    scene.client.store(NODE_CLAIMS, claim("c1", provider_id="p1"))
    scene.client.store(NODES, node("n1", "p1"))
    scene.client.store(NODES, node("foreign", "p2"))

    await scene.run(scene.labels)

    assert scene.client.calls == []


async def test_what_is_not_known_yet_is_labelled_later() -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_POOLS, owned_pool())
    scene.client.store(NODES, node("n1", "p1", allocatable={}))
    scene.client.store(NODE_CLAIMS, claim("c1", provider_id="p1"))
    await scene.run(scene.labels)
    assert names.INSTANCE_AMI_ID not in scene.metadata(NODES, "n1")["labels"]

    scene.client.store(
        NODE_CLAIMS, claim("c1", provider_id="p1", imageID="ami-1", allocatable={"pods": "11"})
    )
    await scene.run(scene.labels)

    assert scene.metadata(NODES, "n1")["labels"][names.INSTANCE_AMI_ID] == "ami-1"
    assert scene.metadata(NODES, "n1")["labels"][names.INSTANCE_PODS] == "11"


async def test_a_claim_and_its_node_get_the_label_of_their_class() -> None:
    scene = Scene()
    scene.client.store(NODE_CLAIMS, claim("c1", provider_id="p1"))
    scene.client.store(NODES, node("n1", "p1", {names.REGISTERED: "true"}))
    scene.client.store(NODES, node("n2", "p2", {names.REGISTERED: "true"}))

    await scene.run(scene.hydration)

    assert scene.metadata(NODE_CLAIMS, "c1")["labels"][names.EC2NODECLASS] == "default"
    assert scene.metadata(NODES, "n1")["labels"][names.EC2NODECLASS] == "default"
    assert names.EC2NODECLASS not in scene.metadata(NODES, "n2")["labels"]
    scene.client.calls.clear()
    await scene.hydration.reconcile("c1")
    assert scene.client.calls == []


async def test_a_label_that_is_there_is_left_and_an_unregistered_node_is_not_ours_yet() -> None:
    scene = Scene()
    labelled = {"labels": {names.NODEPOOL: "default", names.EC2NODECLASS: "other"}}
    scene.client.store(NODE_CLAIMS, claim("c1", provider_id="p1", metadata=labelled))
    scene.client.store(NODES, node("n1", "p1"))

    await scene.run(scene.hydration)

    assert scene.client.calls == []


def test_a_claim_written_through_v1beta1_means_an_ec2nodeclass() -> None:
    made = claim("c1")
    reference = msgspec.structs.replace(made.spec.node_class_ref, group="")
    old: NodeClaim = msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, node_class_ref=reference)
    )

    assert class_label(old) == {names.EC2NODECLASS: "default"}


async def test_what_went_meanwhile_is_no_trouble_and_failures_are_counted() -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_POOLS, owned_pool())
    scene.client.store(NODE_CLAIMS, claim("c1", provider_id="p1"))
    scene.client.store(NODES, node("n1", "p1"))
    scene.client.fail("patch", "nodes", NotFoundError("gone", status=404))
    scene.client.fail("patch", "nodeclaims", NotFoundError("gone", status=404))

    assert await scene.labels.reconcile("n1") is None
    assert await scene.hydration.reconcile("c1") is None
    assert await scene.hydration.reconcile("nobody") is None
    assert await scene.labels.reconcile("nobody") is None
    scene.client.fail("patch", "nodes", ValueError("x"))
    scene.client.fail("patch", "nodeclaims", ValueError("x"))
    await scene.run(scene.labels)
    await scene.run(scene.hydration)

    errors = scene.metrics.reconcile_errors
    assert errors.labels("legacy.nodelabels")._value.get() == 1
    assert errors.labels("nodeclaim.hydration")._value.get() == 1


async def test_a_pool_that_goes_or_was_ours_before_relabels_nobody() -> None:
    scene = Scene()
    scene.client.store(STORED_NODE_POOLS, owned_pool())
    await scene.run(scene.labels)
    await scene.client.patch(STORED_NODE_POOLS, "default", {"spec": {"weight": 1}})
    await scene.client.delete(STORED_NODE_POOLS, "default")

    assert len(scene.labels._queue) == 0
