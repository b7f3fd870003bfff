# SPDX-License-Identifier: Apache-2.0
"""TOML text from plain values, such that reading it back gives the same values.

The order of the keys is theirs by name, so equal values give equal text. Everything that ``tomllib`` can give
can be written: tables, arrays, texts, integers, floats, booleans, dates and times. There is no None in TOML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Final

__all__ = ["write_toml"]

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f]')
_NOT_LITERAL: Final = re.compile(r"['\x00-\x1f\x7f]")
_SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write_toml(table: Mapping[str, Any]) -> str:
    """Give the table as a TOML document."""
    return "\n\n".join(_sections(table, ())) + "\n"


def _sections(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_value(table[key])}" for key in sorted(table.keys() - inner.keys())]
    # A table that only holds tables needs no head of its own; an empty one would be lost without.
    if path and (lines or not inner):
        lines.insert(0, f"[{'.'.join(map(_key, path))}]")
    if lines:
        yield "\n".join(lines)
    for key in sorted(inner):
        yield from _sections(inner[key], (*path, key))


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_value, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    raise TypeError(f"TOML has no way to write {type(value).__name__}")


def _text(text: str) -> str:
    # Between single quotes nothing is special but their end, so that a reader sees what is meant.
    if not _NOT_LITERAL.search(text):
        return f"'{text}'"
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT_ESCAPES.get(character, f"\\u{ord(character):04x}")
