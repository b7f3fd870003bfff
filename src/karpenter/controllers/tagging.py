# SPDX-License-Identifier: Apache-2.0
"""Names instances after their nodes, once each node is known: what a person sees in the cloud's console.

One claim at a time and at most one a second, because requests that write tags are few. Tags that are there stay, as
does the Name that a node class gives. Annotations on the claim say that it is done; an instance that is gone needs no
name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from karpenter.api.conditions import REGISTERED, is_true
from karpenter.api.labels import CLUSTER_NAME_TAGGED, INSTANCE_TAGGED
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Client, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster

__all__ = ["Tagging"]

_PAUSE_S: Final = 1.0
# The second is Karpenter's word that the tag with the cluster's name is there, which instances of old lack.
_DONE: Final = (INSTANCE_TAGGED, CLUSTER_NAME_TAGGED)


class Tagging:
    """Writes the names; ``run`` must be kept running by a supervisor.

    Args:
        tag: Writes the tags of a claim that its instance lacks, and tells whether there were any.
    """

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        tag: Callable[[NodeClaim], Awaitable[bool]],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._tag = tag
        self._metrics = metrics
        self._clock = clock
        self._log = get_log("nodeclaim.tagging")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            workers=1,
            on_error=reporting(self._log, metrics, "nodeclaim.tagging", "NodeClaim"),
        )
        cluster.informers.claims.on_change(lambda change: self._look(change.object))

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Names the instance of one claim."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None or not _is_due(claim):
            self._queue.forget(name)
            return None
        try:
            written = await self._tag(claim)
        except NodeClaimNotFoundError:
            return None
        change = {"metadata": {"annotations": dict.fromkeys(_DONE, "true")}}
        try:
            self._cluster.informers.claims.observe(await self._client.patch(NODE_CLAIMS, name, change))
        except NotFoundError:
            return None
        if written:
            await self._clock.sleep(_PAUSE_S)
        return None

    def _look(self, claim: NodeClaim) -> None:
        if _is_due(claim):
            self._queue.add(claim.metadata.name)


def _is_due(claim: NodeClaim) -> bool:
    registered = is_true(claim.status.conditions, REGISTERED)
    return (
        registered
        and claim.metadata.deletion_timestamp is None
        and any(claim.metadata.annotations.get(each) != "true" for each in _DONE)
    )
