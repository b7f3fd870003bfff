# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.scheduling.packing.knapsack import Knapsack


def test_the_best_filling_is_not_the_greedy_one() -> None:
    knapsack = Knapsack([(6,), (5,)], [6.6, 5.0], [9, 9], [1.0])

    filling = knapsack.fill((10,), 100)

    assert filling.worth == 10.0
    assert knapsack.numbers(filling) == (0, 2)
    assert filling.bound == 10.0


def test_no_more_pods_are_taken_than_there_are() -> None:
    knapsack = Knapsack([(2, 1)], [1.0], [3], [1.0, 1.0])

    assert knapsack.numbers(knapsack.fill((100, 100), 100)) == (3,)


def test_a_search_that_is_cut_still_has_a_bound() -> None:
    knapsack = Knapsack([(6,), (5,)], [6.6, 5.0], [9, 9], [1.0])

    filling = knapsack.fill((10,), 1)

    assert filling.worth == 6.6
    assert filling.bound >= 10.0


def test_hope_counts_only_sizes_that_fit() -> None:
    knapsack = Knapsack([(6,), (2,)], [60.0, 1.0], [1, 9], [1.0])

    assert knapsack.hope((4,)) == 2.0
    assert knapsack.hope((1,)) == 0.0
    assert knapsack.hope((4,)) == 2.0


def test_pods_worth_nothing_are_left_out() -> None:
    knapsack = Knapsack([(1,), (2,)], [0.0, 1.0], [9, 9], [1.0])

    assert knapsack.numbers(knapsack.fill((5,), 50)) == (0, 2)


def test_a_resource_that_a_pod_does_not_take_gives_no_bound() -> None:
    knapsack = Knapsack([(0, 2), (1, 1)], [3.0, 1.0], [9, 9], [1.0, 1.0])

    assert knapsack.hope((1, 4)) == 6.0
    assert knapsack.fill((1, 4), 50).worth == 6.0
