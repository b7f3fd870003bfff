# SPDX-License-Identifier: Apache-2.0
"""The writes of a command: mark a claim and its node, unmark them, settle, delete; each may be done twice.

The taint comes first, so that no pod arrives while everything else is made up. What is written carries the version
that it was decided on where a list is replaced whole; a node that was written to meanwhile is read again.
"""

from __future__ import annotations

from karpenter.api import labels as names
from karpenter.api.conditions import DISRUPTION_REASON, ConditionSet
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.disruption.records import Record
from karpenter.controllers.patches import change_conditions
from karpenter.controllers.tainting import set_taint
from karpenter.controllers.termination.podlists import list_pods
from karpenter.kit.clock import Clock
from karpenter.kube import Client, ConflictError, NotFoundError, UnreadableError
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.state import Cluster

__all__ = ["Hands"]


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
        """Reads the pods of a node from the server itself: one that was bound a moment ago counts.

        Raises:
            UnreadableError: One of them does not decode.
        """
        listing = await list_pods(self._client, self._cluster, node)
        if listing.unreadable:
            raise UnreadableError(str(listing.unreadable[0]), hint="correct the field that is named")

    async def _annotate(self, claim: str, text: str | None) -> bool:
        change = {"metadata": {"annotations": {names.DISRUPTION_COMMAND: text}}}
        try:
            self._cluster.informers.claims.observe(await self._client.patch(NODE_CLAIMS, claim, change))
        except NotFoundError:
            return False
        return True

    async def _reason(self, claim: str, reason: str, words: str) -> bool:
        """Writes the DisruptionReason condition, or takes it away if there is no reason."""
        current = self._cluster.informers.claims.get(claim)
        if current is None:
            return False
        now = self._clock.now()

        def change(conditions: ConditionSet) -> ConditionSet:
            if not reason:
                return conditions.without(DISRUPTION_REASON)
            return conditions.true(DISRUPTION_REASON, now, reason=reason, message=words)

        return await change_conditions(self._client, self._cluster, current, change) is not None
