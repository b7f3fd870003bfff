# SPDX-License-Identifier: Apache-2.0
"""What nodes cost, and which prices are not to be believed.

A node costs what its offering is listed at, sold out or not; where prices move, as those of spot, what it usually costs
over a day: a saving that is gone in an hour moves nobody. What is bought instead is priced the same way.

A price is doubtful if it is no positive number, if the on-demand prices of one type differ by more than a factor
between zones, or if a spot price is far from the type's on-demand price in a way that no market explains: then neither
of the two is believed, since nobody can tell which is wrong. No decision rests on a doubtful price: such a node is not
consolidated, such an offering not bought to save money. Reserved capacity is paid for already, so its price may be
anything above 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from karpenter.api.labels import (
    CAPACITY_RESERVATION_ID,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONE,
)
from karpenter.model.catalogue import Catalogue, lowest_bit
from karpenter.model.instancetypes import Offering
from karpenter.model.pools import Pool
from karpenter.model.snapshot import NodeView, Snapshot

__all__ = ["Prices", "doubtful_offerings"]

# Zones of one region list the same on-demand price; local zones add a fifth or so.
_ON_DEMAND_SPREAD: Final = 3.0
# Spot is 60-90 % below on-demand as a rule, and was never seen below a fiftieth or above the double of it.
_SPOT_LEAST: Final = 1 / 50
_SPOT_MOST: Final = 2.0


def doubtful_offerings(catalogue: Catalogue) -> int:
    """Return the offerings whose price is not to be believed, as bits."""
    by_type: dict[int, list[int]] = {}
    doubtful = 0
    for position, price in enumerate(catalogue.prices):
        if _is_number(price):
            by_type.setdefault(catalogue.type_of[position], []).append(position)
        else:
            doubtful |= 1 << position
    for positions in by_type.values():
        for position in _out_of_line(catalogue, positions):
            doubtful |= 1 << position
    return doubtful


def _is_number(price: float) -> bool:
    return math.isfinite(price) and price > 0


def _out_of_line(catalogue: Catalogue, positions: Iterable[int]) -> Iterable[int]:
    on_demand, spot = [], []
    for position in positions:
        kind = catalogue.offerings[position].capacity_type
        if kind == ON_DEMAND:
            on_demand.append(position)
        elif kind == SPOT:
            spot.append(position)
    if not on_demand:
        return []
    listed = [catalogue.prices[position] for position in on_demand]
    if max(listed) > _ON_DEMAND_SPREAD * min(listed):
        return [*on_demand, *spot]
    strange = [
        position
        for position in spot
        if not _SPOT_LEAST * min(listed) <= catalogue.prices[position] <= _SPOT_MOST * max(listed)
    ]
    return [*on_demand, *strange] if strange else []


_NOTHING: Final = Catalogue(())


class Prices:
    """What the nodes of a snapshot cost."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._catalogues = {pool.name: pool.catalogue.at_usual_prices() for pool in snapshot.pools}
        self._moving = {
            pool.name for pool in snapshot.pools if self._catalogues[pool.name] is not pool.catalogue
        }
        self._doubtful: dict[int, int] = {}

    def doubtful(self, catalogue: Catalogue) -> int:
        """Return the offerings whose price is not to be believed, as bits."""
        known = self._doubtful.get(id(catalogue))
        if known is None:
            known = self._doubtful[id(catalogue)] = doubtful_offerings(catalogue)
        return known

    def usual(self, pools: Iterable[Pool]) -> tuple[Pool, ...]:
        """Return the pools at usual prices."""
        return tuple(replace(pool, catalogue=self._catalogues[pool.name]) for pool in pools)

    def believable(self, pools: Iterable[Pool]) -> tuple[Pool, ...]:
        """Return the pools with nothing for sale whose price is not to be believed."""
        made: dict[int, Catalogue] = {}
        found = []
        for pool in pools:
            key = id(pool.catalogue)
            if key not in made:
                made[key] = _without(pool.catalogue, self.doubtful(pool.catalogue))
            found.append(replace(pool, catalogue=made[key]))
        return tuple(found)

    def listed(self, node: NodeView) -> float | None:
        """Return what a node is listed at, believable or not; None where nothing is known."""
        catalogue, position = self._offering(node)
        is_given = node.price_per_hour is not None and node.pool not in self._moving
        return node.price_per_hour if is_given or position < 0 else catalogue.prices[position]

    def of(self, node: NodeView) -> float | None:
        """Return what a node costs per hour; None if that is not known or not to be believed."""
        price = self.listed(node)
        catalogue, position = self._offering(node)
        doubted = position >= 0 and self.doubtful(catalogue) >> position & 1
        return None if price is None or not _is_number(price) or doubted else price

    def share_paid(self, node: NodeView) -> float:
        """Return what part of its type's list price a node costs, if it is reserved capacity; else 1.

        That is next to nothing, and so is what giving it up saves, though it frees a machine that is worth its list
        price to others: what a saving is held against must be measured alike.
        """
        catalogue, position = self._offering(node)
        if position < 0 or catalogue.offerings[position].capacity_type != RESERVED:
            return 1.0
        same_zone = catalogue.values(ZONE)[catalogue.offerings[position].zone]
        same_type = catalogue.values(INSTANCE_TYPE)[catalogue.type_at(position).name]
        listed = lowest_bit(catalogue.values(CAPACITY_TYPE).get(ON_DEMAND, 0) & same_zone & same_type)
        return min(catalogue.prices[position] / catalogue.prices[listed], 1.0) if listed >= 0 else 1.0

    def _offering(self, node: NodeView) -> tuple[Catalogue, int]:
        """Return the offering that a node was bought as; -1 if its pool does not have it."""
        catalogue = self._catalogues.get(node.pool, _NOTHING)
        return catalogue, _position(catalogue, node)


def _without(catalogue: Catalogue, doubtful: int) -> Catalogue:
    """Return the catalogue without some offerings; the same one if there are none."""
    if not doubtful:
        return catalogue
    left: dict[int, list[Offering]] = {}
    for position, offering in enumerate(catalogue.offerings):
        if not doubtful >> position & 1:
            left.setdefault(catalogue.type_of[position], []).append(offering)
    return Catalogue(
        replace(kind, offerings=tuple(left.get(index, ()))) for index, kind in enumerate(catalogue.types)
    )


def _position(catalogue: Catalogue, node: NodeView) -> int:
    """Return the offering that a node was bought as; -1 if the catalogue does not have it."""
    found = catalogue.everything
    for key in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE, CAPACITY_RESERVATION_ID):
        value = node.labels.get(key)
        if value is not None:
            found &= catalogue.values(key).get(value, 0)
        elif key != CAPACITY_RESERVATION_ID:
            return -1
    return lowest_bit(found)
