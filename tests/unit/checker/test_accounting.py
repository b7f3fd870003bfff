# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from msgspec.structs import replace

from tests.strategies import node, pod, pods
from tests.unit.checker.handmade import buy, judge, plan_of, problem_of


def test_a_plan_that_answers_every_pod_once_is_valid() -> None:
    placed, joined, refused, left = pods(4, cpu="100m")
    problem = problem_of(placed, joined, refused, left, nodes=(node("n"),))

    plan = plan_of(buy(problem, placed), existing={"n": (joined,)}, rejected=(refused,), unfinished=(left,))

    assert judge(problem, plan) == []


def test_a_pod_without_an_answer_is_found() -> None:
    one, other = pods(2)
    problem = problem_of(one, other)

    found = judge(problem, plan_of(buy(problem, one)))

    assert found == ["pod default/pod-1 was asked for 1 times and is answered 0 times"]


def test_a_pod_in_two_places_is_found() -> None:
    one = pod(cpu="100m")
    problem = problem_of(one)

    found = judge(problem, plan_of(buy(problem, one), buy(problem, one)))

    assert found == ["pod default/pod was asked for 1 times and is answered 2 times"]


def test_a_pod_that_is_placed_and_rejected_is_found() -> None:
    one = pod()
    problem = problem_of(one)

    found = judge(problem, plan_of(buy(problem, one), rejected=(one,)))

    assert found == ["pod default/pod was asked for 1 times and is answered 2 times"]


def test_an_invented_pod_is_found() -> None:
    one, invented = pod("one", cpu="100m"), pod("invented", cpu="100m")
    problem = problem_of(one)

    found = judge(problem, plan_of(buy(problem, one, invented)))

    assert found == ["pod default/invented was asked for 0 times and is answered 1 times"]


def test_a_pod_that_was_changed_is_found() -> None:
    one = pod()
    problem = problem_of(one)
    changed = replace(one, spec=replace(one.spec, priority=7))

    found = judge(problem, plan_of(buy(problem, changed)))

    assert found == ["pod default/pod was changed on its way into the plan"]


def test_pods_on_a_node_that_does_not_exist_are_found() -> None:
    one = pod()
    problem = problem_of(one)

    found = judge(problem, plan_of(existing={"ghost": (one,)}))

    assert found == ["pods are put on node ghost, which does not exist"]
