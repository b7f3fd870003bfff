# SPDX-License-Identifier: Apache-2.0
"""Fills one node: which pods, of those left, leave the least of it unused.

Sizes and room are turned into dollars by weights for each resource. Again and again the size enters that leaves the
shortest vector of room: what is left of a scarce resource weighs more, and a node with much memory draws pods that
want much. Sizes are compared by cells (see the stock), so that the work does not grow with the number of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul, sub

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling.packing.rules import NodeRules
from karpenter.scheduling.packing.stock import Stock

__all__ = ["Filler"]

# How many sizes of a cell are tried before the whole cell counts as too large.
_PROBES = 5
# Of a size that fits n times, n / 4 pods enter at once: the mix stays even, and large nodes fill in few steps.
_SHARE = 4


# How often a pod that takes nothing fits.
_PLENTY = 1 << 30


class Filler:
    """Fills nodes with pods of a stock by one set of weights, in dollars per unit of each resource."""

    __slots__ = ("_norms", "_products", "_stock", "_vectors", "_weights")

    def __init__(self, stock: Stock, weights: Sequence[float]) -> None:
        self._stock = stock
        self._weights = weights
        self._vectors = [list(map(mul, stock.sizes[lowest_bit(kinds)], weights)) for kinds in stock.cells]
        self._norms = [sum(map(mul, vector, vector)) for vector in self._vectors]
        self._products: list[list[float] | None] = [None] * len(self._vectors)

    def fill(self, room: Sequence[int], allowed: int, left: Sequence[int], node: NodeRules) -> dict[int, int]:
        """Return the pods to put into the room, as numbers by kind.

        Args:
            room: What is free, by resource.
            allowed: The kinds that may enter and of which pods are left.
            left: How many pods of each kind are left.
            node: The host rules' view of the node; brought up to date.
        """
        stock = self._stock
        rules = stock.rules
        cells = stock.cells
        dollars = list(map(mul, room, self._weights))
        least = stock.least
        active = [
            cell
            for cell, kinds in enumerate(cells)
            if allowed & kinds and min(map(sub, room, least[cell])) >= 0
        ]
        # The squared length of the room that one pod of the cell would leave, less what is common to all cells.
        scores = [self._norms[cell] - 2.0 * sum(map(mul, dollars, self._vectors[cell])) for cell in active]
        placed: dict[int, int] = {}
        smallest = [min(amounts) for amounts in zip(*(least[cell] for cell in active), strict=True)]
        while active and min(map(sub, room, smallest)) >= 0:
            place = scores.index(min(scores))
            cell = active[place]
            kind, fits, refused = self._pick(allowed & cells[cell], room)
            allowed &= ~refused
            if not fits:
                del active[place], scores[place]
                continue
            held = placed.get(kind, 0)
            number = min(fits // _SHARE or 1, left[kind] - held)
            if rules.binding >> kind & 1:
                number = min(number, rules.most(node, kind))
                allowed &= ~rules.enter(node, kind, number)
            placed[kind] = held + number
            if held + number == left[kind]:
                allowed &= ~(1 << kind)
            room = [have - need * number for have, need in zip(room, stock.sizes[kind], strict=True)]
            products = self._products[cell] or self._multiply(cell)
            twice = 2.0 * number
            scores = [score + twice * products[other] for score, other in zip(scores, active, strict=True)]
        return placed

    def _pick(self, kinds: int, room: Sequence[int]) -> tuple[int, int, int]:
        """Return the first of the kinds that fits, how often it does, and the kinds found too large."""
        sizes = self._stock.sizes
        refused = 0
        for _ in range(_PROBES):
            if not kinds:
                break
            kind = (kinds & -kinds).bit_length() - 1
            fits = min(
                [have // need for have, need in zip(room, sizes[kind], strict=True) if need], default=_PLENTY
            )
            if fits:
                return kind, fits, refused
            twins = self._stock.twins[kind]
            refused |= twins
            kinds &= ~twins
        return -1, 0, refused

    def _multiply(self, cell: int) -> list[float]:
        vector = self._vectors[cell]
        products = self._products[cell] = [sum(map(mul, vector, other)) for other in self._vectors]
        return products
