# SPDX-License-Identifier: Apache-2.0
"""How the search, and all of ``propose``, grow with the cluster: 500 to 5,000 nodes with ten pods each."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.consolidation.proposer import Proposer
from benchmarks.consolidation.searcher import world_of
from benchmarks.consolidation.states import scattered
from benchmarks.consolidation.views import Views
from karpenter.cli.solve import most_memory_mib
from karpenter.consolidation.search import search
from karpenter.consolidation.types import Settings

__all__ = ["SIZES", "Growth", "grow"]

SIZES = (500, 1_000, 2_000, 5_000)
PODS_PER_NODE = 11
THETA = 0.005


@dataclass(frozen=True, slots=True)
class Growth:
    """What one size took: CPU seconds of the search alone and of all of propose, and the memory of the process."""

    nodes: int
    pods: int
    search_s: float
    propose_s: float
    peak_mib: float
    saved: float
    evictions: int


def grow(nodes: int) -> Growth:
    """Measure one size; the memory is the largest of the process so far, so sizes should come in order."""
    cluster = scattered(nodes, PODS_PER_NODE, seed=1)
    settings = Settings()
    world = world_of(cluster, Views(cluster), THETA, settings.tries)
    started = time.process_time()
    found = search(world)
    searched = time.process_time() - started
    proposer = Proposer(cluster, settings)
    started = time.process_time()
    proposer.plan(cluster, 0.0)
    proposed = time.process_time() - started
    return Growth(
        nodes=nodes,
        pods=len(cluster.pods()),
        search_s=searched,
        propose_s=proposed,
        peak_mib=most_memory_mib(),
        saved=found.saving_per_hour / cluster.price(),
        evictions=len(found.moves),
    )
