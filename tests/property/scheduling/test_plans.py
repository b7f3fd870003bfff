# SPDX-License-Identifier: Apache-2.0
"""What must hold of every plan, tried on random problems with every kind of constraint.

``KARPENTER_PROPERTY_EXAMPLES=5000`` tries that many problems for each promise; a failure names the seed, and
``python -m tests.property.scheduling.hunting SEED SEED+1 --shrink`` makes its problem small.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replace_fields

from karpenter.api.core import Pod
from karpenter.scheduling import SolveOptions, solve
from tests.checker import check, recheck_rejection
from tests.property.scheduling.hunting import second_thoughts
from tests.property.scheduling.rendering import render
from tests.strategies import Problem, random_problem

EXAMPLES = int(os.environ.get("KARPENTER_PROPERTY_EXAMPLES", "60"))

# A second for each example is plenty, on a busy machine too.
pytestmark = pytest.mark.timeout(max(120, EXAMPLES))

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)

# Seeds do not shrink: a smaller number is another problem, not a smaller one.
tried = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def options_for(seed: int) -> SolveOptions:
    """Mostly the controller's way; now and then the other policies."""
    return SolveOptions(
        preferences="Ignore" if seed % 5 == 0 else "Respect",
        min_values="BestEffort" if seed % 3 == 0 else "Strict",
        effort=0 if seed % 7 == 0 else 100,
    )


@tried
@given(seed=SEEDS)
def test_every_plan_is_valid(seed: int) -> None:
    problem = random_problem(seed)
    snapshot, options = problem.snapshot(), options_for(seed)

    plan = solve(snapshot, problem.pods, options)

    assert check(snapshot, problem.pods, plan, options) == []


@tried
@given(seed=SEEDS)
def test_every_pod_is_placed_or_rejected_with_a_reason(seed: int) -> None:
    problem = random_problem(seed)

    plan = solve(problem.snapshot(), problem.pods)

    placed = [pod for pods in plan.existing.values() for pod in pods]
    placed += [pod for node in plan.new_nodes for pod in node.pods]
    rejected = [pod for rejection in plan.rejections for pod in rejection.pods]
    assert sorted(map(key, placed + rejected)) == sorted(map(key, problem.pods))
    assert plan.unfinished == ()
    assert all(rejection.reasons and rejection.message for rejection in plan.rejections)


@tried
@given(seed=SEEDS)
def test_no_rejected_pod_would_obviously_have_fitted(seed: int) -> None:
    problem = random_problem(seed)
    snapshot = problem.snapshot()

    plan = solve(snapshot, problem.pods)

    assert recheck_rejection(snapshot, problem.pods, plan) == []


@tried
@given(seed=SEEDS)
def test_the_bound_is_not_above_the_price(seed: int) -> None:
    problem = random_problem(seed)

    plan = solve(problem.snapshot(), problem.pods)

    assert 0 <= plan.lower_bound_per_hour <= plan.price_per_hour + 1e-6


@tried
@given(seed=SEEDS)
def test_the_order_of_the_input_does_not_matter(seed: int) -> None:
    problem = random_problem(seed)
    other = shuffled(problem, Random(seed))  # noqa: S311 - not a secret

    plan = solve(problem.snapshot(), problem.pods)

    assert render(solve(other.snapshot(), other.pods)) == render(plan)


@tried
@given(seed=SEEDS)
def test_solving_twice_gives_the_same_bytes(seed: int) -> None:
    problem = random_problem(seed)
    snapshot = problem.snapshot()

    plan = solve(snapshot, problem.pods)

    assert render(solve(snapshot, problem.pods)) == render(plan)


def test_plans_do_not_depend_on_how_python_hashes() -> None:
    def digest(hash_seed: str) -> str:
        command = [sys.executable, "-m", "tests.property.scheduling.rendering", "0", "60"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert digest("1") == digest("2")


@tried
@given(seed=SEEDS)
def test_labels_that_nobody_selects_change_nothing(seed: int) -> None:
    problem = random_problem(seed)
    marked = replace(problem, pods=tuple(labelled(pod, str(n)) for n, pod in enumerate(problem.pods)))

    plan = solve(problem.snapshot(), problem.pods)

    assert render(solve(marked.snapshot(), marked.pods)) == render(plan)


@tried
@given(seed=SEEDS)
def test_pods_that_were_refused_are_refused_again_once_the_plan_is_carried_out(seed: int) -> None:
    problem = random_problem(seed)
    snapshot = problem.snapshot()
    plan = solve(snapshot, problem.pods)

    assert second_thoughts(snapshot, plan, SolveOptions()) == []


@tried
@given(seed=SEEDS)
def test_a_plan_that_the_deadline_cut_short_is_valid(seed: int) -> None:
    problem = random_problem(seed)
    snapshot = problem.snapshot()
    options = SolveOptions(expired=countdown(seed % 4))

    plan = solve(snapshot, problem.pods, options)

    assert check(snapshot, problem.pods, plan, options) == []


def countdown(asked: int) -> Any:
    """Say yes from some question on."""
    left = iter([False] * asked)
    return lambda: next(left, True)


def key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


def labelled(pod: Pod, value: str) -> Pod:
    labels = {**pod.metadata.labels, "unrelated": value}
    return replace_fields(pod, metadata=replace_fields(pod.metadata, labels=labels))


def shuffled(problem: Problem, random: Random) -> Problem:
    """Give the same problem with every list in another order, down to the offerings and the pods of nodes."""

    def mixed(objects: Any) -> Any:
        return tuple(random.sample(objects, len(objects)))

    return Problem(
        pods=mixed(problem.pods),
        nodepools=mixed(problem.nodepools),
        types=mixed([replace(kind, offerings=mixed(kind.offerings)) for kind in problem.types]),
        nodes=mixed([replace(node, pods=mixed(node.pods)) for node in problem.nodes]),
        daemons=mixed(problem.daemons),
        claims=mixed(problem.claims),
        volumes=mixed(problem.volumes),
        classes=mixed(problem.classes),
        namespaces=dict(mixed(list(problem.namespaces.items()))),
    )
