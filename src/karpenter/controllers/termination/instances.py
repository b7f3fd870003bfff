# SPDX-License-Identifier: Apache-2.0
"""The end of an instance: ordered from the cloud, looked after, and told where the cloud refuses.

A refusal (a policy that does not cover the instance, termination protection) lasts until a person acts, and the
instance costs money until then. So it is told on the node, the claim and the node class, with the action and the
resource, counted, and asked again ever more rarely. The claim's condition InstanceTerminating is False meanwhile; the
class's condition InstanceTerminationHealthy is False as long as any of its claims is refused. Launches go on: it
informs and does not decide whether the class is ready.
"""

from __future__ import annotations

import functools
from typing import Final

from karpenter.api import labels as names
from karpenter.api.base import EMPTY
from karpenter.api.conditions import (
    INSTANCE_TERMINATING,
    INSTANCE_TERMINATION_HEALTHY,
    NODE_CLAIM,
    ConditionSet,
    ConditionTypes,
)
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError, TerminationRefusedError
from karpenter.cloud.protocol import CloudProvider
from karpenter.controllers.patches import change_conditions, write_status
from karpenter.kit.backoff import BackoffPolicy, BackoffTable
from karpenter.kit.clock import Clock
from karpenter.kube import Client, Recorder, Subject
from karpenter.kube.kinds import EC2_NODE_CLASSES, NODE_CLAIMS, NODES
from karpenter.observe import Log, Metrics
from karpenter.state import Cluster

__all__ = ["TERMINATION_REFUSED", "InstanceTermination"]

TERMINATION_REFUSED: Final = "TerminationRefused"
_REFUSED_AGAIN: Final = BackoffPolicy(base_s=5.0, cap_s=120.0, jitter=0.2)
_QUIET_S: Final = 600.0
_LONGEST_MESSAGE: Final = 1000


class InstanceTermination:
    """Ends instances for the controllers of nodes and claims."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
        log: Log,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._log = log
        self._refused: BackoffTable[str] = BackoffTable(clock, _REFUSED_AGAIN)

    async def end(self, provider_id: str, claim: NodeClaim | None = None, node: Node | None = None) -> bool:
        """Order an instance to go, and return whether it is gone.

        Args:
            provider_id: The instance.
            claim: Whose instance it is; its condition says how far this is.
            node: The node that runs on it, which hears of a refusal.

        Raises:
            LaunchPendingError: It was launched a moment ago and the cloud does not know it yet.
        """
        if not self._refused.is_ready(provider_id):
            return False
        is_gone = False
        try:
            await self._cloud.delete(provider_id)
            await self._cloud.get(provider_id)
        except NodeClaimNotFoundError:
            is_gone = True
        except TerminationRefusedError as error:
            await self._tell(error, claim, node)
            return False
        self._refused.reset(provider_id)
        if claim is not None:
            await self._healed(claim)
            if not is_gone:
                conditions = self._conditions(claim)
                await self._write(claim, conditions.true(INSTANCE_TERMINATING, self._clock.now()))
        return is_gone

    async def _tell(self, error: TerminationRefusedError, claim: NodeClaim | None, node: Node | None) -> None:
        again_s = self._refused.failed(error.provider_id)
        of = claim if claim is not None else node
        labels = of.metadata.labels if of is not None else EMPTY
        self._metrics.termination_failures.labels(
            labels.get(names.ZONE, ""), labels.get(names.ZONE_ID, "")
        ).inc()
        words = f"{error.message}; {error.hint}" if error.hint else error.message
        self._log.error(
            "failed terminating instance",
            NodeClaim={"name": claim.metadata.name if claim is not None else ""},
            error=error,
            retry_in_s=round(again_s, 1),
            **{"provider-id": error.provider_id},
        )
        if node is not None:
            self._event(Subject.of(NODES, node), words)
        if claim is None:
            return
        self._event(Subject.of(NODE_CLAIMS, claim), words)
        conditions = self._conditions(claim).false(
            INSTANCE_TERMINATING,
            self._clock.now(),
            reason=TERMINATION_REFUSED,
            message=words[:_LONGEST_MESSAGE],
        )
        await self._write(claim, conditions)
        node_class = self._class_of(claim)
        if node_class is None:
            return
        known = self._class_conditions(node_class)
        told = known.get(INSTANCE_TERMINATION_HEALTHY)
        self._event(Subject.of(EC2_NODE_CLASSES, node_class), words, about=f"{error.action} {error.code}")
        # The first refusal stands for all: a condition that names each instance in turn would wake every watcher.
        if told is None or told.status != "False":
            now = self._clock.now()
            message = words[:_LONGEST_MESSAGE]
            changed = known.false(
                INSTANCE_TERMINATION_HEALTHY, now, reason=TERMINATION_REFUSED, message=message
            )
            await self._write_class(node_class, changed)

    async def _healed(self, claim: NodeClaim) -> None:
        """Take in that the cloud took an order: the class is healthy again with the last of its refused claims."""
        node_class = self._class_of(claim)
        if node_class is None:
            return
        known = self._class_conditions(node_class)
        told = known.get(INSTANCE_TERMINATION_HEALTHY)
        if told is None or told.status == "True":
            return
        others = (
            each
            for each in self._cluster.informers.claims
            if each.spec.node_class_ref.name == node_class.metadata.name
            and each.metadata.uid != claim.metadata.uid
        )
        if not any(map(_is_refused, others)):
            await self._write_class(node_class, known.true(INSTANCE_TERMINATION_HEALTHY, self._clock.now()))

    def _class_of(self, claim: NodeClaim) -> EC2NodeClass | None:
        """Return the claim's class, if it is one that can be written to and not an AWSNodeTemplate of old."""
        name = claim.spec.node_class_ref.name
        return self._cluster.node_class(name) if self._cluster.informers.classes.get(name) else None

    def _class_conditions(self, node_class: EC2NodeClass) -> ConditionSet:
        # Without a root: whether the class is ready is not decided here.
        return ConditionSet(ConditionTypes(root=""), node_class.metadata, node_class.status.conditions)

    async def _write_class(self, node_class: EC2NodeClass, changed: ConditionSet) -> None:
        # In a conflict it is written at the next try.
        status = {"conditions": changed.to_wire()}
        await write_status(self._client, self._cluster.informers.classes, node_class, status)

    def _event(self, subject: Subject, words: str, about: str = "") -> None:
        self._recorder.tell(
            subject, TERMINATION_REFUSED, words, type="Warning", quiet_s=_QUIET_S, about=about
        )

    def _conditions(self, claim: NodeClaim) -> ConditionSet:
        current = self._cluster.informers.claims.get(claim.metadata.name) or claim
        return ConditionSet.of(NODE_CLAIM, current.metadata, current.status.conditions)

    async def _write(self, claim: NodeClaim, changed: ConditionSet) -> None:
        current = self._cluster.informers.claims.get(claim.metadata.name) or claim
        rebase = functools.partial(changed.rebased, current.status.conditions)
        await change_conditions(self._client, self._cluster, claim, rebase)


def _is_refused(claim: NodeClaim) -> bool:
    return any(
        each.type == INSTANCE_TERMINATING and each.reason == TERMINATION_REFUSED
        for each in claim.status.conditions
    )
