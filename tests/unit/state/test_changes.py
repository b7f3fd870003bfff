# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.kit.clock import FakeClock
from karpenter.kube.kinds import NODE_CLAIMS, NODES, POD_DISRUPTION_BUDGETS, PODS
from karpenter.state import STORED_NODE_POOLS, candidates, price_of
from tests.unit.controllers.paper import PaperClient, paper_cluster
from tests.unit.state.worlds import catalogue, claim, node, pod, stored_pool

LONG_AGO = "2025-12-31T00:00:00Z"


def scene() -> tuple[PaperClient, Any]:
    """A cluster with one of everything."""
    client, cluster = paper_cluster(FakeClock())
    client.store(STORED_NODE_POOLS, stored_pool())
    client.store(NODE_CLAIMS, claim("c1", provider_id="p1", nodeName="n1"))
    joined = {names.NODEPOOL: "default", names.REGISTERED: "true", names.INITIALIZED: "true"}
    client.store(NODES, node("n1", "p1", joined))
    client.store(PODS, pod("a", "n1", phase="Running"))
    budget = {"metadata": {"name": "b", "namespace": "shop"}, "spec": {}, "status": {"disruptionsAllowed": 1}}
    client.store(POD_DISRUPTION_BUDGETS, budget)
    return client, cluster


@pytest.mark.parametrize(
    ("kind", "name", "change", "counts"),
    [
        (NODES, "n1", {"metadata": {"annotations": {"a": "b"}}}, False),
        (NODES, "n1", {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}, False),
        (NODES, "n1", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, True),
        (NODES, "n1", {"spec": {"unschedulable": True}}, True),
        (NODES, "n1", {"metadata": {"labels": {"a": "b"}}}, True),
        (NODE_CLAIMS, "c1", {"metadata": {"annotations": {"a": "b"}}}, False),
        (NODE_CLAIMS, "c1", {"metadata": {"annotations": {names.DO_NOT_DISRUPT: "true"}}}, True),
        (NODE_CLAIMS, "c1", {"status": {"conditions": [{"type": "Drifted", "status": "True"}]}}, True),
        (PODS, "a", {"metadata": {"annotations": {"a": "b"}}}, False),
        (PODS, "a", {"metadata": {"annotations": {names.DO_NOT_DISRUPT: "true"}}}, True),
        (PODS, "a", {"status": {"phase": "Succeeded"}}, True),
        (POD_DISRUPTION_BUDGETS, "b", {"status": {"currentHealthy": 3}}, False),
        (POD_DISRUPTION_BUDGETS, "b", {"status": {"disruptionsAllowed": 0}}, True),
        (STORED_NODE_POOLS, "default", {"status": {"nodes": 7}}, False),
        (STORED_NODE_POOLS, "default", {"spec": {"weight": 7}}, True),
    ],
)
async def test_only_what_a_decision_could_depend_on_counts(
    kind: Any,
    name: str,
    change: dict[str, Any],
    counts: bool,  # noqa: FBT001
) -> None:
    client, cluster = scene()
    before, heard = cluster.stamp.value, []
    cluster.stamp.listen(lambda: heard.append(True))

    await client.edit(kind, name, change, "shop" if kind.namespaced else "")

    assert (cluster.stamp.value > before) == counts
    assert bool(heard) == counts


def test_pods_of_daemon_sets_count_for_nothing() -> None:
    client, cluster = scene()
    before = cluster.stamp.value
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
    made = {"metadata": {"name": "d", "namespace": "shop", "uid": "d", "ownerReferences": [owner]}}

    client.store(PODS, {**made, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})

    assert cluster.stamp.value == before
    assert cluster.pod_events.last(next(iter(cluster.informers.claims))) is None


async def test_the_last_pod_event_is_when_a_pod_came_or_went() -> None:
    client, cluster = scene()
    [known] = cluster.informers.claims
    clock = client._clock
    heard: list[str] = []
    cluster.pod_events.listen(heard.append)
    assert cluster.pod_events.last(known) is None

    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": LONG_AGO}
    older = {"metadata": {"name": "b", "namespace": "shop", "uid": "b"}, "spec": {"nodeName": "n1"}}
    client.store(PODS, {**older, "status": {"phase": "Running", "conditions": [bound]}})
    first = cluster.pod_events.last(known)
    assert first is not None
    assert first.isoformat() == "2025-12-31T00:00:00+00:00"
    await client.edit(PODS, "b", {"metadata": {"labels": {"a": "b"}}}, "shop")
    assert cluster.pod_events.last(known) == first
    await client.edit(PODS, "b", {"status": {"phase": "Succeeded"}}, "shop")
    assert cluster.pod_events.last(known) == clock.now()

    assert heard == ["n1", "n1"]
    await client.delete(NODES, "n1")
    assert cluster.pod_events.last(known) is None


async def test_a_member_is_described_for_a_decision() -> None:
    client, cluster = scene()
    conditions = [
        {"type": "Initialized", "status": "True", "lastTransitionTime": LONG_AGO},
        {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": LONG_AGO},
    ]
    born = {"creationTimestamp": LONG_AGO, "annotations": {names.DO_NOT_DISRUPT: "true"}}
    made = claim("c2", provider_id="p2", metadata=born, nodeName="n2", conditions=conditions)
    raw = client.store(NODE_CLAIMS, made)
    for text, seconds in (("1h", 3600.0), ("long", None)):
        changed = msgspec.structs.replace(
            raw, spec=msgspec.structs.replace(raw.spec, termination_grace_period=text)
        )
        client.store(NODE_CLAIMS, changed)
        found = next(each for each in candidates(cluster, retry_at={"c2": 5.0}) if each.claim == "c2")
        assert found.termination_grace_period_s == seconds

    assert found.name == "c2"
    assert (found.drifted, found.created) == ("AMIDrift", found.drifted_at)
    assert found.do_not_disrupt
    assert not found.leaving
    assert found.retry_at == 5.0
    client.store(NODES, node("foreign"))
    other = next(each for each in candidates(cluster) if each.claim == "c1")
    assert other.not_ready
    assert other.initialized_at is None
    assert len(candidates(cluster)) == 2


async def test_a_node_that_is_looked_at_again_is_shown_as_if_it_stayed() -> None:
    client, cluster = scene()
    taint = {"spec": {"taints": [{"key": names.DISRUPTED_TAINT.key, "effect": "NoSchedule"}]}}
    await client.edit(NODES, "n1", taint)
    client.store(NODES, node("n2"))
    cluster.nominations.promise(["uid-a"], "n2", 60.0)

    assert [view.name for view in cluster.snapshot({}).nodes] == ["n2"]
    staying = cluster.snapshot({}, staying=["n1"], unpromised=["uid-a"]).nodes
    shown = cluster.snapshot({}, shown=["n1"]).nodes

    assert [(view.name, view.taints, len(view.pods)) for view in staying] == [("n1", (), 1), ("n2", (), 0)]
    assert [len(view.taints) for view in shown] == [1, 0]
    assert len(shown[1].pods) == 1


def test_what_a_node_costs_follows_from_its_labels() -> None:
    known = catalogue()
    labels = {names.INSTANCE_TYPE: "m5.large", names.ZONE: "us-west-2a", names.CAPACITY_TYPE: "on-demand"}

    assert price_of(labels, known) == 0.1
    assert price_of({**labels, names.ZONE: "us-west-2z"}, known) is None
    assert price_of({**labels, names.CAPACITY_RESERVATION_ID: "cr-1"}, known) is None
