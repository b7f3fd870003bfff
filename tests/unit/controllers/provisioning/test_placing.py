# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.core import Pod
from karpenter.controllers.provisioning import ProvisionerSettings
from karpenter.controllers.provisioning.placeable import is_left_to_the_scheduler
from karpenter.controllers.provisioning.placing import Placer
from karpenter.kube import ConflictError, ForbiddenError, NotFoundError
from karpenter.kube.kinds import DAEMON_SETS, NODE_CLAIMS, NODES, PODS
from karpenter.observe import DecisionKind
from tests.unit.controllers.provisioning.test_provisioner import UNSCHEDULABLE, Scene
from tests.unit.state.worlds import node

NODE = "ip-10-0-0-1"
SIZE = {"cpu": "2", "memory": "8Gi", "pods": "29"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNREGISTERED = {"key": names.UNREGISTERED_TAINT.key, "effect": "NoExecute"}
PATIENT = [
    {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
]


class Early(Scene):
    """A provisioner that places early, with pods whose node is about to join."""

    def __init__(self, *pods: str, **parts: Any) -> None:
        super().__init__(settings=ProvisionerSettings(place_early=True))
        self.pend(*pods, **{"tolerations": PATIENT, **parts})

    @property
    def placer(self) -> Placer:
        """Who places."""
        assert self.provisioner.placer is not None
        return self.provisioner.placer

    async def launch(self) -> str:
        """Serve what waits; give the name of the one claim, which has an instance."""
        await self.provisioner.provision()
        [claim] = self.claims
        await self.client.patch(
            NODE_CLAIMS, claim.metadata.name, {"status": {"providerID": "aws:///a/i-1"}}, subresource="status"
        )
        return claim.metadata.name

    def join(self, *taints: dict[str, str], registered: bool = True, **parts: Any) -> None:
        """Let the Node be there, with the taint that says it is not ready unless others are given."""
        labels = {names.NODEPOOL: "default", **({names.REGISTERED: "true"} if registered else {})}
        made = {"allocatable": SIZE, **parts}
        shut = list(taints) or [NOT_READY]
        self.client.store(NODES, node(NODE, "aws:///a/i-1", labels=labels, taints=shut, **made))

    async def settle(self, claim: str) -> None:
        """Look at the node, and again a moment later."""
        await self.placer.reconcile(claim)
        self.clock.tick(1.0)
        await self.placer.reconcile(claim)

    @property
    def bound(self) -> list[str]:
        """The pods that were bound by us, in order."""
        return [each.name for each in self.client.writes("bind")]


async def test_planned_pods_are_bound_to_their_node_while_it_boots() -> None:
    scene = Early("a", "b")
    claim = await scene.launch()
    scene.join()

    await scene.placer.reconcile(claim)

    assert [(each.name, each.body) for each in scene.client.writes("bind")] == [("a", NODE), ("b", NODE)]
    assert [each.kind for each in scene.decisions.since()].count(DecisionKind.PLACE) == 1
    assert ("a", "Scheduled", f"Successfully assigned shop/a to {NODE}, not ready yet") in scene.told
    assert scene.provisioner.follower.share == 1.0


async def test_without_the_setting_nothing_is_bound() -> None:
    scene = Scene()

    assert scene.provisioner.placer is None


async def test_a_node_that_has_not_registered_gets_its_pods_once_it_has() -> None:
    scene = Early("a")
    claim = await scene.launch()
    scene.join(NOT_READY, UNREGISTERED, registered=False)

    await scene.settle(claim)
    before = scene.bound
    kept = scene.placer.keeps(scene.cluster.unbound()[0])
    scene.join()
    await scene.settle(claim)

    assert (before, kept) == ([], True)
    assert scene.bound == ["a"]


@pytest.mark.parametrize(
    "taints",
    [
        pytest.param([{"key": "other", "effect": "NoSchedule"}], id="it is ready: the scheduler's turn"),
        pytest.param([NOT_READY, {"key": "cni", "effect": "NoSchedule"}], id="a startup taint"),
        pytest.param([NOT_READY, {"key": "cni", "effect": "NoExecute"}], id="pods would be evicted"),
        pytest.param(
            [NOT_READY, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}], id="cordoned"
        ),
        pytest.param(
            [NOT_READY, {"key": names.DISRUPTED_TAINT.key, "effect": "NoSchedule"}], id="it is to go"
        ),
        pytest.param(
            [NOT_READY, {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"}],
            id="the cloud does not know it yet",
        ),
    ],
)
async def test_a_node_that_is_shut_for_another_reason_gets_no_pods(taints: list[dict[str, str]]) -> None:
    scene = Early("a")
    claim = await scene.launch()
    scene.join(*taints)

    await scene.settle(claim)

    assert scene.bound == []
    assert not scene.placer.keeps(scene.cluster.unbound()[0])


@pytest.mark.parametrize(
    "allocatable", [{}, {"cpu": "2", "memory": "8Gi"}, {"cpu": "2", "memory": "8Gi", "pods": "0"}]
)
async def test_a_node_that_does_not_say_what_it_has_gets_no_pods(allocatable: dict[str, str]) -> None:
    scene = Early("a")
    claim = await scene.launch()
    scene.join(allocatable=allocatable)

    await scene.settle(claim)

    assert scene.bound == []


async def test_a_node_that_boots_for_too_long_gets_no_pods() -> None:
    scene = Early("a")
    claim = await scene.launch()
    born = scene.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    scene.clock.tick(301)
    scene.join(metadata={"creationTimestamp": born})

    await scene.settle(claim)

    assert scene.bound == []


async def test_a_node_that_was_ready_once_gets_no_pods_early() -> None:
    scene = Early("a")
    claim = await scene.launch()
    labels = {names.NODEPOOL: "default", names.REGISTERED: "true", names.INITIALIZED: "true"}
    scene.client.store(NODES, node(NODE, "aws:///a/i-1", labels=labels, taints=[NOT_READY], allocatable=SIZE))

    await scene.settle(claim)

    assert scene.bound == []


async def test_room_that_a_daemonset_will_need_is_kept() -> None:
    scene = Early("a", "b")
    claim = await scene.launch()
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}}
    daemons = {"metadata": {"name": "d", "namespace": "shop", "uid": "uid-d"}, "spec": {"template": template}}
    scene.client.store(DAEMON_SETS, daemons)
    scene.join()

    await scene.settle(claim)

    assert scene.bound == ["a"]


async def test_of_a_node_that_turns_out_smaller_those_of_higher_priority_get_the_room() -> None:
    scene = Early("a")
    scene.pend("z", priority=10, tolerations=PATIENT)
    claim = await scene.launch()
    scene.join(allocatable={**SIZE, "cpu": "700m"})

    await scene.settle(claim)

    assert scene.bound == ["z"]


async def test_room_of_a_pod_that_is_left_to_the_scheduler_is_not_given_to_a_lesser_one() -> None:
    scene = Early("a")
    scene.pend("z", priority=10, tolerations=PATIENT, schedulerName="default-scheduler", schedulingGates=[])
    claim = await scene.launch()
    scene.pend("z", priority=10, tolerations=PATIENT, resourceClaims=[{"name": "gpu"}])
    scene.join(allocatable={**SIZE, "cpu": "700m"})

    await scene.settle(claim)

    assert scene.bound == []


async def test_room_that_the_scheduler_makes_for_others_is_kept() -> None:
    scene = Early("a", "b")
    claim = await scene.launch()
    other: dict[str, Any] = {
        "metadata": {"name": "vip", "namespace": "shop", "uid": "uid-vip"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]},
        "status": {**UNSCHEDULABLE, "nominatedNodeName": NODE},
    }
    scene.client.store(PODS, other)
    scene.join()

    await scene.settle(claim)

    assert scene.bound == ["a"]


