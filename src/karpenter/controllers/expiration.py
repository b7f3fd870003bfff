# SPDX-License-Identifier: Apache-2.0
"""Nodes do not grow older than their NodePool says: at creation plus ``expireAfter`` their claim is deleted.

Expiry is forceful: it waits for no budget but one that names it (reason Expired), which then bounds how many nodes of
a pool are on their way out at once, as for any other reason. Draining still honours PodDisruptionBudgets, for as long
as ``terminationGracePeriod`` says.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from karpenter.api.labels import CAPACITY_TYPE, NODEPOOL
from karpenter.api.nodeclaim import NodeClaim
from karpenter.consolidation import Quota, Reason, pool_policy
from karpenter.kit.clock import Clock
from karpenter.kit.durations import DurationError, parse_duration
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Client, ConflictError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log, reporting
from karpenter.state import Cluster, candidates

__all__ = ["Expiration", "expires_in"]

_NEVER: Final = "Never"
# Timers are set anew now and then, so that a clock that was set does not let a node live for ever.
_LONGEST_WAIT_S: Final = 3600.0
_BUDGET_AGAIN_S: Final = 30.0


def expires_in(claim: NodeClaim, clock: Clock) -> float | None:
    """Gives the seconds until a claim expires, negative if it should have; None if it never does."""
    if claim.spec.expire_after in ("", _NEVER) or claim.metadata.creation_timestamp is None:
        return None
    try:
        life = parse_duration(claim.spec.expire_after).timedelta
    except DurationError:
        return None
    return (claim.metadata.creation_timestamp + life - clock.now()) / timedelta(seconds=1)


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
        cluster.informers.claims.on_change(lambda change: self._queue.add(change.object.metadata.name))

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Deletes a claim that is too old, or says when it will be."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            self._queue.forget(name)
            return None
        left_s = expires_in(claim, self._clock)
        if left_s is None:
            return None
        if left_s > 0:
            return min(left_s, _LONGEST_WAIT_S)
        budget = self._forbidden(claim)
        if budget:
            self._recorder.tell(
                Subject.of(NODE_CLAIMS, claim),
                "DisruptionBlocked",
                f"It has expired and waits for a budget of its NodePool ({budget})",
                quiet_s=_LONGEST_WAIT_S,
                about="expired",
            )
            return _BUDGET_AGAIN_S
        try:
            await self._client.delete(NODE_CLAIMS, name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            return None
        pool, kind = claim.metadata.labels.get(NODEPOOL, ""), claim.metadata.labels.get(CAPACITY_TYPE, "")
        self._metrics.claims_disrupted.labels("expired", pool, kind, "", "").inc()
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

    def _forbidden(self, claim: NodeClaim) -> str:
        """Gives the budget that keeps an expired claim for now, in words; empty if it may go."""
        name = claim.metadata.labels.get(NODEPOOL, "")
        pool = self._cluster.pool(name)
        if pool is None:
            return ""
        policy = pool_policy(pool)
        if not any(Reason.EXPIRED in rule.reasons for rule in policy.budgets):
            return ""
        own = (each for each in candidates(self._cluster) if each.pool == name)
        quota = Quota(own, {name: policy}, self._clock.now().timestamp())
        if quota.has_room(name, Reason.EXPIRED):
            return ""
        return quota.allowance(name, Reason.EXPIRED).budget
