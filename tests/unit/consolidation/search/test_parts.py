# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.consolidation.search.buying import Shop
from karpenter.consolidation.search.copy import Copy
from karpenter.consolidation.search.hostrules import HostRules
from karpenter.consolidation.search.polishing import _bring_back
from karpenter.consolidation.search.pricing import price
from karpenter.consolidation.search.program import minimise
from karpenter.consolidation.search.staging import staged
from karpenter.consolidation.search.sweeping import Sweep
from karpenter.consolidation.search.terrain import Terrain
from karpenter.scheduling.options import never
from karpenter.scheduling.packing.improving import Chance
from tests.unit.consolidation.search.terrains import kind, machine, node, source, terrain

ENDLESS = float("inf")


def sweep_of(copy: Copy) -> Sweep:
    return Sweep(copy, price(copy.terrain), Shop(copy.terrain), never)


def state(copy: Copy) -> tuple[object, ...]:
    kinds = range(len(copy.terrain.kinds))
    return (
        copy.cost,
        [dict(each) for each in copy.guests],
        [copy.free(host) for host in copy.hosts()],
        [copy.having_room(each) & copy.open_hosts() for each in kinds],
    )


def test_whatever_was_done_is_taken_back() -> None:
    copy = Copy(
        terrain([kind(2, 4), kind(1, 0)], [node((4, 8, 9), [(0, 1)]), node((0, 8, 9)), node((4, 0, 9))])
    )
    before = state(copy)

    mark = copy.mark()
    copy.close(0)
    copy.buy(0, 2, {0: 1, 1: 2})
    copy.place({1: 3}, copy.open_hosts())
    copy.close(3)
    copy.open_again(0)
    changed = state(copy)
    copy.take_back(mark)

    assert changed != before
    assert state(copy) == before


def test_pods_go_where_the_free_room_is_most_like_them() -> None:
    copy = Copy(terrain([kind(1, 4)], [node((8, 8, 9)), node((2, 8, 9)), node((8, 16, 9))]))

    left = copy.place({0: 2}, copy.open_hosts())

    assert left == {}
    assert copy.guests[1] == {0: 2}


def test_pods_without_room_are_handed_back() -> None:
    copy = Copy(terrain([kind(2, 4)], [node((4, 8, 9))]))

    assert copy.place({0: 5}, copy.open_hosts()) == {0: 3}


def test_an_owner_bears_so_many_and_no_more() -> None:
    rules = HostRules([kind(1, 1, counted=0b01), kind(1, 1, caps=((0, 2),)), kind(1, 1, counted=0b10)])

    assert rules.refused({0: 2, 1: 5}, {0: 3, 7: 0}) == 0
    assert rules.refused({0: 3}, {0: 3}) == 0b011
    assert rules.most({0: 3}, {}, 1) == 0
    assert rules.most({0: 1}, {}, 1) > 1000
    assert rules.most({0: 1}, {0: 3}, 0) == 2


def test_the_cheapest_cover_is_found_and_columns_that_earn_are_kept() -> None:
    answer = minimise(
        rows=[[1.0, 1.0, 1.0], [0.0, 1.0, 0.5]],
        costs=[1.0, 3.0, -1.0],
        demands=[3.0, 1.0],
        bounds=[ENDLESS, ENDLESS, 1.0],
        pivots=50,
    )

    assert answer.met
    assert answer.amounts == pytest.approx([1.5, 0.5, 1.0])
    assert answer.duals == pytest.approx([1.0, 2.0])


def test_a_column_is_used_up_to_its_bound_before_a_dearer_one_is() -> None:
    answer = minimise([[1.0, 1.0]], [1.0, 2.0], [3.0], [2.0, ENDLESS], 50)

    assert answer.amounts == pytest.approx([2.0, 1.0])
    assert answer.duals == pytest.approx([2.0])


def test_demands_that_nothing_meets_are_said_to_be_unmet() -> None:
    assert not minimise([[1.0]], [1.0], [3.0], [2.0], 50).met
    assert not minimise([[1.0]], [1.0], [3.0], [ENDLESS], 0).met


def test_groups_beyond_the_largest_get_no_price_of_their_own() -> None:
    pods = [kind(1, 2, nodes=1 << i) for i in range(30)]
    ground = terrain(pods, [node((4, 8, 9), [(i, 30 - i)]) for i in range(30)])

    prices = price(ground)

    assert prices.group_of.count(-1) == 6
    assert len(prices.keep) == 30


