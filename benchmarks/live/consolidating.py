# SPDX-License-Identifier: Apache-2.0
"""Row ``consolidation``: clusters that need tidying up, until quiet: ours beside the Go Karpenter's kwok build.

The clusters are those of ``benchmarks.consolidation``: *third*, scaled down to a third at random, and *diurnal*, after
three days of ups and downs. Each side gets a control plane of its own, real or the sandbox's (``planes``), with the
same nodes, the same pods on the same nodes, the same PodDisruptionBudgets and DaemonSets, and buys from the same list
(``standing``). One kubelet of ours keeps both sides' nodes and pods alive (``agents``). Evicted pods come back as new
pods that the plane's scheduler places. Both have the same ``consolidateAfter`` and budget, and
SpotToSpotConsolidation on; all else is their default.

The clock starts when the pool begins to allow consolidation, with everything running. It stops when nothing has
changed for a while (no eviction, no binding, no claim or node that comes or goes), and the time until quiet is that of
the last change. A side that is still at work at the limit is shown with that (``> N``). Evictions are pods of workloads
that were told to go, actions are claims that came and claims that were told to go, counted by the same observer on
both sides. Sides whose pool has the policy Balanced are compared with each other. ``OURS THEN`` is what our side of
the same policy cost per hour when it had made no more evictions than that side in all.

The hasty sides are the Go Karpenter without its wait of 15 seconds before each removal (``gopeer``), for clusters on
which the original does not come to its end within a sitting. They are run only if they are named.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

from tests.e2e.papercloud import make_ready

from benchmarks.consolidation.cluster import Cluster
from benchmarks.live import gopeer, standing, workload
from benchmarks.live.agents import Agents, Pace
from benchmarks.live.gopeer import GoPeer
from benchmarks.live.metrics import counted
from benchmarks.live.planes import SANDBOX
from benchmarks.live.report import Outcome, Table, write_results
from benchmarks.live.stage import Stage, until
from benchmarks.sandbox_load.programs import cpu_s, rss_mib
from karpenter.api.conditions import INITIALIZED, is_true
from karpenter.kube.kinds import NODE_POOLS

__all__ = [
    "DEFAULT_SIDES",
    "NODES",
    "SIDES",
    "STATES",
    "Tidied",
    "is_hasty",
    "quiet_s",
    "result_name",
    "run",
    "table",
]

NODES: Final = (50,)
STATES: Final = tuple(standing.STATES)
DEFAULT_SIDES: Final = ("ours", "go", "ours-balanced", "go-balanced")
_HASTY: Final = "go-hasty"
SIDES: Final = (*DEFAULT_SIDES, _HASTY, f"{_HASTY}-balanced")
# Like is compared with like: who asks for less disruption gets it from both.
_OURS: Final = {
    "go": "ours",
    _HASTY: "ours",
    "go-balanced": "ours-balanced",
    f"{_HASTY}-balanced": "ours-balanced",
}
# A lease that is renewed late on a busy machine would end the side.
_ENVIRON: Final = {"FEATURE_GATES": "SpotToSpotConsolidation=true", "DISABLE_LEADER_ELECTION": "true"}
_QUIET: Final = ("NOT QUIET", "quiet")
# A search of the Go Karpenter for one node that can go may take 3 minutes, and does where there are many.
_QUIET_S: Final = ((100, 120.0), (1 << 30, 300.0))
_LOOK_S: Final = 2.0
_SAMPLE_S: Final = 10.0
# The sandbox's nodes may be silent for longer.
_RENEW_S: Final = (15.0, 60.0)
_RS_PATH: Final = "/apis/apps/v1/namespaces/default/replicasets"
_PDB_PATH: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_DS_PATH: Final = "/apis/apps/v1/namespaces/kube-system/daemonsets"
_CLAIM_PATH: Final = "/apis/karpenter.sh/v1/nodeclaims"
_OUR_CLASS: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
_GO_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


@dataclass
class Tidied:
    """What one side made of one cluster."""

    state: str
    wanted_nodes: int
    seed: int
    side: str
    nodes_before: int = 0
    nodes_after: int = 0
    pods: int = 0
    bound_per_hour: float = 0.0
    before_per_hour: float = 0.0
    after_per_hour: float = 0.0
    evictions: int = 0
    claims_created: int = 0
    claims_deleted: int = 0
    quiet_after_s: float = 0.0
    is_quiet: bool = False
    pending: int = 0
    landed: Mapping[str, int] = field(default_factory=dict)
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    rss_mib: Mapping[str, int] = field(default_factory=dict)
    course: list[tuple[int, float, int]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Gives what was measured for a JSON file.

        ``course`` is seconds, dollars an hour, evictions so far; ``cpu_s`` is what each program used of it, and
        ``rss_mib`` what it held at the end.
        """
        found = asdict(self)
        for name in ("bound_per_hour", "before_per_hour", "after_per_hour", "quiet_after_s"):
            found[name] = round(found[name], 4)
        return found


