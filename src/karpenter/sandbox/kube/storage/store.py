# SPDX-License-Identifier: Apache-2.0
"""All objects, in memory, under one revision that grows with every write.

Every object carries the revision of its last write. Writers say which revision they saw and are refused if it is
not the latest. What happened lately is kept, so that a watch can begin in the past; what is older is compacted,
and a watch that asks for it is told to list again. Stored objects are never changed in place.

A watcher that does not keep up is cut off once its buffer is full; it slows nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

__all__ = ["Change", "CompactedError", "ConflictError", "FutureError", "Store", "Stored", "Watcher"]

_HISTORY: Final = 20_000
_WATCHER_BUFFER: Final = 5_000
# How many of the last changes keep their JSON even if the object has changed since.
_FRESH: Final = 2_000
_encoder: Final = msgspec.json.Encoder()

Key = tuple[str, str]


class ConflictError(Exception):
    """The object is not at the revision that the writer saw, or is not there at all."""


class CompactedError(Exception):
    """What happened since the revision is no longer known."""


class FutureError(Exception):
    """The revision has not been reached yet."""


class Stored:
    """One object at one revision; its JSON is made once."""

    __slots__ = ("_tail", "obj", "revision")

    def __init__(self, obj: dict[str, Any], revision: int) -> None:
        self.obj = obj
        self.revision = revision
        self._tail: bytes | None = None

    @property
    def tail(self) -> bytes:
        """Gives the JSON after ``kind`` and ``apiVersion``, without the opening brace."""
        if self._tail is None:
            body = {key: value for key, value in self.obj.items() if key not in {"kind", "apiVersion"}}
            self._tail = _encoder.encode(body)[1:]
        return self._tail

    def slim(self) -> None:
        """Lets go of the JSON, which can be made again."""
        self._tail = None


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One write: what the object was and what it is; ``new`` of a deletion is its last state at the new revision."""

    revision: int
    kind: str
    key: Key
    old: Stored | None
    new: Stored
    deleted: bool


