# SPDX-License-Identifier: Apache-2.0
"""How large a capacity buffer is at a moment, and what its pods look like."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from karpenter.api.capacitybuffer import CapacityBuffer
from karpenter.api.core.pods import PodTemplateSpec
from karpenter.controllers.buffers import UnreadableBufferError, costs_of_room, size_of, standing_pods
from karpenter.model.pods import stands_for_buffer
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.scheduling import Plan

_NIGHT = datetime(2026, 11, 16, 2, 0, tzinfo=UTC)
# Monday 08:30 in Seoul.
_MORNING = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)


def _template(cpu: str = "1", **spec: Any) -> PodTemplateSpec:
    container = {"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return msgspec.convert(
        {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}},
        PodTemplateSpec,
        strict=False,
    )


def _buffer(**spec: Any) -> CapacityBuffer:
    whole = {"podTemplateRef": {"name": "web"}, **spec}
    meta = {"name": "spare", "namespace": "shop", "uid": "u1"}
    return msgspec.convert({"metadata": meta, "spec": whole}, CapacityBuffer, strict=False)


def _hours(replicas: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "schedule": "0 8 * * MON-FRI",
        "duration": "10h",
        "timeZone": "Asia/Seoul",
        "replicas": replicas,
        **more,
    }


@pytest.mark.parametrize(
    ("spec", "scale", "replicas"),
    [
        ({"replicas": 3}, None, 3),
        ({"replicas": 3, "percentage": 50}, 10, 5),
        ({"replicas": 8, "percentage": 50}, 10, 8),
        ({"percentage": 10}, 3, 1),
        ({"percentage": 10}, 0, 1),
        ({"percentage": 0}, 10, 0),
        ({"percentage": 50}, None, 0),
        ({"limits": {"cpu": "4"}}, None, 4),
        ({"replicas": 10, "limits": {"cpu": "4"}}, None, 4),
        ({"replicas": 10, "limits": {"cpu": "40", "memory": "2Gi"}}, None, 2),
        ({"replicas": 10, "limits": {"nvidia.com/gpu": "1"}}, None, 10),
        ({"replicas": 2_000_000_000}, None, 10_000),
    ],
)
def test_the_largest_wish_counts_within_the_limits(
    spec: dict[str, Any], scale: int | None, replicas: int
) -> None:
    assert size_of(_buffer(**spec), _template(), scale, _NIGHT).replicas == replicas


def test_a_timetable_opens_and_closes_in_its_own_time_zone() -> None:
    buffer = _buffer(replicas=1, schedules=[_hours()])

    open_ = size_of(buffer, _template(), None, _MORNING)
    closed = size_of(buffer, _template(), None, datetime(2026, 11, 16, 9, 0, tzinfo=UTC))

    assert open_.replicas == 5
    assert open_.until == datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
    assert closed.replicas == 1
    assert closed.until == datetime(2026, 11, 16, 23, 0, tzinfo=UTC)


def test_of_several_timetables_the_largest_that_is_open_counts() -> None:
    buffer = _buffer(schedules=[_hours(5), _hours(9), {**_hours(50), "schedule": "0 8 * * SUN"}])

    assert size_of(buffer, _template(), None, _MORNING).replicas == 9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule": "61 * * * *"}, "spec.schedules[0]"),
        ({"timeZone": "Asia/Soul"}, "spec.schedules[0]"),
        ({"duration": "ten"}, "spec.schedules[0]"),
    ],
)
def test_a_timetable_that_cannot_be_read_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UnreadableBufferError) as refused:
        size_of(_buffer(schedules=[_hours(**change)]), _template(), None, _NIGHT)

    assert words in refused.value.message


def test_a_quantity_that_cannot_be_read_is_told() -> None:
    with pytest.raises(UnreadableBufferError, match="a quantity cannot be read"):
        size_of(_buffer(replicas=1, limits={"cpu": "lots"}), _template(), None, _NIGHT)


def test_its_pods_are_the_templates_last_of_all_and_marked() -> None:
    pods = standing_pods(_buffer(replicas=2), _template(priority=1000, nodeName="x"), 2)

    assert [pod.metadata.uid for pod in pods] == ["u1-0", "u1-1"]
    assert all(stands_for_buffer(pod) for pod in pods)
    assert {pod.spec.priority for pod in pods} == {-(2**31)}
    assert {pod.spec.node_name for pod in pods} == {""}
    assert {pod.metadata.namespace for pod in pods} == {"shop"}
    assert pods[0].metadata.labels == {"app": "web"}


def test_room_costs_its_share_of_the_node_that_holds_it() -> None:
    pods = standing_pods(_buffer(replicas=2), _template("2"), 2)
    size = Resources.parse({"cpu": "8", "memory": "64Gi", "pods": "58"})
    node = NodeView("n1", {}, size, price_per_hour=0.4)
    plan = Plan(existing={"n1": pods[:1], "unknown": pods[1:]})

    costs = costs_of_room(Snapshot(nodes=(node,)), plan)

    assert costs == {"u1-0": pytest.approx(0.1)}
