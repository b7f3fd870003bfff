# SPDX-License-Identifier: Apache-2.0
"""Row ``reaction``: from a pod marked Unschedulable to the launch call of its node, ours beside the Go Karpenter.

Both run with their default settings, one after the other, on the same control plane, with the same pods (shape
``generic``), each after one round that is not counted. A round creates the pods, waits until every one of them has a
node on its way, and takes everything away again. A startup taint keeps the pods off the nodes meanwhile, so that every
one of them is marked.

The moments, for both sides alike:

- *marked*: the API server has answered the scheduler's write of the pod's first Unschedulable condition (audit log).
- *claim*: a watcher has seen the pod's NodeClaim. It comes before the launch and shows what a provider adds.
- *launch*: the node is ordered. For ours the EC2 model has received CreateFleet: launch template, subnets, the journal
  entry and the shared request of ADR 7 are behind it. For Go the API server has received the Node that the kwok
  provider creates in place of calling a cloud (audit log): its provider has nothing else to do.

So Go is measured without a cloud and ours with one. Go's types are the 144 that its kwok provider comes with, ours
the EC2 model's, several times as many. Which pod waits for which launch: see ``moments``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from benchmarks.live import gopeer, workload
from benchmarks.live.gopeer import GoPeer
from benchmarks.live.moments import Launch, marks, node_creations, percentile, seconds_of, waits
from benchmarks.live.report import Table
from benchmarks.live.stage import BenchmarkError, Stage, until
from karpenter.cloud.aws.fleet import LAUNCH_TAG
from karpenter.kube import KubeError
from karpenter.kube.kinds import NODE_CLAIMS

__all__ = ["ROUNDS", "Measured", "run", "table"]

# Pods in a round, and how many rounds: enough waits for a p99, and minutes in all.
ROUNDS: Final[Mapping[int, int]] = {1: 20, 100: 5, 1000: 2}
_SHAPE: Final = "generic"
_ROUND_S: Final = 120.0
# Longer than the idle time of either side's batch, so that each round is met after a quiet spell.
_QUIET_S: Final = 3.0
# Some pods may fit into what was ordered for others; longer than the longest batch of either side.
_SETTLED_S: Final = 12.0


@dataclass
class Measured:
    """The waits of one side for one number of pods, in seconds."""

    side: str
    pods: int
    rounds: int = 0
    claim_s: list[float] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    marking_s: list[float] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Gives what was measured, summed up, for a JSON file."""
        return {
            "side": self.side,
            "pods": self.pods,
            "rounds": self.rounds,
            "launch_p50_s": round(percentile(self.launch_s, 0.5), 4),
            "launch_p99_s": round(percentile(self.launch_s, 0.99), 4),
            "claim_p50_s": round(percentile(self.claim_s, 0.5), 4),
            "claim_p99_s": round(percentile(self.claim_s, 0.99), 4),
            "marking_s": [round(each, 3) for each in self.marking_s],
            "nodes": self.nodes,
        }


