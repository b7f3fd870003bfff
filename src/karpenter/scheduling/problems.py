# SPDX-License-Identifier: Apache-2.0
"""Scheduling problems as files: ``{"catalogue": FILE, "objects": [Kubernetes objects]}``, and the catalogue beside it.

Pending pods are the question; NodePools, DaemonSets, Nodes, bound pods, volumes, namespaces and NodeClaims are
the cluster. What cannot be read is refused with the object and the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    objects: tuple[dict[str, Any], ...]


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
    for index, raw in enumerate(_decode(data, _ProblemFile, source).objects):
        kind = raw.get("kind", "")
        if kind not in _KINDS:
            known = ", ".join(sorted(_KINDS))
            raise ProblemError(f'{source}: objects[{index}].kind: "{kind}" is not one of {known}')
        try:
            objects[kind].append(msgspec.convert(raw, _KINDS[kind], strict=False))
        except msgspec.ValidationError as error:
            name = (raw.get("metadata") or {}).get("name", "")
            raise ProblemError(f"{source}: objects[{index}], {kind} {name}: {error}") from error
    return _assemble(objects, catalogue)


def _decode(data: bytes, kind: type[T], source: str) -> T:
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
    nodes = tuple(
        _node_view(node, bound.get(node.metadata.name, ()), limits.get(node.metadata.name, {}))
        for node in objects["Node"]
    )
    used = _used_by_pool(nodes, objects["Node"])
    snapshot = Snapshot(
        pools=tuple(
            pool_view(each, catalogue, used.get(each.metadata.name, {})) for each in objects["NodePool"]
        ),
        nodes=nodes,
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


def _node_view(node: Node, pods: Iterable[Pod], volume_limits: Mapping[str, int]) -> NodeView:
    labels = node.metadata.labels
    managed = names.NODEPOOL in labels
    initialized = labels.get(names.INITIALIZED) == "true" or not managed
    taints = tuple(taint for taint in node.spec.taints if initialized or not is_ephemeral(taint))
    return NodeView(
        name=node.metadata.name,
        labels=labels,
        allocatable=Resources.parse(node.status.allocatable),
        taints=taints,
        pods=tuple(pods),
        initialized=initialized,
        managed=managed,
        pool=labels.get(names.NODEPOOL, ""),
        volume_limits=volume_limits,
    )


def _used_by_pool(views: Iterable[NodeView], nodes: Iterable[Node]) -> dict[str, dict[str, int]]:
    used: dict[str, dict[str, int]] = {}
    for view, node in zip(views, nodes, strict=True):
        if view.pool:
            amounts = used.setdefault(view.pool, {})
            for resource, amount in {**Resources.parse(node.status.capacity), "nodes": 1}.items():
                amounts[resource] = amounts.get(resource, 0) + amount
    return used
