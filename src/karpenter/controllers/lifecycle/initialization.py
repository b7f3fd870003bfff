# SPDX-License-Identifier: Apache-2.0
"""What is done about a node that registered and does not become ready for work (ADR 9).

After some minutes it is told what is missing, on the claim, the node and the pool. When its time is over it is given
up, unless a workload runs on it or its owner asks for it to be left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api import labels as names
from karpenter.api.conditions import INITIALIZED, REGISTERED, ConditionSet
from karpenter.api.nodeclaim import NodeClaim
from karpenter.controllers.registrationhealth import NOT_INITIALIZED, Failure
from karpenter.kit.clock import Clock
from karpenter.kit.durations import later
from karpenter.kube import Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODE_POOLS, NODES
from karpenter.model.pods import is_reschedulable
from karpenter.observe import get_log
from karpenter.state import Cluster

__all__ = ["Overdue", "Overdues"]

# Longer than healthy nodes take, short enough that a person still looks: a judgement.
_TOLD_AFTER_S: Final = 300.0
_TOLD_AGAIN_S: Final = 900.0
_LOOK_AGAIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Overdue:
    """What is to be done about a node that is not ready.

    Attributes:
        again_s: When to look again.
        failure: What it lacks, if its time is over.
        is_kept: Whether it stays all the same.
    """

    again_s: float
    failure: Failure | None = None
    is_kept: bool = False


class Overdues:
    """Judges nodes that registered and are not initialized."""

    def __init__(self, cluster: Cluster, recorder: Recorder, clock: Clock, timeout_s: float) -> None:
        """Take what it works with; a timeout of 0 gives no node up."""
        self._cluster = cluster
        self._recorder = recorder
        self._clock = clock
        self._timeout_s = timeout_s
        self._log = get_log("nodeclaim.lifecycle")

    def judge(self, claim: NodeClaim, conditions: ConditionSet) -> Overdue:
        """Tell what a node lacks once that is due, and return what is to be done about it."""
        registered, last = conditions.get(REGISTERED), conditions.get(INITIALIZED)
        since = (registered.last_transition_time if registered is not None else None) or self._clock.now()
        timeout_s = self._timeout_s
        if self._left_s(since, min(_TOLD_AFTER_S, timeout_s or _TOLD_AFTER_S)) > 0:
            return Overdue(_LOOK_AGAIN_S)
        lacking = last.message if last is not None else "nothing is known of it"
        name = claim.status.node_name
        message = f"Node {name} registered at {since:%H:%M:%S} UTC and is not ready for work: {lacking}"
        self._tell(claim, message)
        left_s = self._left_s(since, timeout_s) if timeout_s else _TOLD_AGAIN_S
        if left_s > 0:
            return Overdue(min(left_s, _LOOK_AGAIN_S))
        failure = Failure(NOT_INITIALIZED, NOT_INITIALIZED, message)
        return Overdue(_TOLD_AGAIN_S, failure, is_kept=self._is_kept(claim))

    def _left_s(self, since: datetime, limit_s: float) -> float:
        return (later(since, limit_s) - self._clock.now()).total_seconds()

    def _is_kept(self, claim: NodeClaim) -> bool:
        node = self._cluster.informers.nodes.get(claim.status.node_name)
        marked = (claim, *((node,) if node is not None else ()))
        if any(each.metadata.annotations.get(names.DO_NOT_DISRUPT) == "true" for each in marked):
            return True
        # A pod that was bound to it and has not started has nothing to lose.
        pods = self._cluster.pods_on(claim.status.node_name)
        return any(is_reschedulable(pod) and pod.status.phase == "Running" for pod in pods)

    def _tell(self, claim: NodeClaim, message: str) -> None:
        subjects = [Subject.of(NODE_CLAIMS, claim)]
        node = self._cluster.informers.nodes.get(claim.status.node_name)
        pool = self._cluster.informers.pools.get(claim.metadata.labels.get(names.NODEPOOL, ""))
        if node is not None:
            subjects.append(Subject.of(NODES, node))
        if pool is not None:
            subjects.append(Subject.of(NODE_POOLS, pool))
        told = [
            self._recorder.tell(each, NOT_INITIALIZED, message, type="Warning", quiet_s=_TOLD_AGAIN_S)
            for each in subjects
        ]
        if any(told):
            name = claim.metadata.name
            self._log.warning("nodeclaim is not initialized", NodeClaim={"name": name}, detail=message)
