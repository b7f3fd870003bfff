# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Room, rooms
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, packed, shape


def test_standing_rooms_are_filled_before_anything_is_bought() -> None:
    room = Room(free=(4, 8, 9), admits=0b1)

    packing = packed(lot(linear_catalogue(), [shape(2, 2, 5)], rooms=[room]))

    assert packing.rooms == (((0, 2),),)
    assert packing.bins[0].contents == ((0, 3),)


def test_pods_that_all_find_room_cost_nothing() -> None:
    room = Room(free=(40, 80, 90), admits=0b1)

    packing = packed(lot(linear_catalogue(), [shape(2, 2, 5)], rooms=[room]))

    assert packing.bins == ()
    assert packing.price_per_hour == 0.0
    assert packing.bound_per_hour == 0.0


def test_a_room_takes_only_shapes_it_admits() -> None:
    room = Room(free=(40, 80, 90), admits=0b10)

    packing = packed(lot(linear_catalogue(), [shape(2, 2, 1), shape(2, 2, 1, order=1)], rooms=[room]))

    assert packing.rooms == (((1, 1),),)


def test_a_room_keeps_to_the_rules_of_its_pods() -> None:
    shapes = [shape(1, 1, 3, counted=1), shape(1, 1, 3, caps=((0, 1),), order=1)]
    crowded = Room(free=(40, 80, 90), admits=0b11, counts=((0, 2),), caps=((0, 3),))

    packing = packed(lot(linear_catalogue(), shapes, rooms=[crowded]))

    assert packing.rooms == (((0, 1),),)


def test_a_room_with_a_taken_port_refuses_its_rival() -> None:
    shapes = [shape(1, 1, 1, ports=1, port_conflicts=1)]
    room = Room(free=(40, 80, 90), admits=0b1, ports=1)

    assert packed(lot(linear_catalogue(), shapes, rooms=[room])).rooms == ((),)


def test_all_pods_find_room_at_once_where_one_room_after_the_other_leaves_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = [(4, 6, 1), (1, 4, 2), (2, 1, 1), (5, 4, 2), (6, 6, 1)]
    shapes = [shape(*size, order=order) for order, size in enumerate(sizes)]
    places = [Room(free=free, admits=0b11111) for free in ((13, 12, 9), (12, 13, 9), (8, 7, 9))]
    at_once = packed(lot(linear_catalogue(), shapes, rooms=places))
    monkeypatch.setattr(rooms, "_LOOKS", 0)

    in_turn = packed(lot(linear_catalogue(), shapes, rooms=places))

    assert at_once.bins == ()
    assert len(in_turn.bins) == 1


def test_rooms_filled_at_once_must_leave_less(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [shape(6, 1, 2), shape(3, 1, 2, order=1)]
    places = [Room(free=(9, 9, 9), admits=0b11), Room(free=(5, 9, 9), admits=0b11)]
    at_once = packed(lot(linear_catalogue(), shapes, rooms=places))
    monkeypatch.setattr(rooms, "_LOOKS", 0)

    in_turn = packed(lot(linear_catalogue(), shapes, rooms=places))

    assert at_once.rooms == in_turn.rooms


def test_an_open_node_is_filled_as_far_as_its_cheapest_offering_goes() -> None:
    catalogue = Catalogue([machine("s", cpu=4, price=1.0), machine("l", cpu=8, memory=16, price=2.0)])
    room = Room(free=(), admits=0b1, mask=0b11, used=(1, 1, 1))

    packing = packed(lot(catalogue, [shape(2, 1, 2)], rooms=[room]))

    assert packing.rooms == (((0, 1),),)
    assert len(packing.bins) == 1


def test_an_open_node_takes_only_pods_that_may_use_its_offering() -> None:
    catalogue = Catalogue([machine("s", cpu=4, price=1.0), machine("l", cpu=8, memory=16, price=2.0)])
    room = Room(free=(), admits=0b1, mask=0b11)

    packing = packed(lot(catalogue, [shape(1, 1, 1, mask=0b10)], rooms=[room]))

    assert packing.rooms == ((),)


def test_an_open_node_grows_for_pods_without_another_place() -> None:
    catalogue = Catalogue([machine("s", cpu=4, price=1.0), machine("l", cpu=8, memory=16, price=2.0)])
    room = Room(free=(), admits=0b1, mask=0b11, used=(3, 1, 1))

    packing = packed(lot(catalogue, [shape(2, 1, 9)], rooms=[room], limits=[("cpu", 4), ("nodes", 0)]))

    assert packing.rooms == (((0, 2),),)
    assert packing.bins == ()
    assert packing.left == (7,)


def test_an_open_node_does_not_grow_beyond_a_limit() -> None:
    catalogue = Catalogue([machine("s", cpu=4, price=1.0), machine("l", cpu=8, memory=16, price=2.0)])
    room = Room(free=(), admits=0b1, mask=0b11, used=(3, 1, 1))

    packing = packed(lot(catalogue, [shape(2, 1, 9)], rooms=[room], limits=[("cpu", 3)]))

    assert packing.rooms == ((),)


def test_growing_keeps_to_the_rules() -> None:
    catalogue = Catalogue([machine("s", cpu=4, price=1.0), machine("l", cpu=40, memory=90, price=2.0)])
    room = Room(free=(), admits=0b11, mask=0b11, used=(4, 1, 1))
    shapes = [shape(2, 1, 3, counted=1, caps=((0, 1),)), shape(1, 1, 2, order=1)]

    packing = packed(lot(catalogue, shapes, rooms=[room], limits=[("nodes", 0)]))

    assert packing.rooms == (((0, 1), (1, 2)),)
    assert packing.left == (2, 0)


def test_a_growing_node_narrows_to_what_its_new_pods_may_use() -> None:
    catalogue = Catalogue(
        [machine("s", cpu=4, price=1.0), machine("m", cpu=6, price=2.0), machine("l", cpu=8, price=3.0)]
    )
    room = Room(free=(), admits=0b11, mask=0b111, used=(0, 0, 0))
    shapes = [shape(4, 1, 1, mask=0b101), shape(2, 1, 1, mask=0b110, order=1)]

    packing = packed(lot(catalogue, shapes, rooms=[room], limits=[("nodes", 0)]))

    assert packing.rooms == (((0, 1), (1, 1)),)


def test_a_full_open_node_that_nothing_larger_can_replace_takes_no_more() -> None:
    catalogue = Catalogue([machine("s", cpu=4, price=1.0)])
    room = Room(free=(), admits=0b1, mask=0b1, used=(4, 1, 1))

    packing = packed(lot(catalogue, [shape(1, 1, 1)], rooms=[room], limits=[("nodes", 0)]))

    assert packing.left == (1,)


def test_an_open_node_of_offerings_that_are_not_sold_here_has_no_room() -> None:
    catalogue = Catalogue([machine("s", cpu=4, price=1.0), machine("l", cpu=8, price=2.0)])
    problem = lot(catalogue, [shape(1, 1, 1)], rooms=[Room(free=(), admits=0b1, mask=0b10)])
    problem = type(problem)(
        catalogue=catalogue,
        resources=problem.resources,
        shapes=problem.shapes,
        overheads=((0b01, (0, 0, 0)),),
        rooms=problem.rooms,
    )

    packing = packed(problem)

    assert packing.rooms == ((),)
    assert len(packing.bins) == 1
