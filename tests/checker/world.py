# SPDX-License-Identifier: Apache-2.0
"""The world as it would be with the plan carried out: every node with its labels, taints, room and pods.

A new node has the labels of its pool's template, of its instance type and of the offering, a host name of its own,
and the old names of labels beside the new ones, as kubelets and drivers write them. A label that pool and claim leave
open is no label that anybody may count on: ``Place.open_labels`` names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from msgspec.structs import replace as replace_fields

from karpenter.api.core import Pod, Taint
from karpenter.api.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODEPOOL,
    STABLE_NAMES,
    ZONE,
)
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.pools import Pool
from karpenter.model.resources import Resources
from karpenter.model.snapshot import NodeView, Snapshot
from tests.checker.matching import allows, node_suits, repelling_taints
from tests.checker.plans import AlternativeLike, NewNodeLike, PlanLike

__all__ = [
    "NEW_HOST",
    "Place",
    "PossibleNode",
    "carried_out",
    "counts_as",
    "matching_offerings",
    "new_place",
    "own_keys",
    "possible_nodes",
    "standing_place",
    "world_of",
]

# Stands for the host name of a node that nobody has made yet.
NEW_HOST = "a-host-that-is-new"

_MOST_VARIANTS = 32


@dataclass(frozen=True)
class Place:
    """A node of the world to come.

    Attributes:
        title: How to speak of it.
        name: Its name; empty for a new node, which has none yet.
        labels: Its labels.
        open_labels: Labels whose value the plan does not settle.
        taints: Its taints.
        room: What it has for pods.
        standing: The pods that were bound to it before and still take room.
        arriving: The pods that the plan puts there.
        daemons: The pods of DaemonSets that are still to come.
        volume_limits: How many volumes it can hold, by driver; a new node's are unknown.
    """

    title: str
    name: str
    labels: Mapping[str, str]
    open_labels: frozenset[str]
    taints: tuple[Taint, ...]
    room: Mapping[str, int]
    standing: tuple[Pod, ...]
    arriving: tuple[Pod, ...]
    daemons: tuple[Pod, ...]
    volume_limits: Mapping[str, int]


@dataclass(frozen=True)
class PossibleNode:
    """A node that a pool could make."""

    pool: Pool
    kind: InstanceType
    offering: Offering
    labels: Mapping[str, str]


def world_of(snapshot: Snapshot, plan: PlanLike) -> list[Place]:
    """Give every node of the world to come; new nodes whose offering does not exist are left out."""
    places = [standing_place(snapshot, node, plan.existing.get(node.name, ())) for node in snapshot.nodes]
    for number, node in enumerate(plan.new_nodes):
        place = new_place(snapshot, number, node, node)
        if place is not None:
            places.append(place)
    return places


def carried_out(snapshot: Snapshot, plan: PlanLike) -> Snapshot:
    """Give the cluster with the plan carried out: nodes stand, pods are bound, limits and reservations are used."""
    nodes = [
        replace(node, pods=(*node.pods, *_bound(plan.existing.get(node.name, ()), node.name)))
        for node in snapshot.nodes
    ]
    left = {pool.name: dict(pool.limits) for pool in snapshot.pools}
    for number, node in enumerate(plan.new_nodes):
        place = new_place(snapshot, number, node, node)
        if place is None:
            continue
        name = place.labels[HOSTNAME]
        nodes.append(
            NodeView(
                name=name,
                labels=place.labels,
                allocatable=Resources(place.room),
                taints=place.taints,
                pods=_bound(place.arriving, name),
                pool=node.pool,
            )
        )
        for resource in left[node.pool]:
            left[node.pool][resource] -= counts_as(snapshot, node, resource)
    used = _reservations_used(snapshot, plan)
    pools = tuple(
        replace(pool, limits=left[pool.name], catalogue=_less_reserved(pool, used)) for pool in snapshot.pools
    )
    return replace(snapshot, nodes=tuple(nodes), pools=pools)


def _reservations_used(snapshot: Snapshot, plan: PlanLike) -> Counter[str]:
    """Count the nodes that each reservation gives; of several that would do, the first with room."""
    used: Counter[str] = Counter()
    for node in plan.new_nodes:
        for pool in snapshot.pools:
            held = matching_offerings(pool, node) if pool.name == node.pool else ()
            for _, offering in held:
                if offering.reservation_id and used[offering.reservation_id] < offering.reservation_capacity:
                    used[offering.reservation_id] += 1
                    break
    return used


def _less_reserved(pool: Pool, used: Counter[str]) -> Catalogue:
    if not used:
        return pool.catalogue

    def left(offering: Offering) -> Offering:
        capacity = offering.reservation_capacity - used[offering.reservation_id]
        available = offering.available and (capacity > 0 or not offering.reservation_id)
        return replace(offering, reservation_capacity=max(capacity, 0), available=available)

    kinds = pool.catalogue.types
    return Catalogue(replace(kind, offerings=tuple(map(left, kind.offerings))) for kind in kinds)


def counts_as(snapshot: Snapshot, node: NewNodeLike, resource: str) -> int:
    """Give what a new node counts against a limit of its pool."""
    if resource == "nodes":
        return 1
    for pool in snapshot.pools:
        if pool.name == node.pool:
            for kind, _ in matching_offerings(pool, node):
                return kind.capacity.get(resource, 0)
    return 0


def _bound(pods: Iterable[Pod], node_name: str) -> tuple[Pod, ...]:
    return tuple(replace_fields(pod, spec=replace_fields(pod.spec, node_name=node_name)) for pod in pods)


def standing_place(snapshot: Snapshot, node: NodeView, arriving: Iterable[Pod]) -> Place:
    """Give a standing node with the pods that the plan puts there."""
    labels = {HOSTNAME: node.name, **node.labels}
    there = {owner.uid for pod in node.pods for owner in pod.metadata.owner_references}
    missing = [
        daemon
        for daemon in snapshot.daemons
        if not any(owner.uid in there for owner in daemon.metadata.owner_references)
    ]
    return Place(
        title=f"node {node.name}",
        name=node.name,
        labels=labels,
        open_labels=frozenset(),
        taints=node.taints,
        room=node.allocatable,
        standing=tuple(pod for pod in node.pods if pod.status.phase not in ("Succeeded", "Failed")),
        arriving=tuple(arriving),
        daemons=_belonging(missing, labels, node.taints, node.name),
        volume_limits=node.volume_limits,
    )


def new_place(snapshot: Snapshot, number: int, node: NewNodeLike, offer: AlternativeLike) -> Place | None:
    """Give a new node as it would be if it were bought as ``offer``; None where nothing like that is sold."""
    pool = next((pool for pool in snapshot.pools if pool.name == node.pool), None)
    found = [] if pool is None else matching_offerings(pool, offer)
    if pool is None or not found:
        return None
    places = [_bought(snapshot, pool, number, node, kind, offering) for kind, offering in found]
    # Offerings alike but for their labels (reservations): one that suits all pods is what is meant.
    suiting = (
        place for place in places if all(node_suits(pod, place.labels, place.name) for pod in place.arriving)
    )
    return next(suiting, places[0])


def matching_offerings(pool: Pool, offer: AlternativeLike) -> list[tuple[InstanceType, Offering]]:
    """Give what the pool's catalogue sells by the type, zone and capacity type of an alternative."""
    return [
        (kind, offering)
        for kind in pool.catalogue.types
        if kind.name == offer.instance_type
        for offering in kind.offerings
        if (offering.zone, offering.capacity_type) == (offer.zone, offer.capacity_type)
    ]


