# SPDX-License-Identifier: Apache-2.0
"""Owners and what they own: dependents go when their last owner is gone, before it, or are let go, as was asked.

All kinds that the server serves are watched, those of custom resources too, for owners and deletion marks alone. An
owner that is not known here is asked for by name before anything is deleted for its sake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

import aiohttp
import msgspec

from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.workqueue import WorkQueue
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.caching import Store, follow
from karpenter.sandbox.workloads.discovery import discover
from karpenter.sandbox.workloads.resources import Key, Resource, Wire, is_deleted, key_of
from karpenter.sandbox.workloads.world import World

__all__ = ["GarbageCollector"]

_Item: TypeAlias = tuple[Resource, Key]

_FOREGROUND: Final = "foregroundDeletion"
_ORPHAN: Final = "orphan"
_BACKOFF: Final = BackoffPolicy(base_s=0.2, cap_s=30.0, jitter=0.2)
_SKIPPED: Final = frozenset({"events", "endpoints", "endpointslices"})
# A new dependent may be seen before its owner is.
_UNKNOWN_OWNER_S: Final = 1.0


class GarbageCollector:
    """Keeps the graph of owners and acts on it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stores: dict[Resource, Store] = {}
        self._uids: dict[str, _Item] = {}
        self._dependents: dict[str, dict[_Item, None]] = {}
        self._following: dict[Resource, asyncio.Task[None]] = {}
        self._queue: WorkQueue[_Item] = WorkQueue(
            self._look, world.clock, workers=8, backoff=_BACKOFF, on_error=self._failed
        )

    @property
    def resources(self) -> list[Resource]:
        """Gives the kinds that are watched."""
        return list(self._stores)

    def tasks(self) -> list[Callable[[], Awaitable[None]]]:
        """Gives what runs for as long as the collector does."""
        return [self._queue.run, self._keep_up]

    async def _keep_up(self) -> None:
        """Follows the kinds that the server serves, as they come and go."""
        try:
            while True:
                try:
                    await self._refresh(await discover(self._world.api))
                except (ApiError, aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as trouble:
                    self._world.tell(f"garbage-collector: cannot learn what is served: {trouble}")
                await self._world.clock.sleep(self._world.settings.discovery_s)
        finally:
            for task in self._following.values():
                task.cancel()

    async def _refresh(self, served: Iterable[Resource]) -> None:
        now = {each for each in served if each.plural not in _SKIPPED}
        for resource in now - self._stores.keys():
            self.add(resource)
        for resource in self._following.keys() - now:
            self._following.pop(resource).cancel()
            self._stores.pop(resource).replace(())

    def add(self, resource: Resource) -> None:
        """Watches a kind from now on; one that is watched anyway is shared."""
        shared = self._world.stores.get(resource)
        store = Store(resource) if shared is None else shared
        self._stores[resource] = store
        store.subscribe(lambda old, new: self._changed(resource, old, new))
        if shared is None:
            following = follow(self._world.api, store, self._world.clock, trim=_trim)
            self._following[resource] = asyncio.create_task(following, name=f"follow {resource.plural}")

    def _changed(self, resource: Resource, old: Wire | None, new: Wire | None) -> None:
        known = new or old
        if known is None:
            return
        item: _Item = (resource, key_of(known))
        if old is not None:
            for each in _owners(old):
                self._dependents.get(each["uid"], {}).pop(item, None)
        if new is None:
            uid = known["metadata"]["uid"]
            self._uids.pop(uid, None)
            for dependent in self._dependents.get(uid, ()):
                self._queue.add(dependent)
            for each in _owners(known):
                self._touch_leaving(each["uid"])
            return
        self._uids[new["metadata"]["uid"]] = item
        for each in _owners(new):
            self._dependents.setdefault(each["uid"], {})[item] = None
            if each["uid"] not in self._uids:
                self._queue.add_after(item, _UNKNOWN_OWNER_S)
            else:
                self._touch_leaving(each["uid"])
        if is_deleted(new) and {_FOREGROUND, _ORPHAN} & _finalizers(new):
            self._queue.add(item)

    def _touch_leaving(self, uid: str) -> None:
        item = self._uids.get(uid)
        owner = None if item is None else self._get(item)
        if item is not None and owner is not None and is_deleted(owner):
            self._queue.add(item)

    def _get(self, item: _Item) -> Wire | None:
        store = self._stores.get(item[0])
        return None if store is None else store.get(item[1])

    async def _look(self, item: _Item) -> float | None:
        wire = self._get(item)
        if wire is None:
            self._queue.forget(item)
            return None
        if is_deleted(wire):
            if _ORPHAN in _finalizers(wire):
                await self._orphan(item, wire)
                return None
            if _FOREGROUND in _finalizers(wire):
                await self._delete_dependents_first(item, wire)
                return None
            return None
        return await self._judge(item, wire)

    async def _orphan(self, item: _Item, wire: Wire) -> None:
        uid = wire["metadata"]["uid"]
        for resource, key in list(self._dependents.get(uid, ())):
            dependent = self._get((resource, key))
            if dependent is not None:
                kept = [each for each in _owners(dependent) if each["uid"] != uid]
                await self._set_owners(resource, dependent, kept)
        await self._drop_finalizer(item[0], wire, _ORPHAN)

    async def _delete_dependents_first(self, item: _Item, wire: Wire) -> None:
        uid = wire["metadata"]["uid"]
        blocking = False
        for dependent in list(self._dependents.get(uid, ())):
            found = self._get(dependent)
            if found is None:
                continue
            if any(each["uid"] == uid and each.get("blockOwnerDeletion") for each in _owners(found)):
                blocking = True
            if not is_deleted(found):
                self._queue.add(dependent)
        if not blocking:
            await self._drop_finalizer(item[0], wire, _FOREGROUND)

    async def _judge(self, item: _Item, wire: Wire) -> float | None:
        """Deletes an object without an owner left, or takes owners off it that are gone."""
        solid, gone, waiting = [], [], []
        for owner in _owners(wire):
            found = await self._owner(owner, wire)
            if found is None:
                gone.append(owner)
            elif is_deleted(found) and _FOREGROUND in _finalizers(found) and owner.get("blockOwnerDeletion"):
                waiting.append(owner)
            else:
                solid.append(owner)
        if not gone and not waiting:
            return None
        if solid:
            await self._set_owners(item[0], wire, solid)
            return None
        finalizers = _finalizers(wire)
        policy = "Background"
        if _ORPHAN in finalizers:
            policy = "Orphan"
        elif _FOREGROUND in finalizers or (waiting and self._dependents.get(wire["metadata"]["uid"])):
            policy = "Foreground"
        await self._world.delete(item[0], wire, propagation=policy)
        return None

    async def _owner(self, reference: Wire, dependent: Wire) -> Wire | None:
        """Gives an owner, asking the server where it is not known; None only when it is certainly gone."""
        known = self._uids.get(reference["uid"])
        if known is not None:
            return self._get(known)
        group, _, _version = reference["apiVersion"].rpartition("/")
        resource = next(
            (each for each in self._stores if each.kind == reference["kind"] and each.group == group), None
        )
        if resource is None:
            raise ApiError(
                f"no such kind: {reference['apiVersion']} {reference['kind']}", status=404, reason="NotFound"
            )
        namespace = dependent["metadata"].get("namespace", "")
        try:
            found: Wire = msgspec.json.decode(
                await self._world.api.get(resource.path(namespace, reference["name"]))
            )
        except ApiError as refused:
            if refused.status == 404:
                return None
            raise
        return found if found["metadata"]["uid"] == reference["uid"] else None

    async def _set_owners(self, resource: Resource, wire: Wire, owners: list[Wire]) -> None:
        metadata = {
            "uid": wire["metadata"]["uid"],
            "resourceVersion": wire["metadata"]["resourceVersion"],
            "ownerReferences": owners,
        }
        await self._write(resource, wire, {"metadata": metadata})

    async def _drop_finalizer(self, resource: Resource, wire: Wire, name: str) -> None:
        kept = [each for each in wire["metadata"].get("finalizers") or () if each != name]
        metadata = {"resourceVersion": wire["metadata"]["resourceVersion"], "finalizers": kept}
        await self._write(resource, wire, {"metadata": metadata})

    async def _write(self, resource: Resource, wire: Wire, change: Wire) -> None:
        answer = await self._world.patch(resource, wire, change)
        store = self._stores[resource]
        if answer is None:
            return
        finished = is_deleted(answer) and not answer["metadata"].get("finalizers")
        if finished and answer["metadata"].get("deletionGracePeriodSeconds", 0) == 0:
            store.drop(answer)
        elif resource not in self._world.stores:
            store.put(_trim(answer))

    def _failed(self, item: _Item, error: Exception, delay_s: float) -> None:
        if isinstance(error, ApiError) and error.status in (404, 409):
            return
        name = "/".join(filter(None, item[1]))
        self._world.tell(f"garbage-collector {item[0].plural} {name}: {error} (again in {delay_s:.1f} s)")


def _owners(wire: Wire) -> list[Wire]:
    return list(wire["metadata"].get("ownerReferences") or ())


def _finalizers(wire: Wire) -> set[str]:
    return set(wire["metadata"].get("finalizers") or ())


def _trim(wire: Wire) -> Wire:
    metadata: Any = wire["metadata"]
    kept = (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "ownerReferences",
        "finalizers",
        "deletionTimestamp",
    )
    return {"metadata": {name: metadata[name] for name in kept if name in metadata}}
