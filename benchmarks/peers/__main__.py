# SPDX-License-Identifier: Apache-2.0
"""Measures our scheduler and the public Go Karpenter on the same problems: `python -m benchmarks.peers`.

The table or JSON goes to standard output, progress to standard error, and all that was measured to
benchmarks/results/peers.json. Without Go, or without `karpenter solve`, the other side still runs. The exit
code is 1 if a side that was there failed on a problem; a missed promise is shown, not punished.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.console import positive, say
from benchmarks.peers.bound import Bound, resource_bound
from benchmarks.peers.problems import SHAPES, render_problem
from benchmarks.peers.report import Row, render_table
from benchmarks.peers.sides import (
    Ledger,
    Outcome,
    SideFailedError,
    find_ours,
    go_command,
    our_command,
    run_json,
)
from benchmarks.peers.toolchain import PeerUnavailableError, build_peer, karpenter_version
from karpenter.errors import KarpenterError

CATALOGUE: Final = Path(__file__).with_name("catalogue.json")
RESULTS: Final = Path(__file__).parents[1] / "results" / "peers.json"
DEFAULT_PROBLEMS: Final = (
    "inflate:5,inflate:12,generic:30,generic:200,generic:1000,"
    "shapes:50,shapes:500,big:60,pools:600,diverse:1000"
)
# The Go side alone took 4.5 and 19 minutes for these two on a busy machine with two cores.
FULL_PROBLEMS: Final = f"{DEFAULT_PROBLEMS},diverse:5000,diverse:20000"

# The command line of a side for a problem file.
Command = Callable[[Path], list[str]]


@dataclass(frozen=True)
class Problem:
    """A problem by its name: SHAPE:COUNT or SHAPE:COUNT:SEED."""

    name: str
    shape: str
    count: int
    seed: int

    @classmethod
    def parse(cls, text: str) -> Problem:
        """Read a name as it stands on the command line."""
        shape, *numbers = text.strip().split(":")
        if shape not in SHAPES:
            raise argparse.ArgumentTypeError(
                f"{text!r}: there is no shape {shape!r}, only {', '.join(SHAPES)}"
            )
        if not 1 <= len(numbers) <= 2 or not all(number.isdecimal() for number in numbers):
            raise argparse.ArgumentTypeError(f"{text!r} is not SHAPE:COUNT or SHAPE:COUNT:SEED")
        count, seed = int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else 1
        return cls(f"{shape}:{count}" if seed == 1 else f"{shape}:{count}:{seed}", shape, count, seed)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and return the exit code."""
    options = _parse(arguments)
    problems: list[Problem] = options.problems or _problems(
        FULL_PROBLEMS if options.full else DEFAULT_PROBLEMS
    )
    notes: list[str] = []
    go = None if options.skip_go else _go_side(options.go_rounds or options.rounds, notes)
    ours = _our_side(options.ours, options.rounds, notes)
    if go is None and ours is None:
        say("error: neither side can run")
        return 1
    catalogue = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="karpenter-peers-") as directory:
        for problem in problems:
            file = Path(directory) / f"{problem.name.replace(':', '-')}.json"
            file.write_text(render_problem(problem.shape, problem.count, problem.seed), encoding="utf-8")
            rows.append(_run_problem(problem, file, catalogue, {"Go": go, "ours": ours}, options.timeout))
    result = {
        "peer": f"sigs.k8s.io/karpenter {karpenter_version()}",
        "machine": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "rounds": options.rounds,
        "goRounds": options.go_rounds or options.rounds,
        "notes": notes,
        "rows": [row.as_json() for row in rows],
    }
    text = json.dumps(result, indent=2)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.write_text(f"{text}\n", encoding="utf-8")
    print(text if options.output == "json" else "\n".join([render_table(rows), *notes]))
    failed = any((go and not row.go) or (ours and not row.ours) for row in rows)
    return int(failed)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--problems",
        type=_problems,
        metavar="SHAPE:COUNT[:SEED],...",
        help=f"what to solve; shapes: {', '.join(SHAPES)} (default: {DEFAULT_PROBLEMS})",
    )
    parser.add_argument(
        "--full", action="store_true", help="also diverse:5000 and diverse:20000 (half an hour)"
    )
    parser.add_argument(
        "--rounds", type=positive, default=3, metavar="N", help="best of N rounds (default: 3)"
    )
    parser.add_argument(
        "--go-rounds",
        type=positive,
        metavar="N",
        help="rounds of the Go side, which takes minutes on the large problems (default: as --rounds)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=3600.0,
        metavar="SECONDS",
        help="for one side on one problem (default: 3600)",
    )
    parser.add_argument("--skip-go", action="store_true", help="run only our side")
    parser.add_argument("--ours", type=shlex.split, metavar="COMMAND", help="what to run as `karpenter`")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FILE", help="where to write the JSON"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser.parse_args(arguments)


def _problems(text: str) -> list[Problem]:
    return [Problem.parse(each) for each in text.split(",")]


def _go_side(rounds: int, notes: list[str]) -> Command | None:
    try:
        program = build_peer(os.environ, say)
    except PeerUnavailableError as error:
        _note(error, "only our side was run", notes)
        return None
    return lambda file: go_command(program, CATALOGUE, file, rounds)


def _our_side(named: list[str] | None, rounds: int, notes: list[str]) -> Command | None:
    try:
        command = named or find_ours()
    except SideFailedError as error:
        _note(error, "only the Go side was run", notes)
        return None
    return lambda file: our_command(command, CATALOGUE, file, rounds)


def _run_problem(
    problem: Problem,
    file: Path,
    catalogue: dict[str, Any],
    sides: dict[str, Command | None],
    timeout_s: float,
) -> Row:
    data = json.loads(file.read_text(encoding="utf-8"))
    ledger = Ledger(data, catalogue)
    bound = resource_bound(data, catalogue)
    outcomes: dict[str, Outcome] = {}
    notes: list[str] = []
    for side, command in sides.items():
        if command is None:
            continue
        try:
            outcome = ledger.audit(*run_json(command(file), timeout_s))
            _check_against(bound, outcome)
        except SideFailedError as error:
            notes.append(f"{side}: {_described(error)}")
            say(f"{problem.name}: {notes[-1]}")
            continue
        outcomes[side] = outcome
        price, nodes = outcome.price_per_hour, outcome.nodes
        say(f"{problem.name}: {side} {outcome.seconds:.3f} s, {price:.3f} $/h, {nodes} nodes")
        if outcome.unschedulable_pods:
            notes.append(f"{side}: {outcome.unschedulable_pods} of {ledger.pending_pods} pods have no place")
    return Row(
        problem.name,
        ledger.pending_pods,
        outcomes.get("Go"),
        outcomes.get("ours"),
        bound.price_per_hour,
        notes,
    )


def _check_against(bound: Bound, outcome: Outcome) -> None:
    """Refuse a plan that claims to hold all pods for less than they can cost."""
    holds_all = outcome.unschedulable_pods <= bound.unplaceable_pods
    if holds_all and outcome.price_per_hour < bound.price_per_hour * (1 - 1e-9):
        raise SideFailedError(
            f"the plan costs {outcome.price_per_hour:g} $/h, less than the bound of {bound.price_per_hour:g} $/h: "
            "it overfills a node or breaks a rule"
        )


def _note(error: KarpenterError, consequence: str, notes: list[str]) -> None:
    notes.append(f"{consequence}: {_described(error)}")
    say(notes[-1])


def _described(error: KarpenterError) -> str:
    return f"{error.message} (hint: {error.hint})" if error.hint else error.message


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
