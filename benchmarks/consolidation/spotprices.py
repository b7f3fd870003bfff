# SPDX-License-Identifier: Apache-2.0
"""Spot prices that go up and down by a tenth every ten minutes, and what the product knows of them.

The product knows what they were at six moments of the last day, four hours apart, also after a restart; so the prices
have moved for a day when a run begins.
"""

from __future__ import annotations

from collections import deque
from random import Random

from benchmarks.consolidation.cluster import Cluster

__all__ = ["SpotPrices"]

_SAMPLES = 6
_SAMPLED_EVERY = 24


class SpotPrices:
    """Moves the prices of a cluster."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._base = list(cluster.prices)
        self._is_spot = [each.capacity_type == "spot" for each in cluster.market.catalogue.offerings]
        self._samples = deque((self._drawn() for _ in range(_SAMPLES)), _SAMPLES)
        self._steps = 0

    def step(self) -> None:
        """Let ten minutes pass."""
        self._cluster.prices = self._drawn()
        if self._steps % _SAMPLED_EVERY == 0:
            self._samples.append(self._cluster.prices)
            self._cluster.usual_prices = [sum(each) / _SAMPLES for each in zip(*self._samples, strict=True)]
        self._steps += 1

    def _drawn(self) -> list[float]:
        return [
            price * self._random.uniform(0.9, 1.1) if moves else price
            for price, moves in zip(self._base, self._is_spot, strict=True)
        ]
