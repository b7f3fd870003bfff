# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from karpenter.consolidation.search import explore
from karpenter.consolidation.search.searching import Outcome
from karpenter.consolidation.search.terrain import Terrain
from karpenter.scheduling.options import never
from tests.unit.consolidation.search.terrains import ALL, SMALL, kind, node, source, terrain


def found_on(ground: Terrain, tries: int = 60) -> Outcome:
    return explore(ground, tries, 1, never)


def removed(outcome: Outcome) -> list[int]:
    return sorted(host for step in outcome.steps for host in step.remove)


def bought(outcome: Outcome) -> list[int]:
    return sorted(node.position for node in outcome.copy.purchases())


def test_a_node_whose_pods_have_room_elsewhere_goes() -> None:
    unsold = kind(1, 2, source=-1, mask=0)
    ground = terrain([unsold], [node((4, 8, 10), [(0, 2)]), node((6, 12, 10), [(0, 1)])])

    outcome = found_on(ground)

    assert len(removed(outcome)) == 1
    assert outcome.copy.cost == pytest.approx(-0.4)


def test_many_nodes_are_exchanged_for_one_that_is_cheaper_than_all_of_them() -> None:
    nodes = [node((0, 0, 0), [(0, 1)], price=0.15, gain=0.15) for _ in range(4)]

    outcome = found_on(terrain([kind(1, 2)], nodes))

    assert removed(outcome) == [0, 1, 2, 3]
    assert bought(outcome) == [1]
    assert outcome.copy.cost == pytest.approx(0.2 - 0.6)


def test_one_node_is_exchanged_for_several_smaller_ones() -> None:
    pods = [kind(2, 4, mask=1)]
    large = node((0, 0, 0), [(0, 2)], price=1.0, gain=1.0)

    outcome = found_on(terrain(pods, [large], sources=(source(SMALL),)))

    assert removed(outcome) == [0]
    assert bought(outcome) == [0, 0]


def test_nothing_is_exchanged_for_the_same_at_the_same_price() -> None:
    ground = terrain([kind(4, 8)], [node((0, 0, 0), [(0, 1)], price=0.2, gain=0.2 * 0.98)] * 3)

    outcome = found_on(ground)

    assert removed(outcome) == []
    assert outcome.copy.cost == 0.0


def test_a_node_stays_whose_moves_cost_more_than_it_saves() -> None:
    ground = terrain(
        [kind(1, 2)], [node((4, 8, 10), [(0, 2)], gain=-0.1), node((6, 12, 10), removable=False)]
    )

    assert removed(found_on(ground)) == []


def test_a_pinned_node_stays_and_may_take_pods() -> None:
    ground = terrain([kind(1, 2)], [node((6, 12, 10), removable=False), node((6, 12, 10), [(0, 1)])])

    outcome = found_on(ground)

    assert removed(outcome) == [1]
    assert outcome.copy.guests[0] == {0: 1}


def test_a_node_that_takes_none_gets_none() -> None:
    ground = terrain(
        [kind(1, 2, source=-1, mask=0)],
        [node((6, 12, 10), removable=False, receives=False), node((6, 12, 10), [(0, 1)])],
    )

    assert removed(found_on(ground)) == []


def test_pods_stay_on_the_nodes_that_their_labels_and_taints_allow() -> None:
    ground = terrain(
        [kind(1, 2, nodes=0b110, source=-1, mask=0)],
        [node((6, 12, 10), removable=False), node((6, 12, 10), removable=False), node((1, 2, 1), [(0, 1)])],
    )

    outcome = found_on(ground)

    assert removed(outcome) == [2]
    assert outcome.copy.guests[0] == {}
    assert outcome.copy.guests[1] == {0: 1}


def test_pods_that_keep_apart_do_not_meet() -> None:
    apart = kind(1, 2, counted=1, caps=((0, 1),))
    roomy = node((6, 12, 10), removable=False)
    ground = terrain([apart], [roomy, roomy, node((6, 12, 10), [(0, 1)]), node((6, 12, 10), [(0, 1)])])

    outcome = found_on(ground)

    assert removed(outcome) == [2, 3]
    assert [outcome.copy.guests[host] for host in (0, 1)] == [{0: 1}, {0: 1}]


def test_pods_keep_away_from_those_who_keep_them_away() -> None:
    hermit_there = node((6, 12, 10), removable=False, caps=((0, 0),))
    crowd_there = node((6, 12, 10), removable=False, counts=((0, 3),))
    crowd = kind(1, 2, counted=1, source=-1, mask=0)
    hermit = kind(1, 2, caps=((0, 0),), source=-1, mask=0)
    ground = terrain(
        [crowd, hermit],
        [hermit_there, crowd_there, node((1, 2, 1), [(0, 1)]), node((1, 2, 1), [(1, 1)])],
    )

    outcome = found_on(ground)

    assert outcome.copy.guests[0] == {1: 1}
    assert outcome.copy.guests[1] == {0: 1}


def test_bought_nodes_hold_no_two_that_keep_apart() -> None:
    apart = kind(1, 2, counted=1, caps=((0, 1),))
    nodes = [node((0, 0, 0), [(0, 1)], counts=((0, 1),), caps=((0, 1),)) for _ in range(3)]

    outcome = found_on(terrain([apart], nodes))

    assert removed(outcome) == [0, 1, 2]
    assert bought(outcome) == [0, 0, 0]


def test_bought_nodes_hold_no_hermit_beside_its_crowd() -> None:
    hermit, crowd = kind(2, 2, caps=((0, 0),)), kind(1, 2, counted=1)
    ground = terrain([hermit, crowd], [node((0, 0, 0), [(0, 1), (1, 1)], price=0.9, gain=0.9)])

    outcome = found_on(ground)

    assert removed(outcome) == [0]
    assert bought(outcome) == [0, 0]


