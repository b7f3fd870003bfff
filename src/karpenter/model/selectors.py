# SPDX-License-Identifier: Apache-2.0
"""Label selectors, compiled once: which pods a rule counts, and in which namespaces.

Selectors that mean the same are equal and hash alike, however they were written: expressions on one key are
folded into one, and a selector that contradicts itself is the one that selects nothing. As in Kubernetes an
absent selector selects nothing and an empty one everything. A selector that cannot be read is a value, not an
exception: it selects nothing and says why in ``problem``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from karpenter.api.core import PodAffinityTerm
from karpenter.api.meta import LabelSelector, LabelSelectorRequirement
from karpenter.model.requirements import Requirement, RequirementError, Requirements

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "NamespaceSelection",
    "Selector",
    "compile_selector",
    "select_namespaces",
]


class Selector(msgspec.Struct, frozen=True, cache_hash=True):
    """A set of objects, by their labels.

    Attributes:
        terms: One requirement per label key, in the order of the keys; all must hold.
        selects_nothing: Whether it selects nothing at all; then there are no terms.
        problem: Why the selector could not be read, or empty.
    """

    terms: tuple[Requirement, ...] = ()
    selects_nothing: bool = False
    problem: str = ""

    @property
    def selects_everything(self) -> bool:
        """Whether every object is selected, whatever its labels."""
        return not self.terms and not self.selects_nothing

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The labels with one value that every selected object has: what an index of selectors looks up."""
        return tuple(
            (term.key, value)
            for term in self.terms
            if not term.complement and len(term.values) == 1
            for value in term.values
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tells whether an object with these labels is selected."""
        if self.selects_nothing:
            return False
        for term in self.terms:
            value = labels.get(term.key)
            if value is None:
                if not term.absence:
                    return False
            elif (value in term.values) is term.complement:
                return False
        return True

    def intersection(self, other: Selector) -> Selector:
        """Gives the objects that both select."""
        if self.selects_nothing or other.selects_nothing:
            return NOTHING
        folded = Requirements((*self.terms, *other.terms))
        return NOTHING if folded.is_empty else Selector(tuple(folded))

    def __str__(self) -> str:
        if self.selects_nothing:
            return f"nothing ({self.problem})" if self.problem else "nothing"
        return ", ".join(map(str, self.terms)) or "everything"


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(selects_nothing=True)


class NamespaceSelection(msgspec.Struct, frozen=True, cache_hash=True):
    """The namespaces in which a rule counts pods: some by name, others by their labels.

    Attributes:
        names: Namespaces by name.
        selector: Namespaces by their labels.
        also: Further selections that must hold as well.
    """

    names: frozenset[str] = frozenset()
    selector: Selector = NOTHING
    also: tuple[NamespaceSelection, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tells whether the namespace of this name and these labels is one of them."""
        return (name in self.names or self.selector.matches(labels)) and all(
            other.matches(name, labels) for other in self.also
        )

    def intersection(self, other: NamespaceSelection) -> NamespaceSelection:
        """Gives the namespaces of both."""
        if other == self or other in self.also:
            return self
        return NamespaceSelection(self.names, self.selector, (*self.also, other))


def compile_selector(
    selector: LabelSelector | None,
    labels: Mapping[str, str] | None = None,
    *,
    match_keys: Iterable[str] = (),
    mismatch_keys: Iterable[str] = (),
) -> Selector:
    """Compiles a selector, together with the keys whose values are taken from the owner's own labels.

    Args:
        selector: What the API object says; None selects nothing, and no key changes that.
        labels: The labels of the pod that owns the rule.
        match_keys: Keys on which selected pods must have the owner's value (``matchLabelKeys``). A key that
            the owner does not have is passed over, as in Kubernetes.
        mismatch_keys: Keys on which selected pods must not have the owner's value (``mismatchLabelKeys``).
    """
    if selector is None:
        return NOTHING
    own = labels or {}
    terms = [Requirement.verbatim(key, "In", (value,)) for key, value in selector.match_labels.items()]
    terms += [Requirement.verbatim(key, "In", (own[key],)) for key in match_keys if key in own]
    terms += [Requirement.verbatim(key, "NotIn", (own[key],)) for key in mismatch_keys if key in own]
    try:
        terms += map(_term, selector.match_expressions)
    except RequirementError as error:
        return Selector(selects_nothing=True, problem=error.message)
    folded = Requirements(terms)
    return NOTHING if folded.is_empty else Selector(tuple(folded))


def select_namespaces(term: PodAffinityTerm, own_namespace: str) -> NamespaceSelection:
    """Gives the namespaces that an affinity term means: the owner's, unless it names or selects others."""
    if term.namespace_selector is None:
        return NamespaceSelection(frozenset(term.namespaces or (own_namespace,)))
    selector = compile_selector(term.namespace_selector)
    # Who selects every namespace need not name any: said once, equal terms stay equal.
    names = () if selector.selects_everything else term.namespaces
    return NamespaceSelection(frozenset(names), selector)


def _term(expression: LabelSelectorRequirement) -> Requirement:
    key, operator, values = expression.key, expression.operator, expression.values
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        problem = f'"{operator}" is no operator of a label selector'
        raise RequirementError(key, operator, problem, hint="use In, NotIn, Exists or DoesNotExist")
    takes_values = operator in ("In", "NotIn")
    if takes_values != bool(values):
        problem = (
            f"operator {operator} needs values" if takes_values else f"operator {operator} takes no values"
        )
        raise RequirementError(key, operator, problem, hint=f"{key} In [a, b], or {key} Exists")
    return Requirement.verbatim(key, operator, values)
