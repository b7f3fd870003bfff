# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.scheduling.packing.simplex import cover, cover_by_few, proven_value


def test_one_column_is_bought_until_its_row_is_met() -> None:
    answer = cover([[2.0]], [3.0], [4.0])

    assert answer.met
    assert answer.amounts == {0: 2.0}
    assert answer.value == 6.0
    assert answer.duals == [1.5]


def test_two_rows_are_met_by_a_mix_of_two_columns() -> None:
    answer = cover([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0], [3.0, 4.0])

    assert answer.amounts == {0: 3.0, 1: 4.0}
    assert answer.value == 11.0


def test_a_row_without_help_cannot_be_met() -> None:
    answer = cover([[0.0]], [1.0], [1.0])

    assert not answer.met
    assert answer.amounts == {}


def test_nothing_asked_costs_nothing() -> None:
    assert cover([], [1.0], []).value == 0.0
    assert cover([], [], []).met


def test_ties_go_to_the_first_column() -> None:
    answer = cover([[1.0, 1.0, 1.0]], [1.0, 1.0, 1.0], [1.0])

    assert answer.amounts == {0: 1.0}


def test_a_search_that_gives_up_still_proves_a_bound() -> None:
    rows = [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.3, 0.3, 1.0]]
    costs = [1.0, 1.0, 1.0]
    demands = [1.0, 1.0, 1.0]
    best = cover(rows, costs, demands)

    cut = cover(rows, costs, demands, pivots=1)

    assert not cut.met
    assert best.met
    assert proven_value(rows, costs, demands, cut.duals) <= best.value


def test_a_careful_search_finds_the_same_value() -> None:
    rows = [[4.0, 1.0, 2.0, 3.0], [1.0, 4.0, 3.0, 2.0], [2.0, 2.0, 1.0, 5.0]]
    costs = [4.0, 4.0, 3.0, 6.0]
    demands = [3.0, 5.0, 4.0]
    quick = cover(rows, costs, demands)

    careful = [cover(rows, costs, demands, pivots=pivots) for pivots in (2, 3, 4)]

    assert all(answer.met for answer in careful)
    assert [answer.value for answer in careful] == pytest.approx([quick.value] * 3)


def test_duals_that_overpay_are_shrunk_to_a_bound() -> None:
    rows = [[1.0, 2.0]]

    assert proven_value(rows, [1.0, 1.0], [1.0], [10.0]) == pytest.approx(0.5)


def test_a_free_column_that_is_worth_something_leaves_no_bound() -> None:
    assert proven_value([[1.0]], [0.0], [1.0], [1.0]) == 0.0


def test_duals_below_zero_prove_nothing() -> None:
    assert proven_value([[1.0]], [1.0], [1.0], [-1.0]) == 0.0


def test_a_cover_that_starts_from_columns_without_a_row_still_meets_it() -> None:
    answer = cover_by_few([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0], [1.0, 1.0], [0])

    assert answer.met
    assert answer.amounts == {0: 1.0, 1: 1.0}


def test_a_cover_by_few_takes_in_a_column_that_its_prices_overpay() -> None:
    answer = cover_by_few([[1.0, 1.0, 4.0]], [3.0, 2.0, 1.0], [4.0], [0])

    assert answer.amounts == {2: 1.0}
    assert answer.value == 1.0


def test_a_cover_by_few_that_may_not_look_again_keeps_what_it_has() -> None:
    answer = cover_by_few([[1.0, 1.0, 4.0]], [3.0, 2.0, 1.0], [4.0], [0], turns=1)

    assert answer.amounts == {0: 4.0}
