# SPDX-License-Identifier: Apache-2.0
"""Who matches what, in the plainest words: taints, node affinity, label selectors, namespaces, pool requirements.

Written anew from the rules of Kubernetes' scheduler, on labels as they are, without any of the product's code for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from karpenter.api.core import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from karpenter.api.meta import LabelSelector

__all__ = [
    "Counted",
    "affinity_terms",
    "allows",
    "anti_affinity_terms",
    "asked_keys",
    "asks_by_name",
    "hard_spreads",
    "node_suits",
    "repelling_taints",
    "spread_counts",
    "term_holds",
]

Namespaces = Mapping[str, Mapping[str, str]]
_LARGEST = 2**63 - 1


# Taints.


def repelling_taints(taints: Iterable[Taint], pod: Pod) -> list[Taint]:
    """Give the taints that keep the pod away; those that only discourage are passed over."""
    return [
        taint
        for taint in taints
        if taint.effect in ("NoSchedule", "NoExecute")
        and not any(_tolerated(taint, toleration) for toleration in pod.spec.tolerations)
    ]


def _tolerated(taint: Taint, toleration: Toleration) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key == "":
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


# Nodes.


def node_suits(pod: Pod, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether a node meets the pod's nodeSelector and required node affinity."""
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return True
    terms = affinity.node_affinity.required.node_selector_terms
    return any(term_holds(term, labels, name) for term in terms)


def term_holds(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether a node meets a term; an empty term is met by none."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_expression_holds(each, labels) for each in term.match_expressions) and all(
        _field_holds(each, name) for each in term.match_fields
    )


def asked_keys(pod: Pod) -> set[str]:
    """Give the node labels that the pod's nodeSelector and required node affinity speak of."""
    keys = set(pod.spec.node_selector)
    affinity = pod.spec.affinity
    if (
        affinity is not None
        and affinity.node_affinity is not None
        and affinity.node_affinity.required is not None
    ):
        for term in affinity.node_affinity.required.node_selector_terms:
            keys |= {each.key for each in term.match_expressions}
    return keys


def asks_by_name(pod: Pod) -> bool:
    """Tell whether the pod chooses its node by name."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return False
    return any(term.match_fields for term in affinity.node_affinity.required.node_selector_terms)


def _expression_holds(expression: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    if expression.operator not in ("Gt", "Lt"):
        return _set_expression_holds(expression.operator, expression.values, value)
    number = None if value is None else _integer(value)
    bound = _integer(expression.values[0]) if len(expression.values) == 1 else None
    if number is None or bound is None:
        return False
    return number > bound if expression.operator == "Gt" else number < bound


def _set_expression_holds(operator: str, values: tuple[str, ...], value: str | None) -> bool:
    """Tell whether a label meets an expression; one that Kubernetes would refuse to read is met by none."""
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return bool(values) and value not in values
        case "Exists":
            return not values and value is not None
        case "DoesNotExist":
            return not values and value is None
    return False


def _field_holds(expression: NodeSelectorRequirement, name: str) -> bool:
    if expression.key != "metadata.name" or len(expression.values) != 1:
        return False
    # A node that is still to come has no name yet, and will have none of those in use.
    if expression.operator == "In":
        return expression.values[0] == name
    return expression.operator == "NotIn" and expression.values[0] != name


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 60:
        return None
    number = int(text)
    return number if -_LARGEST - 1 <= number <= _LARGEST else None


def allows(requirement: Any, value: str | None) -> bool:
    """Tell whether a requirement of a pool or claim allows a label's value, or its absence."""
    if value is None:
        return bool(requirement.absence)
    if requirement.gte is not None or requirement.lte is not None:
        number = _integer(value)
        if number is None:
            return False
        if requirement.gte is not None and number < requirement.gte:
            return False
        if requirement.lte is not None and number > requirement.lte:
            return False
    listed = value in requirement.values
    return not listed if requirement.complement else listed


# Pods.


@dataclass(frozen=True)
class Counted:
    """A term about other pods: which node label its places are values of, and whom it counts."""

    key: str
    counts: Callable[[Pod], bool]


def affinity_terms(pod: Pod, namespaces: Namespaces) -> list[Counted]:
    """Give the pod's required affinity."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return []
    return [_counted(term, pod, namespaces) for term in affinity.pod_affinity.required]


def anti_affinity_terms(pod: Pod, namespaces: Namespaces) -> list[Counted]:
    """Give the pod's required anti-affinity."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return []
    return [_counted(term, pod, namespaces) for term in affinity.pod_anti_affinity.required]


def hard_spreads(pod: Pod) -> list[TopologySpreadConstraint]:
    """Give the pod's spread constraints that must hold."""
    return [
        each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable != "ScheduleAnyway"
    ]


def spread_counts(constraint: TopologySpreadConstraint, owner: Pod) -> Callable[[Pod], bool]:
    """Give the test of whom a spread constraint counts: pods of the owner's namespace that it selects."""
    same = {
        key: owner.metadata.labels[key] for key in constraint.match_label_keys if key in owner.metadata.labels
    }

    def counts(pod: Pod) -> bool:
        labels = pod.metadata.labels
        return (
            pod.metadata.namespace == owner.metadata.namespace
            and _selects(constraint.label_selector, labels)
            and all(labels.get(key) == value for key, value in same.items())
        )

    return counts


def _counted(term: PodAffinityTerm, owner: Pod, namespaces: Namespaces) -> Counted:
    own = owner.metadata.labels

    def counts(pod: Pod) -> bool:
        labels = pod.metadata.labels
        return (
            _in_namespaces(term, owner, pod.metadata.namespace, namespaces)
            and _selects(term.label_selector, labels)
            and all(labels.get(key) == own[key] for key in term.match_label_keys if key in own)
            and all(labels.get(key) != own[key] for key in term.mismatch_label_keys if key in own)
        )

    return Counted(term.topology_key, counts)


def _in_namespaces(term: PodAffinityTerm, owner: Pod, namespace: str, namespaces: Namespaces) -> bool:
    if not term.namespaces and term.namespace_selector is None:
        return namespace == owner.metadata.namespace
    return namespace in term.namespaces or _selects(term.namespace_selector, namespaces.get(namespace, {}))


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _set_expression_holds(each.operator, each.values, labels.get(each.key))
        for each in selector.match_expressions
    )
