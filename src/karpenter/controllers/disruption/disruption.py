# SPDX-License-Identifier: Apache-2.0
"""Takes nodes away that are empty, have drifted or cost too much: looks, decides off the event loop, carries out.

A look is taken when something has changed that could matter, a moment later so that a burst is one look; never two at
once, and never when nothing has changed, but for a fresh look every few minutes. What is decided is carried out by
`execution`; while commands are under way further looks are taken, on the cluster as it will be, so that several go
side by side as far as budgets allow. Taints that nobody answers for are taken off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from karpenter.api.core import Pod
from karpenter.api.labels import DISRUPTION_COMMAND, NODEPOOL
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.consolidation.types import (
    Blocked,
    Command,
    PoolPolicy,
    Rearrangement,
    Reason,
    Refusal,
    Situation,
    Stage,
)
from karpenter.consolidation.types import Settings as Choices
from karpenter.controllers.departures import Departures
from karpenter.controllers.disruption.conducting import Conductor
from karpenter.controllers.disruption.discouraging import Discouraging
from karpenter.controllers.disruption.execution import (
    Execution,
    ExecutionSettings,
    Ordering,
    Second,
    View,
)
from karpenter.controllers.disruption.hands import Hands
from karpenter.controllers.disruption.remembering import MemoryStore, Remembering, replicas_of
from karpenter.controllers.disruption.running import Running, begun
from karpenter.controllers.disruption.successors import Successors
from karpenter.controllers.disruption.telling import Teller, kind_of
from karpenter.controllers.removals import reserve_removals
from karpenter.kit.backoff import BackoffPolicy, BackoffTable
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, Recorder
from karpenter.model.catalogue import Catalogue
from karpenter.model.pods import is_active, is_daemon, is_mirror
from karpenter.model.snapshot import Snapshot
from karpenter.observe import DecisionLog, Metrics, get_log, solving
from karpenter.state import Cluster, candidates

__all__ = ["Disruption", "DisruptionSettings", "Rules"]

_LOOK: Final = "look"
# As Karpenter: prices and windows change without an event.
_FRESH_S: Final = 300.0
_AGAIN_S: Final = 1.0
_STALE_AGAIN_S: Final = 5.0
# The original looks every ten seconds, whether anything has changed or not.
_PACE_S: Final = 10.0
# A look that took long is not followed by the next at once: others need the processor too.
_PAUSE_SHARE: Final = 1.0
_MONEY: Final = Reason.UNDERUTILIZED
# Dollars an hour by which a command may fall short of its promise without a lesson being learnt.
_MISSED: Final = 1e-4
_RETRY: Final = BackoffPolicy(base_s=30.0, cap_s=1800.0, jitter=0.1)


@dataclass(frozen=True, slots=True)
class Rules:
    """Who decides: pure functions."""

    propose: Callable[[Snapshot, Situation, float], Command | Blocked]
    second: Second
    pool_policy: Callable[[NodePool], PoolPolicy]


@dataclass(frozen=True, slots=True)
class DisruptionSettings:
    """What an operator may choose.

    Attributes:
        choices: What the decision depends on.
        gather_s: How long changes are gathered before a look.
        decide_s: When a decision is cut off; the best so far counts.
        execution: How commands are carried out.
    """

    choices: Choices = field(default_factory=Choices)
    gather_s: float = 1.0
    decide_s: float = 60.0
    execution: ExecutionSettings = field(default_factory=ExecutionSettings)


class Disruption:
    """Takes nodes away; ``run`` must be kept running by a supervisor."""

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        client: Client,
        cluster: Cluster,
        catalogues: Callable[[], Awaitable[Mapping[str, Catalogue]]],
        orders: Ordering,
        nominate: Callable[[Collection[str]], Awaitable[None]],
        rules: Rules,
        store: MemoryStore,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        settings: DisruptionSettings,
        departures: Departures,
        virtual: Callable[[], tuple[Pod, ...]] = tuple,
    ) -> None:
        self._cluster = cluster
        self._catalogues = catalogues
        self._rules = rules
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._virtual = virtual
        self._log = get_log("disruption")
        self._hands = Hands(client, cluster, clock)
        self._plan: Rearrangement | None = None
        self._later: frozenset[str] = frozenset()
        # The claim that was bought for a pod that moves, by the pod's uid, as long as a plan is followed.
        self._bought_for: dict[str, str] = {}
        self._retries: BackoffTable[str] = BackoffTable(clock, _RETRY)
        self._seen = -1
        self._fresh_until = 0.0
        self._not_before = 0.0
        self._fruitless = 0
        self._stale = False
        self._policies: dict[str, tuple[object, PoolPolicy]] = {}
        self._started_at = clock.now()
        self.remembering = Remembering(store, clock)
        self.teller = Teller(cluster, recorder, decisions, metrics)
        self.successors = Successors(cluster, metrics, clock, nominate)
        discouraging = Discouraging(client, cluster)
        self.conductor = Conductor(cluster, discouraging, self.successors, departures, clock)
        self.execution = Execution(
            cluster=cluster,
            hands=self._hands,
            orders=orders,
            conductor=self.conductor,
            teller=self.teller,
            metrics=metrics,
            clock=clock,
            viewer=self.view,
            second=rules.second,
            settings=settings.execution,
            on_deleted=self._deleted,
            on_end=self._ended,
        )
        self._queue: WorkQueue[str] = WorkQueue(self.reconcile, clock, workers=20, on_error=self._failed)
        cluster.stamp.listen(lambda: self._queue.add_after(_LOOK, settings.gather_s))
        cluster.informers.claims.on_change(self._claim_changed)

    async def run(self) -> None:
        """Goes on with what was begun, and works until cancelled."""
        self.execution.abandon()
        self._seen, self._not_before = -1, 0.0
        await self.remembering.load()
        self._queue.add(_LOOK)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.successors.run())
            group.create_task(self.conductor.run())
            group.create_task(self._queue.run())

    async def reconcile(self, key: str) -> float | None:
        """Takes a look, or carries a command on; says when to come back. Nothing is decided on a stale copy."""
        staleness = self._cluster.informers.staleness
        if staleness and not self._stale:
            self._log.error("nothing is disrupted, the copy of the cluster is stale", error=staleness)
        self._stale = bool(staleness)
        if staleness:
            return _STALE_AGAIN_S
        if key == _LOOK:
            return await self.look()
        again_s = await self.execution.step(key)
        if key not in self.execution.running:
            self._not_before = 0.0
            self._queue.forget(key)
            self._queue.add_after(_LOOK, self._settings.gather_s)
        return again_s

    async def look(self) -> float | None:
        """Looks whether something is to be taken away, begins to, and says when to look again."""
        if not self.execution.catalogues:
            # What is gone on with has its price too.
            self.execution.catalogues = await self._catalogues()
        for key in self.execution.adopt():
            self._queue.add(key)
        for name in self.execution.stale():
            self._log.info("removing stale taint", NodeClaim={"name": name})
            await self._hands.unmark(name)
        now = self._clock.monotonic()
        if self._cluster.stamp.value == self._seen and now < self._fresh_until:
            return self._fresh_until - now
        if now < self._not_before:
            return self._not_before - now
        stamp = self._cluster.stamp.value
        view = await self.view()
        started = self._clock.monotonic()
        answer = await self._propose(view)
        took_s = self._clock.monotonic() - started
        pause_s = max(_AGAIN_S, _PAUSE_SHARE * took_s)
        self._report(view, answer, took_s)
        await self._discourage(answer)
        if isinstance(answer, Command) and await self._begin(answer, stamp):
            await self.remembering.save()
            return pause_s
        if isinstance(answer, Blocked):
            self._seen, self._fresh_until = stamp, self._clock.monotonic() + _FRESH_S
        await self.remembering.save()
        self._not_before = self._clock.monotonic() + self._paced_s(answer, view.now)
        if self._cluster.stamp.value != self._seen:
            return pause_s
        retry_s = _FRESH_S
        if isinstance(answer, Blocked) and answer.retry_at is not None:
            retry_s = min(max(answer.retry_at - view.now, _AGAIN_S), _FRESH_S)
            self._fresh_until = self._clock.monotonic() + retry_s
        return retry_s

    def _paced_s(self, answer: Command | Blocked, now: float) -> float:
        """Says how long not to look again whatever changes: longer each time that nothing was found.

        A cluster that grows changes by the second, and every look at a large one takes the event loop's time.
        """
        rested = self._clock.monotonic() - self._not_before > _PACE_S
        if isinstance(answer, Command) or self.execution.running:
            self._fruitless = 0
            return 0.0
        self._fruitless = 1 if rested else self._fruitless + 1
        paced_s = min(_AGAIN_S * 2.0 ** min(self._fruitless - 1, 10), _PACE_S)
        return paced_s if answer.retry_at is None else min(max(answer.retry_at - now, _AGAIN_S), paced_s)

    async def _discourage(self, answer: Command | Blocked) -> None:
        """Says which nodes are to go later; while a plan is under way and nothing new is known, the same as before.

        Replacements wait for the pods that they were bought for: empty as they are, others would fill them first.
        """
        if isinstance(answer, Command) and answer.reason is _MONEY:
            self._plan, self._later = answer.plan, answer.later
        elif isinstance(answer, Blocked) and not self.execution.running:
            self._plan, self._later = None, frozenset()
            self._bought_for.clear()
        await self.conductor.avoid({*self._later, *self.execution.awaited()})

    async def _propose(self, view: View) -> Command | Blocked:
        """Decides somewhere else than on the event loop."""
        given_up = asyncio.Event()
        late = view.situation.settings.stop
        settings = replace(view.situation.settings, stop=lambda: given_up.is_set() or late())
        situation = replace(view.situation, settings=settings)
        pods = sum(len(node.pods) for node in view.snapshot.nodes)
        try:
            with solving(self._metrics, self._clock, "disruption", pods):
                return await asyncio.to_thread(self._rules.propose, view.snapshot, situation, view.now)
        finally:
            # A thread cannot be cancelled, and the process waits for it to end.
            given_up.set()

    async def view(
        self,
        staying: Collection[str] = (),
        shown: Collection[str] = (),
        unpromised: Collection[str] = (),
    ) -> View:
        """Gives the cluster as it is now, to decide on."""
        catalogues = await self._catalogues()
        self.execution.catalogues = catalogues
        now = self._clock.now().timestamp()
        pools = self._cluster.effective.pools
        self.remembering.learn(lambda memory: memory.hour_passed(pools, now, self._settings.choices))
        self.remembering.learn(lambda memory: memory.counted(replicas_of(self._cluster, memory), now))
        deadline = self._clock.monotonic() + self._settings.decide_s
        situation = Situation(
            candidates=candidates(self._cluster, staying=staying, retry_at=self._retry_moments(now)),
            policies={name: self._policy(pool) for name, pool in pools.items()},
            pdbs=tuple(self._cluster.informers.budgets),
            pending=self._pending(),
            virtual=self._virtual(),
            memory=self.remembering.memory,
            settings=replace(self._settings.choices, stop=lambda: self._clock.monotonic() > deadline),
            plan=self._plan,
            bought={
                uid: member.name if member.node is not None else ""
                for uid, claim in self._bought_for.items()
                if (member := self._cluster.member(claim)) is not None
            },
        )
        snapshot = self._cluster.snapshot(catalogues, staying=staying, shown=shown, unpromised=unpromised)
        return View(snapshot, situation, now)

    async def _begin(self, command: Command, stamp: int) -> bool:
        """Takes on the stages of a command that the cluster has not changed under; tells whether there are any."""
        view = await self.view() if self._cluster.stamp.value != stamp else None
        stages = tuple(stage for stage in command.stages if self._stands(stage))
        if stages and view is not None:
            found = await asyncio.to_thread(
                self._rules.second,
                stages[0],
                command.reason,
                view.snapshot,
                view.situation,
                view.now,
                (),
            )
            if isinstance(found, Refusal) or found.remove != stages[0].remove:
                stages = stages[1:]
        stages = self._reserved(stages, command.reason)
        claims, prices, pools = {}, {}, set()
        for name in (name for stage in stages for name in stage.remove):
            member = self._cluster.member(name)
            if member is not None and member.claim is not None:
                claims[name] = member.claim.metadata.name
                prices[name] = self.execution.price(member.claim)
                pools.add(member.pool)
        command = replace(command, stages=stages)
        for running in begun(command, claims, prices, self._clock.now().timestamp()):
            running.pools = frozenset(pools)
            self.execution.begin(running)
            for part in running.parts:
                self._bought_for.update(
                    {move.uid: target for move, target in part.moves_to() if move.launch >= 0}
                )
            self._promised(running)
            self._queue.add(running.key)
        return bool(stages)

    def _stands(self, stage: Stage) -> bool:
        """Tells whether the nodes of a stage are there and stay, for all that others have decided meanwhile."""
        members = [self._cluster.member(name) for name in stage.remove]
        return all(
            each is not None and each.claim is not None and not self._cluster.is_leaving(each)
            for each in members
        )

    def _reserved(self, stages: Sequence[Stage], reason: Reason) -> tuple[Stage, ...]:
        """Reserves the stages that still stand and that budgets allow now, and gives them."""
        standing = [stage for stage in stages if self._stands(stage)]
        policies = {name: self._policy(pool) for name, pool in self._cluster.effective.pools.items()}
        groups = [stage.remove for stage in standing]
        now = self._clock.now().timestamp()
        return tuple(
            standing[position] for position in reserve_removals(self._cluster, groups, reason, policies, now)
        )

    def _promised(self, running: Running) -> None:
        """Remembers what a command promises."""
        reason, saving = str(running.reason), running.act.saving_per_hour
        self.remembering.learn(
            lambda memory: memory.promised(running.key, reason, saving, running.decided_at)
        )

    def _ended(self, command: Running, done: bool) -> None:  # noqa: FBT001 - the two ends of a command
        if not done:
            for name in command.claims if not command.is_blameless else ():
                self._retries.failed(name)
            return
        realised = command.realised_per_hour
        if realised is None:
            return
        self.remembering.learn(lambda memory: memory.realised(command.key, realised))
        if realised < command.act.saving_per_hour - _MISSED and command.reason is _MONEY:
            now = self._clock.now().timestamp()
            pools = command.pools
            self.remembering.learn(lambda memory: memory.missed(pools, now, self._settings.choices))

    def _deleted(self, command: Running, pods: Sequence[Pod]) -> None:
        """Remembers whom a command has moved."""
        now = self._clock.now().timestamp()
        self.remembering.learn(lambda memory: memory.moved(pods, now))
        if pods and command.reason is _MONEY:
            pools = command.pools
            self.remembering.learn(lambda memory: memory.removed(pools, now, self._settings.choices))

    def _pending(self) -> tuple[Pod, ...]:
        """Gives the pods that have no place and no promise of one."""
        promised = self._cluster.nominations.member_of
        waiting = (
            pod
            for pod in self._cluster.unbound()
            if is_active(pod) and not is_daemon(pod) and not is_mirror(pod) and not pod.spec.scheduling_gates
        )
        return tuple(pod for pod in (*waiting, *self._cluster.displaced()) if not promised(pod.metadata.uid))

    def _policy(self, pool: NodePool) -> PoolPolicy:
        stand = (pool.metadata.uid, pool.metadata.generation, pool.metadata.annotations)
        known = self._policies.get(pool.metadata.name)
        if known is None or known[0] != stand:
            known = (stand, self._rules.pool_policy(pool))
            self._policies[pool.metadata.name] = known
        return known[1]

    def _retry_moments(self, now: float) -> dict[str, float]:
        return {
            claim.metadata.name: now + left_s
            for claim in self._cluster.informers.claims
            if (left_s := self._retries.remaining_s(claim.metadata.name)) > 0
        }

    def _report(self, view: View, answer: Command | Blocked, took_s: float) -> None:
        # A search without a result has tried every method, and consolidation last.
        reason, nodes = (answer.reason, len(answer.remove)) if isinstance(answer, Command) else (_MONEY, 2)
        self._metrics.evaluation_seconds.labels(reason.lower(), kind_of(reason, nodes)).observe(took_s)
        if took_s > self._settings.decide_s:
            self._metrics.consolidation_timeouts.labels("multi").inc()
        if isinstance(answer, Command):
            self.teller.weighed(answer)
        self.teller.budgets(view.situation, view.now)
        self.teller.measure(view.snapshot, view.situation, answer.verdicts)
        self.teller.stay(answer.verdicts)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        claim = change.object
        is_bought = change.old is None and claim.metadata.creation_timestamp is not None
        if is_bought and DISRUPTION_COMMAND not in claim.metadata.annotations:
            self._bought(claim)
        for key in self.execution.keys_about(change.object.metadata.name):
            self._queue.add(key)

    def _bought(self, claim: NodeClaim) -> None:
        """Remembers that a node was bought for pods that waited: a removal just before may have been a mistake."""
        born = claim.metadata.creation_timestamp
        if born is not None and born >= self._started_at:
            pool = claim.metadata.labels.get(NODEPOOL, "")
            self.remembering.learn(
                lambda memory: memory.launched([pool], born.timestamp(), self._settings.choices)
            )

    def _failed(self, key: str, error: Exception, again_s: float) -> None:
        self._metrics.reconcile_errors.labels("disruption").inc()
        self._log.error("Reconciler error", command=key, error=error, retry_in_s=round(again_s, 1))