async def test_a_pod_for_which_the_scheduler_makes_room_elsewhere_is_left_to_it() -> None:
    scene = Early("a", "b")
    claim = await scene.launch()
    await scene.client.patch(
        PODS, "a", {"status": {"nominatedNodeName": "elsewhere"}}, "shop", subresource="status"
    )
    scene.join()

    await scene.settle(claim)

    assert scene.bound == ["b"]


async def test_pods_that_want_the_same_host_port_are_not_put_together() -> None:
    port = [{"containerPort": 80, "hostPort": 80}]
    scene = Early("a", containers=[{"name": "c", "ports": port}])
    claim = await scene.launch()
    there = {
        "metadata": {"name": "agent", "namespace": "shop", "uid": "uid-agent"},
        "spec": {"nodeName": NODE, "containers": [{"name": "c", "ports": port}]},
        "status": {"phase": "Running"},
    }
    scene.client.store(PODS, there)
    scene.join()

    await scene.settle(claim)

    assert scene.bound == []


async def test_a_pod_that_somebody_in_the_zone_refuses_is_left_to_the_scheduler() -> None:
    scene = Early("a")
    claim = await scene.launch()
    term = {"topologyKey": names.ZONE, "labelSelector": {}}
    hermit = {
        "metadata": {"name": "hermit", "namespace": "shop", "uid": "uid-hermit"},
        "spec": {
            "nodeName": "far",
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        },
        "status": {"phase": "Running"},
    }
    scene.client.store(NODES, node("far", labels={names.ZONE: "z1"}))
    scene.client.store(NODES, node("farther", labels={names.ZONE: "z2"}))
    scene.client.store(PODS, hermit)

    def joins(zone: str) -> None:
        labels = {names.NODEPOOL: "default", names.REGISTERED: "true", names.ZONE: zone}
        scene.client.store(
            NODES, node(NODE, "aws:///a/i-1", labels=labels, taints=[NOT_READY], allocatable=SIZE)
        )

    joins("z1")
    await scene.settle(claim)
    beside = scene.bound
    joins("z2")
    await scene.settle(claim)

    assert beside == []
    assert scene.bound == ["a"]