async def run(
    options: argparse.Namespace, directory: Path, say: Callable[[str], None], peers: Mapping[str, GoPeer]
) -> Outcome:
    """Measures every state of every size on every side, each on a control plane of its own.

    Args:
        options: What was asked for.
        directory: Where the logs go.
        say: Is told of the progress.
        peers: The builds of the Go Karpenter by side; a Go side that has none is left out.
    """
    found: list[Tidied] = []
    sides = [side for side in options.sides if side in peers or side.startswith("ours")]
    at_once = len(sides) if options.together else 1

    async def measure(case: Tidied, cluster: Cluster) -> Tidied:
        folder = directory / f"{case.state}-{case.wanted_nodes}-{case.side}"
        async with Stage(folder, say, options.plane) as stage:
            await _Case(stage, case, cluster, options).run(peers.get(case.side))
        say(f"consolidation: {_said(case)}")
        return case

    for nodes, state in product(options.nodes, options.states):
        # Minutes for a thousand nodes, so once for all sides.
        cluster = await asyncio.to_thread(standing.STATES[state], nodes, options.seed)
        bound = await asyncio.to_thread(cluster.lower_bound)
        for batch in _batches(sides, at_once):
            cases = [Tidied(state, nodes, options.seed, side, bound_per_hour=bound) for side in batch]
            found += await _together([measure(case, cluster) for case in cases])
            # Hours may lie before the next, and nobody should have to measure twice.
            write_results(options.results, result_name(options.plane), _data(options, found))
    return Outcome([table(found, options.plane)], _data(options, found))


async def _together(works: Sequence[Coroutine[Any, Any, Tidied]]) -> list[Tidied]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def result_name(plane: str) -> str:
    """Gives the name of the results, which are apart for the sandbox."""
    return "consolidation" + (f"-{plane}" if plane == SANDBOX else "")


def is_hasty(side: str) -> bool:
    """Tells whether a side is the Go Karpenter without its wait."""
    return side.startswith(_HASTY)


def quiet_s(nodes: int) -> float:
    """Gives how long nothing may change in a cluster of that size before it counts as quiet."""
    return next(seconds for most, seconds in _QUIET_S if nodes <= most)


def _batches(sides: Sequence[str], size: int) -> list[Sequence[str]]:
    return [sides[start : start + size] for start in range(0, len(sides), size)]


def _data(options: argparse.Namespace, found: Sequence[Tidied]) -> dict[str, Any]:
    return {
        "peer": f"sigs.k8s.io/karpenter {gopeer.version()}",
        "consolidate_after": options.consolidate_after,
        "budget": options.budget,
        "boot_s": options.boot_seconds,
        "plane": options.plane,
        "together": options.together,
        "our_settings": options.ours,
        "rows": [each.as_json() for each in found],
    }


def _said(case: Tidied) -> str:
    return (
        f"{case.state} {case.wanted_nodes}, {case.side}: {case.before_per_hour:.3f} to {case.after_per_hour:.3f} $/h"
        f" with {case.evictions} evictions, {_QUIET[case.is_quiet]} after {case.quiet_after_s:.0f} s"
    )


def table(found: Sequence[Tidied], plane: str = "real") -> Table:
    """Lays out what was measured on a plane."""
    head = (
        "STATE", "SIDE", "NODES", "BEFORE $/H", "AFTER $/H", "/BOUND", "EVICTIONS", "BOUGHT", "REMOVED",
        "QUIET S", "PENDING", "OURS THEN",
    )  # fmt: skip
    sides = {(each.state, each.wanted_nodes, each.side): each for each in found}
    rows = [
        (
            f"{each.state} {each.wanted_nodes}",
            each.side,
            f"{each.nodes_before} to {each.nodes_after}",
            f"{each.before_per_hour:.3f}",
            f"{each.after_per_hour:.3f}",
            f"{each.after_per_hour / each.bound_per_hour:.3f}",
            str(each.evictions),
            str(each.claims_created),
            str(each.claims_deleted),
            f"{each.quiet_after_s:.0f}" if each.is_quiet else f"> {each.quiet_after_s:.0f}",
            str(each.pending),
            _price_then(sides.get((each.state, each.wanted_nodes, _OURS.get(each.side, ""))), each),
        )
        for each in found
    ]
    where = "in the sandbox" if plane == SANDBOX else "live"
    return Table(f"consolidation until quiet, {where}", head, rows)


def _price_then(ours: Tidied | None, other: Tidied) -> str:
    """Gives what our side cost per hour when it had made as many evictions as another in all; or nothing."""
    if ours is None:
        return ""
    prices = [price for _, price, evictions in ours.course if evictions <= other.evictions]
    return f"{prices[-1]:.3f}" if prices else ""


