# SPDX-License-Identifier: Apache-2.0
"""The ways to buy an instance type from a node class: zone by capacity type, reservations, partitions, tenancy.

An offering stands for a zone where EC2 sells the type and the class has a subnet. It is available when the type
goes with the class, has a price, was not sold out lately, and its zone is not shifted away. Offerings that are
not available stay listed, so that a refusal can say "sold out" rather than "unknown". One without any price is
listed at the price of the dearest thing there is: it must never look like a bargain.

Reserved capacity is paid already: it costs a ten-millionth of the list price, which keeps it first and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

from karpenter.api import labels
from karpenter.api.base import EMPTY
from karpenter.api.ec2nodeclass import CapacityReservation, Subnet
from karpenter.cloud.aws.instancetypes.compatibility import PlacementGroup
from karpenter.cloud.aws.unavailable import Unavailable
from karpenter.facts import TypeFacts
from karpenter.model.instancetypes import Offering

__all__ = [
    "DEFAULT_TENANCY",
    "TENANCIES",
    "UNPRICED",
    "Market",
    "PriceSource",
    "Zone",
    "offerings_of",
    "zones_of",
]

DEFAULT_TENANCY: Final = ("default",)
# Shared hardware first: it is preferred wherever both will do.
TENANCIES: Final = ("default", "dedicated")
UNPRICED: Final = 1e9
_CAPACITY_TYPES: Final = (labels.ON_DEMAND, labels.SPOT)
_RESERVED_DIVISOR: Final = 10_000_000.0


class PriceSource(Protocol):
    """Where prices come from; ``None`` where none is known."""

    @property
    def version(self) -> int:
        """A number that moves when a price does."""

    def on_demand(self, instance_type: str) -> float | None:
        """Returns dollars per hour."""

    def spot(self, instance_type: str, zone: str) -> float | None:
        """Returns dollars per hour."""

    def usual_spot(self, instance_type: str, zone: str) -> float | None:
        """Returns dollars per hour over the last day; ``None`` where that is not known."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone that a node class can launch into."""

    name: str
    id: str
    subnet_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Market:
    """What all types of one node class share when their offerings are made.

    Attributes:
        zones: The class's zones, by name.
        prices: Where prices come from.
        unavailable: What was sold out lately.
        reservations: The class's reservations, by instance type.
        reservation_count: Tells how many more instances a reservation holds.
        shifted_zone_ids: Zones that traffic was shifted away from.
        group: The placement group that the class launches into.
        tenancies: The tenancies to offer, the preferred one first.
        stated_prices: Prices by type that people stated for types without any other.
    """

    zones: Mapping[str, Zone]
    prices: PriceSource
    unavailable: Unavailable
    reservations: Mapping[str, tuple[CapacityReservation, ...]]
    reservation_count: Callable[[str], int]
    shifted_zone_ids: frozenset[str] = frozenset()
    group: PlacementGroup | None = None
    tenancies: tuple[str, ...] = DEFAULT_TENANCY
    stated_prices: Mapping[str, float] = EMPTY

    def price(self, capacity_type: str, instance_type: str, zone: str) -> float | None:
        """Returns dollars per hour; ``None`` where nobody knows or stated a price."""
        if capacity_type == labels.SPOT:
            known = self.prices.spot(instance_type, zone)
        else:
            known = self.prices.on_demand(instance_type)
        return self.stated_prices.get(instance_type) if known is None else known


def zones_of(subnets: Iterable[Subnet]) -> Mapping[str, Zone]:
    """Returns the zones of the subnets that a node class found, in the order of their names."""
    found: dict[str, Zone] = {}
    for subnet in sorted(subnets, key=lambda subnet: (subnet.zone, subnet.id)):
        known = found.get(subnet.zone) or Zone(subnet.zone, subnet.zone_id, ())
        found[subnet.zone] = replace(
            known, id=known.id or subnet.zone_id, subnet_ids=(*known.subnet_ids, subnet.id)
        )
    return found


