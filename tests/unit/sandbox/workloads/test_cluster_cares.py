# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from cryptography import x509

from karpenter.sandbox.workloads.budgets import Budgets
from karpenter.sandbox.workloads.discovery import discover
from karpenter.sandbox.workloads.garbage import GarbageCollector
from karpenter.sandbox.workloads.housekeeping import (
    Accounts,
    EventExpiry,
    PodCollector,
    stand_in_authority,
)
from karpenter.sandbox.workloads.namespaces import Namespaces
from karpenter.sandbox.workloads.nodelifecycle import NodeLifecycle, TaintEviction, taints_for
from karpenter.sandbox.workloads.resources import (
    BUDGET,
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    SERVICE_ACCOUNT,
    Wire,
    condition,
    is_deleted,
    owner_reference,
)
from karpenter.sandbox.workloads.settings import Settings
from tests.unit.sandbox.workloads.fakeserver import Stage


def _node(name: str = "n0", **spec: Any) -> Wire:
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "x"}]},
    }


def _pod(name: str, *, node: str = "", tolerations: list[Wire] | None = None, **labels: str) -> Wire:
    spec: Wire = {"containers": [{"name": "c"}], "tolerations": tolerations or []}
    if node:
        spec["nodeName"] = node
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Running", "conditions": [ready]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def _collector(stage: Stage) -> GarbageCollector:
    collector = GarbageCollector(stage.world)
    for each in (DEPLOYMENT, REPLICA_SET, POD):
        collector.add(each)
    return collector


async def _family(stage: Stage) -> None:
    top = await stage.make(DEPLOYMENT, {"metadata": {"name": "top"}, "spec": {}})
    owners = [owner_reference(DEPLOYMENT, top)]
    middle = await stage.make(
        REPLICA_SET, {"metadata": {"name": "middle", "ownerReferences": owners}, "spec": {}}
    )
    owners = [owner_reference(REPLICA_SET, middle)]
    await stage.make(POD, {"metadata": {"name": "leaf", "ownerReferences": owners}, "spec": {}})


async def test_dependents_of_a_deleted_owner_go_after_it() -> None:
    async with Stage() as stage:
        stage.play(_collector(stage))
        await _family(stage)

        await stage.remove(DEPLOYMENT, "top")
        await stage.pass_time(2)

        assert stage.all(REPLICA_SET) == stage.all(POD) == []


async def test_deleted_in_the_foreground_the_owner_goes_last() -> None:
    async with Stage() as stage:
        stage.play(_collector(stage))
        await _family(stage)
        await stage.change(POD, "leaf", {"metadata": {"finalizers": ["example.com/wait"]}})

        await stage.remove(DEPLOYMENT, "top", propagationPolicy="Foreground")
        await stage.pass_time(2)
        assert is_deleted(stage.get(POD, "leaf"))
        assert is_deleted(stage.get(DEPLOYMENT, "top"))

        await stage.change(POD, "leaf", {"metadata": {"finalizers": []}})
        await stage.pass_time(2)
        assert stage.all(DEPLOYMENT) == stage.all(REPLICA_SET) == stage.all(POD) == []


async def test_orphaned_dependents_stay_without_their_owner() -> None:
    async with Stage() as stage:
        stage.play(_collector(stage))
        await _family(stage)

        await stage.remove(DEPLOYMENT, "top", propagationPolicy="Orphan")
        await stage.pass_time(2)

        assert stage.all(DEPLOYMENT) == []
        assert stage.get(REPLICA_SET, "middle")["metadata"]["ownerReferences"] == []
        assert len(stage.all(POD)) == 1


