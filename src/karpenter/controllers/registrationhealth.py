# SPDX-License-Identifier: Apache-2.0
"""Whether the nodes of a NodePool come to be what they are made for, and a pause for pools whose nodes do not.

Each claim of a pool ends one way: its node registers, or it goes without having done so, because the launch or the
registration took too long, the instance died first, or it is not what the claim asks for. The last four results decide
NodeRegistrationHealthy, which informs; a change of the pool or of its node class resets it. Three failures in a row
make the pool pause, longer each time: whatever is wrong would only be bought again. A node that registers and does not
become ready in time, and one that is ready and that none of the pods it was made for comes to, are such failures too.

Failures are counted before the pods of the claim are planned anew: one pod gets three nodes that do not work before the
pause, not four.

Claims that are deleted for other reasons, such as sold-out capacity or by hand, are no result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from karpenter.api import labels as names
from karpenter.api.conditions import (
    AWAITING_RECONCILIATION,
    INITIALIZED,
    LAUNCHED,
    NODE_POOL,
    NODE_REGISTRATION_HEALTHY,
    REGISTERED,
    ConditionSet,
    is_true,
)
from karpenter.api.core import Pod
from karpenter.api.meta import Condition
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.controllers.patches import write_status
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, Recorder, Subject
from karpenter.model.pods import is_reschedulable, is_terminal
from karpenter.observe import Decision, DecisionKind, DecisionLog, Metrics, get_log, reporting
from karpenter.state import Cluster, Stored

__all__ = [
    "NEVER_USED",
    "NOT_INITIALIZED",
    "REGISTRATION_FAILED",
    "Failure",
    "HealthSettings",
    "LaunchBreaker",
    "RegistrationHealth",
    "failure_of",
]

REGISTRATION_FAILED: Final = "RegistrationFailed"
LAUNCH_FAILED: Final = "LaunchFailed"
INSTANCE_GONE: Final = "InstanceGone"
NOT_INITIALIZED: Final = "NodeNotInitialized"
NEVER_USED: Final = "NodeNeverUsed"

_WINDOW: Final = 4
_UNHEALTHY_FAILURES: Final = 2
_CONFLICT_AGAIN_S: Final = 1.0
# Server times are whole seconds, so an age may seem up to two seconds less than it is.
_ROUNDING: Final = timedelta(seconds=2)
_NODE: Final = "node/"
# Arbitrary: many times what goes between two collections.
_REMEMBERED: Final = 1000
# Long enough for a person to read why, short enough for a trouble that passes by itself.
_PAUSES: Final = BackoffPolicy(base_s=300.0, cap_s=1800.0, jitter=0.1)


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """How long each step may take, as the lifecycle has it, and within what time a ready node must be used."""

    launch_timeout_s: float = 300.0
    registration_timeout_s: float = 900.0
    use_within_s: float = 120.0


@dataclass(frozen=True, slots=True)
class _Pause:
    until: float
    cause: str
    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a claim came to nothing: what failures are told apart by, the condition's reason, and a sentence."""

    cause: str
    reason: str
    message: str


