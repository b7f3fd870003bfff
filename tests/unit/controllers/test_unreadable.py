# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from karpenter.controllers.patches import reread
from karpenter.controllers.termination.podlists import pods_left
from karpenter.controllers.unreadable import UnreadableObjects
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder, UnreadableError
from karpenter.kube.kinds import NAMESPACES, NODE_CLAIMS, NODES, PODS
from karpenter.state import candidates
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, pod

YEAR_0 = {"type": "Odd", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"}


def odd(name: str, node_name: str = "", **status: Any) -> dict[str, Any]:
    """An object that does not decode."""
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": 5},
        "spec": {"nodeName": node_name},
        "status": {"conditions": [YEAR_0], **status},
    }


async def test_an_unreadable_object_is_told_so_on_itself_once() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    recorder = Recorder(client, clock=clock)
    for kind in (NODE_CLAIMS, PODS, NAMESPACES):
        client.store(kind, odd("odd"))
    task = asyncio.ensure_future(UnreadableObjects(cluster=cluster, recorder=recorder, clock=clock).run())

    await clock.advance(60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    told = {each.subject.kind: each for each in recorder._queue}
    assert len(recorder._queue) == 3
    assert told["NodeClaim"].subject.uid == "uid-odd"
    assert {each.reason for each in told.values()} == {"Unreadable"}
    assert told["NodeClaim"].message.endswith("no instance and no NodeClaim is garbage collected")
    assert "its instance is not ended" in told["Pod"].message
    assert told["Namespace"].message.endswith("it counts as it was read last")


async def test_an_unreadable_pod_keeps_its_node() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    for name in ("n1", "n2"):
        client.store(NODE_CLAIMS, claim(f"c-{name}", provider_id=name, nodeName=name))
        client.store(NODES, node(name, name))
    client.store(PODS, odd("odd", "n1"))

    assert {each.name: each.do_not_disrupt for each in candidates(cluster)} == {"n1": True, "n2": False}


async def test_pods_that_keep_a_node_are_those_of_the_server_and_unreadable_ones_unless_over_or_late() -> (
    None
):
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    client.informers = None
    client.store(PODS, pod("web", "n1", phase="Running"))
    client.store(PODS, pod("done", "n1", phase="Succeeded"))
    client.store(PODS, pod("elsewhere", "n2", phase="Running"))
    client.store(PODS, odd("odd", "n1"))
    client.store(PODS, odd("over", "n1", phase="Failed"))
    now = clock.now()
    clock.tick(1)

    left = await pods_left(client, cluster, "n1", now)
    late = await pods_left(client, cluster, "n1", clock.now(), deadline=now)

    assert left == ("shop/web", "/odd, which cannot be read")
    assert late == ("shop/web",)
    assert [each.metadata.name for each in cluster.pods_on("n1")] == ["web", "done"]


async def test_an_object_that_is_there_and_cannot_be_read_is_not_gone() -> None:
    client, _ = paper_cluster()
    client.store(NODES, odd("n1"))

    with pytest.raises(UnreadableError, match="Node n1 cannot be read"):
        await reread(client, NODES, "n1")
    assert await reread(client, NODES, "n2") is None
