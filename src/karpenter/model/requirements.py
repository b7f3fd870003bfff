# SPDX-License-Identifier: Apache-2.0
"""What a node's labels may be: requirements per label key, and the algebra over them.

A requirement is a set: some values of one label, and perhaps the label's absence. The operators give::

    In a b          exactly a or b               NotIn a b       anything else, or no such label
    Exists          any value                    DoesNotExist    no such label
    Gt Lt Gte Lte   integers within a bound

Intersection, overlap and emptiness are exactly those of the sets, so the order in which requirements meet
never matters. It is Karpenter's algebra with one thing kept that Karpenter forgets: that a label must be
there. ``In a`` with ``NotIn a`` is a contradiction, not "no such label", and ``Exists`` with ``NotIn a``
still demands the label; Kubernetes' scheduler says the same of both. ``operator`` gives Karpenter's view.

Keys are mapped to their names of today. Refused, as ``RequirementError``: an operator that does not exist,
``In`` without values, a bound that is not one 64-bit integer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, Literal, Protocol, TypeAlias, get_args

import msgspec

from karpenter.api import nodeclaim
from karpenter.api.labels import WELL_KNOWN, stable_name
from karpenter.errors import KarpenterError
from karpenter.model.spelling import nearest_label

__all__ = [
    "ENDLESS",
    "NO_REQUIREMENTS",
    "Conflict",
    "Expression",
    "Operator",
    "Requirement",
    "RequirementError",
    "Requirements",
    "parse_label_integer",
]

Operator: TypeAlias = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]

# How many values a requirement has that only excludes some: more than anybody counts.
ENDLESS: Final = 2**63 - 1

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}")
_BOUND_OPERATORS: Final = frozenset({"Gt", "Lt", "Gte", "Lte"})
_NO_VALUES: Final[frozenset[str]] = frozenset()
_SHOWN_VALUES: Final = 5


class RequirementError(KarpenterError):
    """A requirement that says nothing: an unknown operator, or values that the operator cannot use."""

    def __init__(self, key: str, operator: str, problem: str, *, hint: str) -> None:
        super().__init__(f"{key}: {problem}", hint=hint)
        self.key = key
        self.operator = operator
        self.problem = problem


class Expression(Protocol):
    """What pods, volumes and NodePools write; a ``min_values`` beside it is read too."""

    @property
    def key(self) -> str:
        """The label."""
        ...

    @property
    def operator(self) -> str:
        """One of the eight operators."""
        ...

    @property
    def values(self) -> tuple[str, ...]:
        """The values that the operator speaks of."""
        ...


class Requirement(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The values that one label may have, and whether the label may be absent; made by ``of``.

    Attributes:
        key: The label.
        values: The values allowed, or with ``complement`` the values excluded.
        complement: Whether every value but those named is allowed.
        absence: Whether a node without the label will do.
        gte: The smallest integer allowed, and nothing but integers; only beside ``complement``.
        lte: The largest integer allowed, likewise.
        min_values: How many different values a plan must keep open, for flexibility.
    """

    key: str
    values: frozenset[str] = _NO_VALUES
    complement: bool = False
    absence: bool = False
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @classmethod
    def of(
        cls, key: str, operator: str, values: Iterable[str] = (), *, min_values: int | None = None
    ) -> Requirement:
        """Makes the requirement that an operator and its values state, under the label's name of today.

        Raises:
            RequirementError: The operator does not exist, or cannot use the values.
        """
        return cls.verbatim(stable_name(key), operator, values, min_values=min_values)

    @classmethod
    def verbatim(
        cls, key: str, operator: str, values: Iterable[str] = (), *, min_values: int | None = None
    ) -> Requirement:
        """Makes the same as ``of``, but leaves the key as it is: for the labels of pods and of real nodes.

        Raises:
            RequirementError: The operator does not exist, or cannot use the values.
        """
        if operator in _BOUND_OPERATORS:
            return _bounded(key, operator, tuple(values), min_values)
        if operator == "In":
            allowed = frozenset(values)
            if not allowed:
                hint = f'{key} In "a-value", or {key} Exists'
                raise RequirementError(key, operator, "operator In needs at least one value", hint=hint)
            return cls(key, allowed, min_values=min_values)
        if operator == "NotIn":
            return cls(key, frozenset(values), complement=True, absence=True, min_values=min_values)
        if operator == "Exists":
            return cls(key, complement=True, min_values=min_values)
        if operator == "DoesNotExist":
            return cls(key, absence=True, min_values=min_values)
        problem = f'there is no operator "{operator}"'
        raise RequirementError(key, operator, problem, hint=f"use one of {', '.join(get_args(Operator))}")

    @classmethod
    def from_expression(cls, expression: Expression) -> Requirement:
        """Makes the requirement that an API expression states, with its minValues where it has any.

        Raises:
            RequirementError: The operator does not exist, or cannot use the values.
        """
        min_values: int | None = getattr(expression, "min_values", None)
        return cls.of(expression.key, expression.operator, expression.values, min_values=min_values)

    @classmethod
    def anything(cls, key: str) -> Requirement:
        """Makes the requirement that every value meets, and absence too."""
        return cls(key, complement=True, absence=True)

    @property
    def operator(self) -> Operator:
        """The operator as Karpenter sees it: bounds are an Exists, a contradiction is a DoesNotExist."""
        if self.complement:
            return "NotIn" if self.values or self.absence else "Exists"
        return "In" if self.values else "DoesNotExist"

    @property
    def is_empty(self) -> bool:
        """Whether it is a contradiction: no value meets it, nor does absence."""
        return not (self.complement or self.values or self.absence)

    def has(self, value: str) -> bool:
        """Tells whether the label may have this value."""
        if (value in self.values) is self.complement:
            return False
        return _within(value, self.gte, self.lte)

    def allows_absence(self) -> bool:
        """Tells whether a node without the label meets the requirement."""
        return self.absence

    def allows(self, value: str | None) -> bool:
        """Tells whether a node whose label has this value, or none at all, meets the requirement."""
        return self.absence if value is None else self.has(value)

    def length(self) -> int:
        """Counts the values; one that only excludes values has ``ENDLESS`` ones, less those."""
        return ENDLESS - len(self.values) if self.complement else len(self.values)

    def any_value(self) -> str | None:
        """Picks a value that the label may have: the first in order or, of endless ones, a number.

        None where no value can be named: absence alone is allowed, or nothing.
        """
        if not self.complement:
            return min(self.values, default=None)
        start, step = (self.lte, -1) if self.gte is None and self.lte is not None else (self.gte or 0, 1)
        # As many steps as values are excluded, and one more, find a free number if there is one.
        candidates = map(str, range(start, start + step * (len(self.values) + 1), step))
        return next(filter(self.has, candidates), None)

    def intersection(self, other: Requirement) -> Requirement:
        """Gives the requirement that allows what both allow; minValues is the larger one."""
        gte = _larger(self.gte, other.gte)
        lte = _smaller(self.lte, other.lte)
        min_values = _larger(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, min_values=min_values)
        complement = self.complement and other.complement
        values = self._shared_values(other)
        if values and (gte is not None or lte is not None):
            values = frozenset(value for value in values if _within(value, gte, lte))
        return Requirement(
            self.key,
            values,
            complement,
            self.absence and other.absence,
            gte if complement else None,
            lte if complement else None,
            min_values,
        )

    def intersects(self, other: Requirement) -> bool:
        """Tells whether anything meets both, without making their intersection."""
        if self.absence and other.absence:
            return True
        gte = _larger(self.gte, other.gte)
        lte = _smaller(self.lte, other.lte)
        if self.complement and other.complement:
            return gte is None or lte is None or gte <= lte
        if gte is not None or lte is not None:
            return any(_within(value, gte, lte) for value in self._shared_values(other))
        if self.complement:
            return not other.values <= self.values
        if other.complement:
            return not self.values <= other.values
        return not self.values.isdisjoint(other.values)

    def _shared_values(self, other: Requirement) -> frozenset[str]:
        """Gives the values that both allow by name; where both only exclude, those that either excludes."""
        if self.complement:
            return self.values | other.values if other.complement else other.values - self.values
        return self.values - other.values if other.complement else self.values & other.values

    def entries(self) -> tuple[nodeclaim.Requirement, ...]:
        """Writes the requirement back in API form: one entry, or several that mean it together.

        Both bounds give two entries, Gte and Lte; values excluded within bounds give one more; NotIn of a
        label that must be there is followed by Exists; a contradiction is DoesNotExist and Exists.
        """
        parts: list[tuple[Operator, tuple[str, ...]]] = []
        if self.gte is not None:
            parts.append(("Gte", (str(self.gte),)))
        if self.lte is not None:
            parts.append(("Lte", (str(self.lte),)))
        if self.values or not self.complement or self.absence:
            parts.append((self.operator, tuple(sorted(self.values))))
        must_be_there = not self.absence and (self.complement or not self.values)
        if must_be_there and self.gte is None and self.lte is None:
            parts.append(("Exists", ()))
        return tuple(
            nodeclaim.Requirement(key=self.key, operator=operator, values=values, min_values=self.min_values)
            for operator, values in parts
        )

    def describe(self) -> str:
        """Says in a few words what is allowed, without the key: "In [a, b]", ">= 5 and <= 9"."""
        if self.is_empty:
            return "nothing"
        words = []
        if self.values:
            words.append(f"{self.operator} [{_listed(sorted(self.values))}]")
        elif not self.complement:
            words.append("DoesNotExist")
        elif self.absence:
            words.append("anything")
        if self.gte is not None:
            words.append(f">= {self.gte}")
        if self.lte is not None:
            words.append(f"<= {self.lte}")
        if self.complement and not self.absence and self.gte is None and self.lte is None:
            words.append("Exists")
        if self.min_values is not None:
            words.append(f"at least {self.min_values} values")
        return " and ".join(words)

    def __str__(self) -> str:
        return f"{self.key} {self.describe()}"


