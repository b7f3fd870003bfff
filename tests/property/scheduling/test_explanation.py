# SPDX-License-Identifier: Apache-2.0
"""What must hold of every explanation, tried on random problems with every kind of constraint.

``KARPENTER_PROPERTY_EXAMPLES=5000`` tries that many problems for each promise; a failure names the seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from karpenter.model.pools import Pool
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling import Cause, Rejection, solve
from karpenter.scheduling.explanation import LONGEST_SENTENCE, apply, as_data, describe_fix, sentence, tree
from karpenter.scheduling.reasons import Constraint, Explanation, Reason
from tests.checker import carried_out
from tests.property.scheduling.rechecking import Recheck
from tests.strategies import Problem, random_problem

EXAMPLES = int(os.environ.get("KARPENTER_PROPERTY_EXAMPLES", "40"))

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


def refusals(seed: int) -> tuple[Snapshot, tuple[Rejection, ...]]:
    """Give the cluster with the plan for a random problem carried out, and the pods that found no place."""
    problem = random_problem(seed)
    snapshot = problem.snapshot()
    plan = solve(snapshot, problem.pods)
    after = carried_out(snapshot, plan)
    limits = {pool.name: pool.limits for pool in snapshot.pools}
    pools = tuple(replace(pool, used=_used(pool, limits[pool.name])) for pool in after.pools)
    return replace(after, pools=pools), plan.rejections


def _used(pool: Pool, before: Mapping[str, int]) -> dict[str, int]:
    """Give what a pool has used of its limits, the plan included."""
    return {key: pool.used.get(key, 0) + before[key] - left for key, left in pool.limits.items()}


def alone(problem: Problem) -> Iterator[tuple[Snapshot, Rejection]]:
    """Give the refusals of each pod of a problem, asked alone."""
    snapshot = problem.snapshot()
    for pod in problem.pods[:8]:
        for rejection in solve(snapshot, [pod]).rejections:
            yield snapshot, rejection


def judged(after: Snapshot, rejection: Rejection) -> Iterator[tuple[Recheck, Reason]]:
    """Give every reason that can be rechecked, with who does it."""
    for reason in rejection.reasons:
        for pool in reason.pools:
            recheck = Recheck(after, pool, rejection.pods[-1])
            if recheck.can_judge(reason):
                yield recheck, reason


@tried
@given(seed=SEEDS)
def test_every_reason_is_true_on_its_own(seed: int) -> None:
    after, rejections = refusals(seed)

    for rejection in rejections:
        for recheck, reason in judged(after, rejection):
            assert recheck.is_true(reason), reason


@tried
@given(seed=SEEDS)
def test_nothing_can_be_left_out_of_a_reason(seed: int) -> None:
    after, rejections = refusals(seed)

    for rejection in rejections:
        for recheck, reason in judged(after, rejection):
            assert recheck.spare(reason) == [], reason


@tried
@given(seed=SEEDS)
def test_every_fix_places_the_pod(seed: int) -> None:
    after, rejections = refusals(seed)

    for rejection in rejections:
        for fix in rejection.explanation.fixes:
            changed, pod = apply(after, rejection.pods[-1], fix)
            again = solve(changed, [pod])
            assert again.rejections == (), (describe_fix(fix), again.rejections[0].message)


@tried
@given(seed=SEEDS)
def test_a_pod_asked_alone_always_gets_a_reason_from_every_pool(seed: int) -> None:
    problem = random_problem(seed)

    for snapshot, rejection in alone(problem):
        causes = {each.cause for reason in rejection.reasons for each in reason.constraints}
        told = [pool for reason in rejection.reasons for pool in reason.pools]
        assert Cause.UNDECIDED not in causes
        assert not told or sorted(told) == sorted(pool.name for pool in snapshot.pools)


@tried
@given(seed=SEEDS)
def test_what_people_read_is_short_and_complete(seed: int) -> None:
    _, rejections = refusals(seed)

    for rejection in rejections:
        explanation = rejection.explanation
        lines = tree(explanation, "a/b").splitlines()
        assert 0 < len(rejection.message) <= LONGEST_SENTENCE
        assert lines[0].startswith("pod a/b  cannot be placed")
        assert all(line == line.rstrip() for line in lines)
        assert as_data(explanation)["sentence"] == rejection.message


@tried
@given(seed=SEEDS)
def test_the_order_of_the_pods_does_not_change_what_is_told(seed: int) -> None:
    problem = random_problem(seed, max_pods=15)
    snapshot = problem.snapshot()

    forward = solve(snapshot, problem.pods)
    backward = solve(snapshot, problem.pods[::-1])

    assert [each.explanation for each in forward.rejections] == [
        each.explanation for each in backward.rejections
    ]


TEXTS = st.text(max_size=400)
CONSTRAINTS = st.builds(
    Constraint,
    cause=st.sampled_from(Cause),
    subject=TEXTS,
    wanted=TEXTS,
    offered=st.one_of(st.just(""), st.sampled_from(["1", "1500m", "14162Mi"])),
    facts=st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
    hint=TEXTS,
)
REASONS = st.builds(
    Reason,
    constraints=st.lists(CONSTRAINTS, min_size=1, max_size=3).map(tuple),
    pools=st.lists(TEXTS, max_size=30).map(tuple),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(reasons=st.lists(REASONS, min_size=1, max_size=25))
def test_a_sentence_is_never_longer_than_promised(reasons: list[Reason]) -> None:
    explanation = Explanation(tuple(reasons), pools=len(reasons))

    assert 0 < len(sentence(explanation)) <= LONGEST_SENTENCE
    assert tree(explanation, "a/b").startswith("pod a/b")
