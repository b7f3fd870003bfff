# SPDX-License-Identifier: Apache-2.0
"""The CEL functions that Kubernetes adds to the language, for an evaluator that has the core only.

Strings, lists, regular expressions, sets, quantities and URLs behave as on the API server. A quantity and a
URL travel through CEL as a small map, because the evaluator knows no types of ours; equal amounts make
equal maps.

Not here, and refused when a rule asks for them: ``ip``, ``cidr``, ``format``, ``semver``, ``authorizer``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

from karpenter.api.schema.regex import compile_pattern
from karpenter.api.schema.structural import INT64
from karpenter.kit.quantity import QuantityError, parse_quantity

__all__ = ["FUNCTIONS"]

_QUANTITY: Final = "quantity in nano units"
_URL: Final = "url"
_NANO: Final = 10**9

_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {upper + 32: upper for upper in range(ord("A"), ord("Z") + 1)}

_ABSOLUTE_URL: Final = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*)://(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)(?::([0-9]*))?)?(/[^?#]*|(?<=[^/]))(?:\?([^#]*))?(?:#.*)?"
)


def _matches(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).matches(text)


def _find(text: str, pattern: str) -> str:
    return compile_pattern(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return compile_pattern(pattern).find_all(text, limit)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise ValueError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(where: str | list[Any], what: Any, offset: int = 0) -> int:
    if isinstance(where, str):
        if not 0 <= offset <= len(where):
            raise ValueError(f"index out of range: {offset}")
        return where.find(what, offset)
    return next((index for index, item in enumerate(where) if item == what), -1)


def _last_index_of(where: str | list[Any], what: Any, offset: int | None = None) -> int:
    if isinstance(where, str):
        if offset is not None and not 0 <= offset <= len(where):
            raise ValueError(f"index out of range: {offset}")
        return where.rfind(what, 0, None if offset is None else offset + len(what))
    return next((index for index in reversed(range(len(where))) if where[index] == what), -1)


def _join(texts: list[str], separator: str = "") -> str:
    return separator.join(texts)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    return list(text) if limit < 0 else [*text[: limit - 1], text[limit - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    for index in (start, stop):
        if not 0 <= index <= len(text):
            raise ValueError(f"index out of range: {index}")
    if start > stop:
        raise ValueError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _bool(value: bool | str) -> bool:  # noqa: FBT001 - the one argument is the value to convert
    if isinstance(value, bool):
        return value
    words = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if value not in (value.lower(), value.upper(), value.title()) or value.lower() not in words:
        raise ValueError("type conversion error from 'string' to 'bool'")
    return words[value.lower()]


def _is_sorted(items: list[Any]) -> bool:
    return all(first <= second for first, second in pairwise(items))


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    total = sum(items, timedelta() if isinstance(items[0], timedelta) else 0)
    if isinstance(total, int) and total not in INT64:
        raise ValueError("integer overflow")
    return total


def _least(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


def _greatest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)


def _set_contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(item in items for item in wanted)


def _set_equivalent(items: list[Any], others: list[Any]) -> bool:
    return _set_contains(items, others) and _set_contains(others, items)


def _set_intersects(items: list[Any], others: list[Any]) -> bool:
    return any(item in items for item in others)


def _quantity(text: str) -> dict[str, str]:
    try:
        return _as_map(parse_quantity(text).nano)
    except QuantityError:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _as_map(nano: int) -> dict[str, str]:
    return {_QUANTITY: str(nano)}


def _nano(quantity: dict[str, str] | int) -> int:
    return quantity * _NANO if isinstance(quantity, int) else int(quantity[_QUANTITY])


def _add(quantity: dict[str, str], other: dict[str, str] | int) -> dict[str, str]:
    return _as_map(_nano(quantity) + _nano(other))


def _subtract(quantity: dict[str, str], other: dict[str, str] | int) -> dict[str, str]:
    return _as_map(_nano(quantity) - _nano(other))


def _compare(quantity: dict[str, str], other: dict[str, str]) -> int:
    return (_nano(quantity) > _nano(other)) - (_nano(quantity) < _nano(other))


def _is_integer(quantity: dict[str, str]) -> bool:
    return _nano(quantity) % _NANO == 0 and _nano(quantity) // _NANO in INT64


def _as_integer(quantity: dict[str, str]) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return _nano(quantity) // _NANO


def _is_url(text: str) -> bool:
    return bool(text) and _ABSOLUTE_URL.fullmatch(text) is not None


def _url(text: str) -> dict[str, str]:
    if not _is_url(text):
        raise ValueError(
            f"URL parse error during conversion from string: parse {text!r}: invalid URI for request"
        )
    return {_URL: text}


def _part(number: int) -> Callable[[dict[str, str]], str]:
    def part(url: dict[str, str]) -> str:
        found = _ABSOLUTE_URL.fullmatch(url[_URL])
        return (found.group(number) if found else None) or ""

    return part


def _host(url: dict[str, str]) -> str:
    name, port = _part(2)(url), _part(3)(url)
    return f"{name}:{port}" if port else name


def _query(url: dict[str, str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in filter(None, _part(5)(url).split("&")):
        key, _, value = pair.partition("=")
        values.setdefault(key, []).append(value)
    return values


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": _add,
    "asApproximateFloat": lambda quantity: _nano(quantity) / _NANO,
    "asInteger": _as_integer,
    "bool": _bool,
    "charAt": _char_at,
    "compareTo": _compare,
    "find": _find,
    "findAll": _find_all,
    "getEscapedPath": _part(4),
    "getHost": _host,
    "getHostname": lambda url: _part(2)(url).strip("[]"),
    "getPort": _part(3),
    "getQuery": _query,
    "getScheme": _part(1),
    "indexOf": _index_of,
    "isGreaterThan": lambda quantity, other: _compare(quantity, other) > 0,
    "isInteger": _is_integer,
    "isLessThan": lambda quantity, other: _compare(quantity, other) < 0,
    "isQuantity": _is_quantity,
    "isSorted": _is_sorted,
    "isURL": _is_url,
    "join": _join,
    "lastIndexOf": _last_index_of,
    "lowerAscii": lambda text: text.translate(_LOWER),
    # Under this name because the evaluator's own `matches` reads \d as any script's digits; rules are
    # rewritten to it.
    "matchesAsGo": _matches,
    "max": _greatest,
    "min": _least,
    "quantity": _quantity,
    "replace": _replace,
    "reverse": lambda value: value[::-1],
    "sets.contains": _set_contains,
    "sets.equivalent": _set_equivalent,
    "sets.intersects": _set_intersects,
    "sign": lambda quantity: _compare(quantity, _as_map(0)),
    "split": _split,
    "sub": _subtract,
    "substring": _substring,
    "sum": _sum,
    "trim": str.strip,
    "upperAscii": lambda text: text.translate(_UPPER),
    "url": _url,
}
