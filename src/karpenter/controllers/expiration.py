# SPDX-License-Identifier: Apache-2.0
"""Nodes do not grow older than their NodePool says: at creation plus ``expireAfter`` their claim is deleted.

Expiry is forceful: it waits for no budget but one that names it (reason Expired), which then bounds how many nodes of
a pool are on their way out at once, as for any other reason. Draining still honours PodDisruptionBudgets, for as long
as ``terminationGracePeriod`` says.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

from karpenter.api.labels import CAPACITY_TYPE, NODEPOOL
from karpenter.api.nodeclaim import NodeClaim
from karpenter.consolidation import Quota, Reason, pool_policy
from karpenter.controllers.removals import reserve_removals
from karpenter.kit.clock import Clock
from karpenter.kit.durations import DurationError, parse_duration
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, ConflictError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log, reporting
from karpenter.state import Cluster, candidates

__all__ = ["Expiration", "expires_in"]

_NEVER: Final = "Never"
# Timers are set anew now and then, so that a clock that was set does not let a node live for ever.
_LONGEST_WAIT_S: Final = 3600.0
_BUDGET_AGAIN_S: Final = 30.0


def expires_at(claim: NodeClaim) -> datetime | None:
    """Gives the moment at which a claim expires; None if it never does."""
    if claim.spec.expire_after in ("", _NEVER) or claim.metadata.creation_timestamp is None:
        return None
    try:
        life = parse_duration(claim.spec.expire_after)
    except DurationError:
        return None
    return life.ends(claim.metadata.creation_timestamp)


def expires_in(claim: NodeClaim, clock: Clock) -> float | None:
    """Gives the seconds until a claim expires, negative if it should have; None if it never does."""
    moment = expires_at(claim)
    return (moment - clock.now()) / timedelta(seconds=1) if moment is not None else None


class Expiration:
    """Deletes claims whose time is over; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._log = get_log("nodeclaim.expiration")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, on_error=reporting(self._log, metrics, "nodeclaim.expiration", "NodeClaim")
        )
        # Expired claims that wait for a budget.
        self._waiting: set[str] = set()
        cluster.informers.claims.on_change(self._claim_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Deletes a claim that is too old, or says when it will be."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            self._waiting.discard(name)
            self._queue.forget(name)
            return None
        left_s = expires_in(claim, self._clock)
        if left_s is None:
            return None
        if left_s > 0 or self._cluster.informers.staleness:
            return min(left_s, _LONGEST_WAIT_S) if left_s > 0 else _BUDGET_AGAIN_S
        budget = self._reserve(claim)
        if budget:
            self._waiting.add(name)
            self._recorder.tell(
                Subject.of(NODE_CLAIMS, claim),
                "DisruptionBlocked",
                f"It has expired and waits for a budget of its NodePool ({budget})",
                quiet_s=_LONGEST_WAIT_S,
                about="expired",
            )
            return _BUDGET_AGAIN_S
        self._waiting.discard(name)
        try:
            await self._client.delete(NODE_CLAIMS, name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            self._cluster.removals.release([name])
            return None
        pool, kind = claim.metadata.labels.get(NODEPOOL, ""), claim.metadata.labels.get(CAPACITY_TYPE, "")
        self._metrics.claims_disrupted.labels("expired", pool, kind).inc()
        self._log.info(
            "deleted nodeclaim",
            NodeClaim={"name": name},
            reason="expired",
            **{"expire-after": claim.spec.expire_after},
        )
        self._decisions.record(
            DecisionKind.EXPIRE,
            f"NodeClaim/{name}",
            reason="Expired",
            message=f"NodeClaim {name} is older than expireAfter {claim.spec.expire_after}",
        )
        return None

    def _reserve(self, claim: NodeClaim) -> str:
        """Reserves the removal of an expired claim; gives the budget that keeps it for now, empty if it may go.

        A claim that may go counts as going at once, for every worker and every other controller: a deletion whose
        answer is lost is tried again, and stays reserved until then.
        """
        name = claim.metadata.labels.get(NODEPOOL, "")
        pool = self._cluster.pool(name)
        if pool is None:
            return ""
        policy = pool_policy(pool)
        if not any(Reason.EXPIRED in rule.reasons for rule in policy.budgets):
            self._cluster.removals.reserve([claim.metadata.name])
            return ""
        member = self._cluster.member(claim.metadata.name)
        now = self._clock.now().timestamp()
        group = [member.name] if member is not None else []
        is_next = not self._is_after_another(claim, name)
        if is_next and reserve_removals(self._cluster, [group], Reason.EXPIRED, {name: policy}, now):
            return ""
        return Quota(candidates(self._cluster), {name: policy}, now).allowance(name, Reason.EXPIRED).budget

    def _is_after_another(self, claim: NodeClaim, pool: str) -> bool:
        """Tells whether a claim of the pool that expired earlier waits for the same budget."""
        waiting = (self._cluster.informers.claims.get(name) for name in self._waiting)
        rivals = [
            each
            for each in waiting
            if each is not None
            and each.metadata.labels.get(NODEPOOL) == pool
            and each.metadata.deletion_timestamp is None
            and each.metadata.name not in self._cluster.removals
        ]
        # By moments and not by what is left of them: time passes from one question to the next.
        first = min((*rivals, claim), key=_turn)
        return first.metadata.uid != claim.metadata.uid

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        self._queue.add(change.object.metadata.name)
        if change.new is None:
            # Its place in the budget is free.
            for name in self._waiting:
                self._queue.add(name)


def _turn(claim: NodeClaim) -> tuple[float, str]:
    moment = expires_at(claim)
    return moment.timestamp() if moment is not None else math.inf, claim.metadata.name
