# SPDX-License-Identifier: Apache-2.0
"""What is done when the cloud takes instances away: taint, write it down, order in its place, and only then drain.

The node of an interrupted instance is tainted as soon as the notice is read, and the notice is written on its claim:
from then on it is not forgotten, whoever leads. Its pods count as displaced at once, so that a replacement is ordered;
notices that come together are one plan. The claim is deleted, and draining begins, when every pod has its place, or
when waiting longer would cost more than it is worth. A machine that does not answer any more, or is ending already, is
not waited for; a mere recommendation is told and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import msgspec

from karpenter.api import labels as names
from karpenter.api.conditions import REGISTERED, is_true
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.tainting import set_taint
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, ConflictError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.model.pods import is_reschedulable
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log, reporting
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
_LOOK_AGAIN_S: Final = 0.5
_WORKERS: Final = 50
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


class Notice(msgspec.Struct, frozen=True):
    """What is written on a claim about its interruption."""

    kind: str
    at: datetime
    forceful: bool = False
    detail: str = ""


class Interruptions:
    """Acts on interruptions; ``run`` must be kept running by a supervisor.

    Args:
        on_spot: Hears of a spot interruption of a claim, so that its kind is not bought again at once.
        order_within_s: How long a node waits for its pods to get a place elsewhere before it is drained.
    """

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        client: Client,
        cluster: Cluster,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        on_spot: Callable[[NodeClaim], None] = lambda _: None,
        order_within_s: float = 20.0,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._on_spot = on_spot
        self._order_within = timedelta(seconds=order_within_s)
        self._log = get_log("interruption")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            workers=_WORKERS,
            on_error=reporting(self._log, metrics, "interruption", "NodeClaim"),
        )
        cluster.informers.claims.on_change(self._claim_changed)

    async def run(self) -> None:
        """Gives up the nodes that were noticed, until cancelled."""
        await self._queue.run()

    async def handle(self, interruption: Interrupted, *, ends: bool, forceful: bool) -> None:
        """Does what cannot wait, for those instances of an interruption that are ours; the rest is done by ``run``.

        Args:
            interruption: What happens.
            ends: Whether the node is to be given up.
            forceful: Whether draining cannot be waited for.
        """
        for instance in interruption.instance_ids:
            for claim in self._cluster.informers.claims.by("instance", instance):
                await self._take(claim, interruption, ends=ends, forceful=forceful)

    async def reconcile(self, name: str) -> float | None:
        """Deletes the claim of an interrupted instance once its pods have places; says when to look again."""
        claim = self._cluster.informers.claims.get(name)
        notice = _notice(claim) if claim is not None else None
        if claim is None or notice is None or claim.metadata.deletion_timestamp is not None:
            self._queue.forget(name)
            return None
        self._cluster.mark_leaving([name])
        member = self._cluster.member(name)
        if member is not None and member.node is not None:
            await set_taint(self._client, self._cluster, member.node, on=True)
        waits = notice.kind not in _ENDS and not notice.forceful
        if waits and self._clock.now() - notice.at < self._order_within and self._unplaced(name):
            return _LOOK_AGAIN_S
        await self._delete(claim, notice)
        return None

    async def _take(self, claim: NodeClaim, interruption: Interrupted, *, ends: bool, forceful: bool) -> None:
        kind, name = str(interruption.kind), claim.metadata.name
        reason, words = _WORDS.get(kind, _UNHEALTHY)
        detail = f"{words}: {interruption.detail}" if interruption.detail else words
        if ends and claim.metadata.deletion_timestamp is None and not _died_unborn(claim, interruption):
            # First of all: no pod must come any more, and everybody's plan must do without this node.
            self._cluster.mark_leaving([name])
            member = self._cluster.member(name)
            if member is not None and member.node is not None:
                await set_taint(self._client, self._cluster, member.node, on=True)
            notice = Notice(kind, self._clock.now(), forceful, interruption.detail)
            await self._write_down(name, notice)
        for subject in self._subjects(claim):
            self._recorder.tell(subject, reason, detail, type="Warning")
        if kind == "spot_interrupted":
            self._on_spot(claim)

    async def _write_down(self, name: str, notice: Notice) -> None:
        text = msgspec.json.encode(notice).decode()
        change = {"metadata": {"annotations": {names.INTERRUPTED: text}}}
        try:
            written = await self._client.patch(NODE_CLAIMS, name, change)
        except NotFoundError:
            return
        self._cluster.informers.claims.observe(written)

    def _unplaced(self, name: str) -> bool:
        """Tells whether some pod of a claim's node has no place elsewhere yet."""
        member = self._cluster.member(name)
        pods = self._cluster.pods_on(member.name) if member is not None and member.node is not None else ()
        promised = self._cluster.nominations.member_of
        return any(is_reschedulable(pod) and not promised(pod.metadata.uid) for pod in pods)

    async def _delete(self, claim: NodeClaim, notice: Notice) -> None:
        name = claim.metadata.name
        reason, words = _WORDS.get(notice.kind, _UNHEALTHY)
        detail = f"{words}: {notice.detail}" if notice.detail else words
        try:
            if notice.forceful:
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
        self._metrics.claims_disrupted.labels(notice.kind, pool, kind).inc()
        self._log.info(
            "initiating delete from interruption message",
            NodeClaim={"name": name},
            messageKind=notice.kind,
            detail=notice.detail,
        )
        self._decisions.record(
            DecisionKind.INTERRUPT, f"NodeClaim/{name}", reason=reason, message=f"{name}: {detail}"
        )

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        if change.new is not None and names.INTERRUPTED in change.new.metadata.annotations:
            self._queue.add(change.new.metadata.name)

    def _subjects(self, claim: NodeClaim) -> list[Subject]:
        found = [Subject.of(NODE_CLAIMS, claim)]
        node = self._cluster.informers.nodes.get(claim.status.node_name) if claim.status.node_name else None
        if node is not None:
            found.append(Subject.of(NODES, node))
        return found


def _died_unborn(claim: NodeClaim, interruption: Interrupted) -> bool:
    registered = is_true(claim.status.conditions, REGISTERED)
    return not registered and str(interruption.kind) in _ENDS


def _notice(claim: NodeClaim) -> Notice | None:
    text = claim.metadata.annotations.get(names.INTERRUPTED, "")
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Notice)
    except msgspec.MsgspecError:
        # Somebody wrote it by hand: it is taken at their word, and at once.
        return Notice("instance_status", datetime.min.replace(tzinfo=UTC), detail=text)
