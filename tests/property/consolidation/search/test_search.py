# SPDX-License-Identifier: Apache-2.0
"""What must hold of every rearrangement, tried on random clusters with every kind of constraint."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from karpenter.consolidation.search import search
from karpenter.consolidation.types import Rearrangement, Removable, Stage, World
from karpenter.model.pods import eviction_cost
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling import SolveOptions
from tests.checker import check
from tests.property.consolidation.clusters import displaced, plan_of, random_cluster

EXAMPLES = 25
SEEDS = st.integers(min_value=0, max_value=EXAMPLES - 1)
pytestmark = pytest.mark.timeout(120)
tried = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)

THETA = 0.0005


def world(snapshot: Snapshot, *, tries: int = 30) -> World:
    removable = {}
    for node in snapshot.nodes:
        if node.managed and node.initialized:
            costs = (max(0.0, eviction_cost(pod)) for pod in displaced(snapshot, [node.name]).values())
            removable[node.name] = Removable(
                node.name, node.pool, 0.4, THETA * sum(costs), minimum_saving=0.02
            )
    receivers = frozenset(node.name for node in snapshot.nodes if node.initialized)
    return World(snapshot, removable, receivers, tries=tries)


@lru_cache(maxsize=EXAMPLES)
def found_for(seed: int) -> tuple[Snapshot, Rearrangement]:
    snapshot = random_cluster(seed).snapshot
    return snapshot, search(world(snapshot))


@tried
@given(seed=SEEDS)
def test_what_is_found_is_a_valid_plan_for_the_pods_that_move(seed: int) -> None:
    snapshot, found = found_for(seed)

    whole = Stage(found.remove, found.launch, found.moves)

    complaints = check(
        snapshot.without(found.remove),
        list(displaced(snapshot, found.remove).values()),
        plan_of(snapshot, whole),
        SolveOptions(),
    )
    # What counts only once it is bought is the solver's to say: how many offerings to keep open, and volume limits.
    assert [each for each in complaints if " are wanted" not in each and "attach" not in each] == []


@tried
@given(seed=SEEDS)
def test_each_pod_of_a_removed_node_moves_exactly_once_and_never_onto_one(seed: int) -> None:
    snapshot, found = found_for(seed)

    moved = Counter(move.uid for move in found.moves)

    assert set(moved) == set(displaced(snapshot, found.remove))
    assert all(number == 1 for number in moved.values())
    assert not {move.target for move in found.moves} & set(found.remove)
    assert all((move.launch >= 0) == (not move.target) for move in found.moves)


@tried
@given(seed=SEEDS)
def test_every_step_pays_and_those_without_launches_come_first(seed: int) -> None:
    snapshot, found = found_for(seed)
    asked = world(snapshot)
    sources: dict[str, set[int]] = {}
    for move in found.moves:
        sources.setdefault(move.source, set()).add(move.launch)

    start, spent, gained = 0, set[int](), 0.0
    buying = False
    for size in found.steps:
        names = found.remove[start : start + size]
        start += size
        needed = {number for name in names for number in sources.get(name, ()) if number >= 0}
        assert not buying or needed | spent
        buying = buying or bool(needed)
        spent |= needed
        gained += sum(asked.removable[name].price_per_hour - asked.removable[name].cost for name in names)

        assert (
            gained > sum(found.launch[number].price_per_hour for number in spent) - 0.01 * len(names) - 1e-9
        )
    assert start == len(found.remove)
    assert spent == set(range(len(found.launch)))


@tried
@given(seed=SEEDS)
def test_the_order_of_nodes_does_not_matter_and_the_answer_repeats(seed: int) -> None:
    snapshot, found = found_for(seed)

    turned = replace(snapshot, nodes=tuple(reversed(snapshot.nodes)))
    again = search(world(turned))

    assert (again.remove, again.moves, again.steps) == (found.remove, found.moves, found.steps)
    assert again.saving_per_hour == found.saving_per_hour
