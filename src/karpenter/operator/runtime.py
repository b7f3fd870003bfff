# SPDX-License-Identifier: Apache-2.0
"""The one composition root: everything is made here, started in order, watched over, and stopped in order.

Every replica follows the cluster and answers probes; the one that holds the lease also runs the controllers, and every
write of every controller passes the lease's fence. A replica that loses the lease stops its controllers and waits for
its next turn. On a signal the controllers stop, the lease is given up and the process ends, in a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from karpenter.controllers.buffers import Buffers
from karpenter.controllers.consistency import Consistency
from karpenter.controllers.daemons import DaemonHints
from karpenter.controllers.departures import Departures
from karpenter.controllers.expiration import Expiration
from karpenter.controllers.garbage import GarbageCollection
from karpenter.controllers.legacy import Hydration, LegacyConversion, OldNodeLabels
from karpenter.controllers.lifecycle import Lifecycle, LifecycleSettings
from karpenter.controllers.nodepool import NodePools
from karpenter.controllers.overlays import Overlays
from karpenter.controllers.provisioning import Market, Provisioner, ProvisionerSettings
from karpenter.controllers.registrationhealth import HealthSettings, LaunchBreaker, RegistrationHealth
from karpenter.controllers.termination import ClaimTermination, Evictions, NodeTermination
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kit.tasks import Supervisor, TaskFailure
from karpenter.kube import Client, ClusterConfig, Elector, FencedError, KubeError, NotFoundError, Recorder
from karpenter.observe import DecisionLog, Metrics, get_log
from karpenter.operator.parts import CloudParts, Surroundings
from karpenter.operator.probes import Probes
from karpenter.operator.removing import removing
from karpenter.operator.settings import Settings
from karpenter.scheduling import SolveOptions, solve
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS, Cluster, Informers

__all__ = ["CloudParts", "Operator", "Surroundings"]

_LAG_EVERY_S: Final = 0.1
_STOP_S: Final = 3.0


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
        self.metrics = Metrics()
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
            before_metrics=self._fill_in,
            metrics_port=settings.metrics_port,
            health_port=settings.health_probe_port,
            host=settings.bind_address,
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
            await self._check_server(client)
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
        return ""

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
            await self._or_stop(informers.wait_synced(), stop)
            self._problem = ""
            self.metrics.state_synced.set(1)
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
            self.metrics.is_leader.set(1)
            self._log.info("leading", identity=self._identity)
            taken_over()
            for name, run in controllers.items():
                team.start(name, run)
            try:
                if self._elector is None:
                    await asyncio.Event().wait()
                else:
                    await self._elector.wait_lost()
            finally:
                self.metrics.is_leader.set(0)
                await team.stop(*controllers)
            self._log.error("lost the lease, controllers are stopped", identity=self._identity)

    def _controllers(
        self, parts: Surroundings, cloud: CloudParts
    ) -> Mapping[str, Callable[[], Awaitable[None]]]:
        settings, provider = parts.settings, cloud.provider
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
        )
        market = Market(
            parts.cluster, provider, is_backing_off=breaker.is_backing_off, adjust=overlays.adjust
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
        )
        if buffers is not None:
            buffers.on_change(provisioner.look)
            buffers.on_change(parts.cluster.stamp.bump)
        lifecycle = Lifecycle(
            **told,  # type: ignore[arg-type]
            cloud=provider,
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
        )
        expiration = Expiration(**told)  # type: ignore[arg-type]
        garbage = GarbageCollection(**common, cloud=provider, owners=cloud.owners)  # type: ignore[arg-type]
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
        health = RegistrationHealth(
            **told,  # type: ignore[arg-type]
            breaker=breaker,
            settings=HealthSettings(registration_timeout_s=settings.registration_timeout),
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
        return Surroundings(
            client=client,
            cluster=Cluster(informers, clock=self._clock),
            recorder=Recorder(client, instance=self._identity, clock=self._clock),
            decisions=self.decisions,
            metrics=self.metrics,
            clock=self._clock,
            settings=self._settings,
        )

    def _client(self, *, fenced: bool) -> Client:
        settings = self._settings
        return Client(
            self._config,
            clock=self._clock,
            qps=settings.kube_client_qps if fenced else 1000,
            burst=settings.kube_client_burst if fenced else 1000,
            before_write=self._fence if fenced else None,
            on_undecodable=lambda each: self._log.error(
                "an object cannot be read and is left out",
                kind=each.kind,
                namespace=each.namespace,
                name=each.name,
                error=each.problem,
            ),
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

    def _fill_in(self) -> None:
        if self._informers is None:
            return
        self.metrics.state_node_count.set(len(self._informers.nodes))
        sent: Counter[str] = Counter()
        for client in self._clients:
            sent.update(client.sent)
        for request, number in sent.items():
            verb, _, resource = request.partition(" ")
            self.metrics.api_requests.labels(verb, resource).set(number)

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
