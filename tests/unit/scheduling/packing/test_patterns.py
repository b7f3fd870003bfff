# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot, patterns
from karpenter.scheduling.packing.building import buy
from karpenter.scheduling.packing.market import Market, cost_of
from karpenter.scheduling.packing.patterns import Patterns
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, never, shape


def _market(problem: Lot) -> Market:
    stock = Stock(problem)
    return Market(stock, stock.menu, stock.counts)


def _lumpy() -> Market:
    return _market(
        lot(linear_catalogue(), [shape(47, 94, 11), shape(23, 190, 9), shape(9, 19, 14), shape(97, 64, 13)])
    )


def test_a_dive_places_all_pods_at_no_more_than_the_plan_at_hand() -> None:
    market = _lumpy()
    plan = buy(market, market.stock.counts, never)
    assert plan is not None
    program = Patterns(market, market.stock.counts)
    program.learn(plan)

    program.generate(never)
    nodes = program.dive()

    held = [0] * 4
    for node in nodes:
        for kind, number in node.contents:
            held[kind] += number
    assert held == market.stock.counts
    assert cost_of(nodes) <= 1.02 * cost_of(plan)


def test_the_bound_is_close_below_the_price() -> None:
    market = _lumpy()
    program = Patterns(market, market.stock.counts)
    program.generate(never)

    price = cost_of(program.dive())

    assert 0.9 * price <= program.bound() <= price


def test_better_patterns_are_found_than_those_of_one_size() -> None:
    # 6 + 4 fill a node of 10; alone either wastes much of it.
    catalogue = Catalogue([machine("m", cpu=10, memory=100, pods=9, price=1.0)])
    market = _market(lot(catalogue, [shape(6, 1, 20), shape(4, 1, 20)]))
    program = Patterns(market, market.stock.counts)

    program.generate(never)

    assert len(program.dive()) == 20
    assert program.bound() == pytest.approx(20.0)


def test_a_bound_that_may_not_look_further_is_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    market = _lumpy()
    program = Patterns(market, market.stock.counts)
    program.generate(never)
    sharp = program.bound()

    monkeypatch.setattr(patterns, "_BOUND_KNAPSACKS", 0)

    assert 0.0 < program.bound() <= sharp


def test_rounds_of_pricing_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_ROUNDS", 1)
    market = _lumpy()
    program = Patterns(market, market.stock.counts)

    program.generate(never)

    assert sum(number for node in program.dive() for _, number in node.contents) == 47


def test_patterns_that_enter_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_PATIENCE", 1)
    market = _lumpy()
    program = Patterns(market, market.stock.counts)

    program.generate(never)

    assert sum(number for node in program.dive() for _, number in node.contents) == 47


def test_a_plan_of_known_patterns_teaches_nothing() -> None:
    catalogue = Catalogue([machine("m", cpu=10, memory=100, pods=9, price=1.0)])
    market = _market(lot(catalogue, [shape(5, 1, 4)]))
    program = Patterns(market, market.stock.counts)

    program.learn([market.close([(0, 2)])])

    assert len(program.dive()) == 2


def test_more_of_a_size_than_asked_for_may_be_planned() -> None:
    # Patterns taken from a plan hold more small pods than the demand shares evenly: their surplus must not block.
    catalogue = Catalogue([machine("m", cpu=10, memory=100, pods=9, price=1.0)])
    market = _market(lot(catalogue, [shape(7, 1, 5), shape(3, 1, 2), shape(1, 1, 30)]))
    program = Patterns(market, market.stock.counts)
    nodes = buy(market, market.stock.counts, never)
    assert nodes is not None

    program.learn(nodes)
    program.generate(never)

    assert cost_of(program.dive()) <= cost_of(nodes) + 1e-9
    assert program.bound() <= cost_of(nodes) + 1e-9


def test_no_more_patterns_are_looked_for_when_time_is_up() -> None:
    market = _lumpy()
    program = Patterns(market, market.stock.counts)
    known = len(program._columns)

    program.generate(lambda: True)

    assert len(program._columns) == known
    assert cost_of(program.dive()) > 0.0