class Watcher:
    """The changes of one kind that one client has not read yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self._loop = loop
        self._limit = limit
        self._changes: deque[Change] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self.cut_off = False

    def offer(self, change: Change) -> None:
        """Takes a change; a full buffer ends the watch."""
        if self.cut_off:
            return
        if len(self._changes) >= self._limit:
            self.end()
            return
        self._changes.append(change)
        self._wake()

    def end(self) -> None:
        """Ends the watch: the client is to list again."""
        self.cut_off = True
        self._changes.clear()
        self._wake()

    async def take(self, timeout_s: float) -> list[Change]:
        """Gives what happened since, waiting for something to happen; nothing after the timeout or at the end."""
        if not self._changes and not self.cut_off:
            self._waiting = self._loop.create_future()
            try:
                # What comes at the very moment when time is up counts too: a bookmark would pass over it.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._waiting, timeout_s)
            finally:
                self._waiting = None
        taken = list(self._changes)
        self._changes.clear()
        return taken

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Store:
    """The objects of all kinds.

    Args:
        history: How many changes are kept for watches that begin in the past.
        watcher_buffer: How many changes a watcher may be behind.
    """

    def __init__(self, *, history: int = _HISTORY, watcher_buffer: int = _WATCHER_BUFFER) -> None:
        self.revision = 1
        self.compacted = 0
        self._buffer = watcher_buffer
        self._objects: dict[str, dict[Key, Stored]] = {}
        self._sorted: dict[str, list[Key] | None] = {}
        self._history: deque[Change] = deque(maxlen=history)
        self._watchers: dict[str, set[Watcher]] = {}
        self.listeners: list[Callable[[Change], None]] = []
        self._untold: deque[Change] = deque()
        self._is_telling = False

    def get(self, kind: str, namespace: str, name: str) -> Stored | None:
        """Gives one object."""
        return self._objects.get(kind, {}).get((namespace, name))

    def keys(self, kind: str) -> list[Key]:
        """Gives the keys of a kind in the order of lists: by namespace, then name."""
        known = self._sorted.get(kind)
        if known is None:
            known = self._sorted[kind] = sorted(self._objects.get(kind, {}))
        return known

    def items(self, kind: str, namespace: str = "", after: Key | None = None) -> Iterator[Stored]:
        """Gives the objects of a kind, of one namespace or of all, from a key on."""
        objects = self._objects.get(kind, {})
        keys = self.keys(kind)
        start = bisect_right(keys, after) if after is not None else 0
        if namespace:
            start = max(start, bisect_right(keys, (namespace, "")))
            chosen = itertools.takewhile(lambda key: key[0] == namespace, itertools.islice(keys, start, None))
            return (objects[key] for key in chosen)
        return (objects[key] for key in itertools.islice(keys, start, None))

    def count(self, kind: str) -> int:
        """Tells how many objects of a kind there are."""
        return len(self._objects.get(kind, {}))

    def put(self, kind: str, obj: dict[str, Any], seen: int | None) -> Stored:
        """Writes an object, which now belongs to the store, and gives it with its new revision.

        Args:
            kind: Its storage key.
            obj: The whole object.
            seen: The revision that it was read at; None says that there is none yet.

        Raises:
            ConflictError: it is not at that revision.
        """
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        objects = self._objects.setdefault(kind, {})
        old = objects.get(key)
        if (old.revision if old else None) != seen:
            raise ConflictError
        self.revision += 1
        metadata["resourceVersion"] = str(self.revision)
        new = Stored(obj, self.revision)
        objects[key] = new
        if old is None:
            self._sorted[kind] = None
        self._tell(Change(self.revision, kind, key, old, new, deleted=False))
        return new

    def remove(self, kind: str, namespace: str, name: str, seen: int) -> Stored:
        """Deletes an object and gives its last state, with the revision of the deletion.

        Raises:
            ConflictError: it is not at the revision that the caller saw.
        """
        key = (namespace, name)
        old = self._objects.get(kind, {}).get(key)
        if old is None or old.revision != seen:
            raise ConflictError
        del self._objects[kind][key]
        self._sorted[kind] = None
        self.revision += 1
        last = {**old.obj, "metadata": {**old.obj["metadata"], "resourceVersion": str(self.revision)}}
        new = Stored(last, self.revision)
        self._tell(Change(self.revision, kind, key, old, new, deleted=True))
        return new

    def since(self, kind: str, revision: int) -> list[Change]:
        """Gives what happened to a kind after a revision.

        Raises:
            CompactedError: that is no longer known.
            FutureError: the revision is not reached yet.
        """
        if revision < self.compacted:
            raise CompactedError
        if revision > self.revision:
            raise FutureError
        found = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            if change.kind == kind:
                found.append(change)
        return found[::-1]

    def watch(self, kind: str) -> Watcher:
        """Gives a watcher that hears of every change of a kind from now on; ``unwatch`` it in the end."""
        watcher = Watcher(asyncio.get_running_loop(), self._buffer)
        self._watchers.setdefault(kind, set()).add(watcher)
        return watcher

    def unwatch(self, kind: str, watcher: Watcher) -> None:
        """Forgets a watcher."""
        self._watchers.get(kind, set()).discard(watcher)

    def count_watchers(self, kind: str) -> int:
        """Tells how many watch a kind."""
        return len(self._watchers.get(kind, ()))

    def end_watches(self, kind: str | None = None) -> None:
        """Ends all watches, or those of one kind."""
        for each in [kind] if kind is not None else list(self._watchers):
            for watcher in tuple(self._watchers.get(each, ())):
                watcher.end()

    def compact(self, revision: int) -> None:
        """Forgets what happened up to a revision."""
        self.compacted = max(self.compacted, min(revision, self.revision))
        while self._history and self._history[0].revision <= self.compacted:
            self._history.popleft()

    def dump(self) -> dict[str, Any]:
        """Gives everything that must outlive the process."""
        return {
            "revision": self.revision,
            "objects": {
                kind: [each.obj for each in objects.values()]
                for kind, objects in self._objects.items()
                if objects
            },
        }

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Takes over what was dumped; nothing is known of how it came about."""
        self.revision = max(self.revision, int(dumped["revision"]))
        for kind, objects in dumped["objects"].items():
            for obj in objects:
                metadata = obj["metadata"]
                key = (metadata.get("namespace", ""), metadata["name"])
                self._objects.setdefault(kind, {})[key] = Stored(obj, int(metadata["resourceVersion"]))
            self._sorted[kind] = None
        self.compacted = self.revision
        self._history.clear()

    def replay(self, kind: str, obj: dict[str, Any], *, deleted: bool) -> None:
        """Takes over one logged write."""
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        revision = int(metadata["resourceVersion"])
        if deleted:
            self._objects.get(kind, {}).pop(key, None)
        else:
            self._objects.setdefault(kind, {})[key] = Stored(obj, revision)
        self._sorted[kind] = None
        self.revision = self.compacted = max(self.revision, revision)

    def kinds(self) -> Iterable[str]:
        """Gives the storage keys of which there are objects."""
        return [kind for kind, objects in self._objects.items() if objects]

    def _tell(self, change: Change) -> None:
        if len(self._history) == self._history.maxlen:
            self.compacted = self._history[0].revision
        self._history.append(change)
        if len(self._history) > _FRESH:
            # Who watches has read it by now; it takes as much room as the object itself.
            stale = self._history[-_FRESH]
            if self._objects[stale.kind].get(stale.key) is not stale.new:
                stale.new.slim()
        for watcher in tuple(self._watchers.get(change.kind, ())):
            watcher.offer(change)
        # Last, because a listener may write in its turn; all hear of that after they have heard of this.
        self._untold.append(change)
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._untold:
                next_one = self._untold.popleft()
                for listener in self.listeners:
                    listener(next_one)
        finally:
            self._is_telling = False
