# SPDX-License-Identifier: Apache-2.0
"""The end of a NodeClaim: its node goes first, then its instance, then our finalizer, in that order and to the end.

A claim that is being deleted sets the time by which draining must be over, if it has a grace period, and deletes its
node; the node's own end drains it. When no node is left the instance is terminated, and only when the cloud no longer
knows it is the finalizer taken off: nothing is left behind that costs money.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from karpenter.api import labels as names
from karpenter.api.conditions import INSTANCE_TERMINATING, is_true
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.protocol import CloudProvider, Machine
from karpenter.controllers.patches import remove_finalizer, reread
from karpenter.controllers.termination.instances import InstanceTermination
from karpenter.kit.clock import Clock
from karpenter.kit.durations import DurationError, parse_duration
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, ConflictError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log, reporting
from karpenter.state import Cluster

__all__ = ["ClaimTermination", "termination_time"]

_LOOK_AGAIN_S: Final = 5.0


def termination_time(claim: NodeClaim) -> datetime | None:
    """Gives the moment by which a claim's node must be drained; None if it may take for ever."""
    text = claim.metadata.annotations.get(names.TERMINATION_TIMESTAMP, "")
    try:
        stamp = datetime.fromisoformat(text) if text else None
    except ValueError:
        stamp = None
    if stamp is not None:
        return stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    if not claim.spec.termination_grace_period or claim.metadata.deletion_timestamp is None:
        return None
    try:
        grace = parse_duration(claim.spec.termination_grace_period)
    except DurationError:
        return None
    return grace.ends(claim.metadata.deletion_timestamp)


