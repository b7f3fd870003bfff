# SPDX-License-Identifier: Apache-2.0
"""Pods that ask for the absurd are refused alone, with a reason, in bounded time."""

import time
from dataclasses import replace
from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import ARCH, HOSTNAME, ZONE
from karpenter.scheduling import Cause, solve
from karpenter.scheduling.explanation import explainer
from karpenter.scheduling.reasons import Constraint
from tests.strategies.clusters import node, nodepool
from tests.strategies.expressions import expression, node_term, pod_term, requirement, spread, taint
from tests.strategies.machines import ZONES, instance_type, small_catalogue
from tests.strategies.pods import pod, pods
from tests.strategies.problems import Problem
from tests.unit.scheduling.refusals import holding, only_constraint, only_reason, refusal

A, B, C = ZONES

MANY = 10_000
ABSURD: list[tuple[str, Pod, Cause]] = [
    ("2^63 cores", pod(cpu=str(2**63)), Cause.RESOURCES),
    ("a resource of 2^63", pod(requests={"example.com/x": str(2**63)}), Cause.RESOURCES),
    (
        "terms of node affinity",
        pod(node_affinity=[node_term(expression(f"l{n}", "In", "x")) for n in range(MANY)]),
        Cause.REQUIREMENT,
    ),
    (
        "zones in node affinity",
        pod(node_affinity=[node_term(expression(ZONE, "In", *(f"z{n}" for n in range(MANY))))]),
        Cause.REQUIREMENT,
    ),
    (
        "labels in one term",
        pod(node_affinity=[node_term(*(expression(f"l{n}", "In", "x") for n in range(MANY)))]),
        Cause.UNDEFINED_LABEL,
    ),
    (
        "pods to stand apart from by labels that no node has",
        pod(affinity=[pod_term({"app": f"a{n}"}, f"key{n}") for n in range(MANY)]),
        Cause.TOPOLOGY,
    ),
    ("pods to stand with", pod(affinity=[pod_term({"app": f"a{n}"}) for n in range(MANY)]), Cause.TOPOLOGY),
    ("a label of a megabyte", pod(node_selector={"k" * 2**20: "v"}), Cause.UNDEFINED_LABEL),
    ("a value of a megabyte", pod(node_selector={ARCH: "v" * 2**20}), Cause.REQUIREMENT),
]


@pytest.mark.parametrize(("asked", "cause"), [each[1:] for each in ABSURD], ids=[each[0] for each in ABSURD])
def test_the_absurd_is_refused_alone_and_soon(asked: Pod, cause: Cause) -> None:
    problem = Problem(pods=(asked, pod("other")), nodepools=(nodepool(),), types=small_catalogue())
    snapshot = problem.snapshot()

    started = time.process_time()
    plan = solve(snapshot, problem.pods)
    took_s = time.process_time() - started

    assert [each.pods for each in plan.rejections] == [(asked,)]
    assert plan.rejections[0].reasons[0].cause is cause
    assert len(plan.rejections[0].message) <= 200
    # A guard against running away, not a measurement: it takes some tenths of a second.
    assert took_s < 10


def test_more_resources_than_can_be_told_apart_are_one() -> None:
    asked = pod(requests={f"example.com/r{n:02}": "1" for n in range(40)})

    rejection = refusal(asked)

    assert only_constraint(rejection) == Constraint(Cause.RESOURCES, "example.com/r00", "1")
    assert rejection.explanation.nearest is None


def test_the_rest_of_many_resources_can_be_what_is_missing() -> None:
    odd = {f"example.com/r{n:02}": 1 for n in range(30)}
    kind = instance_type("m5.large")
    has_some = replace(kind, allocatable={**kind.allocatable, **dict(list(odd.items())[:20])})
    has_rest = replace(
        kind, name="m5.xlarge", allocatable={**kind.allocatable, **dict(list(odd.items())[20:])}
    )

    found = only_reason(refusal(pod(requests=dict.fromkeys(odd, "1")), types=(has_some, has_rest)))

    assert Constraint(Cause.RESOURCES, "14 more resources") in found.constraints


def test_more_alternatives_than_can_be_told_apart_are_one() -> None:
    terms = [node_term(expression(ZONE, "In", f"zone-{n}")) for n in range(16)]
    by_name = node_term(name=("In", "gone"))

    found = only_constraint(refusal(pod(node_affinity=[*terms, by_name])))

    assert found == Constraint(Cause.REQUIREMENT, "node affinity", "one of the 17 terms")


def test_many_alternatives_are_judged_by_the_labels_of_each_pool() -> None:
    terms = [node_term(expression("team", "In", f"team-{n}")) for n in range(17)]
    pools = [
        nodepool("own", labels={"team": "team-3"}, taints=[taint("a")]),
        nodepool("other", labels={"team": "x"}),
    ]

    rejection = refusal(pod(node_affinity=terms), *pools)

    assert {reason.pools: reason.cause for reason in rejection.reasons} == {
        ("own",): Cause.TAINT,
        ("other",): Cause.REQUIREMENT,
    }


