# SPDX-License-Identifier: Apache-2.0
"""Reads policy documents and weighs one question against them, as IAM does.

A question is an action on one resource in a context of keys. A statement that denies wins; otherwise one that allows is
needed. Elements and condition operators that are not understood here are refused when a document is read, never passed
over: a policy that seems to work because half of it was ignored is worse than none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from karpenter.errors import KarpenterError

__all__ = ["Asked", "PolicyError", "Statement", "read_policy", "weigh"]

Values = Sequence[str]

_ELEMENTS: Final = frozenset(
    {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition", "Principal"}
)


class PolicyError(KarpenterError):
    """A policy document that cannot be read."""


@dataclass(frozen=True, slots=True)
class Asked:
    """May this action be done on this resource? Context keys have one value, or several for keys of lists."""

    action: str
    resource: str = "*"
    context: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)

    def values(self, key: str) -> Values | None:
        """Give the values of a context key, whose case does not count; None if it is not there."""
        for name, value in self.context.items():
            if name.lower() == key.lower():
                return (value,) if isinstance(value, str) else value
        return None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a policy, read."""

    sid: str
    allows: bool
    actions: Values
    resources: Values
    conditions: tuple[tuple[str, str, Values], ...]
    other_actions: bool = False
    other_resources: bool = False

    def applies(self, asked: Asked) -> bool:
        """Tell whether the statement is about what is asked."""
        action = any(_like(asked.action.lower(), each.lower()) for each in self.actions)
        resource = any(_like(asked.resource, each) for each in self.resources)
        return (
            action != self.other_actions
            and resource != self.other_resources
            and all(_holds(operator, asked.values(key), wanted) for operator, key, wanted in self.conditions)
        )


def read_policy(text: str) -> tuple[Statement, ...]:
    """Read a policy document.

    Raises:
        PolicyError: It is no policy, or says something that is not understood here.
    """
    try:
        document = json.loads(text)
        statements = _listed(document["Statement"])
    except (ValueError, KeyError, TypeError) as broken:
        raise PolicyError(f"not a policy document: {broken}") from broken
    return tuple(_read(each, number) for number, each in enumerate(statements))


def weigh(statements: Iterable[Statement], asked: Asked) -> Statement | None:
    """Give the statement that decides: one that denies, else the first that allows, else None."""
    found: Statement | None = None
    for each in statements:
        if each.applies(asked):
            if not each.allows:
                return each
            found = found or each
    return found


def _read(element: Mapping[str, Any], number: int) -> Statement:
    sid = element.get("Sid") or f"statement {number}"
    unknown = set(element) - _ELEMENTS
    if unknown:
        raise PolicyError(f"{sid}: {min(unknown)} is not understood")
    if element.get("Effect") not in {"Allow", "Deny"}:
        raise PolicyError(f"{sid}: Effect is {element.get('Effect')!r}, not Allow or Deny")
    actions = element.get("Action", element.get("NotAction"))
    resources = element.get("Resource", element.get("NotResource", "*"))
    if actions is None:
        raise PolicyError(f"{sid}: there is no Action")
    return Statement(
        sid=sid,
        allows=element["Effect"] == "Allow",
        actions=_texts(actions),
        resources=_texts(resources),
        conditions=tuple(
            (_operator(sid, operator), key, _texts(wanted))
            for operator, keys in element.get("Condition", {}).items()
            for key, wanted in keys.items()
        ),
        other_actions="NotAction" in element,
        other_resources="NotResource" in element,
    )


def _operator(sid: str, operator: str) -> str:
    bare = operator.removeprefix("ForAllValues:").removeprefix("ForAnyValue:").removesuffix("IfExists")
    if bare not in _OPERATORS:
        raise PolicyError(f"{sid}: the condition operator {operator} is not understood")
    return operator


def _holds(operator: str, values: Values | None, wanted: Values) -> bool:
    kind, _, rest = operator.rpartition(":")
    compare, positive = _OPERATORS[rest.removesuffix("IfExists")]
    if rest == "Null":
        return (values is None) == (wanted[0].lower() == "true")
    if values is None:
        # A key that is not there: all of none hold; and a "not" holds, as IAM has it.
        return rest.endswith("IfExists") or kind == "ForAllValues" or not positive

    def meets(value: str) -> bool:
        return any(compare(value, each) for each in wanted) == positive

    return any(map(meets, values)) if kind == "ForAnyValue" else all(map(meets, values))


def _like(value: str, pattern: str) -> bool:
    # Brackets mean themselves in IAM.
    return fnmatchcase(value, pattern.replace("[", "[[]"))


def _equal(value: str, wanted: str) -> bool:
    return value == wanted


def _equal_whatever_case(value: str, wanted: str) -> bool:
    return value.lower() == wanted.lower()


# How each operator compares, and whether it asks for a match or for none.
_OPERATORS: Final[Mapping[str, tuple[Callable[[str, str], bool], bool]]] = {
    "StringEquals": (_equal, True),
    "StringNotEquals": (_equal, False),
    "StringEqualsIgnoreCase": (_equal_whatever_case, True),
    "StringLike": (_like, True),
    "StringNotLike": (_like, False),
    "ArnEquals": (_like, True),
    "ArnLike": (_like, True),
    "ArnNotLike": (_like, False),
    "Bool": (_equal_whatever_case, True),
    "Null": (_equal, True),
}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _texts(value: Any) -> Values:
    return tuple(map(str, _listed(value)))
