# SPDX-License-Identifier: Apache-2.0
"""Which nodes a pod needs and which it would like: nodeSelector and node affinity, compiled once.

Two questions are answered from the same terms. A plan for nodes to come asks for ``Requirements``, one set
per alternative, under the labels' names of today. A node that stands is judged as Kubernetes' scheduler does:
by its labels as they are, Gt and Lt reading them as 64-bit integers, ``matchFields`` by its name. An empty
term matches no node. A term that the scheduler cannot read (a field other than metadata.name, Gte and Lte, a
bound that is no number) matches none either; it is left out, and ``problems`` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from karpenter.api.core import NodeSelectorRequirement, NodeSelectorTerm, Pod
from karpenter.model.requirements import NO_REQUIREMENTS, Requirement, RequirementError, Requirements

__all__ = ["NodePreference", "NodeRules", "NodeTerm", "compile_term", "node_rules", "term_matches"]

_NODE_NAME: Final = "metadata.name"
_SCHEDULER_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


class NodeTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Conditions on one node that must hold together.

    Attributes:
        requirements: What they mean for a plan, under the names of today.
        written: The same under the names as written, for labels as they stand.
        name: What the node's name must be, or None; no node to come has a name yet.
    """

    requirements: Requirements = NO_REQUIREMENTS
    written: Requirements = NO_REQUIREMENTS
    name: Requirement | None = None

    def matches(self, labels: Mapping[str, str], name: str = "") -> bool:
        """Tells whether a node with these labels and this name meets the conditions."""
        return self.written.allows(labels) and (self.name is None or self.name.has(name))

    def intersection(self, other: NodeTerm) -> NodeTerm:
        """Gives the conditions of both."""
        named = [term.name for term in (self, other) if term.name is not None]
        return NodeTerm(
            self.requirements.intersection(other.requirements),
            self.written.intersection(other.written),
            Requirements(named).get(_NODE_NAME),
        )


class NodePreference(msgspec.Struct, frozen=True, cache_hash=True):
    """Conditions that the pod would like its node to meet, and how much it would."""

    weight: int
    term: NodeTerm


class NodeRules(msgspec.Struct, frozen=True, cache_hash=True):
    """All that a pod says about its node.

    Attributes:
        alternatives: One of them must hold, the nodeSelector included in each; with none, no node will do.
        preferences: Wishes, the heaviest first, equal ones in the order of the spec.
        problems: What could not be read, and was therefore left out.
    """

    alternatives: tuple[NodeTerm, ...] = (NodeTerm(),)
    preferences: tuple[NodePreference, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def strict(self) -> Requirements | None:
        """What the first alternative requires, wishes left aside; None where no node will do."""
        return self.alternatives[0].requirements if self.alternatives else None

    @property
    def preferred(self) -> Requirements | None:
        """What the first alternative requires together with the heaviest wish; None where no node will do."""
        if not self.alternatives or not self.preferences:
            return self.strict
        return self.alternatives[0].requirements.intersection(self.preferences[0].term.requirements)

    def matches(self, labels: Mapping[str, str], name: str = "") -> bool:
        """Tells whether Kubernetes' scheduler lets the pod on a node with these labels and this name."""
        return any(alternative.matches(labels, name) for alternative in self.alternatives)


_NO_RULES: Final = NodeRules()


def node_rules(pod: Pod) -> NodeRules:
    """Compiles the nodeSelector and the node affinity of a pod."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is None and not pod.spec.node_selector:
        return _NO_RULES
    selected = _selected(pod.spec.node_selector)
    if affinity is None:
        return NodeRules((selected,))
    problems: list[str] = []
    alternatives: tuple[NodeTerm, ...] = (selected,)
    if affinity.required is not None:
        readable = _readable(affinity.required.node_selector_terms, problems)
        alternatives = tuple(dict.fromkeys(selected.intersection(term) for term in readable))
    wishes = [
        NodePreference(wish.weight, term)
        for wish in affinity.preferred
        if wish.weight > 0
        for term in _readable((wish.preference,), problems)
    ]
    wishes.sort(key=lambda wish: -wish.weight)
    return NodeRules(alternatives, tuple(wishes), tuple(problems))


def compile_term(term: NodeSelectorTerm) -> NodeTerm | None:
    """Compiles a term; None for an empty one, which matches no node.

    Raises:
        RequirementError: Kubernetes' scheduler could not read it.
    """
    if not term.match_expressions and not term.match_fields:
        return None
    written = Requirements(map(_expression, term.match_expressions))
    names = Requirements(map(_field, term.match_fields))
    return NodeTerm(Requirements.from_expressions(term.match_expressions), written, names.get(_NODE_NAME))


def term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str = "") -> bool:
    """Tells whether Kubernetes' scheduler finds that a node meets a term; one it cannot read is never met."""
    try:
        compiled = compile_term(term)
    except RequirementError:
        return False
    return compiled is not None and compiled.matches(labels, name)


def _selected(node_selector: Mapping[str, str]) -> NodeTerm:
    written = Requirements(Requirement.verbatim(key, "In", (value,)) for key, value in node_selector.items())
    return NodeTerm(Requirements.from_labels(node_selector), written)


def _readable(terms: Iterable[NodeSelectorTerm], problems: list[str]) -> list[NodeTerm]:
    found = []
    for term in terms:
        try:
            compiled = compile_term(term)
        except RequirementError as error:
            problems.append(error.message)
        else:
            if compiled is not None:
                found.append(compiled)
    return found


def _expression(expression: NodeSelectorRequirement) -> Requirement:
    key, operator, values = expression.key, expression.operator, expression.values
    if operator not in _SCHEDULER_OPERATORS:
        problem = f'"{operator}" is no operator that a pod can use'
        raise RequirementError(key, operator, problem, hint=f"use one of {', '.join(_SCHEDULER_OPERATORS)}")
    if operator == "NotIn" and not values:
        raise RequirementError(key, operator, "operator NotIn needs at least one value", hint=f"{key} Exists")
    if operator in ("Exists", "DoesNotExist") and values:
        problem = f"operator {operator} takes no values"
        raise RequirementError(key, operator, problem, hint=f"{key} {operator}")
    return Requirement.verbatim(key, operator, values)


def _field(expression: NodeSelectorRequirement) -> Requirement:
    key, operator, values = expression.key, expression.operator, expression.values
    if key != _NODE_NAME or operator not in ("In", "NotIn") or len(values) != 1:
        problem = "matchFields takes metadata.name, In or NotIn, and one value"
        raise RequirementError(key, operator, problem, hint=f"{_NODE_NAME} In [a-node]")
    return Requirement.verbatim(key, operator, values)
