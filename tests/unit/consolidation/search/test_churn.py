# SPDX-License-Identifier: Apache-2.0
"""Clusters in which others go round in circles, for four days in faked time; the benchmark runs them for a week."""

from __future__ import annotations

import pytest
from benchmarks.consolidation.churn import churn
from benchmarks.consolidation.cluster import Cluster
from benchmarks.consolidation.searcher import WithMemory

from karpenter.consolidation.types import Settings


def planner(cluster: Cluster) -> WithMemory:
    return WithMemory(cluster, Settings(tries=20))


@pytest.mark.parametrize("scenario", ["same-for-same", "full", "two-pools"])
def test_a_cluster_in_which_nothing_changes_is_soon_left_alone(scenario: str) -> None:
    found = churn(scenario, planner, days=4)

    assert found.loops == 0
    # Quiet hours lengthen the horizon for a day, so what was not worth its moves at first may be on the next.
    assert found.evictions[2:] == (0, 0)
