# SPDX-License-Identifier: Apache-2.0
"""All controllers and the scheduler in one process, at one API server.

Everything is supervised: a part that fails is told of and started again, the others go on. Work begins when all kinds
have been listed once, so that nothing is made twice after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeAlias

import aiohttp
import msgspec

from karpenter.kit.clock import Clock, SystemClock
from karpenter.kit.tasks import Supervisor, TaskFailure
from karpenter.sandbox.apiclient import ApiError, Connection
from karpenter.sandbox.scheduler import Pace, Scheduler
from karpenter.sandbox.workloads.attachments import Attachments
from karpenter.sandbox.workloads.binding import ApiHands
from karpenter.sandbox.workloads.budgets import Budgets
from karpenter.sandbox.workloads.caching import Store, follow
from karpenter.sandbox.workloads.client import Client
from karpenter.sandbox.workloads.cronjobs import CronJobs
from karpenter.sandbox.workloads.daemonsets import DaemonSets
from karpenter.sandbox.workloads.deployments import Deployments
from karpenter.sandbox.workloads.garbage import GarbageCollector
from karpenter.sandbox.workloads.housekeeping import (
    Accounts,
    EventExpiry,
    PodCollector,
    stand_in_authority,
)
from karpenter.sandbox.workloads.jobs import Jobs
from karpenter.sandbox.workloads.keda import ScaledObjects, install_definition
from karpenter.sandbox.workloads.namespaces import Namespaces
from karpenter.sandbox.workloads.nodelifecycle import NodeLifecycle, TaintEviction
from karpenter.sandbox.workloads.recording import Recorder
from karpenter.sandbox.workloads.replicasets import ReplicaSets
from karpenter.sandbox.workloads.resources import (
    ATTACHMENT,
    BUDGET,
    CLAIM,
    CSI_NODE,
    NAMESPACE,
    NODE,
    POD,
    REPLICA_SET,
    SCALED_OBJECT,
    STORAGE_CLASS,
    VOLUME,
)
from karpenter.sandbox.workloads.selecting import index_labels, index_selectors
from karpenter.sandbox.workloads.settings import Settings
from karpenter.sandbox.workloads.statefulsets import StatefulSets
from karpenter.sandbox.workloads.volumes import Claims, EphemeralClaims, Volumes, claims_of
from karpenter.sandbox.workloads.world import World

__all__ = ["Manager"]

_Task: TypeAlias = Callable[[], Awaitable[None]]

_RETRY_S: Final = 1.0
_DEFAULT_MINOR: Final = 33


class _Part(Protocol):
    def tasks(self) -> list[_Task]: ...


class Manager:
    """Plays kube-controller-manager and kube-scheduler until it is cancelled."""

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        *,
        tell: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self._connection = connection
        # An address may carry credentials, which are nobody's to read in a log.
        self._address = connection.url.rpartition("@")[2].removeprefix("https://").removeprefix("http://")
        self._settings = settings
        self._tell = tell
        self._clock = clock or SystemClock()
        self._authority = connection.authority or stand_in_authority()
        self.scheduler: Scheduler | None = None
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Works until cancelled."""
        async with Client(self._connection, writes_at_once=64) as api:
            minor = await self._minor(api)
            recorder = Recorder(api, self._clock)
            world = World(api, self._clock, self._settings, recorder, self._tell)
            _index(world)
            async with Supervisor(self._clock, on_failure=self._failed) as supervisor:
                supervisor.start("events", recorder.run)
                for store in world.stores.values():
                    supervisor.start(f"follow {store.resource.plural}", _following(api, store, self._clock))
                await asyncio.gather(*(store.synced.wait() for store in world.stores.values()))
                parts = [*self._controllers(world, api), *self._scheduling(world, minor)]
                for number, part in enumerate(parts):
                    for index, task in enumerate(part.tasks()):
                        supervisor.start(f"{type(part).__name__} {number}.{index}", task)
                self.ready.set()
                self._tell(f"controllers and scheduler are at work at {self._address}")
                await asyncio.Event().wait()

    async def _minor(self, api: Client) -> int:
        """Gives the server's minor version, waiting for it to come up."""
        while True:
            try:
                said = msgspec.json.decode(await api.get("/version"))
                digits = "".join(filter(str.isdigit, str(said.get("minor", ""))))
                return int(digits) if digits else _DEFAULT_MINOR
            except (ApiError, aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as trouble:
                self._tell(f"waiting for the API server at {self._address}: {trouble}")
                await self._clock.sleep(_RETRY_S)

    def _controllers(self, world: World, api: Client) -> Iterable[_Part]:
        if self._settings.controllers:
            yield Deployments(world)
            yield ReplicaSets(world)
            yield StatefulSets(world)
            yield DaemonSets(world)
            yield Jobs(world)
            yield CronJobs(world)
            yield Budgets(world)
            yield NodeLifecycle(world)
            yield TaintEviction(world)
            yield Namespaces(world, api)
            yield Accounts(world, self._authority)
            yield Claims(world)
            yield Volumes(world)
            yield EphemeralClaims(world)
            yield Attachments(world)
            yield PodCollector(world)
            yield EventExpiry(world)
            yield GarbageCollector(world)
        if self._settings.keda:
            yield _Definition(world)
            yield ScaledObjects(world)

    def _scheduling(self, world: World, minor: int) -> Iterable[_Part]:
        if not self._settings.scheduler:
            return
        settings = self._settings
        pace = Pace(
            first_backoff_s=settings.queue_first_backoff_s,
            longest_backoff_s=settings.queue_longest_backoff_s,
            flush_s=settings.unschedulable_flush_s,
            bind_timeout_s=settings.bind_timeout_s,
        )
        scheduler = Scheduler(ApiHands(world), self._clock, pace, tell=self._tell, minor=minor)
        # Storage and namespaces first: pods are judged by them.
        world.store(NAMESPACE).subscribe(scheduler.namespace_changed)
        world.store(STORAGE_CLASS).subscribe(scheduler.class_changed)
        world.store(VOLUME).subscribe(scheduler.volume_changed)
        world.store(CLAIM).subscribe(scheduler.claim_changed)
        world.store(CSI_NODE).subscribe(scheduler.csi_node_changed)
        world.store(ATTACHMENT).subscribe(scheduler.attachment_changed)
        world.store(BUDGET).subscribe(scheduler.budget_changed)
        world.store(NODE).subscribe(scheduler.node_changed)
        world.store(POD).subscribe(scheduler.pod_changed)
        self.scheduler = scheduler
        yield _Scheduling(scheduler)

    def _failed(self, failure: TaskFailure) -> None:
        self._tell(f"{failure.name} failed: {failure.error!r} (again in {failure.retry_in_s or 0:.1f} s)")


class _Scheduling:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def tasks(self) -> list[_Task]:
        return [self._scheduler.run]


class _Definition:
    """Installs the definition of ScaledObjects, once the server takes it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def tasks(self) -> list[_Task]:
        return [self._install]

    async def _install(self) -> None:
        while len(self._world.store(SCALED_OBJECT)) == 0:
            try:
                await install_definition(self._world)
                break
            except ApiError as refused:
                self._world.tell(f"the definition of ScaledObjects is not installed: {refused}")
                await self._world.clock.sleep(30 * _RETRY_S)


def _index(world: World) -> None:
    pods = world.store(POD)
    pods.index("node", lambda pod: [pod["spec"]["nodeName"]] if pod["spec"].get("nodeName") else [])
    pods.index("claim", claims_of)
    index_labels(pods)
    index_selectors(world.store(BUDGET))
    index_selectors(world.store(REPLICA_SET))


def _following(api: Client, store: Store, clock: Clock) -> _Task:
    async def run() -> None:
        await follow(api, store, clock)

    return run
