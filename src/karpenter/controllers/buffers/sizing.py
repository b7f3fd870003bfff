# SPDX-License-Identifier: Apache-2.0
"""How many pods a capacity buffer stands for at a moment, until when, and what those pods look like.

The most counts of what is written: the replicas, the share of a workload, and every timetable that is open now. Limits
cut it. The pods are never created: they only take part in decisions, after all real pods, which they must not push out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from karpenter.api import labels as names
from karpenter.api.capacitybuffer import CapacityBuffer, CapacityBufferSpec
from karpenter.api.core import Pod
from karpenter.api.core.pods import PodTemplateSpec
from karpenter.api.meta import ObjectMeta
from karpenter.errors import KarpenterError
from karpenter.kit import cron
from karpenter.kit.durations import Duration, DurationError, parse_duration
from karpenter.kit.quantity import QuantityError
from karpenter.model.pods import stands_for_buffer
from karpenter.model.resources import Resources, pod_requests, with_default_requests
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling import Plan

__all__ = ["Size", "UnreadableBufferError", "costs_of_room", "size_of", "standing_pods"]

# Below every priority that a PriorityClass can give.
_LAST: Final = -(2**31)
# A mistyped number must not fill the cluster's memory with pods that nobody asked for.
_MOST: Final = 10_000


class UnreadableBufferError(KarpenterError):
    """A buffer that cannot be read."""


@dataclass(frozen=True, slots=True)
class Size:
    """For how many pods room is kept, and when that may change by the clock."""

    replicas: int
    until: datetime | None = None


def size_of(buffer: CapacityBuffer, template: PodTemplateSpec, scale: int | None, now: datetime) -> Size:
    """Give the size of a buffer at a moment.

    Args:
        buffer: The buffer.
        template: What one of its pods looks like.
        scale: How many replicas the workload has that it refers to; None if it refers to none.
        now: The moment.

    Raises:
        UnreadableBufferError: A timetable, a limit or a request cannot be read.
    """
    spec = buffer.spec
    wanted = [spec.replicas or 0]
    if spec.percentage and scale is not None:
        wanted.append(max(1, math.ceil(spec.percentage * scale / 100)))
    changes = []
    for schedule, duration, replicas in _timetables(spec):
        if schedule.is_active(now, duration):
            wanted.append(replicas)
            opened = schedule.previous(now) or now
            changes.append(max(opened, now - duration.timedelta) + duration.timedelta)
        opens = schedule.next(now)
        if opens is not None:
            changes.append(opens)
    limited = _within_limits(buffer, template)
    only_limits = spec.replicas is None and spec.percentage is None and not spec.schedules
    most = limited if only_limits and limited is not None else max(wanted)
    if limited is not None:
        most = min(most, limited)
    return Size(min(most, _MOST), min(changes, default=None))


def standing_pods(buffer: CapacityBuffer, template: PodTemplateSpec, replicas: int) -> tuple[Pod, ...]:
    """Give the pods that stand for a buffer: as its template makes them, of the least priority."""
    meta = buffer.metadata
    spec = replace(with_default_requests(template.spec), priority=_LAST, priority_class_name="", node_name="")
    annotations = {
        **template.metadata.annotations,
        names.CAPACITY_BUFFER_FAKE_POD: "true",
        names.CAPACITY_BUFFER_NAME: meta.name,
        names.CAPACITY_BUFFER_NAMESPACE: meta.namespace,
    }
    return tuple(
        Pod(
            metadata=ObjectMeta(
                name=f"capacity-buffer-{meta.name}-{number}",
                namespace=meta.namespace,
                uid=f"{meta.uid}-{number}",
                labels=template.metadata.labels,
                annotations=annotations,
                creation_timestamp=meta.creation_timestamp,
            ),
            spec=spec,
        )
        for number in range(replicas)
    )


def costs_of_room(snapshot: Snapshot, plan: Plan) -> Mapping[str, float]:
    """Give what each pod that stands for a buffer costs an hour, by its uid: its share of the node that holds it.

    The share is that of the resource of which it takes most. A pod that was refused is not in the answer.
    """
    prices = {node.name: (node.price_per_hour or 0.0, node.allocatable) for node in snapshot.nodes}
    places = [(*prices[name], pods) for name, pods in plan.existing.items() if name in prices]
    places += [(node.price_per_hour, node.requests, node.pods) for node in plan.new_nodes]
    return {
        pod.metadata.uid: price * _share(pod_requests(pod), whole)
        for price, whole, pods in places
        for pod in pods
        if stands_for_buffer(pod)
    }


def _share(part: Resources, whole: Resources) -> float:
    shares = [amount / whole[name] for name, amount in part.items() if whole.get(name, 0) > 0]
    return min(max(shares, default=0.0), 1.0)


def _timetables(spec: CapacityBufferSpec) -> Iterator[tuple[cron.Schedule, Duration, int]]:
    for number, each in enumerate(spec.schedules):
        field = f"spec.schedules[{number}]"
        try:
            yield (
                cron.parse(each.schedule, each.time_zone or "UTC"),
                parse_duration(each.duration),
                each.replicas,
            )
        except (cron.CronError, DurationError) as error:
            raise UnreadableBufferError(f"{field}: {error.message}", hint=error.hint) from error


def _within_limits(buffer: CapacityBuffer, template: PodTemplateSpec) -> int | None:
    """Give how many pods the limits leave room for; None if nothing is limited that they ask for."""
    try:
        asked = pod_requests(standing_pods(buffer, template, 1)[0])
        limits = Resources.parse(buffer.spec.limits)
    except QuantityError as error:
        raise UnreadableBufferError(f"a quantity cannot be read: {error.message}", hint=error.hint) from error
    room = [amount // asked[name] for name, amount in limits.items() if asked.get(name, 0) > 0]
    return min(room, default=None)
