# SPDX-License-Identifier: Apache-2.0
"""Clusters in which others go round in circles, over days in faked time: nothing may loop, evictions are counted.

=============  =================================================================================================
same-for-same  nodes that are full of what they were bought for: the same type must not be swapped for itself
full           nodes that are nearly full at a fair price: nothing there is worth a move
prices         spot prices that go up and down by a tenth: nobody moves back and forth
two-pools      pods that either of two kinds of nodes would hold at about the same price
=============  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.consolidation.cluster import MIB, Cluster, Workload
from benchmarks.consolidation.landing import Landing
from benchmarks.consolidation.runs import At, Planner, run_ours
from benchmarks.consolidation.spotprices import SpotPrices

__all__ = ["SCENARIOS", "Churn", "churn"]

_STEP_S = 600.0
_STEPS_PER_DAY = 144
# More moves of one pod than this in a day is going round.
_LOOP = 3


@dataclass(frozen=True, slots=True)
class Churn:
    """Evictions a day, and the pods that were moved more than three times in a day: loops."""

    scenario: str
    evictions: tuple[int, ...]
    loops: int


def _same_for_same() -> Cluster:
    """Return nodes that are the cheapest for what is on each."""
    cluster = Cluster([Workload("web", (1500, 2048 * MIB, 1), amd64=True, on_demand=True)])
    for _ in range(12):
        cluster.provision(cluster.new_pods(0, 5))
    return cluster


def _full() -> Cluster:
    """Return nodes provisioned at once and full."""
    cluster = Cluster(
        [
            Workload(f"app-{i}", (250 * (1 + i % 5), 512 * MIB * (1 + i % 7), 1), on_demand=True)
            for i in range(12)
        ]
    )
    cluster.provision([pod for i in range(12) for pod in cluster.new_pods(i, 20)])
    return cluster


def _spot() -> Cluster:
    """Return nodes bought on spot."""
    cluster = Cluster([Workload(f"job-{i}", (500 * (1 + i % 3), 1024 * MIB, 1)) for i in range(6)])
    cluster.provision([pod for i in range(6) for pod in cluster.new_pods(i, 15)])
    return cluster


def _two_kinds() -> Cluster:
    """Return pods of which half may use arm64 too, at about the same price."""
    cluster = Cluster(
        [Workload(f"api-{i}", (1000, 2048 * MIB, 1), amd64=bool(i % 2), on_demand=True) for i in range(6)]
    )
    for i in range(6):
        cluster.provision(cluster.new_pods(i, 10))
    return cluster


SCENARIOS: dict[str, Callable[[], Cluster]] = {
    "same-for-same": _same_for_same,
    "full": _full,
    "prices": _spot,
    "two-pools": _two_kinds,
}


def churn(scenario: str, planner_for: Callable[[Cluster], Planner], *, days: int = 7, seed: int = 1) -> Churn:
    """Run a scenario; pods land as planned, and spot prices move by a tenth in the one about prices."""
    cluster = SCENARIOS[scenario]()
    planner = planner_for(cluster)
    landing = Landing(cluster, 1.0)
    prices = SpotPrices(cluster, Random(seed))  # noqa: S311 - the same prices for everybody
    evictions: list[int] = []
    loops = 0
    for day in range(days):
        moves: dict[int, int] = {}
        evictions.append(0)
        for step in range(_STEPS_PER_DAY):
            if scenario == "prices":
                prices.step()
            elif step > 2:
                # Nothing changes, so nothing may happen: asking a few times a day is enough.
                break
            homes = {pod.uid: node.number for node in cluster.nodes.values() for pod in node.pods.values()}
            now = (day * _STEPS_PER_DAY + step) * _STEP_S
            done = run_ours(cluster, landing, At(planner, now), most_s=_STEP_S)
            evictions[-1] += done.evictions
            for node in cluster.nodes.values():
                for pod in node.pods.values():
                    if homes[pod.uid] != node.number:
                        moves[pod.uid] = moves.get(pod.uid, 0) + 1
        loops += sum(number > _LOOP for number in moves.values())
    return Churn(scenario, tuple(evictions), loops)
