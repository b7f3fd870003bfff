# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot
from karpenter.scheduling.packing.building import absorb, buy, take
from karpenter.scheduling.packing.market import Market, Node, cost_of
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, never, shape


def _market(problem: Lot) -> Market:
    stock = Stock(problem)
    return Market(stock, stock.menu, stock.counts)


def _bought(market: Market, **options: list[float]) -> list[Node]:
    nodes = buy(market, market.stock.counts, never, **options)
    assert nodes is not None
    held = [0] * len(market.stock.counts)
    for node in nodes:
        for kind, number in node.contents:
            held[kind] += number
    assert held == market.stock.counts
    return nodes


def test_all_pods_end_on_one_node_if_that_is_cheapest() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 2, 10)]))

    nodes = _bought(market)

    assert len(nodes) == 1
    assert cost_of(nodes) == 0.1


def test_a_full_node_is_bought_as_often_as_its_pods_last() -> None:
    catalogue = Catalogue([machine("only", cpu=10, memory=20, pods=20, price=1.0)])

    nodes = _bought(_market(lot(catalogue, [shape(5, 10, 41)])))

    assert len(nodes) == 21
    assert [node.contents for node in nodes].count(((0, 2),)) == 20


def test_forced_nodes_share_the_pods_that_stand_apart() -> None:
    shapes = [shape(1, 2, 20, counted=1, caps=((0, 1),)), shape(1, 2, 100, order=1)]
    market = _market(lot(linear_catalogue(), shapes))
    exclusive = next(kind for kind, sample in enumerate(market.stock.samples) if sample.caps)

    nodes = _bought(market)

    assert len(nodes) == 20
    assert all(dict(node.contents)[exclusive] == 1 for node in nodes)


def test_pods_of_a_spread_fill_a_node_up_to_its_limit() -> None:
    shapes = [shape(1, 2, 40, counted=1, caps=((0, 4),)), shape(2, 2, 5, order=1)]

    nodes = _bought(_market(lot(linear_catalogue(), shapes)))

    assert len(nodes) == 10


def test_an_option_planned_for_pods_that_are_gone_is_not_bought() -> None:
    shapes = [
        shape(11, 12, 11, counted=1, caps=((0, 1),)),
        shape(17, 20, 5, counted=2, caps=((1, 1),), order=1),
        shape(8, 27, 2, counted=1, caps=((0, 1),), order=2),
        shape(3, 5, 3, order=3),
    ]

    nodes = _bought(_market(lot(linear_catalogue(), shapes)))

    assert len(nodes) >= 13
    assert all(node.contents for node in nodes)


def test_of_pods_that_stand_apart_a_node_takes_those_that_fit_beside_each_other() -> None:
    shapes = [
        shape(18, 55, 9, counted=1, caps=((0, 1),)),
        shape(15, 33, 11, counted=2, caps=((1, 1),), order=1),
        shape(7, 12, 10, counted=1, caps=((0, 1),), order=2),
        shape(8, 3, 11, order=3),
    ]

    nodes = _bought(_market(lot(linear_catalogue(), shapes)))

    assert len(nodes) >= 19


def test_other_weights_give_a_plan_too() -> None:
    shapes = [shape(3, 9, 30), shape(5, 4, 30), shape(1, 1, 30)]

    nodes = _bought(_market(lot(linear_catalogue(), shapes)), jitter=[0.7, 1.3, 1.0])

    assert nodes


def test_free_options_are_bought_first() -> None:
    catalogue = Catalogue([machine("free", cpu=4, price=0.0), machine("big", cpu=40, memory=80, pods=90)])

    nodes = _bought(_market(lot(catalogue, [shape(1, 1, 8)])))

    assert cost_of(nodes) == 0.0


def test_nothing_is_bought_when_time_is_up() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 2, 10)]))

    assert buy(market, market.stock.counts, lambda: True) is None


def test_room_left_on_nodes_is_filled() -> None:
    market = _market(lot(linear_catalogue(), [shape(3, 6, 2), shape(2, 2, 9, order=1)]))
    stock = market.stock
    large, small = stock.sizes.index((3, 6, 1)), stock.sizes.index((2, 2, 1))
    node = market.close([(large, 2)])
    left = [0, 0]
    left[small] = 9

    found = absorb(market, [node], left, 0b11)

    assert dict(found[0].contents) == {large: 2, small: 2}
    assert found[0].cost == node.cost
    assert found[0].used == (10, 16, 4)
    assert left[small] == 7


def test_nodes_without_fitting_pods_stay_as_they_are() -> None:
    market = _market(lot(linear_catalogue(), [shape(3, 6, 2)]))
    node = market.close([(0, 2)])

    assert absorb(market, [node], [0], 0b1) == [node]
    assert absorb(market, [node], [5], 0b1)[0].contents == ((0, 3),)


def test_room_is_filled_within_host_rules() -> None:
    shapes = [shape(3, 6, 2, counted=1, caps=((0, 2),)), shape(1, 1, 9, counted=1, order=1)]
    market = _market(lot(linear_catalogue(), shapes))
    owner = next(kind for kind, sample in enumerate(market.stock.samples) if sample.caps)
    node = market.close([(owner, 1)])
    left = [9, 9]
    left[owner] = 0

    found = absorb(market, [node], left, 0b11)

    assert sum(number for _, number in found[0].contents) == 2


def test_taken_pods_leave_the_kinds_that_have_none_left() -> None:
    left = [4, 2]

    assert take(left, [(0, 1), (1, 1)], 2, 0b11) == 0b01
    assert left == [2, 0]


def test_a_round_of_many_nodes_ends_when_time_is_up() -> None:
    shapes = [shape(1, 2, 90, counted=1, caps=((0, 1),)), shape(1, 2, 100, order=1)]
    market = _market(lot(linear_catalogue(), shapes))
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    assert buy(market, market.stock.counts, expired) is None
    assert asked == 6