class _Case:
    """One side and one cluster."""

    def __init__(self, stage: Stage, case: Tidied, cluster: Cluster, options: argparse.Namespace) -> None:
        self._stage = stage
        self._case = case
        self._options = options
        self._cluster = cluster
        self._patience_s = 180.0 + 2.0 * len(cluster.nodes)
        self._is_ours = case.side.startswith("ours")
        text = standing.kwok_catalogue(self._cluster)
        self._catalogue = stage.directory / "catalogue.json"
        self._catalogue.write_text(text, encoding="utf-8")
        pace = Pace(boot_s=options.boot_seconds, renew_s=_RENEW_S[options.plane == SANDBOX])
        self._agents = Agents(stage.api, standing.prices(text), pace)

    async def run(self, peer: GoPeer | None) -> Tidied:
        """Builds the cluster up, lets the side work until it is quiet, and gives what came of it."""
        if self._is_ours:
            program = await self._stage.start_paper(self._catalogue, **_ENVIRON, **self._options.ours)
        else:
            assert peer is not None
            catalogue = str(self._catalogue)
            program = await self._stage.start_go(peer, INSTANCE_TYPES_FILE_PATH=catalogue, **_ENVIRON)
        working = asyncio.ensure_future(self._agents.run())
        try:
            await self._build()
            await self._tidy_up()
        finally:
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        if not program.is_running:
            raise program.failure("ended before it was done")
        return self._case

    async def _build(self) -> None:
        stage, cluster = self._stage, self._cluster
        reference = _OUR_CLASS if self._is_ours else _GO_CLASS
        await stage.create_all(_DS_PATH, standing.daemon_sets())
        if self._is_ours:
            await stage.create(workload.CLASS_PATH, workload.node_class())
            await make_ready(stage.api)
        else:
            await stage.create(workload.KWOK_CLASS_PATH, gopeer.node_class())
        await stage.create(workload.POOL_PATH, standing.pool(reference))
        await until(lambda: stage.is_ready(workload.POOL_PATH), "the pool is ready")
        await stage.create_all(_CLAIM_PATH, standing.claims(cluster, reference))
        await until(self._are_initialized, "all nodes are there", timeout_s=self._patience_s, every_s=1.0)
        homes = {each.metadata.name: each.status.node_name for each in self._agents.claims}
        await stage.create_all(workload.POD_PATH, standing.pods(cluster, homes))
        # Their owners adopt them, once they have seen them all.
        await asyncio.sleep(5.0 + len(cluster.nodes) / 50)
        await stage.create_all(_RS_PATH, standing.replica_sets(cluster))
        await stage.create_all(_PDB_PATH, standing.budgets(cluster))
        self._case.pods = len(cluster.pods())
        await until(self._are_running, "all pods run", timeout_s=self._patience_s, every_s=1.0)
        await asyncio.sleep(5.0)
        stage.say(
            f"{self._case.state} {self._case.wanted_nodes}, {self._case.side}: {len(self._agents.nodes)} nodes,"
            f" {self._case.pods} pods, {self._agents.price():.3f} $/h"
        )

    async def _are_initialized(self) -> bool:
        found = list(self._agents.claims)
        return len(found) == len(self._cluster.nodes) and all(
            is_true(each.status.conditions, INITIALIZED) and each.status.node_name for each in found
        )

    async def _are_running(self) -> bool:
        return self._agents.running() == self._case.pods == sum(1 for _ in self._owned())

    def _owned(self) -> list[str]:
        return [
            each.metadata.name
            for each in self._agents.pods
            if any(owner.kind == "ReplicaSet" for owner in each.metadata.owner_references)
        ]

    async def _tidy_up(self) -> None:
        case, agents, options = self._case, self._agents, self._options
        case.before_per_hour, case.nodes_before = agents.price(), len(agents.nodes)
        agents.start_over()
        used = self._cpu_s()
        balanced = case.side.endswith("balanced")
        disruption = {
            "consolidationPolicy": "Balanced" if balanced else "WhenEmptyOrUnderutilized",
            "consolidateAfter": options.consolidate_after,
            "budgets": [{"nodes": options.budget}],
        }
        await self._stage.api.patch(NODE_POOLS, "default", {"spec": {"disruption": disruption}})
        silence_s = options.quiet_seconds or quiet_s(case.wanted_nodes)
        limit_s, sampled_s = options.limit_minutes * 60.0, -_SAMPLE_S
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = agents.tally.now_s
            if now_s >= sampled_s + _SAMPLE_S:
                sampled_s = now_s
                case.course.append((round(now_s), round(agents.price(), 4), agents.tally.evictions))
            is_late = now_s >= limit_s
            case.is_quiet = now_s - agents.tally.last_change_s >= silence_s
            if is_late or case.is_quiet:
                break
        case.after_per_hour, case.nodes_after = agents.price(), len(agents.nodes)
        case.evictions = agents.tally.evictions
        case.claims_created, case.claims_deleted = agents.tally.created, agents.tally.deleted
        case.quiet_after_s = agents.tally.last_change_s if case.is_quiet else now_s
        case.pending = agents.waiting()
        case.cpu_s = {name: round(now - used.get(name, 0.0), 1) for name, now in self._cpu_s().items()}
        case.rss_mib = {name: rss_mib(each.pid) for name, each in self._stage.processes().items()}
        if self._is_ours:
            metrics = await asyncio.to_thread(self._stage.metrics)
            outcomes = counted(metrics, "karpenter_plan_placements_total", "outcome")
            case.landed = {name: int(number) for name, number in outcomes.items()}

    def _cpu_s(self) -> dict[str, float]:
        return {name: cpu_s(each.pid) for name, each in self._stage.processes().items()}
