# SPDX-License-Identifier: Apache-2.0
"""JSON documents read into Python values by their shape and written back, for ``json`` and ``rest-json``.

Reading turns numbers into times and base64 into bytes, checks types, required members, lengths and enumerations, and
passes over members that the shape does not have, as AWS does: an older service must bear a newer SDK. Writing is the
way back; times become seconds since 1970.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from karpenter.sandbox.ec2.contract import ModelError
from karpenter.sandbox.ec2.front import complaints
from karpenter.sandbox.ec2.front.schema import Ref, Service, Shape

__all__ = ["decode", "read", "scalar_from_text", "write"]

_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "character": (str,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
}


def decode(service: Service, body: bytes) -> dict[str, Any]:
    """Reads a body that must be a JSON object or nothing.

    Raises:
        ModelError: It is something else.
    """
    if not body:
        return {}
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError as broken:
        raise ModelError("SerializationException", f"the request body is not JSON: {broken}") from broken
    if not isinstance(document, dict):
        raise complaints.malformed(service.name, "", document, "structure")
    return document


def read(service: Service, ref: Ref, value: Any, path: str = "") -> Any:
    """Reads a JSON value as its shape says.

    Raises:
        ModelError: A member is missing, of the wrong type, or breaks a constraint.
    """
    shape = service.shape(ref)
    if shape.type == "structure":
        return _read_structure(service, shape, value, path)
    if shape.type == "list":
        if not isinstance(value, list) or shape.member is None:
            raise complaints.malformed(service.name, path, value, "list")
        _check_size(service, shape, value, path)
        return [read(service, shape.member, each, f"{path}.{n}.member") for n, each in enumerate(value, 1)]
    if shape.type == "map":
        if not isinstance(value, dict) or shape.value is None:
            raise complaints.malformed(service.name, path, value, "map")
        return {key: read(service, shape.value, each, f"{path}.{key}") for key, each in value.items()}
    return _read_scalar(service, shape, value, path)


def scalar_from_text(service: Service, ref: Ref, text: str, path: str) -> Any:
    """Reads a value that stands in a path, a query string or a header."""
    shape = service.shape(ref)
    if shape.type in {"integer", "long"}:
        try:
            return _read_scalar(service, shape, int(text), path)
        except ValueError:
            raise complaints.malformed(service.name, path, text, shape.type) from None
    if shape.type == "boolean":
        if text not in {"true", "false"}:
            raise complaints.malformed(service.name, path, text, shape.type)
        return text == "true"
    return _read_scalar(service, shape, text, path)


def write(service: Service, ref: Ref, value: Any) -> Any:
    """Gives the value as JSON holds it: wire names, times as numbers, bytes as base64."""
    shape = service.shape(ref)
    if shape.type == "structure":
        return {
            shape.members[name].location_name or name: write(service, shape.members[name], inner)
            for name, inner in value.items()
            if inner is not None
        }
    if shape.type == "list" and shape.member is not None:
        return [write(service, shape.member, each) for each in value]
    if shape.type == "map" and shape.value is not None:
        return {key: write(service, shape.value, each) for key, each in value.items()}
    if isinstance(value, datetime):
        return round(value.timestamp(), 3)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _read_structure(service: Service, shape: Shape, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise complaints.malformed(service.name, path, value, "structure")
    found: dict[str, Any] = {}
    for name, ref in shape.members.items():
        inner = value.get(ref.location_name or name)
        where = f"{path}.{name}" if path else name
        if inner is not None:
            found[name] = read(service, ref, inner, where)
        elif name in shape.required:
            raise complaints.missing(service.name, where)
    return found


def _read_scalar(service: Service, shape: Shape, value: Any, path: str) -> Any:
    if shape.type == "timestamp":
        return _read_timestamp(service, value, path)
    if shape.type == "blob":
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, binascii.Error):
            raise complaints.malformed(service.name, path, value, "blob") from None
    expected = _PYTHON_TYPES[shape.type]
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        raise complaints.malformed(service.name, path, value, shape.type)
    # SQS takes names of two enumerations in one list and judges them itself.
    if shape.enum and value not in shape.enum and service.name != "sqs":
        raise complaints.outside(
            service.name, path, value, f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
        )
    _check_size(service, shape, value, path)
    return value


def _read_timestamp(service: Service, value: Any, path: str) -> datetime:
    try:
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError):
        raise complaints.malformed(service.name, path, value, "timestamp") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _check_size(service: Service, shape: Shape, value: Any, path: str) -> None:
    is_sized = isinstance(value, (str, bytes, list))
    size = len(value) if is_sized else value
    what = "have length " if is_sized else "have value "
    if shape.min is not None and size < shape.min:
        constraint = f"Member must {what}greater than or equal to {shape.min:g}"
        raise complaints.outside(service.name, path, value, constraint)
    if shape.max is not None and size > shape.max:
        constraint = f"Member must {what}less than or equal to {shape.max:g}"
        raise complaints.outside(service.name, path, value, constraint)
