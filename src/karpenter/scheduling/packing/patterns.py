# SPDX-License-Identifier: Apache-2.0
"""Plans by patterns: whole fillings of a node, mixed by a linear program, for few large pods on a node.

A pattern is an option and a number of pods of each size. The program starts with patterns of one size and those of a
plan at hand; its prices then ask for the filling that pays best on each option (a knapsack), until none pays more than
it costs. What comes out is rounded by taking whole patterns again and again and mixing anew for the rest.

The same prices prove a bound: if no filling of any option is worth more than its price, no plan costs less than all
the pods are worth; if one is worth a little more, the bound is lowered in proportion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import mul

from karpenter.scheduling.packing.knapsack import Knapsack
from karpenter.scheduling.packing.market import Market, Node
from karpenter.scheduling.packing.simplex import cover
from karpenter.scheduling.packing.stock import Size

__all__ = ["Patterns"]

# Steps of one knapsack search, knapsacks of one round of pricing, patterns kept of them, and rounds.
_STEPS = 60
_KNAPSACKS = 24
_KEPT = 8
_ROUNDS = 12
# Knapsacks and steps of each for the bound.
_BOUND_KNAPSACKS = 120
_BOUND_STEPS = 120
# How many patterns enter the basis after one round at most.
_PATIENCE = 60
# A pattern must gain more than this; below, rounding could make the program go in circles.
_LEAST_GAIN = 1e-7
_ZERO = 1e-9
# A bound is lowered by this share, more than rounding can add up to.
_SAFETY = 1e-9


class Patterns:
    """The program over patterns of pods that share a mask and have no rules between them."""

    def __init__(self, market: Market, counts: Sequence[int]) -> None:
        self._market = market
        self._kinds = [kind for kind, count in enumerate(counts) if count]
        self._sizes = [market.stock.sizes[kind] for kind in self._kinds]
        self._demand = [counts[kind] for kind in self._kinds]
        mix = market.mix(counts)
        self._weights = mix.weights
        self._options = market.aisles[mix.mask].options
        self._columns: list[Size] = []
        self._option_of: list[int] = []
        self._known: set[Size] = set()
        # The basis: a pattern for each size (-1: more of the size than asked for), the inverse of their matrix, and
        # how much of each is bought.
        self._basis: list[int] = []
        self._inverse: list[list[float]] = []
        self._amounts: list[float] = []
        for place in range(len(self._kinds)):
            self._start_with(place)

    def _start_with(self, place: int) -> None:
        """Put the pattern of one size alone that costs least for a pod into the basis."""
        size = self._sizes[place]
        choices = []
        for option in self._options:
            room = self._market.menu.capacities[option]
            fits = [have // need for have, need in zip(room, size, strict=True) if need]
            number = min([*fits, self._demand[place]])
            if number > 0:
                choices.append((self._market.costs[option] / number, option, number))
        _, option, number = min(choices)
        self._basis.append(
            self._add(option, [number if at == place else 0 for at in range(len(self._kinds))])
        )
        self._inverse.append([1.0 / number if at == place else 0.0 for at in range(len(self._kinds))])
        self._amounts.append(self._demand[place] / number)

    def _add(self, option: int, numbers: Sequence[int]) -> int:
        """Keep a pattern; return its place, -1 if it is known."""
        key = tuple(numbers)
        if key in self._known:
            return -1
        self._known.add(key)
        self._columns.append(key)
        self._option_of.append(option)
        return len(self._columns) - 1

    def learn(self, nodes: Iterable[Node]) -> None:
        """Take the nodes of a plan as patterns."""
        fresh = []
        for node in nodes:
            held = dict(node.contents)
            fresh.append(self._add(node.option, [held.get(kind, 0) for kind in self._kinds]))
        self._improve([column for column in fresh if column >= 0])

    def generate(self, expired: Callable[[], bool]) -> None:
        """Look for better patterns until there are none, the rounds are over, or time is up."""
        for _ in range(_ROUNDS):
            if expired():
                break
            priced = sorted(self._priced([max(0.0, price) for price in self._prices()]))
            fresh = [self._add(option, numbers) for _, option, numbers in priced[:_KEPT]]
            fresh = [column for column in fresh if column >= 0]
            if not fresh:
                break
            self._improve(fresh)

    def _prices(self) -> list[float]:
        """Return what one pod of each size is worth by the basis."""
        costs = [self._cost(column) if column >= 0 else 0.0 for column in self._basis]
        return [sum(map(mul, costs, column)) for column in zip(*self._inverse, strict=True)]

    def _cost(self, column: int) -> float:
        return self._market.costs[self._option_of[column]]

    def _priced(self, prices: Sequence[float]) -> list[tuple[float, int, Size]]:
        """Return fillings worth more than they cost, each with its gain, negated, and option."""
        knapsack = Knapsack(self._sizes, prices, self._demand, self._weights)
        rooms = self._market.menu.capacities
        costs = self._market.costs
        hopes = sorted((costs[option] - knapsack.hope(rooms[option]), option) for option in self._options)
        found: list[tuple[float, int, Size]] = []
        best = -_LEAST_GAIN
        for hope, option in hopes[:_KNAPSACKS]:
            # Half of the best gain is enough to be worth a look: several patterns enter at once.
            if hope >= best / 2.0:
                break
            filling = knapsack.fill(rooms[option], _STEPS)
            gain = costs[option] - filling.worth
            if gain < -_LEAST_GAIN:
                found.append((gain, option, knapsack.numbers(filling)))
                best = min(best, gain)
        return found

    def _improve(self, fresh: Sequence[int]) -> None:
        """Let patterns enter the basis, the one that gains most first, until none gains or patience ends."""
        for _ in range(_PATIENCE):
            prices = self._prices()
            lowest = min(prices)
            if lowest < -_ZERO:
                # More of a size than asked for is allowed: its surplus enters.
                place = prices.index(lowest)
                self._enter(-1, [-1 if at == place else 0 for at in range(len(prices))])
                continue
            gains = [
                (self._cost(column) - sum(map(mul, prices, self._columns[column])), column)
                for column in fresh
            ]
            gain, column = min(gains, default=(0.0, -1))
            if gain > -_LEAST_GAIN:
                break
            self._enter(column, self._columns[column])

    def _enter(self, column: int, numbers: Sequence[int]) -> None:
        """Let a column enter the basis in place of the one that first runs out."""
        change = [sum(map(mul, row, numbers)) for row in self._inverse]
        step, leaving = min(
            (amount / rate, place)
            for place, (amount, rate) in enumerate(zip(self._amounts, change, strict=True))
            if rate > _ZERO
        )
        pivot = [value / change[leaving] for value in self._inverse[leaving]]
        for place, rate in enumerate(change):
            if place != leaving:
                row = self._inverse[place]
                self._inverse[place] = [value - rate * other for value, other in zip(row, pivot, strict=True)]
                self._amounts[place] -= rate * step
        self._inverse[leaving] = pivot
        self._amounts[leaving] = step
        self._basis[leaving] = column

    def dive(self) -> list[Node]:
        """Return whole nodes for all the pods: whole patterns are taken, and the rest is mixed anew."""
        left = list(self._demand)
        nodes: list[Node] = []
        while any(left):
            cut: dict[Size, Node] = {}
            for column in self._columns:
                numbers = tuple(map(min, column, left))
                if any(numbers) and numbers not in cut:
                    cut[numbers] = self._market.close(
                        (kind, number) for kind, number in zip(self._kinds, numbers, strict=True) if number
                    )
            choices = list(cut)
            rows = [
                [numbers[place] / amount for numbers in choices]
                for place, amount in enumerate(left)
                if amount
            ]
            amounts = cover(rows, [cut[numbers].cost for numbers in choices], [1.0] * len(rows)).amounts
            whole = {place: int(amount + _ZERO) for place, amount in amounts.items() if amount + _ZERO >= 1.0}
            if not whole:
                whole = {max(amounts, key=lambda place: (amounts[place], -place)): 1}
            for place, times in whole.items():
                numbers = choices[place]
                fits = [amount // need for amount, need in zip(left, numbers, strict=True) if need]
                number = min([*fits, times])
                nodes += [cut[numbers]] * number
                left = [amount - need * number for amount, need in zip(left, numbers, strict=True)]
        return nodes

    def bound(self) -> float:
        """Return a price that no nodes holding the pods are below."""
        worths = [max(0.0, price) for price in self._prices()]
        knapsack = Knapsack(self._sizes, worths, self._demand, self._weights)
        prices = self._market.menu.prices
        rooms = self._market.menu.capacities
        hopes = sorted(
            (-knapsack.hope(rooms[option]) / max(_ZERO, prices[option]), option) for option in self._options
        )
        overpaid = 1.0
        for looks, (hope, option) in enumerate(hopes):
            if -hope <= overpaid:
                break
            if looks == _BOUND_KNAPSACKS:
                overpaid = -hope
                break
            filling = knapsack.fill(rooms[option], _BOUND_STEPS)
            overpaid = max(overpaid, filling.bound / max(_ZERO, prices[option]))
        worth: float = sum(map(mul, worths, self._demand))
        return worth / overpaid * (1.0 - _SAFETY)