class Conflict(msgspec.Struct, frozen=True, cache_hash=True):
    """One label on which what is wanted and what is offered do not meet.

    Attributes:
        key: The label.
        wanted: What the pod (or volume) asks for.
        offered: What the node has or can have; None where it does not know the label.
        meant: The known label that a mistyped key was probably meant to be, or empty.
    """

    key: str
    wanted: Requirement
    offered: Requirement | None = None
    meant: str = ""

    @property
    def reason(self) -> Literal["contradiction", "undefined", "disjoint"]:
        """Whether the wish contradicts itself, nobody knows the label, or the values have none in common."""
        if self.wanted.is_empty:
            return "contradiction"
        return "undefined" if self.offered is None else "disjoint"

    def __str__(self) -> str:
        if self.wanted.is_empty:
            return f"{self.key}: the conditions contradict each other, no value meets them all"
        if self.offered is None:
            hint = f'; did you mean "{self.meant}"?' if self.meant else ""
            return f'no node has the label "{self.key}", {self.wanted.describe()} is wanted{hint}'
        return f"{self.offered}, {self.wanted.describe()} is wanted"


class Requirements:
    """Requirements by label key, at most one per key, in the order of their keys; immutable and hashable."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        merged: dict[str, Requirement] = {}
        for requirement in requirements:
            present = merged.get(requirement.key)
            merged[requirement.key] = requirement if present is None else present.intersection(requirement)
        self._by_key = dict(sorted(merged.items()))
        self._hash: int | None = None

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Requirements:
        """Makes the requirements that these labels alone meet; serves nodeSelectors and nodes' own labels."""
        return cls(Requirement(stable_name(key), frozenset((value,))) for key, value in labels.items())

    @classmethod
    def from_expressions(cls, expressions: Iterable[Expression]) -> Requirements:
        """Makes the requirements that API expressions state together.

        Raises:
            RequirementError: One of them says nothing sensible.
        """
        return cls(map(Requirement.from_expression, expressions))

    def __getitem__(self, key: str) -> Requirement:
        return self._by_key[key]

    def get(self, key: str) -> Requirement | None:
        """Gives the requirement on a label, or None where there is none."""
        return self._by_key.get(key)

    def on(self, key: str) -> Requirement:
        """Gives the requirement on a label, or the one that anything meets."""
        return self._by_key.get(key) or Requirement.anything(key)

    def keys(self) -> Iterable[str]:
        """Gives the labels spoken of, in order."""
        return self._by_key.keys()

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Requirements):
            return NotImplemented
        return self._by_key == other._by_key

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._by_key.values()))
        return self._hash

    def __reduce__(self) -> tuple[type[Requirements], tuple[tuple[Requirement, ...]]]:
        # Texts hash differently in another process, so the remembered hash must not travel.
        return Requirements, (tuple(self._by_key.values()),)

    def __str__(self) -> str:
        return ", ".join(map(str, self))

    def __repr__(self) -> str:
        return f"Requirements({list(self)!r})"

    @property
    def is_empty(self) -> bool:
        """Whether no node can meet them, because one of them is a contradiction."""
        return any(requirement.is_empty for requirement in self)

    @property
    def has_min_values(self) -> bool:
        """Whether one of them asks to keep several values open."""
        return any(requirement.min_values is not None for requirement in self)

    def intersection(self, other: Requirements) -> Requirements:
        """Gives the requirements that allow what both allow."""
        if not other._by_key or self is other:
            return self
        return Requirements((*self, *other)) if self._by_key else other

    def plus(self, *requirements: Requirement) -> Requirements:
        """Gives these requirements with some more, each intersected with what is there."""
        return Requirements((*self, *requirements))

    def without(self, *keys: str) -> Requirements:
        """Gives these requirements but for some labels."""
        return Requirements(requirement for requirement in self if requirement.key not in keys)

    def allows(self, labels: Mapping[str, str]) -> bool:
        """Tells whether a node with exactly these labels meets them all; the keys must be names of today."""
        return all(requirement.allows(labels.get(requirement.key)) for requirement in self)

    def intersects(self, wanted: Requirements) -> bool:
        """Tells whether some node could meet both; a label that one side does not speak of is no obstacle."""
        mine = self._by_key
        for want in wanted:
            offer = mine.get(want.key)
            if want.is_empty or (offer is not None and not offer.intersects(want)):
                return False
        return True

    def compatible(self, wanted: Requirements, allow_undefined: frozenset[str] = WELL_KNOWN) -> bool:
        """Tells whether a node with these requirements can serve a pod that wants those.

        A label that the node does not speak of will do where the wish allows its absence, or where it is one
        of ``allow_undefined``: such a label is still open on a node to come. For a node that stands already,
        pass an empty set.
        """
        mine = self._by_key
        for want in wanted:
            offer = mine.get(want.key)
            if offer is None:
                if want.is_empty or not (want.absence or want.key in allow_undefined):
                    return False
            elif not offer.intersects(want):
                return False
        return True

    def conflicts(
        self, wanted: Requirements, allow_undefined: frozenset[str] = WELL_KNOWN
    ) -> tuple[Conflict, ...]:
        """Gives each label on which ``compatible`` fails, in the order of the keys; empty where it holds."""
        found = []
        for want in wanted:
            offer = self._by_key.get(want.key)
            if offer is not None:
                if not offer.intersects(want):
                    found.append(Conflict(want.key, want, offer))
            elif want.is_empty:
                found.append(Conflict(want.key, want))
            elif not (want.absence or want.key in allow_undefined):
                meant = nearest_label(want.key, allow_undefined.union(self._by_key))
                found.append(Conflict(want.key, want, meant=meant))
        return tuple(found)

    def entries(self) -> tuple[nodeclaim.Requirement, ...]:
        """Writes them back in API form, in the order of the keys."""
        return tuple(entry for requirement in self for entry in requirement.entries())


