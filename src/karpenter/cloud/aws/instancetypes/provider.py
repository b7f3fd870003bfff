# SPDX-License-Identifier: Apache-2.0
"""The instance types of a region as a node class can buy them, kept up to date.

What EC2 describes and where it sells it is asked at the start and every 12 hours. For each node class the list is
made from that and kept until something it depends on moves: the class's relevant fields and findings, prices, what
is sold out, reservation counts, shifted zones, memory learnt from real nodes. As long as nothing moved the very
same tuple is returned, so that a caller may keep what it made of it.

An answer of EC2 without any type or offer is refused, and what was known stays: an empty region is never news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from karpenter.api import labels
from karpenter.api.base import EMPTY
from karpenter.api.ec2nodeclass import CapacityReservation, EC2NodeClass
from karpenter.cloud.aws.amis.families import family_of
from karpenter.cloud.aws.amis.images import ami_for
from karpenter.cloud.aws.instancetypes.compatibility import (
    Incompatibility,
    PlacementGroup,
    incompatibility,
    is_launchable,
)
from karpenter.cloud.aws.instancetypes.description import read_type
from karpenter.cloud.aws.instancetypes.memory import LearntMemory
from karpenter.cloud.aws.instancetypes.offerings import (
    DEFAULT_TENANCY,
    Market,
    PriceSource,
    offerings_of,
    zones_of,
)
from karpenter.cloud.aws.instancetypes.sizes import Size, SizeSettings, size_of
from karpenter.cloud.aws.instancetypes.traits import labels_of
from karpenter.cloud.aws.unavailable import Unavailable
from karpenter.errors import KarpenterError
from karpenter.facts import TypeFacts
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock
from karpenter.model.instancetypes import InstanceType

if TYPE_CHECKING:
    from karpenter.cloud.aws.api import Aws

__all__ = ["REFRESH_EVERY_S", "InstanceTypes", "NoInstanceTypesError", "TypesChange"]

REFRESH_EVERY_S: Final = 12 * 3600.0

_FILTERS: Final = (
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
)

# Node classes in use at the same time; one that was not asked for in an hour is forgotten.
_MOST_CLASSES: Final = 200
_KEPT_S: Final = 3600.0

# Pools of one class rarely differ in more than one tenancy and the prices that people state.
_MOST_LISTINGS: Final = 4


class NoInstanceTypesError(KarpenterError):
    """There is nothing to list: EC2 was not asked yet, told nothing, or the class has no subnets."""


@dataclass(frozen=True, slots=True)
class TypesChange:
    """What a refresh brought: names of types that came, went or are described differently, and of moved offers."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.moved)


@dataclass(frozen=True, slots=True)
class _Sized:
    """One type as a class sees it, without its offerings."""

    facts: TypeFacts
    labels: Mapping[str, str]
    size: Size
    obstacle: Incompatibility | None
    learnt_memory: int | None = None


@dataclass(slots=True)
class _Listing:
    """What was last listed for one way of asking, and from what it was made."""

    market_key: tuple[Any, ...] = ()
    sold_out_version: int = -1
    made: dict[str, InstanceType] = field(default_factory=dict)
    made_for: dict[str, tuple[int, int]] = field(default_factory=dict)
    listed: tuple[InstanceType, ...] = ()


@dataclass(slots=True)
class _ClassView:
    """What was made for one node class, and from what; the ways of asking differ by tenancies and stated prices."""

    fixed: tuple[Any, ...]
    memory_version: int
    types: dict[str, _Sized]
    listings: dict[tuple[Any, ...], _Listing] = field(default_factory=dict)

    def listing(self, tenancies: tuple[str, ...], stated_prices: Mapping[str, float]) -> _Listing:
        """Returns the listing of one way of asking; of too many ways, the oldest makes room."""
        key = (tenancies, tuple(sorted(stated_prices.items())))
        if key not in self.listings and len(self.listings) >= _MOST_LISTINGS:
            del self.listings[next(iter(self.listings))]
        return self.listings.setdefault(key, _Listing())

    def replace(self, name: str, sized: _Sized) -> None:
        """Takes in that one type is of another size; the others are not made again."""
        self.types[name] = sized
        for listing in self.listings.values():
            listing.made_for.pop(name, None)
            listing.sold_out_version = -1


