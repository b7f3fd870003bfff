# SPDX-License-Identifier: Apache-2.0
"""The one composition root: everything is made here, started in order, watched over, and stopped in order.

Every replica follows the cluster and answers probes; the one that holds the lease also runs the controllers, and every
write of every controller passes the lease's fence. A replica that loses the lease stops its controllers and waits for
its next turn. On a signal the controllers stop, the lease is given up and the process ends, in a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from karpenter import __version__
from karpenter.controllers.buffers import Buffers
from karpenter.controllers.consistency import Consistency
from karpenter.controllers.daemons import DaemonHints
from karpenter.controllers.departures import Departures
from karpenter.controllers.expiration import Expiration
from karpenter.controllers.garbage import GarbageCollection
from karpenter.controllers.legacy import Hydration, LegacyConversion, OldNodeLabels
from karpenter.controllers.lifecycle import Lifecycle, LifecycleSettings
from karpenter.controllers.metrics import ObjectMetrics
from karpenter.controllers.nodepool import NodePools
from karpenter.controllers.overlays import Overlays, OverlayStore
from karpenter.controllers.poolproblems import PoolProblems
from karpenter.controllers.provisioning import Market, Provisioner, ProvisionerSettings
from karpenter.controllers.registrationhealth import HealthSettings, LaunchBreaker, RegistrationHealth
from karpenter.controllers.termination import ClaimTermination, Evictions, NodeTermination
from karpenter.controllers.unreadable import UnreadableObjects
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kit.tasks import Supervisor, TaskFailure
from karpenter.kube import (
    Client,
    ClusterConfig,
    Elector,
    FencedError,
    KubeError,
    NotFoundError,
    Recorder,
    Undecodable,
)
from karpenter.observe import DecisionLog, Metrics, get_log, measured
from karpenter.operator.measuring import MeasuredCloud
from karpenter.operator.parts import CloudParts, Surroundings
from karpenter.operator.probes import Probes
from karpenter.operator.removing import removing
from karpenter.operator.settings import Settings
from karpenter.scheduling import SolveOptions, solve
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS, Cluster, Informers

__all__ = ["CloudParts", "Operator", "Surroundings"]

_LAG_EVERY_S: Final = 0.1
_STOP_S: Final = 3.0
# How long a person waits for the API server without a word.
_PATIENCE_S: Final = 2.0
# Go's names of architectures, where they differ.
_GO_ARCH: Final = {"x86_64": "amd64", "aarch64": "arm64"}


# Makes the cloud for a replica; every mutating call of it passes the fence.
CloudFactory = Callable[[Surroundings, Callable[[], None]], Awaitable[CloudParts]]


class Operator:
    """One replica of the controller."""

    def __init__(
        self,
        settings: Settings,
        config: ClusterConfig,
        make_cloud: CloudFactory,
        *,
        identity: str,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._config = config
        self._make_cloud = make_cloud
        self._identity = identity
        self._clock = clock
        self._log = get_log("operator")
        self._elector: Elector | None = None
        self._informers: Informers | None = None
        self._clients: tuple[Client, ...] = ()
        self._problem = "starting"
        self._is_leading = False
        self.metrics = Metrics(details=settings.detailed_metrics)
        arch = _GO_ARCH.get(platform.machine(), platform.machine())
        python = f"python{platform.python_version()}"
        self.metrics.build_info.labels(__version__, python, arch, "").set(1)
        self._objects: ObjectMetrics | None = None
        self._started_at = clock.monotonic()
        self._unreadable: dict[tuple[str, str, str], str] = {}
        self.decisions = DecisionLog(clock)
        self.breaker = LaunchBreaker(clock)
        self.ports: Mapping[str, int] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until told to stop.

        Raises:
            KarpenterError: It cannot start: no server, no rights, no CRDs, no cloud.
        """
        settings = self._settings
        probes = Probes(
            self.metrics,
            problem=self.problem,
            warnings=self.warnings,
            before_metrics=self._fill_in,
            metrics_port=settings.metrics_port,
            health_port=settings.health_probe_port,
            host=settings.bind_address,
            profiling=settings.enable_profiling,
        )
        if settings.early_placement and not settings.initialization_timeout:
            self._log.warning(
                "early placement without an initialization timeout: a node that never becomes ready keeps its pods",
                hint="set --initialization-timeout, e.g. 10m: then such a node is replaced",
            )
        async with probes, self._client(fenced=False) as lease_client, self._client(fenced=True) as client:
            self.ports = probes.ports
            self._clients = (lease_client, client)
            self._elector = self._candidate(lease_client)
            waiting = asyncio.create_task(self._tell_of_waiting(), name="patience")
            try:
                await self._check_server(client)
            finally:
                waiting.cancel()
            surroundings = self._surroundings(client)
            cloud = await self._make_cloud(surroundings, self._fence)
            await self._serve(surroundings, cloud, stop)

    def problem(self) -> str:
        """Says why this replica is not ready; empty if it is."""
        if self._problem:
            return self._problem
        if self._informers is not None and not self._informers.is_synced:
            missing = [each.kind.plural for each in self._informers.all if not each.is_synced]
            return f"waiting for the first list of {', '.join(missing)}"
        return self._informers.staleness if self._informers is not None else ""

    def warnings(self) -> Sequence[str]:
        """Names the objects that do not decode: a person must mend them, and this replica is ready all the same."""
        return tuple(map(str, self._informers.unreadable)) if self._informers is not None else ()

    async def _serve(self, parts: Surroundings, cloud: CloudParts, stop: asyncio.Event) -> None:
        controllers = self._controllers(parts, cloud)
        informers = parts.cluster.informers
        background = Supervisor(self._clock, on_failure=self._task_failed, grace_s=_STOP_S)
        team = Supervisor(self._clock, on_failure=self._task_failed, grace_s=_STOP_S)
        async with background, team:
            for informer in informers.all:
                background.start(f"informer/{informer.kind.plural}", informer.run)
            background.start("loop-lag", self._measure_lag)
            background.start("events", parts.recorder.run)
            background.start("metrics", parts.objects.run)
            await self._or_stop(informers.wait_synced(), stop)
            self._problem = ""
            elector = self._elector
            if elector is not None:
                background.start("lease", elector.run)
            background.start("leading", lambda: self._lead(team, controllers, cloud.taken_over))
            await stop.wait()
            self._log.info("stopping")
            await background.stop("leading")
            await team.stop()
            if elector is not None:
                await background.stop("lease")
                with contextlib.suppress(KubeError, TimeoutError):
                    await asyncio.wait_for(elector.release(), _STOP_S)

    async def _lead(
        self,
        team: Supervisor,
        controllers: Mapping[str, Callable[[], Awaitable[None]]],
        taken_over: Callable[[], None],
    ) -> None:
        """Runs the controllers for as long as this replica leads, and again when it leads again."""
        while True:
            if self._elector is not None:
                await self._elector.wait_leading()
            self._show_leading(is_leading=True)
            self._log.info("leading", identity=self._identity)
            taken_over()
            for name, run in controllers.items():
                team.start(name, measured(self.metrics, name, run))
            try:
                if self._elector is None:
                    await asyncio.Event().wait()
                else:
                    await self._elector.wait_lost()
            finally:
                self._show_leading(is_leading=False)
                await team.stop(*controllers)
            self._log.error("lost the lease, controllers are stopped", identity=self._identity)

    def _controllers(
        self, parts: Surroundings, cloud: CloudParts
    ) -> Mapping[str, Callable[[], Awaitable[None]]]:
        settings = parts.settings
        provider = MeasuredCloud(cloud.provider, parts.metrics, parts.clock)
        common = {
            "client": parts.client,
            "cluster": parts.cluster,
            "decisions": parts.decisions,
            "metrics": parts.metrics,
            "clock": parts.clock,
        }
        told = {**common, "recorder": parts.recorder}
        breaker = self.breaker
        departures = Departures(parts.clock)
        evictions = Evictions(parts.client, parts.recorder, parts.metrics, parts.clock, departures)
        overlays = Overlays(
            client=parts.client,
            cluster=parts.cluster,
            cloud=provider,
            metrics=parts.metrics,
            clock=parts.clock,
            store=parts.overlays,
        )
        market = Market(parts.cluster, provider, pause=breaker.message, adjust=parts.overlays.adjust_cached)
        problems = PoolProblems(parts.cluster, parts.recorder, parts.clock)
        health = RegistrationHealth(
            **told,  # type: ignore[arg-type]
            breaker=breaker,
            settings=HealthSettings(registration_timeout_s=settings.registration_timeout),
        )
        buffers = (
            Buffers(client=parts.client, metrics=parts.metrics, clock=parts.clock)
            if settings.feature_gates.capacity_buffer
            else None
        )
        provisioner = Provisioner(
            **told,  # type: ignore[arg-type]
            market=market,
            room=buffers,
            problems=problems,
            before_order=health.ordering,
            pause=breaker.message,
            solver=solve,
            settings=ProvisionerSettings(
                batch_idle_s=settings.batch_idle_duration,
                batch_max_s=settings.batch_max_duration,
                batch_first_s=settings.batch_first_duration,
                solve_deadline_s=settings.solve_deadline,
                options=SolveOptions(
                    preferences=settings.preference_policy,  # type: ignore[arg-type]
                    min_values=settings.min_values_policy,  # type: ignore[arg-type]
                ),
                ignore_devices=settings.ignore_dra_requests,
                nominate=settings.nominate_pods,
                place_early=settings.early_placement,
            ),
            order_lasts_s=settings.registration_timeout,
            times=parts.objects.times,
        )
        if buffers is not None:
            buffers.on_change(provisioner.look)
            buffers.on_change(parts.cluster.stamp.bump)
        lifecycle = Lifecycle(
            **told,  # type: ignore[arg-type]
            cloud=provider,
            problems=problems,
            on_failure=health.failed,
            settings=LifecycleSettings(
                registration_timeout_s=settings.registration_timeout,
                initialization_timeout_s=settings.initialization_timeout,
                places_early=settings.early_placement,
            ),
        )
        nodes = NodeTermination(**told, cloud=provider, evictions=evictions)  # type: ignore[arg-type]
        departures.on_open(nodes.wake)
        claims = ClaimTermination(**told, cloud=provider)  # type: ignore[arg-type]
        pools = NodePools(
            client=parts.client,
            cluster=parts.cluster,
            cloud=provider,
            recorder=parts.recorder,
            metrics=parts.metrics,
            clock=parts.clock,
            breaker=breaker,
        )
        expiration = Expiration(**told)  # type: ignore[arg-type]
        garbage = GarbageCollection(
            **common,  # type: ignore[arg-type]
            cloud=provider,
            owners=cloud.owners,
            share=settings.garbage_collection_share,
        )
        unreadable = UnreadableObjects(cluster=parts.cluster, recorder=parts.recorder, clock=parts.clock)
        plain = {
            "client": parts.client,
            "cluster": parts.cluster,
            "metrics": parts.metrics,
            "clock": parts.clock,
        }
        legacy = LegacyConversion(
            **plain,  # type: ignore[arg-type]
            recorder=parts.recorder,
            default_instance_profile=settings.default_instance_profile,
        )
        old_labels = OldNodeLabels(**plain, cluster_name=settings.cluster_name)  # type: ignore[arg-type]
        hydration = Hydration(**plain)  # type: ignore[arg-type]
        consistency = Consistency(**plain, recorder=parts.recorder)  # type: ignore[arg-type]
        daemons = DaemonHints(
            cluster=parts.cluster, recorder=parts.recorder, metrics=parts.metrics, clock=parts.clock
        )
        return {
            "legacy.conversion": legacy.run,
            "legacy.nodelabels": old_labels.run,
            "nodeclaim.hydration": hydration.run,
            "nodeclaim.consistency": consistency.run,
            "nodepool.registrationhealth": health.run,
            "daemonset.hints": daemons.run,
            "provisioner": provisioner.run,
            "nodeclaim.lifecycle": lifecycle.run,
            "nodeclaim.termination": claims.run,
            "node.termination": nodes.run,
            "nodepool": pools.run,
            "nodeclaim.expiration": expiration.run,
            "nodeclaim.garbagecollection": garbage.run,
            "unreadable": unreadable.run,
            **({"nodeoverlay.controller": overlays.run} if settings.feature_gates.node_overlay else {}),
            **({"capacitybuffer": buffers.run} if buffers is not None else {}),
            **removing(
                parts,
                provider,
                provisioner,
                market,
                breaker.is_backing_off,
                departures,
                virtual=buffers.pods if buffers is not None else tuple,
            ),
            **cloud.tasks,
        }

    def _surroundings(self, client: Client) -> Surroundings:
        informers = Informers.of(client, clock=self._clock, on_error=self._informer_failed)
        self._informers = informers
        cluster = Cluster(informers, clock=self._clock)
        self._objects = ObjectMetrics(cluster, self.metrics, self._clock, is_leading=lambda: self._is_leading)
        return Surroundings(
            client=client,
            cluster=cluster,
            objects=self._objects,
            recorder=Recorder(client, instance=self._identity, clock=self._clock),
            decisions=self.decisions,
            metrics=self.metrics,
            clock=self._clock,
            settings=self._settings,
            overlays=OverlayStore(),
        )

    def _client(self, *, fenced: bool) -> Client:
        settings = self._settings
        return Client(
            self._config,
            clock=self._clock,
            qps=settings.kube_client_qps if fenced else 1000,
            burst=settings.kube_client_burst if fenced else 1000,
            before_write=self._fence if fenced else None,
            on_undecodable=self._undecodable,
        )

    def _undecodable(self, item: Undecodable) -> None:
        """Logs an object that does not decode, once for each of its versions."""
        key = item.kind, item.namespace, item.name
        if self._unreadable.get(key) != item.resource_version:
            self._unreadable[key] = item.resource_version
            self._log.error(
                "an object cannot be read",
                kind=item.kind,
                namespace=item.namespace,
                name=item.name,
                error=item.problem,
            )

    def _candidate(self, client: Client) -> Elector | None:
        if self._settings.disable_leader_election:
            return None
        return Elector(
            client,
            name=self._settings.leader_election_name,
            namespace=self._settings.leader_election_namespace or self._config.namespace,
            identity=self._identity,
            clock=self._clock,
        )

    def _fence(self) -> None:
        if self._elector is not None:
            self._elector.check()

    async def _check_server(self, client: Client) -> None:
        for kind in (STORED_NODE_POOLS, STORED_NODE_CLASSES):
            try:
                await client.list(kind, page=1)
            except NotFoundError as error:
                raise KarpenterError(
                    f"{self._config.server} does not serve {kind.plural}.{kind.group}: our CRDs are not installed",
                    hint="karpenter crds | kubectl apply --server-side -f -",
                ) from error

    async def _tell_of_waiting(self) -> None:
        await self._clock.sleep(_PATIENCE_S)
        self._log.warning(
            "waiting for the API server, which has not answered yet",
            server=self._config.server,
            hint="is this the right cluster? see --kubeconfig and --context",
        )

    async def _or_stop(self, work: Awaitable[None], stop: asyncio.Event) -> None:
        working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            stopping.cancel()

    async def _measure_lag(self) -> None:
        """Measures how late a timer is served: what a long solve or a large list takes from everything else."""
        while True:
            due = self._clock.monotonic() + _LAG_EVERY_S
            await self._clock.sleep(_LAG_EVERY_S)
            self.metrics.loop_lag_seconds.observe(max(self._clock.monotonic() - due, 0.0))

    def _show_leading(self, *, is_leading: bool) -> None:
        self._is_leading = is_leading
        self.metrics.is_leader.set(int(is_leading))
        self.metrics.leader_status.labels(self._settings.leader_election_name).set(int(is_leading))

    async def _fill_in(self) -> None:
        if self._informers is None or self._objects is None:
            return
        is_synced = self._informers.is_synced
        self.metrics.state_synced.set(int(is_synced))
        unsynced_s = 0.0 if is_synced else self._clock.monotonic() - self._started_at
        self.metrics.state_unsynced_seconds.set(unsynced_s)
        self.metrics.state_node_count.set(len(self._informers.nodes))
        for informer in self._informers.all:
            self.metrics.unreadable.labels(informer.kind.plural).set(len(informer.unreadable))
            self.metrics.heard_ago_seconds.labels(informer.kind.plural).set(informer.heard_ago_s)
        sent: Counter[str] = Counter()
        for client in self._clients:
            sent.update(client.sent)
        requests = {request.partition(" "): number for request, number in sent.items()}
        self.metrics.api_requests.replace({(each[0], each[2]): number for each, number in requests.items()})
        await self._objects.measure()

    def _task_failed(self, failure: TaskFailure) -> None:
        self._log.error(
            "a task failed and is started again",
            task=failure.name,
            error=failure.error,
            failures=failure.failures,
            retry_in_s=failure.retry_in_s,
        )

    def _informer_failed(self, error: Exception) -> None:
        if not isinstance(error, FencedError):
            self._log.error("watching the cluster failed and is tried again", error=error)
