# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.scheduling.packing import projection
from karpenter.scheduling.packing.projection import Load, portions, project, repair


def _load(free: list[tuple[int, ...]], contents: list[dict[int, int]], missing: dict[int, int]) -> Load:
    load = Load(free)
    load.contents = contents
    load.missing = missing
    return load


def test_kinds_take_turns_and_single_pods_come_in_the_first() -> None:
    found = portions([1, 0], [1, 100], nodes=1)

    assert found[:2] == [(1, 7), (0, 1)]
    assert sum(number for kind, number in found if kind == 1) == 100
    assert len(found) == 17


def test_many_nodes_leave_a_single_turn() -> None:
    assert portions([0, 1], [5, 6], nodes=5000) == [(0, 5), (1, 6)]


def test_each_pod_goes_where_the_room_points_its_way() -> None:
    load = project([(10, 2), (2, 10)], [(5, 1), (1, 5)], [(0, 2), (1, 2)], [1.0, 1.0])

    assert load.contents == [{0: 2}, {1: 2}]
    assert load.free == [(0, 0), (0, 0)]
    assert load.missing == {}


def test_pods_without_room_are_missing() -> None:
    load = project([(4,)], [(3,), (9,)], [(0, 2), (1, 1), (0, 1)], [1.0])

    assert load.contents == [{0: 1}]
    assert load.missing == {0: 2, 1: 1}


def test_a_missing_pod_takes_room_that_is_there() -> None:
    load = _load([(5,)], [{}], {0: 1})

    repair(load, [(3,)])

    assert load.missing == {}
    assert load.free == [(2,)]


def test_another_pod_moves_to_make_room() -> None:
    # The pod of 4 needs the room that the pod of 2 has: that one goes to the other node.
    load = _load([(2,), (2,)], [{1: 1}, {}], {0: 1})

    repair(load, [(4,), (2,)])

    assert load.missing == {}
    assert load.contents == [{0: 1}, {1: 1}]
    assert load.free == [(0,), (0,)]


def test_two_pods_change_places_to_make_room() -> None:
    # 5 + 3 and 4 + 2, one free on each: after 3 and 2 change places there are two on the first node.
    load = _load([(1,), (1,)], [{1: 1, 2: 1}, {3: 1, 4: 1}], {0: 1})
    sizes = [(2,), (5,), (3,), (4,), (2,)]

    repair(load, sizes)

    assert load.missing == {}
    assert sorted(load.free) == [(0,), (0,)]


def test_what_cannot_be_helped_stays_missing() -> None:
    load = _load([(1,), (1,)], [{1: 1}, {1: 1}], {0: 2})

    repair(load, [(5,), (2,)])

    assert load.missing == {0: 2}


def test_looks_at_exchanges_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "_EXCHANGES", 2)
    load = _load([(1,), (1,)], [{1: 1, 2: 1}, {3: 1, 4: 1}], {0: 1})

    repair(load, [(2,), (5,), (3,), (4,), (2,)])

    assert load.missing == {0: 1}


def test_larger_pods_are_helped_first() -> None:
    load = _load([(4,)], [{}], {0: 1, 1: 1})

    repair(load, [(1,), (4,)])

    assert load.contents == [{1: 1}]
    assert load.missing == {0: 1}
