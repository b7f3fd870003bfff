# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import ARCH, HOSTNAME, INSTANCE_TYPE, ZONE
from tests.checker import recheck_rejection
from tests.strategies import (
    ZONES,
    daemon,
    instance_type,
    node,
    node_term,
    nodepool,
    offering,
    pod,
    pod_term,
    pods,
    requirement,
    reserved,
    spread,
    taint,
)
from tests.unit.checker.handmade import buy, plan_of, problem_of


def recheck(*refused: Pod, **parts: Any) -> list[str]:
    problem = problem_of(*refused, **parts)
    return recheck_rejection(problem.snapshot(), problem.pods, plan_of(rejected=refused))


def test_a_pod_that_would_have_fitted_a_new_node_is_found() -> None:
    found = recheck(pod(), types=(instance_type(zones=ZONES[:1], capacity_types=["spot"]),))

    assert found == [
        "pod default/pod was rejected, but a new node of pool default, m5.large spot in us-east-1a, would hold it"
    ]


def test_a_pod_that_would_have_fitted_a_standing_node_is_found() -> None:
    found = recheck(pod(), nodepools=(), nodes=(node("n"),))

    assert found == ["pod default/pod was rejected, but node n would hold it"]


@pytest.mark.parametrize(
    "options",
    [
        {"cpu": "64"},
        {"node_selector": {ARCH: "s390x"}},
        {"claims": ["missing"]},
        {"devices": ["gpu"]},
    ],
)
def test_a_pod_that_fits_nowhere_is_rightly_rejected(options: dict[str, Any]) -> None:
    assert recheck(pod(**options), nodes=(node("n"),)) == []


def test_taints_are_reason_enough() -> None:
    forbidden = [taint("x")]

    assert recheck(pod(), nodepools=(nodepool(taints=forbidden),), nodes=(node("n", taints=forbidden),)) == []


def test_a_node_that_the_plan_has_filled_is_full() -> None:
    first, second = pods(2, cpu="1")
    problem = problem_of(first, second, nodepools=(), nodes=(node("n"),))

    plan = plan_of(existing={"n": (first,)}, rejected=(second,))

    assert recheck_rejection(problem.snapshot(), problem.pods, plan) == []


def test_what_the_plan_buys_counts_against_limits() -> None:
    first, second = pods(2)
    tight = problem_of(first, second, nodepools=(nodepool(limits={"nodes": "1"}),))
    loose = problem_of(first, second, nodepools=(nodepool(limits={"nodes": "2", "cpu": "4"}),))

    for problem, count in ((tight, 0), (loose, 1)):
        plan = plan_of(buy(problem, first), rejected=(second,))
        assert len(recheck_rejection(problem.snapshot(), problem.pods, plan)) == count


def test_daemons_take_their_room_first() -> None:
    only_large = (instance_type(),)

    assert recheck(pod(cpu="1900m"), types=only_large) != []
    assert recheck(pod(cpu="1900m"), types=only_large, daemons=(daemon(),)) == []


def test_an_open_label_of_the_pool_takes_the_value_that_is_asked_for() -> None:
    wanting = pod(node_selector={"team": "b"})

    assert recheck(wanting, nodepools=(nodepool(requirements=[requirement("team", "Exists")]),)) != []
    assert recheck(wanting, nodepools=(nodepool(requirements=[requirement("team", "NotIn", "b")]),)) == []
    assert recheck(wanting) == []


@pytest.mark.parametrize(
    "options",
    [
        {"affinity": [pod_term({"app": "web"})]},
        {"anti_affinity": [pod_term({"app": "web"})]},
        {"topology_spread": [spread({"app": "web"})]},
        {"node_affinity": [node_term(name=("In", "n"))]},
        {"node_selector": {HOSTNAME: "n"}},
    ],
)
def test_nothing_is_obvious_about_pods_with_rules(options: dict[str, Any]) -> None:
    assert recheck(pod(**options), nodes=(node("n"),)) == []


def test_nothing_is_obvious_about_pods_that_rules_speak_of() -> None:
    counted = pod("counted", labels={"app": "web"})
    owner = pod("owner", topology_spread=[spread({"app": "web"}, ZONE)])

    assert recheck(counted, owner) == []


def test_reserved_capacity_and_min_values_are_not_obvious() -> None:
    reserved_only = instance_type(offerings=[reserved("cr-1", 1)])
    picky = nodepool(requirements=[requirement(INSTANCE_TYPE, "Exists", min_values=3)])

    assert recheck(pod(), types=(reserved_only,)) == []
    assert recheck(pod(), nodepools=(picky,)) == []


def test_what_is_sold_out_cannot_be_bought() -> None:
    assert recheck(pod(), types=(instance_type(offerings=[offering(ZONES[0], available=False)]),)) == []
