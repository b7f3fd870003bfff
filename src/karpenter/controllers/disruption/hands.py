# SPDX-License-Identifier: Apache-2.0
"""The writes of a command: mark a claim and its node, unmark them, settle, delete; each may be done twice.

The taint comes first, so that no pod arrives while everything else is made up. What is written carries the version
that it was decided on where a list is replaced whole; a node that was written to meanwhile is read again.
"""

from __future__ import annotations

from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.conditions import DISRUPTION_REASON, NODE_CLAIM, ConditionSet
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.disruption.records import Record
from karpenter.controllers.tainting import reread, set_taint
from karpenter.kit.clock import Clock
from karpenter.kube import Client, ConflictError, NotFoundError
from karpenter.kube.kinds import NODE_CLAIMS, PODS
from karpenter.state import Cluster

__all__ = ["Hands"]

_TRIES: Final = 4


class Hands:
    """Writes to claims and their nodes; what is gone already is no error."""

    def __init__(self, client: Client, cluster: Cluster, clock: Clock) -> None:
        self._client = client
        self._cluster = cluster
        self._clock = clock

    async def mark(self, claim: str, record: Record, words: str) -> bool:
        """Taints the claim's node, writes the record and the reason; tells whether the claim and its node are there."""
        member = self._cluster.member(claim)
        if member is None or member.node is None or member.claim is None or member.is_being_deleted:
            return False
        return (
            await set_taint(self._client, self._cluster, member.node, on=True)
            and await self._annotate(claim, record.text())
            and await self._reason(claim, record.reason, words)
        )

    async def unmark(self, claim: str) -> None:
        """Takes back what ``mark`` wrote; a claim that is being deleted keeps it."""
        member = self._cluster.member(claim)
        if member is None or member.is_being_deleted:
            return
        if member.claim is not None:
            await self._reason(claim, "", "")
            if names.DISRUPTION_COMMAND in member.claim.metadata.annotations:
                await self._annotate(claim, None)
        # The taint goes last: whoever finds it without a record takes it away too. Somebody else may want it.
        if member.node is not None and not self._cluster.is_going(member):
            await set_taint(self._client, self._cluster, member.node, on=False)

    async def settle(self, claim: str, record: Record) -> bool:
        """Writes the record anew; tells whether the claim is there."""
        return await self._annotate(claim, record.text())

    async def forget(self, claim: str) -> None:
        """Takes the record off a claim that stays."""
        await self._annotate(claim, None)

    async def delete(self, claim: NodeClaim) -> bool:
        """Deletes a claim; its node is drained and its instance ended by others. Tells whether it was there."""
        try:
            await self._client.delete(NODE_CLAIMS, claim.metadata.name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            return False
        return True

    async def reread(self, node: str) -> None:
        """Reads the pods of a node from the server itself: one that was bound a moment ago counts."""
        listing = await self._client.list(PODS, fields=f"spec.nodeName={node}")
        for pod in listing.items:
            self._cluster.informers.pods.observe(pod)

    async def _annotate(self, claim: str, text: str | None) -> bool:
        change = {"metadata": {"annotations": {names.DISRUPTION_COMMAND: text}}}
        try:
            self._cluster.informers.claims.observe(await self._client.patch(NODE_CLAIMS, claim, change))
        except NotFoundError:
            return False
        return True

    async def _reason(self, claim: str, reason: str, words: str) -> bool:
        """Writes the DisruptionReason condition, or takes it away if there is no reason."""
        for _ in range(_TRIES):
            current = self._cluster.informers.claims.get(claim)
            if current is None:
                return False
            conditions = ConditionSet.of(NODE_CLAIM, current.metadata, current.status.conditions)
            if reason:
                changed = conditions.true(DISRUPTION_REASON, self._clock.now(), reason=reason, message=words)
            else:
                changed = conditions.without(DISRUPTION_REASON)
            if changed is conditions:
                return True
            body: dict[str, Any] = {
                "metadata": {"resourceVersion": current.metadata.resource_version},
                "status": {"conditions": changed.to_wire()},
            }
            try:
                written = await self._client.patch(NODE_CLAIMS, claim, body, subresource="status")
            except NotFoundError:
                return False
            except ConflictError:
                found = await reread(self._client, NODE_CLAIMS, claim)
                if found is None:
                    return False
                self._cluster.informers.claims.observe(found)
                continue
            self._cluster.informers.claims.observe(written)
            return True
        raise ConflictError(f"NodeClaim {claim} is written to without end", status=409)
