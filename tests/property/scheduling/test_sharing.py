# SPDX-License-Identifier: Apache-2.0
"""A cluster asked before, with nodes taken out and pods added, answers as one that has just been read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from msgspec.structs import replace as replace_fields

from karpenter.model.snapshot import Census, Snapshot
from karpenter.scheduling import solve
from tests.property.scheduling.rendering import render
from tests.property.scheduling.test_plans import EXAMPLES, SEEDS, options_for, tried
from tests.strategies import random_problem

pytestmark = pytest.mark.timeout(max(120, EXAMPLES * 2))


def just_read(snapshot: Snapshot) -> Snapshot:
    """Give the same cluster with nothing counted yet."""
    nodes = tuple(replace(node) for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes, shared=Census(nodes))


@tried
@given(seed=SEEDS)
def test_a_cluster_without_a_node_answers_as_one_just_read(seed: int) -> None:
    problem = random_problem(seed)
    snapshot, options = problem.snapshot(), options_for(seed)
    solve(snapshot, problem.pods, options)
    gone = snapshot.nodes[seed % len(snapshot.nodes)].name if snapshot.nodes else ""
    displaced = tuple(
        replace_fields(pod, spec=replace_fields(pod.spec, node_name=""))
        for node in snapshot.nodes
        if node.name == gone
        for pod in node.pods
    )
    smaller = snapshot.without([gone])
    pods = (*problem.pods, *displaced)

    plan = solve(smaller, pods, options)

    assert render(plan) == render(solve(just_read(smaller), pods, options))


@tried
@given(seed=SEEDS)
def test_a_cluster_with_more_pods_answers_as_one_just_read(seed: int) -> None:
    problem = random_problem(seed)
    snapshot, options = problem.snapshot(), options_for(seed)
    plan = solve(snapshot, problem.pods, options)
    bound = [
        replace_fields(pod, spec=replace_fields(pod.spec, node_name=name))
        for name, pods in plan.existing.items()
        for pod in pods
    ]
    fuller = snapshot.plus(bound)
    pods = [pod for node in plan.new_nodes for pod in node.pods]

    again = solve(fuller, pods, options)

    assert render(again) == render(solve(just_read(fuller), pods, options))
