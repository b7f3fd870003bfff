# SPDX-License-Identifier: Apache-2.0
"""The inflate walkthrough: 12 -> 5 -> 1 -> 0 replicas."""

import pytest

from karpenter.consolidation import Reason, VerdictKind
from tests.unit.consolidation.world import C5_LARGE, Setting, holding


def test_from_twelve_to_five_one_of_two_nodes_is_deleted() -> None:
    world = Setting((holding("a", 3), holding("b", 2)))

    command = world.command()

    assert command.reason is Reason.UNDERUTILIZED
    assert command.remove == ("b",)
    assert command.stages[0].launch == ()
    assert [move.target for move in command.stages[0].moves] == ["a", "a"]
    assert command.saving_per_hour == pytest.approx(0.096)
    assert command.words == "delete b (Underutilized), saving $0.0960 per hour, moving 2 pods"
    assert command.verdicts["b"].kind is VerdictKind.GOES


def test_five_replicas_on_one_node_stay_where_they_are() -> None:
    world = Setting((holding("a", 5),))

    blocked = world.blocked()

    assert blocked.verdicts["a"].kind is VerdictKind.NOT_CHEAPER
    assert blocked.verdicts["a"].cost_per_day == pytest.approx(0.096 * 24)


def test_from_five_to_one_the_node_is_replaced_by_a_cheaper_one() -> None:
    world = Setting((holding("a", 1),))

    command = world.command()

    (stage,) = command.stages
    assert stage.remove == ("a",)
    assert [launch.instance_type for launch in stage.launch] == ["c5.large"]
    assert [(move.target, move.launch) for move in stage.moves] == [("", 0)]
    assert command.saving_per_hour == pytest.approx(0.011)
    assert command.words == "replace a by c5.large (Underutilized), saving $0.0110 per hour, moving 1 pod"


def test_the_cheaper_node_then_stays() -> None:
    world = Setting((holding("a", 1, C5_LARGE),))

    assert world.blocked().verdicts["a"].kind is VerdictKind.NOT_CHEAPER


def test_from_one_to_none_the_empty_node_goes() -> None:
    world = Setting((holding("a", 0, C5_LARGE),))

    command = world.command()

    assert command.reason is Reason.EMPTY
    assert command.remove == ("a",)
    assert command.evictions == 0
