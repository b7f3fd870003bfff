# SPDX-License-Identifier: Apache-2.0
"""Fills one node: which pods, of those left, leave the least of it unused.

Sizes and room are turned into dollars by weights for each resource. Again and again the size enters that leaves the
shortest vector of room: what is left of a scarce resource weighs more, and a node with much memory draws pods that
want much. Sizes are compared by cells (see the stock), so that the work does not grow with the number of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, floordiv, mul, sub

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

    __slots__ = ("_columns", "_doubled", "_norms", "_starts", "_stock", "_vectors", "_weights")

    def __init__(self, stock: Stock, weights: Sequence[float]) -> None:
        self._stock = stock
        self._weights = weights
        self._vectors = [list(map(mul, size, weights)) for size in stock.cell_sizes]
        self._norms = [sum(map(mul, vector, vector)) for vector in self._vectors]
        self._columns = list(zip(*self._vectors, strict=True))
        self._doubled: list[list[float] | None] = [None] * len(self._vectors)
        self._starts: dict[tuple[int, ...], list[float]] = {}

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
        start = self._start(tuple(room))
        scores = [score if allowed & kinds else _NEVER for score, kinds in zip(start, cells, strict=True)]
        placed: dict[int, int] = {}
        while (lowest := min(scores)) < _NEVER:
            cell = scores.index(lowest)
            kind, fits, refused = self._pick(allowed & cells[cell], room)
            if not fits:
                scores[cell] = _NEVER
                if refused:
                    # Where one size is too large by now, others are: they go together.
                    allowed &= ~refused
                    scores = self._fitting(scores, room)
                continue
            held = placed.get(kind, 0)
            number = min(fits // _SHARE or 1, left[kind] - held)
            if rules.binding >> kind & 1:
                number = min(number, rules.most(node, kind))
                allowed &= ~rules.enter(node, kind, number)
            placed[kind] = held + number
            if held + number == left[kind]:
                allowed &= ~(1 << kind)
            allowed &= ~refused
            doubled = self._doubled[cell] or self._multiply(cell)
            if number == 1:
                room = list(map(sub, room, stock.sizes[kind]))
                scores = list(map(add, scores, doubled))
            else:
                room = [have - need * number for have, need in zip(room, stock.sizes[kind], strict=True)]
                scores = [score + number * product for score, product in zip(scores, doubled, strict=True)]
        return placed

    def _start(self, room: tuple[int, ...]) -> list[float]:
        """Return how well a pod of each cell suits an empty room: the less, the better.

        The score is the squared length of the room that the pod would leave, less what is common to all cells. Many
        nodes have the same room, so it is kept.
        """
        known = self._starts.get(room)
        if known is None:
            known = self._norms
            columns = zip(self._columns, self._stock.least, strict=True)
            for have, weight, (column, least) in zip(room, self._weights, columns, strict=True):
                twice = 2.0 * weight * have
                known = [
                    _NEVER if amount > have else score - twice * dollars
                    for score, dollars, amount in zip(known, column, least, strict=True)
                ]
            self._starts[room] = known
        return known

    def _fitting(self, scores: list[float], room: Sequence[int]) -> list[float]:
        """Return the scores without those of cells of which no pod fits the room."""
        for have, column in zip(room, self._stock.least, strict=True):
            scores = [_NEVER if least > have else score for score, least in zip(scores, column, strict=True)]
        return scores

    def _pick(self, kinds: int, room: Sequence[int]) -> tuple[int, int, int]:
        """Return the first of the kinds that fits, how often it does, and the kinds found too large."""
        sizes = self._stock.sizes
        has_zeros = self._stock.has_zeros
        refused = 0
        for _ in range(_PROBES):
            if not kinds:
                break
            kind = (kinds & -kinds).bit_length() - 1
            if has_zeros:
                pairs = zip(room, sizes[kind], strict=True)
                fits = min([have // need for have, need in pairs if need], default=_PLENTY)
            else:
                fits = min(map(floordiv, room, sizes[kind]))
            if fits:
                return kind, fits, refused
            twins = self._stock.twins[kind]
            refused |= twins
            kinds &= ~twins
        return -1, 0, refused

    def _multiply(self, cell: int) -> list[float]:
        """Return by how much the scores of all cells rise when a pod of this one has entered."""
        doubled = [0.0] * len(self._vectors)
        for part, column in zip(self._vectors[cell], self._columns, strict=True):
            twice = 2.0 * part
            doubled = [rise + twice * amount for rise, amount in zip(doubled, column, strict=True)]
        self._doubled[cell] = doubled
        return doubled
