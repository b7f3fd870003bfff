# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot
from karpenter.scheduling.packing.market import Market, cost_of
from karpenter.scheduling.packing.planning import Shop, plan
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, never, shape


def _market(problem: Lot) -> Market:
    stock = Stock(problem)
    raw = Market(stock, stock.menu, stock.counts)
    return raw.at([cost + 0.02 for cost in raw.costs])


def _smooth() -> Market:
    return _market(
        lot(linear_catalogue(), [shape(1, 2, 200), shape(2, 9, 90), shape(3, 8, 60), shape(1, 7, 80)])
    )


def _lumpy() -> Market:
    return _market(lot(linear_catalogue(), [shape(44, 75, 16), shape(27, 186, 18), shape(52, 176, 19)]))


def _coarse() -> Market:
    """Pods of 17 sizes that take a little more than one node of the only option."""
    catalogue = Catalogue([machine("m", cpu=1000, memory=9000, pods=99, price=1.0)])
    return _market(lot(catalogue, [shape(60 + size, 500 + size, 1, order=size) for size in range(17)]))


def test_many_small_pods_are_bought_for_by_sets() -> None:
    market = _smooth()
    shop = Shop(market, never)

    found = shop.quickly(market.stock.counts)

    assert found is not None
    assert found.found_by == "sets"
    assert shop.thoroughly(market.stock.counts) is found


def test_few_large_pods_are_bought_for_by_patterns() -> None:
    market = _lumpy()
    shop = Shop(market, never)

    quick = shop.quickly(market.stock.counts)
    found = shop.thoroughly(market.stock.counts)

    assert quick is not None
    assert found is not None
    assert quick.found_by == "one-by-one"
    assert found.found_by == "patterns"
    assert cost_of(found.nodes) < cost_of(quick.nodes)
    assert 0.0 < found.bound <= sum(market.menu.prices[node.option] for node in found.nodes)


def test_pods_with_rules_are_bought_for_one_by_one() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 2, 30, counted=1, caps=((0, 2),))]))
    shop = Shop(market, never)

    found = shop.thoroughly(market.stock.counts)

    assert found is not None
    assert found.found_by == "one-by-one"


def test_a_set_far_above_the_fluid_is_compared_with_one_by_one() -> None:
    market = _coarse()
    shop = Shop(market, never)

    quick = shop.quickly(market.stock.counts)
    found = shop.thoroughly(market.stock.counts)

    assert quick is not None
    assert found is not None
    assert quick.whole
    assert cost_of(found.nodes) == cost_of(quick.nodes) == 2 * 1.02


def test_pods_that_no_option_holds_all_of_are_bought_for_one_by_one() -> None:
    catalogue = Catalogue(
        [machine("wide", cpu=900, memory=40, pods=99), machine("deep", cpu=40, memory=900, pods=99)]
    )
    shapes = [shape(50 + size, 1, 1, order=size) for size in range(10)]
    shapes += [shape(1, 50 + size, 1, order=size) for size in range(10)]
    market = _market(lot(catalogue, shapes))
    shop = Shop(market, never)

    found = shop.thoroughly(market.stock.counts)

    assert found is not None
    assert found.found_by == "one-by-one"
    assert len(found.nodes) == 2


def test_nothing_is_bought_when_time_runs_out() -> None:
    market = _lumpy()
    shop = Shop(market, lambda: True)

    assert shop.quickly(market.stock.counts) is None
    assert shop.thoroughly(market.stock.counts) is None


def test_time_that_runs_out_after_a_set_leaves_no_comparison() -> None:
    market = _coarse()
    is_late = False
    shop = Shop(market, lambda: is_late)
    assert shop.quickly(market.stock.counts) is not None

    is_late = True

    assert shop.thoroughly(market.stock.counts) is None


def test_later_masks_fill_the_room_that_earlier_ones_left() -> None:
    catalogue = Catalogue(
        [machine("cheap", cpu=10, price=1.0), machine("dear", cpu=10, price=5.0)],
    )
    market = _market(lot(catalogue, [shape(6, 1, 1, mask=0b10), shape(4, 1, 1, order=1)]))

    found = plan(market, market.stock.counts, Shop(market, never).quickly, never)

    assert found is not None
    assert len(found.nodes) == 1
    assert sum(number for _, number in found.nodes[0].contents) == 2


