# SPDX-License-Identifier: Apache-2.0
"""A covering linear program whose columns are too many to write down: what is each row worth at the optimum?

Rows ask to be covered once; a column covers some rows by some amount at a cost. Instead of all columns, the
caller gives a function that finds the best one for given worths of the rows (revised simplex with column
generation). Arithmetic is in floats: whoever needs certainty checks the worths that come back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import mul
from typing import Final, NamedTuple

__all__ = ["Column", "row_worths"]

_TOLERANCE: Final = 1e-9
# Rows of exactly equal weight make steps of length zero, and those can go round in circles.
_PERTURBATION: Final = 1e-7


class Column(NamedTuple):
    """What some amount of one thing covers (row index to amount), and what that costs."""

    cost: float
    covers: Mapping[int, float]


def row_worths(
    single_costs: Sequence[float],
    best_column: Callable[[Sequence[float]], Column],
    *,
    most_steps: int | None = None,
) -> list[float]:
    """Return the worth of each row at the optimum; their sum is the least cost of covering every row once.

    Args:
        single_costs: for each row, what it costs to cover this row alone. Each must be attainable by a
            column whose other rows are ignored.
        best_column: for given worths (never negative), the column with the highest worth per cost.
        most_steps: when to give up; the worths are then those of the best cover found, and too high.
    """
    size = len(single_costs)
    basis_costs = list(single_costs)
    # The inverse of the basis, row by row; at first each row is covered alone.
    inverse = [[float(i == j) for j in range(size)] for i in range(size)]
    amounts = [1 + _PERTURBATION * (i + 1) / size for i in range(size)]
    steps = 200 + 50 * size if most_steps is None else most_steps
    worths = _worths(basis_costs, inverse)
    for _ in range(steps):
        column = _spare(worths) or best_column([max(0.0, worth) for worth in worths])
        worth = sum(worths[row] * amount for row, amount in column.covers.items())
        if worth <= column.cost * (1 + _TOLERANCE):
            break
        direction = [sum(line[row] * amount for row, amount in column.covers.items()) for line in inverse]
        leaving = _leaving(amounts, direction)
        _pivot(inverse, amounts, direction, leaving)
        basis_costs[leaving] = column.cost
        worths = _worths(basis_costs, inverse)
    return [max(0.0, worth) for worth in worths]


def _worths(basis_costs: Sequence[float], inverse: Sequence[Sequence[float]]) -> list[float]:
    """Return costs times inverse."""
    return [sum(map(mul, basis_costs, line)) for line in zip(*inverse, strict=True)]


def _spare(worths: Sequence[float]) -> Column | None:
    """Return the column that gives up some of a row that costs more than it brings, if there is one."""
    row = min(range(len(worths)), key=worths.__getitem__)
    return Column(0.0, {row: -1.0}) if worths[row] < -_TOLERANCE else None


def _leaving(amounts: Sequence[float], direction: Sequence[float]) -> int:
    """Return which basis column is used up first when the new one enters."""
    ratios = [
        (amount / change, i)
        for i, (amount, change) in enumerate(zip(amounts, direction, strict=True))
        if change > _TOLERANCE
    ]
    return min(ratios)[1]


def _pivot(
    inverse: list[list[float]], amounts: list[float], direction: Sequence[float], leaving: int
) -> None:
    """Exchange one basis column, in place."""
    scale = direction[leaving]
    inverse[leaving] = [value / scale for value in inverse[leaving]]
    amounts[leaving] /= scale
    entered, entered_amount = inverse[leaving], amounts[leaving]
    for i, change in enumerate(direction):
        if i != leaving and change:
            inverse[i] = [value - change * new for value, new in zip(inverse[i], entered, strict=True)]
            amounts[i] -= change * entered_amount
