# SPDX-License-Identifier: Apache-2.0
"""Provisioner (karpenter.sh/v1alpha5): what a NodePool was called before v1beta1.

Read to be converted, never written. What its admission webhook refused is refused by rules where a rule is
cheap; what the webhook defaulted is left to the conversion, so that an object keeps what its owner wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import field

from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.core.nodes import Taint
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.crds.shapes import REQUIREMENT
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.meta import ObjectMeta

__all__ = [
    "LEGACY_TAINT",
    "Consolidation",
    "LegacyCondition",
    "LegacyKubeletConfiguration",
    "Limits",
    "ProviderRef",
    "Provisioner",
    "ProvisionerSpec",
    "ProvisionerStatus",
]

# The old definitions bounded nothing of a taint.
LEGACY_TAINT = Schema(
    fields={
        "key": Schema("Name of the taint."),
        "value": Schema("Value that a toleration may ask for."),
        "effect": Schema("What happens to pods that do not tolerate the taint."),
        "timeAdded": Schema("When the taint was set."),
    }
)


class LegacyCondition(Frozen):
    """A condition as it was written before v1beta1; its time is text."""

    type: Annotated[str, Schema("What the condition is about.")]
    status: Annotated[str, Schema("Whether it holds.")]
    severity: Annotated[str, Schema("How bad it is; empty means it is an error.")] = ""
    reason: Annotated[str, Schema("One word for why.")] = ""
    message: Annotated[str, Schema("One sentence for a person.")] = ""
    last_transition_time: Annotated[str, Schema("When the status last changed.")] = ""


class LegacyKubeletConfiguration(Frozen):
    """Settings of the kubelet, with the container runtime that one could still choose."""

    cluster_dns: Annotated[tuple[str, ...], Schema("Addresses of the DNS servers that pods use.")] = field(
        name="clusterDNS", default=()
    )
    container_runtime: Annotated[str, Schema("Container runtime; only containerd is left.")] = ""
    max_pods: Annotated[int | None, Schema("How many pods a node may run.", format="int32", minimum=0)] = None
    pods_per_core: Annotated[
        int | None, Schema("How many pods a node may run for each of its cores.", format="int32", minimum=0)
    ] = None
    system_reserved: Annotated[Resources, Schema("Resources kept for the operating system.")] = EMPTY
    kube_reserved: Annotated[Resources, Schema("Resources kept for Kubernetes' own processes.")] = EMPTY
    eviction_hard: Annotated[Mapping[str, str], Schema("Signals below which pods are evicted at once.")] = (
        EMPTY
    )
    eviction_soft: Annotated[
        Mapping[str, str], Schema("Signals below which pods are evicted after a while.")
    ] = EMPTY
    eviction_soft_grace_period: Annotated[
        Mapping[str, str], Schema("How long each soft signal must last.")
    ] = EMPTY
    eviction_max_pod_grace_period: Annotated[
        int | None, Schema("The longest grace in seconds that a soft eviction gives a pod.", format="int32")
    ] = None
    image_gc_high_threshold_percent: Annotated[
        int | None,
        Schema("Disk use in percent above which images are removed.", format="int32", minimum=0, maximum=100),
    ] = field(name="imageGCHighThresholdPercent", default=None)
    image_gc_low_threshold_percent: Annotated[
        int | None,
        Schema(
            "Disk use in percent down to which images are removed.", format="int32", minimum=0, maximum=100
        ),
    ] = field(name="imageGCLowThresholdPercent", default=None)
    cpu_cfs_quota: Annotated[bool | None, Schema("Whether CPU limits of containers are enforced.")] = field(
        name="cpuCFSQuota", default=None
    )


class ProviderRef(Frozen):
    """The node template that says how to launch."""

    api_version: Annotated[str, Schema("API version of the node template.")] = ""
    kind: Annotated[str, Schema("Kind of the node template; absent means AWSNodeTemplate.")] = ""
    name: Annotated[str, Schema("Name of the node template.")]


class Limits(Frozen):
    """What all nodes may add up to."""

    resources: Annotated[Resources, Schema("The bound of each resource.")] = EMPTY


class Consolidation(Frozen):
    """Whether nodes that are not needed may be taken away or replaced."""

    enabled: Annotated[bool | None, Schema("Whether to consolidate.")] = None


class ProvisionerSpec(Frozen):
    """Which nodes may be made, how many, and when they go."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.ttlSecondsAfterEmpty) || !has(self.consolidation) || !has(self.consolidation.enabled)"
            " || !self.consolidation.enabled",
            "expected exactly one, got both: ttlSecondsAfterEmpty, consolidation.enabled",
        ),
        Rule(
            "!has(self.provider) || !has(self.providerRef)",
            "expected exactly one, got both: provider, providerRef",
        ),
    )

    annotations: Annotated[Mapping[str, str], Schema("Annotations that nodes get.")] = EMPTY
    labels: Annotated[Mapping[str, str], Schema("Labels that nodes get.")] = EMPTY
    taints: Annotated[tuple[Taint, ...], Schema("Taints that the nodes keep.", items=LEGACY_TAINT)] = ()
    startup_taints: Annotated[
        tuple[Taint, ...],
        Schema("Taints that nodes start with and that something else removes.", items=LEGACY_TAINT),
    ] = ()
    requirements: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Schema("Which labels the nodes must have; all must hold.", items=REQUIREMENT),
    ] = ()
    kubelet_configuration: LegacyKubeletConfiguration | None = None
    provider: Annotated[
        Mapping[str, Any] | None, Schema("A node template written in place; no longer supported.")
    ] = None
    provider_ref: ProviderRef | None = None
    ttl_seconds_after_empty: Annotated[
        int | None,
        Schema("Seconds after which an empty node goes; absent means never.", format="int64", minimum=0),
    ] = None
    ttl_seconds_until_expired: Annotated[
        int | None,
        Schema("Seconds after which a node is replaced; absent means never.", format="int64", minimum=0),
    ] = None
    limits: Limits | None = None
    weight: Annotated[
        int | None,
        Schema("Provisioners of more weight are tried first.", format="int32", minimum=1, maximum=100),
    ] = None
    consolidation: Consolidation | None = None


class ProvisionerStatus(Frozen):
    """What the Provisioner has."""

    resources: Annotated[Resources, Schema("What all nodes add up to.")] = EMPTY
    last_scale_time: Annotated[datetime | None, Schema("When a node was last made.")] = None
    conditions: Annotated[tuple[LegacyCondition, ...], Schema("What is true of the object.")] = ()


class Provisioner(Frozen):
    """A set of nodes that are made and taken away by the same rules, as before v1beta1."""

    api_version: str = "karpenter.sh/v1alpha5"
    kind: str = "Provisioner"
    metadata: ObjectMeta = ObjectMeta()
    spec: ProvisionerSpec = ProvisionerSpec()
    status: ProvisionerStatus = ProvisionerStatus()
