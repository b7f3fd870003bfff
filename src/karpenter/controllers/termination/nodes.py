# SPDX-License-Identifier: Apache-2.0
"""The end of a Node of ours: taint, drain, wait for volumes, terminate the instance, and only then let it go.

It begins when the Node is deleted, by us or by anybody (``kubectl delete node``), because our finalizer holds it. A
node whose instance is gone already has nobody to drain to: it is let go at once, and its pods are placed anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.api.conditions import (
    DISRUPTION_REASON,
    DRAINED,
    INSTANCE_TERMINATING,
    READY,
    VOLUMES_DETACHED,
    ConditionSet,
    is_true,
)
from karpenter.api.core import Node, Pod, VolumeAttachment
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.cloud.protocol import CloudProvider
from karpenter.controllers.patches import change_conditions, patch_decided, remove_finalizer
from karpenter.controllers.tainting import is_tainted
from karpenter.controllers.termination.claims import termination_time
from karpenter.controllers.termination.draining import draining, must_leave
from karpenter.controllers.termination.evicting import Evictions
from karpenter.controllers.termination.instances import InstanceTermination
from karpenter.controllers.termination.podlists import pods_left
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, ConflictError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.model.taints import same_taint
from karpenter.observe import DecisionLog, Metrics, get_log, reporting
from karpenter.state import Cluster

__all__ = ["NodeTermination"]

_LOOK_AGAIN_S: Final = 1.0
_INSTANCE_AGAIN_S: Final = 5.0
# Pods that the scheduler bound just before it saw the taint must have shown up by then.
_LEAST_DRAIN: Final = timedelta(seconds=5)
_MOST_NAMED: Final = 5


class NodeTermination:
    """Ends nodes; ``run`` must be kept running by a supervisor."""

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        evictions: Evictions,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        workers: int = 100,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._evictions = evictions
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._log = get_log("node.termination")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            workers=workers,
            on_error=reporting(self._log, metrics, "node.termination", "Node"),
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
        cluster.informers.nodes.on_change(self._node_changed)
        cluster.informers.pods.on_change(self._pod_changed)
        cluster.informers.attachments.on_change(self._attachment_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Does what is next for a node on its way out, and says when to look again."""
        node = self._cluster.informers.nodes.get(name)
        if node is None or not _is_ours_to_end(node):
            self._queue.forget(name)
            return None
        claim = self._claim_of(node)
        if claim is not None and claim.metadata.deletion_timestamp is None:
            await self._delete_claim(claim)
        if not is_true(node.status.conditions, READY) and await self._is_gone(node):
            await self._let_go(node, claim)
            return None
        node = await self._taint(node)
        deadline = termination_time(claim) if claim is not None else None
        drained = await self._drain(node, claim, deadline)
        if not drained or not await self._volumes(node, claim, deadline):
            return _LOOK_AGAIN_S
        if not await self._is_empty(node, claim, deadline):
            return _LOOK_AGAIN_S
        if not await self._terminate(node, claim):
            return _INSTANCE_AGAIN_S
        await self._let_go(node, claim)
        return None

    def _claim_of(self, node: Node) -> NodeClaim | None:
        found = self._cluster.informers.claims.by("provider_id", node.spec.provider_id)
        return found[0] if found else None

    async def _delete_claim(self, claim: NodeClaim) -> None:
        try:
            await self._client.delete(NODE_CLAIMS, claim.metadata.name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            return

    async def _is_gone(self, node: Node) -> bool:
        try:
            await self._cloud.get(node.spec.provider_id)
        except NodeClaimNotFoundError:
            return True
        return False

    async def _taint(self, node: Node) -> Node:
        if is_tainted(node) and node.metadata.labels.get(names.EXCLUDE_FROM_LOAD_BALANCERS):
            return node

        def decide(found: Node) -> Mapping[str, Any]:
            taints = [taint for taint in found.spec.taints if not same_taint(taint, names.DISRUPTED_TAINT)]
            return {
                "metadata": {"labels": {names.EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}},
                "spec": {"taints": [to_wire(each) for each in (*taints, names.DISRUPTED_TAINT)]},
            }

        changed = await patch_decided(self._client, self._cluster.informers.nodes, node, decide) or node
        self._log.info(
            "tainted node",
            Node={"name": node.metadata.name},
            **{"taint.Key": names.DISRUPTED_TAINT.key, "taint.Effect": names.DISRUPTED_TAINT.effect},
        )
        return changed

    async def _drain(self, node: Node, claim: NodeClaim | None, deadline: datetime | None) -> bool:
        """Takes the next step of draining; tells whether it is over."""
        now = self._clock.now()
        found = draining(self._cluster.pods_on(node.metadata.name), now, deadline)
        reason = _disruption_reason(claim)
        await asyncio.gather(
            self._evictions.force(found.force, node, reason), self._evictions.evict(found.evict, node, reason)
        )
        for pod in found.protected:
            self._recorder.tell(
                Subject.of(NODES, node),
                "FailedDraining",
                f"Failed to drain node, pod {pod.metadata.namespace}/{pod.metadata.name} asks not to be disrupted",
                type="Warning",
            )
        if not found.is_done:
            await self._condition(
                claim, DRAINED, "Unknown", "Draining", f"{len(found.waiting)} pods are waiting to be evicted"
            )
            return False
        if claim is None or is_true(claim.status.conditions, DRAINED):
            return True
        # Whoever takes a node away for a reason of ours has tainted it before, and often long before.
        known = (
            _condition_since(claim, DISRUPTION_REASON, "True"),
            _condition_since(claim, DRAINED, "Unknown"),
        )
        closed = min((each for each in known if each is not None), default=None)
        if closed is None:
            await self._condition(claim, DRAINED, "Unknown", "Draining", "waiting for pods that come late")
            return False
        if now - closed < _LEAST_DRAIN:
            return False
        await self._condition(claim, DRAINED, "True", "Drained", "")
        self._metrics.nodes_drained.labels(claim.metadata.labels.get(names.NODEPOOL, "")).inc()
        return True

    async def _is_empty(self, node: Node, claim: NodeClaim | None, deadline: datetime | None) -> bool:
        """Tells whether the server, too, knows no pod that must leave; those that the informer lacks are drained."""
        if claim is not None and is_true(claim.status.conditions, INSTANCE_TERMINATING):
            return True
        left = await pods_left(
            self._client, self._cluster, node.metadata.name, self._clock.now(), deadline=deadline
        )
        if left:
            self._recorder.tell(
                Subject.of(NODES, node),
                "FailedDraining",
                f"Failed to drain node, the API server has pods on it: {', '.join(left[:_MOST_NAMED])}",
                type="Warning",
                about="pods of the server",
            )
        return not left

    async def _volumes(self, node: Node, claim: NodeClaim | None, deadline: datetime | None) -> bool:
        """Waits until the volumes of drained pods are detached; tells whether they are."""
        if claim is not None and is_true(claim.status.conditions, VOLUMES_DETACHED):
            return True
        held = self._attached(node)
        if not held:
            await self._condition(claim, VOLUMES_DETACHED, "True", "VolumesDetached", "")
            return True
        if deadline is not None and self._clock.now() > deadline:
            await self._condition(
                claim,
                VOLUMES_DETACHED,
                "False",
                "TerminationGracePeriodElapsed",
                f"{len(held)} volumes remain",
            )
            return True
        words = ", ".join(sorted(each.spec.source.persistent_volume_name or "?" for each in held)[:5])
        self._recorder.tell(
            Subject.of(NODES, node), "AwaitingVolumeDetachment", f"Awaiting detachment of volumes: {words}"
        )
        await self._condition(claim, VOLUMES_DETACHED, "Unknown", "AwaitingVolumeDetachment", words)
        return False

    def _attached(self, node: Node) -> list[VolumeAttachment]:
        """Gives the attachments that stand for pods which had to leave; those of pods that stay do not go."""
        now = self._clock.now()
        staying = [pod for pod in self._cluster.pods_on(node.metadata.name) if not must_leave(pod, now)]
        kept = {name for pod in staying for name in self._volumes_of(pod)}
        return [
            each
            for each in self._cluster.informers.attachments.by("node", node.metadata.name)
            if each.spec.source.persistent_volume_name not in kept
        ]

    def _volumes_of(self, pod: Pod) -> list[str]:
        found = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                claim = self._cluster.informers.volume_claims.get(
                    volume.persistent_volume_claim.claim_name, pod.metadata.namespace
                )
                if claim is not None and claim.spec.volume_name:
                    found.append(claim.spec.volume_name)
        return found

    async def _terminate(self, node: Node, claim: NodeClaim | None) -> bool:
        """Orders the instance to go; tells whether it is gone."""
        provider_id = node.spec.provider_id
        return not provider_id or await self._instances.end(provider_id, claim, node)

    async def _let_go(self, node: Node, claim: NodeClaim | None) -> None:
        nodes = self._cluster.informers.nodes
        if not await remove_finalizer(self._client, nodes, node, names.TERMINATION_FINALIZER):
            return
        pool = node.metadata.labels.get(names.NODEPOOL, "")
        self._metrics.nodes_terminated.labels(pool, node.metadata.labels.get(names.ZONE, "")).inc()
        if node.metadata.deletion_timestamp is not None:
            took = self._clock.now() - node.metadata.deletion_timestamp
            self._metrics.node_termination_seconds.labels(pool).observe(max(took.total_seconds(), 0))
        if node.metadata.creation_timestamp is not None:
            lived = self._clock.now() - node.metadata.creation_timestamp
            self._metrics.node_lifetime_seconds.labels(pool).observe(max(lived.total_seconds(), 0))
        self._log.info(
            "deleted node",
            Node={"name": node.metadata.name},
            NodeClaim={"name": claim.metadata.name if claim is not None else ""},
        )

    async def _condition(
        self, claim: NodeClaim | None, kind: str, status: str, reason: str, message: str
    ) -> None:
        if claim is None:
            return
        now = self._clock.now()

        def change(conditions: ConditionSet) -> ConditionSet:
            if status == "True":
                return conditions.true(kind, now, reason=reason, message=message)
            if status == "False":
                return conditions.false(kind, now, reason=reason, message=message)
            return conditions.unknown(kind, now, reason=reason, message=message)

        await change_conditions(self._client, self._cluster, claim, change)

    def _node_changed(self, change: Change[Node]) -> None:
        if change.new is not None and change.new.metadata.deletion_timestamp is not None:
            self._queue.add(change.new.metadata.name)

    def _pod_changed(self, change: Change[Pod]) -> None:
        self.wake(change.object.spec.node_name)

    def _attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        self.wake(change.object.spec.node_name)

    def wake(self, name: str) -> None:
        """Has a node looked at again that is on its way out."""
        node = self._cluster.informers.nodes.get(name) if name else None
        if node is not None and node.metadata.deletion_timestamp is not None:
            self._queue.add(name)


def _is_ours_to_end(node: Node) -> bool:
    return (
        node.metadata.deletion_timestamp is not None
        and names.TERMINATION_FINALIZER in node.metadata.finalizers
    )


def _condition_since(claim: NodeClaim, kind: str, status: str) -> datetime | None:
    return next(
        (
            each.last_transition_time
            for each in claim.status.conditions
            if each.type == kind and each.status == status
        ),
        None,
    )


def _disruption_reason(claim: NodeClaim | None) -> str:
    conditions = claim.status.conditions if claim is not None else ()
    return next(
        (each.reason for each in conditions if each.type == DISRUPTION_REASON), "Forceful Termination"
    )
