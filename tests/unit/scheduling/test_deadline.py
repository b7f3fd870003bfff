# SPDX-License-Identifier: Apache-2.0
"""What a deadline leaves undone is told and comes first next time; no single pod takes all the time there is."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import HOSTNAME, ZONE
from karpenter.scheduling import Plan, SolveOptions, solve
from karpenter.scheduling.plan import pod_name
from tests.checker import carried_out
from tests.strategies import (
    Problem,
    expression,
    host_port,
    node_term,
    nodepool,
    pod,
    pod_term,
    pods,
    preferred,
    small_catalogue,
    spread,
    weighted,
)

# The longest of these take some seconds of computing, on a busy machine more of waiting.
pytestmark = pytest.mark.timeout(120)

MANY = 10_000


def after(questions: int) -> Callable[[], bool]:
    """Make a deadline that comes after so many questions."""
    left = iter([False] * questions)
    return lambda: next(left, True)


def placed(plan: Plan) -> set[str]:
    groups = [*plan.existing.values(), *(each.pods for each in plan.new_nodes)]
    return {pod_name(each) for group in groups for each in group}


def names(found: tuple[Pod, ...]) -> frozenset[str]:
    return frozenset(map(pod_name, found))


def crowd(number: int) -> tuple[Pod, ...]:
    """Make pods that are looked at one by one, each a class of its own."""
    return tuple(
        pod(f"p{each:02}", cpu=f"{1000 - each}m", ports=(host_port(8000 + each),)) for each in range(number)
    )


def test_pods_that_were_cut_off_are_tried_before_all_others_next_time() -> None:
    asked = crowd(12)
    problem = Problem(pods=asked, types=small_catalogue(), nodepools=(nodepool(),))
    snapshot = problem.snapshot()

    first = solve(snapshot, asked, SolveOptions(expired=after(4)))
    waited = names(first.unfinished)
    second = solve(snapshot, asked, SolveOptions(expired=after(4), first=waited))

    assert placed(first)
    assert waited
    assert placed(second)
    assert placed(second) <= waited


def test_nobody_is_starved_however_short_the_time() -> None:
    asked = crowd(12)
    cluster = Problem(pods=asked, types=small_catalogue(), nodepools=(nodepool(),)).snapshot()
    waiting, first = asked, frozenset[str]()

    for _ in range(12):
        plan = solve(cluster, waiting, SolveOptions(expired=after(3), first=first))
        cluster = carried_out(cluster, plan)
        waiting, first = plan.unfinished, names(plan.unfinished)

    assert waiting == ()


def test_equal_pods_are_told_apart_by_who_has_waited() -> None:
    asked = pods(6, "web", cpu="1")
    limited = nodepool(limits={"nodes": "1"})
    small = small_catalogue()[:1]
    snapshot = Problem(pods=asked, types=small, nodepools=(limited,)).snapshot()

    plan = solve(snapshot, asked, SolveOptions(first=frozenset({"default/web-5"})))

    assert placed(plan) == {"default/web-5"}


def test_higher_priority_still_goes_before_who_has_waited() -> None:
    asked = (pod("late", cpu="1500m"), pod("vip", cpu="1500m", priority=10))
    limited = nodepool(limits={"nodes": "1"})
    snapshot = Problem(pods=asked, types=small_catalogue()[:1], nodepools=(limited,)).snapshot()

    plan = solve(snapshot, asked, SolveOptions(first=frozenset({"default/late"})))

    assert placed(plan) == {"default/vip"}


def test_followers_that_have_waited_go_first() -> None:
    near = pod_term({"app": "web"}, HOSTNAME)
    waited = pods(2, "old", cpu="900m", labels={"app": "web"}, affinity=[near])
    newcomer = pod("new", cpu="1500m", labels={"app": "web"}, affinity=[near])
    snapshot = Problem(
        pods=(*waited, newcomer), types=small_catalogue()[:1], nodepools=(nodepool(limits={"nodes": "1"}),)
    ).snapshot()

    plan = solve(snapshot, (*waited, newcomer), SolveOptions(first=frozenset(map(pod_name, waited))))

    assert placed(plan) == set(map(pod_name, waited))


MUCH: list[tuple[str, Pod]] = [
    ("2^63 cores", pod("odd", cpu=str(2**63))),
    ("2^63 bytes", pod("odd", memory=str(2**63))),
    (
        "terms of node affinity",
        pod("odd", node_affinity=[node_term(expression(f"l{n}", "In", "x")) for n in range(MANY)]),
    ),
    ("pods to follow", pod("odd", affinity=[pod_term({"app": f"a{n}"}, ZONE) for n in range(MANY)])),
    ("spreads", pod("odd", topology_spread=[spread({"app": f"a{n}"}) for n in range(MANY)])),
]
WISHES: list[tuple[str, Pod]] = [
    ("pods to keep away from", pod("odd", anti_affinity=[pod_term({"app": f"a{n}"}) for n in range(MANY)])),
    (
        "wishes to be near pods",
        pod("odd", preferred_affinity=[weighted(pod_term({"app": f"a{n}"}, ZONE)) for n in range(MANY)]),
    ),
    (
        "wishes to be away from pods",
        pod("odd", preferred_anti_affinity=[weighted(pod_term({"app": f"a{n}"}, ZONE)) for n in range(MANY)]),
    ),
    (
        "wishes about the node",
        pod(
            "odd",
            preferred_node_affinity=[
                preferred(node_term(expression(f"l{n}", "In", "x"))) for n in range(MANY)
            ],
        ),
    ),
]


# A guard against running away, not a measurement: it takes a second or two.
PER_POD_S = 15


@pytest.mark.parametrize("odd", [each for _, each in MUCH], ids=[name for name, _ in MUCH])
def test_a_pod_that_asks_too_much_is_refused_alone_within_its_time(odd: Pod) -> None:
    others = pods(20, "ok", cpu="500m", labels={"app": "a1"})
    problem = Problem(pods=(*others, odd), types=small_catalogue(), nodepools=(nodepool(),))

    started = time.process_time()
    plan = solve(problem.snapshot(), problem.pods)
    took_s = time.process_time() - started

    assert placed(plan) == set(map(pod_name, others))
    assert [each.pods for each in plan.rejections] == [(odd,)]
    assert plan.rejections[0].reasons
    assert took_s < PER_POD_S


@pytest.mark.parametrize("odd", [each for _, each in WISHES], ids=[name for name, _ in WISHES])
def test_a_pod_with_ten_thousand_wishes_is_placed_within_its_time(odd: Pod) -> None:
    others = pods(20, "ok", cpu="500m")
    problem = Problem(pods=(*others, odd), types=small_catalogue(), nodepools=(nodepool(),))

    started = time.process_time()
    plan = solve(problem.snapshot(), problem.pods)
    took_s = time.process_time() - started

    assert placed(plan) == set(map(pod_name, problem.pods))
    assert took_s < PER_POD_S
