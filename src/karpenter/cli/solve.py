# SPDX-License-Identifier: Apache-2.0
"""``karpenter solve``: the decision core on a problem file, with the time it took.

Building classes and counting places is part of the time; reading the files is not.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click

from karpenter.cli import output
from karpenter.cli.main import REFUSED, InputError
from karpenter.errors import KarpenterError
from karpenter.kit.durations import parse_duration
from karpenter.model.catalogue import Catalogue
from karpenter.scheduling import NewNode, Plan, SolveOptions, solve
from karpenter.scheduling.explanation import as_data, tree
from karpenter.scheduling.plan import pod_name
from karpenter.scheduling.problems import Problem, ProblemError, catalogue_name, read_catalogue, read_problem

__all__ = ["as_table", "command", "most_memory_mib"]

_UNTRIED = "the deadline came before it was tried; it comes first next time"

_EXAMPLES = """\b
Examples:
  # Which nodes would these pods get?
  karpenter solve problem.json
\b
  # Against another catalogue, the best of five rounds, for a program.
  karpenter solve problem.json --catalogue catalogue.json --rounds 5 -o json

Exit codes: 0 every pod has a place, 1 some have none, 2 the input cannot be read."""


@click.command("solve", epilog=_EXAMPLES)
@click.argument("problem", metavar="PROBLEM.json")
@click.option(
    "--catalogue", metavar="FILE", help="Instance types; the file that the problem names if left out."
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Solve so often; the best time counts.",
)
@click.option(
    "--deadline", default="1m", show_default=True, metavar="DURATION", help="Stop improving after this time."
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of the output.",
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    problem: str,
    catalogue: str | None,
    rounds: int,
    deadline: str,
    form: Literal["table", "json"],
) -> None:
    """Decide which nodes the pending pods of a problem file get, and at what price.

    A problem is JSON: {"catalogue": FILE, "objects": [...]} with NodePools, DaemonSets, pending Pods and, if there
    is a cluster already, Nodes, bound Pods, volumes, Namespaces and NodeClaims.
    """
    limit_s = _deadline_s(deadline)
    with output.patiently(f"reading {problem} ..."):
        question = _read(problem, catalogue)
    with output.patiently("solving ..."):
        plan, seconds = _best_of(rounds, question, limit_s)
    output.write_data(_as_json(plan, seconds) if form == "json" else as_table(plan, seconds))
    if plan.rejections or plan.unfinished:
        ctx.exit(REFUSED)


def _deadline_s(text: str) -> float:
    try:
        return parse_duration(text).seconds
    except KarpenterError as error:
        raise InputError(f"--deadline: {error.message}", hint=error.hint) from error


def _read(problem: str, catalogue: str | None) -> Problem:
    data = _bytes(problem)
    try:
        name = catalogue or catalogue_name(data, problem)
        if not name:
            raise InputError(f"{problem}: catalogue: is not given", hint="name one with --catalogue FILE")
        path = name if catalogue else str(Path(problem).parent / name)
        types: Catalogue = read_catalogue(_bytes(path), path)
        return read_problem(data, types, problem)
    except ProblemError as error:
        raise InputError(error.message, hint=error.hint) from error


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}", hint="check the name") from error


def _best_of(rounds: int, question: Problem, limit_s: float) -> tuple[Plan, float]:
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        plan = solve(question.snapshot, question.pods, SolveOptions(expired=_after(started + limit_s)))
        best = min(best, time.perf_counter() - started)
    return plan, best


def _after(moment: float) -> Callable[[], bool]:
    return lambda: time.perf_counter() > moment


def _as_json(plan: Plan, seconds: float) -> str:
    answer: dict[str, Any] = {
        "newNodes": [_node_as_json(node) for node in plan.new_nodes],
        "existing": {name: [pod_name(pod) for pod in pods] for name, pods in plan.existing.items()},
        "unschedulable": [
            {
                "pod": pod_name(pod),
                "message": rejection.message,
                **{key: as_data(rejection.explanation)[key] for key in ("reasons", "nearest", "fixes")},
            }
            for rejection in plan.rejections
            for pod in rejection.pods
        ]
        + [
            {"pod": pod_name(pod), "message": _UNTRIED, "reasons": [], "nearest": None, "fixes": []}
            for pod in plan.unfinished
        ],
        "pricePerHour": plan.price_per_hour,
        "lowerBoundPerHour": plan.lower_bound_per_hour,
        "solveSeconds": seconds,
        "maxRssMiB": most_memory_mib(),
    }
    return json.dumps(answer, indent=2) + "\n"


def most_memory_mib() -> int:
    """Give the most memory that this program held.

    Linux hands the peak in getrusage on through exec, so a large program that starts this one would be measured too.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) // 1024
    except (OSError, StopIteration):  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _node_as_json(node: NewNode) -> dict[str, Any]:
    return {
        "nodePool": node.pool,
        "instanceType": node.instance_type,
        "capacityType": node.capacity_type,
        "zone": node.zone,
        "pricePerHour": node.price_per_hour,
        "pods": [pod_name(pod) for pod in node.pods],
        "alternatives": [
            {
                "instanceType": each.instance_type,
                "zone": each.zone,
                "capacityType": each.capacity_type,
                "pricePerHour": each.price_per_hour,
            }
            for each in node.alternatives
        ],
    }


