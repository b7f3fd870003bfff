# SPDX-License-Identifier: Apache-2.0
"""Objects as the API server's decoder gives them on: known fields only, of the right types, empty ones as Go has them.

Decides from the JSON and the shape alone. A value of the wrong type ends the reading, with Go's words; unknown
fields are left out and named. Whether the values make sense is for the rules.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from karpenter.api.schema import gotext
from karpenter.kit.quantity import QuantityError, parse_quantity
from karpenter.sandbox.kube.kinds.shapes import Field, Shape

__all__ = ["DecodeError", "Reader", "empty_struct", "written_time"]

_GO_TYPES: Final = {dict: "object", list: "array", str: "string", bool: "bool"}
_ZEROS: Final = {
    "string": "",
    "integer": 0,
    "boolean": False,
    "number": 0,
    "bytes": None,
    "int-or-string": 0,
    "quantity": "0",
}
_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_QUANTITY_RULE: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class DecodeError(Exception):
    """A value that cannot be held by its field; the text is Go's."""


class Reader:
    """One reading of one object; ``unknown`` names the fields that were left out, in order."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def object(
        self, value: dict[str, Any], shape: Shape, known: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Gives the object as Go would write it back.

        Args:
            value: The object.
            shape: Of its kind.
            known: An object that was read before; the parts that are its very own are not read again.

        Raises:
            DecodeError: a value is of the wrong type.
        """
        if known is None:
            return self._struct(value, shape, "", "")
        return self._partly(value, shape, known, "", "")

    def _partly(
        self, value: dict[str, Any], shape: Shape, known: Mapping[str, Any], path: str, said: str
    ) -> dict[str, Any]:
        """Reads what is new in a struct; a patch leaves most of an object as it was."""
        same = {key: inner for key, inner in value.items() if key in known and known[key] is inner}
        opened = {
            key: (told, before)
            for key, inner in value.items()
            if key not in same
            and isinstance(inner, dict)
            and isinstance(before := known.get(key), dict)
            and (told := shape.fields.get(key)) is not None
            and told.shape.kind == "struct"
        }
        fresh = {key: inner for key, inner in value.items() if key not in same and key not in opened}
        read = self._struct(fresh, shape, path, said)
        for key, (told, before) in opened.items():
            below = f"{path}.{key}" if path else key
            read[key] = self._partly(value[key], told.shape, before, below, f"{said}.{key}")
        read |= same
        # In the order in which it was sent, as if all had been read.
        return {
            key: read[key] for key in (*(key for key in value if key in read), *(read.keys() - value.keys()))
        }

    def _value(self, value: Any, shape: Shape, path: str, said: str, holder: str, go: str) -> Any:
        if value is None:
            return None
        if shape.kind == "struct":
            if not isinstance(value, dict):
                raise _mismatch(value, holder, said, go)
            return self._struct(value, shape, path, said)
        if shape.kind == "list":
            if not isinstance(value, list):
                raise _mismatch(value, holder, said, go)
            element = shape.element
            assert element is not None  # noqa: S101 - every list has one
            inner_go = go.removeprefix("[]").lstrip("*")
            return [
                self._item(item, element, f"{path}[{index}]", said, holder, inner_go)
                for index, item in enumerate(value)
            ]
        if shape.kind == "map":
            if not isinstance(value, dict):
                raise _mismatch(value, holder, said, go)
            element = shape.element
            assert element is not None  # noqa: S101 - every map has one
            inner_go = go.partition("]")[2].lstrip("*")
            return {
                str(key): self._item(item, element, f"{path}.{key}", said, holder, inner_go)
                for key, item in value.items()
            }
        return _scalar(value, shape, holder, said, go) if shape.kind == "scalar" else value

    def _item(self, item: Any, element: Shape, path: str, said: str, holder: str, go: str) -> Any:
        read = self._value(item, element, path, said, holder, go)
        if read is None:
            return empty_struct(element) if element.kind == "struct" else _ZEROS.get(element.scalar)
        return read

    def _struct(self, value: dict[str, Any], shape: Shape, path: str, said: str) -> dict[str, Any]:
        read: dict[str, Any] = {}
        fields = shape.fields
        for key, inner in value.items():
            told = fields.get(key)
            below = f"{path}.{key}" if path else key
            if told is None:
                if shape.preserves:
                    read[key] = inner
                else:
                    self.unknown.append(below)
                continue
            kept = self._value(inner, told.shape, below, f"{said}.{key}", shape.name, told.go)
            if kept is not None and not _is_left_out(kept, told):
                read[key] = kept
        for key, default in _always(shape):
            if key not in read:
                read[key] = default() if callable(default) else default
        return read


