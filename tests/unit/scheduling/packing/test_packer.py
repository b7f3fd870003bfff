# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import Lot, PackOptions, Shape, bound, pack
from tests.property.scheduling.packing.checker import faults
from tests.unit.scheduling.packing.builders import (
    RESOURCES,
    linear_catalogue,
    lot,
    machine,
    never,
    packed,
    shape,
    types_of,
)


def _mixed(pods: int, *, exclusive: bool = False) -> list[Shape]:
    """About so many pods of 24 sizes; if asked for, every fifth must stand apart from its like."""
    found = []
    for place in range(24):
        cpu, memory = (1, 2, 3, 5)[place % 4], (1, 3, 7, 11, 20, 29)[place // 4]
        count = pods * (place % 3 + 1) // 48
        found.append(shape(cpu, memory, count, order=place))
        if exclusive:
            found.append(shape(cpu, memory, count // 4, counted=1, caps=((0, 1),), order=100 + place))
    return found


def test_one_pod_gets_the_cheapest_node_that_holds_it() -> None:
    problem = lot(linear_catalogue(), [shape(15, 20)])

    packing = packed(problem)

    assert types_of(problem, packing) == ["c2"]
    assert packing.price_per_hour == pytest.approx(0.2)
    assert packing.bound_per_hour == pytest.approx(0.2)


def test_every_offering_that_holds_the_pods_stays_an_alternative() -> None:
    catalogue = Catalogue([machine(f"m{size}", cpu=size, price=size, zones=("x", "y")) for size in (1, 2, 4)])

    packing = packed(lot(catalogue, [shape(2, 1)]))

    assert packing.bins[0].mask == 0b111100


def test_nothing_to_pack_is_an_empty_packing() -> None:
    packing = packed(lot(linear_catalogue(), []))

    assert (packing.bins, packing.left, packing.price_per_hour, packing.bound_per_hour) == ((), (), 0.0, 0.0)


def test_pods_that_fit_nothing_are_left_and_the_others_placed() -> None:
    packing = packed(lot(linear_catalogue(), [shape(1 << 63, 1, 2), shape(1, 1, 3), shape(1, 1, 1, mask=0)]))

    assert packing.left == (2, 0, 1)


def test_pods_that_ask_for_no_cpu_are_packed_by_the_rest() -> None:
    packing = packed(lot(linear_catalogue(), [shape(0, 10, 10)]))

    assert packing.left == (0,)
    assert packing.price_per_hour == pytest.approx(0.16 + 0.10)


def test_pods_that_ask_for_nothing_share_the_cheapest_node() -> None:
    problem = Lot(
        catalogue=linear_catalogue(),
        resources=("cpu",),
        shapes=(Shape(size=(0,), count=40, mask=1),),
        overheads=((1, (0,)),),
    )

    packing = packed(problem)

    assert [bought.contents for bought in packing.bins] == [((0, 40),)]


def test_thousands_of_equal_pods_fill_equal_nodes() -> None:
    catalogue = Catalogue([machine("m", cpu=10, memory=100, pods=50, price=1.0)])

    packing = packed(lot(catalogue, [shape(1, 1, 5000)]))

    assert len(packing.bins) == 500
    assert packing.bound_per_hour == pytest.approx(500.0)


def test_hundreds_of_different_sizes_stay_close_to_the_bound() -> None:
    shapes = [shape(100 + 7 * i % 311, 150 + 13 * i % 977, order=i) for i in range(300)]
    catalogue = Catalogue(
        machine(f"{family}{size}", cpu=1000 * size, memory=ratio * 1000 * size, pods=900, price=price * size)
        for family, ratio, price in (("c", 2, 0.10), ("m", 4, 0.12), ("r", 8, 0.16))
        for size in (1, 2, 4, 8)
    )

    problem = lot(catalogue, shapes)
    packing = packed(problem)

    assert packing.price_per_hour <= 1.03 * packing.bound_per_hour
    assert faults(problem, packing) == []


@pytest.mark.parametrize("pods", [300, 2000])
def test_a_smooth_mix_costs_little_more_than_the_bound(pods: int) -> None:
    problem = lot(linear_catalogue(), _mixed(pods))

    packing = packed(problem)

    assert packing.price_per_hour <= 1.02 * packing.bound_per_hour
    assert faults(problem, packing) == []


@pytest.mark.parametrize("pods", [300, 2000])
def test_a_mix_with_pods_that_stand_apart_stays_close_to_the_bound(pods: int) -> None:
    problem = lot(linear_catalogue(), _mixed(pods, exclusive=True))

    packing = packed(problem)

    assert packing.price_per_hour <= 1.15 * packing.bound_per_hour
    assert faults(problem, packing) == []


def test_a_fee_for_nodes_buys_fewer_and_larger_ones() -> None:
    problem = lot(linear_catalogue(), _mixed(300))

    many = packed(problem, node_fee=0.0, tolerance=0.0)
    few = packed(problem, node_fee=1.0, tolerance=0.0)

    assert len(few.bins) < len(many.bins)
    assert many.price_per_hour <= few.price_per_hour


def test_a_tolerance_gives_up_little_of_the_price() -> None:
    problem = lot(linear_catalogue(), _mixed(300))

    exact = packed(problem, node_fee=0.0, tolerance=0.0)
    tolerant = packed(problem, node_fee=0.0, tolerance=0.01)

    assert tolerant.price_per_hour <= 1.015 * exact.price_per_hour
    assert len(tolerant.bins) <= len(exact.bins)


def test_time_that_is_up_at_once_leaves_the_greedy_plan() -> None:
    problem = lot(linear_catalogue(), _mixed(300))

    packing = pack(problem, options=PackOptions(), expired=lambda: True)

    assert packing.found_by == "greedy"
    assert packing == packed(problem, effort=0)


def test_a_good_plan_is_not_improved_any_further() -> None:
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return False

    packing = pack(
        lot(linear_catalogue(), [shape(1, 2, 160)]), options=PackOptions(effort=10_000), expired=expired
    )

    assert packing.price_per_hour == pytest.approx(1.6)
    assert asked < 5


def test_equal_shapes_are_handed_out_in_their_order() -> None:
    catalogue = Catalogue([machine("m", cpu=4, price=1.0)])

    packing = packed(lot(catalogue, [shape(2, 1, 3, order=9), shape(2, 1, 1, order=1)]))

    assert [bought.contents for bought in packing.bins] == [((0, 1), (1, 1)), ((0, 2),)]


def test_a_limited_lot_is_improved_within_its_limits() -> None:
    problem = lot(linear_catalogue(), _mixed(300, exclusive=True), limits=[("cpu", 1100), ("nodes", 80)])

    packing = packed(problem, effort=300)

    assert faults(problem, packing) == []
    assert not any(packing.left)


def test_time_may_run_out_at_any_point_of_a_limited_lot() -> None:
    catalogue = Catalogue(
        [machine("wasteful", cpu=4, reserved=12, price=1.0), machine("lean", cpu=4, price=1.2)]
    )
    problem = lot(catalogue, [shape(3, 1, 3), shape(2, 1, 2, order=1)], limits=[("cpu", 20)])
    left = []
    for patience in range(16):
        asked = 0

        def expired() -> bool:
            nonlocal asked
            asked += 1
            return asked > patience  # noqa: B023

        packing = pack(problem, options=PackOptions(), expired=expired)
        assert faults(problem, packing) == []
        left.append(sum(packing.left))

    assert left == sorted(left, reverse=True)
    assert left[-1] == 0


def test_daemons_that_differ_by_offering_count_where_they_run() -> None:
    catalogue = Catalogue([machine("a", cpu=4, price=1.0), machine("b", cpu=4, price=1.1)])
    problem = Lot(
        catalogue=catalogue,
        resources=RESOURCES,
        shapes=(Shape(size=(4, 1, 1), count=1, mask=0b11),),
        overheads=((0b01, (1, 0, 1)), (0b10, (0, 0, 0))),
    )

    assert types_of(problem, packed(problem)) == ["b"]


def test_the_bound_of_a_lot_is_that_of_its_packing() -> None:
    problem = lot(linear_catalogue(), _mixed(300))

    packing = packed(problem)

    assert bound(problem, packing.price_per_hour) == pytest.approx(packing.bound_per_hour)


def test_pods_that_fit_nothing_do_not_raise_the_bound() -> None:
    pods = [shape(1, 2, 160)]

    assert bound(lot(linear_catalogue(), [*pods, shape(9999, 1, 5)]), 9.9) == bound(
        lot(linear_catalogue(), pods), 9.9
    )
    assert bound(lot(linear_catalogue(), [shape(9999, 1, 5)]), 9.9) == 0.0
    assert bound(lot(linear_catalogue(), []), 9.9) == 0.0


def test_never_means_that_time_does_not_end() -> None:
    assert not never()


def test_no_bound_is_proven_for_who_proves_one_elsewhere() -> None:
    problem = lot(linear_catalogue(), _mixed(100))

    packing = packed(problem, prove=False)

    assert packing.bound_per_hour == 0.0
    assert packing.bins == packed(problem).bins
