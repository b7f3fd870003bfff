# SPDX-License-Identifier: Apache-2.0
"""The catalogue: every offering of every instance type as one bit of an int, in price order.

A set of offerings is an int. The cheapest of a set is its lowest bit; sets meet by ``&`` and join by ``|``.
Each label value and each "at least this much of that resource" is such a set, made once per catalogue and
shared by all solves, so that asking what fits costs about a microsecond over thousands of offerings.

Offerings that are sold out keep their bit, so that a refusal can say "it fits, but there is none";
``available`` is the set that may be bought.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE, ZONE_ID
from karpenter.model.instancetypes import InstanceType, Offering

__all__ = ["Catalogue", "LabelTest", "bits", "lowest_bit"]


class LabelTest(Protocol):
    """What the catalogue asks of a requirement: may the label have this value, may it be absent?"""

    @property
    def key(self) -> str:
        """The label."""

    def has(self, value: str) -> bool:
        """Tell whether the label may have the value."""

    def allows_absence(self) -> bool:
        """Tell whether a node without the label will do."""


def lowest_bit(mask: int) -> int:
    """Return the position of the lowest set bit; -1 for the empty set."""
    return (mask & -mask).bit_length() - 1


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits, lowest first."""
    # Taking bits off a wide int copies it each time; a text of digits is searched at the speed of C.
    digits = bin(mask)[:1:-1]
    position = digits.find("1")
    while position >= 0:
        yield position
        position = digits.find("1", position + 1)


