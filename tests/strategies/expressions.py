# SPDX-License-Identifier: Apache-2.0
"""Short ways to write what pods say about nodes and about each other.

Each function makes one API object from the words people use for it; nothing is checked, so that tests can also
write what no API server would accept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from karpenter.api.core import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from karpenter.api.labels import ZONE
from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.api.nodeclaim import Requirement

__all__ = [
    "expression",
    "node_term",
    "pod_term",
    "preferred",
    "requirement",
    "selector",
    "spread",
    "taint",
    "toleration",
    "weighted",
]


def requirement(key: str, operator: str, *values: str, min_values: int | None = None) -> Requirement:
    """Make a requirement of a NodePool."""
    return Requirement(key=key, operator=operator, values=values, min_values=min_values)


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    """Make one expression over node labels."""
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def node_term(*expressions: NodeSelectorRequirement, name: tuple[str, str] | None = None) -> NodeSelectorTerm:
    """Make a node affinity term whose expressions must all hold.

    Args:
        expressions: Over labels.
        name: An operator and a node's name, for ``matchFields``: ``("In", "node-1")``.
    """
    fields = () if name is None else (expression("metadata.name", *name),)
    return NodeSelectorTerm(match_expressions=expressions, match_fields=fields)


def preferred(term: NodeSelectorTerm, weight: int = 1) -> PreferredSchedulingTerm:
    """Make a wish about the node."""
    return PreferredSchedulingTerm(weight=weight, preference=term)


def selector(
    labels: Mapping[str, str] | None = None, *expressions: tuple[str, str, tuple[str, ...]]
) -> LabelSelector:
    """Make a label selector; expressions are (key, operator, values). Without any it selects everything."""
    return LabelSelector(
        match_labels=labels or {},
        match_expressions=tuple(
            LabelSelectorRequirement(key=key, operator=operator, values=values)
            for key, operator, values in expressions
        ),
    )


def pod_term(
    labels: Mapping[str, str] | LabelSelector,
    key: str = ZONE,
    *,
    namespaces: Iterable[str] = (),
    namespace_selector: LabelSelector | None = None,
    match_label_keys: Iterable[str] = (),
    mismatch_label_keys: Iterable[str] = (),
) -> PodAffinityTerm:
    """Make a term of pod affinity or anti-affinity: pods with these labels, per value of a node label."""
    return PodAffinityTerm(
        topology_key=key,
        label_selector=_selector(labels),
        namespaces=tuple(namespaces),
        namespace_selector=namespace_selector,
        match_label_keys=tuple(match_label_keys),
        mismatch_label_keys=tuple(mismatch_label_keys),
    )


def weighted(term: PodAffinityTerm, weight: int = 1) -> WeightedPodAffinityTerm:
    """Make a wish about other pods."""
    return WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term)


def spread(
    labels: Mapping[str, str] | LabelSelector,
    key: str = ZONE,
    *,
    max_skew: int = 1,
    soft: bool = False,
    min_domains: int | None = None,
    node_affinity_policy: str = "Honor",
    node_taints_policy: str = "Ignore",
    match_label_keys: Iterable[str] = (),
) -> TopologySpreadConstraint:
    """Make a spread constraint over pods with these labels; a ``soft`` one is only a wish."""
    return TopologySpreadConstraint(
        max_skew=max_skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
        label_selector=_selector(labels),
        min_domains=min_domains,
        node_affinity_policy=node_affinity_policy,
        node_taints_policy=node_taints_policy,
        match_label_keys=tuple(match_label_keys),
    )


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    """Make a taint."""
    return Taint(key=key, value=value, effect=effect)


def toleration(key: str = "", value: str | None = None, effect: str = "") -> Toleration:
    """Make a toleration; without a value it tolerates every value, without a key every taint."""
    if value is None:
        return Toleration(key=key, operator="Exists", effect=effect)
    return Toleration(key=key, operator="Equal", value=value, effect=effect)


def _selector(labels: Mapping[str, str] | LabelSelector) -> LabelSelector:
    return labels if isinstance(labels, LabelSelector) else selector(labels)
