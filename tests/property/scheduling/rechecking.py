# SPDX-License-Identifier: Apache-2.0
"""Rechecks reasons by brute force: makes every node that a pool could make and asks what a reason says of each.

Nothing of the product's way is used: no sets of offerings, no counts by place. A constraint is judged from the API
objects in the plain words of ``tests.checker``. Passed over are constraints about values to keep open, which speak of
many offerings at once, and those about spread: which places count there is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from karpenter.api.core import NodeSelectorTerm, Pod, Taint
from karpenter.api.labels import HOSTNAME, stable_name
from karpenter.model.catalogue import Catalogue
from karpenter.model.pools import Pool
from karpenter.model.requirements import Requirements
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.scheduling import Cause
from karpenter.scheduling.reasons import Constraint, Reason
from tests.checker.amounts import sum_amounts
from tests.checker.matching import (
    affinity_terms,
    allows,
    anti_affinity_terms,
    node_suits,
    repelling_taints,
    term_holds,
)
from tests.checker.ports import clash
from tests.checker.storage import unreachable
from tests.checker.world import PossibleNode, possible_nodes

__all__ = ["Recheck"]

JUDGED = frozenset(
    {
        Cause.TAINT,
        Cause.REQUIREMENT,
        Cause.UNDEFINED_LABEL,
        Cause.VOLUME_REACH,
        Cause.RESOURCES,
        Cause.HOST_PORT,
        Cause.POOL_REQUIREMENT,
        Cause.SOLD_OUT,
        Cause.LIMIT,
        Cause.AFFINITY,
        Cause.ANTI_AFFINITY,
    }
)


class Recheck:
    """One pod before one pool of a cluster as it is after a plan was carried out."""

    def __init__(self, after: Snapshot, pool: str, pod: Pod) -> None:
        self._after = after
        self._pod = pod
        self._pool = next(each for each in after.pools if each.name == pool)
        self._nodes = list(possible_nodes(_wide(self._pool), (pod,)))
        self._terms = list(_terms(pod))

    def can_judge(self, reason: Reason) -> bool:
        """Tell whether nodes can be made and the reason can be told apart from others.

        Nodes cannot be made where the pool asks for a label of which no value is known. Terms of anti-affinity
        over the same label cannot be told apart by what a reason says of them.
        """
        terms = [term.key for term in anti_affinity_terms(self._pod, self._after.namespaces)]
        return bool(self._nodes) and all(
            each.cause in JUDGED
            and each.subject != "node affinity"
            and (each.cause is not Cause.ANTI_AFFINITY or terms.count(each.subject) < 2)
            for each in reason.constraints
        )

    def is_true(self, reason: Reason) -> bool:
        """Tell whether no node, for no alternative of the pod, meets everything that the reason names."""
        return not self._some_node_meets(reason.constraints)

    def spare(self, reason: Reason) -> list[Constraint]:
        """Give the constraints without which the reason would still exclude everything: none, if it is minimal."""
        return [
            each
            for each in reason.constraints
            if not self._some_node_meets([other for other in reason.constraints if other is not each])
        ]

    def _some_node_meets(self, constraints: Iterable[Constraint]) -> bool:
        named = list(constraints)
        return any(
            all(self._meets(each, node, term) for each in named)
            for node in self._nodes
            for term in self._terms
        )

    def _meets(self, constraint: Constraint, node: PossibleNode, term: NodeSelectorTerm | None) -> bool:
        subject, labels = constraint.subject, node.labels
        ways: dict[Cause, Callable[[], bool]] = {
            Cause.TAINT: lambda: subject not in map(_written, repelling_taints(self._pool.taints, self._pod)),
            Cause.REQUIREMENT: lambda: self._label_suits(subject, labels, term),
            Cause.UNDEFINED_LABEL: lambda: self._label_suits(subject, labels, term),
            Cause.POOL_REQUIREMENT: lambda: allows(self._pool.requirements[subject], labels.get(subject)),
            Cause.VOLUME_REACH: lambda: not unreachable(self._pod, labels, self._after.storage),
            Cause.RESOURCES: lambda: self._fits(subject, node),
            Cause.HOST_PORT: lambda: not any(clash(self._pod, daemon) for daemon in self._daemons(node)),
            Cause.SOLD_OUT: lambda: self._for_sale(node),
            Cause.LIMIT: lambda: self._affordable(subject, node),
            Cause.AFFINITY: lambda: self._stands_with(subject, labels),
            Cause.ANTI_AFFINITY: lambda: self._stands_apart(subject, labels, own=bool(constraint.wanted)),
        }
        return ways[constraint.cause]()

    def _fits(self, resource: str, node: PossibleNode) -> bool:
        taken = sum_amounts([self._pod, *self._daemons(node)])
        return taken.get(resource, 0) <= node.kind.allocatable.get(resource, 0)

    def _affordable(self, resource: str, node: PossibleNode) -> bool:
        amount = 1 if resource == "nodes" else node.kind.capacity.get(resource, 0)
        return amount <= self._pool.limits[resource]

    def _label_suits(self, key: str, labels: Mapping[str, str], term: NodeSelectorTerm | None) -> bool:
        """Tell whether a node meets what the nodeSelector and one term say of one label."""
        selected = {
            name: value for name, value in self._pod.spec.node_selector.items() if stable_name(name) == key
        }
        expressions = (
            () if term is None else tuple(e for e in term.match_expressions if stable_name(e.key) == key)
        )
        fields = () if term is None else tuple(e for e in term.match_fields if e.key == key)
        only = NodeSelectorTerm(match_expressions=expressions, match_fields=fields)
        return all(labels.get(name) == value for name, value in selected.items()) and (
            only == NodeSelectorTerm() or term_holds(only, labels, "")
        )

    def _daemons(self, node: PossibleNode) -> list[Pod]:
        return [
            daemon
            for daemon in self._after.daemons
            if node_suits(daemon, node.labels, "") and not repelling_taints(self._pool.taints, daemon)
        ]

    def _for_sale(self, node: PossibleNode) -> bool:
        real = next(kind for kind in self._pool.catalogue.types if kind.name == node.kind.name)
        for offering in real.offerings:
            if replace(offering, available=True) == node.offering:
                booked = bool(offering.reservation_id)
                return offering.available and (not booked or offering.reservation_capacity > 0)
        raise AssertionError(f"{node.kind.name} is not sold like that")

    def _stands_with(self, key: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the pods that it must stand with are in the place, or it may found their group."""
        terms = affinity_terms(self._pod, self._after.namespaces)
        targets = [
            (standing.labels, other)
            for standing in self._after.nodes
            for other in _staying(standing)
            if all(term.counts(other) for term in terms)
        ]
        founds = all(term.counts(self._pod) for term in terms) and not targets
        if stable_name(key) == HOSTNAME:
            return founds
        if key not in labels:
            return False
        return founds or any(where.get(key) == labels[key] for where, _ in targets)

    def _stands_apart(self, key: str, labels: Mapping[str, str], *, own: bool) -> bool:
        """Tell whether nobody whom it keeps away from (or else: who keeps away from it) is in the place."""
        namespaces = self._after.namespaces
        mine = [term for term in anti_affinity_terms(self._pod, namespaces) if term.key == key]
        for standing in self._after.nodes:
            if key not in labels or standing.labels.get(key) != labels[key]:
                continue
            for other in _staying(standing):
                theirs = [term for term in anti_affinity_terms(other, namespaces) if term.key == key]
                if (
                    any(term.counts(other) for term in mine)
                    if own
                    else any(term.counts(self._pod) for term in theirs)
                ):
                    return False
        return True


def _staying(standing: NodeView) -> Iterator[Pod]:
    """Give the pods that count: not those over or on their way out."""
    for pod in standing.pods:
        if pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed"):
            yield pod


def _wide(pool: Pool) -> Pool:
    """Give the pool as if it asked for nothing of the instance type and everything were for sale."""
    kinds = [
        replace(kind, offerings=tuple(replace(each, available=True) for each in kind.offerings))
        for kind in pool.catalogue.types
    ]
    own = Requirements(each for each in pool.requirements if not pool.catalogue.knows(each.key))
    return replace(pool, catalogue=Catalogue(kinds), requirements=own)


def _terms(pod: Pod) -> Iterator[NodeSelectorTerm | None]:
    node_affinity = None if pod.spec.affinity is None else pod.spec.affinity.node_affinity
    if node_affinity is None or node_affinity.required is None:
        yield None
        return
    for term in node_affinity.required.node_selector_terms:
        if term != NodeSelectorTerm():
            yield term


def _written(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
