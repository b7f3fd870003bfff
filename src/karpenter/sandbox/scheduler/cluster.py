# SPDX-License-Identifier: Apache-2.0
"""What the scheduler knows: nodes, the pods on them, and counts that spare it from looking at every pod each time.

Counts are kept per node for every question that was asked once (how many pods does this term mean, how many does that
spread select) and are brought up to date as pods come and go, so that placing a pod costs as much as there are nodes,
not pods. Pods may come before their node does; they count as soon as it is there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from karpenter.sandbox.scheduler.amounts import PODS, Amounts, read_amounts
from karpenter.sandbox.scheduler.matching import Selector, Wire
from karpenter.sandbox.scheduler.pods import PodInfo, Port, Term
from karpenter.sandbox.scheduler.storage import Storage

__all__ = ["Cluster", "Counts", "NodeInfo", "SpreadQuestion", "TermsQuestion"]

Counts: TypeAlias = dict[str, int]
_K = TypeVar("_K")

# Questions are remembered; when there are more, the oldest are asked anew.
_MOST_QUESTIONS: Final = 4000
_NOTHING: Final[Mapping[str, str]] = {}
# Versions of nodes begin so far apart that no two nodes ever have the same.
_EPOCHS: Final = itertools.count(1)
_EPOCH_BITS: Final = 40


@dataclass(slots=True, eq=False)
class NodeInfo:
    """A node and what stands on it.

    Attributes:
        generation: Grows when labels, taints or the cordon change.
        version: Grows with every change, also of the pods on it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Wire, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = field(default_factory=dict)
    most_pods: int = 0
    generation: int = 0
    version: int = 0
    used: Amounts = field(default_factory=dict)
    scoring_cpu: int = 0
    scoring_memory: int = 0
    pods: dict[str, PodInfo] = field(default_factory=dict)
    ports: dict[Port, int] = field(default_factory=dict)

    def read(self, wire: Wire, generation: int) -> bool:
        """Takes over a node from the API; tells whether anything that matters changed."""
        spec, status = wire.get("spec") or {}, wire.get("status") or {}
        allocatable = read_amounts(status.get("allocatable") or status.get("capacity"))
        labels = wire["metadata"].get("labels") or {}
        taints = tuple(spec.get("taints") or ())
        cordoned = bool(spec.get("unschedulable"))
        static = (labels, taints, cordoned) != (self.labels, self.taints, self.unschedulable)
        changed = static or allocatable != self.allocatable
        if static or not self.generation:
            self.generation = generation
        self.labels, self.taints, self.unschedulable = labels, taints, cordoned
        self.allocatable, self.most_pods = allocatable, allocatable.get(PODS, 0)
        self.version += changed
        return changed

    def put(self, pod: PodInfo) -> None:
        """Counts a pod."""
        self.version += 1
        self.pods[pod.uid] = pod
        for name, amount in pod.shape.requests.items():
            self.used[name] = self.used.get(name, 0) + amount
        self.scoring_cpu += pod.shape.scoring[0]
        self.scoring_memory += pod.shape.scoring[1]
        for port in pod.shape.ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def take(self, pod: PodInfo) -> None:
        """Counts a pod no longer."""
        self.version += 1
        del self.pods[pod.uid]
        for name, amount in pod.shape.requests.items():
            self.used[name] -= amount
        self.scoring_cpu -= pod.shape.scoring[0]
        self.scoring_memory -= pod.shape.scoring[1]
        for port in pod.shape.ports:
            self.ports[port] -= 1
            if not self.ports[port]:
                del self.ports[port]


@dataclass(frozen=True, slots=True)
class TermsQuestion:
    """How many pods on each node do all these terms mean?"""

    terms: tuple[Term, ...]

    def counts(self, pod: PodInfo, namespace_labels: Mapping[str, str]) -> bool:
        """Tells whether a pod is one of them."""
        return all(each.means(pod.namespace, pod.labels, namespace_labels) for each in self.terms)


@dataclass(frozen=True, slots=True)
class SpreadQuestion:
    """How many pods on each node, which are not going away, does a spread constraint of this namespace select?"""

    namespace: str
    selector: Selector

    def counts(self, pod: PodInfo, _namespace_labels: Mapping[str, str]) -> bool:
        """Tells whether a pod is one of them."""
        return pod.namespace == self.namespace and not pod.terminating and self.selector.matches(pod.labels)


_Question: TypeAlias = TermsQuestion | SpreadQuestion