def test_a_limit_keeps_a_cheaper_but_larger_offering_away() -> None:
    sold = (machine("lean", 4, 8, 0.2), machine("vast", 4, 32, 0.19))
    ground = terrain(
        [kind(4, 8, mask=0b11)], [node((0, 0, 0))], sources=(source(*sold, limits=(("memory", 10),)),)
    )

    bought = Shop(ground).buy({0: 1}, Copy(ground), 1.0)

    assert bought is not None
    assert ground.sources[0].catalogue.type_at(bought[0][1]).name == "lean"


def test_what_costs_too_much_is_not_bought() -> None:
    ground = terrain([kind(4, 8)], [node((0, 0, 0))])

    assert Shop(ground).buy({0: 1}, Copy(ground), 0.1) is None


def two_gone(second_gain: float) -> Copy:
    ground = terrain(
        [kind(2, 4), kind(1, 4)],
        [node((0, 0, 0), [(0, 1)], gain=1.0), node((0, 0, 0), [(1, 1)], gain=second_gain)],
    )
    copy = Copy(ground)
    for host in (0, 1):
        copy.close(host)
        copy.buy(0, 0, {host: 1})
    return copy


def test_a_step_that_does_not_pay_alone_is_part_of_one_that_does() -> None:
    alone = staged(two_gone(0.5))
    late = staged(two_gone(0.05))
    early = staged(_cheap_first())

    assert [len(step.remove) for step in alone] == [1, 1]
    assert [len(step.remove) for step in late] == [2]
    assert [len(step.remove) for step in early] == [2]
    assert all(step.gain > 0.0 for steps in (alone, late, early) for step in steps)


def _cheap_first() -> Copy:
    """Give a copy in which the node that pays best needs a launch that only both nodes together pay for."""
    ground = terrain([kind(2, 4)], [node((0, 0, 0), [(0, 1)], gain=0.3), node((0, 0, 0), [(0, 1)], gain=0.3)])
    copy = Copy(ground)
    copy.close(0)
    copy.close(1)
    copy.buy(0, 2, {0: 2})
    return copy


def test_a_node_comes_back_if_that_is_cheaper_than_what_was_bought_for_its_pods() -> None:
    ground = terrain([kind(2, 4)], [node((0, 0, 0), [(0, 1)], gain=0.15)])
    copy = Copy(ground)
    copy.close(0)
    copy.buy(0, 2, {0: 1})
    copy.forget()

    _bring_back(copy, sweep_of(copy), Chance(1))

    assert copy.is_open == [True, False]
    assert copy.cost == pytest.approx(0.0)


def test_a_node_does_not_come_back_for_more_than_it_was_worth() -> None:
    copy = _cheap_first()
    copy.forget()
    before = state(copy)

    _bring_back(copy, sweep_of(copy), Chance(1))

    assert state(copy) == before


def test_a_node_does_not_come_back_whose_pods_are_on_too_many_bought_ones() -> None:
    ground = terrain([kind(2, 4)], [node((0, 0, 0), [(0, 9)], gain=0.0)])
    copy = Copy(ground)
    copy.close(0)
    for _ in range(9):
        copy.buy(0, 0, {0: 1})
    copy.forget()
    before = state(copy)

    _bring_back(copy, sweep_of(copy), Chance(1))

    assert state(copy) == before


def test_pods_come_back_from_standing_nodes_too() -> None:
    ground = terrain(
        [kind(2, 4)], [node((0, 0, 0), [(0, 2)], gain=0.1), node((2, 4, 1), removable=False), node((2, 4, 1))]
    )
    copy = Copy(ground)
    copy.close(0)
    copy.put(1, 0, 1)
    copy.buy(0, 2, {0: 1})
    copy.forget()

    _bring_back(copy, sweep_of(copy), Chance(1))

    assert copy.is_open == [True, True, True, False]
    assert copy.guests[1] == {}


def test_a_first_look_may_be_wrong_about_room_and_is_taken_back() -> None:
    ground = terrain(
        [kind(2, 4, source=-1, mask=0)], [node((0, 0, 0), [(0, 2)]), node((2, 4, 9), removable=False)]
    )
    copy = Copy(ground)
    before = state(copy)

    went = sweep_of(copy).delete(0, copy.open_hosts())

    assert not went
    assert state(copy) == before


def test_an_exchange_that_earns_nothing_is_not_even_tried() -> None:
    ground: Terrain = terrain([kind(2, 4)], [node((0, 0, 0), [(0, 1)], gain=0.0)])
    copy = Copy(ground)

    assert not sweep_of(copy).exchange([0], copy.open_hosts())
    assert copy.cost == 0.0


def test_nothing_is_bought_for_pods_that_only_hold_room() -> None:
    ground = terrain([kind(2, 4, ghost=True)], [node((0, 0, 0))])

    assert not sweep_of(Copy(ground)).settle({0: 1}, 0, 10.0)
