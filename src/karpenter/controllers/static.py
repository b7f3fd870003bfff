# SPDX-License-Identifier: Apache-2.0
"""Keeps as many nodes in a static pool as its ``replicas`` say, whatever the pods.

Too few: what is missing is ordered at once, within ``limits.nodes``; while a pool's launches fail it waits, as any
other. Too many: those go first that were never launched, then those without pods, then those whose pods cost least to
move and that would expire soonest; nodes that ask not to be disturbed come last. A node that is being exchanged counts
once, with its replacement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from karpenter.api import labels as names
from karpenter.api.conditions import NODE_POOL, READY, ConditionSet
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kit.durations import parse_duration
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, ConflictError, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.model.pods import do_not_disrupt, eviction_cost, is_reschedulable
from karpenter.model.resources import Resources
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log, reporting
from karpenter.state import Cluster, Member, Stored

__all__ = ["StaticPools"]

_AGAIN_S: Final = 60.0
_AT_LIMIT_AGAIN_S: Final = 30.0
_GATHER_S: Final = 0.2
_CREATED_AT_ONCE: Final = 50
_FOREVER_S: Final = 10 * 365 * 86_400.0


class Ordering(Protocol):
    """Who creates claims."""

    async def create_from_template(self, pool: NodePool, *, reason: str) -> NodeClaim | None:
        """Creates a claim for what a pool's template asks for; None if that cannot be."""
        ...


class _Exchange(msgspec.Struct, frozen=True):
    """What is read of the record of a command that a claim takes part in."""

    role: str = "remove"
    remove: tuple[str, ...] = ()


