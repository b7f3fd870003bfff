# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.scheduling.packing import Shape
from karpenter.scheduling.packing.filling import Filler
from karpenter.scheduling.packing.rules import NodeRules
from karpenter.scheduling.packing.stock import Stock
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, shape


def _fill(shapes: list[Shape], room: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    stock = Stock(lot(linear_catalogue(), shapes))
    filler = Filler(stock, [1.0] * len(stock.resources))
    everyone = (1 << len(stock.sizes)) - 1
    placed = filler.fill(room, everyone, stock.counts, NodeRules())
    return {stock.sizes[kind]: number for kind, number in placed.items()}


def test_the_pods_that_leave_least_room_come_first() -> None:
    assert _fill([shape(7, 7, 9), shape(5, 5, 9), shape(3, 3, 9)], (10, 10, 9)) == {
        (7, 7, 1): 1,
        (3, 3, 1): 1,
    }


def test_a_lopsided_room_draws_lopsided_pods() -> None:
    assert _fill([shape(4, 1, 9), shape(1, 4, 9)], (2, 9, 9)) == {(1, 4, 1): 2}


def test_no_more_pods_enter_than_there_are() -> None:
    assert _fill([shape(1, 1, 3), shape(2, 2, 1)], (20, 20, 20)) == {(1, 1, 1): 3, (2, 2, 1): 1}


def test_a_room_too_small_for_all_stays_empty() -> None:
    assert _fill([shape(3, 3, 3)], (2, 9, 9)) == {}


def test_host_rules_hold_while_a_room_is_filled() -> None:
    placed = _fill([shape(2, 2, 9, counted=1, caps=((0, 2),)), shape(1, 1, 2, counted=1)], (20, 20, 20))

    assert placed == {(2, 2, 1): 2}


def test_pods_that_take_nothing_all_fit() -> None:
    stock = Stock(lot(linear_catalogue(), [Shape(size=(0, 0, 0), count=50, mask=-1)]))
    filler = Filler(stock, [1.0])

    assert filler.fill((0,), 1, stock.counts, NodeRules()) == {0: 50}


def test_in_a_cell_of_many_sizes_a_smaller_one_is_found() -> None:
    shapes = [shape(1100 + size, 1100 + size) for size in range(120)]

    placed = _fill(shapes, (1216, 1216, 9))

    assert placed == {(1216, 1216, 1): 1}


def test_a_cell_is_given_up_after_a_few_sizes_too_large() -> None:
    shapes = [shape(1100 + size, 1100 + size) for size in range(120)]

    assert _fill(shapes, (1150, 1150, 9)) == {}