class LaunchBreaker:
    """Pauses pools whose nodes fail in a row; what was begun is not stopped.

    Failures for different causes add up: a pod that gets a node which does not work is no better off for the next one
    failing otherwise. A success takes back the failures of the stages that it passed.
    """

    def __init__(self, clock: Clock, *, after: int = 3, pauses: BackoffPolicy = _PAUSES) -> None:
        """Make a breaker that pauses no pool.

        Args:
            clock: Where its time comes from.
            after: How many failures in a row begin a pause.
            pauses: How long the first, second, n-th pause lasts.
        """
        self._clock = clock
        self._after = after
        self._pauses = pauses
        self._failures: dict[str, list[str]] = {}
        self._until: dict[str, _Pause] = {}
        self._listeners: list[Callable[[str], None]] = []

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Add a listener, which hears of each pool whose pause begins or is ended early."""
        self._listeners.append(listener)

    def failed(self, pool: str, cause: str, message: str = "") -> float:
        """Note a failure and return the seconds of the pause that it begins; 0.0 if it begins none."""
        if self.is_backing_off(pool):
            # It was begun before the pause; only what is tried after it says anything new.
            return 0.0
        failures = self._failures.setdefault(pool, [])
        failures.append(cause)
        pause_s = self._pauses.delay_s(len(failures) - self._after + 1, (pool, cause))
        if pause_s:
            again = self._clock.now() + timedelta(seconds=pause_s)
            words = (
                f"nodes fail in a row ({cause}){f': {message}' if message else ''};"
                f" none is made until {again:%H:%M:%S} UTC"
            )
            self._until[pool] = _Pause(self._clock.monotonic() + pause_s, cause, words)
            self._changed(pool)
        return pause_s

    def registered(self, pool: str) -> None:
        """Note that a node joined: launches and registrations work."""
        self._keep(pool, (NOT_INITIALIZED, NEVER_USED))

    def initialized(self, pool: str) -> None:
        """Note that a node is ready for work."""
        self._keep(pool, (NEVER_USED,))

    def used(self, pool: str) -> None:
        """Note that a node got a pod: everything works."""
        self._keep(pool, ())

    def reset(self, pool: str) -> None:
        """Forget a pool that is gone or means something else now."""
        self._keep(pool, ())

    def remaining_s(self, pool: str) -> float:
        """Return the seconds until a pool may launch again; 0.0 if it may now."""
        pause = self._until.get(pool)
        return max(pause.until - self._clock.monotonic(), 0.0) if pause is not None else 0.0

    def is_backing_off(self, pool: str) -> bool:
        """Return whether a pool should launch nothing now."""
        return self.remaining_s(pool) > 0

    def cause(self, pool: str) -> str:
        """Return the cause of a pool's pause; empty if it has none."""
        return self._until[pool].cause if self.is_backing_off(pool) else ""

    def message(self, pool: str) -> str:
        """Return why a pool launches nothing, and until when; empty if it may launch."""
        return self._until[pool].message if self.is_backing_off(pool) else ""

    def _keep(self, pool: str, causes: Collection[str]) -> None:
        kept = [cause for cause in self._failures.get(pool, ()) if cause in causes]
        if kept:
            self._failures[pool] = kept
        else:
            self._failures.pop(pool, None)
        pause = self._until.get(pool)
        if pause is not None and pause.cause not in kept:
            del self._until[pool]
            self._changed(pool)

    def _changed(self, pool: str) -> None:
        for listener in self._listeners:
            listener(pool)


def failure_of(claim: NodeClaim, settings: HealthSettings, died: str = "") -> Failure | None:
    """Gives why a claim that is being deleted came to nothing; None if it was not its pool's fault.

    Args:
        claim: The claim, not registered, as it was last.
        settings: How long each step may take.
        died: What is known about the end of its instance, if that is why it goes.
    """
    if died:
        return Failure(INSTANCE_GONE, REGISTRATION_FAILED, died)
    ended, begun = claim.metadata.deletion_timestamp, claim.metadata.creation_timestamp
    age = ended - begun + _ROUNDING if ended is not None and begun is not None else timedelta()
    launched, registered = _condition(claim, LAUNCHED), _condition(claim, REGISTERED)
    if launched is None or launched.status != "True":
        is_over = launched is not None and launched.status == "False"
        if not is_over and age < timedelta(seconds=settings.launch_timeout_s):
            return None
        known = launched is not None and launched.reason not in ("", AWAITING_RECONCILIATION)
        reason = launched.reason if launched is not None and known else LAUNCH_FAILED
        said = launched.message if launched is not None and known else ""
        return Failure(reason, reason, said or f"not launched within {settings.launch_timeout_s:g} s")
    if registered is not None and registered.status == "False":
        return Failure(registered.reason, REGISTRATION_FAILED, registered.message)
    if age < timedelta(seconds=settings.registration_timeout_s):
        return None
    message = (
        f"no node joined within {settings.registration_timeout_s:g} s; see the instance's console output"
    )
    return Failure(REGISTRATION_FAILED, REGISTRATION_FAILED, message)


