# SPDX-License-Identifier: Apache-2.0
"""A model of Karpenter's consolidation: emptiness, then a prefix of up to 100 nodes, then one node after the other.

Written from what Karpenter does, not from its code. One command a round: nodes are deleted if their pods fit on others,
or replaced by one node that is cheaper in the worst case. It has no time limits for computing, which favours it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from benchmarks.consolidation.cluster import Cluster, Node, Pod
from karpenter.consolidation.search.copy import Copy
from karpenter.model.catalogue import bits, lowest_bit

__all__ = ["Command", "GoModel"]

_MOST_NODES = 100
_SPOT_TYPES = 15
_APPROVED = 0.5
_SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes that go, by number; what is bought before, if anything; and where the pods of the model go."""

    remove: tuple[int, ...]
    launch: int
    targets: dict[int, int]


class GoModel:
    """Finds the next command.

    Attributes:
        balanced: Whether moves must also be worth their evictions, as the policy Balanced has it.
    """

    def __init__(self, cluster: Cluster, *, balanced: bool = False, budget: float = 0.1) -> None:
        self._cluster = cluster
        self.balanced = balanced
        self._budget = budget

    def next(self, leaving: int = 0) -> Command | None:
        """Return the next command; None if there is nothing to do, or so many nodes are leaving that none may."""
        cluster = self._cluster
        allowed = ceil(self._budget * (len(cluster.nodes) + leaving)) - leaving
        if allowed <= 0:
            return None
        empty = [node.number for node in cluster.nodes.values() if not node.pods]
        if empty:
            return Command(tuple(empty[:allowed]), -1, {})
        candidates = [node for node in cluster.nodes.values() if not cluster.is_pinned(node)]
        candidates.sort(key=lambda node: (-self._price((node,)) / self._disruption((node,)), node.number))
        terrain, numbers = cluster.terrain()
        self._copy = Copy(terrain)
        self._hosts = {number: host for host, number in enumerate(numbers)}
        self._numbers = numbers
        return self._many(candidates[: min(allowed, _MOST_NODES)]) or self._one(candidates)

    def _price(self, nodes: Sequence[Node]) -> float:
        return sum(self._cluster.prices[node.position] for node in nodes)

    def _disruption(self, nodes: Sequence[Node]) -> float:
        weights = [
            self._cluster.workloads[pod.workload].weight for node in nodes for pod in node.pods.values()
        ]
        return len(nodes) + sum(weights)

    def _many(self, candidates: Sequence[Node]) -> Command | None:
        """Look for the longest prefix that can go, by halves."""
        low, high = 1, len(candidates) - 1
        best: Command | None = None
        while low <= high:
            middle = (low + high) // 2
            found = self._compute(candidates[: middle + 1])
            if found is not None:
                best = found
                low = middle + 1
            else:
                high = middle - 1
        return best

    def _one(self, candidates: Sequence[Node]) -> Command | None:
        for node in candidates:
            found = self._compute((node,))
            if found is not None:
                return found
        return None

    def _compute(self, nodes: Sequence[Node]) -> Command | None:
        """Return the command that removes the nodes; None if it does not pay."""
        mark = self._copy.mark()
        try:
            placed = self._simulate(nodes)
        finally:
            self._copy.take_back(mark)
        if placed is None:
            return None
        targets, mask, waiting = placed
        price = self._price(nodes)
        if not waiting:
            return self._approved(Command(tuple(node.number for node in nodes), -1, targets), nodes, price)
        launch = self._cheaper(mask, price, nodes)
        if launch < 0:
            return None
        saving = price - self._cluster.prices[launch]
        targets.update(dict.fromkeys((pod.uid for pod in waiting), -1))
        return self._approved(Command(tuple(node.number for node in nodes), launch, targets), nodes, saving)

    def _simulate(self, nodes: Sequence[Node]) -> tuple[dict[int, int], int, list[Pod]] | None:
        """Place the pods of some nodes as Karpenter does; None if they need more than one new node."""
        cluster, copy = self._cluster, self._copy
        gone = 0
        for node in nodes:
            gone |= 1 << self._hosts[node.number]
        pods = [pod for node in nodes for pod in node.pods.values()]
        pods.sort(key=lambda pod: (*(-a for a in cluster.workloads[pod.workload].size), pod.uid))
        targets: dict[int, int] = {}
        waiting: list[Pod] = []
        mask = cluster.market.catalogue.everything
        used: tuple[int, ...] = (0, 0, 0)
        for pod in pods:
            workload = cluster.workloads[pod.workload]
            host = lowest_bit(copy.having_room(pod.workload) & ~gone)
            if host >= 0:
                copy.put(host, pod.workload, 1)
                targets[pod.uid] = self._numbers[host]
                continue
            used = tuple(a + b for a, b in zip(used, workload.size, strict=True))
            mask &= cluster.allowed[pod.workload] & cluster.market.holding(used)
            if not mask or (workload.apart and any(pod.workload == other.workload for other in waiting)):
                return None
            waiting.append(pod)
        return targets, mask, waiting

    def _cheaper(self, mask: int, price: float, nodes: Sequence[Node]) -> int:
        """Return the offering to buy: of types that are cheaper even at their worst; -1 if there is none."""
        cluster = self._cluster
        catalogue = cluster.market.catalogue
        spot = catalogue.values("karpenter.sh/capacity-type")[_SPOT]
        if mask & spot:
            mask &= spot
        worst: dict[int, float] = {}
        for position in bits(mask):
            kind = catalogue.type_of[position]
            worst[kind] = max(worst.get(kind, 0.0), cluster.prices[position])
        cheap = {kind for kind, dearest in worst.items() if dearest < price}
        removed: dict[int, float] = {}
        for node in nodes:
            kind = catalogue.type_of[node.position]
            removed[kind] = min(removed.get(kind, float("inf")), cluster.prices[node.position])
        # No same-for-same: if a type that goes could come, what comes must be cheaper than the cheapest of it.
        ceiling = min((removed[kind] for kind in cheap if kind in removed), default=float("inf"))
        if len(nodes) > 1 and ceiling < float("inf"):
            cheap = {kind for kind in cheap if worst[kind] < ceiling}
        all_spot = all(catalogue.offerings[node.position].capacity_type == _SPOT for node in nodes)
        if len(nodes) == 1 and all_spot and mask & spot and len(cheap) < _SPOT_TYPES:
            return -1
        usable = [position for position in bits(mask) if catalogue.type_of[position] in cheap]
        return min(usable, key=lambda position: (cluster.prices[position], position), default=-1)

    def _approved(self, command: Command, nodes: Sequence[Node], saving: float) -> Command | None:
        if not self.balanced:
            return command
        everyone = list(self._cluster.nodes.values())
        gain = saving / self._price(everyone)
        pain = self._disruption(nodes) / self._disruption(everyone)
        return command if gain / pain >= _APPROVED else None
