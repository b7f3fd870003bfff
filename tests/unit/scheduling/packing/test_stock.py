# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Room
from karpenter.scheduling.packing.stock import Stock, present
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, shape


def test_shapes_that_differ_only_in_what_no_rule_looks_at_become_one_kind() -> None:
    stock = Stock(lot(linear_catalogue(), [shape(1, 2, 3, counted=1), shape(1, 2, 4, counted=2, order=1)]))

    assert stock.counts == [7]
    assert stock.samples[0].counted == 0


def test_a_group_that_some_pod_owns_a_rule_on_keeps_kinds_apart() -> None:
    stock = Stock(
        lot(linear_catalogue(), [shape(1, 2, 3, counted=1), shape(1, 2, 4), shape(9, 9, caps=((0, 1),))])
    )

    assert sorted(stock.counts) == [1, 3, 4]


def test_a_group_capped_on_a_room_keeps_kinds_apart() -> None:
    room = Room(free=(9, 9, 9), admits=0b11, caps=((0, 1),))

    stock = Stock(lot(linear_catalogue(), [shape(1, 2, 3, counted=1), shape(1, 2, 4)], rooms=[room]))

    assert sorted(stock.counts) == [3, 4]


def test_shapes_that_different_rooms_admit_stay_apart() -> None:
    rooms = [Room(free=(9, 9, 9), admits=0b01), Room(free=(9, 9, 9), admits=0b10)]

    stock = Stock(lot(linear_catalogue(), [shape(1, 2), shape(1, 2, order=1)], rooms=rooms))

    assert [stock.kinds_admitted(room.admits).bit_count() for room in rooms] == [1, 1]


def test_kinds_come_in_an_order_of_their_own() -> None:
    shapes = [shape(1, 2), shape(5, 2), shape(1, 9), shape(1, 1, caps=((0, 1),))]

    stock = Stock(lot(linear_catalogue(), shapes))

    assert stock.sizes == [(1, 1, 1), (5, 2, 1), (1, 9, 1), (1, 2, 1)]
    assert Stock(lot(linear_catalogue(), shapes[::-1])).sizes == stock.sizes


def test_resources_that_no_pod_asks_for_do_not_count() -> None:
    stock = Stock(lot(linear_catalogue(), [shape(0, 2)]))

    assert stock.resources == ("memory", "pods")
    assert stock.project((7, 8, 9)) == (8, 9)


def test_shapes_without_pods_are_no_kinds() -> None:
    assert Stock(lot(linear_catalogue(), [shape(1, 1, 0), shape(2, 2, 1)])).counts == [1]
    assert Stock(lot(linear_catalogue(), [])).counts == []


def test_offerings_that_daemons_do_not_fit_on_leave_the_masks() -> None:
    catalogue = Catalogue([machine("a", cpu=1, price=1.0), machine("b", cpu=4, price=2.0)])

    stock = Stock(lot(catalogue, [shape(0, 1)], overhead=(2, 0, 0)))

    assert stock.masks == (0b10,)


def test_few_sizes_have_cells_of_their_own_and_many_share_them() -> None:
    few = Stock(lot(linear_catalogue(), [shape(size, 1) for size in range(1, 90)]))
    many = Stock(lot(linear_catalogue(), [shape(size, 1) for size in range(1, 200)]))

    assert len(few.cells) == 89
    assert len(many.cells) == 15
    assert sum(many.cells) == (1 << 199) - 1


def test_the_least_of_a_cell_is_taken_resource_by_resource() -> None:
    stock = Stock(lot(linear_catalogue(), [shape(1100 + size, 2000 - size) for size in range(100)]))

    assert len(stock.cells) == 1
    assert stock.least == [[1100], [1901], [1]]


def test_nodes_are_unfolded_into_shapes_in_their_order() -> None:
    stock = Stock(lot(linear_catalogue(), [shape(1, 1, 2, order=5), shape(1, 1, 3, order=4), shape(2, 2, 1)]))
    small = stock.sizes.index((1, 1, 1))

    contents, left = stock.unfold([[(small, 4)]])

    assert contents == [((0, 1), (1, 3))]
    assert left == [1, 0, 1]


def test_totals_and_largest_follow_the_counts() -> None:
    stock = Stock(lot(linear_catalogue(), [shape(1, 4, 10), shape(3, 2, 10)]))
    counts = [2 if size == (1, 4, 1) else 1 for size in stock.sizes]

    assert stock.total(counts) == [5, 10, 3]
    assert stock.largest(counts) == [3, 4, 1]
    assert stock.largest([0, 0]) == [0, 0, 0]
    assert present(counts) == 0b11


def test_pods_that_must_stand_apart_force_nodes() -> None:
    stock = Stock(
        lot(linear_catalogue(), [shape(1, 1, 9, counted=1, caps=((0, 2),)), shape(2, 2, 5)]),
    )
    exclusive = stock.sizes.index((1, 1, 1))

    assert stock.apart == [(5, 2, [exclusive])]
    assert stock.forced_nodes(stock.counts) == (5, [exclusive])
    assert stock.forced_nodes([0, 0]) == (1, ())
