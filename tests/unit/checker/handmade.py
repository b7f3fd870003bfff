# SPDX-License-Identifier: Apache-2.0
"""Plans made by hand, right in everything but what a test changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, ZONE
from karpenter.model.requirements import Requirement
from karpenter.model.resources import Resources
from tests.checker import ForeignOptions, ForeignPlan, Offer, Purchase, Refusal, check
from tests.checker.amounts import sum_amounts
from tests.checker.world import new_place
from tests.strategies import ZONES, Problem, nodepool, small_catalogue

__all__ = ["buy", "judge", "plan_of", "problem_of"]


def problem_of(*pods: Pod, **parts: Any) -> Problem:
    """Make a problem with one plain pool and a small catalogue, unless parts say otherwise."""
    return Problem(**{"pods": pods, "nodepools": (nodepool(),), "types": small_catalogue(), **parts})


def buy(
    problem: Problem,
    *pods: Pod,
    kind: str = "m5.large",
    zone: str = ZONES[0],
    capacity_type: str = ON_DEMAND,
    pool: str = "default",
    others: Iterable[tuple[str, str, str]] = (),
    settled: Mapping[str, str] | None = None,
) -> Purchase:
    """Make a new node for pods, with the price, the requirements and the amounts that are right for it.

    Args:
        problem: What it is bought for.
        pods: The pods.
        kind: The chosen instance type.
        zone: The chosen zone.
        capacity_type: The chosen capacity type.
        pool: The pool.
        others: Further alternatives: type, zone and capacity type.
        settled: The values of labels that the pool leaves open.
    """
    view = next(each for each in problem.snapshot().pools if each.name == pool)
    offers = [Offer(*each, _price(problem, *each)) for each in ((kind, zone, capacity_type), *others)]
    offers.sort(key=lambda offer: offer.price_per_hour)
    narrowed = {
        INSTANCE_TYPE: {offer.instance_type for offer in offers},
        ZONE: {offer.zone for offer in offers},
        CAPACITY_TYPE: {offer.capacity_type for offer in offers},
        **{key: {value} for key, value in (settled or {}).items()},
    }
    node = Purchase(
        pool=pool,
        instance_type=offers[0].instance_type,
        zone=offers[0].zone,
        capacity_type=offers[0].capacity_type,
        price_per_hour=offers[0].price_per_hour,
        alternatives=tuple(offers),
        requirements=view.requirements.plus(
            *(Requirement.of(key, "In", values) for key, values in narrowed.items())
        ),
        pods=pods,
        requests=Resources(),
        daemon_overhead=Resources(),
    )
    place = new_place(problem.snapshot(), 0, node, node)
    assert place is not None
    daemons = Resources(sum_amounts(place.daemons))
    return replace(node, requests=Resources(sum_amounts(pods)) + daemons, daemon_overhead=daemons)


def plan_of(
    *new_nodes: Purchase,
    existing: Mapping[str, tuple[Pod, ...]] | None = None,
    rejected: tuple[Pod, ...] = (),
    **changes: Any,
) -> ForeignPlan:
    """Make a plan with the right sum."""
    plan = ForeignPlan(
        existing=dict(existing or {}),
        new_nodes=new_nodes,
        rejections=(Refusal(rejected),) if rejected else (),
        price_per_hour=sum(node.price_per_hour for node in new_nodes),
    )
    return replace(plan, **changes)


def judge(problem: Problem, plan: ForeignPlan, **options: Any) -> list[str]:
    """Ask the checker."""
    return check(problem.snapshot(), problem.pods, plan, ForeignOptions(**options))


def _price(problem: Problem, kind: str, zone: str, capacity_type: str) -> float:
    prices = [
        offering.price_per_hour
        for each in problem.types
        if each.name == kind
        for offering in each.offerings
        if (offering.zone, offering.capacity_type) == (zone, capacity_type)
    ]
    return prices[0] if prices else 0.0
