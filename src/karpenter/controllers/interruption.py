# SPDX-License-Identifier: Apache-2.0
"""What is done when the cloud takes instances away: tell, and give the node up before it goes.

The claim of an interrupted instance is deleted; from then on its pods count as displaced, so that their replacement is
ordered at once, while draining begins. A machine that does not answer any more is not drained: its claim gets a
termination time of now. A mere recommendation is told and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from karpenter.api import labels as names
from karpenter.api.conditions import REGISTERED, is_true
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kit.clock import Clock
from karpenter.kube import Client, ConflictError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log
from karpenter.state import Cluster

__all__ = ["Interrupted", "Interruptions"]

_WORDS: Final = {
    "spot_interrupted": ("SpotInterrupted", "Spot interruption warning was triggered"),
    "rebalance_recommendation": (
        "SpotRebalanceRecommendation",
        "Spot rebalance recommendation was triggered",
    ),
    "instance_stopped": ("InstanceStopping", "Instance is stopping"),
    "instance_terminated": ("InstanceTerminating", "Instance is terminating"),
    "scheduled_change": ("InstanceUnhealthy", "A scheduled change was announced for the instance"),
    "capacity_reservation_interrupted": (
        "CapacityReservationInstanceInterrupted",
        "The capacity reservation of the instance is taken back",
    ),
}
# An instance that ends before its node has joined: whoever waits for the node finds out why, and counts it.
_ENDS: Final = ("instance_stopped", "instance_terminated")
_UNHEALTHY: Final = ("InstanceUnhealthy", "An unhealthy warning was triggered for the instance")


class Interrupted(Protocol):
    """What the cloud says happens to instances."""

    @property
    def kind(self) -> str:
        """What, in Karpenter's word for its metric."""
        ...

    @property
    def instance_ids(self) -> Sequence[str]:
        """To which instances."""
        ...

    @property
    def detail(self) -> str:
        """What the cloud says in words."""
        ...


class Interruptions:
    """Acts on interruptions; it is called, and runs no loop of its own.

    Args:
        on_spot: Hears of a spot interruption of a claim, so that its kind is not bought again at once.
    """

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        on_spot: Callable[[NodeClaim], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._on_spot = on_spot
        self._log = get_log("interruption")

    async def handle(self, interruption: Interrupted, *, ends: bool, forceful: bool) -> None:
        """Does what an interruption asks for, for those of its instances that are ours.

        Args:
            interruption: What happens.
            ends: Whether the node is to be given up.
            forceful: Whether draining cannot be waited for.
        """
        for instance in interruption.instance_ids:
            for claim in self._cluster.informers.claims.by("instance", instance):
                await self._act(claim, interruption, ends=ends, forceful=forceful)

    async def _act(self, claim: NodeClaim, interruption: Interrupted, *, ends: bool, forceful: bool) -> None:
        reason, words = _WORDS.get(str(interruption.kind), _UNHEALTHY)
        detail = f"{words}: {interruption.detail}" if interruption.detail else words
        for subject in self._subjects(claim):
            self._recorder.tell(subject, reason, detail, type="Warning")
        if str(interruption.kind) == "spot_interrupted":
            self._on_spot(claim)
        if not ends or claim.metadata.deletion_timestamp is not None or _died_unborn(claim, interruption):
            return
        name = claim.metadata.name
        try:
            if forceful:
                stamp = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                change = {"metadata": {"annotations": {names.TERMINATION_TIMESTAMP: stamp}}}
                self._cluster.informers.claims.observe(await self._client.patch(NODE_CLAIMS, name, change))
            await self._client.delete(NODE_CLAIMS, name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            return
        for subject in self._subjects(claim):
            self._recorder.tell(subject, "TerminatingOnInterruption", "Interruption triggered termination")
        pool, kind = (
            claim.metadata.labels.get(names.NODEPOOL, ""),
            claim.metadata.labels.get(names.CAPACITY_TYPE, ""),
        )
        self._metrics.claims_disrupted.labels(str(interruption.kind), pool, kind, "", "").inc()
        self._log.info(
            "initiating delete from interruption message",
            NodeClaim={"name": name},
            messageKind=str(interruption.kind),
            detail=interruption.detail,
        )
        self._decisions.record(
            DecisionKind.INTERRUPT, f"NodeClaim/{name}", reason=reason, message=f"{name}: {detail}"
        )

    def _subjects(self, claim: NodeClaim) -> list[Subject]:
        found = [Subject.of(NODE_CLAIMS, claim)]
        node = self._cluster.informers.nodes.get(claim.status.node_name) if claim.status.node_name else None
        if node is not None:
            found.append(Subject.of(NODES, node))
        return found


def _died_unborn(claim: NodeClaim, interruption: Interrupted) -> bool:
    registered = is_true(claim.status.conditions, REGISTERED)
    return not registered and str(interruption.kind) in _ENDS
