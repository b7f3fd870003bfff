# SPDX-License-Identifier: Apache-2.0
"""May this pod go to that node? Kubernetes' filters in the order in which it asks them; the first refusal counts.

An `Attempt` is one pod against the cluster as it is at one moment. It can also be asked about a node from which some
pods are taken and to which others are added: that is how promised pods are counted and how preemption is tried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from karpenter.sandbox.scheduler.cluster import Cluster, Counts, NodeInfo, SpreadQuestion, TermsQuestion
from karpenter.sandbox.scheduler.matching import first_untolerated, tolerates
from karpenter.sandbox.scheduler.pods import PodInfo, Port, Shape, Spread, Term
from karpenter.sandbox.scheduler.scoring import roominess
from karpenter.sandbox.scheduler.storage import Demand

__all__ = ["AS_IT_IS", "Attempt", "Change", "Verdict"]

_Pair: TypeAlias = tuple[str, str]

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - a wildcard to compare with, nothing is opened
_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A refusal.

    Attributes:
        plugin: Who refuses, by Kubernetes' name.
        reasons: Why, in its words.
        unresolvable: Whether taking pods off the node could not help.
    """

    plugin: str
    reasons: tuple[str, ...]
    unresolvable: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """Pods to think added to a node, and pods to think away from it."""

    added: tuple[PodInfo, ...] = ()
    removed: tuple[PodInfo, ...] = ()

    def pods_on(self, node: NodeInfo) -> list[PodInfo]:
        """Gives the pods of the node after the change."""
        gone = {each.uid for each in self.removed}
        return [each for uid, each in node.pods.items() if uid not in gone] + list(self.added)

    def signed(self) -> Iterable[tuple[PodInfo, int]]:
        """Gives each pod with 1 if it comes and -1 if it goes."""
        for pod in self.added:
            yield pod, 1
        for pod in self.removed:
            yield pod, -1


AS_IT_IS: Final = Change()

_UNSCHEDULABLE: Final = Verdict("NodeUnschedulable", ("node(s) were unschedulable",))
_MISMATCH: Final = Verdict("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",))
_PORT_TAKEN: Final = Verdict(
    "NodePorts", ("node(s) didn't have free ports for the requested pod ports",), unresolvable=False
)
_SPREAD_LABEL: Final = Verdict(
    "PodTopologySpread",
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
)
_SPREAD: Final = Verdict(
    "PodTopologySpread", ("node(s) didn't match pod topology spread constraints",), unresolvable=False
)
_NEAR: Final = Verdict("InterPodAffinity", ("node(s) didn't match pod affinity rules",))
_APART: Final = Verdict(
    "InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",), unresolvable=False
)
_OTHERS_APART: Final = Verdict(
    "InterPodAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",), unresolvable=False
)


