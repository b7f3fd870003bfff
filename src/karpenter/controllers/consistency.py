# SPDX-License-Identifier: Apache-2.0
"""Whether nodes are what they were bought as: a node that has much less than its claim promised is named.

Looked at every ten minutes for each initialised claim: of every resource that its pods asked for, the node must report
at least nine tenths of what the claim says. Nothing acts on the condition; it tells a person that the picture that
plans are made from is wrong.
"""

from __future__ import annotations

from typing import Final

from karpenter.api.conditions import CONSISTENT_STATE_FOUND, INITIALIZED, NODE_CLAIM, ConditionSet, is_true
from karpenter.api.core import Node
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.patches import write_status
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.model.resources import Resources
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster

__all__ = ["Consistency", "shortfalls"]

_EVERY_S: Final = 600.0
_AGAIN_S: Final = 1.0
_LEAST_SHARE: Final = 0.9
_FAILED: Final = "ConsistencyCheckFailed"


def shortfalls(claim: NodeClaim, node: Node) -> tuple[str, ...]:
    """Gives for each resource of which a node has much less than its claim promised a sentence, by name."""
    promised = Resources.parse(claim.status.capacity)
    reported = Resources.parse(node.status.capacity)
    found = []
    for name, asked in sorted(Resources.parse(claim.spec.resources.requests).items()):
        expected, there = promised.get(name, 0), reported.get(name, 0)
        if asked and expected and there < _LEAST_SHARE * expected:
            amounts = Resources({name: expected}).to_quantities()[name], node.status.capacity.get(name, "0")
            found.append(
                f"expected {amounts[0]} of resource {name}, but found {amounts[1]}"
                f" ({100 * there / expected:.1f}% of expected)"
            )
    return tuple(found)


class Consistency:
    """Compares nodes with their claims; ``run`` must be kept running by a supervisor."""

    def __init__(
        self, *, client: Client, cluster: Cluster, recorder: Recorder, metrics: Metrics, clock: Clock
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._log = get_log("nodeclaim.consistency")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            on_error=reporting(self._log, metrics, "nodeclaim.consistency", "NodeClaim"),
        )
        cluster.informers.claims.on_change(self._claim_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, name: str) -> float | None:
        """Compares one claim with its node, and says when to look again."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            self._queue.forget(name)
            return None
        if not _is_initialized(claim):
            return None
        member = self._cluster.member(name)
        if member is None or member.node is None:
            return _EVERY_S
        found = shortfalls(claim, member.node)
        for each in found:
            self._recorder.tell(
                Subject.of(NODE_CLAIMS, claim), "FailedConsistencyCheck", each, type="Warning"
            )
        conditions, now = (
            ConditionSet.of(NODE_CLAIM, claim.metadata, claim.status.conditions),
            self._clock.now(),
        )
        if found:
            changed = conditions.false(CONSISTENT_STATE_FOUND, now, reason=_FAILED, message="; ".join(found))
        else:
            changed = conditions.true(CONSISTENT_STATE_FOUND, now)
        if changed is conditions:
            return _EVERY_S
        return _EVERY_S if await self._write(claim, changed) else _AGAIN_S

    async def _write(self, claim: NodeClaim, conditions: ConditionSet) -> bool:
        """Writes the conditions unless somebody else has written meanwhile; tells whether it is done."""
        status = {"conditions": conditions.to_wire()}
        return await write_status(self._client, self._cluster.informers.claims, claim, status)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        # The rest of a claim's changes say nothing about its node; the next look comes by itself.
        before = change.old is not None and _is_initialized(change.old)
        if change.new is None or before != _is_initialized(change.new):
            self._queue.add(change.object.metadata.name)


def _is_initialized(claim: NodeClaim) -> bool:
    return is_true(claim.status.conditions, INITIALIZED)
