# SPDX-License-Identifier: Apache-2.0
"""A small dense dual simplex for covering problems: the cheapest mix of columns that meets every row's demand.

Minimise ``costs . x`` where each row's sum of ``amount * x`` is at least its demand and ``x`` is not negative. With
costs that are not negative the empty basis is dual feasible, so no first phase is needed, and the prices of the rows
are valid at every step: whatever stops the search, ``duals`` prove a lower bound (see ``proven_value``).

Made for a handful of rows and some hundred columns. Rows should be scaled so that demands are near one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

__all__ = ["Cover", "cover", "cover_by_few", "proven_value"]

# Below this a number counts as zero; rows are scaled to demands near one.
_ZERO = 1e-9
_ENDLESS = float("inf")
# A bound is lowered by this share, more than rounding can add up to in sums of a few terms.
_SAFETY = 1e-9
# Few columns matter: so many for each row to begin with, and so many more at a time.
_FIRST_COLUMNS = 4
_MORE_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class Cover:
    """The answer: cost, how much of each column (those not zero), the price of each row.

    ``met`` tells whether all demands are met; if not, they cannot be (or the search gave up), and only the duals mean
    anything.
    """

    value: float
    amounts: dict[int, float]
    duals: list[float]
    met: bool


def cover(
    rows: Sequence[Sequence[float]], costs: Sequence[float], demands: Sequence[float], *, pivots: int = 0
) -> Cover:
    """Return the cheapest cover of the demands.

    Args:
        rows: For each row its amount in every column.
        costs: What one of each column costs, not negative.
        demands: What each row must reach.
        pivots: After so many steps the search turns careful, which cannot go in circles but is slow; after as many
            more it gives up. Zero leaves it to the number of rows.
    """
    count = len(costs)
    # Each table row says: basic variable = right side - table . nonbasic variables. A column that enters the basis
    # leaves its place in the table to the slack it replaces, so the table never grows.
    table = [[-amount for amount in row] for row in rows]
    right = [-demand for demand in demands]
    reduced = list(costs)
    column_names = list(range(count))
    row_names = list(range(count, count + len(rows)))
    patience = pivots or 20 + 10 * len(rows)
    for step in range(2 * patience):
        leaving = _leaving_row(right, row_names, careful=step >= patience)
        entering = _entering_column(table[leaving], reduced, column_names) if leaving >= 0 else -1
        if entering < 0:
            break
        _pivot(table, right, reduced, leaving, entering)
        row_names[leaving], column_names[entering] = column_names[entering], row_names[leaving]
    amounts = {name: right[i] for i, name in enumerate(row_names) if name < count and right[i] > _ZERO}
    duals = [0.0] * len(rows)
    for price, name in zip(reduced, column_names, strict=True):
        if name >= count and price > 0.0:
            duals[name - count] = price
    return Cover(
        value=sum(costs[name] * amount for name, amount in amounts.items()),
        amounts=dict(sorted(amounts.items())),
        duals=duals,
        met=min(right, default=0.0) >= -_ZERO,
    )


def cover_by_few(
    rows: Sequence[Sequence[float]],
    costs: Sequence[float],
    demands: Sequence[float],
    first: Iterable[int] = (),
    *,
    turns: int = 0,
) -> Cover:
    """Return the cheapest cover, worked out over the few columns that matter.

    Columns that the prices overpay join those that were looked at first.

    Args:
        rows: For each row its amount in every column.
        costs: What one of each column costs, not negative.
        demands: What each row must reach.
        first: Columns that may matter. If left out: for each row some that give most of it for their cost.
        turns: So often at most columns join; the prices may overpay some then. Zero for as often as needed.
    """
    columns = set(first)
    for row in rows if not columns else ():
        pay = [-amount / max(_ZERO, cost) for amount, cost in zip(row, costs, strict=True)]
        columns.update(sorted(range(len(pay)), key=pay.__getitem__)[:_FIRST_COLUMNS])
    while True:
        chosen = sorted(columns)
        answer = cover(
            [[row[column] for column in chosen] for row in rows],
            [costs[column] for column in chosen],
            demands,
        )
        if not answer.met:
            # Prices say nothing about which columns would help.
            return cover(rows, costs, demands)
        worths = _worths(rows, answer.duals, len(costs))
        overpaid = [
            (cost - worth, column)
            for column, (cost, worth) in enumerate(zip(costs, worths, strict=True))
            if worth > cost * (1.0 + _ZERO) and column not in columns
        ]
        turns -= 1
        if not overpaid or not turns:
            amounts = {chosen[place]: amount for place, amount in answer.amounts.items()}
            return replace(answer, amounts=amounts)
        columns.update(column for _, column in sorted(overpaid)[:_MORE_COLUMNS])


def proven_value(
    rows: Sequence[Sequence[float]],
    costs: Sequence[float],
    demands: Sequence[float],
    duals: Sequence[float],
) -> float:
    """Return a cost that no cover is below, whatever the duals are.

    The duals are shrunk until they overpay no column; rounding in the search can then only make the bound weaker.
    """
    overpaid = 1.0
    for worth, cost in zip(_worths(rows, duals, len(costs)), costs, strict=True):
        if worth > cost * overpaid:
            if cost <= 0.0:
                return 0.0
            overpaid = worth / cost
    total = sum(price * demand for price, demand in zip(duals, demands, strict=True))
    return max(0.0, total / overpaid * (1.0 - _SAFETY))


def _worths(rows: Sequence[Sequence[float]], duals: Sequence[float], count: int) -> list[float]:
    """Return what each column is worth by the prices of the rows."""
    worths = [0.0] * count
    for row, price in zip(rows, duals, strict=True):
        if price > 0.0:
            worths = [worth + price * amount for worth, amount in zip(worths, row, strict=True)]
    return worths


def _leaving_row(right: Sequence[float], names: Sequence[int], *, careful: bool) -> int:
    """Return the row furthest below its demand; when careful, the unmet row of least name, which cannot cycle."""
    if careful:
        unmet = [(names[i], i) for i, value in enumerate(right) if value < -_ZERO]
        return min(unmet)[1] if unmet else -1
    lowest = min(right, default=0.0)
    return right.index(lowest) if lowest < -_ZERO else -1


def _entering_column(row: Sequence[float], reduced: Sequence[float], names: Sequence[int]) -> int:
    """Return the column that helps the row for the least cost, ties by name; -1 if none helps."""
    ratios = [cost / -value if value < -_ZERO else _ENDLESS for cost, value in zip(reduced, row, strict=True)]
    least = min(ratios, default=_ENDLESS)
    if least == _ENDLESS:
        return -1
    if ratios.count(least) == 1:
        return ratios.index(least)
    return min((names[column], column) for column, ratio in enumerate(ratios) if ratio == least)[1]


def _pivot(
    table: list[list[float]], right: list[float], reduced: list[float], leaving: int, entering: int
) -> None:
    """Exchange the basic variable of a row with the nonbasic one of a column."""
    pivot_row = table[leaving]
    inverse = 1.0 / pivot_row[entering]
    pivot_row = [value * inverse for value in pivot_row]
    pivot_row[entering] = inverse
    table[leaving] = pivot_row
    step = right[leaving] * inverse
    right[leaving] = step
    for i, row in enumerate(table):
        factor = row[entering]
        if i == leaving or factor == 0.0:
            continue
        row[entering] = 0.0
        table[i] = [value - factor * pivot for value, pivot in zip(row, pivot_row, strict=True)]
        right[i] -= factor * step
    factor = reduced[entering]
    if factor != 0.0:
        reduced[entering] = 0.0
        reduced[:] = [value - factor * pivot for value, pivot in zip(reduced, pivot_row, strict=True)]
