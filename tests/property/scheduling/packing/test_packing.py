# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.scheduling.packing import Lot, Packing, PackOptions, pack
from tests.property.scheduling.packing.checker import cheapest_price, faults, pods_of
from tests.property.scheduling.packing.strategies import lots
from tests.unit.scheduling.packing.builders import never

_FEE = PackOptions().node_fee

# Packing a lot in many ways takes a while where every line is traced.
pytestmark = pytest.mark.timeout(60)


def _pack(lot: Lot, **options: float) -> Packing:
    return pack(lot, options=PackOptions(**options), expired=never)  # type: ignore[arg-type]


@settings(max_examples=62, deadline=None)
@given(lots())
def test_no_packing_breaks_a_rule(lot: Lot) -> None:
    packing = _pack(lot)

    assert faults(lot, packing) == []


@settings(max_examples=50, deadline=None)
@given(lots(rules=False, with_rooms=False, limited=False, most_shapes=8, most_pods=60))
def test_no_packing_of_many_plain_pods_breaks_a_rule(lot: Lot) -> None:
    packing = _pack(lot)

    assert faults(lot, packing) == []


@settings(max_examples=50, deadline=None)
@given(lots(), st.sampled_from([0, 1, 20, 400]))
def test_the_greedy_plan_is_a_floor_at_any_effort(lot: Lot, effort: int) -> None:
    floor = _pack(lot, effort=0)

    packing = _pack(lot, effort=effort)

    assert faults(lot, floor) == []
    assert sum(packing.left) <= sum(floor.left)
    if sum(packing.left) == sum(floor.left):
        assert packing.price_per_hour <= floor.price_per_hour + 1e-9


@settings(max_examples=37, deadline=None)
@given(lots(limited=False, with_rooms=False, most_pods=20), st.integers(1, 60), st.integers(1, 200))
def test_more_effort_never_costs_more(lot: Lot, effort: int, more: int) -> None:
    # The fee of the options is a fixed one here: then cost is price and fee.
    def cost(packing: Packing) -> float:
        return packing.price_per_hour + _FEE * len(packing.bins)

    less = _pack(lot, effort=effort, tolerance=0.0)

    better = _pack(lot, effort=effort + more, tolerance=0.0)

    assert cost(better) <= cost(less) + 1e-9


@settings(max_examples=37, deadline=None)
@given(lots(limited=False, with_rooms=False), st.integers(0, 12), st.integers(1, 12))
def test_more_time_never_costs_more(lot: Lot, looks: int, more: int) -> None:
    def cost_after(number: int) -> float:
        asked = 0

        def expired() -> bool:
            nonlocal asked
            asked += 1
            return asked > number

        packing = pack(lot, options=PackOptions(tolerance=0.0), expired=expired)
        assert faults(lot, packing) == []
        return packing.price_per_hour + _FEE * len(packing.bins)

    assert cost_after(looks + more) <= cost_after(looks) + 1e-9


@settings(max_examples=50, deadline=None)
@given(
    lots(with_rooms=False, limited=False, most_shapes=3, most_pods=2, most_types=5).filter(
        lambda lot: sum(each.count for each in lot.shapes) <= 6
    )
)
def test_the_optimum_of_a_tiny_lot_lies_between_bound_and_price(lot: Lot) -> None:
    packing = _pack(lot)

    placed = [pod for bought in packing.bins for pod in pods_of(lot, bought.contents)]
    optimum = cheapest_price(lot, placed)
    assert packing.bound_per_hour <= optimum + 1e-9
    assert optimum <= packing.price_per_hour + 1e-9


@settings(max_examples=50, deadline=None)
@given(lots(limited=False), st.randoms(use_true_random=False))
def test_the_order_of_shapes_does_not_show_in_the_bins(lot: Lot, random: object) -> None:
    order = list(range(len(lot.shapes)))
    random.shuffle(order)  # type: ignore[attr-defined]
    place = {old: new for new, old in enumerate(order)}
    shuffled = replace(
        lot,
        shapes=tuple(lot.shapes[old] for old in order),
        rooms=tuple(
            replace(room, admits=sum(1 << place[old] for old in order if room.admits >> old & 1))
            for room in lot.rooms
        ),
    )

    first = _pack(lot)
    second = _pack(shuffled)

    def named(packing: Packing, lot: Lot) -> list[object]:
        return [
            [
                (bought.mask, bought.used, sorted((lot.shapes[i].order, n) for i, n in bought.contents))
                for bought in packing.bins
            ],
            [sorted((lot.shapes[i].order, n) for i, n in room) for room in packing.rooms],
            packing.price_per_hour,
            packing.bound_per_hour,
            packing.found_by,
        ]

    assert named(first, lot) == named(second, shuffled)


@settings(max_examples=25, deadline=None)
@given(lots())
def test_the_same_lot_gives_the_same_packing(lot: Lot) -> None:
    assert _pack(lot) == _pack(lot)


@pytest.mark.parametrize("seed", [1, 2, 3])
@settings(max_examples=25, deadline=None)
@given(lots(limited=False))
def test_any_seed_keeps_the_rules(seed: int, lot: Lot) -> None:
    assert faults(lot, _pack(lot, seed=seed, effort=200)) == []
