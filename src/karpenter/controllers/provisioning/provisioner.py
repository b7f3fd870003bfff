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
from functools import partial
from itertools import chain
from typing import Final, Protocol

from karpenter.api.core import Node, Pod
from karpenter.api.labels import INITIALIZED
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.metrics import PodTimes
from karpenter.controllers.poolproblems import PoolProblems, could_serve
from karpenter.controllers.provisioning.emptypools import REASON as NO_TYPES
from karpenter.controllers.provisioning.emptypools import why_empty
from karpenter.controllers.provisioning.following import Follower
from karpenter.controllers.provisioning.foreseeing import foreseen
from karpenter.controllers.provisioning.market import Market
from karpenter.controllers.provisioning.nominating import Nominator
from karpenter.controllers.provisioning.orders import Orders
from karpenter.controllers.provisioning.placing import Placer
from karpenter.controllers.provisioning.sharing import alike
from karpenter.controllers.provisioning.trading import heir
from karpenter.controllers.provisioning.waiting import (
    is_unjudged,
    is_unplaced,
    wants_devices,
    wants_none_of_ours,
)
from karpenter.controllers.provisioning.zones import pods_by_zone
from karpenter.kit.batching import BatchWindow
from karpenter.kit.clock import Clock
from karpenter.kit.rounds import one_round
from karpenter.kube import Allowance, Change, Client, Recorder, Subject
from karpenter.kube.kinds import PODS
from karpenter.model.pods import stands_for_buffer
from karpenter.model.snapshot import Snapshot
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log, solving
from karpenter.scheduling import NewNode, Plan, Rejection, SolveOptions
from karpenter.state import Cluster, Member

__all__ = ["Provisioner", "ProvisionerSettings", "Solver"]

# Solves somewhere else than on the event loop.
Solver = Callable[[Snapshot, tuple[Pod, ...], SolveOptions], Plan]

_LOOK_AGAIN_S: Final = 10.0
_FAILED_QUIET_S: Final = 300.0
_CREATED_AT_ONCE: Final = 50
# A plan for so many pods is as cheap a pod as one for more, and what it leaves free the next one fills.
_ENOUGH_PODS: Final = 500
# Below this, the scheduler (or another one) does not heed nominations, and plans must allow for it.
_FOLLOWED_SHARE: Final = 0.5
# As Karpenter: the pods of a small plan are told each, of a large one some.
_EVENTS_PER_S: Final = 5.0
_EVENTS_AT_ONCE: Final = 10
_NEWS_IDLE_S: Final = 0.05
_NEWS_MAX_S: Final = 0.5
_EVERYBODY: Final = ""
# Of more pools that are not used a pod is not told: an event holds no more.
_MOST_CLOSED: Final = 3


@dataclass(frozen=True, slots=True)
class ProvisionerSettings:
    """What an operator may choose."""

    batch_idle_s: float = 1.0
    batch_max_s: float = 10.0
    batch_first_s: float = 0.15
    solve_deadline_s: float = 60.0
    options: SolveOptions = field(default_factory=SolveOptions)
    ignore_devices: bool = True
    nominate: bool = True
    place_early: bool = False

    @property
    def promise_s(self) -> float:
        """How long a pod is promised to a node that stands: the scheduler must have bound it by then."""
        return max(2 * self.batch_max_s, 10.0)