class Attempt:
    """One pod against the cluster.

    Attributes:
        refused: Why the pod can go nowhere at all, whatever the nodes; or None.
    """

    def __init__(self, cluster: Cluster, pod: PodInfo) -> None:
        self.cluster = cluster
        self.pod = pod
        self.refused: Verdict | None = None
        shape = pod.shape
        self._demand: Demand | None = None
        if shape.named_nodes is not None and not shape.named_nodes:
            self.refused = Verdict("NodeAffinity", ("pod affinity terms conflict",))
            return
        if shape.claims:
            demand = cluster.storage.demand(pod)
            if isinstance(demand, str):
                self.refused = Verdict("VolumeBinding", (demand,))
                return
            self._demand = demand
        self._eligible = _eligible(cluster, shape) if shape.spread else []
        self._domains = [
            _domains(cluster, shape, each, eligible)
            for each, eligible in zip(shape.spread, self._eligible, strict=True)
        ]
        self._others_apart = self._pairs_kept_apart()
        self._apart = [_pairs(cluster, (each,)) for each in shape.apart]
        self._near = _pairs(cluster, shape.near) if shape.near else {}
        self._apart_keys = {key for key, _ in self._others_apart}
        self._has_pod_rules = bool(self._others_apart or shape.near or shape.apart)
        self._asks_node_alone = not (shape.claims or shape.spread or self._has_pod_rules or cluster.nominated)

    def nodes(self) -> list[NodeInfo]:
        """Gives the nodes that need be looked at, all of them unless the pod names some."""
        named = self.pod.shape.named_nodes
        if named is None:
            return self.cluster.order
        return [self.cluster.nodes[name] for name in sorted(named) if name in self.cluster.nodes]

    def check(self, node: NodeInfo) -> Verdict | None:
        """Says why the pod may not go to a node, counting those that are promised it; None if it may."""
        if self._asks_node_alone:
            return self._alone(node)
        return self.check_with(node, AS_IT_IS)

    def _alone(self, node: NodeInfo) -> Verdict | None:
        """Says what a node as it is says by itself; remembered, for the next pod will ask the same."""
        shape = self.pod.shape
        known = shape.memory.get(node.name)
        if known is None or known[0] != node.version:
            verdict = _static(shape, node) or _local(shape, node, AS_IT_IS)
            known = shape.memory[node.name] = (node.version, verdict, roominess(shape, node))
        found: Verdict | None = known[1]
        return found

    def check_with(self, node: NodeInfo, change: Change) -> Verdict | None:
        """Says the same for a node that is thought changed."""
        promised = self.cluster.promised(node.name, self.pod) if self.cluster.nominated else ()
        if promised:
            # Kubernetes asks twice: promised pods may go elsewhere, so what only holds beside them is not enough.
            verdict = self._run(node, Change((*change.added, *promised), change.removed))
            if verdict is not None:
                return verdict
        return self._run(node, change)

    def _run(self, node: NodeInfo, change: Change) -> Verdict | None:
        shape = self.pod.shape
        verdict = self._alone(node)
        if change is not AS_IT_IS:
            verdict = _static(shape, node) or _local(shape, node, change)
        if verdict is not None:
            return verdict
        if self._demand is not None:
            verdict = self._volumes(node, change, self._demand)
            if verdict is not None:
                return verdict
        if shape.spread:
            verdict = self._spread(node, change)
            if verdict is not None:
                return verdict
        if self._has_pod_rules or change is not AS_IT_IS:
            return self._pods(node, change)
        return None

    def _volumes(self, node: NodeInfo, change: Change, demand: Demand) -> Verdict | None:
        trouble = self.cluster.storage.check(self.pod, demand, node.name, node.labels, change.pods_on(node))
        if trouble is None:
            return None
        return Verdict("VolumeBinding", trouble.reasons, unresolvable=trouble.unresolvable)

    def _spread(self, node: NodeInfo, change: Change) -> Verdict | None:
        constraints = self.pod.shape.spread
        for constraint, domains in zip(constraints, self._domains, strict=True):
            value = node.labels.get(constraint.key)
            if value is None:
                return _SPREAD_LABEL
            fewest, here = domains.fewest, domains.counts.get(value, 0)
            moved = self._moved(node, change, constraint) if change is not AS_IT_IS else 0
            if moved:
                counts = {**domains.counts, value: here + moved}
                here, fewest = here + moved, min(counts.values())
            if len(domains.counts) < constraint.min_domains:
                fewest = 0
            if here + constraint.selects_itself - fewest > constraint.max_skew:
                return _SPREAD
        return None

    def _moved(self, node: NodeInfo, change: Change, constraint: Spread) -> int:
        shape = self.pod.shape
        if not _counts_for(shape, node, constraint):
            return 0
        return sum(
            sign
            for pod, sign in change.signed()
            if pod.namespace == shape.namespace and constraint.selector.matches(pod.labels)
        )

    def _pods(self, node: NodeInfo, change: Change) -> Verdict | None:
        near, apart, others = self._near, self._apart, self._others_apart
        if change is not AS_IT_IS:
            near, apart, others = self._pairs_after(node, change)
        if not self._is_near(node, near):
            return _NEAR
        for term, pairs in zip(self.pod.shape.apart, apart, strict=True):
            if pairs.get((term.key, node.labels.get(term.key, "")), 0) > 0:
                return _APART
        keys = self._apart_keys if change is AS_IT_IS else {key for key, _ in others}
        if any(others.get((key, node.labels.get(key, "")), 0) > 0 for key in keys):
            return _OTHERS_APART
        return None

    def _is_near(self, node: NodeInfo, pairs: Mapping[_Pair, int]) -> bool:
        terms = self.pod.shape.near
        found = True
        for term in terms:
            value = node.labels.get(term.key)
            if value is None:
                return False
            if pairs.get((term.key, value), 0) <= 0:
                found = False
        # The first of a group that wants to be together has nobody to join.
        return found or (not pairs and self._means_itself(terms))

    def _means_itself(self, terms: Iterable[Term]) -> bool:
        return all(self._means(each, self.pod) for each in terms)

    def _means(self, term: Term, pod: PodInfo) -> bool:
        return term.means(pod.namespace, pod.labels, self.cluster.namespace_labels(pod.namespace))

    def _pairs_kept_apart(self) -> dict[_Pair, int]:
        found: dict[_Pair, int] = {}
        for term, counts in self.cluster.keeping_apart.items():
            if self._means(term, self.pod):
                _add_pairs(self.cluster, found, term.key, counts)
        return found

    def _pairs_after(
        self, node: NodeInfo, change: Change
    ) -> tuple[dict[_Pair, int], list[dict[_Pair, int]], dict[_Pair, int]]:
        near, others = dict(self._near), dict(self._others_apart)
        apart = [dict(each) for each in self._apart]
        shape = self.pod.shape
        for pod, sign in change.signed():
            for term in pod.shape.apart:
                if self._means(term, self.pod):
                    _bump(others, node, term.key, sign)
            if shape.near and all(self._means(term, pod) for term in shape.near):
                for term in shape.near:
                    _bump(near, node, term.key, sign)
            for term, pairs in zip(shape.apart, apart, strict=True):
                if self._means(term, pod):
                    _bump(pairs, node, term.key, sign)
        return near, apart, others