async def test_a_pod_whose_labels_the_node_does_not_have_is_not_bound() -> None:
    scene = Early("a", nodeSelector={names.ZONE: "us-west-2a"})
    claim = await scene.launch()
    labels = {names.NODEPOOL: "default", names.REGISTERED: "true", names.ZONE: "us-west-2b"}
    scene.client.store(NODES, node(NODE, "aws:///a/i-1", labels=labels, taints=[NOT_READY], allocatable=SIZE))

    await scene.settle(claim)

    assert scene.bound == []


async def test_a_pod_that_was_bound_or_deleted_meanwhile_is_let_be() -> None:
    scene = Early("a", "b", "c")
    claim = await scene.launch()
    scene.join()
    scene.client.fail(
        "bind",
        "pods",
        ConflictError("pod a is already assigned to node", status=409),
        NotFoundError("gone", status=404),
    )

    await scene.placer.reconcile(claim)

    assert scene.bound == ["a", "b", "c"]
    assert [each.metadata.name for each in scene.cluster.pods_on(NODE)] == ["c"]


async def test_a_refusal_is_raised_after_the_others_were_bound_and_they_are_not_bound_twice() -> None:
    scene = Early("a", "b")
    claim = await scene.launch()
    scene.join()
    scene.client.fail("bind", "pods", ForbiddenError("pods/binding is forbidden", status=403))

    with pytest.raises(ForbiddenError):
        await scene.settle(claim)
    await scene.placer.reconcile(claim)

    assert scene.bound == ["a", "b", "a"]


async def test_a_node_that_becomes_ready_while_pods_are_bound_is_left_to_the_scheduler() -> None:
    scene = Early("a", "b")
    claim = await scene.launch()
    scene.join()
    bind = scene.client.bind

    async def slowly(pod: Pod, node: str) -> None:
        scene.join({"key": "other", "effect": "PreferNoSchedule"})
        await bind(pod, node)

    scene.client.bind = slowly  # type: ignore[method-assign]

    await scene.settle(claim)

    assert scene.bound == ["a"]