async def test_an_object_with_another_owner_left_only_loses_the_one_that_is_gone() -> None:
    async with Stage() as stage:
        stage.play(_collector(stage))
        first = await stage.make(DEPLOYMENT, {"metadata": {"name": "first"}, "spec": {}})
        second = await stage.make(DEPLOYMENT, {"metadata": {"name": "second"}, "spec": {}})
        owners = [owner_reference(DEPLOYMENT, each) for each in (first, second)]
        await stage.make(POD, {"metadata": {"name": "leaf", "ownerReferences": owners}, "spec": {}})

        await stage.remove(DEPLOYMENT, "first")
        await stage.pass_time(2)

        left = stage.get(POD, "leaf")["metadata"]["ownerReferences"]
        assert [each["name"] for each in left] == ["second"]


async def test_an_object_whose_owner_never_was_goes() -> None:
    async with Stage() as stage:
        stage.play(_collector(stage))
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ghost", "uid": "nobody"}

        await stage.make(POD, {"metadata": {"name": "leaf", "ownerReferences": [owner]}, "spec": {}})
        await stage.pass_time(3)

        assert stage.all(POD) == []


async def test_kinds_that_come_late_are_collected_too() -> None:
    async with Stage() as stage:
        stage.play(GarbageCollector(stage.world))
        verbs = ["list", "watch", "delete"]
        stage.server.served["/apis"] = {"groups": [{"preferredVersion": {"groupVersion": "example.com/v1"}}]}
        things = {"name": "things", "kind": "Thing", "namespaced": True, "verbs": verbs}
        stage.server.served["/apis/example.com/v1"] = {
            "groupVersion": "example.com/v1",
            "resources": [things],
        }
        pods = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": verbs}
        stage.server.served["/api/v1"] = {"groupVersion": "v1", "resources": [pods]}
        path = "/apis/example.com/v1/namespaces/default/things"
        await stage.server.create(path, {"metadata": {"name": "t", "namespace": "default"}})
        await stage.pass_time(11)
        uid = stage.server.objects[f"{path}/t"]["metadata"]["uid"]
        owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": uid}
        await stage.make(POD, {"metadata": {"name": "leaf", "ownerReferences": [owner]}, "spec": {}})

        await stage.server.delete(f"{path}/t", {})
        await stage.pass_time(2)

        assert stage.all(POD) == []


async def test_kinds_that_only_an_older_version_of_their_group_has_are_watched_and_each_kind_once() -> None:
    async with Stage() as stage:
        verbs = ["list", "watch", "delete"]
        both = [{"groupVersion": f"example.com/{version}"} for version in ("v1", "v1alpha1")]
        stage.server.served["/apis"] = {"groups": [{"preferredVersion": both[0], "versions": both}]}
        new, old = ({"name": name, "kind": name.title(), "verbs": verbs} for name in ("things", "relics"))
        stage.server.served["/apis/example.com/v1"] = {"groupVersion": "example.com/v1", "resources": [new]}
        stage.server.served["/apis/example.com/v1alpha1"] = {
            "groupVersion": "example.com/v1alpha1",
            "resources": [new, old],
        }

        stage.server.served["/api/v1"] = {"groupVersion": "v1", "resources": []}

        found = await discover(stage.world.api)

        assert [(each.plural, each.version) for each in found] == [("things", "v1"), ("relics", "v1alpha1")]


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 1),
        ({"minAvailable": "50%"}, 2, 1),
        ({"maxUnavailable": 1}, 2, 1),
        ({"maxUnavailable": "100%"}, 0, 3),
        ({"minAvailable": 5}, 5, 0),
    ],
)
async def test_a_budget_says_how_many_pods_may_go(spec: Wire, desired: int, allowed: int) -> None:
    async with Stage() as stage:
        stage.play(Budgets(stage.world))
        owned = await stage.make(REPLICA_SET, {"metadata": {"name": "rs"}, "spec": {"replicas": 3}})
        for index in range(3):
            pod = _pod(f"p{index}", node="n0", app="web")
            pod["metadata"]["ownerReferences"] = [owner_reference(REPLICA_SET, owned)]
            await stage.make(POD, pod)

        selector = {"matchLabels": {"app": "web"}}
        await stage.make(BUDGET, {"metadata": {"name": "b"}, "spec": {**spec, "selector": selector}})
        await stage.pass_time(1)

        status = stage.get(BUDGET, "b")["status"]
        assert (status["currentHealthy"], status["desiredHealthy"]) == (3, desired)
        assert status["disruptionsAllowed"] == allowed
        assert status["expectedPods"] == 3


