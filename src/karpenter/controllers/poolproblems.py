# SPDX-License-Identifier: Apache-2.0
"""What keeps a NodePool from making or ending nodes now, told on the pool, its claim and the pods that wait.

A problem is reported by the controller that meets it, under a topic: creating, launching. It is told as an event at
once, and remembered until the topic works again or the problem is old, so that a pod which is refused later for want of
that pool hears of it too. Terminations that the cloud refuses are read from the conditions of claims. Conditions of the
pool are not written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from karpenter.api import labels as names
from karpenter.api.conditions import INSTANCE_TERMINATING
from karpenter.api.core import Pod
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kube import Change, Recorder, Subject
from karpenter.kube.kinds import NODE_CLAIMS, NODE_POOLS, PODS
from karpenter.model.affinity import node_rules
from karpenter.model.pods import stands_for_buffer
from karpenter.model.pools import own_requirements
from karpenter.model.requirements import RequirementError
from karpenter.model.taints import tolerates_all
from karpenter.state import Cluster

__all__ = ["PoolProblems", "Topic", "could_serve", "sentence"]

# Longer than the slowest retry of any controller: what still fails is reported again before it is forgotten.
_REMEMBERED_S: Final = 300.0
_QUIET_S: Final = 300.0
# An event for each of a thousand pods would be a thousand writes; all of them wait for the same thing.
_MOST_PODS: Final = 20
_LONGEST: Final = 400


class Topic(StrEnum):
    """What does not work."""

    CREATE = "create"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class _Problem:
    message: str
    until: float


def sentence(error: Exception) -> str:
    """Return what an error says, with its hint."""
    if not isinstance(error, KarpenterError):
        return f"{type(error).__name__}: {error}"
    return f"{error.message}; {error.hint}" if error.hint else error.message


def could_serve(pool: NodePool, pod: Pod) -> bool:
    """Return whether a pool is meant for a pod: by its taints and its own labels, not by what EC2 offers."""
    try:
        requirements = own_requirements(pool)
    except RequirementError:
        return True
    return tolerates_all(pool.spec.template.spec.taints, pod.spec.tolerations) and any(
        requirements.compatible(term.requirements) for term in node_rules(pod).alternatives
    )


class PoolProblems:
    """The problems of all pools that stand."""

    def __init__(self, cluster: Cluster, recorder: Recorder, clock: Clock) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._clock = clock
        self._found: dict[str, dict[Topic, _Problem]] = {}
        # By pool and claim: why its instance cannot be ended. It counts towards the pool's limits until it is.
        self._unended: dict[str, dict[str, str]] = {}
        cluster.informers.claims.on_change(self._claim_changed)

    def report(
        self,
        pool: str,
        topic: Topic,
        reason: str,
        message: str,
        *,
        claim: NodeClaim | None = None,
        pods: Iterable[Pod] = (),
    ) -> None:
        """Tell a problem on everything that it concerns, and remember it.

        Args:
            pool: The NodePool's name.
            topic: What does not work.
            reason: The event's reason.
            message: What is wrong; the same words for the same problem, or events multiply.
            claim: The claim that it happened to, if it exists.
            pods: The pods that wait for it; the pods that the claim was nominated for are added.
        """
        message = message[:_LONGEST]
        self._found.setdefault(pool, {})[topic] = _Problem(message, self._clock.monotonic() + _REMEMBERED_S)
        self.tell_pool(pool, reason, message)
        waiting = list(pods)
        if claim is not None:
            self._tell(Subject.of(NODE_CLAIMS, claim), reason, message)
            uids = self._cluster.nominations.pods_of(claim.metadata.name)
            waiting += (pod for uid in uids for pod in self._cluster.informers.pods.by("uid", uid))
        self.tell_pods(pool, message, waiting)

    def tell_pods(self, pool: str, message: str, pods: Iterable[Pod]) -> None:
        """Tell pods which pool they wait for, and why."""
        waiting = (pod for pod in pods if not pod.spec.node_name and not stands_for_buffer(pod))
        for _, pod in zip(range(_MOST_PODS), waiting, strict=False):
            self._tell(Subject.of(PODS, pod), "FailedScheduling", f"NodePool {pool} makes no node: {message}")

    def tell_pool(self, pool: str, reason: str, message: str) -> None:
        """Tell something on a pool alone."""
        stored = self._cluster.informers.pools.get(pool)
        if stored is not None:
            self._tell(Subject.of(NODE_POOLS, stored), reason, message)

    def resolved(self, pool: str, topic: Topic) -> None:
        """Forget a problem: it works again."""
        found = self._found.get(pool, {})
        found.pop(topic, None)
        if not found:
            self._found.pop(pool, None)

    def about(self, pool: str) -> tuple[str, ...]:
        """Return what is wrong with a pool now, in the order in which it began; of refused terminations the first."""
        now = self._clock.monotonic()
        found = {topic: each for topic, each in self._found.get(pool, {}).items() if each.until > now}
        if found:
            self._found[pool] = found
        else:
            self._found.pop(pool, None)
        unended = self._unended.get(pool, {})
        more = f" (and {len(unended) - 1} others)" if len(unended) > 1 else ""
        first = tuple(f"{each}{more}" for each in tuple(unended.values())[:1])
        return (*(each.message for each in found.values()), *first)

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        claim = change.object
        pool, name = claim.metadata.labels.get(names.NODEPOOL, ""), claim.metadata.name
        found = next((each for each in claim.status.conditions if each.type == INSTANCE_TERMINATING), None)
        known = self._unended.get(pool, {})
        if change.new is None or found is None or found.status != "False":
            if known.pop(name, None) is not None and not known:
                del self._unended[pool]
            return
        message = f"cannot end NodeClaim {name}: {found.message}"[:_LONGEST]
        if known.get(name) != message:
            self._unended.setdefault(pool, {})[name] = message
            self.tell_pool(pool, found.reason, message)

    def _tell(self, subject: Subject, reason: str, message: str) -> None:
        self._recorder.tell(subject, reason, message, type="Warning", quiet_s=_QUIET_S)
