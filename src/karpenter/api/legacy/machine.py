# SPDX-License-Identifier: Apache-2.0
"""Machine (karpenter.sh/v1alpha5): what a NodeClaim was called before v1beta1.

Read to be converted, never written.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.core.nodes import Taint
from karpenter.api.core.selection import NodeSelectorRequirement
from karpenter.api.crds.shapes import REQUIREMENT
from karpenter.api.crds.vocabulary import Schema
from karpenter.api.legacy.provisioner import (
    LEGACY_TAINT,
    LegacyCondition,
    LegacyKubeletConfiguration,
    ProviderRef,
)
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import ResourceRequests

__all__ = ["Machine", "MachineSpec", "MachineStatus"]


class MachineSpec(Frozen):
    """What the node must be like."""

    requirements: Annotated[
        tuple[NodeSelectorRequirement, ...],
        Schema("Which labels the node must have; all must hold.", items=REQUIREMENT),
    ] = ()
    resources: ResourceRequests = ResourceRequests()
    kubelet: LegacyKubeletConfiguration | None = None
    taints: Annotated[tuple[Taint, ...], Schema("Taints that the node keeps.", items=LEGACY_TAINT)] = ()
    startup_taints: Annotated[
        tuple[Taint, ...],
        Schema("Taints that the node starts with and that something else removes.", items=LEGACY_TAINT),
    ] = ()
    machine_template_ref: ProviderRef | None = None


class MachineStatus(Frozen):
    """What became of the machine."""

    node_name: Annotated[str, Schema("Name of the node.")] = ""
    provider_id: Annotated[str, Schema("The instance, as the cloud names it.")] = field(
        name="providerID", default=""
    )
    capacity: Annotated[Resources, Schema("Resources of the whole node.")] = EMPTY
    allocatable: Annotated[Resources, Schema("Resources that pods may use.")] = EMPTY
    conditions: Annotated[tuple[LegacyCondition, ...], Schema("What is true of the object.")] = ()


class Machine(Frozen):
    """The intent to have one node, as before v1beta1."""

    api_version: str = "karpenter.sh/v1alpha5"
    kind: str = "Machine"
    metadata: ObjectMeta = ObjectMeta()
    spec: MachineSpec = MachineSpec()
    status: MachineStatus = MachineStatus()
