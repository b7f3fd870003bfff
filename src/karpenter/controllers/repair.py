# SPDX-License-Identifier: Apache-2.0
"""Replaces nodes that are broken and stay so: the cloud says which conditions mean that, and for how long to hope.

A node whose condition has been bad for longer than its toleration is given up by force: its claim's time is over at
once, and it is deleted. The stop rule: while more than a fifth of a pool's nodes are in trouble nothing is replaced,
because then it is not the nodes that are broken. Budgets do not count here; what is done is told with its cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.protocol import CloudProvider, RepairPolicy
from karpenter.kit.clock import Clock
from karpenter.kit.durations import later
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, ConflictError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODE_POOLS, NODES
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log, reporting
from karpenter.state import Cluster, Member

__all__ = ["Repair", "ailing", "broken_since", "is_outage"]

_MOST_UNHEALTHY: Final = 0.2
_BLOCKED_AGAIN_S: Final = 300.0
_STALE_AGAIN_S: Final = 5.0
_QUIET_S: Final = 900.0


def ailing(node: Node, policies: Iterable[RepairPolicy]) -> list[tuple[Condition, RepairPolicy]]:
    """Gives the conditions of a node that mean trouble, each with what is said about it."""
    return [
        (condition, policy)
        for policy in policies
        for condition in node.status.conditions
        if (condition.type, condition.status) == (policy.condition_type, policy.condition_status)
    ]


def broken_since(
    node: Node, policies: Iterable[RepairPolicy]
) -> tuple[datetime, Condition, RepairPolicy] | None:
    """Gives the moment from which on a node counts as broken, the earliest, and why; None if it is well."""
    found = [
        (later(condition.last_transition_time, policy.toleration_s), condition, policy)
        for condition, policy in ailing(node, policies)
        if condition.last_transition_time is not None
    ]
    return min(found, key=lambda each: each[0], default=None)


def is_outage(nodes: Sequence[Node], policies: Sequence[RepairPolicy]) -> bool:
    """Tells whether so many nodes are in trouble that replacing them would not help."""
    unhealthy = sum(bool(ailing(node, policies)) for node in nodes)
    return unhealthy > math.ceil(len(nodes) * _MOST_UNHEALTHY)


class Repair:
    """Replaces broken nodes; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._policies = tuple(cloud.repair_policies())
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._log = get_log("node.health")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, on_error=reporting(self._log, metrics, "node.health", "Node")
        )
        cluster.informers.nodes.on_change(self._node_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Gives a broken node up, or says when it will count as broken."""
        member = self._cluster.member(name)
        if member is None or member.node is None or member.claim is None or member.is_being_deleted:
            self._queue.forget(name)
            return None
        found = broken_since(member.node, self._policies)
        if found is None:
            return None
        since, condition, policy = found
        left_s = (since - self._clock.now()) / timedelta(seconds=1)
        if left_s > 0:
            return left_s
        if self._cluster.informers.staleness:
            return _STALE_AGAIN_S
        if is_outage(self._beside(member), self._policies):
            self._tell_blocked(member)
            return _BLOCKED_AGAIN_S
        await self._give_up(member.claim, condition, policy)
        return None

    def _beside(self, member: Member) -> list[Node]:
        """Gives the nodes of the same pool; all of ours for one that belongs to none."""
        return [
            each.node
            for each in self._cluster.members()
            if each.node is not None
            and each.claim is not None
            and (not member.pool or each.pool == member.pool)
        ]

    def _tell_blocked(self, member: Member) -> None:
        words = (
            f"more than {_MOST_UNHEALTHY:.0%} of the nodes of NodePool {member.pool} are unhealthy: none is replaced"
            if member.pool
            else f"more than {_MOST_UNHEALTHY:.0%} of the nodes are unhealthy: none is replaced"
        )
        subjects = []
        if member.node is not None:
            subjects.append(Subject.of(NODES, member.node))
        if member.claim is not None:
            subjects.append(Subject.of(NODE_CLAIMS, member.claim))
        pool = self._cluster.pool(member.pool)
        if pool is not None:
            subjects.append(Subject.of(NODE_POOLS, pool))
        for subject in subjects:
            self._recorder.tell(subject, "NodeRepairBlocked", words, type="Warning", quiet_s=_QUIET_S)

    async def _give_up(self, claim: NodeClaim, condition: Condition, policy: RepairPolicy) -> None:
        name = claim.metadata.name
        stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        change = {"metadata": {"annotations": {names.TERMINATION_TIMESTAMP: stamp}}}
        # No budget holds it, but it counts in everybody's, before its deletion can be seen.
        self._cluster.removals.reserve([name])
        try:
            self._cluster.informers.claims.observe(await self._client.patch(NODE_CLAIMS, name, change))
            await self._client.delete(NODE_CLAIMS, name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            self._cluster.removals.release([name])
            return
        pool = claim.metadata.labels.get(names.NODEPOOL, "")
        kind = claim.metadata.labels.get(names.CAPACITY_TYPE, "")
        self._metrics.claims_disrupted.labels("unhealthy", pool, kind).inc()
        self._metrics.unhealthy_disrupted.labels(condition.type, pool, kind, claim.status.image_id).inc()
        words = (
            f"condition {condition.type} of node {claim.status.node_name} is {condition.status}"
            f" for more than {policy.toleration_s:g} s"
        )
        self._log.info(
            "deleting unhealthy node",
            NodeClaim={"name": name},
            Node={"name": claim.status.node_name},
            condition=condition.type,
            detail=condition.message,
        )
        self._decisions.record(
            DecisionKind.REPAIR, f"NodeClaim/{name}", reason=condition.type, message=f"{name}: {words}"
        )

    def _node_changed(self, change: Change[Node]) -> None:
        # A kubelet reports every few seconds; only trouble and the end of it are of interest.
        if change.new is None or ailing(change.new, self._policies):
            self._queue.add(change.object.metadata.name)