class InstanceTypes:
    """Lists instance types per node class; refreshed by its owner every ``REFRESH_EVERY_S``."""

    def __init__(
        self,
        aws: Aws,
        clock: Clock,
        *,
        prices: PriceSource,
        unavailable: Unavailable,
        settings: SizeSettings | None = None,
        reservation_count: Callable[[str], int] = lambda _: 0,
        shifted_zone_ids: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """Knows nothing until the first refresh.

        Args:
            aws: Where types and offers are asked for.
            clock: Counts ages.
            prices: Where prices come from.
            unavailable: What was sold out lately.
            settings: The installation's settings.
            reservation_count: Tells how many more instances a capacity reservation holds.
            shifted_zone_ids: Tells the zones that traffic was shifted away from.
        """
        self._aws = aws
        self._clock = clock
        self._prices = prices
        self._unavailable = unavailable
        self._settings = settings or SizeSettings()
        self._reservation_count = reservation_count
        self._shifted_zone_ids = shifted_zone_ids
        self.memory = LearntMemory(clock)
        self._types: Mapping[str, TypeFacts] = EMPTY
        self._sold_in: Mapping[str, tuple[str, ...]] = EMPTY
        self._generation = 0
        self._refreshed_at: float | None = None
        self._views: TTLCache[tuple[Any, ...], _ClassView] = TTLCache(
            clock, ttl_s=_KEPT_S, max_size=_MOST_CLASSES, sliding=True
        )

    @property
    def facts(self) -> Mapping[str, TypeFacts]:
        """Every launchable type of the region, by name; empty before the first refresh."""
        return self._types

    @property
    def sold_in(self) -> Mapping[str, tuple[str, ...]]:
        """The zones in which EC2 sells each type."""
        return self._sold_in

    @property
    def age_s(self) -> float | None:
        """Seconds since the last refresh that succeeded; ``None`` before the first."""
        return None if self._refreshed_at is None else self._clock.monotonic() - self._refreshed_at

    async def refresh(self) -> TypesChange:
        """Asks EC2 for all types and offers, and returns what changed.

        Raises:
            AwsError: EC2 refused; what was known stays.
            AwsUnreachableError: EC2 did not answer; what was known stays.
            NoInstanceTypesError: EC2 told no type or no offer; what was known stays.
        """
        unreadable, types = [], {}
        async for page in self._aws.pages(
            "ec2", "DescribeInstanceTypes", Filters=list(_FILTERS), MaxResults=100
        ):
            for info in page.get("InstanceTypes", ()):
                facts = read_type(info)
                if facts is None:
                    unreadable.append(str(info.get("InstanceType", "without a name")))
                elif is_launchable(facts):
                    types[facts.name] = facts
        sold_in: dict[str, set[str]] = {}
        async for page in self._aws.pages(
            "ec2", "DescribeInstanceTypeOfferings", LocationType="availability-zone", MaxResults=1000
        ):
            for offer in page.get("InstanceTypeOfferings", ()):
                sold_in.setdefault(offer["InstanceType"], set()).add(offer["Location"])
        if not types or not sold_in:
            raise NoInstanceTypesError(
                f"EC2 in {self._aws.region} described {len(types)} instance types and offers {len(sold_in)}",
                hint="check the region, and that ec2:DescribeInstanceTypes and "
                "ec2:DescribeInstanceTypeOfferings are allowed",
            )
        return self._take_in(
            types, {name: tuple(sorted(zones)) for name, zones in sorted(sold_in.items())}, unreadable
        )

    def _take_in(
        self,
        types: Mapping[str, TypeFacts],
        sold_in: Mapping[str, tuple[str, ...]],
        unreadable: Iterable[str],
    ) -> TypesChange:
        change = TypesChange(
            added=tuple(sorted(types.keys() - self._types.keys())),
            removed=tuple(sorted(self._types.keys() - types.keys())),
            changed=tuple(
                sorted(name for name, old in self._types.items() if name in types and types[name] != old)
            ),
            moved=tuple(
                sorted(name for name in types if self._sold_in.get(name, ()) != sold_in.get(name, ()))
            ),
            unreadable=tuple(sorted(unreadable)),
        )
        if change:
            self._types, self._sold_in = types, sold_in
            self._generation += 1
        self._refreshed_at = self._clock.monotonic()
        return change

    def list(
        self,
        node_class: EC2NodeClass,
        *,
        group: PlacementGroup | None = None,
        tenancies: tuple[str, ...] = DEFAULT_TENANCY,
        stated_prices: Mapping[str, float] = EMPTY,
    ) -> tuple[InstanceType, ...]:
        """Returns every type that could run nodes of the class, by name; the same tuple while nothing moved.

        Args:
            node_class: The class, with its subnets, images and reservations found.
            group: The placement group that its selector found.
            tenancies: Tenancies to offer, the preferred one first; each further one repeats all offerings.
            stated_prices: Prices by type that NodeOverlays state for types without any other.

        Raises:
            NoInstanceTypesError: There is nothing to list.
            QuantityError: An amount in the class cannot be read.
        """
        return self._listing(node_class, group, tenancies, stated_prices).listed

    def _market_key(self, market: Market) -> tuple[Any, ...]:
        """Everything that offerings depend on, but for what is sold out."""
        counts = {
            reservation.id: self._reservation_count(reservation.id)
            for reservations in market.reservations.values()
            for reservation in reservations
        }
        return (
            market.prices.version,
            market.zones,
            market.reservations,
            counts,
            market.shifted_zone_ids,
        )

    def get(
        self,
        name: str,
        node_class: EC2NodeClass,
        *,
        group: PlacementGroup | None = None,
        tenancies: tuple[str, ...] = DEFAULT_TENANCY,
    ) -> InstanceType | None:
        """Returns one type as ``list`` has it; ``None`` if there is none of that name."""
        return self._listing(node_class, group, tenancies, EMPTY).made.get(name)

    def obstacles(
        self, node_class: EC2NodeClass, *, group: PlacementGroup | None = None
    ) -> Mapping[str, Incompatibility]:
        """Returns for each type that does not go with the class what is in the way."""
        view = self._view(node_class, group)
        return {name: sized.obstacle for name, sized in view.types.items() if sized.obstacle is not None}

    def learn(
        self, node_class: EC2NodeClass, node_labels: Mapping[str, str], image_id: str, memory_bytes: int
    ) -> bool:
        """Takes in the memory of a registered node, and tells whether that was news.

        Only nodes on the image that the class launches today count: the next node will run that one.
        """
        images = node_class.status.amis
        current = ami_for(images, node_labels)
        if current is None or current.id != image_id:
            return False
        name = node_labels.get(labels.INSTANCE_TYPE, "")
        return self.memory.learn(name, (image.id for image in images), memory_bytes)

    def _view(self, node_class: EC2NodeClass, group: PlacementGroup | None) -> _ClassView:
        if not self._types:
            raise NoInstanceTypesError(
                "no instance types are known yet", hint="EC2 is asked at start; see its errors in the log"
            )
        if not node_class.status.subnets:
            raise NoInstanceTypesError(
                f"EC2NodeClass {node_class.metadata.name} has found no subnets",
                hint="check spec.subnetSelectorTerms and the condition SubnetsReady",
            )
        key = (node_class.metadata.name, node_class.metadata.uid, group.id if group else "")
        fixed = self._fixed(node_class, group)
        view = self._views.get(key)
        if view is None or view.fixed != fixed:
            sized = {
                name: self._size(facts, node_class, group) for name, facts in sorted(self._types.items())
            }
            view = _ClassView(fixed, self.memory.version, sized)
            self._views.set(key, view)
        elif view.memory_version != self.memory.version:
            # Every first node of a type teaches us something; all other types stay what they are.
            images = frozenset(image.id for image in node_class.status.amis)
            for name, known in tuple(view.types.items()):
                if self.memory.get(name, images) != known.learnt_memory:
                    view.replace(name, self._size(known.facts, node_class, group))
            view.memory_version = self.memory.version
        return view

    def _fixed(self, node_class: EC2NodeClass, group: PlacementGroup | None) -> tuple[Any, ...]:
        """Everything that labels and sizes depend on; compared, not hashed, because mappings are in it."""
        spec = node_class.spec
        return (
            self._generation,
            family_of(node_class),
            spec.kubelet,
            spec.block_device_mappings,
            spec.instance_store_policy,
            spec.network_interfaces,
            spec.cpu_options,
            spec.connection_tracking,
            tuple(image.id for image in node_class.status.amis),
            None if group is None else (group.id, group.strategy, group.partition_count),
        )

    def _size(self, facts: TypeFacts, node_class: EC2NodeClass, group: PlacementGroup | None) -> _Sized:
        family = family_of(node_class)
        learnt = self.memory.get(facts.name, (image.id for image in node_class.status.amis))
        return _Sized(
            facts,
            labels_of(facts, self._aws.region, family, group=group.id if group else ""),
            size_of(facts, node_class, family, self._settings, learnt_memory_bytes=learnt),
            incompatibility(facts, node_class.spec, family, group),
            learnt,
        )

    def _listing(
        self,
        node_class: EC2NodeClass,
        group: PlacementGroup | None,
        tenancies: tuple[str, ...],
        stated_prices: Mapping[str, float],
    ) -> _Listing:
        view = self._view(node_class, group)
        listing = view.listing(tenancies, stated_prices)
        market = Market(
            zones=zones_of(node_class.status.subnets),
            prices=self._prices,
            unavailable=self._unavailable,
            reservations=_by_type(node_class.status.capacity_reservations),
            reservation_count=self._reservation_count,
            shifted_zone_ids=self._shifted_zone_ids(),
            group=group,
            tenancies=tenancies,
            stated_prices=stated_prices,
        )
        key, sold_out_version = self._market_key(market), self._unavailable.version
        if (listing.market_key, listing.sold_out_version) == (key, sold_out_version):
            return listing
        if listing.market_key != key:
            # What is sold out moves few types at a time; anything else moves all of them.
            listing.made_for.clear()
        for sized in view.types.values():
            self._make(sized, market, listing)
        listing.listed = tuple(listing.made.values())
        listing.market_key, listing.sold_out_version = key, sold_out_version
        return listing

    def _make(self, sized: _Sized, market: Market, listing: _Listing) -> None:
        name = sized.facts.name
        made_for = self._unavailable.version_of(name)
        if listing.made_for.get(name) == made_for:
            return
        listing.made_for[name] = made_for
        listing.made[name] = InstanceType(
            name=name,
            labels=sized.labels,
            capacity=sized.size.capacity,
            allocatable=sized.size.allocatable,
            offerings=offerings_of(
                sized.facts, self._sold_in.get(name, ()), market, compatible=sized.obstacle is None
            ),
        )


def _by_type(
    reservations: Iterable[CapacityReservation],
) -> dict[str, tuple[CapacityReservation, ...]]:
    found: dict[str, tuple[CapacityReservation, ...]] = {}
    for reservation in reservations:
        found[reservation.instance_type] = (*found.get(reservation.instance_type, ()), reservation)
    return found