class Cluster:
    """Nodes, pods that have a node, pods that are promised one, and everything that placing depends on."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.order: list[NodeInfo] = []
        self.pods: dict[str, PodInfo] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.budgets: dict[tuple[str, str], Wire] = {}
        self.storage = Storage()
        self.nominated: dict[str, dict[str, PodInfo]] = {}
        self.keeping_apart: dict[Term, Counts] = {}
        self.wishing: dict[tuple[int, Term], Counts] = {}
        self.generation = 1
        # Grows when a node comes, goes, or changes its labels, taints or cordon.
        self.layout = next(_EPOCHS) << _EPOCH_BITS
        self._promised_to: dict[str, str] = {}
        self._homeless: dict[str, dict[str, PodInfo]] = {}
        self._answers: dict[_Question, Counts] = {}

    def touch(self) -> None:
        """Notes that something changed that may change where pods can go."""
        self.generation += 1

    # Nodes.

    def set_node(self, wire: Wire) -> bool:
        """Takes over a node; tells whether anything that matters changed."""
        name = wire["metadata"]["name"]
        node = self.nodes.get(name)
        self.generation += 1
        if node is not None:
            changed = node.read(wire, self.generation)
            self.layout += node.generation == self.generation
            # A node that only says that it lives changes no decision.
            self.generation -= not changed
            return changed
        node = self.nodes[name] = NodeInfo(name)
        node.read(wire, self.generation)
        self.layout += 1
        # A node of the same name may have been here before, or in another cluster, and shapes remember it.
        node.version = next(_EPOCHS) << _EPOCH_BITS
        self.order.append(node)
        for pod in self._homeless.pop(name, {}).values():
            self._settle(node, pod)
        return True

    def drop_node(self, name: str) -> None:
        """Forgets a node; pods that still name it wait for one of that name."""
        node = self.nodes.pop(name, None)
        if node is None:
            return
        self.generation += 1
        self.layout += 1
        self.order.remove(node)
        for pod in list(node.pods.values()):
            self._unsettle(node, pod)
            self._homeless.setdefault(name, {})[pod.uid] = pod

    # Pods.

    def set_pod(self, pod: PodInfo) -> None:
        """Takes over a pod that has a node; one that has ended counts no longer."""
        old = self.pods.get(pod.uid)
        if old is not None:
            if (old.shape, old.node, old.terminating) == (pod.shape, pod.node, pod.terminating) and (
                old.priority == pod.priority and not pod.terminal
            ):
                self._replace(old, pod)
                return
            self.drop_pod(pod.uid)
        if pod.terminal:
            return
        self.generation += 1
        self.pods[pod.uid] = pod
        node = self.nodes.get(pod.node)
        if node is None:
            self._homeless.setdefault(pod.node, {})[pod.uid] = pod
        else:
            self._settle(node, pod)

    def drop_pod(self, uid: str) -> PodInfo | None:
        """Forgets a pod and gives it; None if it was not there."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return None
        self.generation += 1
        node = self.nodes.get(pod.node)
        if node is not None:
            self._unsettle(node, pod)
        else:
            self._homeless.get(pod.node, {}).pop(uid, None)
        return pod

    def _replace(self, old: PodInfo, new: PodInfo) -> None:
        self.pods[new.uid] = new
        node = self.nodes.get(new.node)
        holder = node.pods if node is not None else self._homeless[old.node]
        holder[new.uid] = new

    def _settle(self, node: NodeInfo, pod: PodInfo) -> None:
        node.put(pod)
        self._tally(node.name, pod, 1)

    def _unsettle(self, node: NodeInfo, pod: PodInfo) -> None:
        node.take(pod)
        self._tally(node.name, pod, -1)

    # Promises.

    def promise(self, pod: PodInfo) -> None:
        """Notes that a pod without a node is nominated to one, or no longer is."""
        self.unpromise(pod.uid)
        if pod.nominated and not pod.node:
            self.generation += 1
            self.nominated.setdefault(pod.nominated, {})[pod.uid] = pod
            self._promised_to[pod.uid] = pod.nominated

    def unpromise(self, uid: str) -> None:
        """Forgets the nomination of a pod."""
        node = self._promised_to.pop(uid, None)
        if node is not None:
            self.generation += 1
            del self.nominated[node][uid]
            if not self.nominated[node]:
                del self.nominated[node]

    def promised(self, node: str, pod: PodInfo) -> tuple[PodInfo, ...]:
        """Gives the pods nominated to a node that take precedence over a pod or are its equals."""
        found = self.nominated.get(node)
        if not found:
            return ()
        return tuple(each for each in found.values() if each.uid != pod.uid and each.priority >= pod.priority)

    # Questions.

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Takes over a namespace's labels, or forgets it."""
        if self.namespaces.get(name) == labels:
            return
        self.generation += 1
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        self._answers.clear()

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Gives the labels of a namespace."""
        return self.namespaces.get(name, _NOTHING)

    def count(self, question: _Question) -> Counts:
        """Gives the number of pods per node; nodes with none may be missing."""
        found = self._answers.get(question)
        if found is None:
            if len(self._answers) >= _MOST_QUESTIONS:
                del self._answers[next(iter(self._answers))]
            found = self._answers[question] = {}
            for node, pod in self._standing():
                if question.counts(pod, self.namespace_labels(pod.namespace)):
                    found[node] = found.get(node, 0) + 1
        return found

    def _standing(self) -> Iterator[tuple[str, PodInfo]]:
        for node in self.order:
            for pod in node.pods.values():
                yield node.name, pod

    def _tally(self, node: str, pod: PodInfo, by: int) -> None:
        labels = self.namespace_labels(pod.namespace)
        for question, counts in self._answers.items():
            if question.counts(pod, labels):
                _change(counts, node, by)
        for term in pod.shape.apart:
            _tally_in(self.keeping_apart, term, node, by)
        for wish in pod.shape.wishes:
            _tally_in(self.wishing, wish, node, by)
        for term in pod.shape.near:
            # As the scheduler does by default: a required term of others is also a mild wish.
            _tally_in(self.wishing, (1, term), node, by)


def _tally_in(holder: dict[_K, Counts], key: _K, node: str, by: int) -> None:
    counts = holder.setdefault(key, {})
    _change(counts, node, by)
    if not counts:
        del holder[key]


def _change(counts: Counts, node: str, by: int) -> None:
    left = counts.get(node, 0) + by
    if left > 0:
        counts[node] = left
    else:
        counts.pop(node, None)
