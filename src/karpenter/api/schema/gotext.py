# SPDX-License-Identifier: Apache-2.0
"""Values written as Go writes them, so that our messages read like the API server's own.

Three forms occur in its answers: a quoted string (``%q``), a number (``%v``) and compact JSON. Text alone
is decided here; what is a problem is decided elsewhere.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, Final

__all__ = ["compact_json", "number", "plain", "quote", "type_name"]

_NAMED_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}

# Go's encoder keeps JSON safe to paste into HTML.
_HTML_ESCAPES: Final = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
)


def quote(text: str) -> str:
    """Return the text between double quotes, with what cannot be printed written as an escape."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


def number(value: float) -> str:
    """Return a number the way ``%v`` prints it: whole floats without a point, from a million on with an exponent."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    shortest = Decimal(repr(value)).normalize()
    exponent = shortest.adjusted()
    if value == 0 or -4 <= exponent < 6:
        return f"{shortest:f}"
    mantissa = shortest.scaleb(-exponent)
    return f"{mantissa:f}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def compact_json(value: Any) -> str:
    """Return the value as Go's JSON encoder does: no spaces, keys in order, HTML characters escaped."""
    text = json.dumps(
        _whole_floats_as_integers(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return text.translate(_HTML_ESCAPES)


def plain(value: Any) -> str:
    """Return any JSON value the way ``%v`` prints it: ``map[a:1]``, ``[x y]``, ``<nil>``."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(plain(item) for item in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]
    return value if isinstance(value, str) else number(value)


def type_name(value: Any) -> str:
    """Return Go's name for the type of a JSON value."""
    names = {
        dict: "map[string]interface {}",
        list: "[]interface {}",
        str: "string",
        bool: "bool",
        int: "int64",
    }
    return names.get(type(value), "float64")


def _whole_floats_as_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole_floats_as_integers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole_floats_as_integers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value


def _escaped(character: str) -> str:
    if character in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
