# SPDX-License-Identifier: Apache-2.0
"""Scheduling problems as files: ``{"catalogue": FILE, "objects": [Kubernetes objects]}``, and the catalogue beside it.

Pending pods are the question; NodePools, DaemonSets, Nodes, bound pods, volumes, namespaces and NodeClaims are
the cluster. What cannot be read is refused with the object and the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from karpenter.api import labels as names
from karpenter.api.base import EMPTY, Frozen
from karpenter.api.core import (
    CSINode,
    DaemonSet,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from karpenter.api.meta import OwnerReference
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.errors import KarpenterError
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.pools import pool_view
from karpenter.model.resources import Resources, with_default_requests
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.model.taints import is_ephemeral
from karpenter.model.volumes import Storage, attach_limits

__all__ = ["Problem", "ProblemError", "read_catalogue", "read_problem"]

T = TypeVar("T", bound=Frozen)

_KINDS: Mapping[str, type[Frozen]] = {
    kind.__name__: kind
    for kind in (
        CSINode,
        DaemonSet,
        Namespace,
        Node,
        NodeClaim,
        NodePool,
        PersistentVolume,
        PersistentVolumeClaim,
        Pod,
        StorageClass,
    )
}


class ProblemError(KarpenterError):
    """A problem file that says something that cannot be."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A cluster and the pods that have no place in it."""

    snapshot: Snapshot
    pods: tuple[Pod, ...]


class _OfferingEntry(Frozen):
    """An offering that says more than zone, capacity type and price: reserved capacity."""

    zone: str
    capacity_type: str
    price_per_hour: float
    reservation_id: str = ""
    reservation_capacity: int = 0
    available: bool = True


class _TypeEntry(Frozen):
    """An instance type as the catalogue file has it."""

    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, str | int | float]
    allocatable: Mapping[str, str | int | float]
    offerings: tuple[tuple[str, str, float] | _OfferingEntry, ...]


class _CatalogueFile(Frozen):
    """A catalogue file."""

    region: str = ""
    instance_types: tuple[_TypeEntry, ...]


class _ProblemFile(Frozen):
    """A problem file."""

    catalogue: str = ""
    objects: tuple[msgspec.Raw, ...]


class _Object(Frozen):
    """What every object has."""

    kind: str = ""


def read_catalogue(data: bytes, source: str) -> Catalogue:
    """Read a catalogue file.

    Raises:
        ProblemError: It is not JSON of that shape, or an amount in it cannot be read.
    """
    file = _decode(data, _CatalogueFile, source)
    types = []
    for entry in file.instance_types:
        try:
            capacity, allocatable = Resources.parse(entry.capacity), Resources.parse(entry.allocatable)
        except KarpenterError as error:
            raise ProblemError(f"{source}: instance type {entry.name}: {error}", hint=error.hint) from error
        where = f"{source}: instance type {entry.name}: offerings"
        offerings = tuple(
            _offering(offer, f"{where}[{number}]") for number, offer in enumerate(entry.offerings)
        )
        types.append(InstanceType(entry.name, entry.labels, capacity, allocatable, offerings))
    return Catalogue(types)


def _offering(entry: tuple[str, str, float] | _OfferingEntry, where: str) -> Offering:
    """Return an offering; reserved capacity without a reservation, or the other way round, is refused."""
    if isinstance(entry, tuple):
        entry = _OfferingEntry(zone=entry[0], capacity_type=entry[1], price_per_hour=entry[2])
    if (entry.capacity_type == names.RESERVED) != bool(entry.reservation_id):
        raise ProblemError(
            f'{where}: capacityType "{entry.capacity_type}" with reservationId "{entry.reservation_id}"',
            hint="give reserved capacity, and only that, its reservationId and reservationCapacity",
        )
    if entry.reservation_capacity < 0:
        raise ProblemError(f"{where}.reservationCapacity: {entry.reservation_capacity} is below 0")
    left = not entry.reservation_id or entry.reservation_capacity > 0
    return Offering(
        entry.zone,
        entry.capacity_type,
        entry.price_per_hour,
        available=entry.available and left,
        labels={names.CAPACITY_RESERVATION_ID: entry.reservation_id} if entry.reservation_id else EMPTY,
        reservation_id=entry.reservation_id,
        reservation_capacity=entry.reservation_capacity,
    )