class RegistrationHealth:
    """Watches how claims end; ``run`` must be kept running by a supervisor."""

    def __init__(  # noqa: PLR0913 - what a controller works with
        self,
        *,
        client: Client,
        cluster: Cluster,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        breaker: LaunchBreaker,
        settings: HealthSettings,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._breaker = breaker
        self._settings = settings
        self._log = get_log("nodepool.registrationhealth")
        self._windows: dict[str, deque[Failure | None]] = {}
        # Claims whose result is known, by uid.
        self._counted: set[str] = set()
        self._died: dict[str, str] = {}
        # Claims that went without a result, by name, with their pools: the reason may still be told.
        self._unexplained: dict[str, str] = {}
        # Nodes that are ready and wait for the pods they were made for: their pool, and the pods' uids.
        self._unused: dict[str, tuple[str, frozenset[str]]] = {}
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            on_error=reporting(self._log, metrics, "nodepool.registrationhealth", "NodePool"),
        )
        decisions.listen(self._decided)
        cluster.informers.pools.on_change(lambda change: self._queue.add(change.object.metadata.name))
        cluster.informers.classes.on_change(self._class_changed)
        cluster.informers.claims.on_change(self._claim_changed)
        cluster.informers.pods.on_change(self._pod_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, key: str) -> float | None:
        """Writes what the results say about a pool; for a node looks whether it is used by now."""
        if key.startswith(_NODE):
            self._judge_use(key.removeprefix(_NODE))
            return None
        pool = self._cluster.pool(key)
        if pool is None:
            self._windows.pop(key, None)
            self._breaker.reset(key)
            self._queue.forget(key)
            return None
        generation = self._class_generation(pool)
        conditions = ConditionSet.of(NODE_POOL, pool.metadata, pool.status.conditions)
        window = self._window(key)
        judged = conditions
        if self._is_new(pool, conditions, generation):
            if conditions.get(NODE_REGISTRATION_HEALTHY) is not None:
                window.clear()
                self._breaker.reset(key)
            judged = conditions.unknown(NODE_REGISTRATION_HEALTHY, self._clock.now())
        judged = self._judged(judged, window)
        if judged is conditions and pool.status.node_class_observed_generation == generation:
            return None
        return await self._write(pool, judged, generation)

    def _judged(self, conditions: ConditionSet, window: deque[Failure | None]) -> ConditionSet:
        failures = [each for each in window if each is not None]
        if len(failures) >= _UNHEALTHY_FAILURES:
            last = failures[-1]
            return conditions.false(
                NODE_REGISTRATION_HEALTHY, self._clock.now(), reason=last.reason, message=last.message
            )
        if None in window:
            return conditions.true(NODE_REGISTRATION_HEALTHY, self._clock.now())
        return conditions

    def _is_new(self, pool: NodePool, conditions: ConditionSet, generation: int) -> bool:
        observed = pool.status.node_class_observed_generation
        return not conditions.is_current(NODE_REGISTRATION_HEALTHY) or observed not in (None, generation)

    async def _write(self, pool: NodePool, conditions: ConditionSet, generation: int) -> float | None:
        # The pool's other conditions have another writer, and a patch replaces all of them.
        status = {"conditions": conditions.to_wire(), "nodeClassObservedGeneration": generation}
        is_done = await write_status(self._client, self._cluster.informers.pools, pool, status)
        return None if is_done else _CONFLICT_AGAIN_S

    def _window(self, pool: str) -> deque[Failure | None]:
        """Gives a pool's last results; after a start, those that its condition stands for."""
        if pool not in self._windows:
            results: list[Failure | None] = []
            known = self._cluster.pool(pool)
            conditions = known.status.conditions if known is not None else ()
            before = next((each for each in conditions if each.type == NODE_REGISTRATION_HEALTHY), None)
            if before is not None and before.status == "True":
                results = [None]
            elif before is not None and before.status == "False":
                results = [Failure(before.reason, before.reason, before.message)] * _UNHEALTHY_FAILURES
            self._windows[pool] = deque(results, maxlen=_WINDOW)
        return self._windows[pool]

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        claim = change.object
        uid, pool = claim.metadata.uid, claim.metadata.labels.get(names.NODEPOOL, "")
        gone = change.new is None
        ending = gone or claim.metadata.deletion_timestamp is not None
        if pool and uid not in self._counted:
            if is_true(claim.status.conditions, REGISTERED):
                self._counted.add(uid)
                # At a start the past is heard of again; the pool's condition remembers it.
                if change.old is not None:
                    self._succeeded(pool)
            elif ending:
                self._counted.add(uid)
                if change.old is not None:
                    self._ended(claim, pool)
        if (
            pool
            and not ending
            and change.old is not None
            and not is_true(change.old.status.conditions, INITIALIZED)
            and is_true(claim.status.conditions, INITIALIZED)
        ):
            self._breaker.initialized(pool)
            self._await_use(claim, pool)
        if gone:
            self._counted.discard(uid)
            self._died.pop(claim.metadata.name, None)
            self._unused.pop(claim.status.node_name, None)

    def _succeeded(self, pool: str) -> None:
        self._breaker.registered(pool)
        self._window(pool).append(None)
        self._queue.add(pool)

    def _ended(self, claim: NodeClaim, pool: str) -> None:
        name = claim.metadata.name
        failure = failure_of(claim, self._settings, self._died.pop(name, ""))
        if failure is not None:
            self._note(pool, failure)
            return
        self._unexplained[name] = pool
        if len(self._unexplained) > _REMEMBERED:
            del self._unexplained[next(iter(self._unexplained))]

    def failed(self, claim: NodeClaim, failure: Failure) -> None:
        """Count the failure of a claim that is given up, at once and not again when its deletion is seen."""
        uid, pool = claim.metadata.uid, claim.metadata.labels.get(names.NODEPOOL, "")
        if failure.cause == NOT_INITIALIZED:
            self._trip(pool, failure)
        elif uid not in self._counted:
            self._counted.add(uid)
            self._note(pool, failure)

    def ordering(self, pods: Iterable[str]) -> None:
        """Count the nodes that stand ready and empty for pods that another node is about to be ordered for."""
        wanted = frozenset(pods)
        for node, (_, uids) in tuple(self._unused.items()):
            if not wanted.isdisjoint(uids) and not any(map(is_reschedulable, self._cluster.pods_on(node))):
                self._judge_use(node)

    def _note(self, pool: str, failure: Failure) -> None:
        self._window(pool).append(failure)
        self._queue.add(pool)
        self._trip(pool, failure)

    def _trip(self, pool: str, failure: Failure) -> None:
        if not self._breaker.failed(pool, failure.cause, failure.message):
            return
        stored = self._cluster.informers.pools.get(pool)
        message = self._breaker.message(pool)
        self._log.error("pausing nodepool", NodePool={"name": pool}, cause=failure.cause, detail=message)
        if stored is not None:
            uid = stored.metadata.uid
            subject = Subject("NodePool", "karpenter.sh/v1", pool, uid=uid)
            self._recorder.tell(subject, "LaunchesPaused", message, type="Warning", about=failure.cause)

    def _await_use(self, claim: NodeClaim, pool: str) -> None:
        uids = frozenset(self._cluster.nominations.pods_of(claim.metadata.name))
        node = claim.status.node_name
        if not uids or not node:
            return
        self._unused[node] = (pool, uids)
        self._queue.add_after(f"{_NODE}{node}", self._settings.use_within_s)

    def _judge_use(self, node: str) -> None:
        pool, uids = self._unused.pop(node, ("", frozenset[str]()))
        pods = (pod for uid in uids for pod in self._cluster.informers.pods.by("uid", uid))
        # Pods that are gone, or that found another place, are no one's fault.
        if any(not pod.spec.node_name and not is_terminal(pod) for pod in pods):
            message = (
                f"{node} is ready and none of the pods it was made for came:"
                " see its taints and labels, and what adds them"
            )
            self._trip(pool, Failure(NEVER_USED, NEVER_USED, message))

    def _pod_changed(self, change: Change[Pod]) -> None:
        node = change.object.spec.node_name
        waiting = self._unused.get(node) if node else None
        if waiting is not None and change.object.metadata.uid in waiting[1]:
            del self._unused[node]
            self._breaker.used(waiting[0])

    def _decided(self, decision: Decision) -> None:
        if decision.kind is not DecisionKind.COLLECT or decision.reason != INSTANCE_GONE:
            return
        for subject in decision.subject:
            name = subject.removeprefix("NodeClaim/")
            pool = self._unexplained.pop(name, "")
            claim = self._cluster.informers.claims.get(name)
            if pool:
                # The deletion was seen before the word for it.
                self._note(pool, Failure(INSTANCE_GONE, REGISTRATION_FAILED, decision.message))
            elif claim is not None and claim.metadata.uid not in self._counted:
                self._died[name] = decision.message

    def _class_changed(self, change: Change[Stored]) -> None:
        name = change.object.metadata.name
        for pool in self._cluster.effective.pools.values():
            if pool.spec.template.spec.node_class_ref.name == name:
                self._queue.add(pool.metadata.name)

    def _class_generation(self, pool: NodePool) -> int:
        node_class = self._cluster.node_class(pool.spec.template.spec.node_class_ref.name)
        return node_class.metadata.generation if node_class is not None else 0


def _condition(claim: NodeClaim, kind: str) -> Condition | None:
    return next((each for each in claim.status.conditions if each.type == kind), None)
