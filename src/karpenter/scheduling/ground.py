# SPDX-License-Identifier: Apache-2.0
"""Prepares the ground for a solve: puts the nodes that stand on the board, and counts who is on them.

Pods are counted as far as a group of the solve counts them or they keep others away. What they amount to is known to
the snapshot (see ``Census``), so this costs what the groups have to do with standing pods, not a look at every pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from karpenter.model.resources import total
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.scheduling.groups import Group, GroupTable
from karpenter.scheduling.hosts import Host, Standing, missing_daemons
from karpenter.scheduling.templates import Daemon

__all__ = ["Books", "stand"]


class Books(Protocol):
    """What is written into: the nodes of a board and who is counted where, by number of the group; see there."""

    table: GroupTable
    resources: tuple[str, ...]
    hosts: list[Host]
    counts: list[dict[str, int]]
    kept_apart: list[dict[str, int]]
    total: list[int]
    nowhere: list[int]


def stand(snapshot: Snapshot, daemons: Sequence[Daemon], books: Books) -> None:
    """Put every standing node on the board, ready ones first, with its pods counted."""
    for node in sorted(snapshot.nodes, key=lambda node: (not node.initialized, node.name)):
        books.hosts.append(_host(len(books.hosts), node, snapshot, daemons, books.resources))
    hosts = {id(host.node): host for host in books.hosts}
    for census in snapshot.censuses():
        for group in books.table.groups:
            for node, number in census.counted_by(group.pods, snapshot.namespaces):
                host = hosts.get(id(node))
                if host is not None and group.places.admits(node.labels, node.taints, node.name):
                    _count(books, group, host, node, number)
            if books.table.filtered >> group.index & 1:
                continue
            for node, number in census.keeping_apart(group.pods):
                host = hosts.get(id(node))
                if host is not None:
                    _keep_apart(books, group, host, node, number)
    for host in books.hosts:
        host.before = Standing(host.ports, host.attached, dict(host.caps))


def _host(
    index: int, node: NodeView, snapshot: Snapshot, daemons: Sequence[Daemon], resources: tuple[str, ...]
) -> Host:
    """Return a standing node with what its pods, and DaemonSets' pods still to come, take of it."""
    taken = node.census.requests
    ports = node.census.ports
    missing = missing_daemons(node, daemons)
    if missing:
        taken = total((taken, *(daemon.requests for daemon in missing)))
        for daemon in missing:
            ports = ports.union(daemon.ports)
    return Host(
        index,
        node=node,
        used=taken.vector(resources),
        room=node.allocatable.vector(resources),
        ports=ports,
        attached=node.census.attached(snapshot.storage),
    )


def _count(books: Books, group: Group, host: Host, node: NodeView, number: int) -> None:
    if group.by_host:
        host.counts[group.index] = host.counts.get(group.index, 0) + number
    elif group.key in node.labels:
        counts = books.counts[group.index]
        place = node.labels[group.key]
        counts[place] = counts.get(place, 0) + number
    else:
        books.nowhere[group.index] += number
        return
    books.total[group.index] += number


def _keep_apart(books: Books, group: Group, host: Host, node: NodeView, number: int) -> None:
    if group.by_host:
        host.caps[group.index] = 0
    elif group.key in node.labels:
        apart = books.kept_apart[group.index]
        place = node.labels[group.key]
        apart[place] = apart.get(place, 0) + number
