# SPDX-License-Identifier: Apache-2.0
"""A NodeClaim from its creation to a node that works: launch, registration, initialisation, and giving up in time.

Each look at a claim does what is next. A launch happens once, whoever is asked to do it and however often: the intent
is in the API before the call, and the cloud recognises it (ADR 7). A claim that nothing can be bought for is deleted,
so that its pods are planned anew without what is sold out; one that the cloud refused keeps its reason as a condition
and is tried again, ever more slowly. A claim whose node does not join in time is deleted with its instance, and so is
one whose machine is not what it asks for. A node that joins and does not become ready in time is deleted if no workload
runs on it, and otherwise no more pods are planned onto it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.conditions import INITIALIZED, LAUNCHED, NODE_CLAIM, REGISTERED, ConditionSet
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import (
    InsufficientCapacityError,
    LaunchError,
    LaunchPendingError,
    NodeClaimNotFoundError,
    NodeClassNotReadyError,
)
from karpenter.cloud.protocol import CloudProvider, Machine, next_attempt
from karpenter.controllers.lifecycle.disarming import Disarming, disarming_patch, is_armed, is_shielded
from karpenter.controllers.lifecycle.initialization import Overdues
from karpenter.controllers.lifecycle.joining import lacks, registration_patch, takes_pods
from karpenter.controllers.lifecycle.matching import NodeMatcher, unmet_requirement
from karpenter.controllers.lifecycle.reports import LaunchReports
from karpenter.controllers.lifecycle.waitingroom import WaitingRoom
from karpenter.controllers.patches import add_finalizer, change_conditions
from karpenter.controllers.poolproblems import PoolProblems, Topic, sentence
from karpenter.controllers.registrationhealth import REGISTRATION_FAILED, Failure
from karpenter.controllers.tainting import set_taint
from karpenter.kit.backoff import BackoffPolicy, BackoffTable
from karpenter.kit.clock import Clock
from karpenter.kit.durations import later
from karpenter.kit.lookups import Lookups
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, ConflictError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.model.resources import Resources
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log
from karpenter.state import Cluster

__all__ = ["Lifecycle", "LifecycleSettings"]

_LONGEST_MESSAGE: Final = 300
_LAUNCH_RETRY_S: Final = 5.0
# How often an instance whose node has not joined is asked after: it may have died, and nothing would tell.
_JOIN_AGAIN_S: Final = 10.0
# How long its answer is waited for.
_LOOK_S: Final = 2.0
# As a work queue waits: what was refused for a cause that a person must remove is asked for ever more rarely.
_REFUSED_AGAIN: Final = BackoffPolicy(base_s=1.0, cap_s=60.0, jitter=0.2)
# When somebody else wrote to a node: the next look has what they wrote.
_CONFLICT_AGAIN_S: Final = 0.05
_UNDECIDED_AGAIN_S: Final = 1.0
_DIED: Final = "InstanceDied"
_MISMATCH: Final = "LabelsDoNotMatch"
# How long the cloud's lists may lack an instance that was launched, perhaps by a process that is no more.
_UNLISTED: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """How long each step may take; an initialisation timeout of 0 waits for ever, and counts from registration."""

    launch_timeout_s: float = 300.0
    registration_timeout_s: float = 900.0
    initialization_timeout_s: float = 900.0
    places_early: bool = False
    workers: int = 200


class Lifecycle:
    """Brings claims to life; ``run`` must be kept running by a supervisor."""

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        settings: LifecycleSettings,
        problems: PoolProblems | None = None,
        on_failure: Callable[[NodeClaim, Failure], None] = lambda _claim, _failure: None,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._log = get_log("nodeclaim.lifecycle")
        self._refusals: BackoffTable[str] = BackoffTable(clock, _REFUSED_AGAIN)
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, workers=settings.workers, on_error=self._failed
        )
        self._waiting = WaitingRoom()
        self._disarming = Disarming()
        self._matcher = NodeMatcher(cluster, cloud, recorder)
        self._overdues = Overdues(cluster, recorder, clock, settings.initialization_timeout_s)
        self._problems = problems or PoolProblems(cluster, recorder, clock)
        self._reports = LaunchReports(cluster, recorder, clock, self._problems)
        self._on_failure = on_failure
        self._looks: Lookups[str, None] = Lookups(clock, self._look, on_late=self._queue.add)
        cluster.informers.claims.on_change(lambda change: self._queue.add(change.object.metadata.name))
        cluster.nominations.on_told(self._queue.add)
        cluster.informers.nodes.on_change(self._node_changed)
        cluster.informers.classes.on_change(lambda _: self._class_changed())

    async def run(self) -> None:
        """Works until cancelled."""
        try:
            await self._queue.run()
        finally:
            await self._looks.close()

    async def reconcile(self, name: str) -> float | None:
        """Does what is next for a claim, and says when to look again."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None:
            self._queue.forget(name)
            self._waiting.let_go(name)
            self._disarming.forget(name)
            self._matcher.forget(name)
            self._looks.forget(name)
            return None
        if claim.metadata.deletion_timestamp is not None:
            return None
        if names.TERMINATION_FINALIZER not in claim.metadata.finalizers:
            claim = await self._add_finalizer(claim)
        return await self._next(claim, _conditions(claim))

    async def _next(self, claim: NodeClaim, conditions: ConditionSet) -> float | None:
        name = claim.metadata.name
        if not conditions.is_true(LAUNCHED):
            # A claim whose launch was refused is written to, which would wake it at once: it waits all the same.
            again_s = self._refusals.remaining_s(claim.metadata.uid) or await self._launch(claim)
            if again_s == 0.0:
                return 0.0
            late_s = await self._late(name)
            return late_s if again_s is None or late_s is None else again_s
        if not conditions.is_true(REGISTERED):
            return await self._join(claim)
        node = self._matcher.registered(claim)
        if node is not None:
            self._disarming.forget(name)
            self._looks.forget(name)
            # Only another program registers a node and leaves our taint on it, one that took over from us just then.
            await set_taint(self._client, self._cluster, node, on=False, taint=names.REGISTERING_TAINT)
            if not conditions.is_true(INITIALIZED):
                await self._initialize(claim, node)
        return await self._late(name)

    async def _join(self, claim: NodeClaim) -> float | None:
        """Register the node of a claim if it has joined, and say when to look again."""
        name = claim.metadata.name
        try:
            node = await self._matcher.joined(claim)
        except LaunchPendingError as error:
            return error.retry_after_s
        if node is not None:
            hold_s = await self._hold_s(name, node)
            if hold_s or await self._register(claim, node):
                return hold_s
        return await self._late(name)

    async def _hold_s(self, name: str, node: Node) -> float:
        """Gives how long a node that has joined is kept from pods, which nobody may evict once they come."""
        known_s = self._disarming.wait_s(name, node, self._clock.monotonic())
        told_s = self._untold_s(name, node, is_known=not known_s)
        # Early placement does not heed the taint that shields other nodes while they boot.
        is_open = self._settings.places_early or not is_shielded(node)
        # Not while the control plane is at the node's other taints: writers would be in each other's way.
        is_due = is_armed(node) and (takes_pods(node) or (is_open and not told_s))
        if is_due or self._disarming.can_ask(name, node):
            return await self._disarm(name, node)
        return min(known_s, told_s) if known_s and told_s else known_s or told_s

    def _untold_s(self, name: str, node: Node, *, is_known: bool) -> float:
        """Gives how long a node waits until the scheduler knows which pods are for it."""
        nominations, now = self._cluster.nominations, self._clock.monotonic()
        if self._settings.places_early and not takes_pods(node):
            # Its pods are bound while it boots, and our taint would have them evicted.
            return self._waiting.let_go(name)
        if not nominations.is_telling or not nominations.pods_of(name):
            return self._waiting.let_go(name)
        is_complete = is_known and takes_pods(node) and nominations.is_told(name)
        return self._waiting.hold_s(name, now, is_ready=is_complete)

    async def _disarm(self, name: str, node: Node) -> float:
        """Takes the taint off a node that evicts, keeps pods off all the same, and says when to look again."""
        try:
            changed = await self._client.patch(NODES, node.metadata.name, disarming_patch(node))
        except (ConflictError, NotFoundError):
            return _CONFLICT_AGAIN_S
        now = self._clock.monotonic()
        self._disarming.note(name, node, now)
        self._cluster.informers.nodes.observe(changed)
        return self._disarming.wait_s(name, changed, now)

    async def _launch(self, claim: NodeClaim) -> float | None:
        """Launches the claim's machine; gives the seconds after which to ask again, or None."""
        reference = claim.spec.node_class_ref.name
        node_class = self._cluster.node_class(reference)
        if node_class is None or node_class.metadata.deletion_timestamp is not None:
            await self._give_up(
                claim, "nodeclass_not_found", f"EC2NodeClass {reference} is not there or is going"
            )
            return None
        try:
            machine = await self._reports.watched(claim, self._cloud.create(claim, node_class))
        except InsufficientCapacityError as error:
            self._recorder.tell(
                Subject.of(NODE_CLAIMS, claim), "InsufficientCapacityError", error.message, type="Warning"
            )
            await self._give_up(claim, "insufficient_capacity", error.message)
            return None
        except NodeClassNotReadyError as error:
            return await self._not_ready(claim, error)
        except LaunchPendingError as error:
            return error.retry_after_s
        except LaunchError as error:
            await self._refused(claim, error)
            raise
        self._refusals.reset(claim.metadata.uid)
        unmet = unmet_requirement(claim, machine)
        if unmet:
            await self._unusable(claim, machine, unmet)
            return None
        await self._launched(claim, machine)
        return 0.0

    async def _not_ready(self, claim: NodeClaim, error: NodeClassNotReadyError) -> float | None:
        """Wait for a node class that is often made together with the claim, or give the claim up."""
        if error.is_undecided:
            return _UNDECIDED_AGAIN_S
        self._recorder.tell(
            Subject.of(NODE_CLAIMS, claim), "NodeClassNotReady", error.message, type="Warning"
        )
        await self._give_up(claim, "nodeclass_not_ready", error.message)
        return None

    async def _unusable(self, claim: NodeClaim, machine: Machine, unmet: str) -> None:
        """Give up on a machine that the claim's pods could not use: it would stand empty, and another be bought."""
        words = f"{machine.provider_id} is not what NodeClaim {claim.metadata.name} asks for: {unmet}"
        self._log.error("failed launching nodeclaim", NodeClaim={"name": claim.metadata.name}, error=words)
        where = (machine.labels.get(key, "") for key in (names.ZONE, names.ZONE_ID, names.CAPACITY_TYPE))
        self._metrics.launch_failures.labels(*where, _MISMATCH).inc()
        conditions = _conditions(claim).false(
            LAUNCHED, self._clock.now(), reason=_MISMATCH, message=words[:_LONGEST_MESSAGE]
        )
        await self._patch_status(claim, conditions, {"providerID": machine.provider_id})
        self._problems.report(_pool(claim), Topic.LAUNCH, _MISMATCH, words, claim=claim)
        await self._give_up(claim, "labels_do_not_match", words, Failure(_MISMATCH, _MISMATCH, words))

    async def _launched(self, claim: NodeClaim, machine: Machine) -> None:
        self._problems.resolved(_pool(claim), Topic.LAUNCH)
        labels = {**machine.labels, **claim.metadata.labels}
        await self._patch_metadata(claim, labels, machine.annotations)
        conditions = _conditions(claim).true(LAUNCHED, self._clock.now())
        status = {
            "providerID": machine.provider_id,
            "imageID": machine.image_id,
            "capacity": Resources(machine.capacity).to_quantities(),
            "allocatable": Resources(machine.allocatable).to_quantities(),
        }
        await self._patch_status(claim, conditions, status)
        kind, zone = machine.labels.get(names.INSTANCE_TYPE, ""), machine.labels.get(names.ZONE, "")
        self._log.info(
            "launched nodeclaim",
            NodeClaim={"name": claim.metadata.name},
            zone=zone,
            **{
                "provider-id": machine.provider_id,
                "instance-type": kind,
                "capacity-type": machine.labels.get(names.CAPACITY_TYPE, ""),
                "allocatable": Resources(machine.allocatable).to_quantities(),
            },
        )
        self._decisions.record(
            DecisionKind.LAUNCH,
            f"NodeClaim/{claim.metadata.name}",
            reason="Provisioned",
            message=f"{kind} in {zone} for NodeClaim {claim.metadata.name}",
            provider_id=machine.provider_id,
        )

    async def _refused(self, claim: NodeClaim, error: LaunchError) -> None:
        """Writes down why the cloud refused, and that the next try is another one, later."""
        self._refusals.failed(claim.metadata.uid)
        self._log.error("failed launching nodeclaim", NodeClaim={"name": claim.metadata.name}, error=error)
        message = sentence(error)
        await self._patch_metadata(claim, {}, next_attempt(claim))
        conditions = _conditions(claim).unknown(
            LAUNCHED, self._clock.now(), reason=error.reason, message=message[:_LONGEST_MESSAGE]
        )
        await self._patch_status(claim, conditions)
        self._problems.report(_pool(claim), Topic.LAUNCH, error.reason, message, claim=claim)

    async def _register(self, claim: NodeClaim, node: Node) -> bool:
        """Makes the node the claim's own; tells whether it is now."""
        if not await self._placed(claim):
            return False
        claim = self._cluster.informers.claims.get(claim.metadata.name) or claim
        if all(taint.key != names.UNREGISTERED_TAINT.key for taint in node.spec.taints) and (
            names.REGISTERED not in node.metadata.labels
        ):
            self._recorder.tell(
                Subject.of(NODE_CLAIMS, claim),
                "UnregisteredTaintMissing",
                f"{node.metadata.name} joined without the taint {names.UNREGISTERED_TAINT.key}: pods may come"
                " too early; check the user data",
                type="Warning",
            )
        patch = registration_patch(node, claim)
        if patch:
            try:
                changed = await self._client.patch(NODES, node.metadata.name, patch)
            except (ConflictError, NotFoundError):
                return False
            self._cluster.informers.nodes.observe(changed)
        conditions = _conditions(claim).true(REGISTERED, self._clock.now())
        await self._patch_status(claim, conditions, {"nodeName": node.metadata.name})
        self._metrics.nodes_created.labels(_pool(claim), claim.metadata.labels.get(names.ZONE, "")).inc()
        self._log.info(
            "registered nodeclaim",
            NodeClaim={"name": claim.metadata.name},
            Node={"name": node.metadata.name},
            **{"provider-id": claim.status.provider_id},
        )
        self._decisions.record(
            DecisionKind.REGISTER,
            f"NodeClaim/{claim.metadata.name}",
            f"Node/{node.metadata.name}",
            reason="Joined",
            message=f"{node.metadata.name} joined for NodeClaim {claim.metadata.name}",
        )
        return True

    async def _placed(self, claim: NodeClaim) -> bool:
        """Fills in the partition that the cloud chose, which pods are spread by; tells whether it is known."""
        key = names.PLACEMENT_GROUP_PARTITION
        if claim.metadata.labels.get(key) != "":
            return True
        try:
            machine = await self._cloud.get(claim.status.provider_id)
        except NodeClaimNotFoundError:
            return False
        if not machine.labels.get(key):
            return False
        unmet = unmet_requirement(claim, machine)
        if unmet:
            await self._unusable(claim, machine, unmet)
            return False
        await self._patch_metadata(claim, {key: machine.labels[key]}, {})
        return True

    async def _initialize(self, claim: NodeClaim, node: Node) -> None:
        reason, words = lacks(node, claim)
        conditions = _conditions(claim)
        if reason:
            # Once its time is over it stays False, for what is missing then: no pods are planned onto it.
            last = conditions.get(INITIALIZED)
            is_over = last is not None and last.status == "False"
            state = conditions.false if is_over else conditions.unknown
            await self._patch_status(
                claim, state(INITIALIZED, self._clock.now(), reason=reason, message=words)
            )
            return
        if node.metadata.labels.get(names.INITIALIZED) != "true":
            label = {"metadata": {"labels": {names.INITIALIZED: "true"}}}
            self._cluster.informers.nodes.observe(await self._client.patch(NODES, node.metadata.name, label))
        await self._patch_status(claim, conditions.true(INITIALIZED, self._clock.now()))
        self._log.info(
            "initialized nodeclaim",
            NodeClaim={"name": claim.metadata.name},
            Node={"name": node.metadata.name},
            allocatable=dict(node.status.allocatable),
            **{"provider-id": claim.status.provider_id},
        )
        self._decisions.record(
            DecisionKind.INITIALIZE,
            f"NodeClaim/{claim.metadata.name}",
            f"Node/{node.metadata.name}",
            reason="Ready",
            message=f"{node.metadata.name} is ready for work",
        )

    async def _late(self, name: str) -> float | None:
        """Gives up on a claim whose time is over; otherwise says when it will be."""
        claim = self._cluster.informers.claims.get(name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return None
        conditions = _conditions(claim)
        settings = self._settings
        if conditions.is_true(LAUNCHED, REGISTERED):
            return None if conditions.is_true(INITIALIZED) else await self._uninitialized(claim, conditions)
        if not conditions.is_true(LAUNCHED):
            step, limit_s, words = LAUNCHED, settings.launch_timeout_s, "launch_timeout"
        else:
            await self._note_absence(claim)
            if await self._died(claim):
                return None
            step, limit_s, words = REGISTERED, settings.registration_timeout_s, "registration_timeout"
        left_s = self._left_s(claim.metadata.creation_timestamp, limit_s)
        if left_s > 0:
            return min(left_s, _LAUNCH_RETRY_S if step == LAUNCHED else _JOIN_AGAIN_S)
        condition = conditions.get(step)
        detail = f": {condition.message}" if condition is not None and condition.message else ""
        message = f"{step} was not reached within {limit_s:g} s{detail}"
        cause = condition.reason if step == LAUNCHED and condition is not None else REGISTRATION_FAILED
        await self._give_up(claim, words, message, Failure(cause, cause, message))
        return None

    def _left_s(self, begun: datetime | None, limit_s: float) -> float:
        now = self._clock.now()
        return (later(begun or now, limit_s) - now).total_seconds()

    async def _uninitialized(self, claim: NodeClaim, conditions: ConditionSet) -> float | None:
        """Give up a node that registered and is not ready in time, and say when to look again."""
        overdue = self._overdues.judge(claim, conditions)
        if overdue.failure is None:
            return overdue.again_s
        if not overdue.is_kept:
            message = overdue.failure.message
            await self._give_up(claim, "initialization_timeout", message, overdue.failure)
            return None
        last = conditions.get(INITIALIZED)
        if last is not None and last.status != "False":
            # No more pods are planned onto it, and those that wait for it go elsewhere.
            self._on_failure(claim, overdue.failure)
            over = conditions.false(INITIALIZED, self._clock.now(), reason=last.reason, message=last.message)
            await self._patch_status(claim, over)
            self._cluster.nominations.withdraw_all(claim.metadata.name)
        return overdue.again_s

    async def _note_absence(self, claim: NodeClaim) -> None:
        nodes = self._matcher.named(claim)
        conditions, now = _conditions(claim), self._clock.now()
        refused = self._matcher.refused(claim)
        if not nodes and refused:
            changed = conditions.unknown(
                REGISTERED, now, reason="NodeRefused", message=refused[:_LONGEST_MESSAGE]
            )
        elif not nodes:
            changed = conditions.unknown(
                REGISTERED, now, reason="NodeNotFound", message="no node has joined yet"
            )
        elif len(nodes) > 1:
            joined = ", ".join(sorted(each.metadata.name for each in nodes))
            changed = conditions.false(
                REGISTERED,
                now,
                reason="MultipleNodesFound",
                message=f"several nodes name this instance: {joined}",
            )
        else:
            return
        await self._patch_status(claim, changed)

    async def _died(self, claim: NodeClaim) -> bool:
        """Gives up on a claim whose instance died before its node joined, with what the cloud says of its end."""
        if self._matcher.named(claim):
            return False
        try:
            # Waited for only a moment: a node that joins meanwhile must not wait for the answer.
            await self._looks.within(claim.metadata.name, _LOOK_S)
        except TimeoutError:
            return False
        except NodeClaimNotFoundError as error:
            if not error.has_ended and self._may_be_unlisted(claim):
                return False
            words = f"{claim.status.provider_id} died before its node joined; {error.hint}"
        else:
            return False
        current = self._cluster.informers.claims.get(claim.metadata.name) or claim
        conditions = _conditions(current).false(
            REGISTERED, self._clock.now(), reason=_DIED, message=words[:_LONGEST_MESSAGE]
        )
        await self._patch_status(current, conditions)
        self._recorder.tell(Subject.of(NODE_CLAIMS, claim), _DIED, words, type="Warning")
        await self._give_up(claim, "instance_died", words, Failure(_DIED, REGISTRATION_FAILED, words))
        return True

    async def _look(self, name: str) -> None:
        claim = self._cluster.informers.claims.get(name)
        if claim is not None and claim.status.provider_id:
            await self._cloud.get(claim.status.provider_id)

    def _may_be_unlisted(self, claim: NodeClaim) -> bool:
        launched = _conditions(claim).get(LAUNCHED)
        since = launched.last_transition_time if launched is not None else None
        return since is not None and self._clock.now() - since < _UNLISTED

    async def _give_up(
        self, claim: NodeClaim, reason: str, message: str, failure: Failure | None = None
    ) -> None:
        """Deletes a claim that will not become a node; what it launched goes with it.

        A failure is counted before the claim's pods may be planned anew: it may be the one that pauses their pool.
        """
        name = claim.metadata.name
        try:
            await self._client.delete(NODE_CLAIMS, name, uid=claim.metadata.uid)
        except (NotFoundError, ConflictError):
            return
        if failure is not None:
            self._on_failure(claim, failure)
        pool = _pool(claim)
        kind = claim.metadata.labels.get(names.CAPACITY_TYPE, "")
        self._metrics.claims_disrupted.labels(reason, pool, kind).inc()
        self._log.info("deleted nodeclaim", NodeClaim={"name": name}, reason=reason, detail=message)
        self._decisions.record(
            DecisionKind.LAUNCH_FAILED, f"NodeClaim/{name}", reason=reason, message=message, pool=pool
        )
        self._cluster.nominations.withdraw_all(name)

    async def _add_finalizer(self, claim: NodeClaim) -> NodeClaim:
        claims = self._cluster.informers.claims
        return await add_finalizer(self._client, claims, claim, names.TERMINATION_FINALIZER) or claim

    async def _patch_metadata(
        self, claim: NodeClaim, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> None:
        new_labels = {key: value for key, value in labels.items() if claim.metadata.labels.get(key) != value}
        new_annotations = {
            key: value for key, value in annotations.items() if claim.metadata.annotations.get(key) != value
        }
        metadata = {
            key: value for key, value in (("labels", new_labels), ("annotations", new_annotations)) if value
        }
        if metadata:
            changed = await self._client.patch(NODE_CLAIMS, claim.metadata.name, {"metadata": metadata})
            self._cluster.informers.claims.observe(changed)

    async def _patch_status(
        self, claim: NodeClaim, conditions: ConditionSet, status: Mapping[str, Any] | None = None
    ) -> None:
        """Writes what was decided to change, onto whatever others have written to the status meanwhile."""
        rebase = functools.partial(conditions.rebased, claim.status.conditions)
        await change_conditions(self._client, self._cluster, claim, rebase, status)

    def _node_changed(self, change: Change[Node]) -> None:
        for claim in self._cluster.informers.claims.by("provider_id", change.object.spec.provider_id):
            self._queue.add(claim.metadata.name)

    def _class_changed(self) -> None:
        for claim in self._cluster.informers.claims:
            if not claim.status.provider_id:
                self._queue.add(claim.metadata.name)

    def _failed(self, name: str, error: Exception, again_s: float) -> None:
        self._metrics.reconcile_errors.labels("nodeclaim.lifecycle").inc()
        if not isinstance(error, LaunchError):
            self._log.error(
                "Reconciler error", NodeClaim={"name": name}, error=error, retry_in_s=round(again_s, 1)
            )
            self._reports.failed(name, error)


def _pool(claim: NodeClaim) -> str:
    return claim.metadata.labels.get(names.NODEPOOL, "")


def _conditions(claim: NodeClaim) -> ConditionSet:
    return ConditionSet.of(NODE_CLAIM, claim.metadata, claim.status.conditions)
