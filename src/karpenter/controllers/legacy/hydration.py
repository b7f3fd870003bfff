# SPDX-License-Identifier: Apache-2.0
"""Claims and nodes that were made without the label of their node class get it, the node from its claim.

Older versions did not write the label. Only what is missing is written: a label that is there is somebody's word.
"""

from __future__ import annotations

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster

__all__ = ["Hydration", "class_label"]


def class_label(claim: NodeClaim) -> dict[str, str]:
    """Gives the label that names a claim's node class; one written through v1beta1 can only mean an EC2NodeClass."""
    reference = claim.spec.node_class_ref
    if reference.is_v1beta1:
        return {names.EC2NODECLASS: reference.name}
    return {names.node_class_label(reference.group, reference.kind): reference.name}


class Hydration:
    """Completes claims and their nodes, by the claim's name; ``run`` must be kept running by a supervisor."""

    def __init__(self, *, client: Client, cluster: Cluster, metrics: Metrics, clock: Clock) -> None:
        self._client = client
        self._cluster = cluster
        self._metrics = metrics
        self._log = get_log("nodeclaim.hydration")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, on_error=reporting(self._log, metrics, "nodeclaim.hydration", "NodeClaim")
        )
        cluster.informers.claims.on_change(self._claim_changed)
        cluster.informers.nodes.on_change(self._node_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Gives a claim and its node the label of the node class, where it is missing."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None:
            self._queue.forget(name)
            return None
        try:
            if _lacks(claim, claim):
                change = {"metadata": {"labels": class_label(claim)}}
                self._cluster.informers.claims.observe(await self._client.patch(NODE_CLAIMS, name, change))
            for node in self._nodes_of(claim):
                if _lacks(node, claim):
                    change = {"metadata": {"labels": class_label(claim)}}
                    changed = await self._client.patch(NODES, node.metadata.name, change)
                    self._cluster.informers.nodes.observe(changed)
        except NotFoundError:
            return None
        return None

    def _nodes_of(self, claim: NodeClaim) -> tuple[Node, ...]:
        # Before it has registered a node is not its claim's yet, and registration brings the labels.
        found = self._cluster.informers.nodes.by("provider_id", claim.status.provider_id)
        return tuple(node for node in found if names.REGISTERED in node.metadata.labels)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        claim = change.object
        if _lacks(claim, claim) or any(_lacks(node, claim) for node in self._nodes_of(claim)):
            self._queue.add(claim.metadata.name)

    def _node_changed(self, change: Change[Node]) -> None:
        for claim in self._cluster.informers.claims.by("provider_id", change.object.spec.provider_id):
            self._claim_changed(Change(None, claim))


def _lacks(item: NodeClaim | Node, claim: NodeClaim) -> bool:
    return any(key not in item.metadata.labels for key in class_label(claim))
