# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot
from karpenter.scheduling.packing.limits import Allowance
from karpenter.scheduling.packing.market import Market
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import lot, machine, packed, shape, types_of


def _problem(*limits: tuple[str, int]) -> Lot:
    catalogue = Catalogue(
        machine(f"m{size}", cpu=size, memory=2 * size, price=size, reserved=1) for size in (2, 4, 8)
    )
    return lot(catalogue, [shape(1, 1, 3)], limits=limits)


def test_limits_count_capacity_not_what_pods_can_use() -> None:
    allowance = Allowance(_problem(("cpu", 10), ("nodes", 2)))

    assert allowance.charges(0) == [3, 1]
    assert allowance.charges(2) == [9, 1]
    assert allowance.part(2) == 0.9 + 0.5


def test_only_what_the_rest_allows_is_affordable() -> None:
    problem = _problem(("cpu", 8))
    menu = Stock(problem).menu

    assert Allowance(problem).affordable(menu) == 0b011
    assert Allowance(_problem()).affordable(menu) == 0b111


def test_nodes_are_charged_as_long_as_there_is_room() -> None:
    allowance = Allowance(_problem(("cpu", 7), ("pods", 100)))

    assert allowance.charge(0, 5) == 2
    assert allowance.charge(0, 1) == 0
    assert Allowance(_problem()).charge(0, 5) == 5


def test_a_resource_that_a_machine_lacks_is_not_charged() -> None:
    assert Allowance(_problem(("gpu", 0))).charge(0, 3) == 3


def test_a_node_may_become_larger_within_the_limits() -> None:
    allowance = Allowance(_problem(("cpu", 2)))

    assert not allowance.exchange(0, 2)
    assert allowance.exchange(0, 1)
    assert not allowance.exchange(0, 1)
    assert allowance.exchange(1, 0)


def test_whole_plans_are_judged() -> None:
    problem = _problem(("cpu", 8))
    stock = Stock(problem)
    market = Market(stock, stock.menu, stock.counts)
    node = market.close([(0, 3)])

    assert Allowance(problem).hold(market.menu, [node])
    assert not Allowance(problem).hold(market.menu, [node, node])
    assert Allowance(_problem()).hold(market.menu, [node] * 99)


def test_alternatives_never_break_a_limit_together() -> None:
    assert Allowance(_problem(("cpu", 12), ("nodes", 9))).shared([0, 0]) == [0b011, 0b011]
    assert Allowance(_problem(("cpu", 9), ("nodes", 9))).shared([0, 1]) == [0b001, 0b011]
    assert Allowance(_problem()).shared([0, 1]) == [0b111, 0b111]


def test_a_limit_on_nodes_holds() -> None:
    catalogue = Catalogue([machine("m", cpu=4, price=1.0)])

    packing = packed(lot(catalogue, [shape(4, 1, 5)], limits=[("nodes", 3)]))

    assert len(packing.bins) == 3
    assert packing.left == (2,)


def test_a_limit_met_exactly_leaves_nothing() -> None:
    catalogue = Catalogue([machine("m", cpu=4, price=1.0)])

    packing = packed(lot(catalogue, [shape(4, 1, 5)], limits=[("cpu", 20)]))

    assert packing.left == (0,)


def test_a_dearer_node_with_less_capacity_is_bought_when_a_limit_asks_for_it() -> None:
    catalogue = Catalogue(
        [machine("wasteful", cpu=4, reserved=12, price=1.0), machine("lean", cpu=4, price=1.2)]
    )
    pods = [shape(4, 1, 3)]

    free = packed(lot(catalogue, pods))
    limited = packed(problem := lot(catalogue, pods, limits=[("cpu", 20)]))

    assert free.price_per_hour == 3.0
    assert limited.left == (0,)
    assert types_of(problem, limited) == ["lean", "lean", "lean"]


def test_pods_beyond_a_limit_are_left_and_the_rest_is_placed() -> None:
    catalogue = Catalogue(
        [machine("large", cpu=16, memory=64, price=3.0), machine("small", cpu=4, memory=16, price=1.0)]
    )

    packing = packed(lot(catalogue, [shape(3, 1, 9), shape(1, 9, 4, order=1)], limits=[("cpu", 20)]))

    assert packing.left == (4, 0)
    assert packing.bound_per_hour <= packing.price_per_hour


def test_no_limit_left_leaves_all_pods() -> None:
    catalogue = Catalogue([machine("m", cpu=4, price=1.0)])

    packing = packed(lot(catalogue, [shape(4, 1, 5)], limits=[("cpu", 0)]))

    assert packing.bins == ()
    assert packing.left == (5,)
    assert packing.bound_per_hour == 0.0
