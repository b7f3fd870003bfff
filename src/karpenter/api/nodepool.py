# SPDX-License-Identifier: Apache-2.0
"""NodePool (karpenter.sh/v1): which nodes may be made, how many, and when they may be taken away again.

An object that was written through v1beta1 reads as one whose node class has no group (``NodeClassRef``) and
may lack what v1 demands; the ``legacy`` types read it as it was meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from karpenter.api import labels
from karpenter.api.base import ABSENT, EMPTY, Frozen, Resources
from karpenter.api.core.nodes import Taint
from karpenter.api.crds.shapes import (
    DURATION,
    DURATION_OR_NEVER,
    LABEL_VALUE,
    aws_domain_rule,
    conditions,
    domain_rule,
    not_label_rule,
    taints,
)
from karpenter.api.crds.vocabulary import Rule, Schema
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodeclaim import NodeClassRef, Requirement, requirements_schema

__all__ = [
    "Budget",
    "Disruption",
    "NodeClaimTemplate",
    "NodeClaimTemplateSpec",
    "NodePool",
    "NodePoolSpec",
    "NodePoolStatus",
    "TemplateMetadata",
]

SCHEDULE = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|.+\s.+\s.+\s.+\s.+)$"
BUDGET_DURATION = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"
BUDGET_NODES = r"^((100|[0-9]{1,2})%|[0-9]+)$"
BUDGETS_RULE = Rule(
    "self.all(x, has(x.schedule) == has(x.duration))", "'schedule' must be set with 'duration'"
)
WINDOWS_RULE = Rule(
    "self.all(x, has(x.schedule) || (!has(x.timeZone) && (!has(x.window) || x.window != 'Allow')))",
    "'timeZone' and the window 'Allow' need a 'schedule'",
)
MINIMUM_SAVING = r"^(100|[0-9]{1,2})(\.[0-9]{1,2})?%$"

_LABEL_RULES = (
    domain_rule(labels.GROUP, (labels.CAPACITY_TYPE, labels.NODEPOOL), each=True),
    not_label_rule(labels.NODEPOOL, each=True),
    not_label_rule(labels.HOSTNAME, each=True),
    aws_domain_rule((*labels.AWS_INSTANCE_LABELS, *labels.AWS_LAUNCH_LABELS), each=True),
)


def _immutable(name: str) -> Rule:
    # An object written through v1beta1 may lack both, and a rule that fails to evaluate is never forgiven,
    # not even when nothing changed.
    return Rule(
        f"!has(oldSelf.{name}) || (has(self.{name}) && self.{name} == oldSelf.{name})",
        f"nodeClassRef.{name} is immutable",
    )


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
        str,
        Schema(
            "When a window opens, in cron syntax, in UTC unless timeZone says otherwise; absent means always.",
            pattern=SCHEDULE,
        ),
    ] = ""
    duration: Annotated[
        str, Schema("How long a window stays open, in hours and minutes.", pattern=BUDGET_DURATION)
    ] = ""
    reasons: Annotated[
        tuple[str, ...],
        Schema(
            "The reasons for disruption that the budget bounds; absent means all but Expired.",
            list_type="set",
            max_items=50,
            items=Schema(enum=("Underutilized", "Empty", "Drifted", "Expired")),
        ),
    ] = ()
    time_zone: Annotated[
        str, Schema("The time zone of the schedule, by its IANA name; absent means UTC.", max_length=64)
    ] = ""
    window: Annotated[
        str,
        Schema(
            "Bound: the budget counts inside the window alone. Allow: nodes go inside such windows alone.",
            enum=("Bound", "Allow"),
        ),
    ] = ""


class Disruption(Frozen):
    """When nodes of the pool may be taken away.

    ``consolidate_after`` is empty only in an object that was written through v1beta1.
    """

    # 720h is what Karpenter before v1 filled in by itself: it must not stand in the way of a v1 manifest that is
    # applied over such an object.
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.expireAfter) || self.expireAfter == '720h'",
            "expireAfter is a field of v1beta1: it moved to spec.template.spec.expireAfter",
        ),
    )

    consolidate_after: Annotated[
        str,
        Schema(
            "How long a node must be without pod changes before it may be consolidated, or Never.",
            required=True,
            pattern=DURATION_OR_NEVER,
        ),
    ] = ""
    consolidation_policy: Annotated[
        str,
        Schema(
            "Which nodes consolidation may take away.",
            default="WhenEmptyOrUnderutilized",
            enum=("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"),
        ),
    ] = "WhenEmptyOrUnderutilized"
    budgets: Annotated[
        tuple[Budget, ...],
        Schema(
            "Bounds on how many nodes go at once; the tightest that is active counts.",
            default=[{"nodes": "10%"}],
            list_type="atomic",
            max_items=50,
            rules=(BUDGETS_RULE, WINDOWS_RULE),
        ),
    ] = (Budget(),)
    minimum_saving: Annotated[
        str,
        Schema(
            "The least saving worth moving pods for, as a share of the price of the nodes that go.",
            pattern=MINIMUM_SAVING,
        ),
    ] = ""


class TemplateMetadata(Frozen):
    """Labels and annotations of the claims and nodes made from a template."""

    labels: Annotated[
        Mapping[str, str],
        Schema(
            "Labels that claims and nodes get.",
            map_type="atomic",
            max_properties=100,
            items=Schema(max_length=63, pattern=LABEL_VALUE),
            rules=_LABEL_RULES,
        ),
    ] = EMPTY
    annotations: Annotated[
        Mapping[str, str], Schema("Annotations that claims and nodes get.", map_type="granular")
    ] = EMPTY


class NodeClaimTemplateSpec(Frozen):
    """What the nodes of a pool must be like."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.kubelet)",
            "kubelet is a field of v1beta1: it moved to spec.kubelet of the EC2NodeClass",
        ),
        Rule("!has(self.resources)", "resources is a field of v1beta1: a NodePool cannot request resources"),
    )

    requirements: Annotated[
        tuple[Requirement, ...], requirements_schema(more_key_rules=(not_label_rule(labels.NODEPOOL),))
    ]
    node_class_ref: Annotated[
        NodeClassRef,
        Schema(
            rules=(
                _immutable("group"),
                _immutable("kind"),
            )
        ),
    ]
    taints: Annotated[tuple[Taint, ...], taints("Taints that the nodes keep.")] = ABSENT
    startup_taints: Annotated[
        tuple[Taint, ...],
        taints("Taints that nodes start with and that something else removes; pods need not tolerate them."),
    ] = ABSENT
    expire_after: Annotated[
        str,
        Schema(
            "How long a node may live before it is replaced, or Never.",
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


class NodeClaimTemplate(Frozen):
    """From what the claims of a pool are made."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: NodeClaimTemplateSpec


class NodePoolSpec(Frozen):
    """Which nodes the pool may have, and how many."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "Cannot transition NodePool between static (replicas set)"
            " and dynamic (replicas unset) provisioning modes",
        ),
        Rule(
            "!has(self.replicas) || !has(self.limits) || size(self.limits) == 0"
            " || (size(self.limits) == 1 && 'nodes' in self.limits)",
            "only 'limits.nodes' is supported on static NodePools",
        ),
        Rule("!has(self.replicas) || !has(self.weight)", "'weight' is not supported on static NodePools"),
    )

    template: NodeClaimTemplate
    disruption: Annotated[Disruption, Schema(default={"consolidateAfter": "0s"})] = Disruption(
        consolidate_after="0s"
    )
    limits: Annotated[
        Resources, Schema("What all nodes of the pool may add up to; `nodes` bounds their number.")
    ] = EMPTY
    weight: Annotated[
        int | None,
        Schema(
            "Pools of more weight are tried first; absent means 0.", format="int32", minimum=1, maximum=100
        ),
    ] = None
    replicas: Annotated[
        int | None,
        Schema("How many nodes a static pool keeps, whatever the pods (alpha).", format="int64", minimum=0),
    ] = None


class NodePoolStatus(Frozen):
    """What the pool has, and whether it can be used."""

    resources: Annotated[Resources, Schema("What all nodes of the pool add up to.")] = EMPTY
    nodes: Annotated[int, Schema("How many nodes the pool has.", default=0, format="int64")] = 0
    node_class_observed_generation: Annotated[
        int | None,
        Schema("Generation of the node class that registration health was judged on.", format="int64"),
    ] = None
    conditions: Annotated[tuple[Condition, ...], conditions()] = ()


class NodePool(Frozen):
    """A set of nodes that are made and taken away by the same rules."""

    api_version: str = "karpenter.sh/v1"
    kind: str = "NodePool"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec
    status: NodePoolStatus = NodePoolStatus()
