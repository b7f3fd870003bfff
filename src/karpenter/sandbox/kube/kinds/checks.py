# SPDX-License-Identifier: Apache-2.0
"""The building blocks of the rules about built-in kinds: a check looks at one struct and gives its problems.

Each function makes a check from the names of fields; the words are the API server's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from karpenter.api.schema import gotext
from karpenter.api.schema.names import label_value_complaints, namespace_complaints, qualified_name_complaints
from karpenter.api.schema.problems import (
    Problem,
    ProblemType,
    child,
    duplicate,
    forbidden,
    indexed,
    invalid,
    not_supported,
    required,
)
from karpenter.kit.quantity import parse_quantity

__all__ = [
    "Check",
    "Struct",
    "at_least_zero",
    "between",
    "count_or_percent",
    "each_unique",
    "exclusive",
    "label_selector",
    "labels",
    "named_label",
    "needed",
    "one_of",
    "positive",
    "quantities",
    "when",
]

Struct = Mapping[str, Any]
Check = Callable[[Struct, str], Iterator[Problem]]

_PERCENT: Final = re.compile(r"[0-9]+%")
NEGATIVE: Final = "must be greater than or equal to 0"
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def needed(name: str, detail: str = "") -> Check:
    """Makes a check that a field is there and not empty."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        if struct.get(name) in (None, "", [], {}, 0):
            yield required(child(path, name), detail)

    return check


def at_least_zero(*names: str) -> Check:
    """Makes a check that numbers are not negative."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        for name in names:
            value = struct.get(name)
            if isinstance(value, int) and value < 0:
                yield invalid(child(path, name), value, NEGATIVE)

    return check


def positive(name: str, detail: str = "must be greater than 0") -> Check:
    """Makes a check that a number, if given, is above zero."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        value = struct.get(name)
        if isinstance(value, int) and value <= 0:
            yield invalid(child(path, name), value, detail)

    return check


def between(name: str, least: int, most: int, detail: str = "") -> Check:
    """Makes a check that a number, if given, is in a range."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        value = struct.get(name)
        if isinstance(value, int) and not least <= value <= most:
            yield invalid(
                child(path, name), value, detail or f"must be between {least} and {most}, inclusive"
            )

    return check


def one_of(name: str, *choices: str) -> Check:
    """Makes a check that a text, if given, is one of a few."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        value = struct.get(name)
        if value and value not in choices:
            yield not_supported(child(path, name), value, choices)

    return check


def when(condition: Callable[[Struct], bool], problem: Callable[[Struct, str], Problem]) -> Check:
    """Makes a check of anything else."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        if condition(struct):
            yield problem(struct, path)

    return check


def named_label(name: str = "name") -> Check:
    """Makes a check that a field is a DNS label."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        value = struct.get(name)
        if not value:
            yield required(child(path, name))
        else:
            for text in namespace_complaints(value):
                yield invalid(child(path, name), value, text)

    return check


def each_unique(name: str, key: str) -> Check:
    """Makes a check that no two items of a list have the same name."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        seen = set()
        for place, item in enumerate(struct.get(name) or ()):
            value = item.get(key)
            if value and value in seen:
                yield duplicate(child(indexed(child(path, name), place), key), value)
            seen.add(value)

    return check


def exclusive(first: str, second: str, problem: Callable[[Struct, str], Problem]) -> Check:
    """Makes a check that two fields are not both set."""
    return when(lambda struct: struct.get(first) is not None and struct.get(second) is not None, problem)


def labels(name: str) -> Check:
    """Makes a check that a map could be labels."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        where = child(path, name)
        for key, value in (struct.get(name) or {}).items():
            for text in qualified_name_complaints(key):
                yield invalid(where, key, text)
            for text in label_value_complaints(value):
                yield invalid(where, value, text)

    return check


def count_or_percent(name: str, *, capped: bool = False) -> Check:
    """Makes a check of a number or percentage."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        value, where = struct.get(name), child(path, name)
        if isinstance(value, int) and value < 0:
            yield invalid(where, value, NEGATIVE)
        if isinstance(value, str):
            if not _PERCENT.fullmatch(value):
                yield invalid(
                    where,
                    value,
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
                    "regex used for validation is '[0-9]+%')",
                )
            elif capped and int(value[:-1]) > 100:
                yield invalid(where, value, "must not be greater than 100%")

    return check


def quantities(name: str) -> Check:
    """Makes a check that amounts are not negative and have names that resources can have."""

    def check(struct: Struct, path: str) -> Iterator[Problem]:
        for key, amount in (struct.get(name) or {}).items():
            where = indexed(child(path, name), key)
            if "/" not in key and key not in _RESOURCES and not key.startswith("hugepages-"):
                yield invalid(where, key, "must be a standard resource type or fully qualified")
                yield invalid(where, key, "must be a standard resource for containers")
            if parse_quantity(amount).nano < 0:
                yield invalid(where, amount, NEGATIVE)

    return check


_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


def label_selector(struct: Struct, path: str) -> Iterator[Problem]:
    """Gives the problems of a label selector."""
    yield from labels("matchLabels")(struct, path)
    for place, each in enumerate(struct.get("matchExpressions") or ()):
        yield from expression(each, indexed(child(path, "matchExpressions"), place))


def expression(each: Struct, path: str, more: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Gives the problems of one requirement of a selector."""
    operator, values = each.get("operator"), each.get("values") or ()
    if operator in {"In", "NotIn"} and not values:
        yield required(child(path, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"} and values:
        yield forbidden(
            child(path, "values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        )
    elif operator in more and len(values) != 1:
        yield required(
            child(path, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"
        )
    elif operator not in (*_OPERATORS, *more):
        yield invalid(child(path, "operator"), operator, "not a valid selector operator")
    for text in qualified_name_complaints(each.get("key", "")):
        yield invalid(child(path, "key"), each.get("key", ""), text)


class NotFoundProblem(Problem):
    """A name that nothing has."""

    @property
    def message(self) -> str:
        """Gives the text without the field."""
        return f"Not found: {gotext.quote(str(self.value))}"


def not_found(field: str, value: Any) -> Problem:
    """Gives the problem of a name that nothing has."""
    return NotFoundProblem(field, ProblemType.INVALID, value, "")
