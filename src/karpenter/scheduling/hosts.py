# SPDX-License-Identifier: Apache-2.0
"""Nodes on the board: those that stand and those to be bought, with what is on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from karpenter.model.catalogue import lowest_bit
from karpenter.model.ports import HostPorts
from karpenter.model.snapshot import NodeView
from karpenter.model.taints import tolerates_all
from karpenter.model.volumes import NO_ATTACHMENTS, Attachments
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Daemon, Template

__all__ = [
    "Entry",
    "Host",
    "HostMemory",
    "Memory",
    "Standing",
    "capacity_of",
    "counted_capacity",
    "missing_daemons",
]


@dataclass(frozen=True, slots=True)
class Standing:
    """What the pods that stood on a node before take of it, and what they keep away."""

    ports: HostPorts = field(default_factory=HostPorts)
    attached: Attachments = NO_ATTACHMENTS
    caps: Mapping[int, int] = field(default_factory=dict)


_NOTHING = Standing()


class HostMemory(NamedTuple):
    """What a host was like at some moment; see there."""

    mask: int
    used: tuple[int, ...]
    counts: dict[int, int]
    caps: dict[int, int]
    ports: HostPorts
    attached: Attachments
    pins: dict[str, str]
    contents: dict[Stance, int]


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
        before: What was taken before anybody entered.
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
    before: Standing = _NOTHING

    def remember(self) -> HostMemory:
        """Return what changes when pods enter and leave."""
        return HostMemory(
            self.mask,
            self.used,
            dict(self.counts),
            dict(self.caps),
            self.ports,
            self.attached,
            dict(self.pins),
            dict(self.contents),
        )

    def restore(self, memory: HostMemory) -> None:
        """Make the host as it was, as often as needed."""
        self.mask, self.used, counts, caps, self.ports, self.attached, pins, contents = memory
        self.counts, self.caps, self.pins, self.contents = (
            dict(counts),
            dict(caps),
            dict(pins),
            dict(contents),
        )

    def heed(self, stance: Stance) -> None:
        """Keep to the caps on which a class that enters insists."""
        for group, cap in stance.caps:
            if stance.hard_caps >> group & 1:
                self.caps[group] = min(self.caps.get(group, cap), cap)

    def take_stock(self) -> None:
        """Work out anew, from who is there, what is taken, what is kept away and which places are settled."""
        self.ports, self.attached, self.caps = self.before.ports, self.before.attached, dict(self.before.caps)
        keys: set[str] = set()
        for stance in self.contents:
            self.ports = self.ports.union(stance.pods.ports)
            self.attached = self.attached.union(stance.pods.volumes.attachments)
            self.heed(stance)
            keys.update(stance.keys)
        self.pins = {key: place for key, place in self.pins.items() if key in keys}


class Memory(NamedTuple):
    """What a whole board was like: the nodes to be bought, what is on nodes, and its books."""

    bought: list[Host]
    hosts: dict[int, HostMemory]
    counts: list[dict[str, int]]
    kept_apart: list[dict[str, int]]
    total: list[int]
    spent: dict[str, dict[str, int]]
    drawn: dict[str, int]


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
    return capacity_of(host.template, host.mask)


def capacity_of(template: Template, mask: int) -> dict[str, int]:
    """Return what a node counts against limits if it is bought as the cheapest of some offerings."""
    return {**template.catalogue.type_at(lowest_bit(mask)).capacity, "nodes": 1}