async def test_a_node_that_is_about_to_go_gets_no_pods() -> None:
    scene = Early("a")
    claim = await scene.launch()
    scene.join()
    scene.cluster.mark_leaving([claim])

    await scene.settle(claim)

    assert scene.bound == []


async def test_a_pod_is_bound_once_though_the_watch_is_late() -> None:
    scene = Early("a")
    claim = await scene.launch()
    scene.join()
    bound = []

    async def unseen(pod: Pod, node: str) -> None:
        bound.append((pod.metadata.name, node))

    scene.client.bind = unseen  # type: ignore[method-assign]

    await scene.settle(claim)
    await scene.placer.reconcile(claim)

    assert bound == [("a", NODE)]


async def test_pods_that_will_be_bound_are_not_nominated_and_the_others_are() -> None:
    scene = Early("a")
    scene.pend("picky", tolerations=[])
    claim = await scene.launch()
    scene.join()

    await scene.placer.reconcile(claim)
    await scene.provisioner.nominator.renew()

    assert [each.name for each in scene.client.writes("patch", "pods")] == ["picky"]


async def test_news_of_the_node_lead_to_the_binding() -> None:
    scene = Early("a")
    await scene.launch()
    running = asyncio.create_task(scene.provisioner.run())
    await asyncio.sleep(0)

    scene.join()
    for _ in range(20):
        await scene.clock.advance(0.1)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert scene.bound == ["a"]


async def test_a_failure_is_told_and_tried_again() -> None:
    scene = Early("a")
    await scene.launch()
    scene.client.fail("bind", "pods", ForbiddenError("pods/binding is forbidden", status=403))
    running = asyncio.create_task(scene.placer.run())
    await asyncio.sleep(0)

    scene.join()
    for _ in range(40):
        await scene.clock.advance(0.1)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert scene.bound == ["a", "a"]


def _pod(**spec: Any) -> Pod:
    return msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "shop", "uid": "u"},
            "spec": {"tolerations": PATIENT, **spec},
            "status": UNSCHEDULABLE,
        },
        Pod,
        strict=False,
    )


def test_an_ordinary_pod_may_be_bound_by_us() -> None:
    assert not is_left_to_the_scheduler(_pod(schedulerName="default-scheduler"))


_TERM = {"topologyKey": names.ZONE, "labelSelector": {}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeName": "n"}, id="it has a node"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, id="it is gated"),
        pytest.param({"schedulerName": "volcano"}, id="another scheduler's"),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, id="devices by claim"),
        pytest.param(
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, id="a volume claim"
        ),
        pytest.param({"volumes": [{"name": "v", "ephemeral": {}}]}, id="an ephemeral volume"),
        pytest.param(
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": names.ZONE}]}, id="a hard spread"
        ),
        pytest.param(
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}},
            id="it follows others",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}},
            id="it keeps away from others",
        ),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, id="it tolerates everything"),
        pytest.param({"tolerations": []}, id="it would be evicted at once"),
        pytest.param(
            {"tolerations": [*PATIENT, {**PATIENT[0], "tolerationSeconds": 5}]}, id="it would be evicted soon"
        ),
    ],
)
def test_what_only_the_scheduler_can_answer_for_is_left_to_it(spec: dict[str, Any]) -> None:
    assert is_left_to_the_scheduler(_pod(**spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{**PATIENT[0], "tolerationSeconds": None}]},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": names.ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
            ]
        },
        {"volumes": [{"name": "v"}]},
    ],
)
def test_wishes_and_plain_volumes_are_no_hindrance(spec: dict[str, Any]) -> None:
    assert not is_left_to_the_scheduler(_pod(**spec))


@pytest.mark.parametrize("change", [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}])
def test_a_pod_that_is_being_deleted_or_unjudged_is_left_alone(change: dict[str, Any]) -> None:
    pod = msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "shop", "uid": "u", **change},
            "spec": {"tolerations": PATIENT},
            "status": UNSCHEDULABLE if change else {},
        },
        Pod,
        strict=False,
    )

    assert is_left_to_the_scheduler(pod)