def test_limits_of_a_pool_hold_before_anything_is_removed() -> None:
    nodes = [node((0, 0, 0), [(0, 1)]) for _ in range(4)]
    limited = source(limits=(("cpu", 4), ("nodes", 5)))

    outcome = found_on(terrain([kind(2, 4)], nodes, sources=(limited,)))

    cpus = sum(limited.catalogue.type_at(position).capacity["cpu"] for position in bought(outcome))
    assert 0 < cpus <= 4
    assert len(removed(outcome)) == 2


def test_a_pool_at_its_limit_buys_nothing() -> None:
    ground = terrain([kind(2, 4)], [node((0, 0, 0), [(0, 1)])] * 2, sources=(source(limits=(("nodes", 0),)),))

    assert removed(found_on(ground)) == []


def test_room_is_kept_for_ghosts_but_nothing_is_bought_for_them_alone() -> None:
    ghost = kind(6, 12, ghost=True)
    pods = [ghost, kind(1, 2)]
    kept = node((6, 12, 10), removable=False)
    leaving = node((6, 12, 10), [(1, 1)])

    without = found_on(terrain(pods, [kept, leaving]))
    held = found_on(terrain(pods, [kept, leaving], extra=((0, 2),)))

    assert removed(without) == [1]
    assert removed(held) == []


def test_ghosts_that_have_no_room_today_hold_nobody() -> None:
    ground = terrain(
        [kind(64, 64, ghost=True), kind(1, 2)],
        [node((6, 12, 10), removable=False), node((6, 12, 10), [(1, 1)])],
        extra=((0, 1),),
    )

    assert removed(found_on(ground)) == [1]


def test_pods_that_nothing_sells_for_stay_where_they_are() -> None:
    ground = terrain([kind(1, 2, source=-1, mask=0)], [node((0, 0, 0), [(0, 1)])] * 2)

    assert removed(found_on(ground)) == []


def test_pods_of_two_pools_are_bought_for_apart() -> None:
    pods = [kind(2, 4), kind(2, 4, source=1)]
    nodes = [node((0, 0, 0), [(0, 1), (1, 1)], price=1.0, gain=1.0)]

    outcome = found_on(terrain(pods, nodes, sources=(source(), source())))

    assert [each.source for each in outcome.copy.purchases()] == [0, 1]


def test_overheads_of_new_nodes_are_left_free() -> None:
    ground = terrain(
        [kind(2, 4)], [node((0, 0, 0), [(0, 1)], price=1.0, gain=1.0)], sources=(source(overhead=(1, 1, 1)),)
    )

    assert bought(found_on(ground)) == [1]


def test_what_a_launch_costs_beside_its_price_must_be_saved_too() -> None:
    nodes = [node((0, 0, 0), [(0, 1)], price=0.21, gain=0.21)]
    ground = terrain([kind(4, 8)], nodes)

    assert bought(found_on(ground)) == [1]
    assert bought(found_on(replace(ground, surcharge=0.2))) == []


def test_fewer_nodes_are_preferred_by_the_fee_for_each() -> None:
    nodes = [node((0, 0, 0), [(0, 1)], price=0.1, gain=0.1 * 0.98) for _ in range(4)]
    ground = terrain([kind(2, 4)], nodes)

    assert removed(found_on(ground)) == []
    assert removed(found_on(replace(ground, fee=0.02))) == [0, 1, 2, 3]


def test_without_removable_nodes_nothing_is_tried() -> None:
    outcome = found_on(terrain([kind(1, 2)], [node((6, 12, 10), removable=False)]))

    assert (outcome.steps, outcome.tries) == ((), 0)


def test_an_empty_node_goes_though_there_are_no_pods_at_all() -> None:
    assert removed(found_on(terrain([], [node((6, 12, 10))]))) == [0]


def test_a_stop_ends_the_search_where_it_is() -> None:
    nodes = [node((4, 8, 10), [(0, 1)], price=0.3 + i / 100, gain=0.3 + i / 100) for i in range(30)]
    ground = terrain([kind(1, 2)], nodes)
    for calls in (0, 1, 5, 20, 45):
        left = iter(range(calls))

        outcome = explore(ground, 20, 1, partial(_is_over, left))

        assert outcome.copy.cost <= 0.0
        assert sum(step.gain for step in outcome.steps) == pytest.approx(-outcome.copy.cost)


def _is_over(left: Iterator[int]) -> bool:
    return next(left, None) is None


def test_tries_improve_and_never_harm() -> None:
    sizes = [(3, 3), (2, 6), (1, 4), (1, 1)]
    nodes = [
        node(
            (i % 3, i % 4, 5),
            [(i % 4, 1 + i % 3), ((i + 1) % 4, 1)],
            price=0.2 + i % 5 / 10,
            gain=0.2 + i % 5 / 10,
        )
        for i in range(16)
    ]
    ground = terrain([kind(cpu, memory) for cpu, memory in sizes], nodes)

    costs = [found_on(ground, tries).copy.cost for tries in (0, 20, 120)]

    assert costs == sorted(costs, reverse=True)
    assert costs[2] < costs[0]


def test_offerings_out_of_reach_of_a_kind_are_not_bought_for_it() -> None:
    narrow = kind(1, 2, mask=ALL & ~1)

    outcome = found_on(terrain([narrow], [node((0, 0, 0), [(0, 1)])]))

    assert bought(outcome) == [1]
