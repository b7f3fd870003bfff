# SPDX-License-Identifier: Apache-2.0
"""Lets planned nodes that would be bought alike ask for the same, so that one launch serves them all: pure.

EC2 lets through a few launches at once and then two a second, whatever their size. Nodes of one plan often begin with
the same offering and differ only in which dearer ones would do as well. Where they have at least half of those in
common they ask for the common ones; what they are meant to be, and cost, stays the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling import NewNode

__all__ = ["alike"]


@dataclass(slots=True)
class _Lot:
    """Nodes that ask for the same; ``most`` is how many offerings the least choosy of them had by itself."""

    usable: int
    most: int
    members: list[int]

    def takes(self, usable: int) -> bool:
        """Tells whether everybody keeps at least half of the choice, should this one join."""
        return 2 * (self.usable & usable).bit_count() >= max(self.most, usable.bit_count())


def alike(nodes: Sequence[NewNode]) -> tuple[NewNode, ...]:
    """Gives the nodes in their order, with what they ask for made equal where that costs little choice."""
    groups: dict[Hashable, list[int]] = {}
    for position, node in enumerate(nodes):
        # A wish for many different values was met for each node by itself.
        if node.min_values_relaxed or not node.pool_requirements.has_min_values:
            groups.setdefault(_begins_with(node), []).append(position)
    found = list(nodes)
    for group in groups.values():
        for lot in _lots(nodes, group):
            for position in lot.members:
                found[position] = replace(nodes[position], usable=lot.usable)
    return tuple(found)


def _begins_with(node: NewNode) -> Hashable:
    settled = tuple(sorted(node.labels.items()))
    return node.pool, settled, node.min_values_relaxed, id(node.catalogue), lowest_bit(node.usable)


def _lots(nodes: Sequence[NewNode], group: Sequence[int]) -> list[_Lot]:
    """Puts nodes together, the choosiest first, so that the others find a lot that they can live with."""
    lots: list[_Lot] = []
    for position in sorted(group, key=lambda each: nodes[each].usable.bit_count()):
        usable = nodes[position].usable
        lot = next((each for each in lots if each.takes(usable)), None)
        if lot is None:
            lots.append(_Lot(usable, usable.bit_count(), [position]))
            continue
        lot.usable &= usable
        lot.most = max(lot.most, usable.bit_count())
        lot.members.append(position)
    return lots
