# SPDX-License-Identifier: Apache-2.0
"""What a new node of a pool could be: the pool's offerings as a bit set, its own labels, its DaemonSets' share.

A pool may leave the value of a label of its own open (team In [a, b]). Then each value that could matter is a
template of its own, so that a template's labels are always settled and only offerings remain to be chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from karpenter.api.base import EMPTY
from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.model.affinity import NodeTerm, node_rules
from karpenter.model.catalogue import lowest_bit
from karpenter.model.pools import Pool
from karpenter.model.ports import HostPorts, host_ports
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.resources import Resources, pod_requests
from karpenter.model.taints import tolerates_all
from karpenter.scheduling.groups import NodeFilter

__all__ = ["NOWHERE", "Daemon", "Template", "compile_daemons", "templates_of"]

# The place, by some label, of a node that lacks the label; no label can have this value.
NOWHERE = "\0"

# More combinations of open labels than this are not told apart; the first ones stand for all.
_MOST_VARIANTS = 64


@dataclass(frozen=True, slots=True)
class Daemon:
    """A DaemonSet's pod as it would be on a new node."""

    pod: Pod
    requests: Resources
    alternatives: tuple[NodeTerm, ...]
    ports: HostPorts


def compile_daemons(pods: Iterable[Pod]) -> tuple[Daemon, ...]:
    """Compile the DaemonSets' pods; their wishes do not count."""
    return tuple(
        Daemon(pod, pod_requests(pod), node_rules(pod).alternatives, host_ports(pod)) for pod in pods
    )


