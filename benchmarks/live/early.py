# SPDX-License-Identifier: Apache-2.0
"""Row ``early``: how long pods are pending with early placement and without.

The same pods (shape ``generic``) on the same control plane, EC2 model and kubelets, one controller after the other;
each after one round that is not counted. A machine joins two seconds after its launch and is ready ten seconds after
that, about what a CNI needs to start. A round creates the pods, waits until all run, and takes everything away.

The moments are those at which a watcher of the API server sees them:

- *bound*: the pod has a node, from when its creation was sent.
- *running*: the kubelet says that it runs, from when its creation was sent. Kubelets start pods once they are ready,
  however early they were bound, after 200 ms for the containers.
- *after ready*: from the moment at which the pod's node is Ready to that at which the pod runs: what is left to wait
  for once there is a place to run, which is what early placement can save.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.live import workload
from benchmarks.live.moments import percentile
from benchmarks.live.report import Outcome, Table
from benchmarks.live.stage import BenchmarkError, Stage, until
from karpenter.api.core import Node, Pod
from karpenter.kube import KubeError
from karpenter.kube.kinds import NODES, PODS

__all__ = ["COUNT", "Pending", "run", "table"]

COUNT: Final = 100
_ROUNDS: Final = 3
_SHAPE: Final = "generic"
_BOOT: Final = "10s"
_ROUND_S: Final = 120.0
_QUIET_S: Final = 3.0


@dataclass
class Pending:
    """The waits of all pods with one setting, in seconds."""

    is_early: bool
    pods: int
    rounds: int = 0
    early: int = 0
    bound_s: list[float] = field(default_factory=list)
    running_s: list[float] = field(default_factory=list)
    after_ready_s: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Gives what was measured, summed up, for a JSON file."""
        figures = {
            f"{name}_p{share * 100:.0f}_s": round(percentile(values, share), 3)
            for name, values in (
                ("bound", self.bound_s),
                ("running", self.running_s),
                ("after_ready", self.after_ready_s),
            )
            for share in (0.5, 0.99)
        }
        return {
            "early_placement": self.is_early,
            "pods": self.pods,
            "rounds": self.rounds,
            "bound_before_ready": self.early,
            **figures,
        }


@dataclass
class _Seen:
    """When a watcher first saw things, by name."""

    bound: dict[str, tuple[float, str]] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)

    def pod(self, pod: Pod) -> None:
        """Takes note of a pod."""
        name = pod.metadata.name
        if pod.spec.node_name:
            self.bound.setdefault(name, (time.time(), pod.spec.node_name))
        if pod.status.phase == "Running":
            self.running.setdefault(name, time.time())

    def node(self, node: Node) -> None:
        """Takes note of a node."""
        if any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
            self.ready.setdefault(node.metadata.name, time.time())


async def run(stage: Stage, options: argparse.Namespace) -> Outcome:
    """Measures both settings."""
    await stage.start_model()
    await stage.start_kubelets("--ready-delay", _BOOT)
    found = []
    for is_early in (False, True):
        await stage.start_ours(early_placement=str(is_early).lower())
        await stage.create(workload.CLASS_PATH, workload.node_class())
        await stage.create(workload.POOL_PATH, workload.pool(_SHAPE))
        await until(lambda: stage.is_ready(workload.POOL_PATH), "the pool is ready")
        await _round(stage, Pending(is_early, 1), "warm")
        measured = Pending(is_early, options.early_pods)
        for number in range(_ROUNDS):
            await _round(stage, measured, f"r{number}")
        found.append(measured)
        stage.say(
            f"early: {'with' if is_early else 'without'}: bound after {percentile(measured.bound_s, 0.5):.2f} s, "
            f"running after {percentile(measured.running_s, 0.5):.2f} s (p50)"
        )
        await stage.stop("controller")
        await stage.remove_crds()
    return Outcome([table(found)], {"boot": _BOOT, "rows": [each.as_json() for each in found]})


def table(found: Sequence[Pending]) -> Table:
    """Lays out what was measured."""
    head = (
        "EARLY",
        "PODS",
        "ROUNDS",
        "BEFORE READY",
        "BOUND P50 S",
        "P99 S",
        "RUNNING P50 S",
        "P99 S",
        "AFTER READY P50 S",
        "P99 S",
    )
    rows = [
        (
            "on" if each.is_early else "off",
            str(each.pods),
            str(each.rounds),
            f"{each.early / max(len(each.bound_s), 1):.0%}",
            *(
                f"{percentile(values, share):.2f}"
                for values in (each.bound_s, each.running_s, each.after_ready_s)
                for share in (0.5, 0.99)
            ),
        )
        for each in found
    ]
    return Table(f"how long pods are pending; nodes are ready {_BOOT} after they join", head, rows)


async def _round(stage: Stage, measured: Pending, prefix: str) -> None:
    await asyncio.sleep(_QUIET_S)
    wanted = workload.pods(_SHAPE, measured.pods, prefix=prefix)
    names = [each["metadata"]["name"] for each in wanted]
    async with _watching(stage) as seen:
        sent = time.time()
        await stage.create_all(workload.POD_PATH, wanted)

        async def all_run() -> bool:
            return all(name in seen.running for name in names)

        await until(all_run, f"{measured.pods} pods run", timeout_s=_ROUND_S)
    measured.rounds += 1
    for name in names:
        if name not in seen.bound:
            raise BenchmarkError(f"{name} runs and was never seen to be bound")
        at, node = seen.bound[name]
        # A node that the watcher has not seen become ready was ready when the pod ran, at the latest.
        ready = seen.ready.get(node, seen.running[name])
        measured.early += at < ready
        measured.bound_s.append(at - sent)
        measured.running_s.append(seen.running[name] - sent)
        measured.after_ready_s.append(max(seen.running[name] - ready, 0.0))
    await stage.clear()


@contextlib.asynccontextmanager
async def _watching(stage: Stage) -> AsyncIterator[_Seen]:
    """Notes what happens to pods and nodes."""
    seen = _Seen()
    pods, nodes = await stage.api.list(PODS), await stage.api.list(NODES)

    async def follow_pods() -> None:
        with contextlib.suppress(KubeError):
            async for event in stage.api.watch(PODS, pods.resource_version):
                if event.object is not None:
                    seen.pod(event.object)

    async def follow_nodes() -> None:
        with contextlib.suppress(KubeError):
            async for event in stage.api.watch(NODES, nodes.resource_version):
                if event.object is not None:
                    seen.node(event.object)

    tasks = [asyncio.create_task(follow_pods()), asyncio.create_task(follow_nodes())]
    try:
        yield seen
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