def as_table(plan: Plan, seconds: float) -> str:
    """Return the plan for people: what to buy, and why some got no place."""
    placed = sum(len(node.pods) for node in plan.new_nodes)
    standing = sum(map(len, plan.existing.values()))
    refused = sum(len(rejection.pods) for rejection in plan.rejections)
    untried = f", {len(plan.unfinished)} not tried in time" if plan.unfinished else ""
    summary = (
        f"{placed + standing + refused + len(plan.unfinished)} pods: {standing} on {len(plan.existing)} "
        f"standing nodes, {placed} on {len(plan.new_nodes)} new nodes, {refused} without a place{untried}; "
        f"${plan.price_per_hour:.3f}/h (bound ${plan.lower_bound_per_hour:.3f}/h)   {seconds * 1e3:.0f} ms"
    )
    lines = [summary]
    if plan.new_nodes:
        lines += ["", *_columns(plan)]
    for rejection in plan.rejections:
        others = f" and {len(rejection.pods) - 1} more" if len(rejection.pods) > 1 else ""
        lines += ["", tree(rejection.explanation, f"{pod_name(rejection.pods[0])}{others}").rstrip()]
    return "\n".join(lines) + "\n"


def _columns(plan: Plan) -> list[str]:
    rows = [("NODEPOOL", "TYPE", "CAPACITY", "ZONE", "$/H", "CPU", "MEMORY", "PODS", "ALTERNATIVES")]
    for node in plan.new_nodes:
        chosen = node.catalogue.types[[kind.name for kind in node.catalogue.types].index(node.instance_type)]
        rows.append(
            (
                node.pool,
                node.instance_type,
                node.capacity_type,
                node.zone,
                f"{node.price_per_hour:.3f}",
                _share(node.requests.get("cpu", 0), chosen.allocatable.get("cpu", 0)),
                _share(node.requests.get("memory", 0), chosen.allocatable.get("memory", 0)),
                str(len(node.pods)),
                _alternatives(node),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _share(used: int, whole: int) -> str:
    return f"{100 * used // whole} %" if whole else "-"


def _alternatives(node: NewNode) -> str:
    """Return the next cheapest types, with how much dearer they are."""
    dearer: dict[str, float] = {}
    for each in node.alternatives:
        if each.instance_type != node.instance_type:
            dearer.setdefault(each.instance_type, each.price_per_hour / node.price_per_hour - 1)
    shown = [f"{name} +{share:.0%}" for name, share in list(dearer.items())[:3]]
    return ", ".join(shown) + (f", {len(dearer) - 3} more" if len(dearer) > 3 else "")