class ClaimTermination:
    """Ends claims; ``run`` must be kept running by a supervisor."""

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        workers: int = 100,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._log = get_log("nodeclaim.lifecycle")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            workers=workers,
            on_error=reporting(self._log, metrics, "nodeclaim.termination", "NodeClaim"),
        )
        self._instances = InstanceTermination(
            client=client,
            cluster=cluster,
            cloud=cloud,
            recorder=recorder,
            metrics=metrics,
            clock=clock,
            log=self._log,
        )
        cluster.informers.claims.on_change(self._claim_changed)
        cluster.informers.nodes.on_change(self._node_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Does what is next for a claim on its way out, and says when to look again."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None or claim.metadata.deletion_timestamp is None:
            self._queue.forget(name)
            return None
        if names.TERMINATION_FINALIZER not in claim.metadata.finalizers:
            return None
        await self._set_deadline(claim)
        nodes = self._nodes_of(claim)
        if nodes:
            for node in nodes:
                if node.metadata.deletion_timestamp is None:
                    await self._delete_node(node)
            # The node's own end wakes us.
            return _LOOK_AGAIN_S
        if claim.status.provider_id:
            if await self._has_node(claim) or not await self._terminate(claim, claim.status.provider_id):
                return _LOOK_AGAIN_S
        elif not await self._nothing_launched(claim):
            return _LOOK_AGAIN_S
        await self._let_go(claim)
        return None

    def _nodes_of(self, claim: NodeClaim) -> tuple[Node, ...]:
        """Gives the nodes that are the claim's own; a node that merely names the instance was never registered."""
        return tuple(
            node
            for node in self._cluster.informers.nodes.by("provider_id", claim.status.provider_id)
            if _is_own(node)
        )

    async def _has_node(self, claim: NodeClaim) -> bool:
        """Tells whether the server has a node of the claim that the informer lacks, and lets the informer know."""
        # When the end of the instance has been ordered there is nothing left to drain.
        is_ending = is_true(claim.status.conditions, INSTANCE_TERMINATING)
        name = claim.status.node_name if not is_ending else ""
        node = await reread(self._client, NODES, name) if name else None
        if node is None or node.spec.provider_id != claim.status.provider_id or not _is_own(node):
            return False
        self._cluster.informers.nodes.observe(node)
        return bool(self._nodes_of(claim))

    async def _delete_node(self, node: Node) -> None:
        try:
            await self._client.delete(NODES, node.metadata.name, uid=node.metadata.uid)
        except (NotFoundError, ConflictError):
            return

    async def _set_deadline(self, claim: NodeClaim) -> None:
        deadline = termination_time(claim)
        if deadline is None or names.TERMINATION_TIMESTAMP in claim.metadata.annotations:
            return
        text = deadline.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        change = {"metadata": {"annotations": {names.TERMINATION_TIMESTAMP: text}}}
        self._cluster.informers.claims.observe(
            await self._client.patch(NODE_CLAIMS, claim.metadata.name, change)
        )
        self._log.info("annotated nodeclaim", NodeClaim={"name": claim.metadata.name}, deadline=text)
        self._recorder.tell(
            Subject.of(NODE_CLAIMS, claim),
            "TerminationGracePeriodExpiring",
            f"All pods will be deleted by {text}",
            type="Warning",
        )

    async def _terminate(self, claim: NodeClaim, provider_id: str) -> bool:
        """Orders the instance to go; tells whether it is gone."""
        return await self._instances.end(provider_id, claim)

    async def _nothing_launched(self, claim: NodeClaim) -> bool:
        """Makes sure that a launch whose answer was lost leaves no instance behind."""
        own: list[Machine] = [
            each
            for each in await self._cloud.list()
            if each.claim_uid == claim.metadata.uid and each.is_living
        ]
        for machine in own:
            await self._terminate(claim, machine.provider_id)
        return not own

    async def _let_go(self, claim: NodeClaim) -> None:
        claims = self._cluster.informers.claims
        # Its conditions may have changed since it was read: when the end of the instance was ordered is one.
        current = claims.get(claim.metadata.name) or claim
        if not await remove_finalizer(self._client, claims, claim, names.TERMINATION_FINALIZER):
            return
        pool = claim.metadata.labels.get(names.NODEPOOL, "")
        zone = claim.metadata.labels.get(names.ZONE, "")
        kind = claim.metadata.labels.get(names.CAPACITY_TYPE, "")
        self._metrics.claims_terminated.labels(pool, kind, zone).inc()
        self._measure_instance(current, pool)
        if claim.metadata.deletion_timestamp is not None:
            took = self._clock.now() - claim.metadata.deletion_timestamp
            self._metrics.claim_termination_seconds.labels(pool).observe(max(took / timedelta(seconds=1), 0))
        self._log.info(
            "deleted nodeclaim",
            NodeClaim={"name": claim.metadata.name},
            Node={"name": claim.status.node_name},
            **{"provider-id": claim.status.provider_id},
        )
        self._decisions.record(
            DecisionKind.TERMINATE,
            f"NodeClaim/{claim.metadata.name}",
            reason="Deleted",
            message=f"NodeClaim {claim.metadata.name} and its instance are gone",
            provider_id=claim.status.provider_id,
        )

    def _measure_instance(self, claim: NodeClaim, pool: str) -> None:
        for each in claim.status.conditions:
            ordered_at = each.last_transition_time
            if each.type == INSTANCE_TERMINATING and each.status == "True" and ordered_at is not None:
                took_s = max((self._clock.now() - ordered_at).total_seconds(), 0.0)
                self._metrics.instance_termination_seconds.labels(pool).observe(took_s)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        if change.new is not None and change.new.metadata.deletion_timestamp is not None:
            self._queue.add(change.new.metadata.name)

    def _node_changed(self, change: Change[Node]) -> None:
        for claim in self._cluster.informers.claims.by("provider_id", change.object.spec.provider_id):
            if claim.metadata.deletion_timestamp is not None:
                self._queue.add(claim.metadata.name)


def _is_own(node: Node) -> bool:
    return names.TERMINATION_FINALIZER in node.metadata.finalizers or names.REGISTERED in node.metadata.labels
