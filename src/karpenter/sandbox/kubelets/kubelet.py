# SPDX-License-Identifier: Apache-2.0
"""One kubelet: joins with what its machine was told, reports, keeps its lease, runs the pods it is given.

It registers once, as real ones do: a Node that somebody deletes does not come back while the machine runs. Where a
Node of that name belongs to another machine, it waits until that one is gone. A kubelet that falls silent does nothing
at all any more, and takes everything up again if its behaviour is changed back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import aiohttp
import msgspec

from karpenter.facts import instance_types
from karpenter.kit.tasks import TaskFactory
from karpenter.model.resources import Resources
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.kubelets.admission import Refusal, Room, admit
from karpenter.sandbox.kubelets.behaviour import WELL, Behaviour, State
from karpenter.sandbox.kubelets.boot import family_of, read_boot
from karpenter.sandbox.kubelets.capacity import attachable_volumes, devices_of, size_of
from karpenter.sandbox.kubelets.kubeletconfig import BootError
from karpenter.sandbox.kubelets.machines import Machine
from karpenter.sandbox.kubelets.nodeobjects import (
    Told,
    csi_labels,
    csi_node,
    csi_registrations,
    kubelet_version,
    lease,
    lease_renewal,
    node_labels,
    node_object,
    node_status,
)
from karpenter.sandbox.kubelets.objects import Node, PodView
from karpenter.sandbox.kubelets.pace import Pace
from karpenter.sandbox.kubelets.pods import Keeper, Run, Writer
from karpenter.sandbox.kubelets.settings import Settings

__all__ = ["Kubelet", "Server", "Spawn", "told_of"]

_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_CSI_NODES: Final = "/apis/storage.k8s.io/v1/csinodes"
# The EBS driver's container on nodes, and its flag for how many volumes it attaches at most.
_DRIVER: Final = "ebs-plugin"
_ATTACH_LIMIT: Final = "--volume-attach-limit="
_RETRY_S: Final = 2.0
_BY_NODE: Final = frozenset({"NodeAffinity", "TaintToleration"})


class Server(Writer, Protocol):
    """What of an API server a kubelet needs."""

    async def get(self, path: str) -> bytes:
        """Gives an object."""
        ...

    async def create(self, path: str, document: Mapping[str, Any]) -> bytes:
        """Creates an object."""
        ...

    async def patch_once(self, path: str, change: Mapping[str, Any]) -> bytes:
        """Patches an object without trying again."""
        ...


class Spawn(Protocol):
    """Starts work that somebody keeps, and starts it anew where it fails."""

    def __call__(self, work: TaskFactory, name: str) -> asyncio.Task[None]:
        """Starts it."""
        ...


def told_of(machine: Machine, settings: Settings, clusters: Iterable[str]) -> Told:
    """Works out from a machine and its user data what its node will be.

    Raises:
        BootError: The machine cannot join.
    """
    family = family_of(machine.image_name)
    boot = read_boot(machine.user_data, family)
    wanted = {settings.cluster} if settings.cluster else set(clusters)
    if wanted and boot.cluster not in wanted:
        raise BootError(f"it is told to join the cluster {boot.cluster!r}, not {' or '.join(sorted(wanted))}")
    facts = instance_types().get(machine.instance_type)
    if facts is None:
        raise BootError(f"nothing is known of the type {machine.instance_type}")
    return Told(
        machine,
        boot,
        size_of(
            facts,
            boot,
            machine.disks,
            memory_loss=settings.memory_loss,
            root_device=machine.root_device,
        ),
        devices_of(facts, boot.family) if settings.devices else Resources(),
        settings.kubelet_version or kubelet_version(machine.image_name),
        settings.kubelet_port,
    )


class Kubelet:
    """The kubelet of one running machine."""

    def __init__(
        self,
        machine: Machine,
        *,
        api: Server,
        keeper: Keeper,
        pace: Pace,
        settings: Settings,
        spawn: Spawn,
        tell: Callable[[str], None],
    ) -> None:
        self.machine = machine
        self.behaviour = WELL
        self.joined = False
        self.alive = False
        self.next_renewal = 0.0
        self.renewing = False
        self._given_up = False
        self._api = api
        self._keeper = keeper
        self._pace = pace
        self._settings = settings
        self._spawn = spawn
        self._tell = tell
        self._changed = asyncio.Event()
        self._network = asyncio.Event()
        self._node: Node | None = None
        self._uid = ""
        self._told: Told | None = None
        self._devices = False
        self._volumes: int | None = None
        self._since: dict[tuple[str, str], str] = {}
        self._odd: dict[str, str] = {}
        self._bound: dict[str, PodView] = {}
        self._runs: dict[str, Run] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def name(self) -> str:
        """Gives the node's name."""
        return self.machine.host_name

    async def run(self, wait_s: float, clusters: Iterable[str]) -> None:
        """Lives as long as the machine runs; ends early if it can never join.

        Args:
            wait_s: Model seconds until it joins.
            clusters: The names of the clusters that it may join.
        """
        while not self.behaviour.joins:
            await self._changed.wait()
            self._changed.clear()
        await self._pace.sleep(wait_s)
        try:
            self._told = told = told_of(self.machine, self._settings, clusters)
        except BootError as broken:
            self._tell(f"{self.machine.id} does not join: {broken.message}")
            return
        adopted = await self._register(told)
        await self._write_lease()
        self.next_renewal = self._pace.clock.monotonic() + self._settings.lease_s
        self.joined = True
        if not adopted:
            await self._pace.sleep(self._settings.ready_s)
        await self._report(told, adopted=adopted)

    def power_off(self) -> None:
        """Stops everything at once, as a machine does that is switched off."""
        self._fall_silent()
        for run in self._runs.values():
            self._keeper.release(run)
        self._runs.clear()
        self.joined = False

    def set_behaviour(self, behaviour: Behaviour) -> None:
        """Changes what goes wrong."""
        if behaviour != self.behaviour:
            self.behaviour = behaviour
            self._changed.set()

    def see_node(self, node: Node) -> None:
        """Takes note of the Node as it is now; one that the control plane has given up is set right."""
        self._node = node
        if self.alive and any(
            each.type == "Ready" and each.status == "Unknown" for each in node.status.conditions
        ):
            self._since.clear()
            self._given_up = True
            self._changed.set()

    def see_pod(self, pod: PodView) -> None:
        """Takes note of a pod that is bound to this node."""
        uid = pod.metadata.uid
        self._bound[uid] = pod
        if not self.alive:
            return
        run = self._runs.get(uid)
        if run is None:
            run = self._runs[uid] = Run(pod)
        run.pod = pod
        self._look_at_driver(pod)
        if pod.metadata.deletion_timestamp is not None:
            if not run.ending:
                self._work(run, partial(self._keeper.end, run, self.machine.address))
                run.ending = True
        elif uid not in self._tasks:
            self._work(run, partial(self._keeper.live, run, self.machine.address, self._admit))
        elif self._tasks[uid].done() and run.is_doubted:
            self._work(run, partial(self._keeper.insist, run))

    def lose_pod(self, uid: str) -> None:
        """Takes note that a pod is no more."""
        self._bound.pop(uid, None)
        task = self._tasks.pop(uid, None)
        if task is not None:
            task.cancel()
        run = self._runs.pop(uid, None)
        if run is not None:
            self._keeper.release(run)

    async def renew(self) -> None:
        """Renews the lease; what fails now is tried again with the next renewal."""
        self.renewing = True
        try:
            change = {"spec": lease_renewal(self._pace.clock.now())}
            await self._api.patch_once(f"{_LEASES}/{self.name}", change)
        except ApiError as refused:
            if refused.status == 404:
                await self._write_lease()
        except (TimeoutError, aiohttp.ClientError):
            return
        finally:
            self.renewing = False

    async def _admit(self, run: Run) -> Refusal | None:
        told = self._told
        assert told is not None  # noqa: S101 - pods are taken after the boot
        refusal = self._decide(run, told)
        if refusal is not None and refusal.reason in _BY_NODE:
            # The scheduler may know of a label or a taint that our watch has not told yet.
            self._node = await self._existing(told) or self._node
            refusal = self._decide(run, told)
        if refusal is None and not run.pod.spec.host_network:
            # It is taken, and starts when the node has a network: that is what a node waits for to be Ready.
            run.admitted = True
            await self._network.wait()
        return refusal

    def _decide(self, run: Run, told: Told) -> Refusal | None:
        node = self._node
        more = told.devices if self._devices else Resources()
        room = Room(
            told.size.allocatable + more,
            node.metadata.labels if node else node_labels(told),
            node.spec.taints if node else (),
        )
        others = (each.load for each in self._runs.values() if each.admitted and each is not run)
        return admit(run.pod, room, others)

    async def _register(self, told: Told) -> bool:
        """Makes the Node and says whether it was there before."""
        complained = False
        while True:
            try:
                made = await self._api.create(_NODES, node_object(told, self._pace.clock.now()))
            except ApiError as refused:
                found = await self._existing(told) if refused.status == 409 else None
                if found is not None and found.spec.provider_id == told.machine.provider_id:
                    self._note(found)
                    return True
                if not complained:
                    self._tell(f"{told.machine.id} cannot join as {told.name} yet: {refused.message}")
                complained = True
            else:
                self._note(msgspec.json.decode(made, type=Node))
                return False
            await self._pace.clock.sleep(_RETRY_S)

    async def _existing(self, told: Told) -> Node | None:
        try:
            return msgspec.json.decode(await self._api.get(f"{_NODES}/{told.name}"), type=Node)
        except ApiError:
            return None

    def _note(self, node: Node) -> None:
        self._node = node
        self._uid = node.metadata.uid

    async def _report(self, told: Told, *, adopted: bool) -> None:
        began = self._pace.clock.monotonic()
        written: tuple[State, bool] | None = None
        written_at = 0.0
        while True:
            self._changed.clear()
            age_s = self._pace.model_s_since(began)
            state = self.behaviour.at(age_s)
            (self._network.set if state.ready else self._network.clear)()
            self._devices = adopted or age_s >= self._settings.devices_s
            if state.silent:
                self._fall_silent()
                written = None
            else:
                late = self._pace.clock.monotonic() - written_at >= self._settings.heartbeat_s
                if written != (state, self._devices) or late or self._given_up:
                    self._given_up = False
                    await self._write_status(told, state)
                    written, written_at = (state, self._devices), self._pace.clock.monotonic()
                if not self.alive:
                    await self._come_alive(told)
            heartbeat_at = None if state.silent else written_at + self._settings.heartbeat_s
            await self._pace.wait(self._changed, self._until_next(age_s, heartbeat_at))

    def _until_next(self, age_s: float, heartbeat_at: float | None) -> float:
        """Gives the real seconds until something is due: a trouble, the devices, a heartbeat."""
        moments = [self.behaviour.next_after(age_s), None if self._devices else self._settings.devices_s]
        until = [(each - age_s) / self._pace.speed for each in moments if each is not None]
        until.append((heartbeat_at or math.inf) - self._pace.clock.monotonic())
        # A moment that has just passed is looked at again at once, but never without letting others run.
        return min(max(min(until), 0.01), self._settings.heartbeat_s)

    async def _come_alive(self, told: Told) -> None:
        if self._settings.csi:
            self._volumes = self._attachable(told)
            try:
                await self._api.create(_CSI_NODES, csi_node(told, self._uid, self._volumes))
            except ApiError as refused:
                if refused.status != 409:
                    raise
            change = {"metadata": {"labels": csi_labels(told)}}
            await self._api.patch(f"{_NODES}/{told.name}", change)
        self.alive = True
        for pod in list(self._bound.values()):
            self.see_pod(pod)

    def _attachable(self, told: Told) -> int:
        """Return how many volumes the EBS driver says that it attaches: what it was told, or what the machine can."""
        for pod in self._bound.values():
            if pod.metadata.deletion_timestamp is not None:
                continue
            words = [word for each in pod.spec.containers if each.name == _DRIVER for word in each.args]
            told_limit = [
                each.removeprefix(_ATTACH_LIMIT) for each in words if each.startswith(_ATTACH_LIMIT)
            ]
            if told_limit and told_limit[-1].isdecimal():
                return int(told_limit[-1])
        facts = instance_types()[told.machine.instance_type]
        return attachable_volumes(facts, len(told.machine.disks))

    def _look_at_driver(self, pod: PodView) -> None:
        """Register the EBS driver anew where its pod has come with another limit."""
        told = self._told
        if self._volumes is None or told is None or all(each.name != _DRIVER for each in pod.spec.containers):
            return
        volumes = self._attachable(told)
        if volumes != self._volumes:
            self._volumes = volumes
            self._spawn(partial(self._register_driver, told, volumes), f"CSINode {self.name}")

    async def _register_driver(self, told: Told, volumes: int) -> None:
        for change in csi_registrations(told, volumes):
            await self._api.patch(f"{_CSI_NODES}/{told.name}", change)

    def _fall_silent(self) -> None:
        self.alive = False
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        for run in self._runs.values():
            run.ending = False

    async def _write_status(self, told: Told, state: State) -> None:
        now = self._pace.clock.now()
        conditions = dict(state.conditions)
        # A condition of an unusual type stays in the Node for good, so what has healed must say so.
        healed = tuple(
            (kind, "False" if status == "True" else "True")
            for kind, status in self._odd.items()
            if kind not in conditions
        )
        self._odd |= {kind: status for kind, status in conditions.items() if not kind.endswith("Pressure")}
        shown = replace(state, conditions=state.conditions + healed)
        status = node_status(told, shown, now, devices=self._devices, since=self._since)
        self._since = {
            (each["type"], each["status"]): each["lastTransitionTime"] for each in status["conditions"]
        }
        try:
            await self._api.patch(f"{_NODES}/{told.name}/status", {"status": status})
        except ApiError as refused:
            if refused.status != 404:
                raise

    async def _write_lease(self) -> None:
        try:
            await self._api.create(_LEASES, lease(self.name, self._uid, self._pace.clock.now()))
        except ApiError as refused:
            if refused.status != 409:
                self._tell(f"{self.name} has no lease: {refused.message}")

    def _work(self, run: Run, work: TaskFactory) -> None:
        uid = run.pod.metadata.uid
        before = self._tasks.pop(uid, None)
        if before is not None:
            before.cancel()
        self._tasks[uid] = self._spawn(work, f"pod {run.pod.key}")
