# SPDX-License-Identifier: Apache-2.0
"""Buffers are resolved, judged and handed to the decisions about nodes."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest

from karpenter.controllers.buffers import Buffers
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError, NotFoundError
from karpenter.kube.kinds import CAPACITY_BUFFERS, DEPLOYMENTS, POD_TEMPLATES
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.observe import Metrics
from karpenter.scheduling import Plan
from tests.unit.controllers.paper import PaperClient

_SPEC = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}


class Scene:
    """A controller of buffers with a server on paper."""

    def __init__(self) -> None:
        self.clock = FakeClock(datetime(2026, 11, 15, 23, 30, tzinfo=UTC))
        self.client = PaperClient(self.clock)
        self.metrics = Metrics()
        self.buffers = Buffers(client=self.client, metrics=self.metrics, clock=self.clock)
        self.told = 0
        self.buffers.on_change(self._tell)
        meta = {"name": "web", "namespace": "shop", "generation": 4}
        self.client.store(POD_TEMPLATES, {"metadata": meta, "template": {"spec": _SPEC}})

    def _tell(self) -> None:
        self.told += 1

    def put(self, **spec: Any) -> None:
        """Write the buffer shop/spare."""
        meta = {"name": "spare", "namespace": "shop", "uid": "u1", "generation": 1}
        stored = self.client.store(CAPACITY_BUFFERS, {"metadata": meta, "spec": spec})
        self.buffers.informer.observe(stored)

    @property
    def status(self) -> dict[str, Any]:
        """What the buffer says."""
        found = self.client.raw_object(CAPACITY_BUFFERS, "spare", "shop")
        assert found is not None
        status: dict[str, Any] = found.get("status", {})
        return status

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        return next(
            (each["status"], each["reason"]) for each in self.status["conditions"] if each["type"] == kind
        )


async def test_a_pod_template_becomes_pods_and_the_status_says_so() -> None:
    scene = Scene()
    scene.put(podTemplateRef={"name": "web"}, replicas=3)

    again_s = await scene.buffers.reconcile("shop/spare")
    writes = len(scene.client.calls)
    await scene.buffers.reconcile("shop/spare")

    assert again_s == 30.0
    assert len(scene.buffers.pods()) == 3
    assert scene.status["replicas"] == 3
    assert scene.status["podTemplateGeneration"] == 4
    assert scene.condition("ReadyForProvisioning") == ("True", "Resolved")
    assert scene.condition("Provisioning") == ("False", "RequiresNewCapacity")
    assert (scene.told, len(scene.client.calls)) == (1, writes)


async def test_a_workload_lends_its_template_and_its_replicas() -> None:
    scene = Scene()
    meta = {"name": "web", "namespace": "shop"}
    scene.client.store(DEPLOYMENTS, {"metadata": meta, "spec": {"replicas": 10, "template": {"spec": _SPEC}}})
    scene.put(scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"}, percentage=25)

    await scene.buffers.reconcile("shop/spare")

    assert len(scene.buffers.pods()) == 3


async def test_a_timetable_says_when_to_look_again() -> None:
    scene = Scene()
    hours = {"schedule": "31 23 * * *", "duration": "1h", "replicas": 2}
    scene.put(podTemplateRef={"name": "web"}, schedules=[hours])

    again_s = await scene.buffers.reconcile("shop/spare")
    assert again_s == 30.0
    await scene.clock.advance(31)
    again_s = await scene.buffers.reconcile("shop/spare")
    assert again_s == pytest.approx(29.0)
    assert scene.condition("Provisioning") == ("False", "BufferEmpty")
    await scene.clock.advance(29)
    await scene.buffers.reconcile("shop/spare")

    assert len(scene.buffers.pods()) == 2


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"podTemplateRef": {"name": "none"}, "replicas": 1}, "PodTemplateNotFound"),
        ({"scalableRef": {"kind": "Deployment", "name": "none"}}, "ScalableRefNotFound"),
        ({"scalableRef": {"apiGroup": "x", "kind": "Thing", "name": "a"}}, "ResolutionFailed"),
        ({"replicas": 1}, "ResolutionFailed"),
        (
            {
                "podTemplateRef": {"name": "web"},
                "schedules": [{"schedule": "x", "duration": "1h", "replicas": 1}],
            },
            "ResolutionFailed",
        ),
    ],
)
async def test_a_buffer_that_cannot_be_resolved_keeps_no_room_and_says_why(
    spec: dict[str, Any], reason: str
) -> None:
    scene = Scene()
    scene.put(podTemplateRef={"name": "web"}, replicas=2)
    await scene.buffers.reconcile("shop/spare")
    scene.put(**spec)

    assert await scene.buffers.reconcile("shop/spare") == 5.0

    assert scene.buffers.pods() == ()
    assert scene.condition("ReadyForProvisioning") == ("False", reason)
    assert scene.condition("Provisioning") == ("False", "NotReadyForProvisioning")


async def test_other_strategies_and_buffers_that_are_gone_are_left_alone() -> None:
    scene = Scene()
    scene.put(podTemplateRef={"name": "web"}, replicas=2, provisioningStrategy="other")
    assert await scene.buffers.reconcile("shop/spare") is None
    assert await scene.buffers.reconcile("shop/none") is None

    assert scene.client.calls == []


async def test_a_buffer_that_went_meanwhile_is_no_trouble() -> None:
    scene = Scene()
    scene.put(podTemplateRef={"name": "web"}, replicas=1)
    scene.client.fail("patch", "capacitybuffers", NotFoundError("gone", status=404))

    assert await scene.buffers.reconcile("shop/spare") == 30.0


async def test_where_there_is_room_is_said_and_what_it_costs() -> None:
    scene = Scene()
    scene.put(podTemplateRef={"name": "web"}, replicas=1)
    await scene.buffers.reconcile("shop/spare")
    node = NodeView("n1", {}, Resources.parse({"cpu": "4", "pods": "58"}), price_per_hour=0.2)

    scene.buffers.placed(Snapshot(nodes=(node,)), Plan(existing={"n1": scene.buffers.pods()}))
    await scene.buffers.reconcile("shop/spare")

    assert scene.condition("Provisioning") == ("True", "FitsExistingCapacity")
    cost = scene.metrics.registry.get_sample_value(
        "karpenter_capacitybuffers_cost_dollars_per_hour", {"namespace": "shop", "capacitybuffer": "spare"}
    )
    assert cost == pytest.approx(0.05)
    scene.buffers._keep("shop/spare", ())
    [family] = scene.metrics.buffer_cost.collect()
    assert family.samples == []


async def test_it_follows_buffers() -> None:
    scene = Scene()
    meta = {"name": "spare", "namespace": "shop", "uid": "u1", "generation": 1}
    spec = {"podTemplateRef": {"name": "web"}, "replicas": 1}
    scene.client.store(CAPACITY_BUFFERS, {"metadata": meta, "spec": spec})

    async def follow() -> None:
        for item in (await scene.client.list(CAPACITY_BUFFERS)).items:
            scene.buffers.informer.observe(item)
        await asyncio.Event().wait()

    scene.buffers.informer.run = follow  # type: ignore[method-assign]
    scene.buffers.informer.wait_synced = lambda: asyncio.sleep(0)  # type: ignore[method-assign]
    task = asyncio.create_task(scene.buffers.run())
    for _ in range(50):
        await asyncio.sleep(0)
        if scene.buffers.pods():
            break
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert len(scene.buffers.pods()) == 1


async def test_a_buffer_that_another_writes_to_meanwhile_is_written_at_the_next_look() -> None:
    scene = Scene()
    scene.put(podTemplateRef={"name": "web"}, replicas=1)
    scene.client.fail("patch", "capacitybuffers", ConflictError("modified", status=409))

    await scene.buffers.reconcile("shop/spare")
    before = scene.status
    await scene.buffers.reconcile("shop/spare")

    assert before == {}
    assert scene.status["replicas"] == 1
