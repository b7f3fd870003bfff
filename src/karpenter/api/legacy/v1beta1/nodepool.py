# SPDX-License-Identifier: Apache-2.0
"""NodePool (karpenter.sh/v1beta1): with kubelet settings in its template, and expiry among the disruptions.

Read to be converted, never written. The defaults of ``Disruption`` hold for absent fields, but the API server
does not fill them in: a stored object that v1 also reads must not gain values that v1 does not know (see ADR
0003).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from karpenter.api import labels
from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.core.nodes import Taint
from karpenter.api.crds.shapes import DURATION_OR_NEVER, conditions, not_label_rule, taints
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.ec2nodeclass import KubeletConfiguration
from karpenter.api.legacy.v1beta1.nodeclaim import NUMERIC_OPERATORS, OPERATORS, NodeClassRef
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodeclaim import Requirement, ResourceRequests, requirements_schema
from karpenter.api.nodepool import BUDGET_DURATION, BUDGET_NODES, BUDGETS_RULE, SCHEDULE, TemplateMetadata

__all__ = [
    "Budget",
    "Disruption",
    "NodeClaimTemplate",
    "NodeClaimTemplateSpec",
    "NodePool",
    "NodePoolSpec",
    "NodePoolStatus",
]


class Budget(Frozen):
    """How many nodes of the pool may be taken away at the same time, always or in a window."""

    nodes: Annotated[
        str,
        Schema(
            "A number of nodes, or a share of them in percent.",
            required=True,
            default="10%",
            pattern=BUDGET_NODES,
        ),
    ] = "10%"
    schedule: Annotated[
        str, Schema("When a window opens, in cron syntax and UTC; absent means always.", pattern=SCHEDULE)
    ] = ""
    duration: Annotated[
        str, Schema("How long a window stays open, in hours and minutes.", pattern=BUDGET_DURATION)
    ] = ""


class Disruption(Frozen):
    """When nodes of the pool may be taken away."""

    # A read through v1 fills in a pool without disruption with v1's policy and 0s, and a write of its status
    # stores both.
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.consolidateAfter) || self.consolidateAfter in ['Never', '0s']"
            " || (has(self.consolidationPolicy) && self.consolidationPolicy != 'WhenUnderutilized')",
            "consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized",
        ),
        Rule(
            "!has(self.consolidationPolicy) || self.consolidationPolicy != 'WhenEmpty'"
            " || has(self.consolidateAfter)",
            "consolidateAfter must be specified with consolidationPolicy=WhenEmpty",
        ),
    )

    consolidation_policy: Annotated[
        str,
        Schema(
            "Which nodes consolidation may take away; absent means WhenUnderutilized.",
            enum=("WhenEmpty", "WhenUnderutilized", "WhenEmptyOrUnderutilized"),
        ),
    ] = "WhenUnderutilized"
    consolidate_after: Annotated[
        str,
        Schema(
            "How long a node must be empty before it may be consolidated, or Never.",
            pattern=DURATION_OR_NEVER,
        ),
    ] = ""
    expire_after: Annotated[
        str,
        Schema(
            "How long a node may live before it is replaced, or Never; absent means 720h.",
            pattern=DURATION_OR_NEVER,
        ),
    ] = "720h"
    budgets: Annotated[
        tuple[Budget, ...],
        Schema(
            "Bounds on how many nodes go at once; the tightest that is active counts.",
            default=[{"nodes": "10%"}],
            list_type="atomic",
            max_items=50,
            rules=(BUDGETS_RULE,),
        ),
    ] = (Budget(),)


class NodeClaimTemplateSpec(Frozen):
    """What the nodes of a pool must be like."""

    requirements: Annotated[
        tuple[Requirement, ...],
        requirements_schema(
            more_key_rules=(not_label_rule(labels.NODEPOOL),), operators=OPERATORS, numeric=NUMERIC_OPERATORS
        ),
    ]
    node_class_ref: NodeClassRef
    resources: Annotated[ResourceRequests, Schema("Must be empty in a NodePool.", max_properties=0)] = (
        ResourceRequests()
    )
    kubelet: KubeletConfiguration | None = None
    taints: Annotated[tuple[Taint, ...], taints("Taints that the nodes keep.")] = ()
    startup_taints: Annotated[
        tuple[Taint, ...], taints("Taints that nodes start with and that something else removes.")
    ] = ()


class NodeClaimTemplate(Frozen):
    """From what the claims of a pool are made."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeClaimTemplateSpec


class NodePoolSpec(Frozen):
    """Which nodes the pool may have, and how many."""

    template: NodeClaimTemplate
    disruption: Disruption = Disruption()
    limits: Annotated[Resources, Schema("What all nodes of the pool may add up to.")] = EMPTY
    weight: Annotated[
        int | None,
        Schema(
            "Pools of more weight are tried first; absent means 0.", format="int32", minimum=1, maximum=100
        ),
    ] = None


class NodePoolStatus(Frozen):
    """What the pool has, and whether it can be used."""

    resources: Annotated[Resources, Schema("What all nodes of the pool add up to.")] = EMPTY
    conditions: Annotated[tuple[Condition, ...], conditions()] = ()


class NodePool(Frozen):
    """A set of nodes that are made and taken away by the same rules, as in v1beta1."""

    api_version: str = "karpenter.sh/v1beta1"
    kind: str = "NodePool"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec
    status: NodePoolStatus = NodePoolStatus()
