# SPDX-License-Identifier: Apache-2.0
"""Seven days in faked time: what keeping a living cluster cheap costs in evictions.

Every ten minutes something changes: replicas swing by a tenth, follow the day by a quarter, or spot prices move by a
tenth. Pods land as planned. Waiting pods are provisioned the same way for everybody.
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


@dataclass(frozen=True, slots=True)
class Week:
    """What a trace came to, each a day: evictions, launches, dollars; and evictions on the first day, CPU seconds."""

    trace: str
    side: str
    evictions: float
    launches: float
    dollars: float
    first_day: int
    last_day: int
    cpu_s: float


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
    cluster = _start(trace, nodes, seed)
    replicas = [0] * len(cluster.workloads)
    for pod in cluster.pods():
        replicas[pod.workload] += 1
    random = Random(seed)  # noqa: S311 - the same week for everybody
    change = _changes(trace, cluster, replicas, random)
    landing = Landing(cluster, 1.0)
    chosen = settings or Settings(tries=60)
    ours: Proposer | WithMemory | None = None
    if side in ("search", "propose"):
        ours = WithMemory(cluster, chosen) if side == "search" else Proposer(cluster, chosen)
    evictions = [0] * days
    dollars = 0.0
    started = time.process_time()
    bought = cluster.launches
    for step in range(days * _STEPS_PER_DAY):
        now = step * _STEP_S
        targets, launched = change(step)
        if ours is not None:
            ours.counted(targets, now)
            ours.bought_back(now, launched)
            moved = run_ours(cluster, landing, At(ours, now), most_s=_STEP_S).evictions
        elif side == "none":
            for node in [node for node in cluster.nodes.values() if not node.pods]:
                del cluster.nodes[node.number]
            moved = 0
        else:
            moved = run_go(cluster, landing, balanced=side == "balanced", most_s=_STEP_S).evictions
        evictions[step // _STEPS_PER_DAY] += moved
        dollars += cluster.price() * _STEP_S / 3600.0
    return Week(
        trace=trace,
        side=side,
        evictions=sum(evictions) / days,
        launches=(cluster.launches - bought) / days,
        dollars=dollars / days,
        first_day=evictions[0],
        last_day=evictions[-1],
        cpu_s=time.process_time() - started,
    )


def _start(trace: Trace, nodes: int, seed: int) -> Cluster:
    """Return a small cluster that the model of Karpenter has tidied up, so that nobody starts ahead."""
    cluster = third(nodes, seed)
    if trace == "spot":
        cluster = _all_spot(cluster)
    run_go(cluster, Landing(cluster, 1.0))
    return cluster


def _all_spot(cluster: Cluster) -> Cluster:
    """Return a cluster of the same pods in which none insists on on-demand nodes."""
    free = Cluster([replace(workload, on_demand=False) for workload in cluster.workloads])
    counts = [0] * len(cluster.workloads)
    for pod in cluster.pods():
        counts[pod.workload] += 1
    free.provision([pod for index, number in enumerate(counts) for pod in free.new_pods(index, number)])
    return free


def _changes(
    trace: Trace, cluster: Cluster, replicas: list[int], random: Random
) -> Callable[[int], tuple[list[int], int]]:
    """Return what changes the cluster at a step; it gives the replicas asked for, and how many nodes were bought."""
    spot = SpotPrices(cluster, random) if trace == "spot" else None

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