class Template:
    """A pool with every label of its own settled.

    Attributes:
        index: The place in the order in which templates are tried.
        pool: The pool.
        labels: The labels that do not depend on the offering.
        allowed: The offerings that the pool allows.
        mask: Those of them that may be bought.
        reserved: Those of them that draw on a reservation, by its id.
        listed: Those of them that anybody can buy.
        overheads: Parts of the mask, disjoint, each with what DaemonSets take there and the ports they use.
    """

    def __init__(
        self,
        index: int,
        pool: Pool,
        labels: Mapping[str, str],
        daemons: Sequence[Daemon],
        resources: Sequence[str],
    ) -> None:
        self.index = index
        self.pool = pool
        self.catalogue = pool.catalogue
        self.labels = labels
        self.resources = tuple(resources)
        self.allowed = self.meeting(pool.requirements)
        self.mask = self.allowed & self.catalogue.available
        self.reserved = {
            reservation: mask & self.mask
            for reservation, mask in self.catalogue.reservations.items()
            if mask & self.mask
        }
        self.listed = self.mask
        for reserved in self.reserved.values():
            self.listed &= ~reserved
        self.overheads = self._overheads(daemons)
        self.min_values = tuple(each for each in pool.requirements if each.min_values is not None)
        self._reach: dict[str, dict[str, int]] = {}
        self._admitted: dict[tuple[NodeTerm, ...], int] = {}
        self._fitting: dict[tuple[int, ...], int] = {}

    def admits(self, alternatives: tuple[NodeTerm, ...]) -> int:
        """Return the offerings of the template that meet one of the alternatives."""
        known = self._admitted.get(alternatives)
        if known is None:
            known = 0
            for term in alternatives:
                known |= self.meeting_term(term)
            known &= self.mask
            self._admitted[alternatives] = known
        return known

    def meeting_term(self, term: NodeTerm) -> int:
        """Return every offering with which a node of the template meets a term.

        A new node has no name yet: it cannot be the one that is asked for, and is none of those refused.
        """
        if term.name is not None and not term.name.complement:
            return 0
        return self.meeting(term.requirements)

    def combinations(self, mask: int, within: int) -> int:
        """Return the offerings within a set whose type, zone and capacity type are each among those of a mask."""
        found = within
        for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE):
            among = 0
            for part in self.catalogue.values(key).values():
                if part & mask:
                    among |= part
            found &= among
        return found

    def meeting(self, requirements: Requirements) -> int:
        """Return every offering, of this catalogue, with which a node of the template meets the requirements."""
        found = self.catalogue.everything
        for requirement in requirements:
            if requirement.key in self.labels:
                if not requirement.has(self.labels[requirement.key]):
                    return 0
            elif requirement.key == HOSTNAME:
                # A new node has a name that nobody knows yet: none that is asked for, and none that is refused.
                found = found if requirement.complement else 0
            else:
                found &= self.catalogue.where(requirement)
        return found

    def fitting(self, used: tuple[int, ...]) -> int:
        """Return the offerings of the template that hold so much beside their DaemonSets."""
        known = self._fitting.get(used)
        if known is None:
            known = 0
            for part, overhead, _ in self.overheads:
                for resource, amount, extra in zip(self.resources, used, overhead, strict=True):
                    part &= self.catalogue.at_least(resource, amount + extra)  # noqa: PLW2901 - narrowing
                known |= part
            self._fitting[used] = known
        return known

    def without_port_clash(self, ports: HostPorts) -> int:
        """Return the offerings whose DaemonSets leave the ports free."""
        found = 0
        for part, _, taken in self.overheads:
            if taken.conflict(ports) is None:
                found |= part
        return found

    def domains(self, key: str) -> Mapping[str, int]:
        """Return the values that a label can have on the template's nodes, each with the offerings that give it."""
        if key in self.labels:
            return {self.labels[key]: self.mask}
        values = self.catalogue.values(key)
        return {value: mask & self.mask for value, mask in values.items() if mask & self.mask}

    def reach(self, key: str) -> Mapping[str, int]:
        """Return the same as ``domains`` and, under ``NOWHERE``, the offerings that lack the label."""
        known = self._reach.get(key)
        if known is None:
            known = dict(self.domains(key))
            missing = self.mask
            for part in known.values():
                missing &= ~part
            if missing:
                known[NOWHERE] = missing
            self._reach[key] = known
        return known

    def within(self, pins: Mapping[str, str]) -> int:
        """Return the offerings that are in all of some places, given by key."""
        mask = self.mask
        for key, place in pins.items():
            mask &= self.reach(key).get(place, 0)
        return mask

    def places_of(self, places: NodeFilter) -> int:
        """Return the offerings with which a node of the template is a place for a spread rule."""
        if places.tolerations is not None and not tolerates_all(self.pool.taints, places.tolerations):
            return 0
        mask = self.mask if places.alternatives is None else self.admits(places.alternatives)
        return mask & self.having(places.keys)

    def having(self, keys: Iterable[str]) -> int:
        """Return the offerings with which a node of the template has all of some labels."""
        mask = self.mask
        for key in keys:
            mask &= ~self.reach(key).get(NOWHERE, 0)
        return mask

    def as_small_as_cheapest(self, mask: int, slack: Mapping[str, int] = EMPTY) -> int:
        """Return the offerings that count no more against the pool's limits than the cheapest of them does.

        Args:
            mask: Some offerings.
            slack: How much more they may count, by resource.
        """
        capacity = self.catalogue.type_at(lowest_bit(mask)).capacity if mask else {}
        for resource in self.pool.limits:
            if resource != "nodes":
                most = capacity.get(resource, 0) + slack.get(resource, 0)
                mask &= self.catalogue.at_most(resource, most)
        return mask

    def price(self, mask: int) -> float:
        """Return what the cheapest of some offerings costs per hour."""
        return self.catalogue.prices[lowest_bit(mask)]

    def overhead_at(self, position: int) -> tuple[int, ...]:
        """Return what the DaemonSets take on one offering."""
        bit = 1 << position
        return next(overhead for part, overhead, _ in self.overheads if part & bit)

    def _overheads(self, daemons: Sequence[Daemon]) -> tuple[tuple[int, tuple[int, ...], HostPorts], ...]:
        """Split the mask by which DaemonSets run there; where one does not fit the machine, it does not count."""
        nothing = (0,) * len(self.resources)
        parts: list[tuple[int, tuple[int, ...], HostPorts]] = [(self.allowed, nothing, HostPorts())]
        for daemon in daemons:
            if not tolerates_all(self.pool.taints, daemon.pod.spec.tolerations):
                continue
            there = 0
            for term in daemon.alternatives:
                there |= self.meeting_term(term)
            if not there & self.allowed:
                continue
            amounts = tuple(daemon.requests.get(resource, 0) for resource in self.resources)
            split: list[tuple[int, tuple[int, ...], HostPorts]] = []
            for part, overhead, ports in parts:
                more = tuple(a + b for a, b in zip(overhead, amounts, strict=True))
                for mask, vector, taken in (
                    (part & there, more, ports.union(daemon.ports)),
                    (part & ~there, overhead, ports),
                ):
                    if mask:
                        split.append((mask, vector, taken))
            parts = split
        return tuple(parts)


def templates_of(
    pools: Iterable[Pool],
    wanted: Iterable[Requirements],
    daemons: Sequence[Daemon],
    resources: Sequence[str],
) -> tuple[Template, ...]:
    """Return the templates of all pools, in the order of the pools.

    Args:
        pools: The pools, the first to be tried first.
        wanted: What pods ask of labels: their values are told apart where a pool leaves a label open.
        daemons: The DaemonSets' pods.
        resources: The resources that count in this solve.
    """
    asked: dict[str, set[str]] = {}
    for requirements in wanted:
        for requirement in requirements:
            if not requirement.complement:
                asked.setdefault(requirement.key, set()).update(requirement.values)
    templates: list[Template] = []
    for pool in pools:
        own = [requirement for requirement in pool.requirements if not pool.catalogue.knows(requirement.key)]
        choices = [_values(requirement, asked.get(requirement.key, set())) for requirement in own]
        keys = [requirement.key for requirement in own]
        for values in islice(product(*choices), _MOST_VARIANTS):
            labels = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
            templates.append(Template(len(templates), pool, labels, daemons, resources))
    return tuple(templates)


def _values(requirement: Requirement, asked: set[str]) -> list[str | None]:
    """Return the values of an open label that are told apart; None where the label stays away."""
    if not requirement.complement:
        return [*sorted(requirement.values)] or [None]
    values: list[str | None] = [value for value in sorted(asked) if requirement.has(value)]
    if requirement.allows_absence():
        return [None, *values]
    return values or [requirement.any_value()]
