# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.scheduling.packing.simplex import cover, cover_by_few, proven_value

_amounts = st.integers(0, 6).map(float)
_costs = st.integers(0, 9).map(float)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[list[float]], list[float], list[float]]:
    width = draw(st.integers(1, 5))
    height = draw(st.integers(1, 3))
    rows = draw(
        st.lists(st.lists(_amounts, min_size=width, max_size=width), min_size=height, max_size=height)
    )
    costs = draw(st.lists(_costs, min_size=width, max_size=width))
    demands = draw(st.lists(st.integers(-2, 7).map(float), min_size=height, max_size=height))
    return rows, costs, demands


def _solved(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Gauss-Jordan with the largest pivot; nothing if the matrix is singular."""
    table = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(table)):
        pivot = max(range(i, len(table)), key=lambda k: abs(table[k][i]))
        if abs(table[pivot][i]) < 1e-9:
            return None
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [value / table[i][i] for value in table[i]]
        for k, row in enumerate(table):
            if k != i:
                table[k] = [value - row[i] * other for value, other in zip(row, table[i], strict=True)]
    return [row[-1] for row in table]


def _least_cost(rows: list[list[float]], costs: list[float], demands: list[float]) -> float:
    """The cheapest vertex: every choice of basic variables, columns and surpluses."""
    width, height = len(costs), len(rows)
    full = [[*row, *(-1.0 if i == k else 0.0 for k in range(height))] for i, row in enumerate(rows)]
    prices = [*costs, *([0.0] * height)]
    best = float("inf")
    for basis in combinations(range(width + height), height):
        amounts = _solved([[row[j] for j in basis] for row in full], demands)
        if amounts is not None and min(amounts) >= -1e-9:
            best = min(best, sum(prices[j] * amount for j, amount in zip(basis, amounts, strict=True)))
    return best


@settings(max_examples=125, deadline=None)
@given(programs())
def test_the_cover_is_the_cheapest_vertex(
    program: tuple[list[list[float]], list[float], list[float]],
) -> None:
    rows, costs, demands = program

    answer = cover(rows, costs, demands)

    least = _least_cost(rows, costs, demands)
    assert answer.met == (least < float("inf"))
    if answer.met:
        assert answer.value == pytest.approx(least)
        for row, demand in zip(rows, demands, strict=True):
            assert sum(row[j] * amount for j, amount in answer.amounts.items()) >= demand - 1e-6


@settings(max_examples=75, deadline=None)
@given(programs(), st.sets(st.integers(0, 4)))
def test_a_cover_by_few_columns_is_as_cheap_whichever_come_first(
    program: tuple[list[list[float]], list[float], list[float]], first: set[int]
) -> None:
    rows, costs, demands = program
    known = [column for column in first if column < len(costs)]

    answer = cover_by_few(rows, costs, demands, known)

    whole = cover(rows, costs, demands)
    assert answer.met == whole.met
    if whole.met:
        assert answer.value == pytest.approx(whole.value)
        for row, demand in zip(rows, demands, strict=True):
            assert sum(row[j] * amount for j, amount in answer.amounts.items()) >= demand - 1e-6


@settings(max_examples=75, deadline=None)
@given(programs(), st.integers(1, 4))
def test_the_proven_value_is_never_above_the_cheapest_vertex(
    program: tuple[list[list[float]], list[float], list[float]], pivots: int
) -> None:
    rows, costs, demands = program
    demands = [max(0.0, demand) for demand in demands]

    for answer in (cover(rows, costs, demands), cover(rows, costs, demands, pivots=pivots)):
        bound = proven_value(rows, costs, demands, answer.duals)

        assert bound <= _least_cost(rows, costs, demands) + 1e-9
        if answer.met:
            assert bound == pytest.approx(answer.value, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(programs(), st.lists(st.floats(-1, 5), min_size=3, max_size=3))
def test_any_duals_prove_a_valid_bound(
    program: tuple[list[list[float]], list[float], list[float]], duals: list[float]
) -> None:
    rows, costs, demands = program
    demands = [max(0.0, demand) for demand in demands]

    bound = proven_value(rows, costs, demands, duals[: len(rows)])

    assert bound <= _least_cost(rows, costs, demands) + 1e-9
