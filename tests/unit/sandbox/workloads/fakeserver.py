# SPDX-License-Identifier: Apache-2.0
"""An API server in memory, as far as controllers lean on one: versions, uids, merge patches, deletion, watches."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Self

import msgspec

from karpenter.kit.clock import FakeClock
from karpenter.sandbox.apiclient import ApiError, Connection
from karpenter.sandbox.workloads.caching import follow
from karpenter.sandbox.workloads.client import Client
from karpenter.sandbox.workloads.manager import _index
from karpenter.sandbox.workloads.recording import Recorder
from karpenter.sandbox.workloads.resources import POD, Resource, Wire, key_of, stamp
from karpenter.sandbox.workloads.settings import Settings
from karpenter.sandbox.workloads.world import World

__all__ = ["FakeServer", "Stage"]


class FakeServer(Client):
    """The server, spoken to as to a real one."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Connection("http://fake"))
        self.clock = clock
        self.objects: dict[str, Wire] = {}
        self.events: list[Wire] = []
        self.refuse: dict[str, ApiError] = {}
        self.served: dict[str, Any] = {"/apis": {"groups": []}, "/version": {"minor": "33"}}
        self._version = itertools.count(1)
        self._watchers: list[tuple[str, asyncio.Queue[bytes]]] = []

    def __repr__(self) -> str:
        return f"FakeServer({len(self.objects)} objects)"

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        del query
        if path in self.served:
            return msgspec.json.encode(self.served[path])
        if path in self.objects:
            return msgspec.json.encode(self.objects[path])
        if len(path.partition("/namespaces/")[2].split("/")) == 3:
            raise ApiError(f"{path} not found", status=404, reason="NotFound")
        return msgspec.json.encode(self._list(path))

    async def pages(self, path: str) -> AsyncIterator[bytes]:
        yield msgspec.json.encode(self._list(path))

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[bytes]:
        del resource_version
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watchers.append((path, queue))
        while True:
            yield await queue.get()

    async def create(self, path: str, document: Mapping[str, Any]) -> bytes:
        wire: Wire = msgspec.json.decode(msgspec.json.encode(document))
        if path.endswith("/events"):
            self.events.append(wire)
            return msgspec.json.encode(wire)
        if path.endswith("/binding"):
            return self._bind(path.removesuffix("/binding"), wire["target"]["name"])
        self._maybe_refuse(path)
        number = next(self._version)
        metadata = wire["metadata"]
        if "name" not in metadata:
            metadata["name"] = f"{metadata['generateName']}{number:05d}"
        full = f"{path}/{metadata['name']}"
        if full in self.objects:
            raise ApiError(f"{full} already exists", status=409, reason="AlreadyExists")
        metadata |= {
            "uid": f"uid-{number}",
            "creationTimestamp": stamp(self.clock.now()),
            "generation": 1,
            "resourceVersion": str(number),
        }
        return self._set("ADDED", full, wire)

    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str = "") -> bytes:
        del kind
        full = path.removesuffix("/status")
        self._maybe_refuse(path)
        if full not in self.objects:
            raise ApiError(f"{full} not found", status=404, reason="NotFound")
        old = self.objects[full]
        said = change.get("metadata") or {}
        for field in ("uid", "resourceVersion"):
            if field in said and said[field] != old["metadata"][field]:
                raise ApiError(f"{full}: conflict on {field}", status=409, reason="Conflict")
        new = _merge(old, change)
        new["metadata"]["resourceVersion"] = str(next(self._version))
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers"):
            self._remove(full, new)
            return msgspec.json.encode(new)
        return self._set("MODIFIED", full, new)

    async def patch_once(self, path: str, change: Mapping[str, Any]) -> bytes:
        if "/events/" in path:
            return b"{}"
        return await self.patch(path, change)

    async def put(self, path: str, document: Mapping[str, Any]) -> bytes:
        full = path.removesuffix("/finalize")
        wire = self.objects[full]
        if not document["spec"]["finalizers"]:
            self._remove(full, wire)
        return msgspec.json.encode(wire)

    async def delete(self, path: str, options: Mapping[str, Any]) -> bytes:
        self._maybe_refuse(path)
        if path not in self.objects:
            raise ApiError(f"{path} not found", status=404, reason="NotFound")
        wire: Wire = msgspec.json.decode(msgspec.json.encode(self.objects[path]))
        metadata = wire["metadata"]
        policy = options.get("propagationPolicy")
        mark = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(policy or "")
        if mark:
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), mark]
        bound = "/pods/" in path and wire["spec"].get("nodeName")
        graceful = bound and options.get("gracePeriodSeconds") != 0
        if metadata.get("finalizers") or graceful or wire.get("spec", {}).get("finalizers"):
            metadata["deletionTimestamp"] = stamp(self.clock.now())
            metadata["deletionGracePeriodSeconds"] = 30 if graceful else 0
            metadata["resourceVersion"] = str(next(self._version))
            return self._set("MODIFIED", path, wire)
        self._remove(path, wire)
        return msgspec.json.encode({"kind": "Status", "status": "Success"})

    def _bind(self, path: str, node: str) -> bytes:
        wire = _merge(self.objects[path], {"spec": {"nodeName": node}})
        wire["metadata"]["resourceVersion"] = str(next(self._version))
        return self._set("MODIFIED", path, wire)

    def _maybe_refuse(self, path: str) -> None:
        for part, error in self.refuse.items():
            if part in path:
                raise error

    def _set(self, kind: str, path: str, wire: Wire) -> bytes:
        self.objects[path] = wire
        self._tell(kind, path, wire)
        return msgspec.json.encode(wire)

    def _remove(self, path: str, wire: Wire) -> None:
        del self.objects[path]
        wire["metadata"]["resourceVersion"] = str(next(self._version))
        self._tell("DELETED", path, wire)

    def _tell(self, kind: str, path: str, wire: Wire) -> None:
        line = msgspec.json.encode({"type": kind, "object": wire})
        for watched, queue in self._watchers:
            if _is_under(path, watched):
                queue.put_nowait(line)

    def _list(self, path: str) -> Wire:
        items = [wire for full, wire in self.objects.items() if _is_under(full, path)]
        return {"metadata": {"resourceVersion": str(next(self._version))}, "items": items}


