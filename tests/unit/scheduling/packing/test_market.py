# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot, Shape
from karpenter.scheduling.packing.market import Market, cost_of
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, shape


def _market(problem: Lot) -> Market:
    stock = Stock(problem)
    return Market(stock, stock.menu, stock.counts)


def _names(market: Market, options: list[int]) -> list[str]:
    catalogue = market.stock.lot.catalogue
    return [catalogue.type_at(market.menu.positions[option]).name for option in options]


def test_the_fluid_buys_the_family_that_has_the_pods_mix() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 4, 160)]))

    mix = market.mix(market.stock.counts)

    assert {name[0] for name in _names(market, list(mix.amounts))} == {"m"}
    assert mix.value == pytest.approx(16 * 0.12)
    assert mix.total == [160, 640, 160]


def test_a_resource_without_a_price_still_weighs_a_little() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 1, 100)]))

    mix = market.mix(market.stock.counts)

    assert mix.duals[1] == 0.0
    assert mix.weights[1] > 0.0
    assert mix.worth((0, 1, 0)) == mix.weights[1]


def test_forced_nodes_are_paid_for() -> None:
    exclusive = shape(1, 2, 20, counted=1, caps=((0, 1),))
    market = _market(lot(linear_catalogue(), [exclusive, shape(1, 2, 30)]))

    mix = market.mix(market.stock.counts)

    assert sum(mix.amounts.values()) == pytest.approx(20.0)
    assert mix.forced > 0.0
    assert mix.value == pytest.approx(20 * 0.10)


def test_a_large_node_does_not_count_in_full_for_pods_that_stand_apart() -> None:
    shapes = [shape(8, 16, 10, counted=1, caps=((0, 1),)), shape(1, 2, 10, order=1)]
    market = _market(lot(linear_catalogue(), shapes))

    mix = market.mix(market.stock.counts)

    assert sum(mix.amounts.values()) >= 10.0 - 1e-6


def test_roomy_options_hold_each_pod() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 2, 50), shape(70, 100, 1)]))

    mix = market.mix(market.stock.counts, roomy=True)

    assert all(int(name[1:]) >= 8 for name in _names(market, list(mix.amounts)))


def test_what_can_be_loaded_is_limited_by_the_other_resource() -> None:
    catalogue = Catalogue([machine("odd", cpu=2, memory=1000, pods=100)])
    market = _market(lot(catalogue, [shape(1, 3, 50)]))

    assert market.usable == [(2, 6, 2)]


def test_what_can_be_loaded_is_a_sum_of_whole_pods() -> None:
    catalogue = Catalogue([machine("m", cpu=10, memory=100, pods=100)])
    market = _market(lot(catalogue, [shape(4, 1, 50)]))

    assert market.usable == [(8, 2, 2)]


def test_sums_too_long_to_follow_are_taken_as_they_are() -> None:
    catalogue = Catalogue([machine("m", cpu=1 << 30, memory=1 << 30, pods=3)])
    market = _market(lot(catalogue, [shape((1 << 29) + 1, 7, 1), shape(1 << 29, 7, 2, order=1)]))

    assert market.usable == [((1 << 30), 14, 2)]


def test_an_option_that_holds_none_of_the_pods_can_be_loaded_with_nothing() -> None:
    catalogue = Catalogue([machine("a", cpu=1, price=0.1), machine("b", cpu=5, price=1.0)])
    market = _market(lot(catalogue, [shape(2, 1, 3)]))

    assert market.usable[0] == (0, 0, 0)


def test_contents_close_on_the_cheapest_option_that_all_pods_may_use() -> None:
    catalogue = Catalogue([machine("a", price=1.0), machine("b", price=2.0), machine("c", price=3.0)])
    market = _market(lot(catalogue, [shape(1, 1, 1, mask=0b110), shape(1, 1, 1, mask=0b101, order=1)]))

    node = market.close([(0, 1), (1, 1)])

    assert _names(market, [node.option]) == ["c"]
    assert cost_of([node, node]) == 6.0


def test_contents_that_nothing_holds_have_no_option() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 1, 1000)]))

    assert market.close([(0, 1000)]).option == -1


def test_options_are_ranked_by_what_they_pay() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 4, 160)]))
    mix = market.mix(market.stock.counts)

    ranked = market.by_pay(mix, market.menu.everything)

    pays = [pay for pay, _, _ in ranked]
    assert pays == sorted(pays, reverse=True)
    assert pays[0] == pytest.approx(1.0)
    assert ranked[0][2] == pytest.approx(0.0)


def test_a_free_option_pays_without_end() -> None:
    catalogue = Catalogue([machine("free", price=0.0), machine("big", cpu=90, memory=90, pods=90, price=1.0)])
    market = _market(lot(catalogue, [shape(3, 3, 9)]))
    mix = market.mix(market.stock.counts)

    assert market.by_pay(mix, market.menu.everything)[0][0] == float("inf")


def test_the_dearest_mask_comes_first() -> None:
    catalogue = Catalogue([machine("cheap", price=1.0), machine("dear", price=9.0)])
    market = _market(lot(catalogue, [shape(1, 1), shape(1, 1, mask=0b10, order=1)]))

    assert [market.stock.samples[group.bit_length() - 1].mask for group in market.groups] == [0b10, 0b11]


def test_a_mask_of_options_without_some_resource_comes_first() -> None:
    catalogue = Catalogue([machine("plain", price=1.0), machine("gpu", price=2.0, extra=4)])
    problem = Lot(
        catalogue=catalogue,
        resources=("cpu", "gpu"),
        shapes=(Shape(size=(1, 0), count=1, mask=0b01), Shape(size=(1, 1), count=1, mask=0b11)),
        overheads=((0b11, (0, 0)),),
    )

    market = _market(problem)

    assert [market.stock.samples[group.bit_length() - 1].size for group in market.groups] == [(1, 0), (1, 1)]


def test_other_costs_leave_the_market_as_it_is() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 4, 160)]))

    dearer = market.at([cost + 1.0 for cost in market.costs])

    assert dearer.costs[0] == market.costs[0] + 1.0
    assert dearer.mix(market.stock.counts).value > market.mix(market.stock.counts).value


def test_a_pod_at_odds_with_itself_cannot_be_bought_for() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 1, counted=1, caps=((0, 0),))]))

    assert not market.is_buyable(0)
    assert market.groups == []
