# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an object: one value per field, worded and typed as the Kubernetes API server does.

A problem is data (field, type, bad value, detail), so a caller may compare, group or translate it; its text
is made from the data. Many problems make one error, because a person wants to mend a file once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from karpenter.api.schema import gotext
from karpenter.errors import KarpenterError

__all__ = [
    "NO_FIELD",
    "Problem",
    "ProblemType",
    "ValidationFailedError",
    "child",
    "distinct",
    "duplicate",
    "forbidden",
    "indexed",
    "invalid",
    "not_supported",
    "required",
    "too_long",
    "too_many",
    "type_invalid",
    "unknown_field",
]

# The API server's name for a problem of the whole object.
NO_FIELD: Final = "<nil>"


class ProblemType(StrEnum):
    """The cause types of a Kubernetes Status, and one of ours for strict reading."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    DUPLICATE = "FieldValueDuplicate"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    FORBIDDEN = "FieldValueForbidden"
    # Ours: the API server tells of unknown fields in the message of a 400, without a cause.
    UNKNOWN_FIELD = "FieldUnknown"


_TITLES: Final = {
    ProblemType.REQUIRED: "Required value",
    ProblemType.INVALID: "Invalid value",
    ProblemType.NOT_SUPPORTED: "Unsupported value",
    ProblemType.DUPLICATE: "Duplicate value",
    ProblemType.TOO_LONG: "Too long",
    ProblemType.TOO_MANY: "Too many",
    ProblemType.TYPE_INVALID: "Invalid value",
    ProblemType.FORBIDDEN: "Forbidden",
}

# These say nothing of the value: it is absent, or too long to print.
_WITHOUT_VALUE: Final = frozenset({ProblemType.REQUIRED, ProblemType.TOO_LONG, ProblemType.FORBIDDEN})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one field; ``str()`` reads like a line of kubectl's output."""

    field: str
    type: ProblemType
    value: Any = None
    detail: str = ""

    @property
    def message(self) -> str:
        """Return the text without the field, as it stands in ``details.causes[].message``."""
        if self.type is ProblemType.UNKNOWN_FIELD:
            return self.detail
        title = _TITLES[self.type]
        text = title if self.type in _WITHOUT_VALUE else f"{title}: {_printed(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return self.message if self.type is ProblemType.UNKNOWN_FIELD else f"{self.field}: {self.message}"


class ValidationFailedError(KarpenterError):
    """An object that its schema refuses, with every problem at once."""

    def __init__(self, kind: str, name: str, problems: Sequence[Problem]) -> None:
        self.kind = kind
        self.name = name
        self.problems = tuple(problems)
        who = f"{kind} {name}" if name else kind
        super().__init__(
            "\n".join(f"{who}: {problem}" for problem in self.problems), hint=_hint(kind, self.problems)
        )


def required(field: str, detail: str = "") -> Problem:
    """Return the problem of a field that must be there."""
    return Problem(field, ProblemType.REQUIRED, "", detail)


def invalid(field: str, value: Any, detail: str) -> Problem:
    """Return the problem of a value that breaks a rule."""
    return Problem(field, ProblemType.INVALID, value, detail)


def type_invalid(field: str, value: Any, detail: str) -> Problem:
    """Return the problem of a value of the wrong JSON type or format."""
    return Problem(field, ProblemType.TYPE_INVALID, value, detail)


def not_supported(field: str, value: Any, supported: Iterable[str]) -> Problem:
    """Return the problem of a value outside an enumeration."""
    return Problem(
        field,
        ProblemType.NOT_SUPPORTED,
        value,
        "supported values: " + ", ".join(gotext.quote(choice) for choice in supported),
    )


def too_long(field: str, limit: int) -> Problem:
    """Return the problem of a text over its limit; the API server counts characters yet says bytes."""
    return Problem(
        field,
        ProblemType.TOO_LONG,
        detail=f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}",
    )


def too_many(field: str, count: int, limit: int) -> Problem:
    """Return the problem of a list or mapping over its limit."""
    return Problem(
        field, ProblemType.TOO_MANY, count, f"must have at most {limit} {'item' if limit == 1 else 'items'}"
    )


def duplicate(field: str, value: Any) -> Problem:
    """Return the problem of a value that occurs twice where each may occur once."""
    return Problem(field, ProblemType.DUPLICATE, value)


def forbidden(field: str, detail: str) -> Problem:
    """Return the problem of a field that may not be set here."""
    return Problem(field, ProblemType.FORBIDDEN, "", detail)


def unknown_field(field: str) -> Problem:
    """Return the problem of a field that no schema knows, as kubectl words it."""
    return Problem(field, ProblemType.UNKNOWN_FIELD, detail=f"unknown field {gotext.quote(field)}")


def child(path: str, name: str) -> str:
    """Return the path of a field below a path; the root's path is empty."""
    return f"{path}.{name}" if path else name


def indexed(path: str, key: str | int) -> str:
    """Return the path of a list item or of a mapping's entry."""
    return f"{path}[{key}]"


def distinct(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems in order, without those that read the same."""
    return tuple({(problem.type, str(problem)): problem for problem in problems}.values())


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return gotext.quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return gotext.number(value) if isinstance(value, (int, float)) else gotext.compact_json(value)


def _hint(kind: str, problems: Sequence[Problem]) -> str:
    field = next((problem.field for problem in problems if problem.field != NO_FIELD), "")
    path = re.sub(r"\[[^\]]*\]", "", field)
    return f"`kubectl explain {kind.lower()}{'.' + path if path else ''}` describes what is allowed"