NO_REQUIREMENTS: Final = Requirements()


@lru_cache(maxsize=4096)
def parse_label_integer(text: str) -> int | None:
    """Reads a label's value as Kubernetes does for Gt and Lt: a signed 64-bit integer in decimal, or None."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if _SMALLEST <= number <= _LARGEST else None


def _bounded(key: str, operator: str, values: tuple[str, ...], min_values: int | None) -> Requirement:
    example = f'{key} {operator} "4"'
    if len(values) != 1:
        problem = f"operator {operator} needs exactly one value, {len(values)} given"
        raise RequirementError(key, operator, problem, hint=example)
    number = parse_label_integer(values[0])
    if number is None:
        too_long = _INTEGER.fullmatch(values[0]) is not None
        what = "does not fit into 64 bits" if too_long else f"is not a number (operator {operator} needs one)"
        raise RequirementError(key, operator, f'"{values[0]}" {what}', hint=example)
    gte = {"Gt": number + 1, "Gte": number}.get(operator)
    lte = {"Lt": number - 1, "Lte": number}.get(operator)
    if (gte is not None and gte > _LARGEST) or (lte is not None and lte < _SMALLEST):
        return Requirement(key, min_values=min_values)
    return Requirement(key, complement=True, gte=gte, lte=lte, min_values=min_values)


def _within(value: str, gte: int | None, lte: int | None) -> bool:
    if gte is None and lte is None:
        return True
    number = parse_label_integer(value)
    return number is not None and (gte is None or number >= gte) and (lte is None or number <= lte)


def _larger(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def _smaller(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _listed(values: list[str]) -> str:
    more = len(values) - _SHOWN_VALUES
    return ", ".join(values[:_SHOWN_VALUES]) + (f" and {more} more" if more > 0 else "")
