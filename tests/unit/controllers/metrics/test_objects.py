# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

from karpenter.api import labels as names
from karpenter.controllers.metrics import ObjectMetrics
from karpenter.kit.clock import FakeClock
from karpenter.observe import Detail, Metrics
from karpenter.observe.lifetimes import KEPT_S
from tests.unit.state.worlds import claim, cluster, node, pod, put, remove, stored_class, stored_pool

OURS = {names.NODEPOOL: "default", names.ZONE: "us-west-2a", names.INSTANCE_CPU: "4"}


class Scene:
    """A cluster that is read into metrics."""

    def __init__(self, *details: Detail) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics(details=details)
        self.world = cluster(self.clock)
        self.leads = True
        self.objects = ObjectMetrics(self.world, self.metrics, self.clock, is_leading=lambda: self.leads)

    def series(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The series of a metric by those of their labels that have a value."""
        return {
            tuple(sorted((key, value) for key, value in each.labels.items() if value)): each.value
            for family in self.metrics.registry.collect()
            for each in family.samples
            if each.name == name
        }

    def value(self, metric: str, **labels: str) -> float | None:
        """The value of the one series that has these labels."""
        found = [value for key, value in self.series(metric).items() if set(labels.items()) <= set(key)]
        return found[0] if len(found) == 1 else None


async def test_pools_are_shown_in_cores_and_bytes_and_go_when_they_are_deleted() -> None:
    scene = Scene()
    pool = stored_pool(limits={"cpu": "1500m", "ephemeral-storage": "1Gi", "memory": "nonsense"})
    put(scene.world, stored_class(), pool, stored_pool("empty"))
    put(scene.world, node("n1", "p1", OURS, capacity={"cpu": "4", "memory": "16Gi"}))
    await scene.objects.measure()

    of = {"nodepool": "default"}
    assert scene.value("karpenter_nodepools_limit", resource_type="cpu", **of) == 1.5
    assert scene.value("karpenter_nodepools_limit", resource_type="ephemeral_storage", **of) == 2**30
    assert scene.value("karpenter_nodepools_limit", resource_type="memory", **of) is None
    assert scene.value("karpenter_nodepools_usage", resource_type="cpu", **of) == 4
    assert scene.value("karpenter_nodepools_usage", resource_type="memory", **of) == 16 * 2**30
    assert scene.value("karpenter_nodepools_usage", resource_type="nodes", **of) == 1
    assert scene.value("karpenter_nodepools_usage", resource_type="nodes", nodepool="empty") == 0
    remove(scene.world, pool)
    await scene.objects.measure()
    assert scene.value("karpenter_nodepools_limit", resource_type="cpu", **of) is None
    assert scene.value("karpenter_nodepools_usage", resource_type="cpu", **of) is None


async def test_nodes_are_shown_with_their_labels_and_loads() -> None:
    scene = Scene(Detail.NODES)
    daemon = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]}
    born = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    machine = node(
        "n1",
        "p1",
        OURS,
        metadata=born,
        capacity={"cpu": "4", "memory": "16Gi"},
        allocatable={"cpu": "3500m", "memory": "12Gi", "pods": "29"},
    )
    put(scene.world, machine, node("foreign", allocatable={"cpu": "no amount"}))
    put(scene.world, pod("web", "n1", phase="Running"), pod("over", "n1", phase="Succeeded"))
    put(scene.world, pod("agent", "n1", phase="Running", metadata=daemon))
    odd = [{"name": "c", "resources": {"requests": {"cpu": "no amount"}}}]
    put(scene.world, pod("odd", "n1", phase="Running", containers=odd))
    scene.clock.tick(60)
    await scene.objects.measure()

    of = {
        "node_name": "n1",
        "nodepool": "default",
        "zone": "us-west-2a",
        "instance_cpu": "4",
        "managed": "true",
    }
    cpu = {**of, "resource_type": "cpu"}
    assert scene.value("karpenter_nodes_allocatable", **cpu) == 3.5
    assert scene.value("karpenter_nodes_system_overhead", **cpu) == 0.5
    assert scene.value("karpenter_nodes_total_pod_requests", **cpu) == 1.0
    assert scene.value("karpenter_nodes_total_daemon_requests", **cpu) == 0.5
    pods = {**of, "resource_type": "pods"}
    assert scene.value("karpenter_nodes_total_pod_limits", **pods) == 2
    assert scene.value("karpenter_nodes_total_daemon_limits", **pods) == 1
    assert scene.value("karpenter_nodes_current_lifetime_seconds", **of) == 60
    assert scene.value("karpenter_nodes_total_pod_requests", node_name="foreign", resource_type="pods") == 0
    share = scene.value("karpenter_cluster_utilization_percent", resource_type="cpu")
    assert share == 100 * 1000 / 3500
    remove(scene.world, machine)
    await scene.objects.measure()
    assert scene.value("karpenter_nodes_current_lifetime_seconds", node_name="n1") is None
    assert scene.series("karpenter_cluster_utilization_percent") == {}


async def test_pods_are_shown_where_they_are_and_how_long_they_have_waited() -> None:
    scene = Scene(Detail.PODS)
    owner = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}]}
    born = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    put(scene.world, node("n1", "p1", OURS))
    waiting = pod("waiting", metadata=born)
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}]
    put(scene.world, waiting, pod("web", "n1", phase="Running", metadata=owner, conditions=ready))
    scene.clock.tick(10)
    scene.objects.times.seen([waiting])
    scene.clock.tick(5)
    await scene.objects.measure()

    web = {"name": "web", "namespace": "shop", "node": "n1", "nodepool": "default", "zone": "us-west-2a"}
    path = "/apis/apps/v1/namespaces/shop/replicasets/web"
    said = {"phase": "Running", "ready": "true", "scheduled": "true", "managed": "true"}
    assert scene.value("karpenter_pods_state", owner=path, **web, **said) == 1
    assert scene.value("karpenter_pods_state", name="waiting", scheduled="false", managed="false") == 1
    assert scene.value("karpenter_pods_unstarted_time_seconds", name="waiting") == 15
    assert scene.value("karpenter_pods_unbound_time_seconds", name="waiting") == 15
    name = "karpenter_pods_provisioning_scheduling_undecided_time_seconds"
    assert scene.value(name, name="waiting", namespace="shop") == 5
    scene.objects.times.decided([waiting], [])
    scene.clock.tick(1)
    await scene.objects.measure()
    assert scene.series(name) == {}
    assert scene.value("karpenter_pods_provisioning_unbound_time_seconds", name="waiting") == 1
    assert scene.value("karpenter_pods_provisioning_unstarted_time_seconds", name="waiting") == 1
    remove(scene.world, waiting)
    await scene.objects.measure()
    assert scene.series("karpenter_pods_unstarted_time_seconds") == {}
    assert scene.value("karpenter_pods_state", name="waiting") is None


async def test_a_replica_that_no_longer_leads_shows_no_objects() -> None:
    scene = Scene(Detail.NODES)
    scene.leads = False
    put(scene.world, stored_class(), stored_pool(), node("n1", "p1", OURS))
    await scene.objects.measure()
    assert scene.series("karpenter_nodepools_usage") == {}
    scene.leads = True
    await scene.objects.measure()
    assert scene.series("karpenter_nodepools_usage")
    scene.leads = False
    await scene.objects.measure()
    assert scene.series("karpenter_nodepools_usage") == {}
    assert scene.series("karpenter_nodes_allocatable") == {}


async def test_a_large_cluster_lets_others_have_their_turn() -> None:
    scene = Scene(Detail.PODS)
    put(scene.world, *(node(f"n{i}", f"p{i}") for i in range(250)), *(pod(f"p{i}") for i in range(250)))
    turns: list[int] = []

    async def other() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await scene.objects.measure()
    task.cancel()

    assert len(turns) >= 2
    assert len(scene.series("karpenter_pods_state")) == 250


async def test_what_is_counted_of_a_pool_or_node_class_goes_two_minutes_after_it_and_its_nodes() -> None:
    scene = Scene()
    pool, of_class = stored_pool("short"), stored_class("short")
    last: Any = claim("c1", "short")
    put(scene.world, pool, of_class, last, node("n2", "p2", {names.NODEPOOL: "short"}))
    scene.metrics.nodes_created.labels("short", "us-west-2a").inc()
    scene.metrics.userdata_bytes.labels("short").set(100)
    sweeping = asyncio.create_task(scene.objects.run())
    remove(scene.world, pool)
    remove(scene.world, of_class)
    remove(scene.world, node("n2", "p2", {names.NODEPOOL: "short"}))
    await scene.clock.advance(KEPT_S + 60)
    assert scene.series("karpenter_ec2nodeclasses_userdata_bytes") == {}
    assert scene.value("karpenter_nodes_created_total", nodepool="short") == 1
    remove(scene.world, last)
    await scene.clock.advance(KEPT_S + 60)
    sweeping.cancel()

    assert scene.series("karpenter_nodes_created_total") == {}
