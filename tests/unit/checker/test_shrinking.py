# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.labels import ARCH, ZONE
from tests.strategies import (
    Problem,
    container,
    daemon,
    expression,
    host_port,
    instance_type,
    node,
    node_term,
    nodepool,
    pod,
    pod_term,
    pods,
    preferred,
    requirement,
    shrink,
    small_catalogue,
    spread,
    taint,
    toleration,
    volume,
    volume_claim,
)

BUSY: dict[str, Any] = {
    "labels": {"app": "web", "tier": "x"},
    "node_selector": {ARCH: "amd64"},
    "node_affinity": [node_term(expression(ZONE, "Exists"))],
    "preferred_node_affinity": [preferred(node_term(expression(ZONE, "Exists")))],
    "affinity": [pod_term({"app": "web"}), pod_term({"app": "db"})],
    "anti_affinity": [pod_term({"app": "web"})],
    "tolerations": [toleration("team")],
    "ports": [host_port(80)],
    "claims": ["data"],
    "devices": ["gpu"],
    "init_containers": [container("init")],
    "overhead": {"cpu": "10m"},
    "priority": 5,
}


def test_shrinking_keeps_what_the_failure_needs_and_little_else() -> None:
    culprit = pod(
        "culprit", topology_spread=[spread({"app": "web"}), spread({"app": "db"}, ZONE, max_skew=2)]
    )
    problem = Problem(
        pods=(*pods(9), culprit),
        nodepools=(nodepool(), nodepool("other")),
        types=small_catalogue(),
        nodes=(node(),),
        claims=(volume_claim(),),
        volumes=(volume(),),
    )

    small = shrink(
        problem,
        lambda each: any(
            rule.max_skew == 2 for p in each.pods for rule in p.spec.topology_spread_constraints
        ),
    )

    assert [each.metadata.name for each in small.pods] == ["culprit"]
    assert len(small.pods[0].spec.topology_spread_constraints) == 1
    assert not any((small.nodepools, small.types, small.nodes, small.claims, small.volumes))


def test_every_part_of_a_pod_can_go() -> None:
    small = shrink(Problem(pods=(pod(**BUSY),)), lambda each: len(each.pods) == 1)

    assert small.pods == (pod(),)


@pytest.mark.parametrize("side", ["pod_affinity", "pod_anti_affinity", "node_affinity"])
def test_what_the_failure_needs_of_the_affinity_stays(side: str) -> None:
    def needs(problem: Problem) -> bool:
        return any(p.spec.affinity is not None and getattr(p.spec.affinity, side) for p in problem.pods)

    small = shrink(Problem(pods=(pod(**BUSY),)), needs)

    (left,) = small.pods
    assert left.spec.affinity is not None
    assert (
        sum(getattr(left.spec.affinity, name) is not None for name in left.spec.affinity.__struct_fields__)
        == 1
    )


def test_nodes_pools_types_and_daemons_become_plain() -> None:
    problem = Problem(
        nodepools=(
            nodepool(
                requirements=[requirement(ARCH, "Exists")],
                labels={"team": "a"},
                taints=[taint("x")],
                startup_taints=[taint("y")],
                weight=5,
                limits={"cpu": "5"},
            ),
        ),
        types=(instance_type(),),
        nodes=(
            node(taints=[taint("x")], pods=pods(2, node_name="node-1", priority=5), volume_limits={"d": 1}),
        ),
        daemons=(daemon(tolerations=[toleration()]),),
    )

    small = shrink(
        problem,
        lambda each: (
            all((each.nodepools, each.types, each.daemons)) and any(view.pods for view in each.nodes)
        ),
    )

    assert small.nodepools == (nodepool(),)
    assert len(small.types[0].offerings) == 1
    assert small.nodes == (node(pods=small.nodes[0].pods),)
    assert [each.spec.priority for each in small.nodes[0].pods] == [None]
    assert small.daemons[0].spec.tolerations == ()


def test_shrinking_stops_in_time() -> None:
    problem = Problem(pods=pods(8))

    assert shrink(problem, lambda _: False, most_tries=1) == problem
    assert shrink(problem, lambda _: True, most_tries=1).pods == ()
