# SPDX-License-Identifier: Apache-2.0
"""Decodes what the API server sends: one object, a page of a list, an event of a watch.

An object whose JSON has another shape than its kind takes nothing else with it. It is not left out in silence either:
lists and watches name it as `Undecodable`, with its raw JSON, because a decision to delete something must not be
taken from a list that lacks objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from karpenter.api.base import EMPTY, Frozen
from karpenter.api.core import decode, decode_list
from karpenter.api.meta import ListMeta
from karpenter.kube.errors import UnreadableError, api_error
from karpenter.kube.kinds import Kind

__all__ = ["Listing", "Page", "Undecodable", "Watched", "decode_answer", "decode_event", "decode_page"]

T = TypeVar("T", bound=Frozen)


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that does not decode, because its JSON has another shape than its kind.

    Attributes:
        kind: The kind, e.g. ``NodeClaim``.
        namespace: The namespace; empty for kinds without one.
        name: The name.
        problem: Which field has which other shape.
        api_version: The kind's apiVersion.
        uid: The uid.
        resource_version: The version that was read.
        raw: The whole object as JSON has it.
    """

    kind: str
    namespace: str
    name: str
    problem: str
    api_version: str = ""
    uid: str = ""
    resource_version: str = ""
    raw: Mapping[str, Any] = field(default=EMPTY, repr=False, compare=False)

    def text(self, *path: str) -> str:
        """Return the text at a path of the raw object; empty if there is none."""
        found: Any = self.raw
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else ""

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where} cannot be read: {self.problem}"


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects of a list, those of them that do not decode, and the version of the cluster that they show."""

    items: tuple[T, ...]
    resource_version: str
    unreadable: tuple[Undecodable, ...] = ()


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    items: tuple[T, ...]
    metadata: ListMeta
    unreadable: tuple[Undecodable, ...] = ()


@dataclass(frozen=True, slots=True)
class Watched(Generic[T]):
    """One event of a watch: with its object, or with what of it could be read; a bookmark has neither."""

    type: str
    resource_version: str
    object: T | None = None
    unreadable: Undecodable | None = None


class _RawEvent(Frozen):
    type: str
    object: msgspec.Raw


class _Version(Frozen):
    resource_version: str = ""


class _Versioned(Frozen):
    metadata: _Version = _Version()


class _RawList(Frozen):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


def decode_answer(body: bytes, kind: Kind[T], request: str) -> T:
    """Return the object that the server answered with.

    Raises:
        UnreadableError: Its JSON has another shape than its kind.
    """
    try:
        return decode(body, kind.struct)
    except msgspec.ValidationError as error:
        raise UnreadableError(
            f"the answer to {request} cannot be read as {kind.name}: {error}",
            hint=f"correct the field: kubectl edit {kind.plural}, with --subresource=status if it is in the status",
        ) from error


def decode_page(body: bytes, kind: Kind[T]) -> Page[T]:
    """Return a page of a list; objects that do not decode are named in it."""
    try:
        whole = decode_list(body, kind.struct)
        return Page(tuple(whole), whole.metadata)
    except msgspec.ValidationError:
        raw = msgspec.json.decode(body, type=_RawList)
    items: list[T] = []
    unreadable: list[Undecodable] = []
    for each in raw.items or ():
        found = _item(bytes(each), kind)
        if isinstance(found, Undecodable):
            unreadable.append(found)
        else:
            items.append(found)
    return Page(tuple(items), raw.metadata, tuple(unreadable))


def decode_event(line: bytes, kind: Kind[T]) -> Watched[T]:
    """Return one event of a watch.

    Raises:
        ApiError: The event is the server's refusal to go on.
    """
    event = msgspec.json.decode(line, type=_RawEvent)
    if event.type == "ERROR":
        answer = msgspec.json.decode(event.object, type=dict[str, Any])
        raise api_error(int(answer.get("code") or 500), answer, f"watch {kind.plural}")
    version = msgspec.json.decode(event.object, type=_Versioned).metadata.resource_version
    if event.type == "BOOKMARK":
        return Watched("BOOKMARK", version)
    found = _item(bytes(event.object), kind)
    if isinstance(found, Undecodable):
        return Watched(event.type, version, unreadable=found)
    return Watched(event.type, version, found)


def _item(body: bytes, kind: Kind[T]) -> T | Undecodable:
    try:
        return decode(body, kind.struct)
    except msgspec.ValidationError as error:
        raw = msgspec.json.decode(body, type=dict[str, Any])
        bare = Undecodable(kind.name, "", "", str(error), kind.api_version, raw=raw)
        return Undecodable(
            kind.name,
            bare.text("metadata", "namespace"),
            bare.text("metadata", "name"),
            str(error),
            kind.api_version,
            bare.text("metadata", "uid"),
            bare.text("metadata", "resourceVersion"),
            raw,
        )
