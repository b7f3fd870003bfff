# SPDX-License-Identifier: Apache-2.0
"""NodeClaim (karpenter.sh/v1): the durable intent to have one node, and what became of it.

Its spec never changes once written. A claim that was written through v1beta1 reads as one without a node
class group; see ``NodeClassRef``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import field

from karpenter.api import labels
from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.core.nodes import Taint
from karpenter.api.crds.shapes import (
    CONDITION_REASON_OPTIONAL,
    DURATION,
    DURATION_OR_NEVER,
    aws_domain_rule,
    conditions,
    domain_rule,
    not_label_rule,
    numeric_rule,
    requirement,
    taints,
    values_rule,
)
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.meta import Condition, ObjectMeta

__all__ = [
    "NodeClaim",
    "NodeClaimSpec",
    "NodeClaimStatus",
    "NodeClassRef",
    "Requirement",
    "ResourceRequests",
    "requirements_schema",
]

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
NUMERIC_OPERATORS = ("Gt", "Lt", "Gte", "Lte")

_MIN_VALUES_RULE = Rule(
    "self.all(x, x.operator == 'In' && has(x.minValues)"
    " ? has(x.values) && x.values.size() >= x.minValues : true)",
    "requirements with 'minValues' must have at least that many values specified in the 'values' field",
)
_KEY_RULES = (
    domain_rule(labels.GROUP, (labels.CAPACITY_TYPE, labels.NODEPOOL)),
    not_label_rule(labels.HOSTNAME),
    aws_domain_rule((*labels.AWS_INSTANCE_LABELS, *labels.AWS_LAUNCH_LABELS)),
)


def requirements_schema(
    *,
    more_key_rules: tuple[Rule, ...] = (),
    operators: tuple[str, ...] = OPERATORS,
    numeric: tuple[str, ...] = NUMERIC_OPERATORS,
) -> Schema:
    """Describe the requirements of a claim or of a template for claims."""
    return Schema(
        "Which labels the node must have; all must hold.",
        list_type="atomic",
        max_items=100,
        items=requirement((*_KEY_RULES, *more_key_rules), operators=operators),
        rules=(values_rule("In"), numeric_rule(numeric), _MIN_VALUES_RULE),
    )


class Requirement(Frozen):
    """A label, an operator and values; ``min_values`` asks for that many different values to choose from."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    min_values: Annotated[
        int | None,
        Schema("At least so many values of the label must remain to choose from.", minimum=1, maximum=50),
    ] = None


class NodeClassRef(Frozen):
    """The node class that says how to launch, by group, kind and name.

    The group is required when writing v1 and refused when writing v1beta1: an empty group tells that the
    object was written through v1beta1 and is to be read as such.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.apiVersion)",
            "apiVersion is a field of v1beta1: name the group of the node class instead",
        ),
    )

    group: Annotated[
        str,
        Schema(
            "API group of the node class.",
            required=True,
            pattern=r"^[^/]*$",
            rules=(Rule("self != ''", "group may not be empty"),),
        ),
    ] = ""
    kind: Annotated[
        str,
        Schema(
            "Kind of the node class.",
            required=True,
            rules=(Rule("self != ''", "kind may not be empty"),),
        ),
    ] = ""
    name: Annotated[
        str, Schema("Name of the node class.", rules=(Rule("self != ''", "name may not be empty"),))
    ]

    @property
    def is_v1beta1(self) -> bool:
        """Return whether the object that holds this was written through v1beta1."""
        return not self.group


class ResourceRequests(Frozen):
    """What the pods that the claim was made for need together."""

    requests: Annotated[Resources, Schema("Resources that the node must offer at the least.")] = EMPTY


class NodeClaimSpec(Frozen):
    """What the node must be like."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("self == oldSelf", "spec is immutable"),
        Rule(
            "!has(self.kubelet)",
            "kubelet is a field of v1beta1: it moved to spec.kubelet of the EC2NodeClass",
        ),
    )

    requirements: Annotated[tuple[Requirement, ...], requirements_schema()]
    node_class_ref: NodeClassRef
    resources: ResourceRequests = ResourceRequests()
    taints: Annotated[tuple[Taint, ...], taints("Taints that the node keeps.")] = ()
    startup_taints: Annotated[
        tuple[Taint, ...],
        taints(
            "Taints that the node starts with and that something else removes; pods need not tolerate them."
        ),
    ] = ()
    expire_after: Annotated[
        str,
        Schema(
            "How long the node may live before it is replaced, or Never.",
            default="720h",
            pattern=DURATION_OR_NEVER,
        ),
    ] = "720h"
    termination_grace_period: Annotated[
        str,
        Schema(
            "How long draining may take before pods are deleted by force; unset waits for ever.",
            pattern=DURATION,
        ),
    ] = ""


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
    last_pod_event_time: Annotated[
        datetime | None, Schema("When a pod last came to the node or left it.")
    ] = None


class NodeClaim(Frozen):
    """The intent to have one node."""

    api_version: str = "karpenter.sh/v1"
    kind: str = "NodeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec
    status: NodeClaimStatus = NodeClaimStatus()
