# SPDX-License-Identifier: Apache-2.0
"""Which kinds of pods may stand together on a host: while an owner of a rule is there, so many of a group may be.

A host is two mappings: how many pods each group counts on it, and the least that any pod on it bears of each group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from karpenter.consolidation.search.terrain import Kind
from karpenter.model.catalogue import bits

__all__ = ["HostRules"]

# More pods than any host holds.
_PLENTY = 1 << 30


class HostRules:
    """What some kinds allow.

    Attributes:
        binding: The kinds that a rule counts or that own one.
    """

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._groups_of = [tuple(bits(kind.counted)) for kind in kinds]
        self._caps_of = [kind.caps for kind in kinds]
        self._counted_by: dict[int, int] = {}
        bearable: dict[int, dict[int, int]] = {}
        self.binding = 0
        for place, kind in enumerate(kinds):
            if kind.counted or kind.caps:
                self.binding |= 1 << place
            for group in self._groups_of[place]:
                self._counted_by[group] = self._counted_by.get(group, 0) | 1 << place
            for group, limit in kind.caps:
                owners = bearable.setdefault(group, {})
                most = limit - (kind.counted >> group & 1)
                owners[most] = owners.get(most, 0) | 1 << place
        self._owners: dict[int, tuple[list[int], list[int]]] = {}
        for group, owners in bearable.items():
            ascending = sorted(owners)
            less = [0]
            for most in ascending:
                less.append(less[-1] | owners[most])
            self._owners[group] = ascending, less

    def enter(self, counts: dict[int, int], caps: dict[int, int], kind: int, number: int) -> None:
        """Count pods that come."""
        for group in self._groups_of[kind]:
            counts[group] = counts.get(group, 0) + number
        for group, limit in self._caps_of[kind]:
            caps[group] = min(caps.get(group, limit), limit)

    def most(self, counts: Mapping[int, int], caps: Mapping[int, int], kind: int) -> int:
        """Return how many pods of a kind may come at once; none or less if it may not come."""
        groups = self._groups_of[kind]
        most = _PLENTY
        for group in groups:
            if group in caps:
                most = min(most, caps[group] - counts.get(group, 0))
        for group, limit in self._caps_of[kind]:
            left = limit - counts.get(group, 0)
            if group in groups:
                most = min(most, left)
            elif left < 0:
                return 0
        return most

    def refused(self, counts: Mapping[int, int], caps: Mapping[int, int]) -> int:
        """Return the kinds of which no more may come."""
        shut = 0
        for group, count in counts.items():
            if group in self._owners:
                bearable, less = self._owners[group]
                shut |= less[bisect_left(bearable, count)]
        for group, cap in caps.items():
            if counts.get(group, 0) >= cap:
                shut |= self._counted_by.get(group, 0)
        return shut
