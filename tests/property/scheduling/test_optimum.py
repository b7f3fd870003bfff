# SPDX-License-Identifier: Apache-2.0
"""Small whole problems beside the cheapest of all their plans, with every kind of constraint that can be judged.

Left out are several pools (their order is decided by weight, not by price), values to be kept open and open labels.
Wishes are passed over, since they are no matter of price. ``KARPENTER_PROPERTY_EXAMPLES`` sets how many are tried.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from karpenter.scheduling import SolveOptions, solve
from tests.property.scheduling.brute import cheapest_price, has_room_somewhere
from tests.strategies import KINDS, Problem, random_problem

EXAMPLES = int(os.environ.get("KARPENTER_PROPERTY_EXAMPLES", "24"))

pytestmark = pytest.mark.timeout(max(120, EXAMPLES * 2))

JUDGED = KINDS - {"pools", "min-values", "open-labels"}
OPTIONS = SolveOptions(preferences="Ignore")
ROUNDING = 1e-9

# No plan may cost more than this above the cheapest, and few may cost more at all.
LARGEST_GAP = 0.5
SHARE_OF_OPTIMA = 0.95


def small_problem(seed: int) -> Problem:
    """Draw up to four pods that each have room somewhere, three types with two offerings, and at most one node."""
    drawn = random_problem(seed, kinds=JUDGED, max_pods=4, max_classes=4)
    types = []
    for kind in drawn.types[:3]:
        listed = [each for each in kind.offerings if each.available and not each.reservation_id][:2]
        held = [each for each in kind.offerings if each.available and each.reservation_id]
        types.append(replace(kind, offerings=(*listed, *held)))
    small = replace(drawn, types=tuple(types), nodes=drawn.nodes[:1])
    return replace(small, pods=tuple(each for each in small.pods if has_room_somewhere(small, each)))


def test_small_plans_are_the_cheapest_or_nearly_so() -> None:
    gaps = []

    for seed in range(EXAMPLES):
        problem = small_problem(seed)
        plan = solve(problem.snapshot(), problem.pods, OPTIONS)
        if plan.rejections:
            continue
        cheapest = cheapest_price(problem, below=plan.price_per_hour - ROUNDING)
        optimum = plan.price_per_hour if cheapest is None else cheapest
        assert plan.lower_bound_per_hour <= plan.price_per_hour + ROUNDING, seed
        if not problem.nodes:
            assert plan.lower_bound_per_hour <= optimum + ROUNDING, seed
        gaps.append(plan.price_per_hour / optimum - 1 if optimum else plan.price_per_hour)

    assert len(gaps) >= EXAMPLES // 2
    assert max(gaps) <= LARGEST_GAP
    assert sum(gap <= ROUNDING for gap in gaps) >= SHARE_OF_OPTIMA * len(gaps)


def test_no_plan_is_cheaper_than_the_cheapest_of_all() -> None:
    for seed in range(EXAMPLES // 4):
        problem = small_problem(seed)
        plan = solve(problem.snapshot(), problem.pods, OPTIONS)
        if not plan.rejections and problem.pods:
            optimum = cheapest_price(problem, below=plan.price_per_hour + ROUNDING)
            assert optimum is not None, seed
            assert plan.price_per_hour >= optimum - ROUNDING, seed


def test_pods_that_a_small_plan_leaves_without_a_place_could_hardly_have_had_one() -> None:
    refusing, missed = 0, []

    for seed in range(EXAMPLES):
        problem = small_problem(seed)
        plan = solve(problem.snapshot(), problem.pods, OPTIONS)
        if plan.rejections:
            refusing += 1
            if cheapest_price(problem, most=500) is not None:
                missed.append(seed)

    assert len(missed) <= 0.05 * EXAMPLES, missed
    assert refusing
