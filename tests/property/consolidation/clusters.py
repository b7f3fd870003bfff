# SPDX-License-Identifier: Apache-2.0
"""Random clusters with too many nodes: a random problem is solved, carried out, and scaled down by chance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

from msgspec import structs

from karpenter.api.core import Pod
from karpenter.api.core.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from karpenter.api.labels import DO_NOT_DISRUPT, INSTANCE_TYPE
from karpenter.api.meta import LabelSelector, ObjectMeta
from karpenter.api.nodepool import Budget
from karpenter.consolidation import Candidate, Settings, Situation
from karpenter.consolidation.budgets import read_budgets
from karpenter.consolidation.types import Policy, PoolPolicy, Stage
from karpenter.model.pods import is_reschedulable
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.scheduling import Plan, solve
from tests.checker import carried_out
from tests.strategies import random_problem
from tests.strategies.habits import APPS
from tests.strategies.pods import NOON

__all__ = ["NOW", "Cluster", "candidate", "displaced", "plan_of", "price_of", "random_cluster"]

NOW = NOON.timestamp()
LONG_AGO = NOW - 86_400


@dataclass(frozen=True)
class Cluster:
    """A cluster, and everything beside it."""

    snapshot: Snapshot
    situation: Situation

    def carry_out(self, stage: Stage) -> Cluster:
        """Give the cluster once a stage has been carried out as it was planned."""
        named = replace(
            carried_out(self.snapshot.without(stage.remove), plan_of(self.snapshot, stage)),
            # Their own census; what was counted before is gone.
            shared=Snapshot().shared,
        )
        taken = {each.name for each in self.situation.candidates}
        nodes: list[NodeView] = []
        fresh: list[Candidate] = []
        for node in named.nodes:
            if node.pool and node.name not in taken and node.managed:
                name = f"new-{len(taken)}-{len(fresh)}"
                nodes.append(_renamed(node, name))
                fresh.append(candidate(nodes[-1]))
            else:
                nodes.append(node)
        kept = tuple(each for each in self.situation.candidates if each.name not in stage.remove)
        return Cluster(
            Snapshot(named.pools, tuple(nodes), named.daemons, named.storage, named.namespaces),
            replace(self.situation, candidates=(*kept, *fresh)),
        )


def candidate(node: NodeView) -> Candidate:
    """Give what is said of a node that has been quiet for long."""
    ready = LONG_AGO if node.initialized else None
    return Candidate(node.name, f"claim-{node.name}", node.pool, created=LONG_AGO, initialized_at=ready)


def plan_of(snapshot: Snapshot, stage: Stage) -> Plan:
    """Give a stage in the form of a plan for the pods that it moves."""
    pods = displaced(snapshot, stage.remove)
    existing: dict[str, list[Pod]] = {}
    for move in stage.moves:
        if move.target:
            existing.setdefault(move.target, []).append(pods[move.uid])
    return Plan(
        existing={name: tuple(found) for name, found in existing.items()},
        new_nodes=tuple(
            replace(each, pods=tuple(pods[move.uid] for move in stage.moves if move.launch == number))
            for number, each in enumerate(stage.launch)
        ),
        price_per_hour=sum(each.price_per_hour for each in stage.launch),
    )


def displaced(snapshot: Snapshot, names: Collection[str]) -> dict[str, Pod]:
    """Give the pods that need another place when nodes go, by uid."""
    return {
        pod.metadata.uid: pod
        for node in snapshot.nodes
        if node.name in names
        for pod in node.pods
        if is_reschedulable(pod)
    }


@lru_cache(maxsize=256)
def random_cluster(seed: int) -> Cluster:
    """Draw a cluster; the same seed gives the same one."""
    chance = Random(seed)  # noqa: S311 - the same cluster for the same seed
    problem = random_problem(seed, max_pods=chance.choice((20, 60)))
    before = problem.snapshot()
    full = carried_out(before, solve(before, problem.pods))
    nodes = tuple(_thinned(node, chance) for node in full.nodes)
    if chance.random() < 0.7:
        nodes = tuple(node for node in nodes if any(map(is_reschedulable, node.pods)) or not node.pool)
    nodes = tuple(
        _renamed(node, f"made-{number}") if node.name not in {each.name for each in before.nodes} else node
        for number, node in enumerate(nodes)
    )
    snapshot = Snapshot(full.pools, nodes, full.daemons, full.storage, full.namespaces)
    pools = sorted({pool.name for pool in full.pools})
    return Cluster(
        snapshot,
        Situation(
            candidates=tuple(
                replace(
                    candidate(node),
                    not_ready=chance.random() < 0.02,
                    nominated=chance.random() < 0.02,
                    do_not_disrupt=chance.random() < 0.02,
                    drifted="NodePoolDrifted" if chance.random() < 0.03 else "",
                    drifted_at=NOW - chance.randrange(1000),
                    last_pod_event=NOW - chance.choice((5, 500, 5000)),
                )
                for node in nodes
                if node.managed
            ),
            policies={name: _policy(name, chance) for name in pools},
            pdbs=tuple(_pdb(app, chance) for app in APPS if chance.random() < 0.2),
            settings=Settings(
                tries=60, eviction_price=chance.choice((0.01, 0.0005)), spot_choices=chance.choice((1, 5))
            ),
        ),
    )


def _thinned(node: NodeView, chance: Random) -> NodeView:
    pods = []
    gone = chance.choice((0.2, 0.5, 0.8))
    for pod in node.pods:
        if chance.random() < gone:
            continue
        annotations: Mapping[str, str] = pod.metadata.annotations
        if chance.random() < 0.04:
            annotations = {**annotations, DO_NOT_DISRUPT: chance.choice(("true", "100h", "1ns", "?"))}
        metadata = structs.replace(pod.metadata, annotations=annotations)
        status = structs.replace(pod.status, phase=pod.status.phase or "Running", start_time=NOON)
        pods.append(structs.replace(pod, metadata=metadata, status=status))
    return replace(node, pods=tuple(pods))


def _renamed(node: NodeView, name: str) -> NodeView:
    pods = tuple(structs.replace(pod, spec=structs.replace(pod.spec, node_name=name)) for pod in node.pods)
    labels = {**node.labels, "kubernetes.io/hostname": name}
    return replace(node, name=name, labels=labels, pods=pods)


def _policy(name: str, chance: Random) -> PoolPolicy:
    budgets = chance.choice(
        (
            (),
            (Budget(nodes="100%"),),
            (Budget(nodes="1"),),
            (Budget(nodes="50%"),),
            (Budget(nodes="2"), Budget(nodes="0", reasons=("Drifted",))),
            (Budget(nodes="1", reasons=("Underutilized",)),),
            *[(Budget(nodes="??"),) for _ in range(chance.random() < 0.2)],
        )
    )
    return PoolPolicy(
        name,
        policy=chance.choice((*Policy, *[Policy.WHEN_EMPTY_OR_UNDERUTILIZED] * 4)),
        consolidate_after_s=chance.choice((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 30.0, 600.0, None)),
        budgets=read_budgets(budgets)[0],
    )


def _pdb(app: str, chance: Random) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=f"pdb-{app}", namespace=chance.choice(("default", "default", "shop"))),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
        status=PodDisruptionBudgetStatus(disruptions_allowed=chance.choice((0, 1))),
    )


def price_of(snapshot: Snapshot) -> float:
    """Give what the nodes of ours cost together, as far as the catalogues know."""
    listed = {
        (pool.name, pool.catalogue.type_at(position).name, offering.zone, offering.capacity_type): offering
        for pool in snapshot.pools
        for position, offering in enumerate(pool.catalogue.offerings)
    }
    total = 0.0
    for node in snapshot.nodes:
        labels = node.labels
        key = (
            node.pool,
            labels.get(INSTANCE_TYPE, ""),
            labels.get("topology.kubernetes.io/zone", ""),
            labels.get("karpenter.sh/capacity-type", ""),
        )
        total += listed[key].price_per_hour if key in listed else 0.0
    return total
