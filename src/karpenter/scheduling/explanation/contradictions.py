# SPDX-License-Identifier: Apache-2.0
"""Finds what in a pod contradicts itself, so that no node of any pool could ever do.

Asked before any pool, because then no pool is to blame: conditions on one label that exclude each other, node affinity
without a readable term, volumes that lie elsewhere than the pod insists on being. Where a pod has several alternatives
and each contradicts itself, the first one is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from karpenter.api.core import NodeSelectorRequirement, NodeSelectorTerm, Pod
from karpenter.api.labels import stable_name
from karpenter.model.affinity import NodeTerm, compile_term
from karpenter.model.requirements import Requirement, RequirementError, Requirements
from karpenter.scheduling.explanation.fixes import Candidate
from karpenter.scheduling.explanation.obstacles import MOST_ALTERNATIVES, NODE_AFFINITY, NODE_NAME
from karpenter.scheduling.explanation.podchanges import relabelled
from karpenter.scheduling.reasons import Cause, ChangeKind, Constraint
from karpenter.scheduling.stances import Stance

__all__ = ["contradiction_candidates", "find_contradiction"]

# Conditions on one label beyond this are not tried one by one.
_MOST_CONDITIONS = 6


def find_contradiction(stance: Stance) -> tuple[Constraint, ...]:
    """Return the smallest set of the pod's own conditions that no node can meet together; empty if there is none."""
    alternatives, demands = stance.profile.alternatives, stance.pods.volumes.alternatives
    pod = stance.pods.pods[0]
    if not alternatives:
        problems = stance.pods.node.problems
        hint = problems[0] if problems else "an empty term matches no node"
        return (Constraint(Cause.CONTRADICTION, NODE_AFFINITY, "a term that a node can meet", hint=hint),)
    if all(_empty_keys(term) for term in alternatives):
        key = _empty_keys(alternatives[0])[0]
        return _described(key, _smallest(list(_conditions(pod, key))), len(alternatives))
    if len(alternatives) > MOST_ALTERNATIVES or any(
        term.requirements.intersects(demand) for term in alternatives for demand in demands
    ):
        return ()
    first, demand = next(term for term in alternatives if not _empty_keys(term)).requirements, demands[0]
    key = next(each.key for each in demand if each.key in first and not each.intersects(first[each.key]))
    conditions = [*_conditions(pod, key), _Condition(demand[key], "its volumes")]
    return _described(key, _smallest(conditions), len(alternatives))


def contradiction_candidates(pod: Pod, key: str) -> Iterator[Candidate]:
    """Yield the ways to give up one of the conditions on a label."""
    for number in range(_MOST_CONDITIONS):
        for change in relabelled(pod, key, ChangeKind.DROP_REQUIREMENT, _DropNth(number)):
            yield Candidate((change,))


@dataclass(frozen=True, slots=True)
class _Condition:
    """What one part of the pod asks of a label."""

    requirement: Requirement
    origin: str


class _DropNth:
    """Drops one of several expressions and keeps the others."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, expression: NodeSelectorRequirement) -> NodeSelectorRequirement | None:
        self._left -= 1
        return None if self._left == -1 else expression


def _empty_keys(term: NodeTerm) -> list[str]:
    named = [NODE_NAME] if term.name is not None and term.name.is_empty else []
    return [each.key for each in term.requirements if each.is_empty] + named


def _conditions(pod: Pod, key: str) -> Iterator[_Condition]:
    """Yield what the nodeSelector and the first readable term of node affinity ask of a label."""
    for written, value in pod.spec.node_selector.items():
        if stable_name(written) == key:
            yield _Condition(Requirement.of(written, "In", (value,)), "nodeSelector")
    term = _first_term(pod)
    for expression in (*term.match_expressions, *term.match_fields):
        if stable_name(expression.key) == key:
            yield _Condition(Requirement.from_expression(expression), NODE_AFFINITY)


def _first_term(pod: Pod) -> NodeSelectorTerm:
    node_affinity = None if pod.spec.affinity is None else pod.spec.affinity.node_affinity
    if node_affinity is None or node_affinity.required is None:
        return NodeSelectorTerm()
    return next(filter(_is_readable, node_affinity.required.node_selector_terms))


def _is_readable(term: NodeSelectorTerm) -> bool:
    try:
        return compile_term(term) is not None
    except RequirementError:
        return False


def _smallest(conditions: list[_Condition]) -> list[_Condition]:
    """Return conditions of which none can be left out, that exclude each other."""
    kept = conditions
    for each in conditions:
        fewer = [other for other in kept if other is not each]
        if Requirements(other.requirement for other in fewer).is_empty:
            kept = fewer
    return kept


def _described(key: str, conditions: list[_Condition], alternatives: int) -> tuple[Constraint, ...]:
    others = f"each of its {alternatives} alternatives contradicts itself" if alternatives > 1 else ""
    return tuple(
        Constraint(Cause.CONTRADICTION, key, each.requirement.describe(), each.origin, hint=others)
        for each in conditions
    )