def empty_struct(shape: Shape) -> dict[str, Any]:
    """Gives what Go writes for a struct of which nothing is set."""
    return {key: default() if callable(default) else default for key, default in _always(shape)}


_ALWAYS: dict[int, tuple[Shape, list[tuple[str, Any]]]] = {}


def _always(shape: Shape) -> list[tuple[str, Any]]:  # noqa: C901 - one form of field after the other
    """Gives the fields that are written even when nothing is set."""
    known = _ALWAYS.get(id(shape))
    if known is not None and known[0] is shape:
        return known[1]
    found: list[tuple[str, Any]] = []
    for key, told in shape.fields.items():
        if told.pointer:
            if not told.omitted:
                found.append((key, None))
        elif told.shape.kind == "struct":
            if not told.vanishes:
                inner = told.shape
                found.append((key, lambda inner=inner: empty_struct(inner)))
        elif told.shape.scalar in {"time", "microtime"}:
            if not told.vanishes:
                found.append((key, None))
        elif told.shape.scalar == "quantity":
            found.append((key, "0"))
        elif told.shape.scalar == "int-or-string":
            found.append((key, 0))
        elif not told.omitted and key not in {"apiVersion", "kind"}:
            found.append((key, _ZEROS[told.shape.scalar] if told.shape.kind == "scalar" else None))
    _ALWAYS[id(shape)] = (shape, found)
    return found


def _is_left_out(value: Any, told: Field) -> bool:
    if told.pointer or not told.omitted or told.shape.kind == "struct":
        return False
    return value in ("", [], {}) or (value == 0 and told.shape.scalar in {"integer", "boolean", "number"})


def _scalar(value: Any, shape: Shape, holder: str, said: str, go: str) -> Any:  # noqa: C901, PLR0911, PLR0912
    scalar = shape.scalar
    if scalar == "string":
        if isinstance(value, str):
            return value
    elif scalar == "integer":
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float):
            raise DecodeError(_told(f"number {gotext.number(value)}", holder, said, go))
    elif scalar == "boolean":
        if isinstance(value, bool):
            return value
    elif scalar == "number":
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    elif scalar == "quantity":
        return _quantity(value)
    elif scalar == "int-or-string":
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise DecodeError(_told(_kind_of(value), "", "", "int32").replace("struct field . ", "value "))
    elif scalar in {"time", "microtime"}:
        return _time(value, micro=scalar == "microtime")
    elif scalar == "bytes":
        return _bytes(value, holder, said, go)
    raise _mismatch(value, holder, said, go)


def _quantity(value: Any) -> str:
    text = value if isinstance(value, str) else gotext.compact_json(value)
    if text == "":
        return "0"
    try:
        return str(parse_quantity(text))
    except QuantityError:
        suffixed = _QUANTITY.fullmatch(text) is not None
        raise DecodeError("unable to parse quantity's suffix" if suffixed else _QUANTITY_RULE) from None


def _time(value: Any, *, micro: bool) -> str:
    if not isinstance(value, str):
        raise DecodeError(f"json: cannot unmarshal {_kind_of(value)} into Go value of type string")
    try:
        parsed = datetime.fromisoformat(value) if "T" in value else None
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
        quoted = gotext.quote(value)
        raise DecodeError(f'parsing time {quoted} as {gotext.quote(layout)}: cannot parse {quoted} as "2006"')
    return written_time(parsed, micro=micro)


def written_time(moment: datetime, *, micro: bool = False) -> str:
    """Gives a time as Kubernetes writes it: UTC, whole seconds, or six digits of a second."""
    told = moment.astimezone(UTC)
    return told.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _bytes(value: Any, holder: str, said: str, go: str) -> str:
    if not isinstance(value, str):
        raise _mismatch(value, holder, said, go)
    try:
        return base64.b64encode(base64.b64decode("".join(value.split()), validate=True)).decode()
    except (binascii.Error, ValueError):
        offset = next(
            (i for i, letter in enumerate(value) if not (letter.isalnum() or letter in "+/=")), len(value)
        )
        raise DecodeError(f"illegal base64 data at input byte {offset}") from None


def _kind_of(value: Any) -> str:
    return _GO_TYPES.get(type(value), "number")


def _mismatch(value: Any, holder: str, said: str, go: str) -> DecodeError:
    return DecodeError(_told(_kind_of(value), holder, said, go))


def _told(kind: str, holder: str, said: str, go: str) -> str:
    return f"json: cannot unmarshal {kind} into Go struct field {holder}{said} of type {go}"