class Room(Protocol):
    """Who keeps room for pods that do not exist yet."""

    def pods(self) -> tuple[Pod, ...]:
        """Gives the pods that stand for them: they take part in decisions and are never told anything."""
        ...

    def placed(self, snapshot: Snapshot, plan: Plan) -> None:
        """Is told where a plan has room for them."""
        ...


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
        room: Room | None = None,
        problems: PoolProblems | None = None,
        before_order: Callable[[Iterable[str]], None] = lambda _: None,
        pause: Callable[[str], str] = lambda _: "",
        times: PodTimes | None = None,
    ) -> None:
        self._room = room
        self._problems = problems or PoolProblems(cluster, recorder, clock)
        self._before_order = before_order
        self._pause = pause
        self._times = times or PodTimes(metrics, clock)
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
        self.orders = Orders(client, cluster, metrics, controller="provisioner", problems=self._problems)
        self.nominator = Nominator(client, cluster, is_on=settings.nominate, spares=self._is_kept)
        self.placer = (
            Placer(
                client=client,
                cluster=cluster,
                recorder=recorder,
                decisions=decisions,
                metrics=metrics,
                clock=clock,
                is_ours=self.nominator.is_ours,
            )
            if settings.place_early
            else None
        )
        self.follower = Follower(cluster, metrics)
        self._events = Allowance(clock, rate_per_s=_EVENTS_PER_S, burst=_EVENTS_AT_ONCE)
        self._window: BatchWindow[str] = BatchWindow(
            clock,
            idle_s=settings.batch_idle_s,
            max_s=settings.batch_max_s,
            first_idle_s=min(settings.batch_first_s, settings.batch_idle_s),
            expects_more=lambda: any(map(is_unjudged, cluster.unbound())),
            enough=_ENOUGH_PODS,
        )
        # Telling the scheduler takes a request for each pod: the next pods must not wait for it.
        self._news: BatchWindow[str] = BatchWindow(clock, idle_s=_NEWS_IDLE_S, max_s=_NEWS_MAX_S)
        cluster.informers.pods.on_change(self._pod_changed)
        cluster.informers.nodes.on_change(self._node_changed)
        cluster.informers.claims.on_change(lambda change: self._member_changed(change.object.metadata.name))

    async def run(self) -> None:
        """Serves batch after batch, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_again())
            group.create_task(self._keep_nominated())
            if self.placer is not None:
                group.create_task(self.placer.run())
            while True:
                await self._window.wait()
                with one_round(self._clock):
                    await self.provision()

    async def provision(self) -> Plan:
        """Decides for everything that waits now, and orders what is needed."""
        waiting = self.waiting()
        self._times.seen(waiting)
        self._count_ignored()
        pods = (*waiting, *(self._room.pods() if self._room is not None else ()))
        if not pods:
            self._last_found = frozenset()
            self._metrics.pending_pods_by_zone.replace({})
            return Plan()
        found = frozenset(pod.metadata.uid for pod in waiting)
        if found and found != self._last_found:
            self._log.info("found provisionable pod(s)", pods=_some(waiting), count=len(waiting))
        self._last_found = found
        snapshot = self._cluster.snapshot(await self._market.catalogues())
        self._tell_empty_pools(snapshot)
        plan = await self._solve(snapshot, pods)
        if self._room is not None:
            self._room.placed(snapshot, plan)
        self._report(plan)
        self._measure(snapshot, waiting, plan)
        ordered = await self._order(plan)
        self._promise(plan, ordered)
        self._refuse(plan.rejections)
        self._news.trigger(_EVERYBODY)
        return plan

    def look(self) -> None:
        """Decides anew soon, though no pod has changed."""
        self._window.trigger("room")

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

    def _tell_empty_pools(self, snapshot: Snapshot) -> None:
        is_strict = self._settings.options.min_values == "Strict"
        for pool in snapshot.pools:
            why = why_empty(pool, is_strict=is_strict)
            if why:
                self._problems.tell_pool(pool.name, NO_TYPES, why)

    async def _solve(self, snapshot: Snapshot, pods: tuple[Pod, ...]) -> Plan:
        started = self._clock.monotonic()
        deadline = started + self._settings.solve_deadline_s
        given_up = asyncio.Event()
        options = replace(
            self._settings.options,
            expired=lambda: given_up.is_set() or self._clock.monotonic() > deadline,
        )
        solver = self._solver if self._is_followed() else partial(foreseen, self._solver)
        try:
            with solving(self._metrics, self._clock, "provisioner", len(pods)):
                plan = await asyncio.to_thread(solver, snapshot, pods, options)
        finally:
            # A thread cannot be cancelled, and the process waits for it to end.
            given_up.set()
        if plan.unfinished:
            # Those that were left out come first in the next window, which opens at once.
            self._window.trigger("unfinished")
        return plan

    def _is_followed(self) -> bool:
        """Tells whether pods go where they are planned, so that a plan may be as tight as can be."""
        return self._settings.nominate and self.follower.share >= _FOLLOWED_SHARE

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
                "computed new nodeclaim(s) to fit pod(s)",
                nodeclaims=len(plan.new_nodes),
                pods=count,
                **{
                    "price-per-hour": round(plan.price_per_hour, 4),
                    "pods-planned-before": sum(
                        self.follower.knows(pod) for each in plan.new_nodes for pod in each.pods
                    ),
                },
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

    def _measure(self, snapshot: Snapshot, waiting: tuple[Pod, ...], plan: Plan) -> None:
        placed = (*(each.pods for each in plan.new_nodes), *plan.existing.values())
        self._times.decided(chain.from_iterable(placed), (p for each in plan.rejections for p in each.pods))
        pending = (pod for pod in waiting if not pod.spec.node_name)
        zones = pods_by_zone(pending, snapshot.storage)
        self._metrics.pending_pods_by_zone.replace(
            {("provisioner", zone): float(number) for zone, number in zones.items()}
        )

    def _count_ignored(self) -> None:
        ignored = (
            pod
            for pod in self._cluster.unbound()
            if self._settings.ignore_devices and wants_devices(pod) and is_unplaced(pod)
        )
        self._metrics.ignored_pods.set(sum(1 for _ in ignored))

    async def _order(self, plan: Plan) -> Mapping[int, NodeClaim]:
        """Creates a claim for each planned node and gives those that could be, by position.

        Pods that left a node of theirs unused are counted first: it may be the failure that pauses their pool.
        """
        self._before_order(pod.metadata.uid for node in plan.new_nodes for pod in node.pods)
        free = asyncio.Semaphore(_CREATED_AT_ONCE)

        async def create(position: int, node: NewNode) -> tuple[int, NodeClaim] | None:
            pause = self._pause(node.pool)
            if pause:
                self._problems.tell_pods(node.pool, pause, node.pods)
                return None
            async with free:
                claim = await self.orders.create(node)
            return (position, claim) if claim is not None else None

        made = await asyncio.gather(*(create(i, node) for i, node in enumerate(alike(plan.new_nodes))))
        return dict(each for each in made if each is not None)

    def _promise(self, plan: Plan, ordered: Mapping[int, NodeClaim]) -> None:
        for name, pods in plan.existing.items():
            member = self._cluster.member(name)
            if member is None:
                continue
            lasts_s = self._settings.promise_s if member.is_initialized else self._order_lasts_s
            place = f"node/{name}" if member.node is not None else f"nodeclaim/{name}"
            self._tell(pods, _key(member), place, lasts_s)
        for position, claim in ordered.items():
            name = claim.metadata.name
            self._tell(plan.new_nodes[position].pods, name, f"nodeclaim/{name}", self._order_lasts_s)

    def _tell(self, planned: Iterable[Pod], key: str, place: str, lasts_s: float) -> None:
        pods = [pod for pod in planned if not stands_for_buffer(pod)]
        self._cluster.nominations.promise((pod.metadata.uid for pod in pods), key, lasts_s)
        self.follower.planned(pods, key)
        if self.placer is not None:
            self.placer.look(key)
        for pod in pods:
            # An event a pod is as many writes as there are pods, just when the server has most to do.
            if self._events.take():
                self._recorder.tell(Subject.of(PODS, pod), "Nominated", f"Pod should schedule on: {place}")

    def _refuse(self, rejections: Iterable[Rejection]) -> None:
        for rejection in rejections:
            told = False
            message = self._with_closed(rejection)
            for pod in rejection.pods:
                if wants_none_of_ours(pod) or stands_for_buffer(pod):
                    continue
                told |= self._recorder.tell(
                    Subject.of(PODS, pod),
                    "FailedScheduling",
                    message,
                    type="Warning",
                    quiet_s=_FAILED_QUIET_S,
                )
            if told:
                first = rejection.pods[0]
                self._log.error(
                    "could not schedule pod",
                    Pod={"namespace": first.metadata.namespace, "name": first.metadata.name},
                    pods=len(rejection.pods),
                    error=message,
                )
                self._decisions.record(
                    DecisionKind.REFUSE,
                    *(f"Pod/{pod.metadata.namespace}/{pod.metadata.name}" for pod in rejection.pods[:20]),
                    reason=str(rejection.reasons[0].cause) if rejection.reasons else "Unknown",
                    message=message,
                    pods=len(rejection.pods),
                )

    def _with_closed(self, rejection: Rejection) -> str:
        """Return why pods are refused, with what is wrong with the pools that are meant for them."""
        parts = [rejection.message]
        for name, pool in sorted(self._cluster.effective.pools.items()):
            closed = self._market.closed.get(name, "")
            why = [f"makes no node: {closed}"] if closed else []
            why += [each for each in self._problems.about(name) if each not in closed]
            if why and could_serve(pool, rejection.pods[0]):
                parts.append(f"NodePool {name} {'; '.join(why)}")
            if len(parts) > _MOST_CLOSED:
                break
        return "; ".join(parts)

    async def _look_again(self) -> None:
        while True:
            await self._clock.sleep(_LOOK_AGAIN_S)
            self._count_ignored()
            for pod in self.waiting():
                self._window.trigger(pod.metadata.uid)
            if self._room is not None and self._room.pods():
                # Real pods may have taken the room, or a pool may have become ready.
                self.look()
            self._news.trigger(_EVERYBODY)

    async def _keep_nominated(self) -> None:
        while True:
            names = await self._news.wait()
            await self.nominator.renew(None if _EVERYBODY in names else names)

    def _pod_changed(self, change: Change[Pod]) -> None:
        """Opens a window for a pod that begins to wait; a binding may make room for the next nomination."""
        pod = change.new
        if (
            pod is not None
            and pod.spec.node_name
            and change.old is not None
            and not change.old.spec.node_name
        ):
            self._trade(pod, self.follower.bound(pod))
            self._news.trigger(pod.spec.node_name)
        elif pod is None:
            self.follower.gone(change.object)
        elif self.nominator.was_ours(change):
            # The scheduler takes a nomination back when it tries the pod before its node is there.
            member = self._cluster.nominations.member_of(pod.metadata.uid)
            self._cluster.nominations.untell(member)
            self._news.trigger(member)
        if pod is None or not self._waits(pod) or self._cluster.nominations.member_of(pod.metadata.uid):
            return
        # A pod that was told why, and has not changed, waits for the next look.
        if change.old is None or not is_unplaced(change.old):
            self._window.trigger(pod.metadata.uid)

    def _trade(self, pod: Pod, wanted: str) -> None:
        """Promises the place that a pod has left free by going elsewhere to an equal pod whose place it took."""
        taken, free = self._cluster.member(pod.spec.node_name), self._cluster.member(wanted)
        if taken is None or free is None or self._cluster.is_leaving(free):
            return
        other = heir(pod, self._cluster.promised_to(taken))
        if other is not None:
            lasts_s = self._settings.promise_s if free.is_initialized else self._order_lasts_s
            self._cluster.nominations.promise((other.metadata.uid,), wanted, lasts_s)
            self.follower.planned((other,), wanted)
            self._news.trigger(free.name)

    def _node_changed(self, change: Change[Node]) -> None:
        name = change.object.metadata.name
        if change.new is not None and not _is_ready(change.old) and _is_ready(change.new):
            member = self._cluster.member(name)
            if member is not None:
                # The scheduler has no reason left to leave its pods waiting; if it does, they are planned anew.
                self._cluster.nominations.hasten(_key(member), self._settings.promise_s)
        self._member_changed(name)

    def _member_changed(self, name: str) -> None:
        member = self._cluster.member(name)
        if member is None or member.node is None:
            return
        if self._cluster.is_going(member):
            self._window.trigger(f"leaving/{member.name}")
        elif not member.is_initialized:
            # Its name is known now, and its pods must be told before it is ready for them.
            self._news.trigger(member.name)
        if self.placer is not None:
            self.placer.look(_key(member))

    def _is_kept(self, pod: Pod) -> bool:
        return self.placer is not None and self.placer.keeps(pod)


def _key(member: Member) -> str:
    return member.claim.metadata.name if member.claim is not None else member.name


def _is_ready(node: Node | None) -> bool:
    return node is not None and node.metadata.labels.get(INITIALIZED) == "true"


def _some(pods: tuple[Pod, ...]) -> str:
    named = ", ".join(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods[:5])
    return named if len(pods) <= 5 else f"{named} and {len(pods) - 5} other(s)"
