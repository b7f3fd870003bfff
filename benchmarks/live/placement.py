# SPDX-License-Identifier: Apache-2.0
"""Row ``placement``: what a plan was to cost and what it came to, with the plan told to the scheduler and without.

The pods are live ones of the shapes ``generic 1000`` and ``big 60``; nodes are machines of the EC2 model with simulated
kubelets, pods are bound by the real scheduler. Planned is the price of the nodes that were planned for pods that had
not been planned before; what is planned for pods a second time, because the scheduler left no room where they were to
go, is not counted. Realised is the list price of all machines that were launched, the second ones included. *As
planned* is the share of planned pods that were bound to their planned node, as the controller's own metric has it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.live import workload
from benchmarks.live.metrics import counted
from benchmarks.live.report import Outcome, Table
from benchmarks.live.stage import BenchmarkError, Stage, until
from karpenter import facts

__all__ = ["CASES", "Realised", "run", "settle", "table"]

CASES: Final = (("generic", 1000), ("big", 60))
_PATIENCE_S: Final = 150.0
_REGION: Final = "us-west-2"
PROMISE: Final = 0.01


@dataclass(frozen=True)
class Realised:
    """What became of one shape's plan."""

    shape: str
    pods: int
    nominated: bool
    planned_per_hour: float
    realised_per_hour: float
    plans: int
    nodes: int
    pending: int
    as_planned: float
    seconds: float

    @property
    def dearer(self) -> float:
        """By which share of the planned price all machines cost more."""
        return self.realised_per_hour / self.planned_per_hour - 1 if self.planned_per_hour else 0.0

    @property
    def is_kept(self) -> bool:
        """Whether the realised price is within 1 % of the planned one and no pod is left pending."""
        return abs(self.dearer) <= PROMISE and not self.pending


async def run(stage: Stage, options: argparse.Namespace) -> Outcome:
    """Measures each shape with nominations and without."""
    await stage.start_model()
    await stage.start_kubelets()
    found: list[Realised] = []
    for shape, count in options.shapes:
        for nominated in (True, False):
            found.append(await _case(stage, shape, count, nominated=nominated))
            each = found[-1]
            stage.say(
                f"placement: {shape} {count}, nominations {'on' if nominated else 'off'}: planned "
                f"{each.planned_per_hour:.3f}, realised {each.realised_per_hour:.3f} $/h, {each.pending} pending"
            )
    return Outcome([table(found)], {"rows": [asdict(each) for each in found]})


def table(found: Sequence[Realised]) -> Table:
    """Lays out what was measured."""
    head = (
        "SHAPE",
        "NOMINATED",
        "PLANNED $/H",
        "REALISED $/H",
        "DEARER",
        "PLANS",
        "NODES",
        "AS PLANNED",
        "PENDING",
        "S",
        "KEPT",
    )
    rows = [
        (
            f"{each.shape} {each.pods}",
            "yes" if each.nominated else "no",
            f"{each.planned_per_hour:.3f}",
            f"{each.realised_per_hour:.3f}",
            f"{each.dearer:+.1%}",
            str(each.plans),
            f"{each.nodes}",
            f"{each.as_planned:.1%}",
            str(each.pending),
            f"{each.seconds:.0f}",
            ("yes" if each.is_kept else "NO") if each.nominated else "-",
        )
        for each in found
    ]
    return Table("planned and realised, live", head, rows)


async def _case(stage: Stage, shape: str, count: int, *, nominated: bool) -> Realised:
    program = await stage.start_ours(nominate_pods=str(nominated).lower())
    await stage.create(workload.CLASS_PATH, workload.node_class())
    await stage.create(workload.POOL_PATH, workload.pool(shape))
    await until(lambda: stage.is_ready(workload.POOL_PATH), "the pool is ready")
    started = time.monotonic()
    await stage.create_all(workload.POD_PATH, workload.pods(shape, count))
    pending = await settle(stage, count)
    seconds = time.monotonic() - started
    plans = [
        line
        for line in _lines(program.log_file.read_text(encoding="utf-8"))
        if line.get("message") == "computed new nodeclaim(s) to fit pod(s)"
    ]
    prices = facts.on_demand_prices(_REGION)
    account = await asyncio.to_thread(stage.model, "state")
    living = [each for each in account["ec2"]["instances"] if each["state"] in {"pending", "running"}]
    outcomes = counted(await asyncio.to_thread(stage.metrics), "karpenter_plan_placements_total", "outcome")
    bound = outcomes.get("planned", 0.0) + outcomes.get("elsewhere", 0.0)
    if not plans:
        raise BenchmarkError(f"{shape} {count}: no plan was made", hint=f"see {program.log_file}")
    result = Realised(
        shape=shape,
        pods=count,
        nominated=nominated,
        planned_per_hour=sum(
            each["price-per-hour"] * (1 - each["pods-planned-before"] / each["pods"]) for each in plans
        ),
        realised_per_hour=sum(prices[each["type"]] for each in living),
        plans=len(plans),
        nodes=len(living),
        pending=pending,
        as_planned=outcomes.get("planned", 0.0) / bound if bound else 0.0,
        seconds=seconds,
    )
    await stage.clear()
    await stage.stop("controller")
    await stage.remove_crds()
    return result


async def settle(stage: Stage, count: int) -> int:
    """Waits until all pods run, or nothing has got better for a long time; gives how many do not run."""
    left, since = count, time.monotonic()
    while left and time.monotonic() - since < _PATIENCE_S:
        pods = await stage.items(workload.POD_PATH)
        now = count - sum(each["status"].get("phase") == "Running" for each in pods)
        if now < left:
            left, since = now, time.monotonic()
        await asyncio.sleep(1.0)
    return left


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
