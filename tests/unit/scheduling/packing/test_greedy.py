# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.model.catalogue import Catalogue
from tests.unit.scheduling.packing.builders import linear_catalogue, lot, machine, packed, shape, types_of


def test_without_effort_the_node_that_takes_most_pods_is_bought() -> None:
    problem = lot(linear_catalogue(), [shape(1, 2, 160)])

    packing = packed(problem, effort=0)

    assert packing.found_by == "greedy"
    assert types_of(problem, packing) == ["c16"]


def test_a_node_is_closed_on_the_cheapest_option_that_holds_it() -> None:
    problem = lot(linear_catalogue(), [shape(5, 10, 2)])

    assert types_of(problem, packed(problem, effort=0)) == ["c1"]


def test_equal_nodes_are_bought_at_once() -> None:
    catalogue = Catalogue([machine("m", cpu=4)])

    packing = packed(lot(catalogue, [shape(2, 1, 9)]), effort=0)

    assert [bought.contents for bought in packing.bins] == [((0, 2),)] * 4 + [((0, 1),)]


def test_pods_that_nothing_holds_are_left() -> None:
    packing = packed(lot(linear_catalogue(), [shape(1000, 1, 3), shape(1, 1, 2)]), effort=0)

    assert packing.left == (3, 0)


def test_pods_that_may_not_share_a_node_get_their_own() -> None:
    packing = packed(lot(linear_catalogue(), [shape(1, 1, 5, counted=1, caps=((0, 1),))]), effort=0)

    assert len(packing.bins) == 5


def test_pods_of_other_masks_join_as_long_as_an_offering_serves_all() -> None:
    catalogue = Catalogue([machine("a", cpu=9, price=1.0), machine("b", cpu=9, price=2.0)])
    pods = [shape(3, 1, 1, mask=0b01), shape(2, 1, 1, mask=0b11), shape(1, 1, 1, mask=0b10)]

    packing = packed(lot(catalogue, pods), effort=0)

    assert [bought.contents for bought in packing.bins] == [((2, 1),), ((0, 1), (1, 1))]


def test_a_limit_stops_the_buying() -> None:
    catalogue = Catalogue([machine("m", cpu=4)])

    packing = packed(lot(catalogue, [shape(2, 1, 9)], limits=[("cpu", 9)]), effort=0)

    assert len(packing.bins) == 2
    assert packing.left == (5,)


def test_smaller_pods_are_bought_for_when_a_limit_is_too_tight_for_large_ones() -> None:
    catalogue = Catalogue([machine("s", cpu=2, price=1.0), machine("l", cpu=8, price=2.0)])

    packing = packed(lot(catalogue, [shape(8, 1, 1), shape(1, 1, 2)], limits=[("cpu", 3)]), effort=0)

    assert packing.left == (1, 0)
