# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from karpenter.controllers.metrics import PodTimes
from karpenter.kit.clock import FakeClock
from karpenter.observe import Metrics
from tests.unit.state.worlds import cluster, pod, put, remove

START = FakeClock().now()
BORN = {"creationTimestamp": "2026-01-01T00:00:00Z"}


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Scene:
    """A cluster whose pods are timed."""

    def __init__(self, *, leads: bool = True) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.world = cluster(self.clock)
        self.times = PodTimes(self.metrics, self.clock, lambda: leads)
        self.world.informers.pods.on_change(self.times.changed)

    def put(self, name: str, node: str = "", phase: str = "Pending", **conditions: float) -> Any:
        made = pod(
            name,
            node,
            phase=phase,
            metadata=BORN,
            conditions=[
                {"type": kind, "status": "True", "lastTransitionTime": at(when)}
                for kind, when in conditions.items()
            ],
        )
        put(self.world, made)
        return made

    def took(self, name: str) -> tuple[float | None, float | None]:
        """Number and sum of what was observed."""
        value = self.metrics.registry.get_sample_value
        return value(f"karpenter_pods_{name}_count"), value(f"karpenter_pods_{name}_sum")


def test_a_pods_way_is_measured_from_birth_and_from_when_it_was_planned() -> None:
    scene = Scene()
    web = scene.put("web")
    scene.clock.tick(1)
    scene.times.seen([web])
    scene.clock.tick(2)
    scene.times.decided([web], [])
    scene.times.decided([web], [])
    scene.put("web", "n1", PodScheduled=10)
    scene.put("web", "n1", "Running", PodScheduled=10, Ready=14)

    assert scene.took("scheduling_decision_duration_seconds") == (1, 2)
    assert scene.took("bound_duration_seconds") == (1, 10)
    assert scene.took("startup_duration_seconds") == (1, 14)
    assert scene.took("provisioning_bound_duration_seconds") == (1, 7)
    assert scene.took("provisioning_startup_duration_seconds") == (1, 11)
    assert list(scene.times) == []


def test_a_refused_pod_is_decided_on_and_not_planned() -> None:
    scene = Scene()
    web = scene.put("web")
    scene.times.seen([web])
    scene.times.decided([web], [])
    scene.times.decided([], [web])
    [times] = scene.times
    assert times.planned_at is None
    scene.put("web", "n1", "Running", Ready=14)

    assert scene.took("scheduling_decision_duration_seconds")[0] == 1
    assert scene.took("bound_duration_seconds") == (1, 0)
    assert scene.took("provisioning_startup_duration_seconds")[0] == 0


def test_pods_that_ran_or_were_bound_before_are_not_measured() -> None:
    scene = Scene()
    running = scene.put("old", "n1", "Running", Ready=1)
    scene.times.seen([running])
    scene.times.decided([running], [])
    scene.put("bound", "n1")
    scene.put("bound", "n1", "Running", PodScheduled=3)

    assert [each.pod.metadata.name for each in scene.times] == ["bound"]
    assert scene.took("bound_duration_seconds")[0] == 0


@pytest.mark.parametrize("ends", ["over", "deleted"])
def test_a_pod_that_is_over_or_deleted_is_forgotten(ends: str) -> None:
    scene = Scene()
    web = scene.put("web")
    if ends == "over":
        scene.put("web", "n1", "Failed")
    else:
        remove(scene.world, web)

    assert list(scene.times) == []
    assert scene.took("startup_duration_seconds") == (None, None)


def test_a_replica_that_does_not_lead_measures_nothing() -> None:
    scene = Scene(leads=False)
    web = scene.put("web")
    scene.times.seen([web])
    scene.times.decided([web], [])
    scene.put("web", "n1", "Running", PodScheduled=10, Ready=14)

    assert scene.took("bound_duration_seconds")[0] == 0
    assert scene.took("startup_duration_seconds") == (None, None)
    assert scene.took("scheduling_decision_duration_seconds")[0] == 0
