# SPDX-License-Identifier: Apache-2.0
"""Fills one node with the pods of the highest total worth, by depth-first search with a bound.

The bound is what the room would be worth if every unit of a resource were paid as well as by the best pod: the least
of that over all resources, and over their sum by given weights, which is the sharpest where several are scarce.

The search stops after a fixed number of steps. What it has then is still a filling, and the bound it returns is still
one that no filling exceeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul, sub

from karpenter.scheduling.packing.stock import Size

__all__ = ["Filling", "Knapsack"]

# A gain below this is rounding.
_ZERO = 1e-12
_ENDLESS = float("inf")


class Knapsack:
    """Sizes of pods with their worths and numbers, for filling many rooms.

    Sizes that pay best, by weight, come first, since they are tried first.
    """

    def __init__(
        self, sizes: Sequence[Size], worths: Sequence[float], counts: Sequence[int], weights: Sequence[float]
    ) -> None:
        self._weights = weights
        weighed = [sum(map(mul, weights, size)) for size in sizes]
        pay = [_rate(worth, weight) for worth, weight in zip(worths, weighed, strict=True)]
        self._order = sorted(range(len(sizes)), key=lambda place: (-pay[place], place))
        self.sizes = [(*sizes[place], weighed[place]) for place in self._order]
        self.worths = [worths[place] for place in self._order]
        self.counts = [counts[place] for place in self._order]
        self._fitting_rates: dict[tuple[int, ...], list[float]] = {}
        # For each place in the order, and each resource: the best pay for a unit among the sizes from there on.
        self.rates: list[list[float]] = [[0.0] * (len(weights) + 1)]
        for size, worth in zip(reversed(self.sizes), reversed(self.worths), strict=True):
            rates = [_rate(worth, amount) for amount in size]
            self.rates.insert(0, list(map(max, rates, self.rates[0])))
        self._all_bound = max(self.rates[0]) < _ENDLESS

    def hope(self, room: Sequence[int]) -> float:
        """Return a worth that no filling of the room exceeds; only sizes that fit at all count."""
        fitting = tuple(place for place, size in enumerate(self.sizes) if min(map(sub, room, size)) >= 0)
        if fitting not in self._fitting_rates:
            rates = [0.0] * (len(room) + 1)
            for place in fitting:
                rates = list(
                    map(max, rates, (_rate(self.worths[place], amount) for amount in self.sizes[place]))
                )
            self._fitting_rates[fitting] = rates
        return self.at_best(self._weighed(room), self._fitting_rates[fitting])

    def at_best(self, room: Sequence[float], rates: Sequence[float]) -> float:
        """Return what a room is worth at best; a resource that some pod pays for without taking any sets no bound."""
        if self._all_bound:
            hope: float = min(map(mul, room, rates))
            return hope
        bounds = [have * rate for have, rate in zip(room, rates, strict=True) if rate < _ENDLESS]
        return min(bounds, default=_ENDLESS)

    def _weighed(self, room: Sequence[int]) -> list[float]:
        return [*room, sum(map(mul, self._weights, room))]

    def fill(self, room: Sequence[int], steps: int) -> Filling:
        """Return the best filling of the room that so many steps find."""
        filling = Filling(self, steps)
        filling.search(0, self._weighed(room), 0.0)
        return filling

    def numbers(self, filling: Filling) -> Size:
        """Return how many pods of each size a filling has, in the order in which sizes were given."""
        found = dict(zip(self._order, filling.numbers, strict=True))
        return tuple(found[place] for place in range(len(found)))


class Filling:
    """A search for the best filling, and what it found.

    Attributes:
        worth: What the best filling is worth.
        numbers: How many pods of each size it has, sizes in the knapsack's order.
        bound: A worth that no filling exceeds.
    """

    def __init__(self, knapsack: Knapsack, steps: int) -> None:
        self._knapsack = knapsack
        self._steps = steps
        self._now = [0] * len(knapsack.sizes)
        self.worth = 0.0
        self.numbers = list(self._now)
        self.bound = 0.0

    def search(self, place: int, room: Sequence[float], worth: float) -> None:
        """Decide how many pods of the size at a place to take, and of all sizes after it."""
        if worth > self.worth + _ZERO:
            self.worth = worth
            self.numbers = list(self._now)
            self.bound = max(self.bound, worth)
        knapsack = self._knapsack
        hope = worth + knapsack.at_best(room, knapsack.rates[place])
        if hope <= self.worth + _ZERO:
            return
        self._steps -= 1
        if self._steps < 0:
            self.bound = max(self.bound, hope)
            return
        size = knapsack.sizes[place]
        # The last amount is the weighed sum: it is no resource, and rounded.
        fits = [have // need for have, need in zip(room[:-1], size[:-1], strict=True) if need]
        for number in range(int(min([*fits, knapsack.counts[place]])), -1, -1):
            self._now[place] = number
            left = list(map(sub, room, [amount * number for amount in size]))
            self.search(place + 1, left, worth + knapsack.worths[place] * number)


def _rate(worth: float, amount: float) -> float:
    """Return the pay for a unit; without end for a pod that pays and takes none."""
    if worth <= 0.0:
        return 0.0
    return worth / amount if amount > 0 else _ENDLESS
