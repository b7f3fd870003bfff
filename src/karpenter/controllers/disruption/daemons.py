# SPDX-License-Identifier: Apache-2.0
"""Nodes on which a DaemonSet has no room: which they are, what replacing them would cost, and that it may be done.

A DaemonSet that came or grew after its nodes were made leaves pods waiting that no new node helps. The nodes that lack
room, and no others, are the smallest set to replace. The plan and its price are told on the DaemonSet and kept as a
decision. Where a NodePool carries the annotation ``karpenter.sh/replace-for-daemonsets: "true"`` its nodes count as
drifted for as long as they lack room, and so are replaced within its budgets, by nodes with room.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api.core import Pod
from karpenter.api.labels import NODEPOOL, REPLACE_FOR_DAEMONSETS
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.daemons import hint, meant_for
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Recorder, Subject
from karpenter.kube.kinds import DAEMON_SETS
from karpenter.model.catalogue import Catalogue
from karpenter.model.pods import is_daemon, is_reschedulable
from karpenter.model.snapshot import Snapshot
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log, reporting
from karpenter.scheduling import Plan, SolveOptions
from karpenter.state import Cluster, Member

__all__ = ["DOES_NOT_FIT", "DaemonPlans", "Unfit"]

DOES_NOT_FIT: Final = "DaemonSetDoesNotFit"

_ALL: Final = "all"
_GATHER_S: Final = 10.0
_AGAIN_S: Final = 300.0
_QUIET_S: Final = 900.0
_LACKS_ROOM: Final = "FailedScheduling"

# Solves somewhere else than on the event loop.
Solver = Callable[[Snapshot, tuple[Pod, ...], SolveOptions], Plan]


@dataclass(frozen=True, slots=True)
class Unfit:
    """A node of ours without room for a DaemonSet's pod.

    Attributes:
        claim: Its claim.
        node: Its name.
        pool: Its pool.
        daemon_set: The DaemonSet, as namespace/name.
        words: What it lacks.
    """

    claim: str
    node: str
    pool: str
    daemon_set: str
    words: str


class DaemonPlans:
    """Finds such nodes and reckons; ``run`` must be kept running by a supervisor."""

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        cluster: Cluster,
        catalogues: Callable[[], Awaitable[Mapping[str, Catalogue]]],
        solver: Solver,
        options: SolveOptions,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._catalogues = catalogues
        self._solver = solver
        self._options = options
        self._recorder = recorder
        self._decisions = decisions
        self._log = get_log("daemonset.plans")
        self._listeners: list[Callable[[str], None]] = []
        self.unfit: dict[str, Unfit] = {}
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            workers=1,
            on_error=reporting(self._log, metrics, "daemonset.plans", "DaemonSet"),
        )
        cluster.informers.pods.on_change(self._pod_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    def listen(self, listener: Callable[[str], None]) -> None:
        """Adds a listener; it hears the claims of nodes that begin to lack room, or no longer do."""
        self._listeners.append(listener)

    def drift(self, claim: NodeClaim) -> str:
        """Gives the reason for which a claim is to be replaced, if it lacks room and its pool allows it."""
        pool = self._cluster.pool(claim.metadata.labels.get(NODEPOOL, ""))
        is_allowed = pool is not None and pool.metadata.annotations.get(REPLACE_FOR_DAEMONSETS) == "true"
        return DOES_NOT_FIT if is_allowed and claim.metadata.name in self.unfit else ""

    async def reconcile(self, _: str) -> float | None:
        """Looks which nodes lack room now, and plans anew if they are others than before."""
        found = {**self._leaving(), **self._found()}
        changed = {name for name in {*found, *self.unfit} if found.get(name) != self.unfit.get(name)}
        self.unfit = found
        for name in sorted(changed):
            for listener in self._listeners:
                listener(name)
        if changed and found:
            await self._plan()
        return _AGAIN_S if found else None

    def _leaving(self) -> dict[str, Unfit]:
        """Gives what was found before of nodes that are on their way out: that is being put right."""
        members = {name: self._cluster.member(name) for name in self.unfit}
        return {
            name: self.unfit[name]
            for name, member in members.items()
            if member is not None and self._cluster.is_leaving(member)
        }

    def _found(self) -> dict[str, Unfit]:
        found = {}
        for pod in self._cluster.unbound():
            member = self._cluster.member(meant_for(pod)) if is_daemon(pod) else None
            if member is None or member.node is None or member.claim is None:
                continue
            if self._cluster.is_leaving(member) or pod.status.nominated_node_name:
                continue
            problem = hint(pod, member.node, self._cluster.pods_on(member.name), member.claim.metadata.name)
            if problem is not None and problem.reason == _LACKS_ROOM:
                found[member.claim.metadata.name] = _unfit(member, member.claim, pod, problem.message)
        return found

    async def _plan(self) -> None:
        catalogues = await self._catalogues()
        snapshot = self._cluster.snapshot(catalogues)
        nodes = {each.node for each in self.unfit.values()}
        prices = [view.price_per_hour for view in snapshot.nodes if view.name in nodes]
        before = sum(each or 0.0 for each in prices)
        pods = tuple(
            pod for name in sorted(nodes) for pod in self._cluster.pods_on(name) if is_reschedulable(pod)
        )
        plan = await asyncio.to_thread(self._solver, snapshot.without(nodes), pods, self._options)
        self._tell(plan, before, len(pods))

    def _tell(self, plan: Plan, before: float, pods: int) -> None:
        after = plan.price_per_hour
        stuck = sum(len(each.pods) for each in plan.rejections)
        for daemon_set in sorted({each.daemon_set for each in self.unfit.values()}):
            own = [each for each in self.unfit.values() if each.daemon_set == daemon_set]
            closed = sorted({each.pool for each in own if not self._is_allowed(each.pool)})
            cure = (
                f"kubectl annotate nodepool {' '.join(closed)} {REPLACE_FOR_DAEMONSETS}=true"
                " has them replaced within budgets"
                if closed
                else "they are replaced within budgets"
            )
            problem = f"; {stuck} pods would have no place" if stuck else ""
            words = (
                f"{len(own)} nodes lack room for it ({_named(own)}); replacing all {len(self.unfit)} such nodes"
                f" moves {pods} pods and takes {before:.4f} $/h to {after:.4f} $/h{problem}; {cure}"
            )
            namespace, _, name = daemon_set.partition("/")
            found = self._cluster.informers.daemon_sets.get(name, namespace)
            if found is not None:
                self._recorder.tell(
                    Subject.of(DAEMON_SETS, found), DOES_NOT_FIT, words, type="Warning", quiet_s=_QUIET_S
                )
            self._log.info(
                "nodes lack room for a daemonset",
                DaemonSet={"namespace": namespace, "name": name},
                detail=words,
            )
            self._decisions.record(
                DecisionKind.PLAN,
                f"DaemonSet/{daemon_set}",
                *(f"NodeClaim/{each.claim}" for each in own),
                reason=DOES_NOT_FIT,
                message=words,
                price_before=before,
                price_after=after,
                nodes={each.node: each.words for each in own},
            )

    def _is_allowed(self, name: str) -> bool:
        pool = self._cluster.pool(name)
        return pool is not None and pool.metadata.annotations.get(REPLACE_FOR_DAEMONSETS) == "true"

    def _pod_changed(self, change: Change[Pod]) -> None:
        pods = [each for each in (change.old, change.new) if each is not None]
        if any(is_daemon(pod) and not pod.spec.node_name for pod in pods):
            self._queue.add_after(_ALL, _GATHER_S)


def _unfit(member: Member, claim: NodeClaim, pod: Pod, words: str) -> Unfit:
    owner = next(each.name for each in pod.metadata.owner_references if each.kind == DAEMON_SETS.name)
    return Unfit(claim.metadata.name, member.name, member.pool, f"{pod.metadata.namespace}/{owner}", words)


def _named(nodes: list[Unfit]) -> str:
    found = sorted(each.node for each in nodes)
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
