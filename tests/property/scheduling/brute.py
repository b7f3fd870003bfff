# SPDX-License-Identifier: Apache-2.0
"""The cheapest plan of a small problem, by trying all of them: every way to put pods on nodes, judged by the checker.

Exponential, and meant to be: a handful of pods, one pool, a few offerings. Nothing of the product's way is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from karpenter.model.requirements import Requirement
from karpenter.model.snapshot import Snapshot
from tests.checker import ForeignOptions, ForeignPlan, Offer, Purchase, check
from tests.checker.amounts import sum_amounts
from tests.checker.hosts import host_violations
from tests.checker.world import new_place, standing_place
from tests.strategies import Problem

__all__ = ["cheapest_price", "has_room_somewhere"]


# Problems with more ways than this are too large for this.
_MOST_CANDIDATES = 20_000


@dataclass(frozen=True)
class _Home:
    """A standing node, or a way to buy a new one."""

    node: str = ""
    offer: Offer | None = None

    @property
    def price(self) -> float:
        return 0.0 if self.offer is None else self.offer.price_per_hour


def cheapest_price(problem: Problem, below: float = math.inf, most: int = _MOST_CANDIDATES) -> float | None:
    """Give the price of the cheapest valid plan that places every pod; None where none is ``below`` a price.

    Only so many plans are made, ``most``; where there are more, the answer is that of some of them.
    """
    snapshot = problem.snapshot()
    homes = _homes(snapshot)
    suiting = [[home for home in homes if _holds(snapshot, home, (pod,))] for pod in problem.pods]
    found = islice(_assignments(snapshot, problem.pods, suiting, []), most)
    for each in sorted(found, key=_price):
        if _price(each) >= below:
            return None
        plan = _plan(snapshot, each)
        if not check(snapshot, problem.pods, plan, ForeignOptions()):
            return plan.price_per_hour
    return None


def _price(assignment: _Assignment) -> float:
    return sum(home.price for home, _ in assignment)


def has_room_somewhere(problem: Problem, pod: Pod) -> bool:
    """Tell whether any node, standing or new, would hold the pod if there were no others."""
    snapshot = problem.snapshot()
    return any(_holds(snapshot, home, (pod,)) for home in _homes(snapshot))


def _homes(snapshot: Snapshot) -> list[_Home]:
    (pool,) = snapshot.pools
    offers = [
        Offer(kind.name, offering.zone, offering.capacity_type, offering.price_per_hour)
        for kind in pool.catalogue.types
        for offering in kind.offerings
        if offering.available
    ]
    return [*(_Home(node=node.name) for node in snapshot.nodes), *(_Home(offer=offer) for offer in offers)]


_Assignment = list[tuple[_Home, tuple[Pod, ...]]]


def _assignments(
    snapshot: Snapshot, pods: Sequence[Pod], suiting: Sequence[Sequence[_Home]], so_far: _Assignment
) -> Iterator[_Assignment]:
    """Yield every way to give each pod a home: one that somebody has already, or one of its own."""
    if not pods:
        yield so_far
        return
    pod, rest = pods[0], pods[1:]
    for index, (home, there) in enumerate(so_far):
        if home in suiting[0] and _holds(snapshot, home, (*there, pod)):
            joined = [*so_far[:index], (home, (*there, pod)), *so_far[index + 1 :]]
            yield from _assignments(snapshot, rest, suiting[1:], joined)
    taken = {home.node for home, _ in so_far if home.node}
    for home in suiting[0]:
        if home.node not in taken or not home.node:
            yield from _assignments(snapshot, rest, suiting[1:], [*so_far, (home, (pod,))])


def _holds(snapshot: Snapshot, home: _Home, pods: tuple[Pod, ...]) -> bool:
    if home.offer is None:
        node = next(each for each in snapshot.nodes if each.name == home.node)
        return not host_violations(standing_place(snapshot, node, pods), snapshot.storage)
    bought = _purchase(snapshot, home.offer, pods)
    place = new_place(snapshot, 0, bought, bought)
    (pool,) = snapshot.pools
    return (
        place is not None
        and not host_violations(place, snapshot.storage)
        and all(each.has(place.labels[each.key]) for each in pool.requirements if each.key in place.labels)
    )


def _purchase(snapshot: Snapshot, offer: Offer, pods: tuple[Pod, ...]) -> Purchase:
    (pool,) = snapshot.pools
    exactly = {INSTANCE_TYPE: offer.instance_type, ZONE: offer.zone, CAPACITY_TYPE: offer.capacity_type}
    bought = Purchase(
        pool=pool.name,
        instance_type=offer.instance_type,
        zone=offer.zone,
        capacity_type=offer.capacity_type,
        price_per_hour=offer.price_per_hour,
        alternatives=(offer,),
        requirements=pool.requirements.plus(
            *(Requirement.of(key, "In", (value,)) for key, value in exactly.items())
        ),
        pods=pods,
        requests={},
        daemon_overhead={},
    )
    place = new_place(snapshot, 0, bought, bought)
    daemons = () if place is None else place.daemons
    return replace(bought, requests=sum_amounts((*pods, *daemons)), daemon_overhead=sum_amounts(daemons))


def _plan(snapshot: Snapshot, assignment: _Assignment) -> ForeignPlan:
    bought = tuple(
        _purchase(snapshot, home.offer, pods) for home, pods in assignment if home.offer is not None
    )
    return ForeignPlan(
        existing={home.node: pods for home, pods in assignment if home.node},
        new_nodes=bought,
        price_per_hour=sum(each.price_per_hour for each in bought),
    )
