# SPDX-License-Identifier: Apache-2.0
"""A copy of one kind of object that follows the API server: list once, then watch.

The copy heals itself. A watch that ends is reopened at the version where it stopped; when the server no longer
remembers that far back (410), refuses or falls silent, everything is listed again and compared, so that a missed
event or deletion comes to light as an ordinary change. A watch that ends soon after it began, in whatever way, is
reopened with backoff. Handlers hear of each change once, with the object before and after; a handler that fails is
reported and stops nothing.

What the copy is worth is known. `heard_at` is when the server last proved that nothing is missing: by a list, an event,
a bookmark, or the end of a watch that was asked for. After that the copy may lag, and after `STALE_S` it is stale. An
object that does not decode is kept as it was read last, and named in `unreadable` until it decodes or is gone.

Our own writes are seen at once: whoever wrote passes the server's answer to `observe`, and events from before
that write no longer count. Resource versions are compared as numbers, as Kubernetes promises since 1.35 and
has always held in fact; where they are not numbers the latest that came wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from karpenter.api.base import Frozen
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock, SystemClock
from karpenter.kube.client import Client
from karpenter.kube.decoding import Undecodable, Watched
from karpenter.kube.errors import GoneError, KubeError, SilentWatchError, UnreachableError
from karpenter.kube.kinds import Kind, metadata_of

__all__ = ["STALE_S", "Change", "Informer", "Key"]

T = TypeVar("T", bound=Frozen)

# Namespace and name.
Key: TypeAlias = tuple[str, str]

# Short at the top: a server that is back after an outage is followed again within seconds.
_BACKOFF: Final = BackoffPolicy(base_s=0.5, cap_s=5.0, jitter=0.3)
# A watch that lasted so long was a good one, whatever its end.
_GOOD_WATCH_S: Final = 5.0
# Longer than a watch may be silent, and the list after it.
STALE_S: Final = 70.0
_RESUMED_S: Final = 15.0
_NOTHING: Final[Mapping[Key, None]] = {}
# How many deleted objects we remember, so that a late answer to an older write does not raise one from the dead.
_TOMBSTONES: Final = 4096


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What became of an object: appeared (no old), changed, or went (no new)."""

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The object as it is now, or as it was last."""
        found = self.new if self.new is not None else self.old
        if found is None:
            raise ValueError("a change of nothing")
        return found


class Informer(Generic[T]):
    """Holds all objects of one kind that a selector allows, with indexes.

    Args:
        client: Who asks the server.
        kind: What is held.
        namespace: Only this one; all if empty.
        labels: Only what this label selector allows.
        fields: Only what this field selector allows.
        indexes: For each name, the values under which an object is found by `by`.
        resync_s: How often every object is handed to the handlers again, unchanged; None for never.
        on_error: Hears of each failed list, watch or handler.
    """

    def __init__(  # noqa: PLR0913 - what a selection of objects is
        self,
        client: Client,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        resync_s: float | None = None,
        on_error: Callable[[Exception], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.kind = kind
        self._client = client
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._indexers = dict(indexes or {})
        self._resync_s = resync_s
        self._on_error = on_error
        self._clock = clock or SystemClock()
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._indexers}
        self._deleted: dict[Key, int] = {}
        self._handlers: list[Callable[[Change[T]], None]] = []
        self._synced = asyncio.Event()
        self._version = ""
        self._silence = ""
        # When the server last proved that nothing is missing, by the monotonic clock; None before the first list.
        self.heard_at: float | None = None
        # Objects that are on the server and do not decode.
        self.unreadable: dict[Key, Undecodable] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def get(self, name: str, namespace: str = "") -> T | None:
        """Gives the object as we know it, or None."""
        return self._objects.get((namespace, name))

    def by(self, index: str, value: str) -> tuple[T, ...]:
        """Gives the objects that an index holds under a value, in the order they came."""
        return tuple(self._objects[key] for key in self._indexes[index].get(value, _NOTHING))

    @property
    def is_synced(self) -> bool:
        """Tells whether the first list has come in."""
        return self._synced.is_set()

    @property
    def heard_ago_s(self) -> float:
        """The seconds since the server last proved that nothing is missing; none before the first list."""
        return 0.0 if self.heard_at is None else self._clock.monotonic() - self.heard_at

    @property
    def staleness(self) -> str:
        """Says why the copy cannot be relied on; empty if it can, or if nothing has been listed yet."""
        if self._silence:
            return self._silence
        if self.heard_ago_s > STALE_S:
            return f"nothing was heard of {self.kind.plural} for {self.heard_ago_s:.0f} s"
        return ""

    async def wait_synced(self) -> None:
        """Waits for the first list."""
        await self._synced.wait()

    def on_change(self, handler: Callable[[Change[T]], None]) -> None:
        """Adds a handler; it hears at once of every object that is here already."""
        self._handlers.append(handler)
        for item in self:
            self._tell(handler, Change(None, item))

    def observe(self, item: T) -> None:
        """Takes in the server's answer to a write of ours, unless we know something newer."""
        self._put(item)

    def observe_gone(self, item: T) -> None:
        """Takes in that an object is gone, as the answer to a read or a delete said."""
        self._remove(_key(item), _number(metadata_of(item).resource_version))

    async def run(self) -> None:
        """Follows the server until cancelled."""
        failures = 0
        resync = asyncio.ensure_future(self._resync()) if self._resync_s else None
        self._version = ""
        try:
            while True:
                began_at = self._clock.monotonic()
                ended_well = await self._follow_once()
                if self._clock.monotonic() - began_at >= _GOOD_WATCH_S:
                    failures = 0
                    if ended_well:
                        continue
                failures += 1
                await self._clock.sleep(_BACKOFF.delay_s(failures, self.kind.plural))
        finally:
            if resync is not None:
                resync.cancel()

    async def _follow_once(self) -> bool:
        """Lists if that is needed, watches once, and tells whether the watch came to the end that was asked for."""
        try:
            if not self._version:
                await self._relist()
            await self._watch()
        except GoneError:
            self._version = ""
        except KubeError as error:
            self._report(error)
            if isinstance(error, SilentWatchError):
                self._silence = error.message
            # A connection that broke is taken up where it broke; all else may have lost something. And when the next
            # watch could last until the copy is stale, a list proves sooner that nothing is missing.
            is_broken = isinstance(error, UnreachableError) and not isinstance(error, SilentWatchError)
            if not is_broken or self.heard_ago_s > _RESUMED_S:
                self._version = ""
        else:
            return True
        return False

    async def _relist(self) -> None:
        listing = await self._client.list(
            self.kind, self._namespace, labels=self._labels, fields=self._fields
        )
        self.heard_at = self._clock.monotonic()
        version = _number(listing.resource_version)
        self.unreadable = {(each.namespace, each.name): each for each in listing.unreadable}
        present = {*map(_key, listing.items), *self.unreadable}
        for item in listing.items:
            self._put(item)
        for key in [key for key in self._objects if key not in present]:
            known = _number(metadata_of(self._objects[key]).resource_version)
            # What we observed after the list was made is newer than the list.
            if known <= version or not version:
                self._remove(key, version)
        self._version = listing.resource_version
        self._deleted = {key: at for key, at in self._deleted.items() if at > version}
        self._synced.set()

    async def _watch(self) -> None:
        watch = self._client.watch(
            self.kind, self._version, self._namespace, labels=self._labels, fields=self._fields
        )
        async for event in watch:
            self._heard()
            self._version = event.resource_version or self._version
            self._take(event)
        self._heard()

    def _heard(self) -> None:
        self.heard_at = self._clock.monotonic()
        self._silence = ""

    def _take(self, event: Watched[T]) -> None:
        if event.unreadable is not None:
            self._take_unreadable(event, event.unreadable)
        if event.object is None:
            return
        if event.type == "DELETED":
            self.unreadable.pop(_key(event.object), None)
            self._remove(_key(event.object), _number(event.resource_version), event.object)
        else:
            self._put(event.object)

    def _take_unreadable(self, event: Watched[T], item: Undecodable) -> None:
        key = item.namespace, item.name
        if event.type == "DELETED":
            self.unreadable.pop(key, None)
            self._remove(key, _number(event.resource_version))
        else:
            self.unreadable[key] = item

    def _put(self, item: T) -> None:
        key = _key(item)
        version = _number(metadata_of(item).resource_version)
        old = self._objects.get(key)
        if version and version <= self._deleted.get(key, 0):
            return
        if old is not None:
            known = _number(metadata_of(old).resource_version)
            if version and version <= known:
                return
            self._unindex(key, old)
        held = self.unreadable.get(key)
        if held is not None and version >= _number(held.resource_version):
            del self.unreadable[key]
        self._objects[key] = item
        for name, indexer in self._indexers.items():
            for value in indexer(item):
                self._indexes[name].setdefault(value, {})[key] = None
        self._tell_all(Change(old, item))

    def _remove(self, key: Key, version: int, last: T | None = None) -> None:
        old = self._objects.get(key)
        if old is None:
            return
        if version and version < _number(metadata_of(old).resource_version):
            return
        del self._objects[key]
        self._deleted[key] = version
        if len(self._deleted) > _TOMBSTONES:
            del self._deleted[next(iter(self._deleted))]
        self._unindex(key, old)
        self._tell_all(Change(last if last is not None else old, None))

    def _unindex(self, key: Key, item: T) -> None:
        for name, indexer in self._indexers.items():
            for value in indexer(item):
                held = self._indexes[name].get(value)
                if held is not None:
                    held.pop(key, None)
                    if not held:
                        del self._indexes[name][value]

    async def _resync(self) -> None:
        while True:
            await self._clock.sleep(self._resync_s or 0)
            for item in self:
                self._tell_all(Change(item, item))

    def _tell_all(self, change: Change[T]) -> None:
        for handler in self._handlers:
            self._tell(handler, change)

    def _tell(self, handler: Callable[[Change[T]], None], change: Change[T]) -> None:
        try:
            handler(change)
        except Exception as error:  # noqa: BLE001 - one handler's fault must not stop the watch for all
            self._report(error)

    def _report(self, error: Exception) -> None:
        if self._on_error is not None:
            self._on_error(error)


def _key(item: Frozen) -> Key:
    metadata = metadata_of(item)
    return metadata.namespace, metadata.name


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
