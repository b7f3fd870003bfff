# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from karpenter.api.core import Node, Pod
from karpenter.controllers.daemons import DaemonHints, hint, meant_for
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder
from karpenter.kube.kinds import DAEMON_SETS, NODES, PODS
from karpenter.observe import Metrics
from tests.unit.controllers.paper import paper_cluster

FARGATE = {"eks.amazonaws.com/compute-type": "fargate"}
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}


def daemon_pod(name: str = "agent-1", node: str = "n1", cpu: str = "500m") -> dict[str, Any]:
    """A pod as the DaemonSet controller makes it, left waiting by the scheduler."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {
        "metadata": {"name": name, "namespace": "kube-system", "uid": name, "ownerReferences": [OWNER]},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }


def node(labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A node with two cores and ten places."""
    return {
        "metadata": {"name": "n1", "labels": labels or {}},
        "status": {"allocatable": {"cpu": "2", "pods": "10"}},
    }


def read(document: dict[str, Any], kind: type[Any]) -> Any:
    """An object from its JSON."""
    return msgspec.convert(document, kind)


def test_a_pod_of_a_daemon_set_names_its_node() -> None:
    assert meant_for(read(daemon_pod(), Pod)) == "n1"
    assert meant_for(read({"metadata": {"name": "plain"}, "spec": {}}, Pod)) == ""


def test_on_fargate_the_hint_names_the_affinity_that_keeps_it_off() -> None:
    found = hint(read(daemon_pod(), Pod), read(node(FARGATE), Node), ())

    assert found is not None
    assert found.reason == "DaemonSetOnFargate"
    assert found.message == (
        "pods of DaemonSets do not run on the Fargate node n1; keep this one off with the node affinity"
        " eks.amazonaws.com/compute-type NotIn [fargate]"
    )


@pytest.mark.parametrize(
    ("claim", "cure"),
    [
        ("c1", "`kubectl delete nodeclaim c1` has it replaced by one with room for the DaemonSet"),
        ("", "the node is not ours; make room on it, or keep the DaemonSet off"),
    ],
)
def test_on_a_full_node_the_hint_says_what_it_lacks(claim: str, cure: str) -> None:
    tenant = read(daemon_pod("tenant", cpu="1800m"), Pod)

    found = hint(read(daemon_pod(), Pod), read(node(), Node), (tenant,), claim)

    assert found is not None
    assert found.message == f"node n1 lacks cpu: 500m asked, 200m free; {cure}"


def test_where_it_fits_nothing_is_said() -> None:
    assert hint(read(daemon_pod(), Pod), read(node(), Node), ()) is None


async def test_the_pod_and_its_daemon_set_are_told_once_and_nobody_whose_pod_is_bound() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    recorder = Recorder(client, clock=clock)
    hints = DaemonHints(cluster=cluster, recorder=recorder, metrics=Metrics(), clock=clock)
    client.store(NODES, node(FARGATE))
    client.store(DAEMON_SETS, {"metadata": {"name": "agent", "namespace": "kube-system", "uid": "u"}})
    bound = daemon_pod("agent-0")
    bound["spec"]["nodeName"] = "n1"
    client.store(PODS, bound)
    client.store(PODS, daemon_pod())
    task = asyncio.ensure_future(hints.run())

    await clock.advance(6)
    await clock.advance(100)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    told = [(each.subject.kind, each.subject.name, each.reason) for each in recorder._queue]
    assert told == [("Pod", "agent-1", "DaemonSetOnFargate"), ("DaemonSet", "agent", "DaemonSetOnFargate")]


async def test_a_pod_that_is_gone_or_fits_is_forgotten_or_looked_at_later() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    recorder = Recorder(client, clock=clock)
    hints = DaemonHints(cluster=cluster, recorder=recorder, metrics=Metrics(), clock=clock)
    client.store(NODES, node())
    client.store(PODS, daemon_pod())

    gone = await hints.reconcile("kube-system/nobody")
    fits = await hints.reconcile("kube-system/agent-1")

    assert gone is None
    assert fits == 300.0
    assert not recorder._queue
