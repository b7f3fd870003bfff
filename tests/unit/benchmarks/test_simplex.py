# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations

import pytest
from benchmarks.peers.simplex import Column, row_worths
from hypothesis import given, settings
from hypothesis import strategies as st

# Things to buy: a price, and how much of each row one of them covers.
Goods = list[tuple[int, list[int]]]


def solve(goods: Goods, **options: int) -> list[float]:
    size = len(goods[0][1])
    singles = [
        min((price / covers[row] for price, covers in goods if covers[row]), default=0.0)
        for row in range(size)
    ]
    return row_worths(singles, best_of(goods), **options)


def best_of(goods: Goods) -> Callable[[Sequence[float]], Column]:
    def best(worths: Sequence[float]) -> Column:
        price, covers = max(
            goods, key=lambda each: sum(w * c for w, c in zip(worths, each[1], strict=True)) / each[0]
        )
        return Column(float(price), dict(enumerate(map(float, covers))))

    return best


def cheapest_cover_of_two_rows(goods: Goods) -> Fraction:
    """Try every corner: an optimum over two rows buys one or two kinds."""
    costs = []
    for price, (first, second) in goods:
        if first and second:
            costs.append(price * max(Fraction(1, first), Fraction(1, second)))
    for (price_a, (a1, a2)), (price_b, (b1, b2)) in combinations(goods, 2):
        if determinant := a1 * b2 - a2 * b1:
            amount_a, amount_b = Fraction(b2 - b1, determinant), Fraction(a1 - a2, determinant)
            if amount_a >= 0 and amount_b >= 0:
                costs.append(price_a * amount_a + price_b * amount_b)
    return min(costs)


def test_one_row_is_worth_what_covering_it_costs() -> None:
    assert solve([(6, [2]), (5, [1])]) == pytest.approx([3.0])


def test_a_row_that_is_always_covered_on_the_way_is_worth_nothing() -> None:
    worths = solve([(10, [1, 5]), (40, [1, 0])])

    assert worths == pytest.approx([10.0, 0.0])


def test_two_kinds_are_mixed_where_that_is_cheapest() -> None:
    worths = solve([(3, [2, 1]), (3, [1, 2]), (10, [1, 0])])

    assert sum(worths) == pytest.approx(2.0)


def test_without_steps_every_row_is_covered_alone() -> None:
    assert solve([(3, [2, 1]), (3, [1, 2])], most_steps=0) == pytest.approx([1.5, 1.5])


amounts = st.integers(0, 9)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.lists(amounts, min_size=2, max_size=2)), max_size=8),
    st.tuples(st.integers(1, 50), st.lists(st.integers(1, 9), min_size=2, max_size=2)),
)
def test_the_worths_add_up_to_the_cheapest_cover(others: Goods, everything: tuple[int, list[int]]) -> None:
    goods = [*others, everything]

    worths = solve(goods)

    assert all(worth >= 0 for worth in worths)
    assert sum(worths) == pytest.approx(float(cheapest_cover_of_two_rows(goods)), rel=1e-5)
