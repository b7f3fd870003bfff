# SPDX-License-Identifier: Apache-2.0
"""Row ``holding``: 5,000 pods on 500 nodes in the controller's care: memory, idle load, and lag while it solves.

The nodes are the controller's own, launched for one large pod each; the other pods are created bound to them. All of
them run on simulated kubelets. After a quiet spell the processor time of half a minute is read; then 1,000 pods arrive
at once, and the event loop's own lag is read (how late it serves a timer that is due every 50 ms) from the first pod
until every new node is ordered. Memory is what the operating system counts as resident, at its peak and at rest; the
controller's child processes count.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
from pathlib import Path
from typing import Any, Final

from benchmarks.live import workload
from benchmarks.live.metrics import buckets, quantile, since
from benchmarks.live.placement import settle
from benchmarks.live.report import Outcome, Table
from benchmarks.live.stage import Stage, until

__all__ = ["HELD", "run"]

# Nodes, pods on them, pods that arrive.
HELD: Final = (500, 5000, 1000)
_IDLE_S: Final = 30.0
_REST_S: Final = 20.0
_LAG: Final = "karpenter_event_loop_lag_seconds"
_TYPE: Final = "m5.large"
_HELD: Final = {"benchmark/pool": "held"}
_OTHER: Final = {"benchmark/pool": "other"}
_MOST_MIB: Final = 300.0
_MOST_IDLE: Final = 0.05
_MOST_LAG_S: Final = 0.1


async def run(stage: Stage, options: argparse.Namespace) -> Outcome:
    """Builds the cluster up and measures."""
    wanted_nodes, wanted_pods, arriving = options.held
    await stage.start_model()
    await stage.start_kubelets("--join-delay=0s", "--ready-delay=0s", "--pod-start=0s")
    program = await stage.start_ours()
    start_mib = _memory_mib(program.pid)["resident"]
    await stage.create(workload.CLASS_PATH, workload.node_class())
    await stage.create(workload.POOL_PATH, _large_pool())
    await stage.create(workload.POOL_PATH, _other_pool())
    await until(lambda: stage.is_ready(workload.POOL_PATH), "the pool is ready")
    await stage.create_all(
        workload.POD_PATH, (_pod(f"anchor-{each}", "1500m") for each in range(wanted_nodes))
    )
    left = await settle(stage, wanted_nodes)
    nodes = [each["metadata"]["name"] for each in await stage.items("/api/v1/nodes")]
    stage.say(f"holding: {len(nodes)} nodes are there, {left} pods without a place")
    rest = wanted_pods - wanted_nodes
    await stage.create_all(
        workload.POD_PATH,
        (_pod(f"filler-{each}", "20m", nodes[each % len(nodes)]) for each in range(rest)),
    )
    left = await settle(stage, wanted_pods)
    stage.say(f"holding: {wanted_pods - left} pods run; resting")
    await asyncio.sleep(_REST_S)
    idle = await _idle_share(program.pid)
    rested = _memory_mib(program.pid)
    lag, new_nodes = await _arrivals(stage, arriving)
    peak = _memory_mib(program.pid)
    return _outcome(
        {
            "nodes": len(nodes),
            "pods": wanted_pods - left,
            "start_mib": round(start_mib),
            "rest_mib": round(rested["resident"]),
            "after_mib": round(peak["resident"]),
            "peak_mib": round(peak["peak"]),
            "idle_share": round(idle, 4),
            "lag_p50_s": quantile(lag, 0.5),
            "lag_p99_s": quantile(lag, 0.99),
            "lag_samples": int(max(lag.values(), default=0)),
            "arrived_pods": arriving,
            "new_nodes": new_nodes,
        }
    )


async def _arrivals(stage: Stage, arriving: int) -> tuple[dict[float, float], int]:
    """Lets many pods arrive, and gives the lags until the last new node was ordered, and how many those were."""
    before = {each["metadata"]["name"] for each in await stage.claims()}
    first = buckets(await asyncio.to_thread(stage.metrics), _LAG)
    await stage.create_all(
        workload.POD_PATH,
        (
            {**each, "spec": {**each["spec"], "nodeSelector": _OTHER}}
            for each in workload.pods("generic", arriving)
        ),
    )

    last, ordered = first, set[str]()

    async def placed() -> bool:
        # A pod may take a node that was bought for another, so what claims ask for does not add up to all pods.
        nonlocal last, ordered
        now = {
            each["metadata"]["name"]
            for each in await stage.claims()
            if each.get("status", {}).get("providerID")
        } - before
        if now != ordered:
            ordered = now
            last = buckets(await asyncio.to_thread(stage.metrics), _LAG)
        return not await stage.items(f"{workload.POD_PATH}?fieldSelector=spec.nodeName%3D")

    await until(placed, "the new pods have their nodes", timeout_s=180, every_s=0.5)
    return since(first, last), len(ordered)


async def _idle_share(pid: int) -> float:
    started = _processor_s(pid)
    await asyncio.sleep(_IDLE_S)
    return (_processor_s(pid) - started) / _IDLE_S


def _family(pid: int) -> list[int]:
    """Gives a process and its descendants."""
    found = [pid]
    for each in found:
        children = Path(f"/proc/{each}/task/{each}/children")
        found += [int(child) for child in children.read_text().split()] if children.exists() else []
    return found


def _processor_s(pid: int) -> float:
    ticks = 0
    for each in _family(pid):
        fields = Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _memory_mib(pid: int) -> dict[str, float]:
    """Gives what is resident now and was at most, children included."""
    totals = {"resident": 0.0, "peak": 0.0}
    for each in _family(pid):
        lines = Path(f"/proc/{each}/status").read_text(encoding="utf-8").splitlines()
        amounts = {line.partition(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
        totals["resident"] += int(amounts.get("VmRSS", 0)) / 1024
        totals["peak"] += int(amounts.get("VmHWM", 0)) / 1024
    return totals


def _large_pool() -> dict[str, Any]:
    pool = workload.pool("generic")
    requirements = pool["spec"]["template"]["spec"]["requirements"]
    requirements.append({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [_TYPE]})
    pool["spec"]["template"]["metadata"] = {"labels": _HELD}
    return pool


def _other_pool() -> dict[str, Any]:
    """A pool for the pods that arrive, so that none of them fits a node that stands."""
    pool = workload.pool("generic")
    pool["metadata"]["name"] = "other"
    pool["spec"]["template"]["metadata"] = {"labels": _OTHER}
    return pool


def _pod(name: str, cpu: str, node: str = "") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        "env": [{"name": "GREETING", "value": "hello"}, {"name": "PORT", "value": "8080"}],
        "ports": [{"containerPort": 8080}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": name.partition("-")[0], "tier": "web"},
        },
        "spec": {
            "containers": [container],
            "nodeSelector": _HELD,
            "terminationGracePeriodSeconds": 1,
            **({"nodeName": node} if node else {}),
        },
    }


def _outcome(data: dict[str, Any]) -> Outcome:
    def verdict(value: float, most: float) -> str:
        return "yes" if not math.isnan(value) and value < most else "NO"

    rows = [
        (
            "resident at rest, MiB",
            str(data["rest_mib"]),
            f"< {_MOST_MIB:.0f}",
            verdict(data["rest_mib"], _MOST_MIB),
        ),
        (
            "resident at most, MiB",
            str(data["peak_mib"]),
            f"< {_MOST_MIB:.0f}",
            verdict(data["peak_mib"], _MOST_MIB),
        ),
        (
            "idle, share of a core",
            f"{data['idle_share']:.1%}",
            f"< {_MOST_IDLE:.0%}",
            verdict(data["idle_share"], _MOST_IDLE),
        ),
        (
            "lag p99 while solving, s",
            f"<= {data['lag_p99_s']:g}",
            f"< {_MOST_LAG_S:g}",
            verdict(data["lag_p99_s"], _MOST_LAG_S + 1e-9),
        ),
    ]
    title = f"{data['pods']} pods on {data['nodes']} nodes, then {data['arrived_pods']} more"
    return Outcome([Table(title, ("WHAT", "MEASURED", "PROMISED", "KEPT"), rows)], data)
