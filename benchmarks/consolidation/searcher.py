# SPDX-License-Identifier: Apache-2.0
"""The search alone as a planner: with a constant price for each eviction, or with the memory of the product.

The product asks its solver about all that the search finds, which takes most of its time; without that a week in faked
time takes minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.consolidation.cluster import Cluster, Node
from benchmarks.consolidation.runs import Plan
from benchmarks.consolidation.views import Views
from karpenter.consolidation.memory import Memory, workload_of
from karpenter.consolidation.payback import least_saving
from karpenter.consolidation.search import search
from karpenter.consolidation.types import Rearrangement, Removable, Settings, World

__all__ = ["Searcher", "WithMemory", "plans_of", "world_of"]

POOL = "default"
# Faked time starts here, so that nothing happened at the beginning of time.
START_S = 1_000_000_000.0


def world_of(cluster: Cluster, views: Views, theta: float, tries: int, minimum: float = 0.02) -> World:
    """Return the cluster as the search sees it, every eviction at the same price per hour and weight."""
    snapshot = views.snapshot()
    removable = {}
    for node in cluster.nodes.values():
        if not cluster.is_pinned(node):
            removable[node.name] = Removable(
                name=node.name,
                pool="default",
                price_per_hour=cluster.prices[node.position],
                cost=theta * sum(cluster.workloads[pod.workload].weight for pod in node.pods.values()),
                minimum_saving=least_saving(minimum, is_spot=_is_spot(cluster, node)),
            )
    return World(
        snapshot=snapshot,
        removable=removable,
        receivers=frozenset(node.name for node in snapshot.nodes),
        tries=tries,
    )


def _is_spot(cluster: Cluster, node: Node) -> bool:
    return cluster.market.catalogue.offerings[node.position].capacity_type == "spot"


class Searcher:
    """Plans by the search alone."""

    def __init__(self, cluster: Cluster, theta: float, tries: int = 400) -> None:
        self._views = Views(cluster)
        self._theta = theta
        self._tries = tries

    def plan(self, cluster: Cluster, now: float) -> list[Plan]:
        """Return the steps of what the search finds."""
        del now
        world = world_of(cluster, self._views, self._theta, self._tries)
        return plans_of(cluster, search(world))

    def bought_back(self, now: float, nodes: int) -> None:
        """Learn nothing: the price of an eviction is constant."""


class WithMemory:
    """Plans by the search alone, at the price of evictions that the memory has learnt, with room for recent peaks."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self.memory = Memory()
        self.settings = settings
        self._views = Views(cluster)
        self._workloads = [workload_of(self._views.template(i)) for i in range(len(cluster.workloads))]

    def plan(self, cluster: Cluster, now: float) -> list[Plan]:
        """Return the steps of what the search finds."""
        moment = START_S + now
        self.memory = self.memory.hour_passed((POOL,), moment, self.settings)
        horizon_h = self.memory.horizon_h(POOL, self.settings)
        theta = self.settings.eviction_price / horizon_h
        held = self.memory.ghosts(moment)
        ghosts = [
            self._views.ghost(index, number)
            for index, workload in enumerate(self._workloads)
            for number in range(held.get(workload, 0))
        ]
        now_prices = cluster.prices
        cluster.prices = cluster.usual_prices or now_prices
        world = world_of(cluster, self._views, theta, self.settings.tries, self.settings.minimum_saving)
        plans = plans_of(cluster, search(replace(world, ghosts=tuple(ghosts), horizon_h=horizon_h)))
        cluster.prices = now_prices
        if plans:
            self.memory = self.memory.removed((POOL,), moment, self.settings)
        return plans

    def bought_back(self, now: float, nodes: int) -> None:
        """Learn that nodes were bought for pods that waited."""
        if nodes:
            self.memory = self.memory.launched((POOL,), START_S + now, self.settings)

    def counted(self, replicas: Sequence[int], now: float) -> None:
        """Learn how many replicas each workload is to have."""
        named = {name: number for name, number in zip(self._workloads, replicas, strict=True) if number}
        self.memory = self.memory.counted(named, START_S + now)


def plans_of(cluster: Cluster, found: Rearrangement) -> list[Plan]:
    """Return a rearrangement in numbers of the faked cluster."""
    numbers = {node.name: node.number for node in cluster.nodes.values()}
    offerings = {
        (cluster.market.catalogue.type_at(place).name, offering.zone, offering.capacity_type): place
        for place, offering in enumerate(cluster.market.catalogue.offerings)
    }
    launches: list[int] = []
    for node in found.launch:
        chosen = node.chosen
        launches.append(offerings[chosen.instance_type, chosen.zone, chosen.capacity_type])
    by_source: dict[str, list[tuple[int, int]]] = {}
    for move in found.moves:
        target = numbers[move.target] if move.target else -1 - move.launch
        by_source.setdefault(move.source, []).append((int(move.uid), target))
    plans: list[Plan] = []
    start, launched = 0, 0
    for length in found.steps:
        names = found.remove[start : start + length]
        start += length
        targets = {uid: target for name in names for uid, target in by_source.get(name, ())}
        needed = max((-target for target in targets.values() if target < 0), default=0)
        last = max(launched, needed)
        plans.append(
            Plan(
                tuple((place, launches[place]) for place in range(launched, last)),
                tuple(numbers[name] for name in names),
                targets,
            )
        )
        launched = last
    return plans
