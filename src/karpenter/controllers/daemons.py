# SPDX-License-Identifier: Apache-2.0
"""Says why a pod of a DaemonSet waits: it belongs to one node, so no new node helps, and nobody else explains it.

A pod for a Fargate node never runs there; the words name the affinity that keeps its DaemonSet off. On any other node
they say what the node lacks, and how to have a node of ours replaced by one with room for the DaemonSet. Nothing is
provisioned, moved or deleted for such pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from karpenter.api.core import Node, Pod
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Recorder, Subject
from karpenter.kube.kinds import DAEMON_SETS, PODS
from karpenter.model.pods import is_daemon, is_terminal, is_terminating
from karpenter.model.resources import Resources, pod_requests, total
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster

__all__ = ["DaemonHints", "Hint", "hint", "meant_for"]

_COMPUTE_TYPE: Final = "eks.amazonaws.com/compute-type"
_FARGATE: Final = "fargate"
_ON_FARGATE: Final = "DaemonSetOnFargate"
_FAILED: Final = "FailedScheduling"
# Kubernetes needs a moment to bind a pod that fits; who waits longer is told, and told again when this has passed.
_SETTLE_S: Final = 5.0
_LOOK_AGAIN_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Hint:
    """Why a pod waits and what to do: one word and a sentence."""

    reason: str
    message: str


def meant_for(pod: Pod) -> str:
    """Gives the name of the node that a DaemonSet's pod was made for; empty if it does not say."""
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    required = node.required if node is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""


def hint(pod: Pod, node: Node, others: Iterable[Pod], claim: str = "") -> Hint | None:
    """Gives why a DaemonSet's pod does not start on its node; None if nothing is seen that forbids it.

    Args:
        pod: The pod.
        node: The node that it was made for.
        others: The pods on that node.
        claim: The NodeClaim of the node; empty if it is not ours.
    """
    name = node.metadata.name
    if node.metadata.labels.get(_COMPUTE_TYPE) == _FARGATE:
        return Hint(
            _ON_FARGATE,
            f"pods of DaemonSets do not run on the Fargate node {name}; keep this one off with the node affinity"
            f" {_COMPUTE_TYPE} NotIn [{_FARGATE}]",
        )
    taken = total(pod_requests(each) for each in others if not is_terminal(each))
    room = Resources.parse(node.status.allocatable) - taken
    asked = pod_requests(pod)
    lacking = [
        f"{resource}: {_shown(resource, amount)} asked, {_shown(resource, max(room.get(resource, 0), 0))} free"
        for resource, amount in asked.items()
        if amount > room.get(resource, 0)
    ]
    if not lacking:
        return None
    cure = (
        f"`kubectl delete nodeclaim {claim}` has it replaced by one with room for the DaemonSet"
        if claim
        else "the node is not ours; make room on it, or keep the DaemonSet off"
    )
    return Hint(_FAILED, f"node {name} lacks {'; '.join(lacking)}; {cure}")


class DaemonHints:
    """Tells pods of DaemonSets why they wait; ``run`` must be kept running by a supervisor."""

    def __init__(self, *, cluster: Cluster, recorder: Recorder, metrics: Metrics, clock: Clock) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._log = get_log("daemonset.hints")
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, workers=1, on_error=reporting(self._log, metrics, "daemonset.hints", "Pod")
        )
        cluster.informers.pods.on_change(self._pod_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    async def reconcile(self, key: str) -> float | None:
        """Tells one pod, and says when to look at it again."""
        namespace, _, name = key.partition("/")
        pod = self._cluster.informers.pods.get(name, namespace)
        node = self._cluster.informers.nodes.get(meant_for(pod)) if pod is not None else None
        if pod is None or node is None or not _waits(pod):
            self._queue.forget(key)
            return None
        claims = self._cluster.informers.claims.by("provider_id", node.spec.provider_id)
        claim = claims[0].metadata.name if node.spec.provider_id and claims else ""
        found = hint(pod, node, self._cluster.pods_on(node.metadata.name), claim)
        if found is not None:
            self._tell(pod, found)
        return _LOOK_AGAIN_S

    def _tell(self, pod: Pod, found: Hint) -> None:
        self._recorder.tell(
            Subject.of(PODS, pod), found.reason, found.message, type="Warning", quiet_s=_LOOK_AGAIN_S
        )
        if found.reason != _ON_FARGATE:
            return
        for owner in pod.metadata.owner_references:
            daemon_set = self._cluster.informers.daemon_sets.get(owner.name, pod.metadata.namespace)
            if owner.kind == DAEMON_SETS.name and daemon_set is not None:
                self._recorder.tell(
                    Subject.of(DAEMON_SETS, daemon_set),
                    found.reason,
                    "its pods wait on Fargate nodes, where DaemonSets do not run; add the node affinity"
                    f" {_COMPUTE_TYPE} NotIn [{_FARGATE}]",
                    type="Warning",
                    quiet_s=_LOOK_AGAIN_S,
                )

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is not None and is_daemon(pod) and _waits(pod):
            self._queue.add_after(f"{pod.metadata.namespace}/{pod.metadata.name}", _SETTLE_S)


def _waits(pod: Pod) -> bool:
    unschedulable = any(
        each.type == "PodScheduled" and each.reason == "Unschedulable" for each in pod.status.conditions
    )
    return unschedulable and not pod.spec.node_name and not is_terminating(pod) and not is_terminal(pod)


def _shown(resource: str, amount: int) -> str:
    return Resources({resource: amount}).to_quantities().get(resource, "0")
