# SPDX-License-Identifier: Apache-2.0
"""Pending pods become NodeClaims: gather, solve off the event loop, order, promise, explain.

A pod that the scheduler cannot place opens a window; when it closes, all pods that wait are solved together with
those of nodes on their way out. Pods that fit what stands or is on its way are promised to it; for the rest claims
are created, and their pods promised to them, so that the next solve does not order for them again. A pod that gets
no place is told why. Whatever happens to one pool, pod or claim, the others go on; while pods wait, another look is
taken now and then, because prices, limits and capacity change without an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from karpenter.api.core import Pod
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.provisioning.market import Market
from karpenter.controllers.provisioning.nominating import Nominator
from karpenter.controllers.provisioning.orders import claim_manifest
from karpenter.controllers.provisioning.waiting import is_unplaced, wants_devices, wants_none_of_ours
from karpenter.kit.batching import BatchWindow
from karpenter.kit.clock import Clock
from karpenter.kube import Change, Client, KubeError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, PODS
from karpenter.model.snapshot import Snapshot
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log
from karpenter.scheduling import NewNode, Plan, Rejection, SolveOptions
from karpenter.state import Cluster

__all__ = ["Provisioner", "ProvisionerSettings", "Solver"]

# Solves somewhere else than on the event loop.
Solver = Callable[[Snapshot, tuple[Pod, ...], SolveOptions], Plan]

_LOOK_AGAIN_S: Final = 10.0
_FAILED_QUIET_S: Final = 300.0
_CREATED_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class ProvisionerSettings:
    """What an operator may choose."""

    batch_idle_s: float = 1.0
    batch_max_s: float = 10.0
    batch_first_s: float = 0.15
    solve_deadline_s: float = 60.0
    options: SolveOptions = field(default_factory=SolveOptions)
    ignore_devices: bool = True

    @property
    def promise_s(self) -> float:
        """How long a pod is promised to a node that stands: the scheduler must have bound it by then."""
        return max(2 * self.batch_max_s, 10.0)


class Provisioner:
    """Serves pending pods; ``run`` must be kept running by a supervisor."""

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        client: Client,
        cluster: Cluster,
        market: Market,
        solver: Solver,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        settings: ProvisionerSettings,
        order_lasts_s: float = 900.0,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._market = market
        self._solver = solver
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._order_lasts_s = order_lasts_s
        self._log = get_log("provisioner")
        self._last_found: frozenset[str] = frozenset()
        self.nominator = Nominator(client, cluster)
        self._window: BatchWindow[str] = BatchWindow(
            clock,
            idle_s=settings.batch_idle_s,
            max_s=settings.batch_max_s,
            first_idle_s=min(settings.batch_first_s, settings.batch_idle_s),
        )
        cluster.informers.pods.on_change(self._pod_changed)
        cluster.informers.nodes.on_change(lambda change: self._member_changed(change.object.metadata.name))
        cluster.informers.claims.on_change(lambda change: self._member_changed(change.object.metadata.name))

    async def run(self) -> None:
        """Serves batch after batch, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_again())
            while True:
                await self._window.wait()
                await self.provision()

    async def provision(self) -> Plan:
        """Decides for everything that waits now, and orders what is needed."""
        pods = self.waiting()
        if not pods:
            self._last_found = frozenset()
            await self.nominator.renew()
            return Plan()
        found = frozenset(pod.metadata.uid for pod in pods)
        if found != self._last_found:
            self._log.info("found provisionable pod(s)", pods=_some(pods), count=len(pods))
        self._last_found = found
        snapshot = self._cluster.snapshot(await self._market.catalogues())
        plan = await self._solve(snapshot, pods)
        self._report(plan)
        ordered = await self._order(plan)
        self._promise(plan, ordered)
        self._refuse(plan.rejections)
        await self.nominator.renew()
        return plan

    def waiting(self) -> tuple[Pod, ...]:
        """Gives the pods that need a place and have no promise of one."""
        candidates = (
            *(pod for pod in self._cluster.unbound() if self._waits(pod)),
            *self._cluster.displaced(),
        )
        promised = self._cluster.nominations.member_of
        return tuple(pod for pod in candidates if not promised(pod.metadata.uid))

    def _waits(self, pod: Pod) -> bool:
        if not is_unplaced(pod) or (self._settings.ignore_devices and wants_devices(pod)):
            return False
        nominated = pod.status.nominated_node_name
        if not nominated or self.nominator.is_ours(pod):
            return True
        # The scheduler makes room on that node for it, unless that node is not there.
        return self._cluster.informers.nodes.get(nominated) is None

    async def _solve(self, snapshot: Snapshot, pods: tuple[Pod, ...]) -> Plan:
        started = self._clock.monotonic()
        deadline = started + self._settings.solve_deadline_s
        options = replace(self._settings.options, expired=lambda: self._clock.monotonic() > deadline)
        self._metrics.queue_depth.labels("provisioner").set(len(pods))
        plan = await asyncio.to_thread(self._solver, snapshot, pods, options)
        self._metrics.queue_depth.labels("provisioner").set(0)
        self._metrics.solve_seconds.labels("provisioner").observe(self._clock.monotonic() - started)
        if plan.unfinished:
            # Those that were left out come first in the next window, which opens at once.
            self._window.trigger("unfinished")
        return plan

    def _report(self, plan: Plan) -> None:
        self._metrics.planned_price.set(plan.price_per_hour)
        self._metrics.plan_bound.set(plan.lower_bound_per_hour)
        self._metrics.unschedulable_pods.labels("provisioner").set(
            sum(len(each.pods) for each in plan.rejections)
        )
        if plan.existing:
            count = sum(map(len, plan.existing.values()))
            self._log.info("computed unready node(s) will fit pod(s)", nodes=len(plan.existing), pods=count)
        if plan.new_nodes:
            count = sum(len(each.pods) for each in plan.new_nodes)
            self._log.info(
                "computed new nodeclaim(s) to fit pod(s)", nodeclaims=len(plan.new_nodes), pods=count
            )
            self._decisions.record(
                DecisionKind.PLAN,
                *(f"NodePool/{name}" for name in sorted({each.pool for each in plan.new_nodes})),
                reason="PendingPods",
                message=f"{len(plan.new_nodes)} new nodes for {count} pods, {plan.price_per_hour:.4f} $/h "
                f"(no plan is below {plan.lower_bound_per_hour:.4f} $/h)",
                price_before=0.0,
                price_after=plan.price_per_hour,
                nodes=len(plan.new_nodes),
                pods=count,
                lower_bound_per_hour=plan.lower_bound_per_hour,
            )

    async def _order(self, plan: Plan) -> Mapping[int, NodeClaim]:
        """Creates a claim for each planned node and gives those that could be, by position."""
        free = asyncio.Semaphore(_CREATED_AT_ONCE)

        async def create(position: int, node: NewNode) -> tuple[int, NodeClaim] | None:
            async with free:
                claim = await self._create(node)
            return (position, claim) if claim is not None else None

        made = await asyncio.gather(*(create(i, node) for i, node in enumerate(plan.new_nodes)))
        return dict(each for each in made if each is not None)

    async def _create(self, node: NewNode) -> NodeClaim | None:
        pool = self._cluster.pool(node.pool)
        if pool is None:
            return None
        try:
            claim = await self._client.create(NODE_CLAIMS, claim_manifest(node, pool))
        except KubeError as error:
            self._log.error("failed creating nodeclaim", NodePool={"name": node.pool}, error=error)
            return None
        self._cluster.informers.claims.observe(claim)
        self._metrics.claims_created.labels(
            reason="provisioned", nodepool=node.pool, min_values_relaxed=str(node.min_values_relaxed).lower()
        ).inc()
        self._log.info(
            "created nodeclaim",
            NodePool={"name": node.pool},
            NodeClaim={"name": claim.metadata.name},
            requests=node.requests.to_quantities(),
            **{"instance-types": _types(node)},
        )
        return claim

    def _promise(self, plan: Plan, ordered: Mapping[int, NodeClaim]) -> None:
        for name, pods in plan.existing.items():
            member = self._cluster.member(name)
            if member is None:
                continue
            key = member.claim.metadata.name if member.claim is not None else name
            lasts_s = self._settings.promise_s if member.is_initialized else self._order_lasts_s
            self._tell(pods, key, f"node/{name}" if member.node is not None else f"nodeclaim/{name}", lasts_s)
        for position, claim in ordered.items():
            name = claim.metadata.name
            self._tell(plan.new_nodes[position].pods, name, f"nodeclaim/{name}", self._order_lasts_s)

    def _tell(self, pods: Iterable[Pod], key: str, place: str, lasts_s: float) -> None:
        self._cluster.nominations.promise((pod.metadata.uid for pod in pods), key, lasts_s)
        for pod in pods:
            self._recorder.tell(Subject.of(PODS, pod), "Nominated", f"Pod should schedule on: {place}")

    def _refuse(self, rejections: Iterable[Rejection]) -> None:
        for rejection in rejections:
            told = False
            for pod in rejection.pods:
                if wants_none_of_ours(pod):
                    continue
                told |= self._recorder.tell(
                    Subject.of(PODS, pod),
                    "FailedScheduling",
                    rejection.message,
                    type="Warning",
                    quiet_s=_FAILED_QUIET_S,
                )
            if told:
                first = rejection.pods[0]
                self._log.error(
                    "could not schedule pod",
                    Pod={"namespace": first.metadata.namespace, "name": first.metadata.name},
                    pods=len(rejection.pods),
                    error=rejection.message,
                )
                self._decisions.record(
                    DecisionKind.REFUSE,
                    *(f"Pod/{pod.metadata.namespace}/{pod.metadata.name}" for pod in rejection.pods[:20]),
                    reason=str(rejection.reasons[0].cause) if rejection.reasons else "Unknown",
                    message=rejection.message,
                    pods=len(rejection.pods),
                )

    async def _look_again(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_AGAIN_S)
            for pod in self.waiting():
                self._window.trigger(pod.metadata.uid)
            await self.nominator.renew()

    def _pod_changed(self, change: Change[Pod]) -> None:
        """Opens a window for a pod that begins to wait, and for the nominations that follow on a binding."""
        pod = change.new
        if (
            pod is not None
            and pod.spec.node_name
            and change.old is not None
            and not change.old.spec.node_name
        ):
            self._window.trigger(f"bound/{pod.spec.node_name}")
        if pod is None or not self._waits(pod) or self._cluster.nominations.member_of(pod.metadata.uid):
            return
        # A pod that was told why, and has not changed, waits for the next look.
        if change.old is None or not is_unplaced(change.old):
            self._window.trigger(pod.metadata.uid)

    def _member_changed(self, name: str) -> None:
        member = self._cluster.member(name)
        if member is not None and member.node is not None and self._cluster.is_leaving(member):
            self._window.trigger(f"leaving/{member.name}")


def _some(pods: tuple[Pod, ...]) -> str:
    named = ", ".join(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods[:5])
    return named if len(pods) <= 5 else f"{named} and {len(pods) - 5} other(s)"


def _types(node: NewNode) -> str:
    names = list(dict.fromkeys(each.instance_type for each in node.alternatives))
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} other(s)"
