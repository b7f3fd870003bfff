# SPDX-License-Identifier: Apache-2.0
"""Which pods may stand together on a node: host rules and host ports, as sets of kinds that may still enter.

A node carries one set of kinds that may enter. Each pod that does can only take kinds out of it: kinds whose ports
clash, kinds that a group at its cap counts, and owners whose own limit is reached. A refusal thus stays a refusal for
the node's whole life, and the test whether a pod may enter is one ``&``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from karpenter.model.catalogue import bits
from karpenter.scheduling.packing.lot import Shape

__all__ = ["NodeRules", "Rules"]

# More pods than any node holds.
_PLENTY = 1 << 62


@dataclass(slots=True)
class NodeRules:
    """The host rules' view of one node: pods counted by each group, and the smallest limit an owner set."""

    counts: dict[int, int] = field(default_factory=dict)
    caps: dict[int, int] = field(default_factory=dict)


class Rules:
    """The host rules and ports of all kinds of a lot, given one shape of each kind.

    Attributes:
        binding: The kinds whose entering can shut out others.
        forced: Sets of kinds of which a node holds at most so many pods.
    """

    __slots__ = (
        "_clashes",
        "_counted_by",
        "_groups_of",
        "_owners",
        "_rules_of",
        "_samples",
        "binding",
        "forced",
    )

    def __init__(self, samples: Sequence[Shape]) -> None:
        self._samples = samples
        # Kinds are many, and the sets of groups that count them few.
        groups_of = {counted: tuple(bits(counted)) for counted in {shape.counted for shape in samples}}
        self._groups_of = [groups_of[shape.counted] for shape in samples]
        self._rules_of = [shape.caps for shape in samples]
        self._counted_by = _by_bit([shape.counted for shape in samples])
        self._owners = self._owners_by_count()
        takers = _by_bit([shape.ports for shape in samples])
        rivals = _by_bit([shape.port_conflicts for shape in samples])
        self._clashes = [0] * len(samples)
        if takers or rivals:
            self._clashes = [
                _union([rivals.get(port, 0) for port in bits(shape.ports)])
                | _union([takers.get(port, 0) for port in bits(shape.port_conflicts)])
                for shape in samples
            ]
        self.binding = _union(
            1 << kind
            for kind, rules in enumerate(zip(self._groups_of, self._rules_of, self._clashes, strict=True))
            if any(rules)
        )
        self.forced = sorted([*self._apart_by_rule().items(), *self._apart_by_port().items()])

    def _owners_by_count(self) -> dict[int, tuple[list[int], list[int]]]:
        """Return for each group the counts that owners bear, ascending, and before each the owners that bear less."""
        bearable: dict[int, dict[int, int]] = {}
        for kind, shape in enumerate(self._samples):
            for group, limit in shape.caps:
                count = limit - (shape.counted >> group & 1)
                owners = bearable.setdefault(group, {})
                owners[count] = owners.get(count, 0) | 1 << kind
        found: dict[int, tuple[list[int], list[int]]] = {}
        for group, owners in bearable.items():
            counts = sorted(owners)
            less = [0]
            for count in counts:
                less.append(less[-1] | owners[count])
            found[group] = counts, less
        return found

    def _apart_by_rule(self) -> dict[int, int]:
        """Return sets of kinds that count each other, with the most pods of them that any of them bears."""
        own: dict[int, dict[int, int]] = {}
        for kind, shape in enumerate(self._samples):
            for group, limit in shape.caps:
                if shape.counted >> group & 1 and limit > 0:
                    owners = own.setdefault(group, {})
                    owners[limit] = owners.get(limit, 0) | 1 << kind
        found: dict[int, int] = {}
        for owners in own.values():
            kinds = 0
            for limit in sorted(owners):
                kinds |= owners[limit]
                found[kinds] = min(limit, found.get(kinds, limit))
        return found

    def _apart_by_port(self) -> dict[int, int]:
        """Return sets of kinds that want the same host port for themselves."""
        return dict.fromkeys(
            _by_bit([shape.ports & shape.port_conflicts for shape in self._samples]).values(), 1
        )

    def refused(self, node: NodeRules, ports: int) -> int:
        """Return the kinds that a node refuses, given the pods and host ports it has."""
        shut = _union([1 << kind for kind, shape in enumerate(self._samples) if shape.port_conflicts & ports])
        for group, (counts, less) in self._owners.items():
            shut |= less[bisect_left(counts, node.counts.get(group, 0))]
        for group, cap in node.caps.items():
            if node.counts.get(group, 0) >= cap:
                shut |= self._counted_by.get(group, 0)
        return shut

    def most(self, node: NodeRules, kind: int) -> int:
        """Return how many pods of a kind that may enter the node can do so at once."""
        if self._clashes[kind] >> kind & 1:
            return 1
        most = _PLENTY
        groups = self._groups_of[kind]
        for group in groups:
            if group in node.caps:
                most = min(most, node.caps[group] - node.counts.get(group, 0))
        for group, limit in self._rules_of[kind]:
            if group in groups:
                most = min(most, limit - node.counts.get(group, 0))
        return most

    def enter(self, node: NodeRules, kind: int, number: int) -> int:
        """Count pods that enter the node; return kinds that it refuses from now on."""
        shut = self._clashes[kind]
        counts = node.counts
        caps = node.caps
        for group, limit in self._rules_of[kind]:
            if limit < caps.get(group, _PLENTY):
                caps[group] = limit
                if counts.get(group, 0) >= limit:
                    shut |= self._counted_by.get(group, 0)
        for group in self._groups_of[kind]:
            count = counts[group] = counts.get(group, 0) + number
            if group in self._owners:
                bearable, less = self._owners[group]
                shut |= less[bisect_left(bearable, count)]
            if count >= caps.get(group, _PLENTY):
                shut |= self._counted_by[group]
        return shut


def _by_bit(sets: Sequence[int]) -> dict[int, int]:
    """Return for each bit that is in some of the sets the places of those."""
    places: dict[int, int] = {}
    for place, members in enumerate(sets):
        if members:
            places[members] = places.get(members, 0) | 1 << place
    found: dict[int, int] = {}
    for members, having in places.items():
        for bit in bits(members):
            found[bit] = found.get(bit, 0) | having
    return found


def _union(sets: Iterable[int]) -> int:
    found = 0
    for members in sets:
        found |= members
    return found