async def test_a_granted_eviction_counts_until_the_pod_is_gone_or_two_minutes_are_over() -> None:
    async with Stage() as stage:
        stage.play(Budgets(stage.world))
        for index in range(2):
            await stage.make(POD, _pod(f"p{index}", node="n0", app="web"))
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await stage.make(BUDGET, {"metadata": {"name": "b"}, "spec": spec})

        granted = {"status": {"disruptedPods": {"p0": "2026-01-01T00:00:00Z"}, "disruptionsAllowed": 0}}
        await stage.change(BUDGET, "b", granted, "status")
        await stage.pass_time(1)
        assert stage.get(BUDGET, "b")["status"]["disruptionsAllowed"] == 0

        await stage.pass_time(125)
        status = stage.get(BUDGET, "b")["status"]
        assert status["disruptionsAllowed"] == 1
        assert not status.get("disruptedPods")


async def test_a_silent_node_is_unknown_tainted_and_its_pods_are_no_longer_ready() -> None:
    async with Stage(Settings(node_grace_s=40)) as stage:
        stage.play(NodeLifecycle(stage.world))
        await stage.make(NODE, _node())
        await stage.make(POD, _pod("p", node="n0"))

        await stage.pass_time(36)
        assert "taints" not in stage.get(NODE, "n0")["spec"]
        await stage.pass_time(11)

        node = stage.get(NODE, "n0")
        ready = condition(node, "Ready")
        assert ready is not None
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
        keys = {(each["key"], each["effect"]) for each in node["spec"]["taints"]}
        unreachable = "node.kubernetes.io/unreachable"
        assert keys == {(unreachable, "NoSchedule"), (unreachable, "NoExecute")}
        pod_ready = condition(stage.get(POD, "p"), "Ready")
        assert pod_ready is not None
        assert pod_ready["status"] == "False"
        assert "NodeNotReady" in stage.reasons("n0")
        back = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "y"}]
        await stage.change(NODE, "n0", {"status": {"conditions": back}})
        assert not stage.get(NODE, "n0")["spec"].get("taints")


async def test_a_node_that_renews_its_lease_is_not_silent() -> None:
    async with Stage(Settings(node_grace_s=40)) as stage:
        stage.play(NodeLifecycle(stage.world))
        await stage.make(NODE, _node())
        lease: Wire = {"metadata": {"name": "n0", "namespace": "kube-node-lease"}, "spec": {"renewTime": "0"}}
        await stage.make(LEASE, lease)

        for index in range(8):
            await stage.pass_time(10)
            path = LEASE.path("kube-node-lease", "n0")
            await stage.server.patch(path, {"spec": {"renewTime": str(index)}})

        assert "taints" not in stage.get(NODE, "n0")["spec"]


async def test_the_annotation_of_a_node_comes_back_when_it_is_taken_off() -> None:
    ttl = "node.alpha.kubernetes.io/ttl"
    async with Stage() as stage:
        stage.play(NodeLifecycle(stage.world))
        await stage.make(NODE, _node())
        await stage.pass_time(1)
        first = stage.get(NODE, "n0")["metadata"]["annotations"]

        await stage.change(NODE, "n0", {"metadata": {"annotations": {ttl: None}}})
        await stage.pass_time(1)

        assert first == stage.get(NODE, "n0")["metadata"]["annotations"] == {ttl: "0"}


