# SPDX-License-Identifier: Apache-2.0
"""Whether anything has changed that a decision about nodes could depend on: a number that goes up when it has.

Kubelets report every few seconds and write the same again; none of that counts. What counts of a node is where pods
may go and whether it is ready, of a claim its conditions and its fate, of a pod where it is, what it asks for and
whether it may be moved, of a disruption budget what it allows. A quiet cluster keeps its number, so whoever has found
nothing to do at a number need not look again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from karpenter.api import labels as names
from karpenter.api.base import Frozen
from karpenter.api.conditions import READY, is_true
from karpenter.api.core import Node, Pod, PodDisruptionBudget
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kube import Change, Informer
from karpenter.model.pods import is_daemon, is_mirror, is_terminal
from karpenter.state.informers import Informers, Stored

__all__ = ["ChangeStamp"]

T = TypeVar("T", bound=Frozen)

_CLAIM_ANNOTATIONS: Final = (names.DO_NOT_DISRUPT, names.NODEPOOL_HASH)
_POD_ANNOTATIONS: Final = (names.DO_NOT_DISRUPT, names.POD_DELETION_COST)


class ChangeStamp:
    """Counts changes that matter; listeners hear of each."""

    def __init__(self, informers: Informers) -> None:
        self.value = 0
        self._listeners: list[Callable[[], None]] = []
        self._follow(informers.nodes, _of_node)
        self._follow(informers.claims, _of_claim)
        self._follow(informers.pods, _of_pod)
        self._follow(informers.budgets, _of_budget)
        self._follow(informers.pools, _of_stored)
        self._follow(informers.classes, _of_stored)
        self._follow(informers.daemon_sets, lambda each: each.metadata.generation)

    def listen(self, listener: Callable[[], None]) -> None:
        """Adds a listener; it is called after each change and must be quick."""
        self._listeners.append(listener)

    def bump(self) -> None:
        """Counts a change that no informer sees, such as other prices."""
        self.value += 1
        for listener in self._listeners:
            listener()

    def _follow(self, informer: Informer[T], essence: Callable[[T], object]) -> None:
        def heard(change: Change[T]) -> None:
            old = essence(change.old) if change.old is not None else None
            new = essence(change.new) if change.new is not None else None
            if old != new:
                self.bump()

        informer.on_change(heard)


def _of_node(node: Node) -> object:
    return (
        node.metadata.labels,
        node.metadata.deletion_timestamp is None,
        node.metadata.annotations.get(names.DO_NOT_DISRUPT),
        tuple(taint for taint in node.spec.taints if taint.key != names.DISRUPTED_LATER_TAINT.key),
        node.spec.unschedulable,
        node.status.allocatable,
        is_true(node.status.conditions, READY),
    )


def _of_claim(claim: NodeClaim) -> object:
    return (
        claim.metadata.labels,
        tuple(claim.metadata.annotations.get(key) for key in _CLAIM_ANNOTATIONS),
        claim.metadata.deletion_timestamp is None,
        claim.status.provider_id,
        tuple((each.type, each.status, each.reason) for each in claim.status.conditions),
    )


def _of_pod(pod: Pod) -> object:
    if is_terminal(pod) or is_daemon(pod) or is_mirror(pod):
        return None
    return (
        pod.spec.node_name,
        pod.metadata.labels,
        pod.metadata.deletion_timestamp is None,
        pod.spec.containers,
        tuple(pod.metadata.annotations.get(key) for key in _POD_ANNOTATIONS),
        any(each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions),
    )


def _of_budget(budget: PodDisruptionBudget) -> object:
    return budget.spec, budget.status.disruptions_allowed


def _of_stored(item: Stored) -> object:
    conditions = item.status.get("conditions", ())
    return (
        item.metadata.generation,
        item.metadata.annotations,
        item.metadata.deletion_timestamp is None,
        tuple((each.get("type"), each.get("status")) for each in conditions),
    )
