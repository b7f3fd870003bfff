# SPDX-License-Identifier: Apache-2.0
"""The product itself as a planner: ``propose`` with its memory, on snapshots of the faked cluster."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.consolidation.cluster import Cluster
from benchmarks.consolidation.runs import Plan
from benchmarks.consolidation.searcher import POOL, START_S
from benchmarks.consolidation.views import Views
from karpenter.consolidation import propose
from karpenter.consolidation.memory import Memory, workload_of
from karpenter.consolidation.types import (
    BudgetRule,
    Candidate,
    Command,
    Policy,
    PoolPolicy,
    Rearrangement,
    Settings,
    Situation,
)

__all__ = ["Proposer"]


class Proposer:
    """Plans by what is proposed, and remembers what came of it.

    Attributes:
        memory: What it has learnt.
        settings: What an operator has chosen.
    """

    def __init__(
        self, cluster: Cluster, settings: Settings, *, balanced: bool = False, budget: int = 10
    ) -> None:
        self.memory = Memory()
        self.settings = settings
        self._plan: Rearrangement | None = None
        self._views = Views(cluster)
        self._offerings = {
            (cluster.market.catalogue.type_at(place).name, offering.zone, offering.capacity_type): place
            for place, offering in enumerate(cluster.market.catalogue.offerings)
        }
        self._policy = PoolPolicy(
            POOL,
            policy=Policy.BALANCED if balanced else Policy.WHEN_EMPTY_OR_UNDERUTILIZED,
            budgets=(BudgetRule(f"{budget}%", budget, is_percent=True),),
        )

    def plan(self, cluster: Cluster, now: float) -> list[Plan]:
        """Return the stages of what is proposed; nothing if nothing is."""
        moment = START_S + now
        snapshot = self._views.snapshot()
        self.memory = self.memory.hour_passed((POOL,), moment, self.settings)
        situation = Situation(
            candidates=tuple(
                Candidate(name=node.name, claim=node.name, pool=POOL, initialized_at=START_S - 1e6)
                for node in snapshot.nodes
            ),
            policies={POOL: self._policy},
            memory=self.memory,
            settings=self.settings,
            plan=self._plan,
            bought={str(uid): node.name for node in cluster.nodes.values() for uid in node.pods},
        )
        found = propose(snapshot, situation, moment)
        self._plan = found.plan if isinstance(found, Command) else None
        return self._plans(cluster, found, moment) if isinstance(found, Command) else []

    def _plans(self, cluster: Cluster, command: Command, moment: float) -> list[Plan]:
        numbers = {node.name: node.number for node in cluster.nodes.values()}
        pods = {str(pod.uid): pod for pod in cluster.pods()}
        plans: list[Plan] = []
        launched = 0
        for stage in command.stages:
            launch = []
            for place, node in enumerate(stage.launch):
                key = (node.chosen.instance_type, node.chosen.zone, node.chosen.capacity_type)
                launch.append((launched + place, self._offerings[key]))
            targets = {
                int(move.uid): numbers[move.target] if move.launch < 0 else -1 - launched - move.launch
                for move in stage.moves
            }
            launched += len(stage.launch)
            plans.append(Plan(tuple(launch), tuple(numbers[name] for name in stage.remove), targets))
        moved = [self._views.pod(pods[move.uid]) for stage in command.stages for move in stage.moves]
        if moved:
            self.memory = self.memory.removed((POOL,), moment, self.settings).moved(moved, moment)
        return plans

    def bought_back(self, now: float, nodes: int) -> None:
        """Learn that nodes were bought for pods that waited."""
        if nodes:
            self.memory = self.memory.launched((POOL,), START_S + now, self.settings)

    def counted(self, replicas: Sequence[int], now: float) -> None:
        """Learn how many replicas each workload is to have."""
        names = {
            workload_of(self._views.template(index)): number
            for index, number in enumerate(replicas)
            if number
        }
        self.memory = self.memory.counted(names, START_S + now)
