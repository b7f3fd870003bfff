# SPDX-License-Identifier: Apache-2.0
"""Pods, as far as placing and evicting them needs.

Text that decides nothing (images, commands, environment) is left out: it is most of a pod's bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import field

from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.core.selection import NodeSelector, NodeSelectorTerm
from karpenter.api.core.storage import PersistentVolumeClaimSpec
from karpenter.api.meta import Condition, LabelSelector, ObjectMeta

__all__ = [
    "Affinity",
    "Container",
    "ContainerPort",
    "ContainerStatus",
    "EphemeralVolumeSource",
    "NodeAffinity",
    "PersistentVolumeClaimSource",
    "PersistentVolumeClaimTemplate",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodResourceClaim",
    "PodSchedulingGate",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "ResourceRequirements",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "WeightedPodAffinityTerm",
]


class ResourceRequirements(Frozen):
    """What a container (or, since 1.32, a whole pod) asks for and may use at most."""

    requests: Resources = EMPTY
    limits: Resources = EMPTY


class ContainerPort(Frozen):
    """A port of a container; only host ports keep pods apart."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = "TCP"


class Container(Frozen):
    """A container; an init container with restart policy Always is a sidecar and lives as long as the pod."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None


class PreferredSchedulingTerm(Frozen):
    """A wish about the node, and how much it weighs."""

    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Frozen):
    """Which nodes the pod needs and which it would like."""

    required: NodeSelector | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class PodAffinityTerm(Frozen):
    """Other pods, by labels and namespaces, and the kind of place to share or to keep apart."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Frozen):
    """A wish about other pods, and how much it weighs."""

    weight: int = 1
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Frozen):
    """Pods to stand with; the same shape serves anti-affinity, pods to stand apart from."""

    required: tuple[PodAffinityTerm, ...] = field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=()
    )


class Affinity(Frozen):
    """All of a pod's wishes about nodes and about other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Frozen):
    """A taint that the pod puts up with; no key and operator Exists means every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Frozen):
    """How evenly the pods that a selector names must stand over zones, hosts or any other label's values."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class PersistentVolumeClaimSource(Frozen):
    """A volume that is a claim by name."""

    claim_name: str
    read_only: bool = False


class PersistentVolumeClaimTemplate(Frozen):
    """The claim that Kubernetes makes for a generic ephemeral volume."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Frozen):
    """A volume whose claim lives and dies with the pod; the claim is called `<pod>-<volume>`."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Frozen):
    """A volume of a pod; kinds that bind the pod to no place have neither source here."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class PodSchedulingGate(Frozen):
    """A reason why the scheduler must not look at the pod yet."""

    name: str


class PodResourceClaim(Frozen):
    """A claim for devices (dynamic resource allocation)."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Frozen):
    """What a pod asks of the place it runs in."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: Resources = EMPTY
    node_selector: Mapping[str, str] = EMPTY
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    runtime_class_name: str | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None


class ContainerStatus(Frozen):
    """What a running container was really given; differs from its spec during an in-place resize."""

    name: str = ""
    ready: bool = False
    allocated_resources: Resources = EMPTY
    resources: ResourceRequirements | None = None


class PodStatus(Frozen):
    """How far a pod has come."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: datetime | None = None
    resize: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Frozen):
    """A pod (v1)."""

    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Frozen):
    """The pod that a workload makes copies of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class PodTemplate(Frozen):
    """A pod template that stands alone (v1); capacity buffers refer to it."""

    api_version: str = "v1"
    kind: str = "PodTemplate"
    metadata: ObjectMeta = ObjectMeta()
    template: PodTemplateSpec = PodTemplateSpec()
