# SPDX-License-Identifier: Apache-2.0
from karpenter.controllers.lifecycle.waitingroom import WaitingRoom


def test_a_node_that_is_ready_by_itself_is_let_go_at_once() -> None:
    room = WaitingRoom()

    assert room.hold_s("a", 0.0, is_ready=False) == 15
    assert room.hold_s("a", 3.0, is_ready=False) == 12
    assert room.hold_s("a", 4.0, is_ready=True) == 0
    assert room.hold_s("a", 5.0, is_ready=False) == 15


def test_nodes_that_become_ready_together_are_let_go_together() -> None:
    room = WaitingRoom()
    room.hold_s("a", 0.0, is_ready=False)
    room.hold_s("b", 0.0, is_ready=False)

    first = room.hold_s("a", 1.0, is_ready=True)
    second = room.hold_s("b", 1.5, is_ready=True)
    again = room.hold_s("a", 1.6, is_ready=True)

    assert (first, second, again) == (0.1, 0, 0)


def test_a_ready_node_waits_two_seconds_for_others_and_no_longer() -> None:
    room = WaitingRoom()
    room.hold_s("slow", 0.0, is_ready=False)

    assert room.hold_s("a", 1.0, is_ready=True) == 0.1
    assert room.hold_s("a", 2.9, is_ready=True) > 0
    assert room.hold_s("a", 3.0, is_ready=True) == 0


def test_a_node_that_the_scheduler_forgot_is_not_ready_any_more() -> None:
    room = WaitingRoom()
    room.hold_s("slow", 0.0, is_ready=False)
    room.hold_s("a", 1.0, is_ready=True)

    assert room.hold_s("a", 2.0, is_ready=False) == 14
    assert room.hold_s("a", 3.5, is_ready=True) == 0.1


def test_nobody_waits_for_a_node_that_is_gone_or_too_late() -> None:
    room = WaitingRoom()
    room.hold_s("gone", 0.0, is_ready=False)
    room.hold_s("late", 0.0, is_ready=False)
    room.let_go("gone")

    assert room.hold_s("late", 15.0, is_ready=False) == 0
    assert room.hold_s("a", 15.1, is_ready=True) == 0