class Stage:
    """A cluster in memory with chosen controllers at work, in faked time."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.clock = FakeClock(datetime.fromisoformat("2026-01-01T00:00:00+00:00"))
        self.server = FakeServer(self.clock)
        self.said: list[str] = []
        recorder = Recorder(self.server, self.clock)
        self.world = World(self.server, self.clock, settings or Settings(), recorder, self.said.append)
        _index(self.world)
        self._tasks = [asyncio.create_task(recorder.run())]
        self._tasks += [
            asyncio.create_task(follow(self.server, store, self.clock))
            for store in self.world.stores.values()
        ]

    async def __aenter__(self) -> Self:
        await self.clock.settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def play(self, *parts: Any) -> None:
        """Starts controllers."""
        self._tasks += [asyncio.create_task(task()) for part in parts for task in part.tasks()]

    async def make(self, resource: Resource, wire: Wire) -> Wire:
        """Creates an object and lets everybody react."""
        if resource.namespaced:
            wire["metadata"].setdefault("namespace", "default")
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **wire}
        made: Wire = msgspec.json.decode(
            await self.server.create(resource.path(wire["metadata"].get("namespace", "")), body)
        )
        await self.settle()
        return made

    async def change(self, resource: Resource, name: str, change: Wire, part: str = "") -> Wire:
        """Changes an object and lets everybody react."""
        path = resource.path("default" if resource.namespaced else "", name, part)
        made: Wire = msgspec.json.decode(await self.server.patch(path, change))
        await self.settle()
        return made

    async def remove(self, resource: Resource, name: str, **options: Any) -> None:
        """Deletes an object and lets everybody react."""
        await self.server.delete(resource.path("default" if resource.namespaced else "", name), options)
        await self.settle()

    async def settle(self) -> None:
        """Lets everybody act until nothing moves, without letting time pass."""
        for _ in range(12):
            before = len(self.server.objects), next(self.server._version)
            await self.clock.settle()
            if (len(self.server.objects), before[1] + 1) == (before[0], next(self.server._version)):
                return

    async def pass_time(self, seconds: float) -> None:
        """Lets time pass."""
        await self.clock.advance(seconds)
        await self.settle()

    def all(self, resource: Resource) -> list[Wire]:
        """Gives the objects of a kind, by name."""
        found = self.server._list(resource.path())["items"]
        return sorted(found, key=key_of)

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Wire:
        """Gives an object."""
        return self.server.objects[resource.path(namespace if resource.namespaced else "", name)]

    async def run_pods(self, phase: str = "Running", node: str = "n0", *, only: str = "") -> None:
        """Does what a scheduler and kubelets do: pods that have not run yet do so, deleted ones end."""
        for pod in self.all(POD):
            path = POD.path_of(pod)
            if only and only not in path:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                if not pod["metadata"].get("finalizers"):
                    self.server._remove(path, pod)
            elif (pod.get("status") or {}).get("phase") in (None, "Pending"):
                ready = {
                    "type": "Ready",
                    "status": "True" if phase == "Running" else "False",
                    "lastTransitionTime": stamp(self.clock.now()),
                }
                spec = {} if pod["spec"].get("nodeName") else {"spec": {"nodeName": node}}
                await self.server.patch(path, {**spec, "status": {"phase": phase, "conditions": [ready]}})
        await self.settle()

    async def run_until_calm(self, rounds: int = 20) -> None:
        """Runs pods until no new ones come."""
        for _ in range(rounds):
            before = {each["metadata"]["uid"] for each in self.all(POD)}
            await self.run_pods()
            await self.pass_time(0.1)
            if {each["metadata"]["uid"] for each in self.all(POD)} == before:
                return

    def reasons(self, name: str = "") -> list[str]:
        """Gives the reasons of events, about one object if it is named."""
        return [each["reason"] for each in self.server.events if name in ("", each["involvedObject"]["name"])]


def _merge(old: Any, change: Any) -> Any:
    if not isinstance(change, Mapping) or not isinstance(old, Mapping):
        return msgspec.json.decode(msgspec.json.encode(change))
    merged = {key: value for key, value in old.items() if change.get(key, value) is not None}
    for key, value in change.items():
        if value is not None:
            merged[key] = _merge(old.get(key, {} if isinstance(value, Mapping) else None), value)
    return merged


def _is_under(path: str, root: str) -> bool:
    """Tells whether an object's path belongs to a list's; lists of all namespaces have all."""
    if path.startswith(f"{root}/") and "/" not in path[len(root) + 1 :]:
        return True
    head, _, plural = root.rpartition("/")
    parts = path.split("/")
    return path.startswith(f"{head}/namespaces/") and len(parts) >= 2 and parts[-2] == plural
