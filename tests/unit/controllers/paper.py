# SPDX-License-Identifier: Apache-2.0
"""An API server on paper, without HTTP: objects by kind, merge patches, versions, finalizers, evictions.

It stands in for the client in tests of controllers. What it stores it also tells the informers, as a watch would.
Every write is kept in `calls`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from karpenter.api.base import Frozen, to_wire
from karpenter.api.core import Pod
from karpenter.kit.clock import FakeClock
from karpenter.kube import Client, ClusterConfig, ConflictError, Kind, Listing, NotFoundError, Undecodable
from karpenter.kube.errors import AlreadyExistsError, TooManyRequestsError
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS, Cluster, Informers


@dataclass(frozen=True)
class Call:
    """One write."""

    verb: str
    plural: str
    name: str
    body: Any
    subresource: str = ""


class PaperClient(Client):
    """Keeps objects in memory and answers as an API server would."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        super().__init__(ClusterConfig(server="http://paper"), clock=clock or FakeClock())
        self.calls: list[Call] = []
        self.failures: dict[tuple[str, str], list[Exception]] = {}
        self.blocked_by_budget: set[str] = set()
        self.informers: Informers | None = None
        self._objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
        self._version = 1000
        self._names = 0

    def fail(self, verb: str, plural: str, *errors: Exception) -> None:
        """Let the next writes of a kind fail."""
        self.failures.setdefault((verb, plural), []).extend(errors)

    def store(self, kind: Kind[Any], item: Frozen | Mapping[str, Any]) -> Any:
        """Put an object in place, as somebody else would, and tell the informers."""
        raw = dict(to_wire(item)) if isinstance(item, Frozen) else copy.deepcopy(dict(item))
        raw = {"apiVersion": kind.api_version, "kind": kind.name, **raw}
        return self._keep(kind, raw)

    def raw_object(self, kind: Kind[Any], name: str, namespace: str = "") -> dict[str, Any] | None:
        """The object as it is stored."""
        return self._objects.get(kind.plural, {}).get((namespace, name))

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        """Read one object."""
        self._maybe_fail("GET", kind)
        return self._decoded(kind, self._found(kind, namespace, name))

    async def list(self, kind: Kind[Any], namespace: str = "", *, fields: str = "", **_: Any) -> Listing[Any]:
        """Read all objects of a kind that a field selector of one term allows."""
        self._maybe_fail("list", kind)
        items: list[Any] = []
        unreadable: list[Undecodable] = []
        for (space, _name), each in self._objects.get(kind.plural, {}).items():
            if (namespace and space != namespace) or not _selected(each, fields):
                continue
            found = self._readable(kind, each)
            (unreadable if isinstance(found, Undecodable) else items).append(found)
        return Listing(tuple(items), str(self._version), tuple(unreadable))

    async def create(self, kind: Kind[Any], manifest: Mapping[str, Any], namespace: str = "") -> Any:
        """Store a new object."""
        raw = {"apiVersion": kind.api_version, "kind": kind.name, **copy.deepcopy(dict(manifest))}
        metadata = raw["metadata"]
        self.calls.append(Call("create", kind.plural, metadata.get("name", ""), manifest))
        self._maybe_fail("create", kind)
        if "name" not in metadata:
            self._names += 1
            metadata["name"] = f"{metadata['generateName']}{self._names:05d}"
        if namespace:
            metadata["namespace"] = namespace
        if (namespace, metadata["name"]) in self._objects.get(kind.plural, {}):
            raise AlreadyExistsError("already exists", status=409, reason="AlreadyExists")
        metadata["uid"] = f"uid-{metadata['name']}"
        metadata.setdefault("creationTimestamp", self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        metadata["generation"] = 1
        return self._keep(kind, raw)

    async def patch(
        self,
        kind: Kind[Any],
        name: str,
        change: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        how: str = "",
    ) -> Any:
        """Merge a patch of the product into an object."""
        del how
        assert not _has_list(change) or "resourceVersion" in change.get("metadata", {}), (
            f"{kind.plural} {name}: a patch replaces a list and does not carry the version that it was decided on"
        )
        return await self.edit(kind, name, change, namespace, subresource=subresource)

    async def edit(
        self, kind: Kind[Any], name: str, change: Any, namespace: str = "", *, subresource: str = ""
    ) -> Any:
        """Merge a patch into an object, as others do who do not care for versions."""
        self.calls.append(Call("patch", kind.plural, name, change, subresource))
        self._maybe_fail("patch", kind)
        raw = self._found(kind, namespace, name)
        wanted = change.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != raw["metadata"]["resourceVersion"]:
            raise ConflictError("the object has been modified", status=409, reason="Conflict")
        uid = change.get("metadata", {}).get("uid")
        if uid is not None and uid != raw["metadata"].get("uid"):
            raise ConflictError("another uid", status=409, reason="Conflict")
        merged = copy.deepcopy(raw)
        _merge(merged, change if subresource != "status" else {"status": change.get("status", {})})
        if merged.get("spec") != raw.get("spec"):
            merged["metadata"]["generation"] = merged["metadata"].get("generation", 0) + 1
        if merged["metadata"].get("deletionTimestamp") and not merged["metadata"].get("finalizers"):
            self._drop(kind, merged)
            return self._decoded(kind, merged)
        if merged == raw:
            return self._decoded(kind, raw)
        return self._keep(kind, merged)

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
        propagation: str = "",
    ) -> None:
        """Delete an object, or mark it if finalizers hold it."""
        del propagation
        self.calls.append(Call("delete", kind.plural, name, {"gracePeriodSeconds": grace_period_s}))
        self._maybe_fail("delete", kind)
        raw = copy.deepcopy(self._found(kind, namespace, name))
        if uid and uid != raw["metadata"].get("uid"):
            raise ConflictError("another uid", status=409, reason="Conflict")
        if raw["metadata"].get("finalizers"):
            if not raw["metadata"].get("deletionTimestamp"):
                raw["metadata"]["deletionTimestamp"] = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                self._keep(kind, raw)
            return
        self._drop(kind, raw)

    async def evict(self, pod: Pod, *, grace_period_s: int | None = None) -> None:
        """Delete a pod unless a budget forbids it."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        self.calls.append(Call("evict", "pods", name, {"gracePeriodSeconds": grace_period_s}))
        self._maybe_fail("evict", PODS)
        raw = self._found(PODS, namespace, name)
        if pod.metadata.uid != raw["metadata"].get("uid"):
            raise ConflictError("another uid", status=409, reason="Conflict")
        if name in self.blocked_by_budget:
            raise TooManyRequestsError(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                status=429,
                causes=({"reason": "DisruptionBudget"},),
            )
        self._drop(PODS, raw)

    async def bind(self, pod: Pod, node: str) -> None:
        """Put a pod on a node, unless it has one."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        self.calls.append(Call("bind", "pods", name, node))
        self._maybe_fail("bind", PODS)
        raw = copy.deepcopy(self._found(PODS, namespace, name))
        if raw["spec"].get("nodeName"):
            raise ConflictError("pod is already assigned", status=409, reason="Conflict")
        raw["spec"]["nodeName"] = node
        self._keep(PODS, raw)

    def writes(self, verb: str = "", plural: str = "") -> tuple[Call, ...]:
        """The writes of a kind, in order."""
        return tuple(
            each
            for each in self.calls
            if (not verb or each.verb == verb) and (not plural or each.plural == plural)
        )

    def _maybe_fail(self, verb: str, kind: Kind[Any]) -> None:
        waiting = self.failures.get((verb, kind.plural))
        if waiting:
            raise waiting.pop(0)

    def _found(self, kind: Kind[Any], namespace: str, name: str) -> dict[str, Any]:
        raw = self.raw_object(kind, name, namespace)
        if raw is None:
            raise NotFoundError(f"{kind.plural} {name} not found", status=404, reason="NotFound")
        return raw

    def _keep(self, kind: Kind[Any], raw: dict[str, Any]) -> Any:
        self._version += 1
        metadata = raw.setdefault("metadata", {})
        metadata["resourceVersion"] = str(self._version)
        self._objects.setdefault(kind.plural, {})[metadata.get("namespace", ""), metadata["name"]] = raw
        informer = self._informer(kind)
        if informer is not None:
            found = self._readable(informer.kind, raw)
            if isinstance(found, Undecodable):
                informer.unreadable[found.namespace, found.name] = found
            else:
                informer.observe(found)
        return self._readable(kind, raw)

    def _drop(self, kind: Kind[Any], raw: dict[str, Any]) -> None:
        self._version += 1
        metadata = raw["metadata"]
        self._objects[kind.plural].pop((metadata.get("namespace", ""), metadata["name"]), None)
        informer = self._informer(kind)
        if informer is not None:
            gone = copy.deepcopy(raw)
            gone["metadata"]["resourceVersion"] = str(self._version)
            informer.observe_gone(self._decoded(informer.kind, gone))

    def _informer(self, kind: Kind[Any]) -> Any:
        if self.informers is None:
            return None
        return next((each for each in self.informers.all if each.kind.plural == kind.plural), None)

    def _readable(self, kind: Kind[Any], raw: Mapping[str, Any]) -> Any:
        try:
            return self._decoded(kind, raw)
        except msgspec.ValidationError as error:
            metadata = raw["metadata"]
            return Undecodable(
                kind.name,
                metadata.get("namespace", ""),
                metadata["name"],
                str(error),
                kind.api_version,
                metadata.get("uid", ""),
                metadata["resourceVersion"],
                raw,
            )

    def _decoded(self, kind: Kind[Any], raw: Mapping[str, Any]) -> Any:
        return msgspec.convert(copy.deepcopy(dict(raw)), kind.struct, strict=False)


def paper_cluster(clock: FakeClock | None = None) -> tuple[PaperClient, Cluster]:
    """An empty API server on paper and the cluster picture that follows it."""
    clock = clock or FakeClock()
    client = PaperClient(clock)
    informers = Informers.of(client, clock=clock)
    client.informers = informers
    return client, Cluster(informers, clock=clock)


KINDS = {
    "NodePool": STORED_NODE_POOLS,
    "EC2NodeClass": STORED_NODE_CLASSES,
    "NodeClaim": NODE_CLAIMS,
    "Node": NODES,
    "Pod": PODS,
}


def _has_list(change: Any) -> bool:
    if isinstance(change, Mapping):
        return any(map(_has_list, change.values()))
    return isinstance(change, list | tuple)


def _selected(raw: Mapping[str, Any], fields: str) -> bool:
    if not fields:
        return True
    path, _, wanted = fields.partition("=")
    found: Any = raw
    for key in path.split("."):
        found = (found or {}).get(key)
    return (found or "") == wanted


def _merge(target: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        elif isinstance(value, Mapping):
            target[key] = {}
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