class Catalogue:
    """All offerings in price order; ties by type name, zone, capacity type and reservation.

    Immutable once made, but for caches. Positions are valid for this catalogue only.
    """

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self.types: tuple[InstanceType, ...] = tuple(sorted(types, key=lambda t: t.name))
        rows = [(offering, index) for index, kind in enumerate(self.types) for offering in kind.offerings]
        rows.sort(key=lambda row: _order(row[0], self.types[row[1]]))
        self.offerings: tuple[Offering, ...] = tuple(offering for offering, _ in rows)
        self.type_of: tuple[int, ...] = tuple(index for _, index in rows)
        self.prices: tuple[float, ...] = tuple(offering.price_per_hour for offering in self.offerings)
        self.everything: int = (1 << len(rows)) - 1
        self.available: int = _mask(i for i, offering in enumerate(self.offerings) if offering.available)
        self.reservations: Mapping[str, int] = self._reservation_masks()
        self._type_masks = self._masks_of_types()
        self._labels = self._label_masks()
        self._defined = {key: _union(masks.values()) for key, masks in self._labels.items()}
        # The id of a zone follows from its name.
        self._of_offerings = sorted({key for each in self.offerings for key in each.labels} - {ZONE_ID})
        self._at_least: dict[str, tuple[list[int], list[int]]] = {}
        self._at_most: dict[str, tuple[list[int], list[int]]] = {}
        self._requirement_masks: dict[object, int] = {}
        self._usual: Catalogue | None = None
        self._resources = frozenset(
            name for kind in self.types for name in (*kind.allocatable, *kind.capacity)
        )

    def __len__(self) -> int:
        return len(self.offerings)

    def type_at(self, position: int) -> InstanceType:
        """Return the instance type of an offering."""
        return self.types[self.type_of[position]]

    def at_usual_prices(self) -> Catalogue:
        """Return the catalogue with what moves in price at what it usually costs; the same one if nothing does.

        Positions differ from those here, for the order of prices does.
        """
        if self._usual is None:
            moving = any(each.usual_price_per_hour is not None for each in self.offerings)
            self._usual = Catalogue(_usual(kind) for kind in self.types) if moving else self
        return self._usual

    def knows(self, key: str) -> bool:
        """Tell whether any type or offering carries the label."""
        return key in self._labels

    def values(self, key: str) -> Mapping[str, int]:
        """Return the label's values, each with the offerings that have it; nothing for an unknown label."""
        return self._labels.get(key, {})

    def narrowed(self, mask: int) -> dict[str, list[str]]:
        """Return what some offerings settle besides type, zone and capacity type: labels, each with the values left.

        Only labels that tell offerings of one type apart (tenancy, partition, reservation), that all of these offerings
        have, and by which they can be told from others here.
        """
        found = {}
        for key in self._of_offerings:
            defined = self._defined[key]
            left = [value for value, each in self._labels[key].items() if each & mask]
            if not mask & ~defined and (len(left) < len(self._labels[key]) or defined != self.everything):
                found[key] = left
        return found

    def where(self, requirement: LabelTest) -> int:
        """Return the offerings whose label (or lack of it) meets the requirement."""
        known = self._requirement_masks.get(requirement)
        if known is None:
            known = self._where(requirement)
            self._requirement_masks[requirement] = known
        return known

    def _where(self, requirement: LabelTest) -> int:
        masks = self._labels.get(requirement.key, {})
        found = _union(mask for value, mask in masks.items() if requirement.has(value))
        if requirement.allows_absence():
            found |= self.everything & ~self._defined.get(requirement.key, 0)
        return found

    def at_least(self, resource: str, amount: int) -> int:
        """Return the offerings with at least so much allocatable of a resource."""
        if amount <= 0:
            return self.everything
        values, masks = self._prefix(self._at_least, resource, lambda kind: kind.allocatable)
        position = bisect_left(values, amount)
        return masks[position] if position < len(values) else 0

    def at_most(self, resource: str, amount: int) -> int:
        """Return the offerings with at most so much capacity of a resource (what a pool limit counts)."""
        values, masks = self._prefix(self._at_most, resource, lambda kind: kind.capacity)
        position = bisect_right(values, amount)
        return self.everything & ~masks[position] if position < len(values) else self.everything

    def most(self, resource: str, mask: int) -> int:
        """Return the largest allocatable amount of a resource among some offerings; 0 where there are none."""
        values, masks = self._prefix(self._at_least, resource, lambda kind: kind.allocatable)
        # The sets shrink as the amounts grow: the last one that meets the mask has the largest amount.
        beyond = bisect_left(range(len(values)), 1, key=lambda index: not masks[index] & mask)
        return values[beyond - 1] if beyond else 0

    def least_capacity(self, resource: str, mask: int) -> int:
        """Return the smallest capacity of a resource among some offerings; 0 where there are none."""
        values, masks = self._prefix(self._at_most, resource, lambda kind: kind.capacity)
        beyond = bisect_left(range(len(values)), 1, key=lambda index: bool(mask & ~masks[index]))
        return values[beyond - 1] if mask else 0

    def no_dearer_than(self, price_per_hour: float) -> int:
        """Return the offerings that cost at most so much."""
        return (1 << bisect_right(self.prices, price_per_hour)) - 1

    def vector(self, position: int, resources: Sequence[str]) -> tuple[int, ...]:
        """Return the allocatable amounts of an offering's type in the given order."""
        allocatable = self.type_at(position).allocatable
        return tuple(allocatable.get(resource, 0) for resource in resources)

    def _prefix(
        self,
        cache: dict[str, tuple[list[int], list[int]]],
        resource: str,
        amounts: Callable[[InstanceType], Mapping[str, int]],
    ) -> tuple[list[int], list[int]]:
        """Return the distinct amounts, ascending, and for each the offerings with at least that much."""
        known = cache.get(resource)
        if known is not None:
            return known
        if resource not in self._resources:
            # Pods may ask for any number of things that nobody has; nothing is worked out or kept for them.
            return [0], [self.everything]
        by_amount: dict[int, int] = {}
        for index, kind in enumerate(self.types):
            amount = amounts(kind).get(resource, 0)
            by_amount[amount] = by_amount.get(amount, 0) | self._type_masks[index]
        values = sorted(by_amount)
        masks = [0] * len(values)
        above = 0
        for position in range(len(values) - 1, -1, -1):
            above |= by_amount[values[position]]
            masks[position] = above
        cache[resource] = (values, masks)
        return cache[resource]

    def _reservation_masks(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for position, offering in enumerate(self.offerings):
            if offering.reservation_id:
                found[offering.reservation_id] = found.get(offering.reservation_id, 0) | 1 << position
        return dict(sorted(found.items()))

    def reservation_capacity(self, reservation_id: str) -> int:
        """Return how many more instances a reservation holds."""
        return self.offerings[lowest_bit(self.reservations[reservation_id])].reservation_capacity

    def _masks_of_types(self) -> list[int]:
        masks = [0] * len(self.types)
        for position, index in enumerate(self.type_of):
            masks[index] |= 1 << position
        return masks

    def _label_masks(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}

        def add(key: str, value: str, mask: int) -> None:
            masks = found.setdefault(key, {})
            masks[value] = masks.get(value, 0) | mask

        for index, kind in enumerate(self.types):
            add(INSTANCE_TYPE, kind.name, self._type_masks[index])
            for key, value in kind.labels.items():
                add(key, value, self._type_masks[index])
        for position, offering in enumerate(self.offerings):
            bit = 1 << position
            add(ZONE, offering.zone, bit)
            add(CAPACITY_TYPE, offering.capacity_type, bit)
            for key, value in offering.labels.items():
                add(key, value, bit)
        return {key: dict(sorted(masks.items())) for key, masks in sorted(found.items())}


def _order(offering: Offering, kind: InstanceType) -> tuple[float, str, str, str, str]:
    return (
        offering.price_per_hour,
        kind.name,
        offering.zone,
        offering.capacity_type,
        offering.reservation_id,
    )


def _mask(positions: Iterable[int]) -> int:
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _usual(kind: InstanceType) -> InstanceType:
    """Return the type at usual prices, which then are its prices."""
    offerings = tuple(
        each
        if each.usual_price_per_hour is None
        else replace(each, price_per_hour=each.usual_price_per_hour, usual_price_per_hour=None)
        for each in kind.offerings
    )
    return replace(kind, offerings=offerings)
