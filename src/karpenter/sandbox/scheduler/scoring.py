# SPDX-License-Identifier: Apache-2.0
"""Which of the nodes that fit is best: roughly as Kubernetes' default scores weigh it.

Counted are room left over (1), evenness of cpu and memory (1), preferred node affinity (2), taints that only discourage
(3), soft topology spread (2) and preferred inter-pod rules (2), each brought to 0..100. Images are not looked at. Ties
are the caller's to break.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from karpenter.sandbox.scheduler.amounts import CPU, MEMORY
from karpenter.sandbox.scheduler.cluster import Cluster, Counts, NodeInfo, SpreadQuestion, TermsQuestion
from karpenter.sandbox.scheduler.matching import node_term_matches, tolerates
from karpenter.sandbox.scheduler.pods import PodInfo, Shape

__all__ = ["roominess", "scores"]


def scores(cluster: Cluster, pod: PodInfo, nodes: Sequence[NodeInfo]) -> list[float]:
    """Gives a score for each of the nodes, which were all asked whether they fit; the highest is the best."""
    shape = pod.shape
    memory = shape.memory
    total = [memory[node.name][2] for node in nodes]
    if shape.wished_nodes:
        _blend(total, 2, [_node_wishes(shape, node) for node in nodes], _towards_most)
    if any(node.taints for node in nodes):
        _blend(total, 3, [_discouragements(shape, node) for node in nodes], _towards_fewest)
    if shape.soft_spread:
        _blend(total, 2, _crowding(cluster, shape, nodes), _towards_fewest)
    if shape.wishes or cluster.wishing:
        _blend(total, 2, _pod_wishes(cluster, pod, nodes), _between)
    return total


def roominess(shape: Shape, node: NodeInfo) -> float:
    """Gives the part of the score that the node alone decides: room left over, and evenness."""
    cpu, memory = node.allocatable.get(CPU, 0), node.allocatable.get(MEMORY, 0)
    cpu_used, memory_used = node.scoring_cpu + shape.scoring[0], node.scoring_memory + shape.scoring[1]
    cpu_share = min(cpu_used / cpu, 1.0) if cpu else 1.0
    memory_share = min(memory_used / memory, 1.0) if memory else 1.0
    free = 50.0 * ((1 - cpu_share) + (1 - memory_share))
    balance = 100.0 - 50.0 * abs(cpu_share - memory_share)
    return free + balance


def _node_wishes(shape: Shape, node: NodeInfo) -> float:
    return float(
        sum(weight for weight, term in shape.wished_nodes if node_term_matches(term, node.name, node.labels))
    )


def _discouragements(shape: Shape, node: NodeInfo) -> float:
    return float(
        sum(
            taint.get("effect") == "PreferNoSchedule" and not tolerates(shape.tolerations, taint)
            for taint in node.taints
        )
    )


def _crowding(cluster: Cluster, shape: Shape, nodes: Sequence[NodeInfo]) -> list[float]:
    crowd = [0.0] * len(nodes)
    for constraint in shape.soft_spread:
        pods: Counts = {}
        if not constraint.selector.is_empty:
            pods = cluster.count(SpreadQuestion(shape.namespace, constraint.selector))
        domains: Counts = {}
        for node in cluster.order:
            value = node.labels.get(constraint.key)
            if value is not None:
                domains[value] = domains.get(value, 0) + pods.get(node.name, 0)
        most = max(domains.values(), default=0) + 1
        for index, node in enumerate(nodes):
            value = node.labels.get(constraint.key)
            crowd[index] += most if value is None else domains[value]
    return crowd


def _pod_wishes(cluster: Cluster, pod: PodInfo, nodes: Sequence[NodeInfo]) -> list[float]:
    pairs: dict[tuple[str, str], float] = {}

    def add(key: str, counts: Counts, weight: int) -> None:
        for name, count in counts.items():
            value = cluster.nodes[name].labels.get(key)
            if value is not None:
                pairs[key, value] = pairs.get((key, value), 0.0) + weight * count

    for weight, term in pod.shape.wishes:
        add(term.key, cluster.count(TermsQuestion((term,))), weight)
    labels = cluster.namespace_labels(pod.namespace)
    for (weight, term), counts in cluster.wishing.items():
        if term.means(pod.namespace, pod.labels, labels):
            add(term.key, counts, weight)
    if not pairs:
        return [0.0] * len(nodes)
    return [sum(pairs.get(pair, 0.0) for pair in node.labels.items()) for node in nodes]


def _blend(
    total: list[float],
    weight: int,
    raw: list[float],
    normalise: Callable[[list[float]], list[float]],
) -> None:
    for index, score in enumerate(normalise(raw)):
        total[index] += weight * score


def _towards_most(raw: list[float]) -> list[float]:
    most = max(raw)
    return [100.0 * each / most for each in raw] if most else raw


def _towards_fewest(raw: list[float]) -> list[float]:
    most = max(raw)
    return [100.0 - 100.0 * each / most for each in raw] if most else [100.0] * len(raw)


def _between(raw: list[float]) -> list[float]:
    least, most = min(raw), max(raw)
    return [100.0 * (each - least) / (most - least) for each in raw] if most > least else [0.0] * len(raw)
