# SPDX-License-Identifier: Apache-2.0
"""Nodes on the board: those that stand and those to be bought, with what is on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from karpenter.model.catalogue import lowest_bit
from karpenter.model.ports import HostPorts
from karpenter.model.snapshot import NodeView
from karpenter.model.taints import tolerates_all
from karpenter.model.volumes import NO_ATTACHMENTS, Attachments
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Daemon, Template

__all__ = ["Entry", "Host", "counted_capacity", "missing_daemons"]


@dataclass(slots=True, eq=False)
class Host:
    """A node that stands, or one to be bought.

    Attributes:
        index: Its number on the board.
        node: The standing node, or None.
        template: What a node to be bought is made from, or None.
        mask: The offerings that a node to be bought can still be.
        used: What pods on it take (of a standing node: and DaemonSets still to come).
        room: What a standing node has.
        counts: How many pods of each host group are on it.
        caps: How many of each host group it may hold, as the pods on it insist.
        ports: The host ports taken.
        attached: The volumes attached.
        pins: The places, by key, that the pods on it have settled.
        contents: Stances with the number of pods each.
    """

    index: int
    node: NodeView | None = None
    template: Template | None = None
    mask: int = 0
    used: tuple[int, ...] = ()
    room: tuple[int, ...] = ()
    counts: dict[int, int] = field(default_factory=dict)
    caps: dict[int, int] = field(default_factory=dict)
    ports: HostPorts = field(default_factory=HostPorts)
    attached: Attachments = NO_ATTACHMENTS
    pins: dict[str, str] = field(default_factory=dict)
    contents: dict[Stance, int] = field(default_factory=dict)


class Entry(msgspec.Struct, frozen=True):
    """That a pod may enter a host, and what that settles."""

    mask: int
    pins: Mapping[str, str]


def missing_daemons(node: NodeView, daemons: Iterable[Daemon]) -> list[Daemon]:
    """Return the DaemonSets' pods that belong on the node but are not there yet."""
    there = node.census.owners
    return [
        daemon
        for daemon in daemons
        if not any(owner.uid in there for owner in daemon.pod.metadata.owner_references)
        and tolerates_all(node.taints, daemon.pod.spec.tolerations)
        and any(term.matches(node.labels, node.name) for term in daemon.alternatives)
    ]


def counted_capacity(host: Host) -> dict[str, int]:
    """Return what a node to be bought counts against its pool's limits; nothing before a pod is on it."""
    if not host.contents or host.template is None:
        return {}
    kind = host.template.catalogue.type_at(lowest_bit(host.mask))
    return {**kind.capacity, "nodes": 1}
