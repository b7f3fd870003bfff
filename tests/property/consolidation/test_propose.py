# SPDX-License-Identifier: Apache-2.0
"""What must hold of every command, tried on random clusters with every kind of constraint."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from karpenter.api.labels import DO_NOT_DISRUPT
from karpenter.consolidation import Blocked, Command, Quota, Reason, Refusal, VerdictKind, propose, validate
from karpenter.consolidation.protection import Protection
from karpenter.scheduling import SolveOptions
from tests.checker import check
from tests.property.consolidation.clusters import NOW, Cluster, displaced, plan_of, price_of, random_cluster

EXAMPLES = int(os.environ.get("KARPENTER_PROPERTY_EXAMPLES", "100"))
pytestmark = pytest.mark.timeout(max(120, EXAMPLES * 3))
# The same clusters for every promise: drawing one takes longer than asking.
SEEDS = st.integers(min_value=0, max_value=EXAMPLES - 1)
tried = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)

T = TypeVar("T")

# More commands than this for a handful of nodes go round in circles.
MOST_COMMANDS = 40


def ask(cluster: Cluster) -> Command | Blocked:
    return propose(cluster.snapshot, cluster.situation, NOW)


@lru_cache(maxsize=EXAMPLES)
def asked(seed: int) -> tuple[Cluster, Command | Blocked]:
    cluster = random_cluster(seed)
    return cluster, ask(cluster)


@tried
@given(seed=SEEDS)
def test_every_stage_is_a_valid_plan_for_the_pods_that_it_moves(seed: int) -> None:
    cluster, command = asked(seed)

    if isinstance(command, Blocked):
        return
    for stage in command.stages:
        rest = cluster.snapshot.without(stage.remove)
        moved = displaced(cluster.snapshot, stage.remove)
        # Pods that are not worth keeping are not moved from an empty node.
        pods = [] if command.reason is Reason.EMPTY else list(moved.values())
        found = check(rest, pods, plan_of(cluster.snapshot, stage), SolveOptions())
        # A launch keeps only what is cheap enough, and what is written of it may speak of more.
        assert [each for each in found if "minValues were relaxed" not in each] == []
        cluster = cluster.carry_out(stage)


@tried
@given(seed=SEEDS)
def test_each_pod_of_a_removed_node_moves_exactly_once(seed: int) -> None:
    cluster, command = asked(seed)

    if isinstance(command, Command) and command.reason is not Reason.EMPTY:
        moved = Counter(move.uid for stage in command.stages for move in stage.moves)
        assert set(moved) == set(displaced(cluster.snapshot, command.remove))
        assert all(number == 1 for number in moved.values())
        assert not {move.target for stage in command.stages for move in stage.moves} & set(command.remove)


@tried
@given(seed=SEEDS)
def test_budgets_hold_for_every_pool_and_reason(seed: int) -> None:
    cluster, command = asked(seed)
    situation = cluster.situation

    if isinstance(command, Command):
        quota = Quota(situation.candidates, situation.policies, NOW)
        pools = {each.name: each.pool for each in situation.candidates}
        taken = Counter(pools[name] for name in command.remove)
        for pool, number in taken.items():
            left = quota.left(pool, command.reason)
            assert left is None or number <= left


@tried
@given(seed=SEEDS)
def test_no_protected_pod_is_ever_moved(seed: int) -> None:
    cluster, command = asked(seed)

    if isinstance(command, Command):
        protection = Protection(cluster.situation.pdbs, NOW)
        gone = [node for node in cluster.snapshot.nodes if node.name in command.remove]
        assert [protection.obstacle(node.pods) for node in gone] == [None] * len(gone)
        annotations = [
            pod.metadata.annotations
            for node in gone
            for pod in node.pods
            if not pod.metadata.deletion_timestamp
        ]
        assert "true" not in [each.get(DO_NOT_DISRUPT) for each in annotations]


@tried
@given(seed=SEEDS)
def test_pods_go_only_to_nodes_that_are_ready_for_work(seed: int) -> None:
    cluster, command = asked(seed)

    if isinstance(command, Command):
        ready = {node.name for node in cluster.snapshot.nodes if node.initialized}
        ready -= {each.name for each in cluster.situation.candidates if each.not_ready}
        targets = {move.target for stage in command.stages for move in stage.moves if move.target}
        assert targets <= ready


@tried
@given(seed=SEEDS)
def test_every_first_part_of_a_command_for_money_saves_money(seed: int) -> None:
    cluster, command = asked(seed)

    if isinstance(command, Command) and command.reason is Reason.UNDERUTILIZED:
        price = before = price_of(cluster.snapshot)
        for stage in command.stages:
            assert stage.saving_per_hour > 0
            cluster = cluster.carry_out(stage)
            assert price_of(cluster.snapshot) < price
            price = price_of(cluster.snapshot)
        assert before - price == pytest.approx(command.saving_per_hour)


@tried
@given(seed=SEEDS)
def test_whatever_is_carried_out_the_cluster_falls_quiet(seed: int) -> None:
    cluster = random_cluster(seed)
    commands = 0
    while isinstance(command := ask(cluster), Command):
        commands += 1
        assert commands <= MOST_COMMANDS
        for stage in command.stages:
            cluster = cluster.carry_out(stage)

    assert ask(cluster) == command


@tried
@given(seed=SEEDS)
def test_the_order_of_the_input_does_not_matter(seed: int) -> None:
    cluster = random_cluster(seed)
    chance = Random(seed)  # noqa: S311 - the same order for the same seed

    def shuffled(things: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(chance.sample(things, len(things)))

    snapshot = replace(
        cluster.snapshot, nodes=shuffled(cluster.snapshot.nodes), pools=shuffled(cluster.snapshot.pools)
    )
    situation = replace(
        cluster.situation,
        candidates=shuffled(cluster.situation.candidates),
        pdbs=shuffled(cluster.situation.pdbs),
    )

    one, other = ask(cluster), propose(snapshot, situation, NOW)

    assert getattr(one, "id", "") == getattr(other, "id", "")
    assert one.verdicts == other.verdicts


@tried
@given(seed=SEEDS)
def test_every_node_of_ours_has_a_verdict(seed: int) -> None:
    cluster, command = asked(seed)

    assert set(command.verdicts) == {each.name for each in cluster.situation.candidates}
    assert all(each.words.startswith(f"{name} ") for name, each in command.verdicts.items())
    goes = {name for name, each in command.verdicts.items() if each.kind is VerdictKind.GOES}
    assert goes == (set(command.remove) if isinstance(command, Command) else set())


@tried
@given(seed=SEEDS)
def test_a_stage_is_still_good_right_away_and_a_protected_one_is_not(seed: int) -> None:
    cluster, command = asked(seed)
    if not isinstance(command, Command):
        return
    stage = command.stages[0]
    marked = tuple(
        replace(each, leaving=True) if each.name in stage.remove else each
        for each in cluster.situation.candidates
    )
    protected = tuple(
        replace(each, do_not_disrupt=True) if each.name in stage.remove else each
        for each in cluster.situation.candidates
    )

    good = validate(
        stage, command.reason, cluster.snapshot, replace(cluster.situation, candidates=marked), NOW
    )
    bad = validate(
        stage, command.reason, cluster.snapshot, replace(cluster.situation, candidates=protected), NOW
    )

    assert not isinstance(good, Refusal), good
    assert good.remove == stage.remove
    assert isinstance(bad, Refusal)
    assert bad.kind == "churn"
