# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from karpenter.scheduling.packing import PackOptions, Shape, searching
from karpenter.scheduling.packing.market import Market
from karpenter.scheduling.packing.searching import Search
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, never, shape


def _search(*shapes: Shape, **options: float) -> Search:
    stock = Stock(lot(linear_catalogue(), shapes or (shape(3, 6, 40), shape(2, 9, 40, order=1))))
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


def _is_improved(search: Search, monkeypatch: pytest.MonkeyPatch) -> bool:
    tried: list[str] = []
    monkeypatch.setattr(searching, "improve", lambda *_: tried.append("improve"))
    search.run()
    return bool(tried)


def _standing_apart(filling: int) -> Search:
    """Pods that must stand apart, each with much memory, and so many that fill the room beside them."""
    apart = [shape(3 + size % 4, 6 + 5 * size, 4, counted=1, caps=((0, 1),), order=size) for size in range(7)]
    return _search(*apart, shape(7, 4, filling, order=8), shape(8, 7, filling, order=9))


def test_a_plan_near_the_fluid_is_not_improved_where_pods_must_stand_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = _standing_apart(filling=120)

    assert not _is_improved(search, monkeypatch)
    assert 1.005 * search._fluid < search.best.cost <= 1.08 * search._fluid


def test_a_plan_far_above_the_fluid_is_improved_where_pods_must_stand_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = _standing_apart(filling=20)

    assert _is_improved(search, monkeypatch)
    assert search.best.cost > 1.08 * search._fluid
