# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.scheduling.packing.knapsack import Knapsack

_pods = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 8), st.integers(1, 3)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=75, deadline=None)
@given(_pods, st.integers(0, 9), st.integers(0, 9), st.integers(1, 300))
def test_the_best_filling_and_its_bound_agree_with_trying_all(
    pods: list[tuple[int, int, int, int]], cpu: int, memory: int, steps: int
) -> None:
    room = (cpu, memory, 6)
    sizes = [(one, other, 1) for one, other, _, _ in pods]
    worths = [float(worth) for _, _, worth, _ in pods]
    counts = [count for _, _, _, count in pods]
    knapsack = Knapsack(sizes, worths, counts, [1.0, 0.5, 0.1])

    filling = knapsack.fill(room, steps)

    best = max(
        sum(worth * number for worth, number in zip(worths, numbers, strict=True))
        for numbers in product(*(range(count + 1) for count in counts))
        if all(
            sum(size[i] * number for size, number in zip(sizes, numbers, strict=True)) <= have
            for i, have in enumerate(room)
        )
    )
    numbers = knapsack.numbers(filling)
    assert filling.worth == pytest.approx(sum(map(float.__mul__, worths, map(float, numbers))))
    assert filling.worth <= best + 1e-9
    assert filling.bound >= best - 1e-9
    assert knapsack.hope(room) >= best - 1e-9
    if steps >= 300:
        assert filling.worth == pytest.approx(best)
