# SPDX-License-Identifier: Apache-2.0
"""The market of a lot: what each option costs us, what it can be loaded with, and the cheapest mix in the fluid.

The fluid is the resource problem without whole pods: how much of each option covers what the pods take together, with
at least as many nodes as host rules force. Its answer says which options to buy, what a unit of each resource is worth
here, and what plans can hardly undercut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from math import gcd
from operator import mul
from typing import NamedTuple

from karpenter.model.catalogue import bits, lowest_bit
from karpenter.scheduling.packing.menu import Menu
from karpenter.scheduling.packing.simplex import cover_by_few
from karpenter.scheduling.packing.stock import Contents, Size, Stock, present

__all__ = ["Aisle", "Market", "Mix", "Node", "cost_of"]

# The longest bit string used to find the sums that pods reach; beyond it capacities are taken as they are.
_REACH_BITS = 1 << 16
# With more sorts than this, all of them count on each option that holds any: looser, but they are looked at once.
_MOST_SORTS = 200
# What a resource without a price still weighs when pods are matched to room: a share of an even split.
_LEAST_WEIGHT = 0.05


class Node(NamedTuple):
    """A node of a plan: the option of the market it was closed on, what it costs there, and what it holds."""

    option: int
    cost: float
    contents: Contents
    used: Size


def cost_of(nodes: Iterable[Node]) -> float:
    """Return what the nodes cost together."""
    return sum([node.cost for node in nodes])


class Aisle(NamedTuple):
    """The options of one mask: their numbers, what each can be loaded with, by resource, and costs."""

    options: list[int]
    usable: list[list[int]]
    costs: list[float]


@dataclass(frozen=True, slots=True)
class Mix:
    """The fluid answer for some pods.

    Attributes:
        value: What the mix costs.
        amounts: How much of each option.
        duals: Dollars per unit of each resource.
        forced: Dollars that go to the number of nodes, because host rules force it.
        total: What the pods take together.
        weights: The duals, with a little for resources that have no price.
        mask: The place of the pods' mask.
    """

    value: float
    amounts: dict[int, float]
    duals: list[float]
    forced: float
    total: list[int]
    weights: list[float]
    mask: int

    def worth(self, size: Sequence[int]) -> float:
        """Return what an amount of each resource is worth, by weights."""
        worth: float = sum(map(mul, self.weights, size))
        return worth


class Market:
    """A stock's menu with costs, options as bits in order of cost.

    Attributes:
        options_of: For each kind the options that hold a pod of it.
        admits: For each option the kinds it may hold.
        usable: For each option what pods can really load on it.
        aisles: The options of each mask.
        groups: The kinds of each mask that some option holds, the dearest mask first.
    """

    def __init__(self, stock: Stock, menu: Menu, counts: Sequence[int]) -> None:
        self.stock = stock
        self.menu = menu
        self.costs = list(menu.prices)
        self._last_mixes: dict[bool, tuple[tuple[int, ...], Mix]] = {}
        # By mask: places of the options of mixes so far, of which the next one is mostly made.
        self._mattered: dict[int, set[int]] = {}
        holding_sort = [menu.admitting[mask] & menu.holds(size) for mask, size in stock.sorts]
        self.options_of = [holding_sort[sort] for sort in stock.sort_of]
        self._sorts_on = _transposed(holding_sort, len(menu))
        kinds_of = [0] * len(stock.sorts)
        for kind, sort in enumerate(stock.sort_of):
            kinds_of[sort] |= 1 << kind & stock.allowed
        admitted = {sorts: sum([kinds_of[sort] for sort in bits(sorts)]) for sorts in set(self._sorts_on)}
        self.admits = [admitted[sorts] for sorts in self._sorts_on]
        self._reach = self._reachable_sums(counts)
        self._counts = list(counts)
        self.usable = self._usable_by(counts)
        self.aisles = self._aisles()
        self.groups = self._groups()

    def at(self, costs: Sequence[float]) -> Market:
        """Return the same market with other costs, which must rise with the options' numbers."""
        other = copy(self)
        other.costs = list(costs)
        other._last_mixes = {}  # noqa: SLF001 - a copy of this one
        other.aisles = [
            aisle._replace(costs=[costs[option] for option in aisle.options]) for aisle in self.aisles
        ]
        return other

    def is_buyable(self, kind: int) -> bool:
        """Tell whether some option holds a pod of the kind, and its own rules let it stand on an empty node."""
        return bool(self.options_of[kind] and self.stock.allowed >> kind & 1)

    def _groups(self) -> list[int]:
        members: dict[int, int] = {}
        for kind, mask in enumerate(self.stock.mask_of):
            if self.is_buyable(kind):
                members[mask] = members.get(mask, 0) | 1 << kind
        if len(members) == 1:
            return list(members.values())
        whole = [max(1, sum(amounts)) for amounts in zip(*self.stock.sizes, strict=True)]
        return [
            kinds
            for _, kinds in sorted((-self._dearness(mask, whole), kinds) for mask, kinds in members.items())
        ]

    def _dearness(self, mask: int, whole: Sequence[int]) -> float:
        """Return what an amount of each resource costs at the best rate of a mask's options."""
        aisle = self.aisles[mask]
        rates = []
        for option, cost in zip(aisle.options, aisle.costs, strict=True):
            share = min(have / need for have, need in zip(self.menu.capacities[option], whole, strict=True))
            rates.append(cost / share if share > 0.0 else float("inf"))
        return min(rates)

    def _reachable_sums(self, counts: Sequence[int]) -> list[tuple[int, int]]:
        found = []
        for i in range(len(self.stock.resources)):
            pods: dict[int, int] = {}
            for size, count in zip(self.stock.sizes, counts, strict=True):
                pods[size[i]] = pods.get(size[i], 0) + count
            found.append(_reachable(pods, max((room[i] for room in self.menu.capacities), default=0)))
        return found

    def usable_by(self, counts: Sequence[int]) -> list[Size]:
        """Return for each option what pods can really load on it, never less than any of them take together there.

        A node with much memory and little cpu is full long before its memory is: what fits by one resource limits what
        is loaded of another. And sums of whole pods do not reach every number.
        """
        return self.usable if counts == self._counts else self._usable_by(counts)

    def _usable_by(self, counts: Sequence[int]) -> list[Size]:
        pods = self.stock.by_sort(counts)
        there = sum([1 << sort for sort, count in enumerate(pods) if count])
        many = there.bit_count() > _MOST_SORTS
        # Options that hold the same sorts are worked out together.
        alike: dict[int, list[int]] = {}
        for option, sorts in enumerate(self._sorts_on):
            if sorts & there:
                alike.setdefault(there if many else sorts & there, []).append(option)
        found: list[Size] = [(0,) * len(self.stock.resources)] * len(self._sorts_on)
        for held, options in alike.items():
            sizes = [(self.stock.sorts[sort][1], pods[sort]) for sort in bits(held)]
            for option, usable in zip(options, self._usable(options, sizes), strict=True):
                found[option] = usable
        return found

    def _usable(self, options: Sequence[int], pods: Sequence[tuple[Size, int]]) -> Iterable[Size]:
        """Return what pods of some sizes can load on options that hold each of them."""
        capacities = self.menu.capacities
        total, ratios = _ratios(pods, len(self.stock.resources))
        columns = [_cut([capacities[option][i] for option in options], most) for i, most in enumerate(total)]
        for i, j, above, below in ratios:
            columns[i] = [
                min(have, other * above // below) for have, other in zip(columns[i], columns[j], strict=True)
            ]
        for i, (step, sums) in enumerate(self._reach):
            if sums:
                reached = {
                    most: ((sums & (2 << most // step) - 1).bit_length() - 1) * step
                    for most in set(columns[i])
                }
                columns[i] = [reached[most] for most in columns[i]]
        return zip(*columns, strict=True)

    def _aisles(self) -> list[Aisle]:
        found = []
        for admitting in self.menu.admitting:
            options = list(bits(admitting))
            usable = [self.usable[option] for option in options]
            columns = [[amounts[i] for amounts in usable] for i in range(len(self.stock.resources))]
            found.append(Aisle(options, columns, [self.costs[option] for option in options]))
        return found

    def close(self, contents: Iterable[tuple[int, int]]) -> Node:
        """Return the contents on the cheapest option that holds them; option -1 if none does."""
        pods = tuple(sorted(contents))
        used = self.stock.used(pods)
        options = self.menu.holds(used)
        if len(self.menu.admitting) > 1:
            for kind, _ in pods:
                options &= self.menu.admitting[self.stock.mask_of[kind]]
        option = lowest_bit(options)
        return Node(option, self.costs[option] if options else 0.0, pods, used)

    def mix(self, counts: Sequence[int], *, roomy: bool = False) -> Mix:
        """Return the fluid answer for some pods that share a mask.

        Args:
            counts: The pods, at least one.
            roomy: Whether to leave out options that do not hold each of the pods; some option must.
        """
        # Several steps ask for the same pods one after the other.
        known, mix = self._last_mixes.get(roomy, ((), None))
        if mix is None or known != tuple(counts):
            mix = self._mix(counts, roomy=roomy)
            self._last_mixes[roomy] = tuple(counts), mix
        return mix

    def _mix(self, counts: Sequence[int], *, roomy: bool) -> Mix:
        stock = self.stock
        total = stock.total(counts)
        nodes, apart = stock.forced_nodes(counts)
        most = total
        if nodes > 1:
            # A large node cannot be filled with pods that must stand apart: it takes its share of them and all others
            # at most, but always the largest pod.
            held = stock.used((kind, counts[kind]) for kind in apart)
            most = [
                max(pod, amount - part + amount // nodes)
                for pod, amount, part in zip(stock.largest(counts), total, held, strict=True)
            ]
        mask = next(stock.mask_of[kind] for kind, count in enumerate(counts) if count)
        aisle = self.aisles[mask]
        if roomy:
            aisle = self._roomy(aisle, present(counts))
        asked = [i for i, amount in enumerate(total) if amount]
        rows = []
        for i in asked:
            scale = 1.0 / total[i]
            rows.append([amount * scale for amount in _cut(aisle.usable[i], most[i])])
        if nodes > 1:
            rows.append([1.0 / nodes] * len(aisle.options))
        mattered = set() if roomy else self._mattered.setdefault(mask, set())
        answer = cover_by_few(rows, aisle.costs, [1.0] * len(rows), mattered)
        mattered.update(answer.amounts)
        duals = [0.0] * len(total)
        for i, price in zip(asked, answer.duals, strict=False):
            duals[i] = price / total[i]
        even = _LEAST_WEIGHT * answer.value
        return Mix(
            value=answer.value,
            amounts={aisle.options[place]: amount for place, amount in answer.amounts.items()},
            duals=duals,
            forced=answer.duals[-1] if nodes > 1 else 0.0,
            total=total,
            weights=[max(price, even / max(1, amount)) for price, amount in zip(duals, total, strict=True)],
            mask=mask,
        )

    def _roomy(self, aisle: Aisle, kinds: int) -> Aisle:
        places = [place for place, option in enumerate(aisle.options) if not kinds & ~self.admits[option]]
        return Aisle(
            [aisle.options[place] for place in places],
            [[column[place] for place in places] for column in aisle.usable],
            [aisle.costs[place] for place in places],
        )

    def by_pay(self, mix: Mix, options: int) -> list[tuple[float, int, float]]:
        """Return what options would pay per dollar if full, the best first, with their number and loss in dollars."""
        aisle = self.aisles[mix.mask]
        worths = [0.0] * len(aisle.options)
        for price, most, column in zip(mix.duals, mix.total, aisle.usable, strict=True):
            if price > 0.0:
                amounts = _cut(column, most)
                worths = [worth + price * amount for worth, amount in zip(worths, amounts, strict=True)]
        found = [
            (worth / cost if cost > 0.0 else float("inf"), option, cost - worth)
            for worth, cost, option in zip(worths, aisle.costs, aisle.options, strict=True)
            if options >> option & 1
        ]
        found.sort(key=lambda entry: (-entry[0], entry[1]))
        return found


def _cut(amounts: Sequence[int], most: int) -> list[int]:
    """Return the amounts, none above the most."""
    return [amount if amount < most else most for amount in amounts]  # noqa: FURB136  three times as fast


def _transposed(rows: Sequence[int], width: int) -> list[int]:
    """Return for each bit the set of rows that have it."""
    if not rows or not width:
        return [0] * width
    # As text, since the interpreter turns rows into columns faster than any loop over bits does.
    digits = [f"{row:0{width}b}" for row in reversed(rows)]
    return [int("".join(column), 2) for column in zip(*digits, strict=True)][::-1]


def _ratios(
    pods: Sequence[tuple[Size, int]], width: int
) -> tuple[list[int], list[tuple[int, int, int, int]]]:
    """Return what pods of the sizes take together, and of one resource at most for so much of another."""
    total = [sum(size[i] * count for size, count in pods) for i in range(width)]
    ratios = [
        (i, j, *_steepest((size[i], size[j]) for size, _ in pods))
        for i in range(width)
        for j in range(width)
        if i != j and all(size[j] for size, _ in pods)
    ]
    return total, ratios


def _steepest(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the pair with the highest ratio, compared without rounding."""
    above, below = 0, 1
    for high, low in pairs:
        if high * below > above * low:
            above, below = high, low
    return above, below


def _reachable(pods: dict[int, int], highest: int) -> tuple[int, int]:
    """Return a step and the multiples of it, as bits, that sums of whole pods reach; no bits if those are too many.

    Args:
        pods: How many pods there are of each amount.
        highest: The highest sum of interest.
    """
    step = gcd(*pods)
    if not step or highest // step >= _REACH_BITS:
        return 1, 0
    window = (2 << highest // step) - 1
    sums = 1
    for amount, count in pods.items():
        missing = count if amount else 0
        lump = 1
        # Lumps of 1, 2, 4, ... pods and the rest make every number of pods.
        while missing and lump * amount <= highest:
            lump = min(lump, missing)
            sums |= sums << lump * amount // step & window
            missing -= lump
            lump *= 2
    return step, sums
