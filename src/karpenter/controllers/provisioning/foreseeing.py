# SPDX-License-Identifier: Apache-2.0
"""Which plan comes out cheapest when the scheduler places pods as it likes: pure.

Where the scheduler is not told of the plan, or does not heed it, it spreads pods over the new nodes in its own order,
some no longer fit, and another node has to be bought for them. Plans with fewer, larger nodes cost a little more and
leave fewer pods over. So a few of them are made, the scheduler's way with each is played through, and the one counts
that is cheapest together with what it leaves over.

What is played: pods come by priority and age; each goes to the node, among those that its pool was to get, with the
most of cpu and memory free in equal shares, as kube-scheduler scores by default. Pods that name labels, spread or keep
to others stay where they were planned. Everything else that scores is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from karpenter.api.core import Pod
from karpenter.controllers.provisioning.waiting import turn
from karpenter.model.catalogue import lowest_bit
from karpenter.model.resources import CPU, MEMORY, Resources, pod_requests
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling import NewNode, Plan, SolveOptions

__all__ = ["foreseen", "left_over", "realised_price"]

Solver: TypeAlias = Callable[[Snapshot, tuple[Pod, ...], SolveOptions], Plan]

# The share of the price that may be given up for fewer nodes, from none to plenty.
_TOLERANCES: Final = (0.05, 0.1, 0.2)


def foreseen(solver: Solver, snapshot: Snapshot, pods: tuple[Pod, ...], options: SolveOptions) -> Plan:
    """Gives the plan that is cheapest after the scheduler has had its way with it."""
    best = solver(snapshot, pods, options)
    best_price = realised_price(solver, snapshot, best, options)
    for tolerance in _TOLERANCES:
        if options.expired() or best_price <= best.price_per_hour:
            break
        other = solver(snapshot, pods, replace(options, tolerance=tolerance))
        if _served(other) < _served(best):
            continue
        price = realised_price(solver, snapshot, other, options)
        if price < best_price:
            best, best_price = other, price
    return best


def realised_price(solver: Solver, snapshot: Snapshot, plan: Plan, options: SolveOptions) -> float:
    """Gives what a plan costs an hour with the nodes that pods without a place would need besides."""
    over = left_over(plan)
    if not over:
        return plan.price_per_hour
    return plan.price_per_hour + solver(replace(snapshot, nodes=()), over, options).price_per_hour


def left_over(plan: Plan) -> tuple[Pod, ...]:
    """Gives the planned pods that find no place on the new nodes when the scheduler fills them its own way."""
    rooms = [_Room(node) for node in plan.new_nodes]
    free: list[tuple[Pod, str]] = []
    for room in rooms:
        for pod in room.node.pods:
            if _is_bound_to_rules(pod):
                room.take(pod_requests(pod))
            else:
                free.append((pod, room.node.pool))
    over = []
    for pod, pool in sorted(free, key=lambda each: turn(each[0])):
        wanted = pod_requests(pod)
        fitting = [each for each in rooms if each.node.pool == pool and wanted.fits(each.left)]
        if fitting:
            max(fitting, key=lambda each: each.score(wanted)).take(wanted)
        else:
            over.append(pod)
    return tuple(over)


@dataclass(slots=True)
class _Room:
    """A new node that fills up."""

    node: NewNode
    whole: Resources
    left: Resources

    def __init__(self, node: NewNode) -> None:
        self.node = node
        kind = node.catalogue.type_at(lowest_bit(node.usable))
        self.whole = Resources(kind.allocatable)
        self.left = self.whole - node.daemon_overhead

    def take(self, wanted: Resources) -> None:
        """Puts a pod here."""
        self.left -= wanted

    def score(self, wanted: Resources) -> float:
        """Gives how much the scheduler likes to put a pod here: free in the mean, and in like shares."""
        shares = [
            (self.left.get(name, 0) - wanted.get(name, 0)) / max(self.whole.get(name, 0), 1)
            for name in (CPU, MEMORY)
        ]
        return sum(shares) / 2 - abs(shares[0] - shares[1]) / 2


def _is_bound_to_rules(pod: Pod) -> bool:
    spec = pod.spec
    return bool(spec.affinity or spec.topology_spread_constraints or spec.node_selector)


def _served(plan: Plan) -> int:
    return -sum(len(each.pods) for each in plan.rejections)
