# SPDX-License-Identifier: Apache-2.0
"""CapacityBuffer (autoscaling.x-k8s.io/v1beta1): room kept free for pods that do not exist yet.

The kind is shared with other autoscalers; we act only on the one strategy we know.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.crds.shapes import conditions
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodepool import BUDGET_DURATION

__all__ = [
    "ACTIVE_CAPACITY",
    "BufferSchedule",
    "CapacityBuffer",
    "CapacityBufferSpec",
    "CapacityBufferStatus",
    "PodTemplateRef",
    "ScalableRef",
]

ACTIVE_CAPACITY = "buffer.x-k8s.io/active-capacity"


class PodTemplateRef(Frozen):
    """A PodTemplate of the same namespace."""

    name: Annotated[str, Schema("Name of the PodTemplate.", min_length=1)]


class ScalableRef(Frozen):
    """A workload of the same namespace that has the scale subresource."""

    api_group: Annotated[str, Schema("API group of the workload; empty for the core group.")] = ""
    kind: Annotated[str, Schema("Kind of the workload.", min_length=1)]
    name: Annotated[str, Schema("Name of the workload.", min_length=1)]


class BufferSchedule(Frozen):
    """More room at certain hours."""

    schedule: Annotated[
        str,
        Schema(
            "When the room is needed from, as a cron expression of five fields.", min_length=1, max_length=256
        ),
    ]
    duration: Annotated[
        str,
        Schema("How long it is needed, such as 8h.", pattern=BUDGET_DURATION),
    ]
    time_zone: Annotated[
        str, Schema("The time zone of the schedule, by its IANA name; absent means UTC.", max_length=64)
    ] = ""
    replicas: Annotated[int, Schema("For how many pods room is kept meanwhile.", format="int32", minimum=0)]


class CapacityBufferSpec(Frozen):
    """For which pods room is kept, and for how many."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits) || has(self.schedules)",
            "If podTemplateRef is set, replicas or limits must also be set",
        ),
        Rule(
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
            "You must define either PodTemplateRef or ScalableRef, but not both",
        ),
    )

    provisioning_strategy: Annotated[
        str, Schema("How the room is kept; only active capacity is known.", default=ACTIVE_CAPACITY)
    ] = ACTIVE_CAPACITY
    pod_template_ref: Annotated[
        PodTemplateRef | None, Schema("The PodTemplate that one unit of room looks like.")
    ] = None
    scalable_ref: Annotated[
        ScalableRef | None, Schema("The workload whose pods one unit of room looks like.")
    ] = None
    replicas: Annotated[int | None, Schema("For how many pods room is kept.", format="int32", minimum=0)] = (
        None
    )
    percentage: Annotated[
        int | None, Schema("For how many percent of the workload's replicas.", format="int32", minimum=0)
    ] = None
    limits: Annotated[Resources, Schema("What the room may add up to.")] = EMPTY
    schedules: Annotated[
        tuple[BufferSchedule, ...],
        Schema("More room at certain hours; the largest of all that apply counts.", max_items=32),
    ] = ()


class CapacityBufferStatus(Frozen):
    """What the buffer was resolved to."""

    provisioning_strategy: Annotated[str, Schema("The strategy that is followed.")] = ""
    pod_template_ref: Annotated[PodTemplateRef | None, Schema("The PodTemplate that is used.")] = None
    pod_template_generation: Annotated[
        int | None, Schema("Generation of the PodTemplate that is used.", format="int64")
    ] = None
    replicas: Annotated[int | None, Schema("For how many pods room is kept now.", format="int32")] = None
    conditions: Annotated[tuple[Condition, ...], conditions()] = ()


class CapacityBuffer(Frozen):
    """Room kept free for pods that do not exist yet."""

    api_version: str = "autoscaling.x-k8s.io/v1beta1"
    kind: str = "CapacityBuffer"
    metadata: ObjectMeta = ObjectMeta()
    spec: CapacityBufferSpec
    status: CapacityBufferStatus = CapacityBufferStatus()
