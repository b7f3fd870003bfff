# SPDX-License-Identifier: Apache-2.0
"""A small dense dual simplex with upper bounds: how much of each column, at most so much, covers every row's demand.

Minimise ``costs . x`` where each row's sum of ``amount * x`` is at least its demand and ``0 <= x <= bound``. A column
at its bound is looked at from the other end (``bound - x``), so that its cost, whatever its sign, never makes the
start unfit: columns that earn begin at their bound. The prices of the rows are valid whenever the search stops.

Made for some dozens of rows and some hundred columns. Rows should be scaled so that demands are near one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Answer", "minimise"]

_ZERO = 1e-9
_ENDLESS = float("inf")


@dataclass(frozen=True, slots=True)
class Answer:
    """How much of each column, and the price of each row; ``met`` tells whether all demands are met."""

    amounts: list[float]
    duals: list[float]
    met: bool


def minimise(
    rows: Sequence[Sequence[float]],
    costs: Sequence[float],
    demands: Sequence[float],
    bounds: Sequence[float],
    pivots: int,
) -> Answer:
    """Return the cheapest cover.

    Args:
        rows: For each row its amount in every column.
        costs: What one of each column costs; a cost below zero needs a finite bound.
        demands: What each row must reach.
        bounds: How much of each column there is at most; infinite for no bound.
        pivots: After so many steps the search gives up.
    """
    table = _Table(rows, costs, demands, bounds)
    met = False
    for _ in range(pivots):
        leaving = table.furthest_off()
        if leaving < 0:
            met = True
            break
        entering = table.cheapest_help(leaving)
        if entering < 0:
            break
        table.exchange(leaving, entering)
    return table.answer(met=met)


class _Table:
    """Each row says: basic variable = right side - row . nonbasic variables, all of which are zero."""

    def __init__(
        self,
        rows: Sequence[Sequence[float]],
        costs: Sequence[float],
        demands: Sequence[float],
        bounds: Sequence[float],
    ) -> None:
        self._count = len(costs)
        self._rows = [[-amount for amount in row] for row in rows]
        self._right = [-demand for demand in demands]
        self._reduced = list(costs)
        self._columns = list(range(self._count))
        self._basis = list(range(self._count, self._count + len(rows)))
        self._bounds = [*bounds, *([_ENDLESS] * len(rows))]
        # Variables that are counted down from their bound.
        self._turned = [False] * len(self._bounds)
        for column, cost in enumerate(costs):
            if cost < 0.0:
                self._turn_column(column)

    def _turn_column(self, column: int) -> None:
        name = self._columns[column]
        bound = self._bounds[name]
        for i, row in enumerate(self._rows):
            self._right[i] -= row[column] * bound
            row[column] = -row[column]
        self._reduced[column] = -self._reduced[column]
        self._turned[name] = not self._turned[name]

    def furthest_off(self) -> int:
        """Return the row whose variable is furthest out of its bounds, above them turned round; -1 if none is."""
        worst, found = -_ZERO, -1
        for i, (value, name) in enumerate(zip(self._right, self._basis, strict=True)):
            off = min(value, self._bounds[name] - value)
            if off < worst:
                worst, found = off, i
        if found >= 0 and self._right[found] > 0.0:
            name = self._basis[found]
            self._rows[found] = [-value for value in self._rows[found]]
            self._right[found] = self._bounds[name] - self._right[found]
            self._turned[name] = not self._turned[name]
        return found

    def cheapest_help(self, leaving: int) -> int:
        """Return the column that helps a row for the least cost; -1 if none helps."""
        row = self._rows[leaving]
        best, found = _ENDLESS, -1
        for column, value in enumerate(row):
            if value < -_ZERO:
                ratio = self._reduced[column] / -value
                if ratio < best or (ratio == best and self._columns[column] < self._columns[found]):
                    best, found = ratio, column
        return found

    def exchange(self, leaving: int, entering: int) -> None:
        """Let the variable of a column take the place of that of a row."""
        pivot_row = self._rows[leaving]
        inverse = 1.0 / pivot_row[entering]
        pivot_row = [value * inverse for value in pivot_row]
        pivot_row[entering] = inverse
        self._rows[leaving] = pivot_row
        step = self._right[leaving] = self._right[leaving] * inverse
        for i, row in enumerate(self._rows):
            factor = row[entering]
            if i != leaving and factor != 0.0:
                row[entering] = 0.0
                self._rows[i] = [value - factor * pivot for value, pivot in zip(row, pivot_row, strict=True)]
                self._right[i] -= factor * step
        factor = self._reduced[entering]
        self._reduced[entering] = 0.0
        self._reduced = [
            max(0.0, value - factor * pivot) for value, pivot in zip(self._reduced, pivot_row, strict=True)
        ]
        names = self._columns[entering], self._basis[leaving]
        self._basis[leaving], self._columns[entering] = names

    def answer(self, *, met: bool) -> Answer:
        """Return what the table says now."""
        values = [0.0] * len(self._bounds)
        for value, name in zip(self._right, self._basis, strict=True):
            values[name] = value
        amounts = [
            self._bounds[name] - values[name] if self._turned[name] else values[name]
            for name in range(self._count)
        ]
        duals = [0.0] * len(self._rows)
        for price, name in zip(self._reduced, self._columns, strict=True):
            if name >= self._count:
                duals[name - self._count] = price
        return Answer(amounts, duals, met)
