# SPDX-License-Identifier: Apache-2.0
"""Keeps what NodePools say about themselves true: readiness, what their nodes add up to, the template's fingerprint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from karpenter.api import labels as names
from karpenter.api.conditions import DRIFTED, NODE_CLASS_READY, NODE_POOL, VALIDATION_SUCCEEDED, ConditionSet
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.protocol import CloudProvider
from karpenter.controllers.nodepool.judging import (
    DISRUPTION_VALID,
    INSTANCE_TYPES_FOUND,
    LAUNCHES_PAUSED,
    judged,
)
from karpenter.controllers.patches import write_status
from karpenter.controllers.registrationhealth import LaunchBreaker
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODE_POOLS
from karpenter.model.hashes import POOL_HASH_VERSION, pool_hash
from karpenter.model.instancetypes import InstanceType
from karpenter.model.resources import Resources
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import STORED_NODE_POOLS, Cluster, Stored

__all__ = ["NodePools"]

# Counting waits so long after a change, so that a burst of nodes is one write.
_COUNT_AFTER_S: Final = 1.0
_LOOK_AGAIN_S: Final = 300.0
_CLOSED_AGAIN_S: Final = 30.0
_TOLD_AGAIN_S: Final = 600.0
# What is said as an event too when it does not hold: nobody watches conditions.
_TOLD: Final = (VALIDATION_SUCCEEDED, NODE_CLASS_READY, INSTANCE_TYPES_FOUND, DISRUPTION_VALID)


class NodePools:
    """Looks after NodePools; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
        breaker: LaunchBreaker | None = None,
    ) -> None:
        """Take what the controller works with.

        Args:
            client: Writes status and annotations.
            cluster: The pools, their classes and nodes.
            cloud: Tells what a class can launch.
            recorder: Tells what is wrong.
            metrics: What is used and what the limits are.
            clock: The time.
            breaker: Pauses pools whose nodes fail; by default none is paused.
        """
        self._breaker = breaker or LaunchBreaker(clock)
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._recorder = recorder
        self._clock = clock
        self._log = get_log("nodepool.readiness")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, on_error=reporting(self._log, metrics, "nodepool", "NodePool")
        )
        cluster.informers.pools.on_change(lambda change: self._queue.add(change.object.metadata.name))
        cluster.informers.classes.on_change(lambda _: self._all_changed())
        self._breaker.on_change(self._queue.add)
        cluster.informers.claims.on_change(self._member_changed)
        cluster.informers.nodes.on_change(self._member_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Brings one pool's status, annotations and events up to date."""
        pool = self._cluster.pool(name)
        if pool is None:
            await self._misread(name)
            return None
        if not self._cloud.node_class_kind.is_named_by(pool) and await self._is_served(pool):
            # The pool of another controller, with node classes of its own.
            return _LOOK_AGAIN_S
        await self._hash(pool)
        pool = self._cluster.pool(name) or pool
        node_class = self._cluster.node_class(pool.spec.template.spec.node_class_ref.name)
        types = await self._types(pool, node_class)
        conditions = judged(
            pool,
            node_class,
            types,
            self._clock.now(),
            class_kind=self._cloud.node_class_kind,
            pause=self._breaker.message(name),
        )
        for kind in _TOLD:
            found = conditions.get(kind)
            # A pause is told by who began it.
            if found is not None and found.status == "False" and found.reason != LAUNCHES_PAUSED:
                self._tell(pool, found.reason, found.message)
        await self._write(pool, conditions)
        if not conditions.is_true(VALIDATION_SUCCEEDED):
            # What EC2 offers changes without an event, and so does the end of a pause.
            return min(self._breaker.remaining_s(name) or _CLOSED_AGAIN_S, _CLOSED_AGAIN_S)
        return _LOOK_AGAIN_S

    async def _is_served(self, pool: NodePool) -> bool:
        """Return whether the API server has the kind that a pool's nodeClassRef names, in a group that is not ours."""
        reference = pool.spec.template.spec.node_class_ref
        if reference.group == self._cloud.node_class_kind.group:
            return False
        try:
            group = json.loads(await self._client.raw("GET", f"/apis/{quote(reference.group, safe='')}"))
            for each in group.get("versions", ()):
                found = json.loads(await self._client.raw("GET", f"/apis/{each['groupVersion']}"))
                if any(kind.get("kind") == reference.kind for kind in found.get("resources", ())):
                    return True
        except NotFoundError:
            return False
        return False

    async def _types(self, pool: NodePool, node_class: EC2NodeClass | None) -> Sequence[InstanceType] | None:
        if node_class is None or not self._cloud.readiness(node_class).ready:
            return None
        try:
            return await self._cloud.instance_types(pool, node_class)
        except KarpenterError:
            return None

    async def _write(self, pool: NodePool, conditions: ConditionSet) -> None:
        members = [each for each in self._cluster.members() if each.pool == pool.metadata.name]
        total: dict[str, int] = {}
        for member in members:
            for resource, amount in self._cluster.size_of(member).items():
                total[resource] = total.get(resource, 0) + amount
        resources = {**Resources(total).to_quantities(), "nodes": str(len(members))}
        changed = conditions.conditions != pool.status.conditions
        counted = dict(pool.status.resources) == resources and pool.status.nodes == len(members)
        if not changed and counted:
            return
        status: dict[str, Any] = {"resources": self._patched(pool, resources), "nodes": len(members)}
        if changed:
            status["conditions"] = conditions.to_wire()
        # Another controller writes registration health: the patch carries the version that was read.
        if not await write_status(self._client, self._cluster.informers.pools, pool, status):
            self._queue.add(pool.metadata.name)

    def _patched(self, pool: NodePool, resources: dict[str, str]) -> dict[str, str | None]:
        """Takes out what no node has any more: a merge patch keeps what it does not name."""
        gone: dict[str, str | None] = {name: None for name in pool.status.resources if name not in resources}
        return {**gone, **resources}

    async def _hash(self, pool: NodePool) -> None:
        """Writes the fingerprint on the pool, and anew on claims that carry one of another making."""
        wanted = {names.NODEPOOL_HASH: pool_hash(pool), names.NODEPOOL_HASH_VERSION: POOL_HASH_VERSION}
        for claim in self._cluster.informers.claims.by("pool", pool.metadata.name):
            version = claim.metadata.annotations.get(names.NODEPOOL_HASH_VERSION, "")
            if version != POOL_HASH_VERSION:
                # Made by another way of reckoning: its fingerprint says nothing. As Karpenter: who had drifted has.
                drifted = any(
                    each.type == DRIFTED and each.status == "True" for each in claim.status.conditions
                )
                stamp = {names.NODEPOOL_HASH_VERSION: POOL_HASH_VERSION} if drifted else wanted
                change = {"metadata": {"annotations": stamp}}
                self._cluster.informers.claims.observe(
                    await self._client.patch(NODE_CLAIMS, claim.metadata.name, change)
                )
        if any(pool.metadata.annotations.get(key) != value for key, value in wanted.items()):
            change = {"metadata": {"annotations": wanted}}
            try:
                written = await self._client.patch(STORED_NODE_POOLS, pool.metadata.name, change)
            except NotFoundError:
                return
            self._cluster.informers.pools.observe(written)

    async def _misread(self, name: str) -> None:
        """Says on a pool that cannot be understood why it is not used."""
        stored = self._cluster.informers.pools.get(name)
        if stored is None:
            self._queue.forget(name)
            return
        problem = next(
            (
                each.problem
                for each in self._cluster.effective.misread
                if (each.kind, each.name) == ("NodePool", name)
            ),
            "not understood",
        )
        conditions = ConditionSet.of(NODE_POOL, stored.metadata, ()).false(
            VALIDATION_SUCCEEDED, self._clock.now(), reason="NodePoolValidationFailed", message=problem
        )
        self._tell(stored, "NodePoolValidationFailed", problem)
        known = stored.status.get("conditions") or []
        if any(each.get("message") == problem for each in known if isinstance(each, dict)):
            return
        status = {"conditions": conditions.to_wire()}
        if not await write_status(self._client, self._cluster.informers.pools, stored, status):
            self._queue.add(name)

    def _tell(self, pool: NodePool | Stored, reason: str, message: str) -> None:
        self._recorder.tell(
            Subject.of(NODE_POOLS, pool), reason, message, type="Warning", quiet_s=_TOLD_AGAIN_S
        )

    def _member_changed(self, change: Change[Any]) -> None:
        pool = change.object.metadata.labels.get(names.NODEPOOL, "")
        if pool and (change.old is None or change.new is None or _counts(change.old) != _counts(change.new)):
            self._queue.add_after(pool, _COUNT_AFTER_S)

    def _all_changed(self) -> None:
        for pool in self._cluster.informers.pools:
            self._queue.add(pool.metadata.name)


def _counts(member: NodeClaim | Node) -> object:
    """Gives what of a claim or a node the pool's numbers and fingerprints depend on; heartbeats are none of it."""
    found = member.metadata.labels, member.metadata.annotations.get(names.NODEPOOL_HASH_VERSION)
    return *found, member.status.capacity, _provider_id(member)


def _provider_id(member: NodeClaim | Node) -> str:
    return member.spec.provider_id if isinstance(member, Node) else member.status.provider_id
