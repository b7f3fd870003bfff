# SPDX-License-Identifier: Apache-2.0
"""Bodies in Kubernetes' protobuf form, which kubectl's typed commands send, as plain objects.

Decides by the shape alone, which knows the number of every field; unknown numbers are skipped. Answers are never
written in this form: every client that sends it also takes JSON.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from karpenter.sandbox.kube.kinds.shapes import Field, Shape, builtin_facts, builtin_shape

__all__ = ["PROTOBUF", "ProtobufError", "from_protobuf"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_OF_ENVELOPE: Final = frozenset({"apiVersion", "kind"})
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(Exception):
    """Bytes that are not such a message."""


def from_protobuf(body: bytes) -> dict[str, Any]:
    """Gives the object in a body; its kind says which shape it has.

    Raises:
        ProtobufError: the body is cut short, not of this form, or of a kind that is not built in.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        head = dict(_fields(envelope.get(1, b"")))
        version, kind = head.get(1, b"").decode(), head.get(2, b"").decode()
        definition = _definitions().get((version, kind))
        if definition is None:
            raise ProtobufError(f'no kind "{kind}" is registered for version "{version}"')
        obj = _struct(envelope.get(2, b""), builtin_shape(definition))
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise ProtobufError(f"the protobuf message cannot be read: {error}") from error
    return {**obj, "apiVersion": version, "kind": kind}


@lru_cache(maxsize=1)
def _definitions() -> dict[tuple[str, str], str]:
    found = {}
    for name, schema in builtin_facts()["schemas"].items():
        for each in schema.get("x-kubernetes-group-version-kind", ()):
            group = f"{each['group']}/" if each["group"] else ""
            found[f"{group}{each['version']}", each["kind"]] = name
    return found


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value: Any
            value, at = _varint(data, at)
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("it is cut short")
            value, at = data[at : at + size], at + size
        elif wire == _FIXED64:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif wire == _FIXED32:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            raise ValueError(f"wire type {wire} is not known")
        yield number, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_NUMBERS: dict[int, tuple[Shape, dict[tuple[int, ...], tuple[str, Field]]]] = {}


def _numbers(shape: Shape) -> dict[tuple[int, ...], tuple[str, Field]]:
    known = _NUMBERS.get(id(shape))
    if known is None:
        # The envelope says kind and version; what else has their numbers is what is on the wire.
        in_order = sorted(shape.fields.items(), key=lambda each: each[0] not in _OF_ENVELOPE)
        made = {told.number: (name, told) for name, told in in_order if told.number}
        known = _NUMBERS[id(shape)] = (shape, made)
    return known[1]


def _struct(data: bytes, shape: Shape, prefix: tuple[int, ...] = ()) -> dict[str, Any]:
    numbers = _numbers(shape)
    found: dict[str, Any] = {}
    for number, value in _fields(data):
        path = (*prefix, number)
        told = numbers.get(path)
        if told is not None:
            _take(found, *told, value)
        elif isinstance(value, bytes) and any(each[: len(path)] == path for each in numbers):
            found |= _struct(value, shape, path)
    return found


def _take(found: dict[str, Any], name: str, told: Field, value: Any) -> None:
    shape = told.shape
    if shape.kind == "list" and shape.element is not None:
        found.setdefault(name, []).append(_value(value, shape.element))
    elif shape.kind == "map" and shape.element is not None:
        entry = dict(_fields(value))
        key = entry.get(1, b"").decode()
        found.setdefault(name, {})[key] = (
            _value(entry[2], shape.element) if 2 in entry else _empty(shape.element)
        )
    else:
        found[name] = _value(value, shape)


def _empty(shape: Shape) -> Any:
    return {} if shape.kind in {"struct", "map"} else [] if shape.kind == "list" else ""


def _value(value: Any, shape: Shape) -> Any:
    if shape.kind == "struct":
        return _struct(value, shape)
    if shape.kind == "list" and shape.element is not None:
        # A named list type is a message with the items in its first field.
        return [_value(each, shape.element) for _, each in _fields(value)]
    if shape.kind in {"any", "map"}:
        return _raw(value)
    return _scalar(value, shape.scalar)


def _raw(value: bytes) -> Any:
    for number, inner in _fields(value):
        if number == 1 and isinstance(inner, bytes) and inner:
            return json.loads(inner)
    return None


def _scalar(value: Any, scalar: str) -> Any:  # noqa: PLR0911 - one answer a scalar
    if scalar == "string":
        return value.decode()
    if scalar == "integer":
        return _signed(value)
    if scalar == "boolean":
        return bool(value)
    if scalar == "bytes":
        return base64.b64encode(value).decode()
    if scalar == "quantity":
        return next((inner.decode() for number, inner in _fields(value) if number == 1), "0")
    if scalar == "int-or-string":
        parts = dict(_fields(value))
        return parts.get(3, b"").decode() if parts.get(1) == 1 else _signed(parts.get(2, 0))
    if scalar in {"time", "microtime"}:
        return _time(dict(_fields(value)), micro=scalar == "microtime")
    return value


def _time(parts: dict[int, Any], *, micro: bool) -> str | None:
    if not parts:
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        seconds=_signed(parts.get(1, 0)), microseconds=_signed(parts.get(2, 0)) // 1000
    )
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
