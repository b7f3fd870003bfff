# SPDX-License-Identifier: Apache-2.0
"""Python values written as XML by their shape, for the protocols ``ec2`` and ``query``.

A writer per shape is made when it is first needed. A value may hold ``Rendered`` pieces in place of list members or
of whole lists; they are passed through, so that a listing of thousands is a join of texts. A key that the shape
does not have is a defect of the handler and raises KeyError.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from karpenter.sandbox.ec2.contract import Rendered
from karpenter.sandbox.ec2.front.schema import Operation, Ref, Service, Shape
from karpenter.sandbox.ec2.front.schema import service as service_named

__all__ = ["escape", "iso_milliseconds", "render_item", "render_result"]

_Writer: TypeAlias = Callable[[Any], str]

_writers: dict[tuple[str, str], _Writer] = {}
_needs_escape = re.compile(r"[&<>\"\r\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#xD;"}


def escape(text: str) -> str:
    """Gives the text as XML holds it; characters that XML cannot hold at all become U+FFFD."""
    if _needs_escape.search(text) is None:
        return text
    return _needs_escape.sub(lambda found: _ESCAPES.get(found.group(), "\ufffd"), text)


def iso_milliseconds(moment: datetime) -> str:
    """Gives a time as EC2 writes it."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def render_item(shape: str, value: Mapping[str, Any]) -> str:
    """Writes one member of an EC2 list, ``<item>`` included, to be wrapped in ``Rendered`` and kept.

    Args:
        shape: The name of the member's shape in EC2's description, such as ``Reservation``.
        value: The member as a boto3 user sees it; it may hold ``Rendered`` pieces itself.
    """
    inner = _writer(service_named("ec2"), Ref(shape))(value)
    return f"<item>{inner}</item>"


def render_result(service: Service, operation: Operation, result: Mapping[str, Any]) -> str:
    """Writes the members of an operation's result, without the envelope."""
    if operation.output is None:
        return ""
    return _writer(service, operation.output)(result)


def _writer(service: Service, ref: Ref) -> _Writer:
    key = (service.name, ref.shape)
    found = _writers.get(key)
    if found is None:
        _writers[key] = lambda value: _writers[key](value)  # noqa: PLW0108 - not there yet
        found = _writers[key] = _make(service, service.shape(ref))
    return found


def _make(service: Service, shape: Shape) -> _Writer:
    if shape.type == "structure":
        return _structure(service, shape)
    if shape.type == "list":
        return _list(service, shape)
    return _SCALARS[shape.type]


def _structure(service: Service, shape: Shape) -> _Writer:
    members: dict[str, _Writer] = {}

    def write(value: Mapping[str, Any]) -> str:
        parts: list[str] = []
        for name, inner in value.items():
            if inner is None:
                continue
            writer = members.get(name)
            if writer is None:
                writer = members[name] = _member(service, name, shape.members[name])
            parts.append(writer(inner))
        return "".join(parts)

    return write


def _member(service: Service, name: str, ref: Ref) -> _Writer:
    tag = ref.location_name or name
    opening, closing, empty = f"<{tag}>", f"</{tag}>", f"<{tag}/>"
    writer = _writer(service, ref)

    def write(value: Any) -> str:
        inner = writer(value)
        return f"{opening}{inner}{closing}" if inner else empty

    return write


def _list(service: Service, shape: Shape) -> _Writer:
    assert shape.member is not None  # noqa: S101 - a list has a member in every description
    member = shape.member
    # Where the description names no element, it is `member` in EC2 too; SDKs that read strictly miss any other.
    tag = member.location_name or "member"
    opening, closing = f"<{tag}>", f"</{tag}>"

    def write(value: Rendered | Iterable[Any]) -> str:
        if isinstance(value, Rendered):
            return value.xml
        writer = _writer(service, member)
        return "".join(
            [
                each.xml if isinstance(each, Rendered) else f"{opening}{writer(each)}{closing}"
                for each in value
            ]
        )

    return write


def _text(value: Any) -> str:
    return escape(value if type(value) is str else str(value))


def _timestamp(value: datetime | str) -> str:
    return iso_milliseconds(value) if isinstance(value, datetime) else escape(value)


_SCALARS: Mapping[str, _Writer] = {
    "string": _text,
    "character": _text,
    "integer": str,
    "long": str,
    "float": repr,
    "double": repr,
    "boolean": lambda value: "true" if value else "false",
    "timestamp": _timestamp,
    "blob": lambda value: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode(),
}
