# SPDX-License-Identifier: Apache-2.0
"""What is said on claims about their removal: Drifted, Consolidatable, and when a pod last came or went.

A claim has drifted when its pool's template has changed since, its labels no longer meet the pool's requirements, its
type is no longer sold, a DaemonSet has no room on it and its pool lets it be replaced for that, or the cloud says so.
It is consolidatable when it is ready for work and no pod has come or gone for ``consolidateAfter``. Both conditions are
taken away when they no longer hold. They inform people and other programs; the decision itself is made anew from the
same facts.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.conditions import (
    CONSOLIDATABLE,
    DRIFTED,
    INITIALIZED,
    LAUNCHED,
    NODE_CLAIM,
    ConditionSet,
)
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.protocol import CloudProvider
from karpenter.controllers.disruption.daemons import DaemonPlans
from karpenter.controllers.patches import write_status
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kit.durations import Duration, DurationError, later, parse_nillable_duration
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client
from karpenter.model.hashes import POOL_HASH_VERSION, pool_hash
from karpenter.model.requirements import RequirementError, Requirements
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster, Stored

__all__ = ["Marking", "own_drift", "quiet_for_s"]

_DRIFT_AGAIN_S: Final = 300.0
_TYPE_AFTER: Final = timedelta(hours=1)
_AGAIN_S: Final = 0.5
# As Karpenter: a busy node is not written to for each of its pods.
_STAMP_EVERY: Final = timedelta(seconds=10)


def own_drift(claim: NodeClaim, pool: NodePool) -> str:
    """Gives why a claim no longer equals its pool, or an empty text."""
    made = claim.metadata.annotations
    # Reckoned anew: a pool that was written through v1beta1 may not show its own fingerprint.
    is_known = made.get(names.NODEPOOL_HASH_VERSION) == POOL_HASH_VERSION and names.NODEPOOL_HASH in made
    if is_known and made[names.NODEPOOL_HASH] != pool_hash(pool):
        return "NodePoolDrifted"
    try:
        wanted = Requirements.from_expressions(pool.spec.template.spec.requirements)
    except RequirementError:
        return ""
    has = Requirements.from_labels(claim.metadata.labels)
    return "" if has.compatible(wanted, frozenset()) else "RequirementsDrifted"


def quiet_for_s(claim: NodeClaim, last_event: datetime | None, now: datetime) -> float | None:
    """Gives the seconds since a pod came or went, or since the node was ready; None if it is not ready yet."""
    ready = next(
        (each for each in claim.status.conditions if each.type == INITIALIZED and each.status == "True"), None
    )
    if ready is None:
        return None
    known = (ready.last_transition_time, last_event, claim.metadata.creation_timestamp)
    latest = max((each for each in known if each is not None), default=now)
    return (now - latest) / timedelta(seconds=1)


class Marking:
    """Keeps the conditions of claims true; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        metrics: Metrics,
        clock: Clock,
        daemons: DaemonPlans | None = None,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._clock = clock
        self._daemons = daemons
        self._log = get_log("nodeclaim.disruption")
        self._drift: dict[str, tuple[float, object, str]] = {}
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, on_error=reporting(self._log, metrics, "nodeclaim.disruption", "NodeClaim")
        )
        cluster.informers.claims.on_change(lambda change: self._queue.add(change.object.metadata.name))
        cluster.informers.pools.on_change(self._pool_changed)
        cluster.informers.classes.on_change(lambda _: self._all_changed())
        cluster.pod_events.listen(self._node_changed)
        if daemons is not None:
            daemons.listen(self._queue.add)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Brings the conditions of one claim up to date, and says when they may change by themselves."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            self._drift.pop(name, None)
            self._queue.forget(name)
            return None
        pool = self._cluster.pool(claim.metadata.labels.get(names.NODEPOOL, ""))
        conditions = ConditionSet.of(NODE_CLAIM, claim.metadata, claim.status.conditions)
        if pool is None or not conditions.is_true(LAUNCHED):
            return None
        now = self._clock.now()
        reason = await self._drift_of(claim, pool)
        changed = conditions.true(DRIFTED, now, reason=reason) if reason else conditions.without(DRIFTED)
        changed, again_s = self._consolidatable(changed, claim, pool, now)
        stamp, stamp_again_s = self._stamp(claim, now)
        if changed is not conditions or stamp is not None:
            if not await self._write(claim, changed, stamp):
                return _AGAIN_S
            self._report(name, conditions, changed, reason)
        return min(each for each in (again_s, stamp_again_s, _DRIFT_AGAIN_S) if each is not None)

    async def _drift_of(self, claim: NodeClaim, pool: NodePool) -> str:
        """Gives why a claim has drifted; the cloud is asked now and then, and at once when its class changed."""
        reason = own_drift(claim, pool)
        if not reason and self._daemons is not None:
            reason = self._daemons.drift(claim)
        if reason:
            return reason
        node_class = self._cluster.node_class(claim.spec.node_class_ref.name)
        if node_class is None:
            return ""
        known = self._drift.get(claim.metadata.name)
        asked = (node_class.metadata.resource_version, pool.metadata.generation)
        now = self._clock.monotonic()
        if known is not None and known[1] == asked and now < known[0]:
            return known[2]
        try:
            reason = await self._type_gone(claim, pool, node_class)
            reason = reason or await self._cloud.drift_reason(claim, node_class)
        except NodeClaimNotFoundError:
            reason = ""
        self._drift[claim.metadata.name] = (now + _DRIFT_AGAIN_S - 1, asked, reason)
        return reason

    async def _type_gone(self, claim: NodeClaim, pool: NodePool, node_class: EC2NodeClass) -> str:
        born, kind = claim.metadata.creation_timestamp, claim.metadata.labels.get(names.INSTANCE_TYPE, "")
        if born is None or self._clock.now() - born < _TYPE_AFTER:
            return ""
        try:
            types = await self._cloud.instance_types(pool, node_class)
        except KarpenterError:
            return ""
        return "InstanceTypeNotFound" if types and all(each.name != kind for each in types) else ""

    def _consolidatable(
        self, conditions: ConditionSet, claim: NodeClaim, pool: NodePool, now: datetime
    ) -> tuple[ConditionSet, float | None]:
        try:
            after = parse_nillable_duration(pool.spec.disruption.consolidate_after or "0s")
        except DurationError:
            return conditions.without(CONSOLIDATABLE), None
        quiet_s = quiet_for_s(claim, self._cluster.pod_events.last(claim), now)
        if not isinstance(after, Duration) or quiet_s is None:
            return conditions.without(CONSOLIDATABLE), None
        if quiet_s >= after.seconds:
            return conditions.true(CONSOLIDATABLE, now), None
        return conditions.without(CONSOLIDATABLE), after.seconds - quiet_s

    def _stamp(self, claim: NodeClaim, now: datetime) -> tuple[datetime | None, float | None]:
        """Gives the time to write, or how soon to write it."""
        last, written = self._cluster.pod_events.last(claim), claim.status.last_pod_event_time
        if last is None or (written is not None and last.replace(microsecond=0) <= written):
            return None, None
        if written is not None and now - written < _STAMP_EVERY:
            return None, (later(written, _STAMP_EVERY) - now) / timedelta(seconds=1)
        return last, None

    async def _write(self, claim: NodeClaim, conditions: ConditionSet, stamp: datetime | None) -> bool:
        status: dict[str, Any] = {"conditions": conditions.to_wire()}
        if stamp is not None:
            status["lastPodEventTime"] = stamp.strftime("%Y-%m-%dT%H:%M:%SZ")
        return await write_status(self._client, self._cluster.informers.claims, claim, status)

    def _report(self, name: str, before: ConditionSet, after: ConditionSet, reason: str) -> None:
        if after.is_true(DRIFTED) and not before.is_true(DRIFTED):
            self._log.info("marking drifted", NodeClaim={"name": name}, reason=reason)
        if after.is_true(CONSOLIDATABLE) and not before.is_true(CONSOLIDATABLE):
            self._log.debug("marking consolidatable", NodeClaim={"name": name})

    def _pool_changed(self, change: Change[Stored]) -> None:
        # A pool is written to for each node that comes and goes; none of that says anything about its claims.
        if change.old is not None and change.new is not None and _said(change.old) == _said(change.new):
            return
        for claim in self._cluster.informers.claims.by("pool", change.object.metadata.name):
            self._queue.add(claim.metadata.name)

    def _all_changed(self) -> None:
        for claim in self._cluster.informers.claims:
            self._queue.add(claim.metadata.name)

    def _node_changed(self, node: str) -> None:
        for claim in self._cluster.informers.claims.by("node", node):
            self._queue.add(claim.metadata.name)


def _said(pool: Stored) -> object:
    return pool.metadata.generation, pool.metadata.annotations
