# SPDX-License-Identifier: Apache-2.0
"""What we owe on the problems of the benchmark, and which of it a run did not show.

A promise that compares with the Go side, or with the bound, says nothing where that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from benchmarks.peers.sides import Outcome

__all__ = ["PROMISES", "Promise"]


@dataclass(frozen=True, kw_only=True)
class Promise:
    """Limits for our side on one problem; what is left out is not promised.

    Attributes:
        least_speedup: how many times faster than the Go side.
        most_of_go_price: our price over the Go side's.
        most_of_bound: our price over the resource bound.
    """

    least_speedup: float | None = None
    most_seconds: float | None = None
    most_price_per_hour: float | None = None
    most_of_go_price: float | None = None
    most_of_bound: float | None = None
    most_nodes: int | None = None
    most_rss_mib: float | None = None

    def missed(self, ours: Outcome, go: Outcome | None, bound_per_hour: float | None) -> list[str]:
        """Return, as short texts, the limits that this run breaks."""
        price = ours.price_per_hour
        at_most = [
            ("s", ours.seconds, self.most_seconds),
            ("$/h", price, self.most_price_per_hour),
            ("nodes", ours.nodes, self.most_nodes),
            ("MiB", ours.max_rss_mib, self.most_rss_mib),
        ]
        if go is not None:
            at_most.append(("x Go's price", price / go.price_per_hour, self.most_of_go_price))
        if bound_per_hour:
            at_most.append(("x the bound", price / bound_per_hour, self.most_of_bound))
        texts = [
            f"<= {limit:g} {unit}" for unit, value, limit in at_most if limit is not None and value > limit
        ]
        if (
            go is not None
            and self.least_speedup is not None
            and go.seconds < self.least_speedup * ours.seconds
        ):
            texts.append(f">= {self.least_speedup:g}x faster")
        if ours.unschedulable_pods and (go is None or go.unschedulable_pods < ours.unschedulable_pods):
            texts.append("all pods placed")
        return texts


# By the name of the problem as it is given on the command line.
PROMISES: Final[Mapping[str, Promise]] = MappingProxyType(
    {
        "diverse:1000": Promise(least_speedup=200, most_of_go_price=0.7),
        "diverse:5000": Promise(least_speedup=300, most_of_go_price=0.7),
        "diverse:20000": Promise(least_speedup=500, most_of_go_price=0.7, most_seconds=2, most_rss_mib=150),
        "generic:1000": Promise(least_speedup=4, most_of_bound=1.02),
        "generic:200": Promise(least_speedup=4, most_of_bound=1.02),
        "shapes:500": Promise(least_speedup=4, most_of_bound=1.02),
        "big:60": Promise(least_speedup=1, most_price_per_hour=37.5),
        "generic:30": Promise(most_seconds=0.05, most_price_per_hour=0.66),
        "shapes:50": Promise(most_seconds=0.05, most_of_bound=1.05),
        "pools:600": Promise(least_speedup=3, most_price_per_hour=9, most_nodes=60),
        "inflate:5": Promise(most_seconds=0.02, most_price_per_hour=0.096),
        "inflate:12": Promise(most_seconds=0.02, most_price_per_hour=0.126),
    }
)
