# SPDX-License-Identifier: Apache-2.0
"""Names instances after their nodes, once each node is known: what a person sees in the cloud's console.

One claim at a time and at most one a second, because requests that write tags are few. An annotation on the claim says
that it is done; an instance that is gone needs no name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from karpenter.api.conditions import REGISTERED, is_true
from karpenter.api.labels import INSTANCE_TAGGED
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Client, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster

__all__ = ["Tagging"]

_PAUSE_S: Final = 1.0


class Tagging:
    """Writes the names; ``run`` must be kept running by a supervisor.

    Args:
        tag: Writes the tags of a claim to its instance.
    """

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        tag: Callable[[NodeClaim], Awaitable[None]],
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
        await self._tag(claim)
        change = {"metadata": {"annotations": {INSTANCE_TAGGED: "true"}}}
        try:
            self._cluster.informers.claims.observe(await self._client.patch(NODE_CLAIMS, name, change))
        except NotFoundError:
            return None
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
        and claim.metadata.annotations.get(INSTANCE_TAGGED) != "true"
    )
