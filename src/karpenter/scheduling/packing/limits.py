# SPDX-License-Identifier: Apache-2.0
"""What a pool may still grow by: limits count the capacity of new nodes, and the nodes themselves."""

from __future__ import annotations

from collections.abc import Iterable

from karpenter.scheduling.packing.lot import Lot
from karpenter.scheduling.packing.market import Node
from karpenter.scheduling.packing.menu import Menu

__all__ = ["Allowance"]

_NODES = "nodes"


class Allowance:
    """The limits of a lot, as far as they are not used up."""

    def __init__(self, lot: Lot) -> None:
        self._catalogue = lot.catalogue
        self._names = [name for name, _ in lot.limits]
        self._left = [amount for _, amount in lot.limits]
        self._known: dict[int, list[int]] = {}

    def charges(self, position: int) -> list[int]:
        """Return what a node of an offering takes from each limit."""
        known = self._known.get(position)
        if known is None:
            capacity = self._catalogue.type_at(position).capacity
            known = [1 if name == _NODES else capacity.get(name, 0) for name in self._names]
            self._known[position] = known
        return known

    def part(self, position: int) -> float:
        """Return what part of the limits a node of an offering takes, summed over all limits."""
        return sum(
            charge / max(1, left) for charge, left in zip(self.charges(position), self._left, strict=True)
        )

    def affordable(self, menu: Menu) -> int:
        """Return the options of which the limits allow one more node."""
        if not self._names:
            return menu.everything
        found = 0
        for option, position in enumerate(menu.positions):
            if all(charge <= left for charge, left in zip(self.charges(position), self._left, strict=True)):
                found |= 1 << option
        return found

    def charge(self, position: int, times: int) -> int:
        """Take up to so many nodes of an offering from the limits; return how many they allowed."""
        charges = self.charges(position)
        for charge, left in zip(charges, self._left, strict=True):
            if charge:
                times = max(0, min(times, left // charge))
        self._left = [left - charge * times for charge, left in zip(charges, self._left, strict=True)]
        return times

    def exchange(self, old: int, new: int) -> bool:
        """Let a node of one offering become one of another; tell whether the limits allow it."""
        changes = [after - before for before, after in zip(self.charges(old), self.charges(new), strict=True)]
        if any(change > max(0, left) for change, left in zip(changes, self._left, strict=True)):
            return False
        self._left = [left - change for change, left in zip(changes, self._left, strict=True)]
        return True

    def hold(self, menu: Menu, nodes: Iterable[Node]) -> bool:
        """Tell whether the limits allow all the nodes."""
        totals = [0] * len(self._names)
        for node in nodes if self._names else ():
            charges = self.charges(menu.positions[node.option])
            totals = [total + charge for total, charge in zip(totals, charges, strict=True)]
        return all(total <= left for total, left in zip(totals, self._left, strict=True))

    def shared(self, positions: Iterable[int]) -> list[int]:
        """Return for each of the offerings those that may take its place, whatever takes the place of the others.

        What the offerings leave of the limits is shared evenly.
        """
        chosen = list(positions)
        spare = list(self._left)
        for position in chosen:
            spare = [left - charge for left, charge in zip(spare, self.charges(position), strict=True)]
        found = []
        for position in chosen:
            mask = self._catalogue.everything
            for name, charge, left in zip(self._names, self.charges(position), spare, strict=True):
                if name != _NODES:
                    mask &= self._catalogue.at_most(name, charge + left // len(chosen))
            found.append(mask)
        return found
