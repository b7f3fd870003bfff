# SPDX-License-Identifier: Apache-2.0
"""Seven days in faked time: what keeping a living cluster cheap costs in evictions.

Everybody starts from the same untidy cluster, *third*, and tidies it up by its own rules until there is nothing left to
do; what that takes is told apart. Then, every ten minutes of seven days, something changes: replicas swing by a tenth,
follow the day by a quarter, or spot prices move by a tenth. Pods land as planned. Waiting pods are provisioned the same
way for everybody.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeAlias

from benchmarks.consolidation.cluster import Cluster
from benchmarks.consolidation.landing import Landing
from benchmarks.consolidation.proposer import Proposer
from benchmarks.consolidation.runs import At, run_go, run_ours
from benchmarks.consolidation.searcher import WithMemory
from benchmarks.consolidation.spotprices import SpotPrices
from benchmarks.consolidation.states import scale, third
from karpenter.consolidation.types import Settings

__all__ = ["TRACES", "Side", "Trace", "Week", "run_week"]

Trace: TypeAlias = Literal["swing", "day", "spot"]
Side: TypeAlias = Literal["none", "go", "balanced", "search", "propose"]
TRACES: tuple[Trace, ...] = ("swing", "day", "spot")

_STEP_S = 600.0
_STEPS_PER_DAY = 144
# More than anybody needs for tidying up.
_TIDYING_S = 1e9


@dataclass(frozen=True, slots=True)
class Week:
    """What a trace came to.

    Attributes:
        trace: What changed.
        side: Who kept the cluster cheap.
        start: Evictions for tidying up, before the first day.
        evictions: Evictions a day.
        launches: Nodes bought a day.
        dollars: Dollars a day.
        first_day: Evictions on the first day.
        last_day: Evictions on the last day.
        prices: Dollars per hour after each step.
        cpu_s: Seconds of CPU.
    """

    trace: str
    side: str
    start: int
    evictions: float
    launches: float
    dollars: float
    first_day: int
    last_day: int
    prices: tuple[float, ...]
    cpu_s: float


class _Keeper:
    """Keeps a cluster cheap by one algorithm, moment by moment."""

    def __init__(self, side: Side, cluster: Cluster, settings: Settings) -> None:
        self._side = side
        self._cluster = cluster
        self._landing = Landing(cluster, 1.0)
        self._ours: Proposer | WithMemory | None = None
        if side in ("search", "propose"):
            self._ours = WithMemory(cluster, settings) if side == "search" else Proposer(cluster, settings)

    def keep(self, targets: list[int], launched: int, now: float, most_s: float) -> int:
        """Do what is to be done within some seconds; return how many pods were evicted.

        Args:
            targets: How many replicas each workload is to have.
            launched: How many nodes were just bought for waiting pods.
            now: When it is.
            most_s: How long there is.
        """
        if self._ours is not None:
            self._ours.counted(targets, now)
            self._ours.bought_back(now, launched)
            return run_ours(self._cluster, self._landing, At(self._ours, now), most_s=most_s).evictions
        if self._side == "none":
            for node in [node for node in self._cluster.nodes.values() if not node.pods]:
                del self._cluster.nodes[node.number]
            return 0
        return run_go(
            self._cluster, self._landing, balanced=self._side == "balanced", most_s=most_s
        ).evictions


def run_week(
    trace: Trace,
    side: Side,
    *,
    nodes: int = 50,
    days: int = 7,
    seed: int = 1,
    settings: Settings | None = None,
) -> Week:
    """Run a trace under one algorithm."""
    cluster = third(nodes, seed)
    if trace == "spot":
        cluster = _all_spot(cluster)
    replicas = [0] * len(cluster.workloads)
    for pod in cluster.pods():
        replicas[pod.workload] += 1
    random = Random(seed)  # noqa: S311 - the same week for everybody
    spot = SpotPrices(cluster, random) if trace == "spot" else None
    change = _changes(trace, cluster, replicas, spot, random)
    keeper = _Keeper(side, cluster, settings or Settings(tries=60))
    started = time.process_time()
    if spot is not None:
        spot.step()
    start = keeper.keep(replicas, 0, -_STEP_S, _TIDYING_S)
    evictions = [0] * days
    prices: list[float] = []
    bought = cluster.launches
    for step in range(days * _STEPS_PER_DAY):
        targets, launched = change(step)
        evictions[step // _STEPS_PER_DAY] += keeper.keep(targets, launched, step * _STEP_S, _STEP_S)
        prices.append(cluster.price())
    return Week(
        trace=trace,
        side=side,
        start=start,
        evictions=sum(evictions) / days,
        launches=(cluster.launches - bought) / days,
        dollars=sum(prices) * _STEP_S / 3600.0 / days,
        first_day=evictions[0],
        last_day=evictions[-1],
        prices=tuple(prices),
        cpu_s=time.process_time() - started,
    )


def _all_spot(cluster: Cluster) -> Cluster:
    """Return a cluster of the same pods in which none insists on on-demand nodes."""
    free = Cluster([replace(workload, on_demand=False) for workload in cluster.workloads])
    counts = [0] * len(cluster.workloads)
    for pod in cluster.pods():
        counts[pod.workload] += 1
    free.provision([pod for index, number in enumerate(counts) for pod in free.new_pods(index, number)])
    return free


def _changes(
    trace: Trace, cluster: Cluster, replicas: list[int], spot: SpotPrices | None, random: Random
) -> Callable[[int], tuple[list[int], int]]:
    """Return what changes the cluster at a step; it gives the replicas asked for, and how many nodes were bought."""

    def change(step: int) -> tuple[list[int], int]:
        targets = list(replicas)
        if trace == "swing":
            targets = [max(1, round(most * random.uniform(0.9, 1.1))) if most else 0 for most in replicas]
        elif trace == "day":
            level = 1.0 + 0.25 * math.sin(2.0 * math.pi * step / _STEPS_PER_DAY)
            targets = [max(1, round(most * level)) if most else 0 for most in replicas]
        if spot is not None:
            spot.step()
            return targets, 0
        return targets, scale(cluster, targets, random)

    return change
