# SPDX-License-Identifier: Apache-2.0
"""Fills one node: which pods, of those left, leave the least of it unused.

Sizes and room are turned into dollars by weights for each resource. Again and again the size enters that leaves the
shortest vector of room: what is left of a scarce resource weighs more, and a node with much memory draws pods that
want much. Sizes are compared by cells (see the stock), so that the work does not grow with the number of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import add, mul, sub

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
# The score of a cell that has nothing for the room.
_NEVER = float("inf")


class Filler:
    """Fills nodes with pods of a stock by one set of weights, in dollars per unit of each resource."""

    __slots__ = ("_doubled", "_norms", "_starts", "_stock", "_vectors", "_weights")

    def __init__(self, stock: Stock, weights: Sequence[float]) -> None:
        self._stock = stock
        self._weights = weights
        self._vectors = [list(map(mul, stock.sizes[lowest_bit(kinds)], weights)) for kinds in stock.cells]
        self._norms = [sum(map(mul, vector, vector)) for vector in self._vectors]
        self._doubled: list[list[float] | None] = [None] * len(self._vectors)
        self._starts: dict[tuple[int, ...], tuple[list[float], list[int]]] = {}

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
        start, smallest = self._start(tuple(room))
        scores = [score if allowed & kinds else _NEVER for score, kinds in zip(start, cells, strict=True)]
        placed: dict[int, int] = {}
        while (lowest := min(scores)) < _NEVER:
            cell = scores.index(lowest)
            kind, fits, refused = self._pick(allowed & cells[cell], room)
            allowed &= ~refused
            if not fits:
                scores[cell] = _NEVER
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
            if min(map(sub, room, smallest)) < 0:
                break
            doubled = self._doubled[cell] or self._multiply(cell)
            if number == 1:
                scores = list(map(add, scores, doubled))
            else:
                scores = [score + number * product for score, product in zip(scores, doubled, strict=True)]
        return placed

    def _start(self, room: tuple[int, ...]) -> tuple[list[float], list[int]]:
        """Return how well a pod of each cell suits an empty room, and the least that any that fits takes.

        The score is the squared length of the room that the pod would leave, less what is common to all cells. Many
        nodes have the same room, so it is kept.
        """
        known = self._starts.get(room)
        if known is None:
            dollars = list(map(mul, room, self._weights))
            least = self._stock.least
            fitting = [min(map(sub, room, amounts)) >= 0 for amounts in least]
            scores = [
                norm - 2.0 * sum(map(mul, dollars, vector)) if fits else _NEVER
                for fits, norm, vector in zip(fitting, self._norms, self._vectors, strict=True)
            ]
            smallest = [min(column) for column in zip(*compress(least, fitting), strict=True)]
            known = self._starts[room] = scores, smallest
        return known

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
        doubled = self._doubled[cell] = [2.0 * sum(map(mul, vector, other)) for other in self._vectors]
        return doubled
