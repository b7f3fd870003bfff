# SPDX-License-Identifier: Apache-2.0
"""The resource bound of a problem: a price per hour that no plan for all its pods can go below.

Pods are poured like water. Pods with the same choice of offers form a group; of a group only the sums of cpu,
memory, pod slots and whatever else is asked for remain, and fractions of nodes may be bought. The cheapest
purchase whose room, less the DaemonSets of each node, covers the sums is a linear program. Whatever it leaves
out (whole nodes, sizes of pods, spreading, affinity between pods, ports, volumes, limits and weights of
pools, minValues) could only make a real plan dearer. Pods that fit no offer at all are left out and counted.

The result does not rest on the simplex method being right. That yields a worth for each resource of each
group; the worths are then scaled, in exact fractions, until no offer has room for more worth than it costs.
So whatever a plan pays for a node, the pods on it are worth no more, and the worth of all pods is a bound.

Nodes that are already there hold pods at no price; a problem that has them is refused.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Any

from benchmarks.peers.offers import Amounts, Offer, Wishes, fits, is_pending, list_offers, pod_amounts
from benchmarks.peers.simplex import Column, row_worths
from karpenter.errors import KarpenterError

__all__ = ["Bound", "BoundRefusedError", "resource_bound"]

Object = Mapping[str, Any]
# The groups that accept an offer, by their numbers.
Signature = tuple[int, ...]


class BoundRefusedError(KarpenterError):
    """A problem that the resource bound does not speak about."""


@dataclass(frozen=True)
class Bound:
    """What the pods that can be placed cost at least, how many they are, and how many fit no offer."""

    price_per_hour: float
    pods: int
    unplaceable_pods: int


def resource_bound(problem: Object, catalogue: Object) -> Bound:
    """Return the resource bound of a problem over the instance types of a catalogue.

    Raises:
        BoundRefusedError: nodes exist already, or an offer is free of charge.
    """
    by_kind: dict[str, list[Object]] = defaultdict(list)
    for each in problem["objects"]:
        by_kind[each["kind"]].append(each)
    if by_kind["Node"] or by_kind["NodeClaim"]:
        raise BoundRefusedError(
            "the problem has Nodes or NodeClaims, and the resource bound knows only nodes that are paid for",
            hint="leave out the kinds Node and NodeClaim",
        )
    offers = list(list_offers(by_kind["NodePool"], catalogue["instanceTypes"], by_kind["DaemonSet"]))
    if any(offer.price_per_hour <= 0 for offer in offers):
        raise BoundRefusedError("an offer of the catalogue has no price", hint="every price must be above 0")
    pending = [pod["spec"] for pod in by_kind["Pod"] if is_pending(pod)]
    demand, unplaceable = _demand_by_choice(pending, offers)
    if not demand:
        return Bound(0.0, 0, unplaceable)
    program = _Program(list(demand.values()), _cheapest_by_signature(list(demand), offers))
    price = program.proven_value(row_worths(program.single_costs(), program.best_column))
    return Bound(float(price), len(pending) - unplaceable, unplaceable)


def _demand_by_choice(
    specs: Iterable[Object], offers: Sequence[Offer]
) -> tuple[dict[frozenset[int], dict[str, int]], int]:
    """Sum what pods with the same choice of offers ask for; also count the pods that fit none."""
    choices: dict[str, frozenset[int]] = {}
    placeable: dict[tuple[frozenset[int], str], bool] = {}
    demand: dict[frozenset[int], dict[str, int]] = {}
    unplaceable = 0
    for spec in specs:
        wishes = Wishes.of(spec)
        key = json.dumps([wishes.alternatives, wishes.tolerations])
        if key not in choices:
            choices[key] = frozenset(i for i, offer in enumerate(offers) if wishes.accept(offer))
        choice, amounts = choices[key], pod_amounts(spec)
        size = json.dumps(amounts)
        if (choice, size) not in placeable:
            placeable[choice, size] = any(fits(amounts, offers[i].room) for i in choice)
        if not placeable[choice, size]:
            unplaceable += 1
            continue
        sums = demand.setdefault(choice, defaultdict(int))
        for name, amount in amounts.items():
            sums[name] += amount
    return demand, unplaceable


def _cheapest_by_signature(
    choices: Sequence[frozenset[int]], offers: Sequence[Offer]
) -> dict[Signature, list[Offer]]:
    """Return the offers by the groups that accept them; of those with equal room only the cheapest."""
    cheapest: dict[tuple[Signature, tuple[tuple[str, int], ...]], Offer] = {}
    for i, offer in enumerate(offers):
        signature = tuple(group for group, choice in enumerate(choices) if i in choice)
        key = signature, tuple(sorted(offer.room.items()))
        if signature and (key not in cheapest or offer.price_per_hour < cheapest[key].price_per_hour):
            cheapest[key] = offer
    by_signature: dict[Signature, list[Offer]] = defaultdict(list)
    for (signature, _), offer in cheapest.items():
        by_signature[signature].append(offer)
    return by_signature


class _Program:
    """The linear program: a row for each resource of each group, a column for each use of an offer.

    A use of an offer gives each of its resources to one group, whole; mixing several uses does the rest.
    """

    def __init__(self, demand: Sequence[Amounts], offers: Mapping[Signature, Sequence[Offer]]) -> None:
        rows = [(group, name) for group, sums in enumerate(demand) for name in sums]
        self._demand = [demand[group][name] for group, name in rows]
        self._shelves = [
            _Shelf.stock(
                {
                    name: [
                        row
                        for row, (group, wanted) in enumerate(rows)
                        if wanted == name and group in signature
                    ]
                    for name in sorted({name for group in signature for name in demand[group]})
                },
                same_choice,
            )
            for signature, same_choice in offers.items()
        ]

    def single_costs(self) -> list[float]:
        """Return what it costs to cover each row by offers of which nothing else is used."""
        costs = [float("inf")] * len(self._demand)
        for shelf in self._shelves:
            for i, rows in enumerate(shelf.takers):
                per_unit = min(
                    (price / room[i] for price, room in shelf.goods if room[i]), default=float("inf")
                )
                for row in rows:
                    costs[row] = min(costs[row], float(per_unit) * self._demand[row])
        return costs

    def best_column(self, worths: Sequence[float]) -> Column:
        """Return the use of an offer that is worth most for its price."""
        unit_worths = [worth / demand for worth, demand in zip(worths, self._demand, strict=True)]
        best_ratio, best = -1.0, Column(1.0, {})
        for shelf in self._shelves:
            takers = [max(rows, key=unit_worths.__getitem__) for rows in shelf.takers]
            units = [unit_worths[row] for row in takers]
            for price, room in shelf.rough_goods:
                ratio = sum(map(mul, units, room)) / price
                if ratio > best_ratio:
                    covers = {
                        row: amount / self._demand[row] for row, amount in zip(takers, room, strict=True)
                    }
                    best_ratio, best = ratio, Column(price, covers)
        return best

    def proven_value(self, worths: Sequence[float]) -> Fraction:
        """Return the worth of all pods, scaled so that no offer has room for more worth than its price."""
        unit_worths = [Fraction(worth) / demand for worth, demand in zip(worths, self._demand, strict=True)]
        highest = Fraction(0)
        for shelf in self._shelves:
            units = [max(unit_worths[row] for row in rows) for rows in shelf.takers]
            for price, room in shelf.goods:
                highest = max(highest, sum(map(mul, units, room)) / price)
        return sum(map(Fraction, worths), Fraction(0)) / highest


@dataclass(frozen=True)
class _Shelf:
    """The offers that the same groups accept.

    Attributes:
        takers: for each resource, the rows that may use it.
        goods: for each offer, its price and its room in the order of ``takers``.
        rough_goods: the same in floats.
    """

    takers: Sequence[Sequence[int]]
    goods: Sequence[tuple[Fraction, Sequence[int]]]
    rough_goods: Sequence[tuple[float, Sequence[float]]]

    @classmethod
    def stock(cls, rows_by_resource: Mapping[str, Sequence[int]], offers: Iterable[Offer]) -> _Shelf:
        goods = [
            (offer.price_per_hour, [offer.room.get(name, 0) for name in rows_by_resource]) for offer in offers
        ]
        rough = [(float(price), [*map(float, room)]) for price, room in goods]
        return cls(list(rows_by_resource.values()), goods, rough)
