# SPDX-License-Identifier: Apache-2.0
"""NodeClaim (karpenter.sh/v1beta1): with its own kubelet settings, and a node class named by API version.

Read to be converted, never written.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.core.nodes import Taint
from karpenter.api.crds.shapes import (
    CONDITION_REASON_OPTIONAL,
    conditions,
    taints,
)
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.ec2nodeclass import KubeletConfiguration
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodeclaim import Requirement, ResourceRequests, requirements_schema

__all__ = [
    "NUMERIC_OPERATORS",
    "OPERATORS",
    "NodeClaim",
    "NodeClaimSpec",
    "NodeClaimStatus",
    "NodeClassRef",
]

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
NUMERIC_OPERATORS = ("Gt", "Lt")


class NodeClassRef(Frozen):
    """The node class that says how to launch, by API version, kind and name.

    v1 names the group instead, and an object without one is read as v1beta1; so a group may not be written
    here.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("!has(self.group)", "group is a field of v1: write apiVersion, or write the object as v1"),
    )

    api_version: Annotated[str, Schema("API version of the node class.")] = ""
    kind: Annotated[str, Schema("Kind of the node class; absent means EC2NodeClass.")] = ""
    name: Annotated[str, Schema("Name of the node class.")]


class NodeClaimSpec(Frozen):
    """What the node must be like."""

    requirements: Annotated[
        tuple[Requirement, ...],
        requirements_schema(operators=OPERATORS, numeric=NUMERIC_OPERATORS),
    ]
    node_class_ref: NodeClassRef
    resources: ResourceRequests = ResourceRequests()
    kubelet: KubeletConfiguration | None = None
    taints: Annotated[tuple[Taint, ...], taints("Taints that the node keeps.")] = ()
    startup_taints: Annotated[
        tuple[Taint, ...],
        taints("Taints that the node starts with and that something else removes."),
    ] = ()


class NodeClaimStatus(Frozen):
    """What became of the claim."""

    node_name: Annotated[str, Schema("Name of the node.")] = ""
    provider_id: Annotated[str, Schema("The instance, as the cloud names it.")] = field(
        name="providerID", default=""
    )
    image_id: Annotated[str, Schema("The image that the node runs.")] = field(name="imageID", default="")
    capacity: Annotated[Resources, Schema("Resources of the whole node.")] = EMPTY
    allocatable: Annotated[Resources, Schema("Resources that pods may use.")] = EMPTY
    conditions: Annotated[tuple[Condition, ...], conditions(CONDITION_REASON_OPTIONAL)] = ()


class NodeClaim(Frozen):
    """The intent to have one node, as in v1beta1."""

    api_version: str = "karpenter.sh/v1beta1"
    kind: str = "NodeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec
    status: NodeClaimStatus = NodeClaimStatus()
