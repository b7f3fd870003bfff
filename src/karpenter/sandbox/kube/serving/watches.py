# SPDX-License-Identifier: Apache-2.0
"""Watches: what happens to a kind, line by line, from a revision on.

A watch begins in the past if that is still known, and ends with 410 if not. An object that begins to match the
selector is ADDED, one that no longer does is DELETED. Bookmarks tell idle clients how far they are. A client that
does not keep up is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from karpenter.sandbox.kube.engine.calls import Call, Target
from karpenter.sandbox.kube.engine.engine import Engine
from karpenter.sandbox.kube.engine.lists import selector_of
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.kinds.reading import empty_struct
from karpenter.sandbox.kube.serving.forms import encode, object_bytes, shown, wants_metadata
from karpenter.sandbox.kube.serving.tables import table, wants_table
from karpenter.sandbox.kube.storage.selecting import Selector
from karpenter.sandbox.kube.storage.store import Change, CompactedError, FutureError, Stored

__all__ = ["Watch"]

_BOOKMARK_S: Final = 30.0
_LONGEST_S: Final = 1800.0
# Lines of larger objects are not remembered: a thousand of them would fill the machine.
_LARGE: Final = 1 << 16
_INITIAL_END: Final = "k8s.io/initial-events-end"


class Watch:
    """One watch of one client; iterate it for the bytes to send."""

    def __init__(self, engine: Engine, resource: Resource, target: Target, call: Call) -> None:
        self._engine = engine
        self._resource = resource
        self._namespace = target.namespace
        self._selects: Selector | None = selector_of(resource, call, target)
        self._bookmarks = call.flag("allowWatchBookmarks")
        self._initial = call.query.get("sendInitialEvents", "")
        accept = call.headers.get("Accept", "")
        self._table = wants_table(accept)
        self._metadata = wants_metadata(accept)
        self._include = call.query.get("includeObject", "Metadata")
        self._headed = False
        timeout = call.query.get("timeoutSeconds", "")
        self._timeout_s = (
            min(float(timeout), _LONGEST_S) if timeout.isdigit() and int(timeout) else _LONGEST_S
        )
        version = call.query.get("resourceVersion", "")
        if version and not version.isdigit():
            problem = f'strconv.ParseUint: parsing "{version}": invalid syntax'
            raise ApiError(500, "", f'resourceVersion: Invalid value: "{version}": {problem}')
        self._version = int(version) if version else 0

    async def lines(self) -> AsyncIterator[bytes]:
        """Gives the lines of the watch until it ends."""
        store, kind = self._engine.store, self._resource.storage_key
        # Registered before anything is read, so that nothing falls between the past and the future.
        watcher = store.watch(kind)
        revision = store.revision
        try:
            try:
                first = self._beginning()
            except CompactedError:
                message = f"too old resource version: {self._version} ({store.compacted + 1})"
                yield self._line("ERROR", encode(ApiError.expired(message).body()))
                return
            except FutureError:
                message = f"Too large resource version: {self._version}, current: {store.revision}"
                details = {
                    "causes": [
                        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                    ],
                    "retryAfterSeconds": 1,
                }
                yield self._line("ERROR", encode(ApiError(504, "Timeout", message, details=details).body()))
                return
            if first:
                yield b"".join(first)
            if self._initial == "true":
                yield self._bookmark(revision, ends_initial=True)
            async for block in self._following(watcher, revision):
                yield block
        finally:
            store.unwatch(kind, watcher)

    async def _following(self, watcher: Any, revision: int) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._timeout_s
        marked = loop.time()
        while (left := ends - loop.time()) > 0:
            wait = min(left, _BOOKMARK_S) if self._bookmarks else left
            changes = await watcher.take(wait)
            if not changes and watcher.cut_off:
                return
            lines = [line for change in changes if (line := self._told(change))]
            if changes:
                revision = changes[-1].revision
            if lines:
                yield b"".join(lines)
            if self._bookmarks and loop.time() - marked >= _BOOKMARK_S:
                marked = loop.time()
                yield self._bookmark(max(revision, self._engine.store.revision if not changes else revision))
        if self._bookmarks:
            yield self._bookmark(revision)

    def _beginning(self) -> list[bytes]:
        store, kind = self._engine.store, self._resource.storage_key
        wants_state = self._initial == "true" or (self._version == 0 and self._initial != "false")
        if wants_state:
            found = store.items(kind, self._namespace)
            return [
                self._line("ADDED", self._object(each))
                for each in found
                if self._selects is None or self._selects(each.obj)
            ]
        if self._version == 0:
            return []
        return [line for change in store.since(kind, self._version) if (line := self._told(change))]

    def _told(self, change: Change) -> bytes:
        if self._namespace and change.key[0] != self._namespace:
            return b""
        selects = self._selects
        before = change.old is not None and (selects is None or selects(change.old.obj))
        after = not change.deleted and (selects is None or selects(change.new.obj))
        if change.deleted:
            return self._event("DELETED", change.new) if before else b""
        if before and after:
            return self._event("MODIFIED", change.new)
        if after:
            return self._event("ADDED", change.new)
        if before and change.old is not None:
            # The client hears of its going at the revision of the change, with what it knew.
            last = change.old.obj
            gone = {**last, "metadata": {**last["metadata"], "resourceVersion": str(change.revision)}}
            return self._line("DELETED", self._object(Stored(gone, change.revision)))
        return b""

    def _event(self, word: str, stored: Stored) -> bytes:
        if self._table or self._metadata or len(stored.tail) > _LARGE:
            return self._line(word, self._object(stored))
        return _shared_line(word, self._resource, stored)

    def _object(self, stored: Stored) -> bytes:
        if self._table:
            return encode(
                self._table_of([shown(self._resource, stored.obj)], stored.obj["metadata"]["resourceVersion"])
            )
        if self._metadata:
            return encode(partial(stored.obj))
        return object_bytes(self._resource, stored)

    def _table_of(self, objects: list[dict[str, Any]], version: str) -> dict[str, Any]:
        made = table(self._resource, objects, {"resourceVersion": version}, self._now(), self._include)
        if self._headed:
            made["columnDefinitions"] = None
        self._headed = True
        return made

    def _bookmark(self, revision: int, *, ends_initial: bool = False) -> bytes:
        resource = self._resource
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if ends_initial:
            metadata["annotations"] = {_INITIAL_END: "true"}
        if self._table:
            obj = self._table_of([], str(revision))
            partial_row = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
            obj["rows"] = [{"cells": [""] * len(obj["columnDefinitions"] or ()), "object": partial_row}]
        else:
            empty = {} if resource.definition is not None else empty_struct(resource.shape)
            obj = {"kind": resource.kind, "apiVersion": resource.api_version, **empty, "metadata": metadata}
            if self._metadata:
                obj = partial(obj)
        return self._line("BOOKMARK", encode(obj))

    def _now(self) -> datetime:
        return self._engine.moment()

    @staticmethod
    def _line(kind: str, body: bytes) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


@lru_cache(maxsize=1024)
def _shared_line(word: str, resource: Resource, stored: Stored) -> bytes:
    """Gives the line of an event; many watchers of a kind want the same at about the same time."""
    return b'{"type":"%b","object":%b}\n' % (word.encode(), object_bytes(resource, stored))


def partial(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Gives an object without all but its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
