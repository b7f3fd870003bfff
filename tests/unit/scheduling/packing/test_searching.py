# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from karpenter.scheduling.packing import PackOptions
from karpenter.scheduling.packing.market import Market
from karpenter.scheduling.packing.searching import Search
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, never, shape


def _search(**options: float) -> Search:
    stock = Stock(lot(linear_catalogue(), [shape(3, 6, 40), shape(2, 9, 40, order=1)]))
    market = Market(stock, stock.menu, stock.counts)
    return Search(market, stock.counts, PackOptions(**options), never)  # type: ignore[arg-type]


def test_a_search_begins_with_the_greedy_plan() -> None:
    search = _search()

    assert search.best.found_by == "greedy"
    assert search.best.left == 0


def test_a_search_ends_with_a_plan_that_costs_less() -> None:
    search = _search()
    floor = search.best

    search.run()

    assert search.best.cost < floor.cost
    assert search.best.price < floor.price


def test_a_plan_with_fewer_nodes_but_a_price_above_the_greedy_one_is_refused() -> None:
    search = _search()
    floor = search.best

    taken = search._offer(replace(floor, cost=floor.cost - 1.0, price=floor.price + 0.1))

    assert not taken
    assert search.best is floor


def test_a_plan_that_places_more_pods_may_cost_more() -> None:
    search = _search()
    search._floor = search.best = replace(search.best, left=5)

    taken = search._offer(
        replace(search.best, left=4, cost=search.best.cost + 9.0, price=search.best.price + 9.0)
    )

    assert taken
    assert search.best.left == 4


def test_a_plan_that_leaves_more_pods_is_refused() -> None:
    search = _search()

    assert not search._offer(replace(search.best, left=1, cost=0.0, price=0.0))


def test_the_fee_is_at_least_what_the_tolerance_asks_for() -> None:
    by_fee = _search(node_fee=3.0, tolerance=0.0)
    by_tolerance = _search(node_fee=0.0, tolerance=0.5)

    assert by_fee.best.cost == by_fee.best.price + 3.0 * len(by_fee.best.nodes)
    assert by_tolerance.best.cost > by_tolerance.best.price
