# SPDX-License-Identifier: Apache-2.0
"""What every controller has at hand: the stores, a way to write, a way to tell, the time and the settings.

Writes send the change alone, never a whole object back. One that finds its object gone counts as done; one that meets
a newer object fails, and the controller looks again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.sandbox.apiclient import MERGE, Api, ApiError
from karpenter.sandbox.workloads.caching import Store
from karpenter.sandbox.workloads.recording import Recorder
from karpenter.sandbox.workloads.resources import ALL, POD, Key, Resource, Wire, key_of
from karpenter.sandbox.workloads.settings import Settings

__all__ = ["Care", "Controller", "World"]

_BACKOFF: Final = BackoffPolicy(base_s=0.05, cap_s=30.0, jitter=0.2)
_PODS_A_SECOND: Final = 10_000
_LONGEST_PATIENCE_S: Final = 0.5
_FEW: Final = 50


@dataclass(eq=False)
class World:
    """The cluster as the controllers know it, and their hands."""

    api: Api
    clock: Clock
    settings: Settings
    recorder: Recorder
    tell: Callable[[str], None]
    stores: dict[Resource, Store] = field(default_factory=lambda: {each: Store(each) for each in ALL})

    def store(self, resource: Resource) -> Store:
        """Gives the store of a kind."""
        return self.stores[resource]

    def now(self) -> datetime:
        """Gives the time of day."""
        return self.clock.now()

    async def create(self, resource: Resource, wire: Wire) -> Wire:
        """Creates an object and gives it as the server made it.

        Raises:
            ApiError: The server refused.
        """
        namespace = wire["metadata"].get("namespace", "")
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **wire}
        return self._keep(resource, await self.api.create(resource.path(namespace), body))

    async def patch(
        self, resource: Resource, wire: Mapping[str, Any], change: Mapping[str, Any], part: str = ""
    ) -> Wire | None:
        """Changes an object by a merge patch and gives it; None if it is gone.

        Raises:
            ApiError: The server refused.
        """
        try:
            answer = await self.api.patch(resource.path_of(wire, part), change, kind=MERGE)
        except ApiError as refused:
            if refused.status == 404:
                return None
            raise
        return self._keep(resource, answer)

    async def delete(
        self,
        resource: Resource,
        wire: Mapping[str, Any],
        *,
        grace_s: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Deletes an object, this one and none that has its name since.

        Raises:
            ApiError: The server refused.
        """
        options: Wire = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": wire["metadata"]["uid"]},
        }
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation is not None:
            options["propagationPolicy"] = propagation
        try:
            answer = msgspec.json.decode(await self.api.delete(resource.path_of(wire), options))
        except ApiError as refused:
            if refused.status not in (404, 409):
                raise
            return
        store = self.stores.get(resource)
        if store is None:
            return
        if answer.get("kind") == resource.kind and "deletionTimestamp" in answer["metadata"]:
            store.put(answer)
            gone = not answer["metadata"].get("finalizers") and (
                answer["metadata"].get("deletionGracePeriodSeconds") == 0
            )
            if not gone:
                return
        store.drop(dict(wire))

    def _keep(self, resource: Resource, answer: bytes) -> Wire:
        wire: Wire = msgspec.json.decode(answer)
        store = self.stores.get(resource)
        if store is not None:
            store.put(wire)
        return wire


class Care(ABC):
    """One kind of care: keys that need a look, and what is done about each."""

    name: str = ""
    source: str = ""
    resource: Resource
    workers: int = 8

    def __init__(self, world: World) -> None:
        self.world = world
        self.queue: WorkQueue[Key] = WorkQueue(
            self._look, world.clock, workers=self.workers, backoff=_BACKOFF, on_error=self._failed
        )
        self.subscribe()

    def subscribe(self) -> None:
        """Says which changes make which keys need a look; by default each change of its own kind."""
        self.world.store(self.resource).subscribe(self._changed)

    def event(self, wire: Mapping[str, Any], reason: str, message: str, *, warning: bool = False) -> None:
        """Tells that something happened to an object of this controller's kind."""
        # Objects of a list do not say what they are.
        about = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **wire}
        kind = "Warning" if warning else "Normal"
        self.world.recorder.record(about, reason, message, source=self.source, kind=kind)

    @abstractmethod
    async def _look(self, key: Key) -> float | None:
        """Does what a key needs and gives the seconds after which to look again, or None."""

    def _changed(self, old: Wire | None, new: Wire | None) -> None:
        changed = new or old
        if changed is not None:
            self.queue.add(key_of(changed))

    def _owner_changed(self, old: Wire | None, new: Wire | None) -> None:
        """Makes the owners of a changed object need a look, if they are of this controller's kind."""
        for wire in (old, new):
            for each in (wire or {"metadata": {}})["metadata"].get("ownerReferences") or ():
                if each["kind"] == self.resource.kind and wire is not None:
                    key = (wire["metadata"].get("namespace", ""), each["name"])
                    self.queue.add_after(key, self._patience_s(each["uid"]))

    def _patience_s(self, uid: str) -> float:
        """Gives how long to let changes gather: looking at an owner of thousands after each costs too much."""
        owned = self.world.store(POD).count_owned(uid)
        return min(owned / _PODS_A_SECOND, _LONGEST_PATIENCE_S) if owned > _FEW else 0.0

    def _failed(self, key: Key, error: Exception, delay_s: float) -> None:
        if isinstance(error, ApiError) and error.status == 409:
            return
        self.world.tell(f"{self.name} {'/'.join(filter(None, key))}: {error} (again in {delay_s:.1f} s)")

    def tasks(self) -> list[Callable[[], Awaitable[None]]]:
        """Gives what runs for as long as the controller does."""
        return [self.queue.run]


class Controller(Care):
    """Care for the objects of one kind, each by itself."""

    @abstractmethod
    async def reconcile(self, wire: Wire) -> float | None:
        """Does what an object needs and gives the seconds after which to look again, or None."""

    async def _look(self, key: Key) -> float | None:
        wire = self.world.store(self.resource).get(key)
        if wire is None:
            self.queue.forget(key)
            return None
        return await self.reconcile(wire)