class StaticPools:
    """Keeps static pools at their size; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        orders: Ordering,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        is_backing_off: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._orders = orders
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._is_backing_off = is_backing_off
        self._log = get_log("static.provisioning")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, on_error=reporting(self._log, metrics, "static.provisioning", "NodePool")
        )
        cluster.informers.pools.on_change(self._pool_changed)
        cluster.informers.claims.on_change(self._claim_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Brings a pool to its size, and says when to look again."""
        pool = self._cluster.pool(name)
        if pool is None or pool.spec.replicas is None or pool.metadata.deletion_timestamp is not None:
            self._queue.forget(name)
            return None
        counted = self._counted(name)
        missing = pool.spec.replicas - len(counted)
        if self._cluster.informers.claims.unreadable or self._cluster.informers.staleness:
            # Some of the pool's claims may not be counted, or be gone: what is made now would be deleted later.
            return _AT_LIMIT_AGAIN_S
        if missing < 0:
            await self._shrink(pool, counted, -missing)
            return _AGAIN_S
        if missing == 0:
            return _AGAIN_S
        conditions = ConditionSet.of(NODE_POOL, pool.metadata, pool.status.conditions)
        if not conditions.is_true(READY) or self._is_backing_off(name):
            return _AT_LIMIT_AGAIN_S
        allowed = min(missing, self._room(pool))
        if allowed > 0:
            await self._grow(pool, allowed)
        return _AGAIN_S if allowed == missing else _AT_LIMIT_AGAIN_S

    def _counted(self, pool: str) -> list[NodeClaim]:
        """Gives the claims that make up the pool; one that stands in for another that is still there does not."""
        found = []
        claims = self._cluster.informers.claims
        for claim in claims.by("pool", pool):
            if claim.metadata.deletion_timestamp is not None or self._cluster.is_going(Member(claim)):
                continue
            exchange = _exchange(claim)
            stays = [claims.get(each) for each in exchange.remove] if exchange.role == "launch" else []
            if not any(each is not None and each.metadata.deletion_timestamp is None for each in stays):
                found.append(claim)
        return found

    def _room(self, pool: NodePool) -> int:
        limit = pool.spec.limits.get("nodes")
        if limit is None:
            return pool.spec.replicas or 0
        try:
            allowed = Resources.parse({"nodes": limit})["nodes"]
        except KarpenterError:
            return 0
        return max(allowed - len(self._cluster.informers.claims.by("pool", pool.metadata.name)), 0)

    async def _grow(self, pool: NodePool, number: int) -> None:
        name = pool.metadata.name
        self._log.info(
            "provisioning nodeclaims to satisfy replica count", NodePool={"name": name}, count=number
        )
        free = asyncio.Semaphore(_CREATED_AT_ONCE)

        async def create() -> NodeClaim | None:
            async with free:
                return await self._orders.create_from_template(pool, reason="static")

        made = [each for each in await asyncio.gather(*(create() for _ in range(number))) if each is not None]
        self._decisions.record(
            DecisionKind.PLAN,
            f"NodePool/{name}",
            reason="Static",
            message=f"{len(made)} nodes for NodePool {name}, which keeps {pool.spec.replicas}",
            nodes=len(made),
        )

    async def _shrink(self, pool: NodePool, claims: list[NodeClaim], number: int) -> None:
        for claim in sorted(claims, key=self._rank)[:number]:
            name = claim.metadata.name
            try:
                await self._client.delete(NODE_CLAIMS, name, uid=claim.metadata.uid)
            except (NotFoundError, ConflictError):
                continue
            # Until the deletion is seen it must not be counted, or another claim would go instead.
            self._cluster.mark_leaving([name])
            kind = claim.metadata.labels.get(names.CAPACITY_TYPE, "")
            self._metrics.claims_disrupted.labels("scaled_down", pool.metadata.name, kind).inc()
            self._log.info("deleted nodeclaim", NodeClaim={"name": name}, reason="scaled down")
            self._decisions.record(
                DecisionKind.DELETE,
                f"NodeClaim/{name}",
                reason="ScaledDown",
                message=f"NodePool {pool.metadata.name} keeps {pool.spec.replicas} nodes; {name} is one too many",
            )

    def _rank(self, claim: NodeClaim) -> tuple[bool, bool, bool, float, str]:
        """Orders claims by how little is lost with them."""
        member = self._cluster.member(claim.metadata.name)
        pods = [
            pod
            for pod in (self._cluster.pods_on(member.name) if member is not None and member.node else ())
            if is_reschedulable(pod)
        ]
        now = self._clock.now()
        annotated = [
            each for each in (claim, member.node if member is not None else None) if each is not None
        ]
        is_protected = any(
            each.metadata.annotations.get(names.DO_NOT_DISRUPT) == "true" for each in annotated
        ) or any(do_not_disrupt(pod, now).active for pod in pods)
        cost = sum(max(0.0, eviction_cost(pod)) for pod in pods) * self._life_left(claim)
        is_launched = bool(claim.status.provider_id)
        return is_protected, is_launched, bool(pods), cost, claim.metadata.name

    def _life_left(self, claim: NodeClaim) -> float:
        """Gives the share of its life that a claim has before it; 1 if it does not expire."""
        born = claim.metadata.creation_timestamp
        try:
            life_s = parse_duration(claim.spec.expire_after).seconds
        except KarpenterError:
            return 1.0
        if born is None or life_s <= 0 or life_s > _FOREVER_S:
            return 1.0
        return max(0.0, 1.0 - (self._clock.now() - born).total_seconds() / life_s)

    def _pool_changed(self, change: Change[Stored]) -> None:
        if change.object.spec.get("replicas") is not None:
            self._queue.add_after(change.object.metadata.name, _GATHER_S)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        pool = self._cluster.pool(change.object.metadata.labels.get(names.NODEPOOL, ""))
        if pool is not None and pool.spec.replicas is not None:
            self._queue.add_after(pool.metadata.name, _GATHER_S)


def _exchange(claim: NodeClaim) -> _Exchange:
    annotations: Mapping[str, str] = claim.metadata.annotations
    text = annotations.get(names.DISRUPTION_COMMAND, "")
    if not text:
        return _Exchange()
    try:
        return msgspec.json.decode(text, type=_Exchange)
    except msgspec.MsgspecError:
        return _Exchange()
