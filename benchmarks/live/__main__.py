# SPDX-License-Identifier: Apache-2.0
"""Measures the controller on a real control plane: `python -m benchmarks.live ROW ...`.

Tables or JSON go to standard output, progress to standard error, and what was measured to
benchmarks/results/live-ROW.json. Each row starts a control plane of its own. A missed promise is shown; the exit code
is 1 only if something could not be measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.console import positive, say
from benchmarks.live import consolidating, early, gopeer, holding, offloop, placement, reaction, storm
from benchmarks.live.gopeer import GoPeer, build_go_peer, build_hasty_go_peer
from benchmarks.live.planes import PLANES
from benchmarks.live.report import Outcome, write_results
from benchmarks.live.stage import Stage
from benchmarks.peers.problems import SHAPES
from benchmarks.peers.toolchain import PeerUnavailableError, Say
from karpenter.errors import KarpenterError

RESULTS: Final = Path(__file__).parents[1] / "results"
# Takes an hour and more, so only if it is named.
_TIDYING: Final = "consolidation"

Row = Callable[[Stage, argparse.Namespace], Awaitable[Outcome]]


async def _reaction(stage: Stage, options: argparse.Namespace) -> Outcome:
    peer, note = (None, "the Go side was left out") if options.skip_go else _go(build_go_peer)
    rounds = {count: options.rounds.get(count, reaction.ROUNDS.get(count, 1)) for count in options.pods}
    measured = await reaction.run(stage, peer, rounds)
    data = {
        "peer": f"sigs.k8s.io/karpenter {gopeer.version()}",
        "rows": [each.as_json() for each in measured],
    }
    return Outcome([reaction.table(measured)], data, [note] if note else [])


ROWS: Final[Mapping[str, tuple[Row | None, str]]] = {
    "reaction": (_reaction, "from an unschedulable pod to the launch call, beside Go"),
    "placement": (placement.run, "planned and realised price, with and without nominations"),
    "storm": (storm.run, "2,000 pending pods at once, and the API calls they cost"),
    "offloop": (None, "where to solve: what it does to the event loop (no control plane)"),
    "early": (early.run, "how long pods are pending, with early placement and without"),
    "holding": (holding.run, "5,000 pods on 500 nodes: memory, idle load, lag while solving"),
    _TIDYING: (None, "clusters to tidy up: price, evictions and time until quiet, beside Go (an hour)"),
}


def main(arguments: Sequence[str]) -> int:
    """Runs the rows that are named, or all, and gives the exit code."""
    options = _parse(arguments)
    failed = False
    documents: dict[str, Any] = {}
    for row in options.rows or [each for each in ROWS if each != _TIDYING]:
        try:
            outcome = asyncio.run(_measure(row, options))
        except KarpenterError as error:
            say(f"{row}: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
            failed = True
            continue
        documents[row] = outcome.data
        name = consolidating.result_name(options.plane) if row == _TIDYING else row
        file = write_results(options.results, name, outcome.data)
        if options.output == "table":
            print("\n\n".join(each.render() for each in outcome.tables))
            print("\n".join([*outcome.notes, ""]) if outcome.notes else "")
        say(f"{row}: written to {file}")
    if options.output == "json":
        print(json.dumps(documents, indent=2))
    return int(failed)


async def _measure(row: str, options: argparse.Namespace) -> Outcome:
    measure = ROWS[row][0]
    if measure is None and row != _TIDYING:
        return await offloop.run()
    kept = options.directory / row if options.directory else None
    directory = kept or Path(tempfile.mkdtemp(prefix=f"karpenter-live-{row}-"))
    started = time.monotonic()
    try:
        if measure is None:
            outcome = await _consolidation(directory, options)
        else:
            async with Stage(directory, say) as stage:
                outcome = await measure(stage, options)
        say(f"{row}: {time.monotonic() - started:.0f} s in all")
    except BaseException:
        say(f"{row}: logs are in {directory}")
        raise
    if kept is None:
        shutil.rmtree(directory, ignore_errors=True)
    return outcome


async def _consolidation(directory: Path, options: argparse.Namespace) -> Outcome:
    peers: dict[str, GoPeer] = {}
    notes: list[str] = []
    for side in options.sides:
        if not side.startswith("ours"):
            peer, note = _go(build_hasty_go_peer if consolidating.is_hasty(side) else build_go_peer)
            if peer is not None:
                peers[side] = peer
            elif note not in notes:
                notes.append(note)
    outcome = await consolidating.run(options, directory, say, peers)
    if not peers and not notes:
        notes.append("the Go side was left out")
    return Outcome(outcome.tables, outcome.data, notes)


def _go(build: Callable[[Mapping[str, str], Say], GoPeer]) -> tuple[GoPeer | None, str]:
    try:
        return build(os.environ, say), ""
    except PeerUnavailableError as error:
        text = f"the Go side was left out: {error.message} ({error.hint})"
        say(text)
        return None, text


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = "\n".join(f"  {name:<10} {about}" for name, (_, about) in ROWS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.live",
        description=f"{(__doc__ or '').splitlines()[0]}\n\nrows:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="which rows (default: all)")
    parser.add_argument("--skip-go", action="store_true", help="reaction: run only our side")
    parser.add_argument(
        "--pods",
        type=_counts,
        default=tuple(reaction.ROUNDS),
        metavar="N,...",
        help="reaction: pods in a round (default: 1,100,1000)",
    )
    parser.add_argument(
        "--rounds",
        type=_rounds,
        default={},
        metavar="PODS:ROUNDS,...",
        help="reaction: rounds for a number of pods (default: 1:20,100:5,1000:2)",
    )
    parser.add_argument(
        "--shapes",
        type=_shapes,
        default=placement.CASES,
        metavar="SHAPE:PODS,...",
        help="placement: what is placed (default: generic:1000,big:60)",
    )
    parser.add_argument(
        "--held",
        type=_held,
        default=holding.HELD,
        metavar="NODES:PODS:ARRIVING",
        help="holding: how large the cluster is, and how many pods arrive (default: 500:5000:1000)",
    )
    parser.add_argument(
        "--storm", type=positive, default=storm.COUNT, metavar="PODS", help="storm: how many (default: 2000)"
    )
    parser.add_argument(
        "--early-pods",
        type=positive,
        default=early.COUNT,
        metavar="PODS",
        help="early: how many (default: 100)",
    )
    _add_consolidation(parser)
    parser.add_argument("--directory", type=Path, metavar="DIR", help="keep all logs there")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the JSON goes")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    unknown = [each for each in options.rows if each not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]!r}, only {', '.join(ROWS)}")
    return options


def _add_consolidation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("consolidation")
    group.add_argument("--nodes", type=_counts, default=consolidating.NODES, metavar="N,...")
    group.add_argument(
        "--states", type=_names(consolidating.STATES), default=consolidating.STATES, metavar="STATE,..."
    )
    group.add_argument(
        "--sides",
        type=_names(consolidating.SIDES),
        default=consolidating.DEFAULT_SIDES,
        metavar="SIDE,...",
        help=f"of {', '.join(consolidating.SIDES)} (default: {', '.join(consolidating.DEFAULT_SIDES)})",
    )
    group.add_argument(
        "--plane",
        choices=PLANES,
        default=PLANES[0],
        help="Kubernetes' own programs, or the sandbox's (default: real)",
    )
    group.add_argument("--seed", type=positive, default=1)
    group.add_argument(
        "--together", action="store_true", help="all sides at the same time, each on its own control plane"
    )
    group.add_argument("--limit-minutes", type=positive, default=60, help="of each side (default: 60)")
    group.add_argument(
        "--quiet-seconds",
        type=positive,
        help="without a change (default: 120, beyond 100 nodes 300)",
    )
    group.add_argument("--boot-seconds", type=positive, default=20, help="of a new node (default: 20)")
    group.add_argument(
        "--ours",
        type=_settings,
        default={},
        metavar="VARIABLE=VALUE,...",
        help="settings of our controller, by their environment variables",
    )
    group.add_argument("--consolidate-after", default="0s", metavar="DURATION", help="default: 0s")
    group.add_argument("--budget", default="10%", metavar="NODES", help="a number or a share (default: 10%%)")


def _settings(text: str) -> dict[str, str]:
    pairs = [each.partition("=") for each in text.split(",")]
    return {name: value for name, _, value in pairs}


def _names(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        unknown = [each for each in text.split(",") if each not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}, only {', '.join(known)}")
        return tuple(text.split(","))

    return read


def _counts(text: str) -> tuple[int, ...]:
    return tuple(positive(each) for each in text.split(","))


def _rounds(text: str) -> dict[int, int]:
    pairs = (each.partition(":") for each in text.split(","))
    return {positive(count): positive(times) for count, _, times in pairs}


def _shapes(text: str) -> tuple[tuple[str, int], ...]:
    pairs = [each.partition(":") for each in text.split(",")]
    unknown = [shape for shape, _, _ in pairs if shape not in SHAPES]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no shape {unknown[0]!r}, only {', '.join(SHAPES)}")
    return tuple((shape, positive(count)) for shape, _, count in pairs)


def _held(text: str) -> tuple[int, int, int]:
    numbers = [positive(each) for each in text.split(":")]
    if len(numbers) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not NODES:PODS:ARRIVING")
    return numbers[0], numbers[1], numbers[2]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