def catalogue_name(data: bytes, source: str) -> str:
    """Return the name of the catalogue file that a problem file asks for, empty for none."""
    return _decode(data, _ProblemFile, source).catalogue


def read_problem(data: bytes, catalogue: Catalogue, source: str) -> Problem:
    """Read a problem file against a catalogue.

    Raises:
        ProblemError: An object cannot be read; the error names it and the field.
    """
    objects: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    # Each object is read from its text at once: all of them as plain data would take more memory than anything else.
    for index, text in enumerate(_decode(data, _ProblemFile, source).objects):
        kind = _decode(text, _Object, f"{source}: objects[{index}]").kind
        if kind not in _KINDS:
            known = ", ".join(sorted(_KINDS))
            raise ProblemError(f'{source}: objects[{index}].kind: "{kind}" is not one of {known}')
        try:
            objects[kind].append(msgspec.json.decode(text, type=_KINDS[kind], strict=False))
        except msgspec.ValidationError as error:
            metadata = msgspec.json.decode(text).get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            raise ProblemError(f"{source}: objects[{index}], {kind} {name}: {error}") from error
    return _assemble(objects, catalogue)


def _decode(data: bytes | msgspec.Raw, kind: type[T], source: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise ProblemError(f"{source}: {error}", hint="a problem is JSON: {catalogue, objects}") from error


def _assemble(objects: Mapping[str, list[Any]], catalogue: Catalogue) -> Problem:
    bound: dict[str, list[Pod]] = {}
    pending: list[Pod] = []
    for pod in objects["Pod"]:
        if pod.spec.node_name:
            bound.setdefault(pod.spec.node_name, []).append(pod)
        else:
            pending.append(pod)
    limits = {node.metadata.name: attach_limits(node) for node in objects["CSINode"]}
    claims = _Claims(objects["NodeClaim"], catalogue)
    nodes = [
        _node_view(
            node, claims.of(node), bound.get(node.metadata.name, ()), limits.get(node.metadata.name, {})
        )
        for node in objects["Node"]
    ]
    counted = [
        (view.pool, Resources.parse(node.status.capacity))
        for view, node in zip(nodes, objects["Node"], strict=True)
    ]
    nodes += claims.in_flight()
    used = _used_by_pool([*counted, *claims.capacities()])
    snapshot = Snapshot(
        pools=tuple(
            pool_view(each, catalogue, used.get(each.metadata.name, {})) for each in objects["NodePool"]
        ),
        nodes=tuple(nodes),
        daemons=tuple(daemon_pod(each) for each in objects["DaemonSet"]),
        storage=Storage.of(
            objects["PersistentVolumeClaim"], objects["PersistentVolume"], objects["StorageClass"]
        ),
        namespaces={each.metadata.name: each.metadata.labels for each in objects["Namespace"]},
    )
    return Problem(snapshot, tuple(pending))


def daemon_pod(daemons: DaemonSet) -> Pod:
    """Return the pod that a DaemonSet would run on a new node; limits stand in for absent requests."""
    template = daemons.spec.template
    owner = OwnerReference(
        api_version="apps/v1",
        kind="DaemonSet",
        name=daemons.metadata.name,
        uid=daemons.metadata.uid,
        controller=True,
    )
    metadata = msgspec.structs.replace(
        template.metadata,
        name=daemons.metadata.name,
        namespace=daemons.metadata.namespace,
        owner_references=(owner,),
    )
    return Pod(metadata=metadata, spec=with_default_requests(template.spec))


class _Claims:
    """The NodeClaims of a problem, parted into those whose node is there and those on their way."""

    def __init__(self, claims: Iterable[NodeClaim], catalogue: Catalogue) -> None:
        self._claims = tuple(claims)
        self._kinds = {kind.name: kind for kind in catalogue.types}
        self._arrived: set[str] = set()

    def of(self, node: Node) -> NodeClaim | None:
        """Return the claim that a node was made from, which is then no longer on its way."""
        for claim in self._claims:
            status = claim.status
            if status.node_name == node.metadata.name or (
                status.provider_id and status.provider_id == node.spec.provider_id
            ):
                self._arrived.add(claim.metadata.name)
                return claim
        return None

    def in_flight(self) -> list[NodeView]:
        """Return the nodes on their way as they will be: without the taints that vanish before pods come.

        A claim that is being deleted brings no node, and one that says neither what it will have for pods nor its
        instance type brings nothing to count on.
        """
        return [
            NodeView(
                name=claim.metadata.name,
                labels=claim.metadata.labels,
                allocatable=room,
                taints=tuple(taint for taint in claim.spec.taints if not is_ephemeral(taint)),
                initialized=False,
                pool=claim.metadata.labels.get(names.NODEPOOL, ""),
            )
            for claim in self._on_their_way()
            if claim.metadata.deletion_timestamp is None and (room := self._room(claim))
        ]

    def capacities(self) -> list[tuple[str, Resources]]:
        """Return the pool of each claim on its way and what it counts against the pool's limits."""
        found = []
        for claim in self._on_their_way():
            kind = self._kinds.get(claim.metadata.labels.get(names.INSTANCE_TYPE, ""))
            capacity = Resources.parse(claim.status.capacity) or Resources(kind.capacity if kind else {})
            found.append((claim.metadata.labels.get(names.NODEPOOL, ""), capacity))
        return found

    def _on_their_way(self) -> Iterator[NodeClaim]:
        return (claim for claim in self._claims if claim.metadata.name not in self._arrived)

    def _room(self, claim: NodeClaim) -> Resources:
        if claim.status.allocatable:
            return Resources.parse(claim.status.allocatable)
        kind = self._kinds.get(claim.metadata.labels.get(names.INSTANCE_TYPE, ""))
        return Resources(kind.allocatable if kind else {})


def _node_view(
    node: Node, claim: NodeClaim | None, pods: Iterable[Pod], volume_limits: Mapping[str, int]
) -> NodeView:
    """Return a node as pods will find it; until it is initialized its claim tells what it does not yet say itself."""
    labels = node.metadata.labels
    managed = names.NODEPOOL in labels
    initialized = labels.get(names.INITIALIZED) == "true" or not managed
    room = Resources.parse(node.status.allocatable)
    taints = node.spec.taints
    if not initialized:
        passing = claim.spec.startup_taints if claim is not None else ()
        taints = tuple(taint for taint in taints if not is_ephemeral(taint) and taint not in passing)
        if claim is not None:
            promised = Resources.parse(claim.status.allocatable)
            room = Resources({**promised, **{name: amount for name, amount in room.items() if amount}})
    return NodeView(
        name=node.metadata.name,
        labels=labels,
        allocatable=room,
        taints=taints,
        pods=tuple(pods),
        initialized=initialized,
        managed=managed,
        pool=labels.get(names.NODEPOOL, ""),
        volume_limits=volume_limits,
    )


def _used_by_pool(capacities: Iterable[tuple[str, Resources]]) -> dict[str, dict[str, int]]:
    used: dict[str, dict[str, int]] = {}
    for pool, capacity in capacities:
        if pool:
            amounts = used.setdefault(pool, {})
            for resource, amount in {**capacity, "nodes": 1}.items():
                amounts[resource] = amounts.get(resource, 0) + amount
    return used
