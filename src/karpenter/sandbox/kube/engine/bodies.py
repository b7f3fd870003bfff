# SPDX-License-Identifier: Apache-2.0
"""The bytes of a request as data: JSON, YAML or protobuf.

What comes out is always what JSON can say, no deeper than the rest of the engine can follow. YAML that would grow
without bounds through its aliases is refused, as are numbers that JSON has no words for.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
import yaml

from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.protobuf import PROTOBUF, ProtobufError, from_protobuf

__all__ = ["parse_body", "unrecognised"]

# A real server stops at 10,000 levels; the deepest definitions that people write have some sixty.
_DEEPEST: Final = 150
# Without aliases there cannot be more values than bytes.
_VALUES_PER_BYTE: Final = 10
_FEW_VALUES: Final = 10_000


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML without making dates of what looks like one."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_body(body: bytes, content_type: str, kind: str = "") -> Any:
    """Reads a body as JSON, YAML or protobuf.

    Args:
        body: The bytes.
        content_type: What they are said to be.
        kind: The kind that is expected, for the words of a refusal.

    Raises:
        ApiError: they are none of it.
    """
    if content_type == PROTOBUF:
        try:
            return from_protobuf(body)
        except ProtobufError as error:
            raise ApiError.bad_request(str(error)) from error
    if "yaml" in content_type and body[:1] not in b"{[":
        return _yaml(body)
    try:
        data = msgspec.json.decode(body)
    except RecursionError as error:
        raise _too_deep(body, kind) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        told = "unexpected end of JSON input" if not body or "truncated" in str(error) else str(error)
        raise ApiError.bad_request(
            unrecognised(f"couldn't get version/kind; json parse error: {told}", body, kind)
        ) from error
    # Most bodies open so few brackets that they cannot be deep.
    if body.count(b"{") + body.count(b"[") > _DEEPEST and _depth(data) > _DEEPEST:
        raise _too_deep(body, kind)
    return data


def unrecognised(why: str, body: bytes, kind: str) -> str:
    """Gives the words for a body in which no object of a kind can be found."""
    if not kind:
        return why
    shown = body.decode(errors="replace") if body[:1] == b"{" else body.hex()
    return f"the object provided is unrecognized (must be of type {kind}): {why} ({shown or '<empty>'})"


def _too_deep(body: bytes, kind: str) -> ApiError:
    told = "couldn't get version/kind; json parse error: exceeded max depth"
    return ApiError.bad_request(unrecognised(told, body[:100], kind))


def _depth(data: Any) -> int:
    """Gives how deep data is nested, as far as it matters."""
    depth, level = 0, [data]
    while level and depth <= _DEEPEST:
        depth += 1
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def _yaml(body: bytes) -> Any:
    try:
        data = yaml.load(body, _Loader)  # noqa: S506 - a safe loader
        return _Plain(_VALUES_PER_BYTE * len(body) + _FEW_VALUES).of(data, 0)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark, why = getattr(error, "problem_mark", None), getattr(error, "problem", "") or str(error)
        line = f"line {mark.line}: " if mark else ""
        raise ApiError.bad_request(
            f"error decoding YAML: error converting YAML to JSON: yaml: {line}{why}"
        ) from error


class _Plain:
    """Makes JSON's data of YAML's: names are texts, and a part that is named twice counts twice."""

    def __init__(self, most: int) -> None:
        self._left = most

    def of(self, value: Any, depth: int) -> Any:
        """Gives one value.

        Raises:
            ValueError: JSON cannot say it, or there is too much of it.
        """
        self._left -= 1
        if self._left < 0:
            raise ValueError("document contains excessive aliasing")
        if depth > _DEEPEST:
            raise ValueError("exceeded max depth")
        if isinstance(value, dict):
            return {_name(key): self.of(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(inner, depth + 1) for inner in value]
        if isinstance(value, set):
            return {_name(key): None for key in value}
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"json: unsupported value: {value}")
        return value


def _name(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, int | float):
        return str(key)
    if key is None:
        return "null"
    raise ValueError(f"invalid map key: {key!r}")
