# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot, bounds, simplex
from karpenter.scheduling.packing.bounds import lower_bound
from karpenter.scheduling.packing.market import Market
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, shape


def _bound(problem: Lot, price: float = 1e9) -> float:
    stock = Stock(problem)
    market = Market(stock, stock.menu, stock.counts)
    return lower_bound(market, stock.counts, price)


def test_full_nodes_of_the_best_family_are_the_bound() -> None:
    assert _bound(lot(linear_catalogue(), [shape(1, 4, 160)])) == pytest.approx(16 * 0.12)


def test_pods_that_stand_apart_need_a_node_each() -> None:
    pods = [shape(1, 1, 30, counted=1, caps=((0, 1),)), shape(1, 1, 5, order=1)]

    assert _bound(lot(linear_catalogue(), pods)) == pytest.approx(30 * 0.10)


def test_pods_that_stand_apart_in_twos_need_half_as_many() -> None:
    pods = [shape(1, 1, 30, counted=1, caps=((0, 2),)), shape(4, 1, 1, counted=1, caps=((0, 2),), order=1)]

    assert _bound(lot(linear_catalogue(), pods)) >= 15 * 0.10 - 1e-9


def test_a_few_pods_that_one_node_may_hold_force_nothing() -> None:
    pods = [shape(1, 1, 2, counted=1, caps=((0, 4),)), shape(1, 1, 5, order=1)]

    assert _bound(lot(linear_catalogue(), pods)) <= 0.10


def test_pods_of_a_narrow_mask_must_be_paid_for_there() -> None:
    catalogue = Catalogue([machine("cheap", cpu=10, price=0.1), machine("dear", cpu=10, price=5.0)])
    pods = [shape(1, 1, 50), shape(1, 1, 30, mask=0b10, order=1)]

    assert _bound(lot(catalogue, pods)) >= 3 * 5.0 - 1e-6


def test_large_pods_must_be_paid_for_on_large_nodes() -> None:
    catalogue = Catalogue(
        [
            machine("nano", cpu=2, memory=90, pods=9, price=0.01),
            machine("big", cpu=16, memory=90, pods=9, price=2.0),
        ]
    )
    pods = [shape(1, 1, 40), shape(10, 1, 6, order=1)]

    assert _bound(lot(catalogue, pods)) >= 6 * 2.0 - 1e-6


def test_a_bound_close_to_the_price_is_good_enough() -> None:
    catalogue = Catalogue(
        [
            machine("nano", cpu=2, memory=90, pods=9, price=0.01),
            machine("big", cpu=16, memory=90, pods=9, price=2.0),
        ]
    )
    problem = lot(catalogue, [shape(1, 1, 40), shape(10, 1, 6, order=1)])

    assert _bound(problem, price=0.1) < _bound(problem)


def _middling() -> Lot:
    """The best for cpu and the best for memory are both beaten by what lies between, for pods of both sorts."""
    catalogue = Catalogue(
        machine(name, cpu=10, memory=memory, pods=20, price=price)
        for name, memory, price in (("c", 20, 0.10), ("m", 40, 0.11), ("r", 80, 0.16))
    )
    return lot(catalogue, [shape(1, 2, 80), shape(1, 6, 80)])


def test_a_bound_found_with_a_few_options_at_a_time_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = _bound(_middling())
    monkeypatch.setattr(simplex, "_FIRST_COLUMNS", 1)
    monkeypatch.setattr(simplex, "_MORE_COLUMNS", 1)
    monkeypatch.setattr(bounds, "_MOST_TURNS", 100)

    in_turns = _bound(_middling())

    assert in_turns == pytest.approx(at_once, rel=1e-6)


def test_a_bound_that_may_not_look_at_all_options_is_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = _bound(_middling())
    monkeypatch.setattr(simplex, "_FIRST_COLUMNS", 1)
    monkeypatch.setattr(bounds, "_MOST_TURNS", 1)

    cut = _bound(_middling())

    assert 0.0 < cut <= at_once + 1e-9
