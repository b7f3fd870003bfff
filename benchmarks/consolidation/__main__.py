# SPDX-License-Identifier: Apache-2.0
"""Prints the tables of consolidation in faked time: `python -m benchmarks.consolidation [TABLE ...]`.

======  =========================================================================================================
states  *third* and *diurnal* clusters until quiet: ours beside a model of Karpenter, pods landing as planned,
        as a model of kube-scheduler likes, and nominated with some success
week    seven days of swinging replicas, day curves and spot prices: evictions and dollars a day
churn   clusters in which others go round in circles
scale   CPU and memory of the search and of all of propose from 500 to 5,000 nodes
======  =========================================================================================================
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.consolidation.churn import SCENARIOS, churn
from benchmarks.consolidation.cluster import Cluster
from benchmarks.consolidation.landing import Landing
from benchmarks.consolidation.proposer import Proposer
from benchmarks.consolidation.runs import Outcome, run_go, run_ours
from benchmarks.consolidation.scale import SIZES, grow
from benchmarks.consolidation.searcher import Searcher, WithMemory
from benchmarks.consolidation.states import diurnal, third
from benchmarks.consolidation.traces import TRACES, Side, run_week
from karpenter.consolidation.types import Settings

STATES: dict[str, Callable[[int, int], Cluster]] = {"third": third, "diurnal": diurnal}
_MOST_ROUNDS = 300


def main(arguments: Sequence[str]) -> int:
    """Print the tables asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consolidation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help="states, week, churn, scale (default: all)"
    )
    parser.add_argument("--nodes", type=int, nargs="*", default=[50, 200, 1000], help="sizes of the states")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tries", type=int, default=400, help="tries of the search")
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument(
        "--propose", action="store_true", help="run all of propose in states and week too: slow"
    )
    options = parser.parse_args(arguments)
    tables = {"states": _states, "week": _week, "churn": _churn, "scale": _scale}
    unknown = [name for name in options.tables if name not in tables]
    if unknown:
        parser.error(f"no table is called {unknown[0]}; there are {', '.join(tables)}")
    for name in options.tables or tables:
        tables[name](options)
    return 0


def _print(*cells: object) -> None:
    widths = (30, 22, 11, 9, 7, 8, 8, 9, 8, 6)
    print(
        "  ".join(str(cell).ljust(width) for cell, width in zip(cells, widths, strict=False)).rstrip(),
        flush=True,
    )


def _states(options: argparse.Namespace) -> None:
    _print(
        "STATE",
        "ALGORITHM",
        "PRICE/BOUND",
        "EVICTIONS",
        "EV/$",
        "ACTIONS",
        "ROUNDS",
        "MODEL MIN",
        "CPU S",
        "QUIET",
    )
    for nodes in options.nodes:
        for name, make in STATES.items():
            for follow, landing in ((1.0, "planned"), (0.0, "scheduler"), (0.8, "nominated 80 %")):
                _state(f"{name} {nodes}, {landing}", partial(make, nodes, options.seed), follow, options)


def _state(title: str, make: Callable[[], Cluster], follow: float, options: argparse.Namespace) -> None:
    cluster = make()
    bound, start = cluster.lower_bound(), cluster.price()
    _print(
        f"{title}",
        f"start: {len(cluster.nodes)} nodes",
        f"{start / bound:.3f}",
        f"{len(cluster.pods())} pods",
    )

    def row(name: str, outcome: Outcome) -> None:
        per_dollar = outcome.evictions / max(1e-9, start - outcome.price)
        cells = (f"{outcome.price / bound:.3f}", outcome.evictions, f"{per_dollar:.1f}", outcome.actions)
        _print(
            "", name, *cells, outcome.rounds, f"{outcome.minutes:.0f}", f"{outcome.cpu_s:.1f}", outcome.quiet
        )

    for theta in (0.003, 0.01):
        cluster = make()
        planner = Searcher(cluster, theta, options.tries)
        row(
            f"search, theta {theta}",
            run_ours(cluster, Landing(cluster, follow), planner, most_rounds=_MOST_ROUNDS),
        )
    cluster = make()
    learning = WithMemory(cluster, Settings(tries=options.tries))
    row("search with memory", run_ours(cluster, Landing(cluster, follow), learning, most_rounds=_MOST_ROUNDS))
    if options.propose:
        cluster = make()
        whole = Proposer(cluster, Settings(tries=options.tries))
        row("propose", run_ours(cluster, Landing(cluster, follow), whole, most_rounds=_MOST_ROUNDS))
    for balanced in (False, True):
        cluster = make()
        row("Go Balanced" if balanced else "Go", run_go(cluster, Landing(cluster, follow), balanced=balanced))


def _week(options: argparse.Namespace) -> None:
    _print("TRACE", "ALGORITHM", "START EV", "EV/DAY", "LAUNCHES", "$/DAY", "DAY 1", "LAST", "CPU S")
    for trace in TRACES:
        sides: list[Side] = ["none", "go", "balanced", "search"]
        for side in [*sides, "propose"] if options.propose else sides:
            week = run_week(trace, side, days=options.days, seed=options.seed)
            cells = (
                week.start,
                f"{week.evictions:.0f}",
                f"{week.launches:.0f}",
                f"{week.dollars:.1f}",
            )
            _print(trace, side, *cells, week.first_day, week.last_day, f"{week.cpu_s:.0f}")


def _churn(options: argparse.Namespace) -> None:
    _print("SCENARIO", "ALGORITHM", "LOOPS", "EV BY DAY")
    for scenario in SCENARIOS:
        found = churn(scenario, lambda cluster: WithMemory(cluster, Settings(tries=60)), days=options.days)
        _print(scenario, "search with memory", found.loops, " ".join(map(str, found.evictions)))


def _scale(options: argparse.Namespace) -> None:
    del options
    _print("NODES", "PODS", "SEARCH S", "PROPOSE S", "MIB", "SAVED", "MOVES")
    for nodes in SIZES:
        found = grow(nodes)
        cells = (f"{found.search_s:.1f}", f"{found.propose_s:.1f}", f"{found.peak_mib:.0f}")
        _print(found.nodes, found.pods, *cells, f"{found.saved:.0%}", found.evictions)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
