# SPDX-License-Identifier: Apache-2.0
"""All kubelets of a cluster in one process: one watch of nodes, one of pods, one look at the machines now and then.

A machine that runs gets a kubelet; one that does not loses it, and its Node turns NotReady in the control plane's own
time, because the lease stops. With ``cloud_node_lifecycle`` Nodes of terminated machines are deleted some seconds
later, as AWS's cloud controller manager does; that one waits for the Node to be NotReady, which takes longer.

Leases are renewed in small groups, spread over the period. Each part is kept running by a supervisor: an outage of the
API server or of the model delays, and ends nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp

from karpenter.api.labels import NODEPOOL
from karpenter.errors import KarpenterError
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock, SystemClock
from karpenter.kit.tasks import Supervisor, TaskFactory, TaskFailure, supervise
from karpenter.sandbox.apiclient import Api, ApiError, Connection
from karpenter.sandbox.kubelets.behaviour import (
    ANNOTATION,
    WELL,
    Behaviour,
    BehaviourError,
    Rules,
    read_behaviour,
)
from karpenter.sandbox.kubelets.kubelet import Kubelet
from karpenter.sandbox.kubelets.machines import Machines, Overview, Row, Yard
from karpenter.sandbox.kubelets.objects import Node, PodView
from karpenter.sandbox.kubelets.pace import Pace
from karpenter.sandbox.kubelets.pods import Addresses, Keeper, Writer
from karpenter.sandbox.kubelets.reflecting import reflect
from karpenter.sandbox.kubelets.settings import Settings

__all__ = ["Fleet"]

_LEASE_TICKS: Final = 20
_REAP_S: Final = 1.0
_BOOTS_AT_ONCE: Final = 16
_PATIENCE: Final = BackoffPolicy(base_s=0.5, cap_s=5.0, jitter=0.2)


class Fleet:
    """The kubelets of all machines of one EC2 model, at one API server.

    Args:
        connection: The API server.
        model: The address of the model, or machines in its place.
        settings: The dials.
        tell: Hears what is worth telling, a line each.
        rules: A file of behaviours.
        clock: The time.
        keeper: Makes what leads pods through their lives.
    """

    def __init__(
        self,
        connection: Connection,
        model: str | Machines,
        settings: Settings,
        *,
        tell: Callable[[str], None],
        rules: Path | None = None,
        clock: Clock | None = None,
        keeper: Callable[[Writer, Pace, Settings, Addresses], Keeper] = Keeper,
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._clock = clock or SystemClock()
        self._pace = Pace(self._clock, settings.speed or 1.0)
        self._api = Api(connection, writes_at_once=settings.writes_at_once)
        self._model = model
        self._rules = Rules(rules)
        self._keeper = keeper(self._api, self._pace, settings, Addresses(settings.first_pod_address))
        self._kubelets: dict[str, Kubelet] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._by_node: dict[str, Kubelet] = {}
        self._behaviours: dict[str, str] = {}
        self._dead: dict[str, float] = {}
        self._played: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, dict[str, PodView]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._complaints: set[str] = set()

    @property
    def joined(self) -> int:
        """Counts the nodes that are there."""
        return sum(each.joined for each in self._kubelets.values())

    async def run(self) -> None:
        """Plays all kubelets until it is cancelled."""
        timeout = aiohttp.ClientTimeout(total=10)
        async with self._api, aiohttp.ClientSession(timeout=timeout) as session:
            yard = Yard(self._model, session) if isinstance(self._model, str) else self._model
            try:
                async with Supervisor(
                    self._clock, on_failure=self._failed, backoff=_PATIENCE, grace_s=3.0
                ) as kept:
                    kept.start("nodes", self._watch_nodes)
                    kept.start("pods", self._watch_pods)
                    kept.start("machines", lambda: self._watch_machines(yard))
                    kept.start("leases", self._renew)
                    if self._settings.cloud_node_lifecycle:
                        kept.start("cloud", self._reap)
                    await asyncio.Event().wait()
            finally:
                for task in list(self._tasks):
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await self._keeper.close()

    async def _watch_nodes(self) -> None:
        await reflect(self._api, "/api/v1/nodes", Node, replace=self._replace_nodes, change=self._change_node)

    async def _watch_pods(self) -> None:
        await reflect(self._api, "/api/v1/pods", PodView, replace=self._replace_pods, change=self._change_pod)

    def _replace_nodes(self, found: Sequence[Node]) -> None:
        names = {each.metadata.name for each in found}
        for node in [each for name, each in self._nodes.items() if name not in names]:
            self._change_node("DELETED", node)
        for node in found:
            self._change_node("ADDED", node)

    def _change_node(self, kind: str, node: Node) -> None:
        kubelet = self._by_node.get(node.metadata.name)
        if kubelet is not None and kubelet.machine.provider_id != node.spec.provider_id:
            kubelet = None
        if kind == "DELETED":
            self._nodes.pop(node.metadata.name, None)
            if kubelet is not None and kubelet.joined:
                if self._settings.rejoins:
                    self._switch_off(kubelet.machine.id)
                else:
                    self._lives[kubelet.machine.id].cancel()
                    kubelet.power_off()
            return
        self._nodes[node.metadata.name] = node
        if kubelet is not None:
            kubelet.see_node(node)
            self._settle_behaviour(kubelet)

    def _replace_pods(self, found: Sequence[PodView]) -> None:
        uids = {each.metadata.uid for each in found}
        for pod in [each for pods in self._pods.values() for each in pods.values()]:
            if pod.metadata.uid not in uids:
                self._change_pod("DELETED", pod)
        for pod in found:
            self._change_pod("ADDED", pod)

    def _change_pod(self, kind: str, pod: PodView) -> None:
        node, uid = pod.spec.node_name, pod.metadata.uid
        if not node:
            return
        kubelet = self._by_node.get(node)
        if kind != "DELETED":
            self._pods.setdefault(node, {})[uid] = pod
            if kubelet is not None:
                kubelet.see_pod(pod)
            return
        pods = self._pods.get(node, {})
        pods.pop(uid, None)
        if not pods:
            self._pods.pop(node, None)
        if kubelet is not None:
            kubelet.lose_pod(uid)

    async def _watch_machines(self, yard: Machines) -> None:
        while True:
            overview = await yard.overview()
            self._pace.speed = self._settings.speed or overview.speed or 1.0
            self._refresh_rules()
            await self._look(yard, overview)
            await self._clock.sleep(self._settings.poll_s)

    async def _look(self, yard: Machines, overview: Overview) -> None:
        rows = {each.id: each for each in overview.machines}
        for machine_id in [each for each in self._kubelets if not _runs(rows.get(each))]:
            self._switch_off(machine_id)
        for row in overview.machines:
            if row.state == "terminated":
                self._dead.setdefault(row.id, self._clock.monotonic())
        for machine_id in self._played - rows.keys():
            self._dead.setdefault(machine_id, self._clock.monotonic())
        for row in overview.machines:
            if row.id in self._kubelets and self._behaviours.get(row.id) != row.behaviour:
                self._behaviours[row.id] = row.behaviour
                self._settle_behaviour(self._kubelets[row.id])
        new = [each for each in overview.machines if _runs(each) and each.id not in self._kubelets]
        for start in range(0, len(new), _BOOTS_AT_ONCE):
            await asyncio.gather(
                *(self._switch_on(yard, each, overview) for each in new[start : start + _BOOTS_AT_ONCE])
            )

    async def _switch_on(self, yard: Machines, row: Row, overview: Overview) -> None:
        machine = await yard.machine(row.id)
        if machine is None or machine.running_since is None:
            return
        kubelet = Kubelet(
            machine,
            api=self._api,
            keeper=self._keeper,
            pace=self._pace,
            settings=self._settings,
            spawn=self._spawn,
            tell=self._tell,
        )
        self._kubelets[row.id] = kubelet
        self._by_node[kubelet.name] = kubelet
        self._played.add(row.id)
        self._behaviours[row.id] = row.behaviour
        for pod in self._pods.get(kubelet.name, {}).values():
            kubelet.see_pod(pod)
        self._settle_behaviour(kubelet)
        running_s = (overview.now - machine.running_since).total_seconds()
        wait_s = max(self._settings.join_s - running_s, 0.0)
        work = partial(kubelet.run, wait_s, overview.clusters)
        self._lives[row.id] = self._spawn(work, f"kubelet {kubelet.name}")

    def _switch_off(self, machine_id: str) -> None:
        kubelet = self._kubelets.pop(machine_id)
        self._lives.pop(machine_id).cancel()
        kubelet.power_off()
        if self._by_node.get(kubelet.name) is kubelet:
            del self._by_node[kubelet.name]

    def _settle_behaviour(self, kubelet: Kubelet) -> None:
        node = self._nodes.get(kubelet.name)
        annotation = node.metadata.annotations.get(ANNOTATION) if node else None
        kubelet.set_behaviour(
            self._read(kubelet, annotation)
            or self._rules.of(_fields(kubelet))
            or self._read(kubelet, self._behaviours.get(kubelet.machine.id))
            or WELL
        )

    def _read(self, kubelet: Kubelet, text: str | None) -> Behaviour | None:
        try:
            return None if text is None else read_behaviour(text)
        except BehaviourError as wrong:
            self._complain(f"{kubelet.name}: {wrong.message} ({wrong.hint})")
            return None

    def _refresh_rules(self) -> None:
        try:
            changed = self._rules.refresh()
        except BehaviourError as wrong:
            self._complain(wrong.message)
            return
        if changed:
            for kubelet in self._kubelets.values():
                self._settle_behaviour(kubelet)

    async def _renew(self) -> None:
        period_s = self._settings.lease_s
        while True:
            now = self._clock.monotonic()
            due = [
                each
                for each in self._kubelets.values()
                if each.joined and each.alive and each.next_renewal <= now
            ]
            # Those that joined together are pulled apart, so that renewals do not come in bursts.
            most = max(len(self._kubelets) * 2 // _LEASE_TICKS, 4)
            for kubelet in due[:most]:
                kubelet.next_renewal = now + period_s
                if not kubelet.renewing:
                    # Each for itself: a slow answer to one must not make the others late.
                    self._spawn(kubelet.renew, f"lease of {kubelet.name}")
            await self._clock.sleep(period_s / _LEASE_TICKS)

    async def _reap(self) -> None:
        while True:
            await self._clock.sleep(_REAP_S)
            now = self._clock.monotonic()
            for node in list(self._nodes.values()):
                machine_id = node.spec.provider_id.rpartition("/")[2]
                died = self._dead.get(machine_id)
                if (
                    died is None
                    or node.metadata.deletion_timestamp
                    or now - died < self._settings.cloud_delete_s
                ):
                    continue
                with contextlib.suppress(ApiError):
                    await self._api.delete(
                        f"/api/v1/nodes/{node.metadata.name}", {"preconditions": {"uid": node.metadata.uid}}
                    )

    def _spawn(self, work: TaskFactory, name: str) -> asyncio.Task[None]:
        kept = supervise(name, work, clock=self._clock, on_failure=self._failed, backoff=_PATIENCE)
        task = asyncio.create_task(kept, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _failed(self, failure: TaskFailure) -> None:
        error = failure.error
        said = error.message if isinstance(error, KarpenterError) else f"{type(error).__name__}: {error}"
        if failure.failures == 1:
            self._tell(f"{failure.name}: {said}; trying again")

    def _complain(self, text: str) -> None:
        if text not in self._complaints:
            self._complaints.add(text)
            self._tell(text)


def _runs(row: Row | None) -> bool:
    return row is not None and row.state == "running"


def _fields(kubelet: Kubelet) -> dict[str, str]:
    machine = kubelet.machine
    return {
        "instance": machine.id,
        "node": kubelet.name,
        "instanceType": machine.instance_type,
        "zone": machine.zone,
        "nodepool": machine.tags.get(NODEPOOL, ""),
    }