class Side(Protocol):
    """One of the two that are compared."""

    name: str

    async def start(self, stage: Stage) -> None:
        """Starts the controller with a pool and a class."""

    async def launches(self, stage: Stage, claims: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Gives when each claim's node was ordered, by name, for those that were."""

    async def stop(self, stage: Stage) -> None:
        """Ends the controller and leaves nothing behind."""


class Ours:
    """Our controller, with the EC2 model."""

    name = "ours"

    async def start(self, stage: Stage) -> None:
        """Starts the model and the controller and waits until the pool is ready."""
        await stage.start_model()
        await stage.start_ours()
        await stage.create(workload.CLASS_PATH, workload.node_class())
        await stage.create(workload.POOL_PATH, _held(workload.pool(_SHAPE)))
        await until(lambda: stage.is_ready(workload.POOL_PATH), "the pool is ready")

    async def launches(self, stage: Stage, claims: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Finds each claim's instance, its launch's token, and the call with that token."""
        if not all(each.get("status", {}).get("providerID") for each in claims):
            return {}
        answer = await asyncio.to_thread(stage.model, "calls?operation=CreateFleet&mutating=1")
        sent = {each["parameters"]["ClientToken"]: seconds_of(each["time"]) for each in answer["calls"]}
        account = await asyncio.to_thread(stage.model, "state")
        tokens = {each["id"]: each["tags"].get(LAUNCH_TAG, "") for each in account["ec2"]["instances"]}
        found = {}
        for claim in claims:
            token = tokens.get(claim["status"]["providerID"].rpartition("/")[2], "")
            if token in sent:
                found[claim["metadata"]["name"]] = sent[token]
        return found

    async def stop(self, stage: Stage) -> None:
        """Ends the controller and the model."""
        await stage.stop("controller")
        await stage.stop("ec2")
        await stage.remove_crds()


@dataclass
class Go:
    """The Go Karpenter."""

    peer: GoPeer
    name: str = f"Go {gopeer.version()}"

    async def start(self, stage: Stage) -> None:
        """Starts the program and waits until the pool is ready."""
        await stage.start_go(self.peer)
        await stage.create(workload.KWOK_CLASS_PATH, gopeer.node_class())
        await stage.create(workload.POOL_PATH, _held(workload.kwok_pool(_SHAPE)))
        await until(lambda: stage.is_ready(workload.POOL_PATH), "the pool is ready")

    async def launches(self, stage: Stage, claims: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Finds the request for each claim's Node, which is named in its status."""
        created = node_creations(await asyncio.to_thread(stage.audit, "nodes"))
        found = {}
        for claim in claims:
            node = claim.get("status", {}).get("providerID", "").rpartition("/")[2]
            if node in created:
                found[claim["metadata"]["name"]] = created[node]
        return found

    async def stop(self, stage: Stage) -> None:
        """Ends the program."""
        await stage.stop("go-karpenter")
        await stage.remove_crds()


async def run(stage: Stage, peer: GoPeer | None, rounds: Mapping[int, int] = ROUNDS) -> list[Measured]:
    """Measures Go, if it is there, and then ours."""
    found: list[Measured] = []
    sides: list[Side] = [*([Go(peer)] if peer is not None else []), Ours()]
    for side in sides:
        await side.start(stage)
        await _round(stage, side, Measured(side.name, 1), "warm")
        for count, times in rounds.items():
            measured = Measured(side.name, count)
            for number in range(times):
                await _round(stage, side, measured, f"r{count}-{number}")
            found.append(measured)
            stage.say(
                f"reaction: {side.name}, {count} pods, {times} rounds: p50 "
                f"{percentile(measured.launch_s, 0.5):.3f} s, p99 {percentile(measured.launch_s, 0.99):.3f} s"
            )
        await side.stop(stage)
    return found


def table(measured: Sequence[Measured]) -> Table:
    """Lays out what was measured: a row for each number of pods, Go beside ours."""
    head = (
        "PODS",
        "ROUNDS",
        "GO P50 S",
        "GO P99 S",
        "OURS P50 S",
        "OURS P99 S",
        "FASTER P50",
        "FASTER P99",
        "KEPT",
    )
    ours = {each.pods: each for each in measured if each.side == Ours.name}
    others = {each.pods: each for each in measured if each.side != Ours.name}
    rows = []
    for count, mine in ours.items():
        own = [percentile(mine.launch_s, share) for share in (0.5, 0.99)]
        if count not in others:
            rows.append(
                (str(count), str(mine.rounds), "-", "-", *(f"{each:.3f}" for each in own), "-", "-", "-")
            )
            continue
        theirs = [percentile(others[count].launch_s, share) for share in (0.5, 0.99)]
        ratios = [f"{other / self:.1f}x" for other, self in zip(theirs, own, strict=True)]
        kept = all(self < other for other, self in zip(theirs, own, strict=True))
        cells = [f"{each:.3f}" for each in (*theirs, *own)]
        rows.append((str(count), str(mine.rounds), *cells, *ratios, "yes" if kept else "NO"))
    return Table("from Unschedulable to the launch call", head, rows)


def _held(pool: dict[str, Any]) -> dict[str, Any]:
    """Keeps pods off the new nodes: kwok's would take them at once, and a pod that is bound is never marked."""
    taint = {"key": "benchmark/held", "effect": "NoSchedule"}
    pool["spec"]["template"]["spec"]["startupTaints"] = [taint]
    return pool


async def _round(stage: Stage, side: Side, measured: Measured, prefix: str) -> None:
    await asyncio.sleep(_QUIET_S)
    stage.forget_audit()
    wanted = workload.pods(_SHAPE, measured.pods, prefix=prefix)
    async with _watching(stage) as seen:
        await stage.create_all(workload.POD_PATH, wanted)
        launches, claims = await _all_launched(stage, side, measured.pods)
    marked = marks(await asyncio.to_thread(stage.audit, "pods"))
    marked = {name: at for name, at in marked.items() if name.startswith(f"{prefix}-")}
    if len(marked) < measured.pods:
        raise BenchmarkError(f"only {len(marked)} of {measured.pods} pods were marked Unschedulable")
    sizes = {each["metadata"]["name"]: _pods_of(each) for each in claims}
    measured.rounds += 1
    measured.launch_s += waits(marked.values(), [Launch(at, sizes[name]) for name, at in launches.items()])
    measured.claim_s += waits(
        marked.values(), [Launch(seen[name], size) for name, size in sizes.items() if name in seen]
    )
    measured.marking_s.append(max(marked.values()) - min(marked.values()))
    measured.nodes.append(len(claims))
    await stage.clear()


async def _all_launched(
    stage: Stage, side: Side, count: int
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Waits until there are claims for all pods, or no new claim has come for long, and each has been launched."""
    known, since = 0, time.monotonic()

    async def look() -> tuple[dict[str, float], list[dict[str, Any]]] | None:
        nonlocal known, since
        claims = await stage.claims()
        if len(claims) != known:
            known, since = len(claims), time.monotonic()
        is_settled = known and time.monotonic() - since > _SETTLED_S
        if sum(map(_pods_of, claims)) < count and not is_settled:
            return None
        launches = await side.launches(stage, claims)
        return (launches, claims) if len(launches) == len(claims) else None

    found: tuple[dict[str, float], list[dict[str, Any]]] = await until(
        look, f"{side.name}: {count} pods have a node on its way", timeout_s=_ROUND_S, every_s=0.5
    )
    return found


@contextlib.asynccontextmanager
async def _watching(stage: Stage) -> AsyncIterator[dict[str, float]]:
    """Notes when each new claim is seen, by name."""
    seen: dict[str, float] = {}
    listing = await stage.api.list(NODE_CLAIMS)

    async def follow() -> None:
        with contextlib.suppress(KubeError):
            async for event in stage.api.watch(NODE_CLAIMS, listing.resource_version):
                if event.type == "ADDED" and event.object is not None:
                    seen.setdefault(event.object.metadata.name, time.time())

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _pods_of(claim: Mapping[str, Any]) -> int:
    """How many pods a claim was made for: it says so itself, on both sides."""
    requests = claim["spec"].get("resources", {}).get("requests", {})
    return int(requests.get("pods", 0))