def test_a_later_mask_buys_what_finds_no_room() -> None:
    catalogue = Catalogue([machine("cheap", cpu=10, price=1.0), machine("dear", cpu=10, price=5.0)])
    market = _market(lot(catalogue, [shape(6, 1, 1, mask=0b10), shape(4, 1, 3, order=1)]))

    found = plan(market, market.stock.counts, Shop(market, never).quickly, never)

    assert found is not None
    assert len(found.nodes) == 2


def test_a_plan_that_time_cuts_is_none() -> None:
    market = _smooth()

    assert plan(market, market.stock.counts, Shop(market, never).quickly, lambda: True) is None
    assert plan(_lumpy(), _lumpy().stock.counts, Shop(_lumpy(), lambda: True).quickly, never) is None


def test_no_pods_need_no_nodes() -> None:
    market = _smooth()

    found = plan(market, [0, 0, 0, 0], Shop(market, never).quickly, never)

    assert found is not None
    assert found.nodes == []


def test_many_pods_of_few_kinds_are_planned_as_copies_of_a_part() -> None:
    counts = [4321, 1234, 777, 9]
    sizes = [(1, 2), (2, 9), (3, 8), (1, 7)]
    market = _market(
        lot(linear_catalogue(), [shape(*size, count) for size, count in zip(sizes, counts, strict=True)])
    )

    shop = Shop(market, never)
    quick = shop.quickly(market.stock.counts)
    found = shop.thoroughly(market.stock.counts)

    assert quick is not None
    assert found is not None
    for purchase in (quick, found):
        held = [0] * 4
        for node in purchase.nodes:
            for kind, number in node.contents:
                held[kind] += number
        assert held == market.stock.counts
    assert found.found_by == "patterns"
    assert cost_of(found.nodes) <= 1.03 * market.mix(market.stock.counts).value


def test_pods_that_part_evenly_leave_no_rest() -> None:
    market = _market(lot(linear_catalogue(), [shape(1, 2, 4000), shape(2, 9, 4000)]))

    found = Shop(market, never).quickly(market.stock.counts)

    assert found is not None
    assert sum(number for node in found.nodes for _, number in node.contents) == 8000


def test_many_pods_of_many_kinds_are_dealt_out_to_parts() -> None:
    shapes = [shape(1 + size % 37, 1 + size, 1, order=size) for size in range(1100)]
    market = _market(lot(linear_catalogue((64, 128)), shapes))

    found = Shop(market, never).quickly(market.stock.counts)

    assert found is not None
    held = [0] * 1100
    for node in found.nodes:
        for kind, number in node.contents:
            held[kind] += number
    assert held == [1] * 1100


def test_many_kinds_in_many_parts_are_not_compared_with_one_by_one() -> None:
    # Too many kinds for that, and pods of 6 in rooms of 10: far above the fluid.
    catalogue = Catalogue([machine("m", cpu=1000, memory=9000, pods=99, price=1.0)])
    shapes = [shape(20 + size % 7, 300 + size, 9, order=size) for size in range(260)]
    market = _market(lot(catalogue, shapes))
    shop = Shop(market, never)

    assert shop.thoroughly(market.stock.counts) is shop.quickly(market.stock.counts)


def test_time_that_runs_out_between_parts_leaves_nothing() -> None:
    # No option holds all of the pods, so each part goes node by node, and asks for the time.
    catalogue = Catalogue(
        [machine("wide", cpu=900, memory=40, pods=99), machine("deep", cpu=40, memory=900, pods=99)]
    )
    shapes = [shape(50 + size, 1, 61, order=size) for size in range(20)]
    shapes += [shape(1, 50 + size, 61, order=size) for size in range(20)]
    market = _market(lot(catalogue, shapes))

    assert Shop(market, lambda: True).quickly(market.stock.counts) is None