def _bought(
    snapshot: Snapshot,
    pool: Pool,
    number: int,
    node: NewNodeLike,
    kind: InstanceType,
    offering: Offering,
) -> Place:
    settled: dict[str, str] = {}
    left_open = set()
    for key in own_keys(pool):
        value, is_open = _settle(key, pool.requirements, node.requirements)
        if is_open:
            left_open.add(key)
        elif value is not None:
            settled[key] = value
    labels = _labels(pool, kind, offering, settled, f"new-{number}")
    return Place(
        title=f"new node {number} of pool {pool.name}",
        name="",
        labels=labels,
        open_labels=frozenset(left_open),
        taints=pool.taints,
        room=kind.allocatable,
        standing=(),
        arriving=tuple(node.pods),
        daemons=_belonging(snapshot.daemons, labels, pool.taints, ""),
        volume_limits={},
    )


def own_keys(pool: Pool) -> list[str]:
    """Give the labels that the pool itself speaks of, and no instance type or offering does."""
    sold = {NODEPOOL, ZONE, CAPACITY_TYPE, INSTANCE_TYPE, HOSTNAME}
    for kind in pool.catalogue.types:
        sold.update(kind.labels)
        for offering in kind.offerings:
            sold.update(offering.labels)
    return [requirement.key for requirement in pool.requirements if requirement.key not in sold]


