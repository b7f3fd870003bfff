# SPDX-License-Identifier: Apache-2.0
"""Whether the nodes to buy can be bought as the plan says: offerings, prices, limits, reservations, minValues.

The chosen offering must be the cheapest alternative, and every alternative as good a home for the pods as the chosen
one, since any of them may be what is launched. The same goes for whatever else the claim's requirements allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from karpenter.api.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.model.instancetypes import Offering
from karpenter.model.pools import Pool
from karpenter.model.snapshot import Snapshot
from tests.checker.amounts import sum_amounts
from tests.checker.hosts import host_violations
from tests.checker.matching import allows, node_suits
from tests.checker.plans import AlternativeLike, NewNodeLike, OptionsLike, PlanLike, title
from tests.checker.storage import unreachable
from tests.checker.world import matching_offerings, new_place, possible_nodes

__all__ = ["purchase_violations"]

_CENT_OF_A_CENT = 1e-6


def purchase_violations(snapshot: Snapshot, plan: PlanLike, options: OptionsLike) -> list[str]:
    """Say what is wrong with the nodes to buy and with the bill."""
    found = []
    for number, node in enumerate(plan.new_nodes):
        found += _node_violations(snapshot, number, node, options)
    return [*found, *_bill(plan), *_limits(snapshot, plan), *_reservations(snapshot, plan)]


def _node_violations(snapshot: Snapshot, number: int, node: NewNodeLike, options: OptionsLike) -> list[str]:
    name = f"new node {number} of pool {node.pool}"
    pool = next((pool for pool in snapshot.pools if pool.name == node.pool), None)
    if pool is None:
        return [f"{name}: there is no such pool"]
    found = [] if node.pods else [f"{name} has no pods"]
    found += _choice(name, node)
    for offer in node.alternatives:
        found += _alternative(snapshot, pool, number, node, offer)
    found += _min_values(name, pool, node, options)
    found += _claim(snapshot, pool, number, node)
    found += _written_amounts(snapshot, number, node)
    return found


def _choice(name: str, node: NewNodeLike) -> list[str]:
    if not node.alternatives:
        return [f"{name} has no alternatives, not even the chosen offering"]
    found = []
    if _said(node) != _said(node.alternatives[0]):
        found.append(f"{name}: chosen is {_said(node)}, the first alternative {_said(node.alternatives[0])}")
    prices = [offer.price_per_hour for offer in node.alternatives]
    if prices != sorted(prices):
        found.append(f"{name}: the alternatives are not in the order of their prices: {prices}")
    if node.price_per_hour > min(prices):
        found.append(f"{name}: chosen at {node.price_per_hour} $/h, an alternative costs {min(prices)}")
    return found


def _alternative(
    snapshot: Snapshot, pool: Pool, number: int, node: NewNodeLike, offer: AlternativeLike
) -> list[str]:
    name = f"new node {number} of pool {node.pool} as {_said(offer)}"
    sold = [offering for _, offering in matching_offerings(pool, offer)]
    if not sold:
        return [f"{name}: no such offering exists"]
    if not any(_is_sold(offering, offer) for offering in sold):
        states = ", ".join(f"{each.price_per_hour} $/h, available: {each.available}" for each in sold)
        return [f"{name}: not sold at {offer.price_per_hour} $/h ({states})"]
    place = new_place(snapshot, number, node, offer)
    assert place is not None
    place = replace(place, title=name)
    found = host_violations(place, snapshot.storage)
    for whose, requirements in (("pool", pool.requirements), ("claim", node.requirements)):
        found += [
            f"{name} does not meet the {whose}'s requirement {requirement}"
            for requirement in requirements
            if requirement.key != HOSTNAME
            and requirement.key not in place.open_labels
            and not allows(requirement, place.labels.get(requirement.key))
        ]
    return found


def _is_sold(offering: Offering, offer: AlternativeLike) -> bool:
    return offering.available and math.isclose(
        offering.price_per_hour, offer.price_per_hour, abs_tol=_CENT_OF_A_CENT
    )


def _min_values(name: str, pool: Pool, node: NewNodeLike, options: OptionsLike) -> list[str]:
    found, short = [], False
    for requirement in pool.requirements:
        if requirement.min_values is None:
            continue
        values = {
            value
            for offer in node.alternatives
            for value in (_offered_value(pool, offer, requirement.key),)
            if value is not None
        }
        if len(values) < requirement.min_values:
            short = True
            if options.min_values == "Strict":
                found.append(
                    f"{name} keeps {len(values)} values of {requirement.key} open, {requirement.min_values} are wanted"
                )
    if node.min_values_relaxed and not short:
        found.append(f"{name} says that minValues were relaxed, but they hold")
    if short and options.min_values != "Strict" and not node.min_values_relaxed:
        found.append(f"{name} keeps fewer values open than wanted and does not say so")
    return found


def _offered_value(pool: Pool, offer: AlternativeLike, key: str) -> str | None:
    for kind, offering in matching_offerings(pool, offer):
        fixed = {INSTANCE_TYPE: kind.name, ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type}
        return {**kind.labels, **offering.labels, **fixed}.get(key)
    return None


def _claim(snapshot: Snapshot, pool: Pool, number: int, node: NewNodeLike) -> list[str]:
    """Say which offerings the claim would let be launched that do not suit the pods, though they have the room."""
    found = []
    for possible in possible_nodes(pool, node.pods):
        labels = possible.labels
        if not all(allows(each, labels.get(each.key)) for each in node.requirements if each.key != HOSTNAME):
            continue
        offering = possible.offering
        what = f"{possible.kind.name} {offering.capacity_type} in {offering.zone}"
        name = f"the claim of new node {number} of pool {node.pool} allows {what}"
        for pod in node.pods:
            if not node_suits(pod, labels, ""):
                found.append(f"{name}, which does not meet the node affinity of {title(pod)}")
            found += [
                f"{name}, which does not reach the volume of {claim} of {title(pod)}"
                for claim in unreachable(pod, labels, snapshot.storage)
            ]
    return found


def _written_amounts(snapshot: Snapshot, number: int, node: NewNodeLike) -> list[str]:
    place = new_place(snapshot, number, node, node)
    if place is None:
        return []
    daemons = sum_amounts(place.daemons)
    together = sum_amounts((*node.pods, *place.daemons))
    return [
        f"{place.title} says that {what} take {_nonzero(written)}, they take {_nonzero(true)}"
        for what, written, true in (
            ("DaemonSets", node.daemon_overhead, daemons),
            ("pods and DaemonSets", node.requests, together),
        )
        if _nonzero(written) != _nonzero(true)
    ]


def _nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in sorted(amounts.items()) if amount}


def _bill(plan: PlanLike) -> list[str]:
    found = []
    total = math.fsum(node.price_per_hour for node in plan.new_nodes)
    if not math.isclose(total, plan.price_per_hour, rel_tol=1e-9, abs_tol=_CENT_OF_A_CENT):
        found.append(f"the plan says {plan.price_per_hour} $/h, its nodes cost {total}")
    if plan.lower_bound_per_hour > plan.price_per_hour * (1 + 1e-9) + _CENT_OF_A_CENT:
        found.append(
            f"the lower bound {plan.lower_bound_per_hour} $/h is above the price {plan.price_per_hour}"
        )
    return found


def _limits(snapshot: Snapshot, plan: PlanLike) -> list[str]:
    found = []
    for pool in snapshot.pools:
        nodes = [(number, node) for number, node in enumerate(plan.new_nodes) if node.pool == pool.name]
        for resource, limit in sorted(pool.limits.items()):
            taken = {number: _counts_as(pool, node, resource) for number, node in nodes}
            total = sum(taken.values())
            if nodes and any(taken.values()) and total > limit:
                found.append(f"pool {pool.name} may add {limit} of {resource}, its new nodes add {total}")
                continue
            for number, node in nodes:
                for offer in node.alternatives:
                    more = total - taken[number] + _counts_as(pool, offer, resource)
                    if more > limit and more > total:
                        found.append(
                            f"pool {pool.name} may add {limit} of {resource}, its new nodes add {more} if new node"
                            f" {number} is bought as {_said(offer)}"
                        )
    return found


def _counts_as(pool: Pool, offer: AlternativeLike, resource: str) -> int:
    if resource == "nodes":
        return 1
    kinds = [kind for kind, _ in matching_offerings(pool, offer)]
    return kinds[0].capacity.get(resource, 0) if kinds else 0


def _reservations(snapshot: Snapshot, plan: PlanLike) -> list[str]:
    """Say which new nodes find no room in any reservation they could use: each goes to one of them."""
    room: dict[str, int] = {}
    wanted: list[tuple[int, set[str]]] = []
    for number, node in enumerate(plan.new_nodes):
        pool = next((pool for pool in snapshot.pools if pool.name == node.pool), None)
        held = [
            offering
            for _, offering in ([] if pool is None else matching_offerings(pool, node))
            if offering.reservation_id and _is_sold(offering, node)
        ]
        room |= {offering.reservation_id: offering.reservation_capacity for offering in held}
        if held:
            wanted.append((number, {offering.reservation_id for offering in held}))
    slots = [name for name, capacity in room.items() for _ in range(min(capacity, len(wanted)))]
    taken: dict[int, int] = {}

    def seat(index: int, seen: set[int]) -> bool:
        """Find a slot for a node, moving others on if need be (augmenting paths)."""
        for slot, name in enumerate(slots):
            if name in wanted[index][1] and slot not in seen:
                seen.add(slot)
                if slot not in taken or seat(taken[slot], seen):
                    taken[slot] = index
                    return True
        return False

    return [
        f"new node {number} is reserved capacity, but {', '.join(sorted(ids))} has no instance left for it"
        for index, (number, ids) in enumerate(wanted)
        if not seat(index, set())
    ]


def _said(offer: AlternativeLike) -> str:
    return f"{offer.instance_type} {offer.capacity_type} in {offer.zone}"
