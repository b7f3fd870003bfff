# SPDX-License-Identifier: Apache-2.0
"""Nodes of a Provisioner carry the labels that they had before v1, because selectors and dashboards still name them.

``karpenter.sh/provisioner-name`` and ``karpenter.sh/machine-name`` name the pool and the claim, and
``karpenter.k8s.aws/instance-pods`` and ``instance-ami-id`` say how many pods the node takes and which image it runs;
the annotation ``karpenter.sh/managed-by`` names the cluster. Nodes of pools that were written as NodePools are left
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.legacy.marks import is_from_provisioner
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, NotFoundError
from karpenter.kube.kinds import NODES
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster, Stored

__all__ = ["MACHINE_NAME", "OldNodeLabels", "old_names"]

MACHINE_NAME: Final = f"{names.GROUP}/machine-name"


def old_names(node: Node, claim: NodeClaim, cluster_name: str) -> dict[str, Any]:
    """Gives the merge patch with the old labels that a node lacks; empty if it has all that are known."""
    pods = node.status.allocatable.get("pods") or claim.status.allocatable.get("pods") or ""
    labels = {
        names.PROVISIONER_NAME: claim.metadata.labels.get(names.NODEPOOL, ""),
        MACHINE_NAME: claim.metadata.name,
        names.INSTANCE_PODS: str(pods),
        names.INSTANCE_AMI_ID: claim.status.image_id,
    }
    parts = {
        "labels": _lacking(node.metadata.labels, labels),
        "annotations": _lacking(node.metadata.annotations, {names.MANAGED_BY: cluster_name}),
    }
    metadata = {key: value for key, value in parts.items() if value}
    return {"metadata": metadata} if metadata else {}


class OldNodeLabels:
    """Labels nodes of Provisioners; ``run`` must be kept running by a supervisor."""

    def __init__(
        self, *, client: Client, cluster: Cluster, metrics: Metrics, clock: Clock, cluster_name: str
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._metrics = metrics
        self._cluster_name = cluster_name
        self._log = get_log("legacy.nodelabels")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, on_error=reporting(self._log, metrics, "legacy.nodelabels", "Node")
        )
        cluster.informers.nodes.on_change(lambda change: self._queue.add(change.object.metadata.name))
        cluster.informers.claims.on_change(self._claim_changed)
        cluster.informers.pools.on_change(self._pool_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Gives a node the old labels that it lacks, if its pool was made from a Provisioner."""
        member = self._cluster.member(name)
        if member is None or member.node is None or member.claim is None:
            self._queue.forget(name)
            return None
        pool = self._cluster.informers.pools.get(member.claim.metadata.labels.get(names.NODEPOOL, ""))
        if pool is None or not is_from_provisioner(pool):
            return None
        patch = old_names(member.node, member.claim, self._cluster_name)
        if patch:
            try:
                changed = await self._client.patch(NODES, member.node.metadata.name, patch)
            except NotFoundError:
                return None
            self._cluster.informers.nodes.observe(changed)
        return None

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        for node in self._cluster.informers.nodes.by("provider_id", change.object.status.provider_id):
            self._queue.add(node.metadata.name)

    def _pool_changed(self, change: Change[Stored]) -> None:
        was = change.old is not None and is_from_provisioner(change.old)
        if change.new is None or was or not is_from_provisioner(change.new):
            return
        for claim in self._cluster.informers.claims.by("pool", change.new.metadata.name):
            self._claim_changed(Change(None, claim))


def _lacking(present: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if value and present.get(key) != value}