def _settle(key: str, *sources: Any) -> tuple[str | None, bool]:
    """Give the value that requirements leave of a label (None: no such label), and whether it stays open."""
    spoken = [requirement for source in sources for requirement in source if requirement.key == key]
    listed = {value for each in spoken if not each.complement for value in each.values}
    values = [value for value in sorted(listed) if all(allows(each, value) for each in spoken)]
    if len(values) == 1:
        return values[0], False
    if values:
        return None, True
    return None, not all(allows(each, None) for each in spoken)


def _labels(
    pool: Pool, kind: InstanceType, offering: Offering, own: Mapping[str, str], hostname: str
) -> dict[str, str]:
    labels = {
        **own,
        **kind.labels,
        **offering.labels,
        INSTANCE_TYPE: kind.name,
        ZONE: offering.zone,
        CAPACITY_TYPE: offering.capacity_type,
        NODEPOOL: pool.name,
        HOSTNAME: hostname,
    }
    return labels | {old: labels[new] for old, new in STABLE_NAMES.items() if new in labels}


def _belonging(
    daemons: Iterable[Pod], labels: Mapping[str, str], taints: Iterable[Taint], name: str
) -> tuple[Pod, ...]:
    taints = tuple(taints)
    return tuple(
        daemon
        for daemon in daemons
        if node_suits(daemon, labels, name) and not repelling_taints(taints, daemon)
    )


def possible_nodes(pool: Pool, pods: Iterable[Pod]) -> Iterator[PossibleNode]:
    """Give every node that a pool could make now, as far as the pods' own words tell them apart.

    A label that the pool leaves open takes each value that the pool lists or that a pod asks for.
    """
    asked = _asked_values(pods)
    own = own_keys(pool)
    choices = [_choices(key, pool, asked.get(key, set())) for key in own]
    variants = list(islice(product(*choices), _MOST_VARIANTS))
    for kind in pool.catalogue.types:
        for offering in kind.offerings:
            for values in variants if offering.available else ():
                settled = {key: value for key, value in zip(own, values, strict=True) if value is not None}
                labels = _labels(pool, kind, offering, settled, NEW_HOST)
                if all(allows(each, labels.get(each.key)) for each in pool.requirements):
                    yield PossibleNode(pool, kind, offering, labels)


def _choices(key: str, pool: Pool, asked: set[str]) -> list[str | None]:
    (requirement,) = (each for each in pool.requirements if each.key == key)
    values: list[str | None] = [
        value for value in sorted(asked | set(requirement.values)) if allows(requirement, value)
    ]
    return [None, *values] if requirement.absence else values or [None]


def _asked_values(pods: Iterable[Pod]) -> dict[str, set[str]]:
    asked: dict[str, set[str]] = {}
    for pod in pods:
        for key, value in pod.spec.node_selector.items():
            asked.setdefault(key, set()).add(value)
        affinity = pod.spec.affinity
        if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
            continue
        for term in affinity.node_affinity.required.node_selector_terms:
            for expression in term.match_expressions:
                if expression.operator == "In":
                    asked.setdefault(expression.key, set()).update(expression.values)
    return asked
