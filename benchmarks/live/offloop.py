# SPDX-License-Identifier: Apache-2.0
"""Row ``offloop``: what a solve does to the event loop, by where it runs; no control plane is needed.

The cluster has 500 nodes with ten pods each; 1,000 pods of shape ``diverse`` arrive. They are solved once on the loop
itself, in a thread, in a worker process that is sent the cluster, and in a child that is forked for the solve and has
the cluster already. Meanwhile a task asks to be woken every 5 ms and notes how late that happens. *Wait* is from the
order to the plan in hand, *memory* what another process holds resident besides.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.live.moments import percentile
from benchmarks.live.report import Outcome, Table
from benchmarks.peers.problems import make_problem
from karpenter.cli.solve import most_memory_mib
from karpenter.scheduling import Plan, SolveOptions, solve
from karpenter.scheduling.problems import Problem, read_catalogue, read_problem

__all__ = ["measure", "question", "run"]

CATALOGUE: Final = Path(__file__).parents[1] / "peers" / "catalogue.json"
_NODES: Final = 500
_PODS_A_NODE: Final = 10
_ARRIVING: Final = 1000
_EVERY_S: Final = 0.005
_ROUNDS: Final = 5
_PROMISE_S: Final = 0.1

Way = Callable[[Problem], Awaitable[Any]]


def question(nodes: int = _NODES, arriving: int = _ARRIVING) -> Problem:
    """Gives the cluster and the pods that arrive."""
    problem = make_problem("diverse", arriving)
    for number in range(nodes):
        problem["objects"] += [_node(number), *(_bound(number, each) for each in range(_PODS_A_NODE))]
    catalogue = read_catalogue(CATALOGUE.read_bytes(), str(CATALOGUE))
    return read_problem(msgspec.json.encode(problem), catalogue, "offloop")


def _node(number: int) -> dict[str, Any]:
    size = {"cpu": "1930m", "memory": "7Gi", "pods": "29"}
    labels = {
        "kubernetes.io/hostname": f"node-{number}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/initialized": "true",
        "karpenter.sh/registered": "true",
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/zone": f"us-east-1{'abc'[number % 3]}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {"providerID": f"aws:///us-east-1a/i-{number:017x}"},
        "status": {"capacity": size, "allocatable": size},
    }


def _bound(node: int, number: int) -> dict[str, Any]:
    requests = {"cpu": "180m", "memory": "512Mi"}
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"bound-{node}-{number}",
            "namespace": "default",
            "uid": f"bound-{node}-{number}",
            "labels": {"app": f"app-{number}"},
        },
        "spec": {"nodeName": f"node-{node}", "containers": [container]},
        "status": {"phase": "Running"},
    }


async def _on_the_loop(asked: Problem) -> Plan:
    return solve(asked.snapshot, asked.pods, SolveOptions())


async def _in_a_thread(asked: Problem) -> Plan:
    return await asyncio.to_thread(solve, asked.snapshot, asked.pods, SolveOptions())


def _solve_pickled(data: bytes) -> bytes:
    """Runs in the worker process."""
    snapshot, pods = pickle.loads(data)  # noqa: S301 - from ourselves
    return pickle.dumps(_gist(solve(snapshot, pods, SolveOptions())))


def _gist(plan: Plan) -> list[tuple[str, int, list[str]]]:
    """What has to come back of a plan: where each pod goes; the rest is here already."""
    return [(each.pool, each.usable, [pod.metadata.uid for pod in each.pods]) for each in plan.new_nodes]


class _Worker:
    """A process that lives on and is sent each question whole."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    async def __call__(self, asked: Problem) -> Any:
        data = await asyncio.to_thread(pickle.dumps, (asked.snapshot, asked.pods))
        loop = asyncio.get_running_loop()
        return pickle.loads(await loop.run_in_executor(self._pool, _solve_pickled, data))  # noqa: S301 - ours

    async def memory_mib(self) -> float:
        """Asks the worker what it holds."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, most_memory_mib)

    def close(self) -> None:
        """Ends the process."""
        self._pool.shutdown()


async def _in_a_fork(asked: Problem) -> Any:
    """Forks on the loop, as a fork must stop everything; the child only computes and writes."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            gc.disable()
            answer = pickle.dumps(_gist(solve(asked.snapshot, asked.pods, SolveOptions())))
            with os.fdopen(sending, "wb") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(sending)

    def receive() -> bytes:
        with os.fdopen(receiving, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        return data

    return pickle.loads(await asyncio.to_thread(receive))  # noqa: S301 - from our own child


async def measure(way: Way, asked: Problem, rounds: int = _ROUNDS) -> tuple[list[float], list[float]]:
    """Gives how late the loop woke up while solving, and how long each solve took."""
    late: list[float] = []
    took: list[float] = []
    await way(asked)
    for _ in range(rounds):
        gc.collect()
        probe = asyncio.create_task(_probe(late))
        await asyncio.sleep(0)
        started = time.perf_counter()
        await way(asked)
        took.append(time.perf_counter() - started)
        # The wake-up that was due during the solve counts, however late it comes.
        await asyncio.sleep(_EVERY_S)
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
    return late, took


async def _probe(late: list[float]) -> None:
    while True:
        due = time.perf_counter() + _EVERY_S
        await asyncio.sleep(_EVERY_S)
        late.append(max(time.perf_counter() - due, 0.0))


async def run() -> Outcome:
    """Measures each way."""
    asked = question()
    worker = _Worker()
    ways: dict[str, Way] = {
        "on the loop": _on_the_loop,
        "thread": _in_a_thread,
        "worker process": worker,
        "fork a solve": _in_a_fork,
    }
    data: list[dict[str, Any]] = []
    try:
        for name, way in ways.items():
            late, took = await measure(way, asked)
            memory = await worker.memory_mib() if way is worker else 0.0
            data.append(
                {
                    "way": name,
                    "lag_p50_ms": round(1000 * percentile(late, 0.5), 1),
                    "lag_p99_ms": round(1000 * percentile(late, 0.99), 1),
                    "lag_max_ms": round(1000 * max(late), 1),
                    "wait_ms": round(1000 * percentile(took, 0.5)),
                    "memory_mib": round(memory),
                }
            )
    finally:
        worker.close()
    head = ("WHERE", "LAG P50 MS", "LAG P99 MS", "LAG MAX MS", "WAIT MS", "MEMORY MIB", "KEPT")
    rows = [
        (
            each["way"],
            str(each["lag_p50_ms"]),
            str(each["lag_p99_ms"]),
            str(each["lag_max_ms"]),
            str(each["wait_ms"]),
            str(each["memory_mib"] or "-"),
            "yes" if each["lag_p99_ms"] < 1000 * _PROMISE_S else "NO",
        )
        for each in data
    ]
    title = f"{_ARRIVING} pods arrive in a cluster of {_NODES} nodes and {_NODES * _PODS_A_NODE} pods"
    return Outcome([Table(title, head, rows)], {"rows": data})
