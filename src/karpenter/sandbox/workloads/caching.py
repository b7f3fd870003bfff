# SPDX-License-Identifier: Apache-2.0
"""What the API server has, kept here: one store a kind, fed by a watch and by the answers to our own writes.

An answer to a write counts at once, so that a controller never makes a thing twice because the watch is late. What was
deleted does not come back through an answer that was overtaken. Whoever subscribes hears of each change with what was
before and what is now.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

import aiohttp
import msgspec

from karpenter.kit.clock import Clock
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.resources import Key, Resource, Wire, key_of

__all__ = ["Handler", "Lister", "Store", "follow"]

Handler: TypeAlias = Callable[[Wire | None, Wire | None], None]

_RETRY_S: Final = 1.0
_MISSING_RETRY_S: Final = 2.0
_MOST_TOMBSTONES: Final = 20_000


class Lister(Protocol):
    """The part of a client that feeds stores."""

    def pages(self, path: str) -> AsyncIterator[bytes]:
        """Gives a list, page by page."""
        ...

    def watch(self, path: str, resource_version: str) -> AsyncIterator[bytes]:
        """Gives the changes after a version, line by line."""
        ...


class Store:
    """The objects of one kind."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self._objects: dict[Key, Wire] = {}
        self._uids: dict[str, Key] = {}
        self._handlers: list[Handler] = []
        self._indexers: dict[str, Callable[[Wire], Iterable[Hashable]]] = {
            "owner": _owners,
            "namespace": _namespaces,
        }
        self._indexes: dict[str, dict[Hashable, dict[Key, None]]] = {"owner": {}, "namespace": {}}
        self._tombs: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> Wire | None:
        """Gives an object by namespace and name."""
        return self._objects.get(key)

    def by_uid(self, uid: str) -> Wire | None:
        """Gives an object by its uid."""
        key = self._uids.get(uid)
        return None if key is None else self._objects[key]

    def all(self) -> list[Wire]:
        """Gives all objects."""
        return list(self._objects.values())

    def indexed(self, index: str, value: Hashable) -> list[Wire]:
        """Gives the objects that an index has under a value."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def count_owned(self, uid: str) -> int:
        """Counts the objects with that owner."""
        return len(self._indexes["owner"].get(uid, ()))

    def owned_by(self, uid: str) -> list[Wire]:
        """Gives the objects with that owner."""
        return self.indexed("owner", uid)

    def in_namespace(self, namespace: str) -> list[Wire]:
        """Gives the objects of a namespace."""
        return self.indexed("namespace", namespace)

    def index(self, name: str, indexer: Callable[[Wire], Iterable[Hashable]]) -> None:
        """Adds an index."""
        self._indexers[name] = indexer
        self._indexes[name] = {}
        for key, wire in self._objects.items():
            for value in indexer(wire):
                self._indexes[name].setdefault(value, {})[key] = None

    def subscribe(self, handler: Handler) -> None:
        """Tells a handler of all that is there, and of each change from now on."""
        self._handlers.append(handler)
        for wire in self.all():
            handler(None, wire)

    def put(self, wire: Wire) -> None:
        """Takes over an object, unless a newer state of it is known or it is gone."""
        key, uid = key_of(wire), wire["metadata"]["uid"]
        old = self._objects.get(key)
        if uid in self._tombs or (old is not None and not _is_newer(wire, old)):
            return
        if old is not None and old["metadata"]["uid"] != uid:
            self.drop(old)
            old = None
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = wire
        self._uids[uid] = key
        self._reindex(key, wire)
        self._tell(old, wire)

    def drop(self, wire: Wire) -> None:
        """Forgets an object; another of the same name is not meant."""
        key, uid = key_of(wire), wire["metadata"]["uid"]
        self._tombs[uid] = None
        if len(self._tombs) > _MOST_TOMBSTONES:
            del self._tombs[next(iter(self._tombs))]
        old = self._objects.get(key)
        if old is None or old["metadata"]["uid"] != uid:
            return
        del self._objects[key]
        del self._uids[uid]
        self._unindex(key, old)
        self._tell(old, None)

    def replace(self, objects: Iterable[Wire]) -> None:
        """Takes over all that there is."""
        new = list(objects)
        there = {each["metadata"]["uid"] for each in new}
        for old in self.all():
            if old["metadata"]["uid"] not in there:
                self.drop(old)
        for each in new:
            self.put(each)
        self.synced.set()

    def _reindex(self, key: Key, wire: Wire) -> None:
        for name, indexer in self._indexers.items():
            for value in indexer(wire):
                self._indexes[name].setdefault(value, {})[key] = None

    def _unindex(self, key: Key, wire: Wire) -> None:
        for name, indexer in self._indexers.items():
            for value in indexer(wire):
                held = self._indexes[name].get(value)
                if held is not None:
                    held.pop(key, None)
                    if not held:
                        del self._indexes[name][value]

    def _tell(self, old: Wire | None, new: Wire | None) -> None:
        for handler in self._handlers:
            handler(old, new)


async def follow(
    api: Lister, store: Store, clock: Clock, *, trim: Callable[[Wire], Wire] | None = None
) -> None:
    """Keeps a store like the server, for ever; while the kind is not served, the store is empty.

    Args:
        api: The server.
        store: What to keep.
        clock: Where time comes from.
        trim: Makes objects smaller before they are kept.
    """
    while True:
        try:
            await _follow_once(api, store, trim or _whole)
        except ApiError as refused:
            if refused.status == 404:
                store.replace(())
                await clock.sleep(_MISSING_RETRY_S)
            elif refused.status != 410:
                await clock.sleep(_RETRY_S)
        except (TimeoutError, aiohttp.ClientError, msgspec.DecodeError):
            await clock.sleep(_RETRY_S)


async def _follow_once(api: Lister, store: Store, trim: Callable[[Wire], Wire]) -> None:
    path = store.resource.path()
    objects: list[Wire] = []
    version = ""
    async for body in api.pages(path):
        page = msgspec.json.decode(body)
        objects += map(trim, page.get("items") or ())
        version = page["metadata"]["resourceVersion"]
    store.replace(objects)
    while True:
        async for line in api.watch(path, version):
            event = msgspec.json.decode(line)
            wire = event["object"]
            if event["type"] == "ERROR":
                raise ApiError(
                    f"the watch of {path} ended: {wire.get('message', '')}", status=wire.get("code", 500)
                )
            version = wire["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                store.drop(wire)
            elif event["type"] != "BOOKMARK":
                store.put(trim(wire))


def _whole(wire: Wire) -> Wire:
    return wire


def _owners(wire: Wire) -> Iterable[Hashable]:
    return [each["uid"] for each in wire["metadata"].get("ownerReferences") or ()]


def _namespaces(wire: Wire) -> Iterable[Hashable]:
    return [wire["metadata"].get("namespace", "")]


def _is_newer(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    version, before = new["metadata"].get("resourceVersion"), old["metadata"].get("resourceVersion")
    if version is None or before is None:
        return True
    if new["metadata"]["uid"] != old["metadata"]["uid"] or not (version.isdigit() and before.isdigit()):
        return bool(version != before)
    return int(version) > int(before)
