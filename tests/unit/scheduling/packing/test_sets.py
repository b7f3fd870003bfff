# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot, sets
from karpenter.scheduling.packing.market import Market, Node, cost_of
from karpenter.scheduling.packing.sets import buy_sets
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, never, shape


def _market(problem: Lot) -> Market:
    stock = Stock(problem)
    return Market(stock, stock.menu, stock.counts)


def _held(nodes: list[Node], kinds: int) -> list[int]:
    held = [0] * kinds
    for node in nodes:
        for kind, number in node.contents:
            held[kind] += number
    return held


def test_a_smooth_lot_is_packed_into_a_set_close_to_the_fluid() -> None:
    shapes = [shape(1, 2, 200), shape(2, 9, 90), shape(3, 8, 60), shape(1, 7, 80)]
    raw = _market(lot(linear_catalogue(), shapes))
    market = raw.at([cost + 0.02 for cost in raw.costs])

    found = buy_sets(market, market.stock.counts, never)

    assert found is not None
    nodes, whole = found
    assert whole
    assert _held(nodes, 4) == market.stock.counts
    assert cost_of(nodes) <= 1.02 * market.mix(market.stock.counts).value


def test_pods_that_find_no_room_get_one_more_node() -> None:
    catalogue = Catalogue([machine("m", cpu=10, memory=100, pods=100, price=1.0)])
    market = _market(lot(catalogue, [shape(6, 1, 3)]))

    found = buy_sets(market, market.stock.counts, never)

    assert found is not None
    assert _held(found[0], 1) == [3]
    assert len(found[0]) == 3


def test_no_set_holds_pods_that_no_option_holds_all_of() -> None:
    catalogue = Catalogue(
        [machine("wide", cpu=90, memory=4, price=1.0), machine("deep", cpu=4, memory=90, price=1.0)]
    )
    market = _market(lot(catalogue, [shape(50, 1, 2), shape(1, 50, 2)]))

    assert buy_sets(market, market.stock.counts, never) is None


def test_pods_too_many_for_one_more_node_leave_no_set() -> None:
    # Sizes that fill 20 only as 11 + 9, 12 + 8 or 13 + 7: packing by direction leaves many out.
    catalogue = Catalogue([machine("m", cpu=20, memory=900, pods=900, price=1.0)])
    shapes = [shape(size, 1, 7, order=size) for size in (11, 9, 12, 8, 13, 7)]
    market = _market(lot(catalogue, shapes))

    assert buy_sets(market, market.stock.counts, never) is None


def test_a_few_missing_pods_are_helped_by_moving_others(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [shape(size, 3 * size % 11 + 1, 9, order=size) for size in (3, 4, 5, 7, 9, 11)]
    market = _market(lot(linear_catalogue(), shapes))
    helped = buy_sets(market, market.stock.counts, never)
    monkeypatch.setattr(sets, "_HELPED", 0.0)

    alone = buy_sets(market, market.stock.counts, never)

    assert helped is not None
    assert alone is not None
    assert cost_of(helped[0]) < cost_of(alone[0])


def test_small_nodes_that_large_pods_do_not_fit_on_end_a_set_only() -> None:
    catalogue = Catalogue(
        [machine("nano", cpu=10, memory=20, pods=9, price=0.01), machine("big", cpu=80, memory=320, pods=99)]
    )
    market = _market(lot(catalogue, [shape(30, 40, 20), shape(1, 2, 20)]))

    found = buy_sets(market, market.stock.counts, never)

    assert found is not None
    assert _held(found[0], 2) == market.stock.counts


def test_time_that_is_up_leaves_the_best_set_so_far() -> None:
    shapes = [shape(size, 3 * size % 11 + 1, 9, order=size) for size in (3, 4, 5, 7, 9, 11)]
    market = _market(lot(linear_catalogue(), shapes))
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    found = buy_sets(market, market.stock.counts, expired)
    unhurried = buy_sets(market, market.stock.counts, never)

    assert found is not None
    assert unhurried is not None
    assert _held(found[0], 6) == market.stock.counts
    assert cost_of(unhurried[0]) <= cost_of(found[0])
    assert asked <= 4


def test_time_that_is_up_at_once_leaves_no_set() -> None:
    market = _market(lot(linear_catalogue(), [shape(3, 6, 40)]))

    assert buy_sets(market, market.stock.counts, lambda: True) is None