def test_conditions_and_the_cordon_call_for_taints() -> None:
    node = _node(unschedulable=True)
    node["status"]["conditions"] = [
        {"type": "Ready", "status": "False"},
        {"type": "MemoryPressure", "status": "True"},
    ]

    assert taints_for(node) == [
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


async def test_pods_leave_a_tainted_node_when_their_patience_ends() -> None:
    async with Stage() as stage:
        stage.play(TaintEviction(stage.world))
        await stage.make(NODE, _node())
        exists = {"key": "bad", "operator": "Exists", "effect": "NoExecute"}
        await stage.make(POD, _pod("frail", node="n0"))
        await stage.make(POD, _pod("patient", node="n0", tolerations=[{**exists, "tolerationSeconds": 60}]))
        await stage.make(POD, _pod("tough", node="n0", tolerations=[exists]))

        taint = {"key": "bad", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
        await stage.change(NODE, "n0", {"spec": {"taints": [taint]}})
        assert [each["metadata"]["name"] for each in stage.all(POD) if is_deleted(each)] == ["frail"]

        await stage.pass_time(61)
        assert [each["metadata"]["name"] for each in stage.all(POD) if is_deleted(each)] == [
            "frail",
            "patient",
        ]
        assert "TaintManagerEviction" in stage.reasons("frail")


async def test_pods_of_a_node_that_is_gone_are_removed_after_a_while() -> None:
    async with Stage(Settings(gone_node_s=40)) as stage:
        stage.play(PodCollector(stage.world))
        await stage.make(POD, _pod("lost", node="gone"))
        await stage.make(NODE, _node("n0"))
        await stage.make(POD, _pod("fine", node="n0"))

        await stage.pass_time(30)
        assert len(stage.all(POD)) == 2
        await stage.pass_time(16)

        assert [each["metadata"]["name"] for each in stage.all(POD)] == ["fine"]


async def test_every_namespace_gets_its_account_and_its_certificate_again_if_taken_away() -> None:
    async with Stage() as stage:
        stage.play(Accounts(stage.world, "the certificate"))
        await stage.make(NAMESPACE, {"metadata": {"name": "default"}})
        assert stage.get(CONFIG_MAP, "kube-root-ca.crt")["data"]["ca.crt"] == "the certificate"

        await stage.remove(SERVICE_ACCOUNT, "default")

        assert len(stage.all(SERVICE_ACCOUNT)) == 1


async def test_old_events_are_removed() -> None:
    async with Stage(Settings(event_ttl_s=60)) as stage:
        stage.play(EventExpiry(stage.world))
        path = EVENT.path("default", "e")
        body = {"name": "e", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
        stage.server.objects[path] = {"metadata": body, "lastTimestamp": "2026-01-01T00:00:30Z"}

        await stage.pass_time(80)
        assert path in stage.server.objects
        await stage.pass_time(20)

        assert path not in stage.server.objects


async def test_a_deleted_namespace_is_emptied_before_it_goes() -> None:
    async with Stage() as stage:
        stage.play(Namespaces(stage.world, stage.server))
        pods = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch", "delete"]}
        stage.server.served["/api/v1"] = {"groupVersion": "v1", "resources": [pods]}
        await stage.make(NAMESPACE, {"metadata": {"name": "shop"}, "spec": {"finalizers": ["kubernetes"]}})
        pod = _pod("p", node="n0")
        pod["metadata"]["namespace"] = "shop"
        await stage.make(POD, pod)

        await stage.remove(NAMESPACE, "shop")
        assert is_deleted(stage.get(POD, "p", "shop"))
        assert len(stage.all(NAMESPACE)) == 1
        await stage.run_pods()
        await stage.pass_time(1)

        assert stage.all(NAMESPACE) == []


def test_a_server_without_a_certificate_gives_pods_one_that_can_be_read() -> None:
    certificate = x509.load_pem_x509_certificate(stand_in_authority().encode())

    assert certificate.subject.rfc4514_string() == "CN=karpenter-sandbox"
