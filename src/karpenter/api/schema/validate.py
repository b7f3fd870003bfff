# SPDX-License-Identifier: Apache-2.0
"""Values against a schema: types, limits, patterns, enumerations and what must be there, all problems at once.

Judges as the API server's OpenAPI validator does, quirks included, because a verdict that differs from the
cluster's is worse than none: a whole float passes for an integer, a list passes where a dated string is
wanted, a junctor (``anyOf`` and its kin) reports the branch that came nearest, and its own complaint names
no field.

Rules in CEL, duplicates in keyed lists and metadata are judged elsewhere.
"""

from __future__ import annotations

import math
from typing import Any, Final

from karpenter.api.schema import gotext
from karpenter.api.schema.correlation import Correlation
from karpenter.api.schema.problems import (
    NO_FIELD,
    Problem,
    child,
    distinct,
    indexed,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from karpenter.api.schema.structural import Node, json_type

__all__ = ["schema_problems"]

_LARGEST_SAFE_INTEGER: Final = 2**53 - 1
_NUMBER_FORMATS: Final = {"integer": "int64", "number": "float64"}
_UNRATCHETED: Final = frozenset({"apiVersion", "kind"})


def schema_problems(
    value: Any, node: Node, path: str = "", correlation: Correlation | None = None
) -> tuple[Problem, ...]:
    """Return what is wrong with the value; with a correlation, unchanged parts are not held against it."""
    problems: list[Problem] = []
    _check_part(node, value, path, correlation, problems)
    return distinct(problems)


def _check_part(
    node: Node, value: Any, path: str, correlation: Correlation | None, problems: list[Problem]
) -> int:
    """Check a field or item; what was wrong before and did not change is forgiven."""
    found: list[Problem] = []
    matches = _check(node, value, path, correlation, found)
    if found and not (correlation and correlation.unchanged()):
        problems += found
    return matches


def _check(
    node: Node, value: Any, path: str, correlation: Correlation | None, problems: list[Problem]
) -> int:
    """Add the problems of one value and return its number of checks passed.

    Only junctors need the number: they report the branch with the most. It counts as the API server counts,
    so that both choose the same branch.
    """
    if value is None:
        return _check_null(node, path, problems)
    kind = json_type(value)
    matches = 3
    if node.types or node.format:
        matches += 1 + _check_type(node, value, kind, path, problems)
    matches += _check_junctors(node, value, path, problems)
    if kind == "string":
        matches += 1 if node.format_check is None else 2
        _check_string(node, value, path, problems)
    elif kind in _NUMBER_FORMATS:
        matches += 2
        _check_number(node, value if kind == "integer" else float(value), path, problems)
    elif kind == "array":
        matches += 2 + _check_items(node, value, path, correlation, problems)
    _check_enum(node, value, path, problems)
    if kind == "object":
        matches += 1 + _check_object(node, value, path, correlation, problems)
    return matches


def _check_null(node: Node, path: str, problems: list[Problem]) -> int:
    # The server compares null with nothing, not even with a null in the enumeration.
    wrong = bool(node.types) and not node.nullable
    if wrong:
        problems.append(_wrong_type(path, ",".join(node.types), "null"))
    _check_enum(node, None, path, problems)
    return 0 if wrong else 1


def _check_type(node: Node, value: Any, kind: str, path: str, problems: list[Problem]) -> int:
    whole_float = kind == "number" and "integer" in node.types and _is_whole(float(value))
    fits = kind in node.types or whole_float or (kind == "integer" and "number" in node.types)
    if node.format and kind not in {"string", "array"} and not fits:
        problems.append(_wrong_type(path, node.format, _NUMBER_FORMATS.get(kind, "")))
        return 0
    # A list slips through here: the server looks at the type of dated texts and the like only in their
    # format.
    if node.format and kind in {"string", "array"}:
        return 1
    if not fits:
        problems.append(_wrong_type(path, ",".join(node.types), kind))
        return 0
    return 1


def _check_string(node: Node, value: str, path: str, problems: list[Problem]) -> None:
    if node.max_length is not None and len(value) > node.max_length:
        problems.append(too_long(_field(path), node.max_length))
    elif node.min_length is not None and len(value) < node.min_length:
        text = f"{path} in body should be at least {node.min_length} chars long"
        problems.append(invalid(_field(path), value, text))
    elif node.pattern is not None and not node.pattern.matches(value):
        text = f"{path} in body should match '{node.pattern.source}'"
        problems.append(invalid(_field(path), value, text))
    if node.format_check is not None and not node.format_check(value):
        problems.append(_wrong_type(path, node.format, value))


def _check_number(node: Node, value: float, path: str, problems: list[Problem]) -> None:
    # A limit is cut to a whole number before it meets one, as the server does.
    cut = int if isinstance(value, int) else float
    if node.multiple_of is not None:
        _check_multiple(cut(node.multiple_of), value, path, problems)
    if node.minimum is not None:
        limit = cut(node.minimum)
        if value < limit or (node.exclusive_minimum and value == limit):
            words = "greater than" if node.exclusive_minimum else "greater than or equal to"
            _limit(problems, path, value, f"{words} {gotext.number(limit)}")
    if node.maximum is not None:
        limit = cut(node.maximum)
        if value > limit or (node.exclusive_maximum and value == limit):
            words = "less than" if node.exclusive_maximum else "less than or equal to"
            _limit(problems, path, value, f"{words} {gotext.number(limit)}")


def _check_multiple(factor: float, value: float, path: str, problems: list[Problem]) -> None:
    if factor <= 0:
        # Half a unit, cut to a whole number.
        text = f"factor MultipleOf declared for {path} must be positive: {gotext.number(factor)}"
        problems.append(invalid(_field(path), factor, text))
        return
    whole = value % factor == 0 if isinstance(value, int) else _is_whole(value / factor)
    if not whole:
        _limit(problems, path, value, f"a multiple of {gotext.number(factor)}")


def _check_items(
    node: Node, value: list[Any], path: str, correlation: Correlation | None, problems: list[Problem]
) -> int:
    matches = 0
    if node.items is not None:
        for index, item in enumerate(value):
            part = correlation.item(index) if correlation else None
            matches += _check_part(node.items, item, indexed(path, index), part, problems)
    if node.min_items is not None and len(value) < node.min_items:
        _limit(problems, path, len(value), f"{node.min_items} items", verb="have at least")
    if node.max_items is not None and len(value) > node.max_items:
        problems.append(too_many(_field(path), len(value), node.max_items))
    return matches


def _check_enum(node: Node, value: Any, path: str, problems: list[Problem]) -> None:
    if node.enum and not any(_is_choice(value, choice) for choice in node.enum):
        choices = [choice if isinstance(choice, str) else gotext.compact_json(choice) for choice in node.enum]
        problems.append(not_supported(_field(path), value, choices))


def _check_object(
    node: Node, value: dict[str, Any], path: str, correlation: Correlation | None, problems: list[Problem]
) -> int:
    if node.min_properties is not None and len(value) < node.min_properties:
        _limit(problems, path, len(value), f"{node.min_properties} properties", verb="have at least")
    if node.max_properties is not None and len(value) > node.max_properties:
        problems.append(too_many(_field(path), len(value), node.max_properties))
    matches = 0
    for key, inner in value.items():
        below = node.below(key)
        if below is None:
            continue
        part = correlation.field(key) if correlation and (path or key not in _UNRATCHETED) else None
        matches += _check_part(below, inner, child(path, key), part, problems)
    problems += [required(child(path, key)) for key in node.required if key not in value]
    return matches


def _check_junctors(node: Node, value: Any, path: str, problems: list[Problem]) -> int:
    matches = 1
    if node.any_of:
        matches += _check_any(node.any_of, value, path, problems)
    if node.one_of:
        matches += _check_one(node.one_of, value, path, problems)
    if node.all_of:
        results = [_tried(branch, value, path) for branch in node.all_of]
        for count, found in results:
            matches += count
            problems += found
        failed = sum(1 for _, found in results if found)
        if failed:
            none = ". None validated" if failed == len(results) else ""
            _junctor(problems, path, f"must validate all the schemas (allOf){none}")
    if node.negated is not None and not _tried(node.negated, value, path)[1]:
        _junctor(problems, path, "must not validate the schema (not)")
    return matches


def _check_any(branches: tuple[Node, ...], value: Any, path: str, problems: list[Problem]) -> int:
    results = []
    for branch in branches:
        results.append(_tried(branch, value, path))
        if not results[-1][1]:
            return results[-1][0]
    _junctor(problems, path, "must validate at least one schema (anyOf)")
    return _add_nearest(results, problems)


def _check_one(branches: tuple[Node, ...], value: Any, path: str, problems: list[Problem]) -> int:
    results = [_tried(branch, value, path) for branch in branches]
    passed = [result for result in results if not result[1]]
    if len(passed) == 1:
        return passed[0][0]
    how = f"Found {len(passed)} valid alternatives" if passed else "Found none valid"
    _junctor(problems, path, f"must validate one and only one schema (oneOf). {how}")
    # After a success the failures of others do not count.
    return 0 if passed else _add_nearest(results, problems)


def _tried(branch: Node, value: Any, path: str) -> tuple[int, list[Problem]]:
    problems: list[Problem] = []
    return _check(branch, value, path, None, problems), problems


def _add_nearest(results: list[tuple[int, list[Problem]]], problems: list[Problem]) -> int:
    """Add the problems of the branch that passed most checks, the first of several, and return how many."""
    matches, found = max(results, key=lambda result: result[0])
    problems += found
    return matches


def _is_whole(value: float) -> bool:
    """Return whether a float passes for an integer; the server forgives one part in a billion, upwards only."""
    if not math.isfinite(value) or abs(value) > _LARGEST_SAFE_INTEGER:
        return False
    below = math.trunc(value)
    if value == below:
        return True
    return below > 0 and (value - below) / (value + below) < 1e-9


def _is_choice(value: Any, choice: Any) -> bool:
    kind, wanted = json_type(value), json_type(choice)
    if kind == wanted:
        return kind != "null" and bool(value == choice)
    if kind not in _NUMBER_FORMATS or wanted not in _NUMBER_FORMATS:
        return False
    return bool((int(value) if wanted == "integer" else float(value)) == choice)


def _wrong_type(path: str, wanted: str, found: str) -> Problem:
    return type_invalid(
        _field(path), found, f"{path} in body must be of type {wanted}: {gotext.quote(found)}"
    )


def _limit(problems: list[Problem], path: str, value: float, limit: str, *, verb: str = "be") -> None:
    problems.append(invalid(_field(path), value, f"{path} in body should {verb} {limit}"))


def _junctor(problems: list[Problem], path: str, complaint: str) -> None:
    problems.append(invalid(NO_FIELD, "", f"{gotext.quote(path)} {complaint}"))


def _field(path: str) -> str:
    return path or NO_FIELD
