# SPDX-License-Identifier: Apache-2.0
"""What becomes of nodes when their capacity reservation ends.

The machine of an ended reservation runs on and is paid by the hour: claim and node are labelled so, and whatever
compares labels (drift above all) sees it. A capacity block takes its machines along: their claims are deleted in time,
so that pods move before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from karpenter.api.core import Node
from karpenter.api.labels import CAPACITY_RESERVATION_ID, CAPACITY_TYPE, NODEPOOL, RESERVED
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.protocol import Machine
from karpenter.controllers.patches import patch_decided
from karpenter.kube import Client, ConflictError, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.observe import Metrics, get_log
from karpenter.state import Cluster

__all__ = ["ReservationEnds"]

_REASON = "capacity_reservation_expiring"


class ReservationEnds:
    """Follows the ends of reservations; ``reconcile`` must be called every minute.

    Args:
        client: The API server.
        cluster: The copy of the cluster.
        machines: Lists the machines of the cluster.
        released: Picks the claims whose machine has left its reservation and runs on.
        expiring: Picks the claims whose capacity block is about to end.
        labels: What released claims and their nodes are labelled; None takes a label away.
        metrics: Where deletions are counted.
    """

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        machines: Callable[[], Awaitable[Sequence[Machine]]],
        released: Callable[[Iterable[NodeClaim], Iterable[Machine]], Iterable[NodeClaim]],
        expiring: Callable[[Iterable[NodeClaim]], Iterable[NodeClaim]],
        labels: Mapping[str, str | None],
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._machines = machines
        self._released = released
        self._expiring = expiring
        self._labels = labels
        self._metrics = metrics
        self._log = get_log("capacityreservation")

    async def reconcile(self) -> None:
        """Look once at all claims in reservations.

        Raises:
            KarpenterError: The cloud or the API server does not answer.
        """
        claims = [
            each
            for each in self._cluster.informers.claims
            if each.metadata.deletion_timestamp is None
            and each.metadata.labels.get(CAPACITY_TYPE) == RESERVED
        ]
        # A copy that is behind may hold what is long gone; and most clusters have no reservations to ask for.
        if not claims or self._cluster.informers.staleness:
            return
        for claim in self._expiring(claims):
            await self._delete(claim)
        for claim in self._released(claims, await self._machines()):
            await self._label(claim)

    async def _label(self, claim: NodeClaim) -> None:
        await patch_decided(self._client, self._cluster.informers.claims, claim, self._change)
        node = self._cluster.informers.nodes.get(claim.status.node_name)
        if node is not None and node.spec.provider_id == claim.status.provider_id:
            await patch_decided(self._client, self._cluster.informers.nodes, node, self._change)
        self._log.info("updated capacity type for nodeclaim", NodeClaim={"name": claim.metadata.name})

    def _change(self, item: NodeClaim | Node) -> Mapping[str, object]:
        there = item.metadata.labels
        wanted = {key: value for key, value in self._labels.items() if there.get(key) != value}
        return {"metadata": {"labels": wanted}} if wanted else {}

    async def _delete(self, claim: NodeClaim) -> None:
        try:
            await self._client.delete(NODE_CLAIMS, claim.metadata.name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            return
        there = claim.metadata.labels
        self._metrics.claims_disrupted.labels(_REASON, there.get(NODEPOOL, ""), RESERVED).inc()
        self._log.info(
            "initiating delete for capacity block expiration",
            NodeClaim={"name": claim.metadata.name},
            **{"capacity-reservation-id": there.get(CAPACITY_RESERVATION_ID, "")},
        )
