# SPDX-License-Identifier: Apache-2.0
"""Form parameters (``Filter.1.Value.2=x``) read into Python values, for the protocols ``ec2`` and ``query``.

The flat names become a tree once; then a reader per shape, made when it is first needed, turns the tree into what
a boto3 user passed: integers, booleans, times, lists. Maps and flattened lists are not read, because no operation
that is served has any in these protocols. Refuses names that the shape does not have, required
ones that are missing, and values of the wrong type or outside an enumeration. Instance type names are never
checked here: new ones appear every week, and EC2 itself judges them per pool.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from karpenter.sandbox.ec2.front import complaints
from karpenter.sandbox.ec2.front.schema import Operation, Ref, Service, Shape

__all__ = ["parse"]

_Node: TypeAlias = "str | dict[str, _Node]"
_Reader: TypeAlias = Callable[[Any, str], Any]

# Not parameters of any operation.
_ENVELOPE = frozenset(
    {"Action", "Version", "SignatureMethod", "SignatureVersion", "Timestamp", "AWSAccessKeyId"}
)
_OPEN_ENUMS = frozenset({"InstanceType"})

_readers: dict[tuple[str, str], _Reader] = {}


def parse(service: Service, operation: Operation, form: Mapping[str, str]) -> dict[str, Any]:
    """Reads a call's parameters.

    Raises:
        ModelError: A parameter is unknown, missing, or not what its shape says.
    """
    tree: dict[str, _Node] = {}
    for name, value in form.items():
        if name not in _ENVELOPE and not name.startswith("X-Amz-"):
            _plant(service, tree, name, value)
    if operation.input is None:
        for name in tree:
            raise complaints.unknown_parameter(service.name, name)
        return {}
    result: dict[str, Any] = _reader(service, operation.input)(tree, "")
    return result


def _plant(service: Service, tree: dict[str, _Node], name: str, value: str) -> None:
    *stem, leaf = name.split(".")
    node = tree
    for part in stem:
        inner = node.setdefault(part, {})
        if isinstance(inner, str):
            raise complaints.unknown_parameter(service.name, name)
        node = inner
    if isinstance(node.get(leaf), dict):
        raise complaints.unknown_parameter(service.name, name)
    node[leaf] = value


def _reader(service: Service, ref: Ref) -> _Reader:
    shape = service.shape(ref)
    key = (service.name, ref.shape)
    found = _readers.get(key)
    if found is None:
        # A shape may contain itself: the reader is looked up when it is used, not when it is made.
        _readers[key] = lambda node, path: _readers[key](node, path)  # noqa: PLW0108
        found = _readers[key] = _make(service, ref, shape)
    return found


def _make(service: Service, ref: Ref, shape: Shape) -> _Reader:
    if shape.type == "structure":
        return _structure(service, shape)
    if shape.type == "list":
        return _list(service, shape)
    return _scalar(service, ref.shape, shape)


def _wire_name(service: Service, name: str, ref: Ref) -> str:
    if service.protocol == "ec2":
        if ref.query_name:
            return ref.query_name
        if ref.location_name:
            return ref.location_name[:1].upper() + ref.location_name[1:]
    return ref.location_name or name


def _structure(service: Service, shape: Shape) -> _Reader:
    names = {_wire_name(service, name, ref): (name, ref) for name, ref in shape.members.items()}
    required = [(name, _wire_name(service, name, shape.members[name])) for name in shape.required]

    def read(node: _Node, path: str) -> dict[str, Any]:
        if isinstance(node, str):
            if node:
                raise complaints.malformed(service.name, path, node, "structure")
            node = {}
        found: dict[str, Any] = {}
        for wire, inner in node.items():
            known = names.get(wire)
            where = f"{path}.{wire}" if path else wire
            if known is None:
                raise complaints.unknown_parameter(service.name, where)
            found[known[0]] = _reader(service, known[1])(inner, where)
        for name, wire in required:
            if name not in found:
                raise complaints.missing(service.name, f"{path}.{wire}" if path else wire)
        return found

    return read


def _list(service: Service, shape: Shape) -> _Reader:
    assert shape.member is not None  # noqa: S101 - a list has a member in every description
    member = shape.member
    flat = service.protocol == "ec2"
    inside = member.location_name or "member"

    def read(node: _Node, path: str) -> list[Any]:
        if isinstance(node, str):
            if node:
                raise complaints.malformed(service.name, path, node, "list")
            return []
        if not flat:
            inner = node.get(inside, {})
            if len(node) != (inside in node) or isinstance(inner, str):
                raise complaints.malformed(service.name, path, next(iter(node), ""), "list")
            node, path = inner, f"{path}.{inside}"
        reader = _reader(service, member)
        return [reader(inner, f"{path}.{number}") for number, inner in _numbered(service, node, path)]

    return read


def _numbered(service: Service, node: dict[str, _Node], path: str) -> list[tuple[int, _Node]]:
    try:
        return sorted(((int(number), inner) for number, inner in node.items()), key=lambda pair: pair[0])
    except ValueError:
        wrong = next(name for name in node if not name.isdecimal())
        raise complaints.unknown_parameter(service.name, f"{path}.{wrong}") from None


def _scalar(service: Service, name: str, shape: Shape) -> _Reader:
    convert = _CONVERTERS[shape.type]
    enum = frozenset(shape.enum) if shape.enum and name not in _OPEN_ENUMS else None
    limits = _limits(shape) if service.protocol != "ec2" else None

    def read(node: _Node, path: str) -> Any:
        if not isinstance(node, str):
            raise complaints.unknown_parameter(service.name, f"{path}.{next(iter(node), '')}")
        if convert is None:
            value: Any = node
        else:
            try:
                value = convert(node)
            except (ValueError, OverflowError, OSError):
                raise complaints.malformed(service.name, path, node, shape.type) from None
        if enum is not None and value not in enum:
            raise complaints.outside(
                service.name, path, value, f"Member must satisfy enum value set: {sorted(enum)}"
            )
        if limits is not None:
            limits(service.name, path, value)
        return value

    return read


def _limits(shape: Shape) -> Callable[[str, str, Any], None] | None:
    if shape.min is None and shape.max is None:
        return None
    low, high = shape.min, shape.max

    def check(service: str, path: str, value: Any) -> None:
        size = len(value) if isinstance(value, (str, bytes)) else value
        what = "have length " if isinstance(value, (str, bytes)) else "have value "
        if low is not None and size < low:
            raise complaints.outside(
                service, path, value, f"Member must {what}greater than or equal to {low:g}"
            )
        if high is not None and size > high:
            raise complaints.outside(
                service, path, value, f"Member must {what}less than or equal to {high:g}"
            )

    return check


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise ValueError(text)
    return lowered == "true"


def _timestamp(text: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_CONVERTERS: Mapping[str, Callable[[str], Any] | None] = {
    "string": None,
    "character": None,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": _boolean,
    "timestamp": _timestamp,
    "blob": lambda text: base64.b64decode(text, validate=True),
}
