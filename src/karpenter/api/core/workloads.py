# SPDX-License-Identifier: Apache-2.0
"""The workloads that make pods: we read the pod template, the selector and the replica count."""

from __future__ import annotations

from karpenter.api.base import Frozen
from karpenter.api.core.pods import PodTemplateSpec
from karpenter.api.meta import LabelSelector, ObjectMeta

__all__ = [
    "DaemonSet",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "Deployment",
    "ReplicaSet",
    "ReplicaStatus",
    "ReplicatedSpec",
    "StatefulSet",
]


class DaemonSetSpec(Frozen):
    """The pod that every matching node runs."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSetStatus(Frozen):
    """How many nodes should run the pod, and how many do."""

    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSet(Frozen):
    """A DaemonSet (apps/v1); every new node must have room for its pod."""

    api_version: str = "apps/v1"
    kind: str = "DaemonSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ReplicatedSpec(Frozen):
    """A number of equal pods; one if the number is absent."""

    replicas: int = 1
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaStatus(Frozen):
    """How many pods exist and are ready."""

    replicas: int = 0
    ready_replicas: int = 0


class Deployment(Frozen):
    """A Deployment (apps/v1)."""

    api_version: str = "apps/v1"
    kind: str = "Deployment"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicatedSpec = ReplicatedSpec()
    status: ReplicaStatus = ReplicaStatus()


class ReplicaSet(Frozen):
    """A ReplicaSet (apps/v1)."""

    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicatedSpec = ReplicatedSpec()
    status: ReplicaStatus = ReplicaStatus()


class StatefulSet(Frozen):
    """A StatefulSet (apps/v1)."""

    api_version: str = "apps/v1"
    kind: str = "StatefulSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicatedSpec = ReplicatedSpec()
    status: ReplicaStatus = ReplicaStatus()
