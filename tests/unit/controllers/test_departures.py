# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.api.core import Pod
from karpenter.controllers.departures import Departures
from karpenter.kit.clock import FakeClock
from tests.unit.state.worlds import pod


def departing(name: str, node: str) -> Pod:
    """A pod on a node."""
    return pod(name, node, metadata={"uid": f"uid-{name}"})


def test_a_pod_of_which_nothing_is_planned_may_always_go() -> None:
    assert Departures(FakeClock()).may_go(departing("a", "n1"))


def test_pods_wait_for_the_turn_of_their_destination_and_their_nodes_are_told() -> None:
    departures = Departures(FakeClock())
    first, second, third = departing("a", "n1"), departing("b", "n2"), departing("c", "n2")
    told: list[str] = []
    departures.on_open(told.append)
    departures.plan([(first, "x"), (second, "y"), (third, "x")])

    before = departures.waiting()
    departures.open("x")

    assert before == {"x": ["uid-a", "uid-c"], "y": ["uid-b"]}
    assert [departures.may_go(each) for each in (first, second, third)] == [True, False, True]
    assert sorted(told) == ["n1", "n2"]


def test_who_has_gone_is_forgotten() -> None:
    departures = Departures(FakeClock())
    departures.plan([(departing("a", "n1"), "x")])

    departures.gone("uid-a")
    departures.gone("uid-a")

    assert departures.waiting() == {}


def test_nobody_is_held_for_longer_than_a_minute_if_there_are_no_turns() -> None:
    clock = FakeClock()
    departures = Departures(clock)
    held = departing("a", "n1")
    departures.plan([(held, "x")])

    clock.tick(59)
    before = departures.may_go(held)
    clock.tick(1)

    assert not before
    assert departures.may_go(held)
    assert departures.waiting() == {}


def test_while_others_have_their_turns_a_pod_is_held_for_three_minutes() -> None:
    clock = FakeClock()
    departures = Departures(clock)
    held = departing("a", "n1")
    departures.plan([(held, "x")])

    answers = []
    for _ in range(6):
        clock.tick(30)
        answers.append(departures.may_go(held))
        departures.open("y")

    assert answers == [False, False, False, False, False, True]
    assert departures.waiting() == {}


def test_when_nobody_gives_turns_any_more_everybody_may_go() -> None:
    departures = Departures(FakeClock())
    held = departing("a", "n1")
    told: list[str] = []
    departures.on_open(told.append)
    departures.plan([(held, "x")])

    departures.clear()

    assert departures.may_go(held)
    assert told == ["n1"]
