# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

from karpenter.scheduling.packing import Lot
from karpenter.scheduling.packing.improving import Chance, improve
from karpenter.scheduling.packing.market import Market, Node, cost_of
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, never, shape


def _market(problem: Lot) -> Market:
    stock = Stock(problem)
    raw = Market(stock, stock.menu, stock.counts)
    return raw.at([cost + 0.02 for cost in raw.costs])


def _scattered() -> tuple[Market, list[Node]]:
    """Every pod on a node of its own: much to gain."""
    market = _market(lot(linear_catalogue(), [shape(3, 6, 20), shape(2, 9, 20, order=1)]))
    return market, [market.close([(kind, 1)]) for kind in (0, 1) for _ in range(20)]


def _always(_: Sequence[Node]) -> bool:
    return True


def test_wasteful_nodes_are_planned_anew() -> None:
    market, nodes = _scattered()

    found = improve(market, nodes, 200, Chance(1), _always, never)

    assert cost_of(found) < 0.8 * cost_of(nodes)
    assert sum(number for node in found for _, number in node.contents) == 40


def test_the_same_seed_gives_the_same_plan_and_another_one_may_not() -> None:
    market, nodes = _scattered()

    first = improve(market, nodes, 60, Chance(1), _always, never)
    again = improve(market, nodes, 60, Chance(1), _always, never)
    other = improve(market, nodes, 60, Chance(2), _always, never)

    assert first == again
    assert first != other


def test_a_plan_that_is_not_accepted_is_not_kept() -> None:
    market, nodes = _scattered()

    assert improve(market, nodes, 100, Chance(1), lambda _: False, never) == nodes


def test_no_time_changes_nothing() -> None:
    market, nodes = _scattered()

    assert improve(market, nodes, 100, Chance(1), _always, lambda: True) == nodes


def test_a_try_that_time_cuts_changes_nothing() -> None:
    market, nodes = _scattered()
    for patience in (1, 2, 3):
        asked = 0

        def expired() -> bool:
            nonlocal asked
            asked += 1
            return asked > patience  # noqa: B023

        found = improve(market, nodes, 100, Chance(1), lambda _: False, expired)

        assert found == nodes


def test_a_single_node_is_left_alone() -> None:
    market = _market(lot(linear_catalogue(), [shape(3, 6, 2)]))
    node = market.close([(0, 2)])

    assert improve(market, [node], 100, Chance(1), _always, never) == [node]


def test_choices_stay_in_range_and_reach_all_of_it() -> None:
    chance = Chance(7)

    drawn = [chance.below(5) for _ in range(500)]

    assert set(drawn) == {0, 1, 2, 3, 4}