def offerings_of(
    facts: TypeFacts, sold_in: Iterable[str], market: Market, *, compatible: bool
) -> tuple[Offering, ...]:
    """Returns all ways to buy a type.

    Args:
        facts: The type.
        sold_in: The zones where EC2 sells it.
        market: What the types of the class share.
        compatible: Whether the type goes with the class.
    """
    zones = [market.zones[name] for name in sorted(sold_in) if name in market.zones]
    # Tenancies cost the same here, so that the first of them is preferred: it comes first in every tie.
    return tuple(
        offering
        for tenancy in market.tenancies
        for partition in _partitions(market.group)
        for offering in (
            *_listed(facts, zones, market, partition, tenancy, compatible=compatible),
            *_reserved(facts, zones, market, partition, tenancy, compatible=compatible),
        )
    )


def _listed(
    facts: TypeFacts, zones: Sequence[Zone], market: Market, partition: str, tenancy: str, *, compatible: bool
) -> Iterator[Offering]:
    group = market.group.id if market.group else ""
    shortage = market.unavailable.concerns(facts.name)
    for zone in zones:
        usable = compatible and zone.id not in market.shifted_zone_ids
        for capacity_type in _CAPACITY_TYPES:
            if capacity_type not in facts.usage_classes:
                continue
            price = market.price(capacity_type, facts.name, zone.name)
            usual = None
            if capacity_type == labels.SPOT and price is not None:
                usual = market.prices.usual_spot(facts.name, zone.name)
            sold_out = shortage and market.unavailable.is_out(
                capacity_type,
                facts.name,
                zone.name,
                subnet_ids=zone.subnet_ids,
                group=group,
                partition=partition,
            )
            yield Offering(
                zone=zone.name,
                capacity_type=capacity_type,
                price_per_hour=UNPRICED if price is None else price,
                available=usable and price is not None and not sold_out,
                labels=_labels(zone.id, partition, tenancy),
                usual_price_per_hour=usual,
            )


def _reserved(
    facts: TypeFacts, zones: Sequence[Zone], market: Market, partition: str, tenancy: str, *, compatible: bool
) -> Iterator[Offering]:
    sold_in = {zone.name for zone in zones}
    for reservation in market.reservations.get(facts.name, ()):
        zone = market.zones.get(reservation.availability_zone)
        zone_id = zone.id if zone else ""
        count = max(market.reservation_count(reservation.id), 0)
        list_price = market.price(labels.ON_DEMAND, facts.name, reservation.availability_zone)
        # How full it is, is counted; that its zone has no addresses left, or its placement group is full, is not.
        blocked = zone is not None and market.unavailable.is_out(
            labels.RESERVED,
            facts.name,
            zone.name,
            subnet_ids=zone.subnet_ids,
            group=market.group.id if market.group else "",
            partition=partition,
        )
        yield Offering(
            zone=reservation.availability_zone,
            capacity_type=labels.RESERVED,
            # Without a list price it is paid for all the same.
            price_per_hour=(list_price or 1.0) / _RESERVED_DIVISOR,
            available=compatible
            and not blocked
            and count > 0
            and reservation.availability_zone in sold_in
            and reservation.state != "expiring"
            and zone_id not in market.shifted_zone_ids,
            labels={
                **_labels(zone_id, partition, tenancy),
                labels.CAPACITY_RESERVATION_ID: reservation.id,
                labels.CAPACITY_RESERVATION_TYPE: reservation.reservation_type,
                labels.CAPACITY_RESERVATION_INTERRUPTIBLE: str(reservation.interruptible).lower(),
            },
            reservation_id=reservation.id,
            reservation_capacity=count,
        )


def _partitions(group: PlacementGroup | None) -> tuple[str, ...]:
    if group is None or group.strategy != "partition" or group.partition_count < 1:
        return ("",)
    return tuple(str(number) for number in range(1, group.partition_count + 1))


@lru_cache(maxsize=1024)
def _labels(zone_id: str, partition: str, tenancy: str) -> Mapping[str, str]:
    """Returns one shared mapping for all offerings alike: there are thousands of them and few mappings."""
    found = {labels.INSTANCE_TENANCY: tenancy}
    if zone_id:
        found[labels.ZONE_ID] = zone_id
    if partition:
        found[labels.PLACEMENT_GROUP_PARTITION] = partition
    return found
