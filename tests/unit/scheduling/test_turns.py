# SPDX-License-Identifier: Apache-2.0
"""Plans that a scheduler can follow which binds one pod at a time, by priority and age."""

from __future__ import annotations

from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.scheduling import SolveOptions, solve
from karpenter.scheduling.options import never
from karpenter.scheduling.solver import _Solve
from karpenter.scheduling.turns import follow, put_in_turn
from tests.checker import check
from tests.strategies import (
    Problem,
    nodepool,
    pod,
    pod_term,
    pods,
    random_problem,
    small_catalogue,
    spread,
)

WEB = {"app": "web"}
SPREAD_KINDS = ("zone-spread", "spread", "spread-details", "nodes", "pools", "daemons")


def placed(problem: Problem) -> _Solve:
    """Place a problem's pods, whatever their turns."""
    found = _Solve(problem.snapshot(), problem.pods, SolveOptions())
    found.place_in_every_way()
    return found


def test_a_pod_that_comes_before_its_place_takes_it_is_swapped_with_one_that_need_not_wait() -> None:
    """Four pods of a spread in one zone need the only pod of another to be there first, and come before it."""
    problem = random_problem(170)
    found = placed(problem)
    before, cost = follow(found.board), found.cost()

    found.put_in_turn()

    assert before.cost == (0, 1)
    assert follow(found.board).cost == (0, 0)
    assert found.cost() == cost
    assert check(problem.snapshot(), problem.pods, found.plan(), SolveOptions()) == []


def test_a_plan_keeps_its_lower_bound_when_pods_were_swapped() -> None:
    problem = random_problem(22, kinds=SPREAD_KINDS)

    plan = solve(problem.snapshot(), problem.pods)

    assert check(problem.snapshot(), problem.pods, plan, SolveOptions()) == []
    assert plan.lower_bound_per_hour <= plan.price_per_hour


def test_the_oldest_pods_get_the_places_that_open_first() -> None:
    web = tuple(
        pod(f"web-{number}", labels=WEB, topology_spread=[spread(WEB)], age_s=100 - number)
        for number in range(9)
    )
    problem = Problem(pods=web, nodepools=(nodepool(),), types=small_catalogue())

    plan = solve(problem.snapshot(), problem.pods)

    zone_of = {each.metadata.name: node.zone for node in plan.new_nodes for each in node.pods}
    rounds = [{zone_of[f"web-{number}"] for number in range(first, first + 3)} for first in (0, 3, 6)]
    assert [len(each) for each in rounds] == [3, 3, 3]


def test_where_nobody_spreads_there_is_no_order_to_keep() -> None:
    problem = Problem(pods=pods(3), nodepools=(nodepool(),), types=small_catalogue())
    found = placed(problem)

    assert follow(found.board).guests == ()
    assert follow(found.board).order == {}


def test_a_soft_spread_keeps_nobody_waiting() -> None:
    web = pods(4, labels=WEB, topology_spread=[spread(WEB, soft=True)])
    found = placed(Problem(pods=web, nodepools=(nodepool(),), types=small_catalogue()))

    assert follow(found.board).order == {}


def test_a_spread_with_too_few_places_counts_the_emptiest_as_empty() -> None:
    web = pods(3, labels=WEB, topology_spread=[spread(WEB, min_domains=5)])
    found = placed(Problem(pods=web, nodepools=(nodepool(),), types=small_catalogue()))

    order = follow(found.board).order

    assert follow(found.board).cost == (0, 0)
    assert sorted(host.pins[ZONE] for _, host in order[0]) == ["us-east-1a", "us-east-1b", "us-east-1c"]


def test_pods_that_can_only_be_bound_all_at_once_are_found_and_left_where_they_are() -> None:
    problem = random_problem(59, kinds=SPREAD_KINDS)
    found = placed(problem)
    stuck = follow(found.board)

    order = follow(found.board).order

    assert stuck.never > 0
    assert not put_in_turn(found.board, 100, never).is_changed
    assert follow(found.board) == stuck
    number = sum(number for host in found.board.occupied() for number in host.contents.values())
    assert sum(map(len, order.values())) == number


def test_nothing_is_tried_beyond_the_effort_or_the_deadline() -> None:
    found = placed(random_problem(170))
    early = follow(found.board)

    assert not put_in_turn(found.board, 0, never).is_changed
    assert not put_in_turn(found.board, 100, lambda: True).is_changed
    assert follow(found.board) == early


def test_followers_come_after_whom_they_follow_and_are_not_called_early() -> None:
    db, near_db = {"app": "db"}, [pod_term({"app": "db"}, HOSTNAME)]
    problem = Problem(
        pods=(
            *pods(3, "web", labels=WEB, topology_spread=[spread(WEB)]),
            *pods(2, "follower", cpu="100m", affinity=near_db, age_s=100),
            pod("db", labels=db),
            *pods(2, "pair", labels={"app": "pair"}, affinity=[pod_term({"app": "pair"}, HOSTNAME)]),
        ),
        nodepools=(nodepool(),),
        types=small_catalogue(),
    )
    found = placed(problem)

    order = follow(found.board).order

    assert follow(found.board).guests == ()
    assert sum(map(len, order.values())) == len(problem.pods)


def test_of_pods_that_come_too_early_those_are_swapped_for_whom_it_helps() -> None:
    problem = random_problem(23, kinds=SPREAD_KINDS)
    found = placed(problem)
    before = follow(found.board)

    after = put_in_turn(found.board, 1_000, never)

    assert after.is_changed
    assert (0, 0) < after.cost < before.cost
    assert check(problem.snapshot(), problem.pods, found.plan(), SolveOptions()) == []