def test_more_rules_than_can_be_told_apart_are_one() -> None:
    asked = pod(affinity=[pod_term({"app": f"a{n}"}) for n in range(17)])

    rejection = refusal(asked)

    assert only_constraint(rejection) == Constraint(Cause.TOPOLOGY, "17 rules about other pods")
    assert rejection.message == "NodePool default: 17 rules about other pods leave no place"


def test_many_constraints_are_still_cut_down_to_the_fewest() -> None:
    """Each type lacks one thing, and the first lacks two more, which can be left out."""
    labels = [f"example.com/l{number:02}" for number in range(13)]
    devices = [f"example.com/r{number:02}" for number in range(13)]
    wants = [*labels, *devices]
    lacking = [{want} for want in wants[:-2]]
    lacking[0] |= {*wants[-2:]}
    kinds = [
        instance_type(f"m5.{n}xlarge", labels={label: "yes" for label in labels if label not in lacks})
        for n, lacks in enumerate(lacking)
    ]
    types = [
        replace(
            kind, allocatable={**kind.allocatable, **{device: 1 for device in devices if device not in lacks}}
        )
        for kind, lacks in zip(kinds, lacking, strict=True)
    ]

    asked = pod(node_selector=dict.fromkeys(labels, "yes"), requests=dict.fromkeys(devices, "1"))
    found = only_reason(refusal(asked, types=types))

    assert [each.subject for each in found.constraints] == wants[:-2]


def test_more_labels_than_can_be_told_apart_are_one() -> None:
    labels = [f"example.com/l{number:02}" for number in range(20)]
    types = [
        instance_type(f"m5.{n}xlarge", labels={label: "yes" for label in labels if label != lacks})
        for n, lacks in enumerate(labels)
    ]

    rejection = refusal(pod(node_selector=dict.fromkeys(labels, "yes")), types=types)

    found = only_reason(rejection).constraints
    assert Constraint(Cause.REQUIREMENT, "node affinity", "4 more labels") in found
    assert len(found) == 17


def test_only_so_many_standing_nodes_are_looked_at() -> None:
    nodes = tuple(node(f"n{number}") for number in range(501))

    standing = refusal(pod(cpu="9"), nodes=nodes).explanation.standing

    assert (standing.nodes, standing.asked) == (501, 500)


def test_fixes_are_looked_for_in_so_many_classes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "_MOST_FIXED", 2)
    problem = Problem(
        pods=tuple(pod(f"p{number}", cpu=f"{90 + number}") for number in range(4)),
        nodepools=(nodepool(),),
        types=small_catalogue(),
    )

    plan = solve(problem.snapshot(), problem.pods)

    assert sorted(len(each.explanation.fixes) for each in plan.rejections) == [0, 0, 1, 1]


def test_fixes_for_rules_about_other_pods_are_not_tried_around_many_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explainer, "_MOST_HOSTS", 1)
    nodes = (holding("n1", A, "web"), holding("n2", B, "web"))
    contradiction: dict[str, Any] = {
        "node_selector": {ZONE: A},
        "node_affinity": [node_term(expression(ZONE, "In", B))],
    }
    spread_out: dict[str, Any] = {
        "labels": {"app": "web"},
        "topology_spread": [spread({"app": "web"}, HOSTNAME)],
    }

    lonely = refusal(pod(cpu="9"), nodes=nodes)
    social = refusal(pod(cpu="9", **spread_out), nodes=nodes)
    confused = refusal(pod(**contradiction, **spread_out), nodes=nodes)

    assert len(lonely.explanation.fixes) == 1
    assert social.explanation.fixes == confused.explanation.fixes == ()


def test_a_fix_is_not_sought_beyond_some_trials() -> None:
    """Twenty pools that a toleration alone does not open: each is tried with all that it needs, up to a number."""
    pools = [
        nodepool(f"pool-{n}", taints=[taint("a", str(n))], requirements=[requirement(ARCH, "In", "s390x")])
        for n in range(20)
    ]
    kinds = [replace(kind, labels={**kind.labels, "x": "y"}) for kind in small_catalogue()]

    rejection = refusal(pod(), *pools, types=kinds)

    assert len(rejection.explanation.fixes) == 1
    assert len(rejection.explanation.fixes[0].changes) == 2


def test_equal_pods_share_one_answer() -> None:
    problem = Problem(pods=pods(50, cpu="9"), nodepools=(nodepool(),), types=small_catalogue())

    (rejection,) = solve(problem.snapshot(), problem.pods).rejections

    assert len(rejection.pods) == 50
