# SPDX-License-Identifier: Apache-2.0
"""Selectors, node affinity and taints, read from objects as the API gives them.

Written anew and apart from the decision core, so that a mistake there is not made here too. An absent label selector
selects nothing and an empty one everything; a node selector term without any expression matches no node. What cannot
be read (a Gt without a number) matches nothing, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

__all__ = [
    "Requirement",
    "Selector",
    "Wire",
    "first_untolerated",
    "node_matcher",
    "node_term_matches",
    "read_selector",
    "tolerates",
]

Wire: TypeAlias = dict[str, Any]

_NO_SCHEDULE: Final = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression on a label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Tells whether the labels satisfy it."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and self._compares(value)
        return False

    def _compares(self, value: str) -> bool:
        try:
            bound = int(next(iter(self.values)))
            number = int(value)
        except (StopIteration, ValueError):
            return False
        return number > bound if self.operator == "Gt" else number < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector; ``nothing`` is the one that is absent."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def is_empty(self) -> bool:
        """Tells whether it selects everything because it says nothing."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tells whether an object with these labels is selected."""
        if self.nothing:
            return False
        return all(each.holds(labels) for each in self.requirements)

    def plus(self, more: Iterable[Requirement]) -> Selector:
        """Gives a selector that demands these as well; an absent one stays absent."""
        return self if self.nothing else Selector((*self.requirements, *more))


def read_selector(wire: Mapping[str, Any] | None) -> Selector:
    """Reads a label selector of an object."""
    if wire is None:
        return Selector(nothing=True)
    found = [
        Requirement(key, "In", frozenset((value,))) for key, value in (wire.get("matchLabels") or {}).items()
    ]
    found += [
        Requirement(each["key"], each["operator"], frozenset(each.get("values") or ()))
        for each in wire.get("matchExpressions") or ()
    ]
    return Selector(tuple(found))


def node_term_matches(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Tells whether a node of this name and these labels satisfies a node selector term."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_read(each).holds(labels) for each in expressions) and all(
        _read(each).holds({"metadata.name": name}) for each in fields
    )


def node_matcher(spec: Mapping[str, Any]) -> Callable[[str, Mapping[str, str]], bool] | None:
    """Gives the question whether a node suits a pod's nodeSelector and required node affinity; None if any does."""
    wanted = tuple((spec.get("nodeSelector") or {}).items())
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not wanted and required is None:
        return None
    terms = None if required is None else _terms(required.get("nodeSelectorTerms") or ())

    def matches(name: str, labels: Mapping[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in wanted):
            return False
        if terms is None:
            return True
        own = {"metadata.name": name}
        return any(
            all(each.holds(labels) for each in expressions) and all(each.holds(own) for each in fields)
            for expressions, fields in terms
        )

    return matches


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> bool:
    """Tells whether one of the tolerations matches the taint."""
    return any(_tolerates(each, taint) for each in tolerations)


def first_untolerated(
    taints: Iterable[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Gives the first taint that keeps pods with these tolerations from being placed."""
    for taint in taints:
        if taint.get("effect") in _NO_SCHEDULE and not tolerates(tolerations, taint):
            return taint
    return None


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(operator == "Equal" and (toleration.get("value") or "") == (taint.get("value") or ""))


def _read(expression: Mapping[str, Any]) -> Requirement:
    return Requirement(expression["key"], expression["operator"], frozenset(expression.get("values") or ()))


def _terms(
    terms: Iterable[Mapping[str, Any]],
) -> list[tuple[tuple[Requirement, ...], tuple[Requirement, ...]]]:
    found = []
    for term in terms:
        expressions = tuple(map(_read, term.get("matchExpressions") or ()))
        fields = tuple(map(_read, term.get("matchFields") or ()))
        if expressions or fields:
            found.append((expressions, fields))
    return found
