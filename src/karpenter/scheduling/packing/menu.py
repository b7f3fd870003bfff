# SPDX-License-Identifier: Apache-2.0
"""The menu of a lot: the offerings worth looking at, with what each leaves for pods.

An offering is dropped when one that is no dearer holds at least as much of everything and admits at least the same
pods: no plan is made dearer by that. Thousands of offerings become some hundred. Menus are kept with the catalogue
they are made from, since pools ask for the same few again and again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from operator import or_
from weakref import WeakKeyDictionary

from karpenter.model.catalogue import Catalogue, lowest_bit

__all__ = ["Menu", "holding", "menu_for"]

Overheads = tuple[tuple[int, tuple[int, ...]], ...]

# Old menus go when a catalogue has this many: masks vary with every pod requirement, so they could pile up.
_KEPT = 256

_menus: WeakKeyDictionary[Catalogue, dict[object, Menu]] = WeakKeyDictionary()


class Menu:
    """Offerings in price order as bits of small ints, with what each leaves for pods.

    ``capacities`` follow the resources the menu is made for. ``admitting`` has, for each mask asked for, the options
    it contains.
    """

    __slots__ = ("_masks", "_values", "admitting", "capacities", "everything", "positions", "prices")

    def __init__(
        self,
        positions: Sequence[int],
        prices: Sequence[float],
        capacities: Sequence[tuple[int, ...]],
        masks: Sequence[int],
        width: int,
    ) -> None:
        self.positions = list(positions)
        self.prices = list(prices)
        self.capacities = list(capacities)
        self.everything = (1 << len(self.positions)) - 1
        self.admitting = [
            reduce(or_, (1 << i for i, position in enumerate(self.positions) if mask >> position & 1), 0)
            for mask in masks
        ]
        self._values: list[list[int]] = []
        self._masks: list[list[int]] = []
        for i in range(width):
            self._add_resource([capacity[i] for capacity in self.capacities])

    def _add_resource(self, amounts: Sequence[int]) -> None:
        by_amount: dict[int, int] = {}
        for i, amount in enumerate(amounts):
            by_amount[amount] = by_amount.get(amount, 0) | 1 << i
        values = sorted(by_amount)
        masks = [0] * (len(values) + 1)
        for i in range(len(values) - 1, -1, -1):
            masks[i] = masks[i + 1] | by_amount[values[i]]
        self._values.append(values)
        self._masks.append(masks)

    def __len__(self) -> int:
        return len(self.positions)

    def holds(self, amounts: Sequence[float]) -> int:
        """Return the options with room for the amounts; the lowest bit is the cheapest."""
        found = self.everything
        for values, masks, amount in zip(self._values, self._masks, amounts, strict=True):
            found &= masks[bisect_left(values, amount)]
        return found

    def most(self, options: int) -> int:
        """Return the largest amount of the first resource that any of some options has; there must be one."""
        values, masks = self._values[0], self._masks[0]
        # The sets shrink as the amounts grow: the last one that meets the options has the largest amount.
        beyond = bisect_left(range(len(values)), 1, key=lambda place: not masks[place] & options)
        return values[beyond - 1]

    def reordered(self, order: Sequence[int]) -> Menu:
        """Return the menu with its options in another order."""
        other = Menu(
            [self.positions[i] for i in order],
            [self.prices[i] for i in order],
            [self.capacities[i] for i in order],
            (),
            len(self._values),
        )
        other.admitting = [
            reduce(or_, (1 << new for new, old in enumerate(order) if mask >> old & 1), 0)
            for mask in self.admitting
        ]
        return other


def holding(
    catalogue: Catalogue, resources: Sequence[str], overheads: Overheads, amounts: Sequence[int], mask: int
) -> int:
    """Return the offerings of a mask that hold the amounts beside the DaemonSets."""
    found = 0
    for part, overhead in overheads:
        part_found = mask & part
        for resource, amount, extra in zip(resources, amounts, overhead, strict=True):
            if not part_found:
                break
            part_found &= catalogue.at_least(resource, amount + extra)
        found |= part_found
    return found


def menu_for(
    catalogue: Catalogue,
    resources: tuple[str, ...],
    overheads: Overheads,
    masks: tuple[int, ...],
    limited: tuple[str, ...] = (),
) -> Menu:
    """Return the offerings of the masks that are worth looking at.

    Args:
        catalogue: What can be bought.
        resources: The resources that pods ask for; others do not count when offerings are compared.
        overheads: What DaemonSets take, by offerings, over the same resources.
        masks: The distinct sets of offerings that pods may use.
        limited: Resources of which a pool may grow by so much only: an offering with less of them is worth a look.
    """
    known = _menus.setdefault(catalogue, {})
    key = (resources, overheads, masks, limited)
    menu = known.get(key)
    if menu is None:
        if len(known) >= _KEPT:
            known.clear()
        menu = known[key] = _make(catalogue, resources, overheads, masks, limited)
    return menu


def _make(
    catalogue: Catalogue,
    resources: tuple[str, ...],
    overheads: Overheads,
    masks: tuple[int, ...],
    limited: tuple[str, ...],
) -> Menu:
    nothing = (0,) * len(resources)
    open_ = holding(catalogue, resources, overheads, nothing, reduce(or_, masks, 0))
    positions: list[int] = []
    capacities: list[tuple[int, ...]] = []
    while open_:
        position = lowest_bit(open_)
        overhead = next(extra for part, extra in overheads if part >> position & 1)
        amounts = catalogue.vector(position, resources)
        capacity = tuple(amount - extra for amount, extra in zip(amounts, overhead, strict=True))
        positions.append(position)
        capacities.append(capacity)
        worse = 0
        for part, extra in overheads:
            beaten = open_ & part
            for resource, amount, more in zip(resources, capacity, extra, strict=True):
                beaten &= ~catalogue.at_least(resource, amount + more + 1)
            worse |= beaten
        for mask in masks:
            if not mask >> position & 1:
                worse &= ~mask
        for resource in limited:
            capacity_of = catalogue.type_at(position).capacity.get(resource, 0)
            worse &= ~catalogue.at_most(resource, capacity_of - 1)
        open_ &= ~(worse | 1 << position)
    return Menu(positions, [catalogue.prices[i] for i in positions], capacities, masks, len(resources))