@dataclass(slots=True)
class _Domains:
    counts: dict[str, int]
    fewest: int


def _static(shape: Shape, node: NodeInfo) -> Verdict | None:
    if node.unschedulable and not tolerates(shape.tolerations, _CORDON):
        return _UNSCHEDULABLE
    taint = first_untolerated(node.taints, shape.tolerations)
    if taint is not None:
        words = f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
        return Verdict("TaintToleration", (words,))
    if shape.matches_node is not None and not shape.matches_node(node.name, node.labels):
        return _MISMATCH
    return None


def _local(shape: Shape, node: NodeInfo, change: Change) -> Verdict | None:
    if shape.ports and _ports_taken(shape.ports, node, change):
        return _PORT_TAKEN
    return _resources(shape, node, change)


def _ports_taken(wanted: Iterable[Port], node: NodeInfo, change: Change) -> bool:
    taken: Iterable[Port] = node.ports
    if change is not AS_IT_IS:
        taken = [port for pod in change.pods_on(node) for port in pod.shape.ports]
    return any(
        (number, protocol) == (other_number, other_protocol)
        and (address == other_address or _ANY_ADDRESS in (address, other_address))
        for address, protocol, number in wanted
        for other_address, other_protocol, other_number in taken
    )


def _resources(shape: Shape, node: NodeInfo, change: Change) -> Verdict | None:
    used, count = node.used, len(node.pods)
    if change is not AS_IT_IS:
        used = dict(used)
        for pod, sign in change.signed():
            count += sign
            for name, amount in pod.shape.requests.items():
                used[name] = used.get(name, 0) + sign * amount
    allocatable = node.allocatable
    if count < node.most_pods:
        for name, amount in shape.asked:
            if amount > allocatable.get(name, 0) - used.get(name, 0):
                break
        else:
            return None
    reasons = ["Too many pods"] if count + 1 > node.most_pods else []
    hopeless = False
    for name, amount in shape.asked:
        if amount > allocatable.get(name, 0) - used.get(name, 0):
            reasons.append(f"Insufficient {name}")
            hopeless |= amount > allocatable.get(name, 0)
    return Verdict("NodeResourcesFit", tuple(reasons), unresolvable=hopeless)


def _counts_for(shape: Shape, node: NodeInfo, constraint: Spread) -> bool:
    """Tells whether pods on a node count for a constraint: it has all keys, and the policies let it in."""
    if any(each.key not in node.labels for each in shape.spread):
        return False
    if (
        constraint.honors_affinity
        and shape.matches_node is not None
        and not shape.matches_node(node.name, node.labels)
    ):
        return False
    return not (constraint.honors_taints and first_untolerated(node.taints, shape.tolerations))


def _eligible(cluster: Cluster, shape: Shape) -> list[dict[str, str]]:
    """Gives for each constraint the nodes that count, with their value of its key."""
    known, found = shape.layout
    if known != cluster.layout:
        found = [
            {node.name: node.labels[each.key] for node in cluster.order if _counts_for(shape, node, each)}
            for each in shape.spread
        ]
        shape.layout = cluster.layout, found
    eligible: list[dict[str, str]] = found
    return eligible


def _domains(cluster: Cluster, shape: Shape, constraint: Spread, eligible: Mapping[str, str]) -> _Domains:
    counts = dict.fromkeys(eligible.values(), 0)
    # Kubernetes counts no pods for a selector that says nothing.
    if not constraint.selector.is_empty:
        for name, count in cluster.count(SpreadQuestion(shape.namespace, constraint.selector)).items():
            value = eligible.get(name)
            if value is not None:
                counts[value] += count
    return _Domains(counts, min(counts.values(), default=0))


def _pairs(cluster: Cluster, terms: tuple[Term, ...]) -> dict[_Pair, int]:
    found: dict[_Pair, int] = {}
    counts = cluster.count(TermsQuestion(terms))
    for term in terms:
        _add_pairs(cluster, found, term.key, counts)
    return found


def _add_pairs(cluster: Cluster, pairs: dict[_Pair, int], key: str, counts: Counts) -> None:
    for name, count in counts.items():
        value = cluster.nodes[name].labels.get(key)
        if value is not None:
            pairs[key, value] = pairs.get((key, value), 0) + count


def _bump(pairs: dict[_Pair, int], node: NodeInfo, key: str, by: int) -> None:
    value = node.labels.get(key)
    if value is not None:
        left = pairs.get((key, value), 0) + by
        if left:
            pairs[key, value] = left
        else:
            pairs.pop((key, value), None)
