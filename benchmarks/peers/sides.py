# SPDX-License-Identifier: Apache-2.0
"""Runs one side on one problem as a process of its own, and checks what it reports against the files.

Both sides print the same JSON (`karpenter solve -o json`). Time and memory are taken as reported; the price
is not: each node is looked up in the catalogue, and every pending pod must be accounted for exactly once.
A side that fails, hangs, or does not add up gives an error with its last words; the next problem goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.offers import is_pending
from karpenter.errors import KarpenterError

__all__ = ["Ledger", "Outcome", "SideFailedError", "find_ours", "go_command", "our_command", "run_json"]

_LAST_WORDS: Final = 400
# `karpenter solve` ends with 1 when it has a plan that leaves pods without a place.
_PLAN_CODES: Final = (0, 1)
# Reports may be rounded; a tenth of a percent is no rounding.
_PRICE_SLACK: Final = 1e-3


class SideFailedError(KarpenterError):
    """A side that gave no plan, or a plan that does not add up."""


@dataclass(frozen=True)
class Outcome:
    """What one side made of one problem.

    Attributes:
        seconds: the best round, as reported.
        wall_s: the whole process: start, reading, all rounds, writing.
        lower_bound_per_hour: what the side itself claims that no plan can beat.
    """

    seconds: float
    wall_s: float
    price_per_hour: float
    nodes: int
    placed_pods: int
    unschedulable_pods: int
    max_rss_mib: float
    lower_bound_per_hour: float | None


def find_ours() -> list[str]:
    """Return the command of our side: the `karpenter` that belongs to this Python, or else one on the PATH.

    Raises:
        SideFailedError: there is none.
    """
    beside = Path(sys.executable).with_name("karpenter")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("karpenter")
    if found is None:
        raise SideFailedError(
            f"there is no `karpenter` beside {sys.executable} or on the PATH",
            hint="install the project (make test does), or name a command with --ours",
        )
    return [found]


def go_command(program: Path, catalogue: Path, problem: Path, rounds: int) -> list[str]:
    """Return the command line of the Go side."""
    return [str(program), "-rounds", str(rounds), str(catalogue), str(problem)]


def our_command(command: Sequence[str], catalogue: Path, problem: Path, rounds: int) -> list[str]:
    """Return the command line of our side."""
    settings = ["--catalogue", str(catalogue), "--rounds", str(rounds), "-o", "json"]
    return [*command, "solve", str(problem), *settings]


def run_json(command: Sequence[str], timeout_s: float) -> tuple[dict[str, Any], float]:
    """Run a command and return the JSON object that it prints and the seconds that it took.

    Raises:
        SideFailedError: it cannot be started, fails, prints something else, or is not done in time.
    """
    name = Path(command[0]).name
    started = time.monotonic()
    try:
        # The commands are ours or were named by whoever runs the benchmark.
        process = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise SideFailedError(f"cannot start {command[0]}: {error.strerror}") from error
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise SideFailedError(
            f"{name} was not done within {timeout_s:g} s", hint="give it more with --timeout"
        ) from error
    finally:
        if process.returncode is None:
            _end_group(process)
    wall_s = time.monotonic() - started
    plan = _read_object(output)
    if plan is not None and process.returncode in _PLAN_CODES:
        return plan, wall_s
    if process.returncode == 0:
        raise SideFailedError(f"{name} printed something else than a JSON object")
    last_words = " ".join(errors.decode(errors="replace").split())[-_LAST_WORDS:]
    raise SideFailedError(f"{name} failed with code {process.returncode}: {last_words or 'it said nothing'}")


def _read_object(output: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(output)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, and what it started: a leftover worker would disturb the next run."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


class Ledger:
    """What the files say about a problem, to check plans against."""

    def __init__(self, problem: Mapping[str, Any], catalogue: Mapping[str, Any]) -> None:
        self._prices = {
            (instance_type["name"], zone, capacity_type): float(price)
            for instance_type in catalogue["instanceTypes"]
            for zone, capacity_type, price in instance_type["offerings"]
        }
        self.pending_pods = sum(is_pending(each) for each in problem["objects"] if each["kind"] == "Pod")

    def audit(self, plan: Mapping[str, Any], wall_s: float) -> Outcome:
        """Return what a plan amounts to, at the prices of the catalogue.

        Raises:
            SideFailedError: a key is missing, an offer does not exist, a pod is lost or placed twice.
        """
        try:
            nodes = plan["newNodes"]
            price = sum(self._price(node) for node in nodes)
            existing = [pod for pods in (plan.get("existing") or {}).values() for pod in pods]
            placed = [pod for node in nodes for pod in node["pods"]] + existing
            unschedulable = [each["pod"] for each in plan["unschedulable"]]
            self._check(price, plan["pricePerHour"], [*placed, *unschedulable])
            return Outcome(
                seconds=plan["solveSeconds"],
                wall_s=wall_s,
                price_per_hour=price,
                nodes=len(nodes),
                placed_pods=len(placed),
                unschedulable_pods=len(unschedulable),
                max_rss_mib=plan["maxRssMiB"],
                lower_bound_per_hour=plan.get("lowerBoundPerHour"),
            )
        except KeyError as error:
            raise SideFailedError(f"the plan has no {error.args[0]}") from error

    def _price(self, node: Mapping[str, Any]) -> float:
        offer = node["instanceType"], node["zone"], node["capacityType"]
        if offer not in self._prices:
            raise SideFailedError(
                f"the plan buys what the catalogue does not offer: {' '.join(map(str, offer))}"
            )
        return self._prices[offer]

    def _check(self, price: float, reported_price: float, pods: Sequence[str]) -> None:
        if abs(price - reported_price) > _PRICE_SLACK * max(price, 1.0):
            raise SideFailedError(
                f"the plan reports {reported_price:g} $/h, but its nodes cost {price:g} $/h by the catalogue"
            )
        pod, times = max(Counter(pods).items(), key=lambda item: item[1], default=("", 1))
        if times > 1:
            raise SideFailedError(f"the plan names pod {pod} {times} times")
        if len(pods) != self.pending_pods:
            raise SideFailedError(f"the plan accounts for {len(pods)} of {self.pending_pods} pods")
