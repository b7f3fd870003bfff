# SPDX-License-Identifier: Apache-2.0
"""The cluster as the board leaves it, cut down to what decides whether one more pod gets a new node.

Limits are what is left of them, reservations what was not drawn. Standing nodes and new ones carry only the pods that
rules about other pods look at, and have no room: a fix must work without luck on a node that happens to be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.model.catalogue import Catalogue, lowest_bit
from karpenter.model.pools import Pool
from karpenter.model.resources import NO_RESOURCES
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.model.topology import topology_rules
from karpenter.scheduling.board import Board, Host
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template

__all__ = ["Aftermath"]


class Aftermath:
    """What is left of one board; pools are worked out once."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._catalogues: dict[int, Catalogue] = {}
        pools = {template.pool.name: template.pool for template in board.templates}
        self.pools = tuple(self._left_of(pool) for pool in pools.values())

    def around(self, stance: Stance) -> Snapshot:
        """Return the cluster as far as it matters to a class."""
        return replace(self._board.snapshot, pools=self.pools, nodes=tuple(self._nodes(stance)))

    def _left_of(self, pool: Pool) -> Pool:
        spent = self._board.spent[pool.name]
        limits = {resource: left - spent.get(resource, 0) for resource, left in pool.limits.items()}
        used = {resource: pool.used.get(resource, 0) + spent.get(resource, 0) for resource in limits}
        return replace(pool, catalogue=self._undrawn(pool.catalogue), limits=limits, used=used)

    def _undrawn(self, catalogue: Catalogue) -> Catalogue:
        """Return the catalogue with reservations as the board leaves them."""
        drawn = self._board.drawn
        if not any(reservation in drawn for reservation in catalogue.reservations):
            return catalogue
        known = self._catalogues.get(id(catalogue))
        if known is None:
            known = self._catalogues[id(catalogue)] = Catalogue(
                replace(
                    kind,
                    offerings=tuple(
                        replace(
                            each,
                            reservation_capacity=each.reservation_capacity
                            - drawn.get(each.reservation_id, 0),
                        )
                        for each in kind.offerings
                    ),
                )
                for kind in catalogue.types
            )
        return known

    def _nodes(self, stance: Stance) -> Iterator[NodeView]:
        watched = _watched(stance)
        if not watched and not stance.counted:
            return
        for host in self._board.hosts:
            if host.node is not None:
                pods = (*self._standing(host.node.pods, stance, watched), *_placed(host, stance, watched))
                yield replace(host.node, pods=pods, allocatable=NO_RESOURCES)
            elif host.template is not None and host.contents:
                yield _bought(host, host.template, tuple(_placed(host, stance, watched)))

    def _standing(self, pods: Iterable[Pod], stance: Stance, watched: int) -> Iterator[Pod]:
        table = self._board.table
        for pod in pods:
            if table.counting(pod.metadata.namespace, pod.metadata.labels) & watched:
                yield pod
            elif pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None:
                rules = topology_rules(pod).affinities
                apart = (table.find(rule.group) for rule in rules if rule.anti and rule.hard)
                if any(group is not None and stance.counted >> group & 1 for group in apart):
                    yield pod


def _watched(stance: Stance) -> int:
    """Return the groups that the class's own rules look at, as bits."""
    rules = [*stance.near, *(rule for found in stance.places.values() for rule in found)]
    watched = 0
    for group in (*(rule.group for rule in rules), *(group for group, _ in stance.caps)):
        watched |= 1 << group
    return watched


def _placed(host: Host, stance: Stance, watched: int) -> Iterator[Pod]:
    """Yield the pods of this solve on a host that the class's rules look at, or that keep away from it."""
    for other, number in host.contents.items():
        apart = other.hard_caps
        for rules in other.places.values():
            for rule in rules:
                apart |= 1 << rule.group if rule.kind == "apart" and rule.hard else 0
        if other.counted & watched or apart & stance.counted:
            yield from other.pods.pods[:number]


def _bought(host: Host, template: Template, pods: tuple[Pod, ...]) -> NodeView:
    catalogue, position = template.catalogue, lowest_bit(host.mask)
    offering, kind = catalogue.offerings[position], catalogue.type_at(position)
    name = f"new-{host.index}"
    labels: Mapping[str, str] = {
        **kind.labels,
        **offering.labels,
        **template.labels,
        INSTANCE_TYPE: kind.name,
        ZONE: offering.zone,
        CAPACITY_TYPE: offering.capacity_type,
        HOSTNAME: name,
    }
    return NodeView(
        name=name, labels=labels, allocatable=NO_RESOURCES, taints=template.pool.taints, pods=pods
    )
