# SPDX-License-Identifier: Apache-2.0
"""What instances cost per hour: the price list and the spot market, asked every 12 hours, and what to do without.

The start is the package's own table of list prices, with spot at the list price. A refresh replaces prices one
by one; what it does not name keeps its last good price and that price's age. A price that cannot be right is
refused and reported, never used: zero, negative, not a number, or more than a hundred times away from the last
good one. So no decision ever sees a price that is zero, absent-minded or absurd; a type without any price has
``None``, and its offerings are not available.

Spot also has a usual price: the mean over the last day, known some minutes after the start. Who moves pods to save
money decides by that one, so that prices that go up and down move nobody; what is bought costs what it costs.

Prices are US dollars, in the regions of China yuan. The price list cannot be asked from an isolated VPC or from
GovCloud; there the table of the package serves.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter import facts
from karpenter.api.labels import ON_DEMAND, SPOT
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock

if TYPE_CHECKING:
    from karpenter.cloud.aws.api import Aws

__all__ = [
    "REFRESH_EVERY_S",
    "USUAL_EVERY_S",
    "ListPrices",
    "PriceChange",
    "PriceError",
    "PriceReport",
    "Prices",
    "Quote",
    "RefusedPrice",
    "Source",
]

REFRESH_EVERY_S: Final = 12 * 3600.0
# What spot usually costs: the mean over so many samples, so far apart; looked after so often.
USUAL_EVERY_S: Final = 600.0
_SAMPLE_S: Final = 4 * 3600
_SAMPLES: Final = 6

# How far a new price may lie from the last good one. Real prices move by per cents, spot by a factor of ten.
_BAND: Final = 100.0

# Bounds for a type without any earlier price: the smallest machines cost half a cent, the largest some hundreds.
_LEAST: Final = 0.0001
_MOST: Final = 10_000.0

_COMMON_FILTERS: Final = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
_LISTS: Final = (
    {"tenancy": "Shared", "productFamily": "Compute Instance"},
    {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"},
)
_SPOT_PRODUCTS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


class Source(StrEnum):
    """Where a price comes from."""

    PACKAGE = "package"
    PRICE_LIST = "price-list"
    SPOT_MARKET = "spot-market"


class PriceError(KarpenterError):
    """A price source answered, but with nothing that can be used."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A price with its origin; ``age_s`` is ``None`` for prices of the package, whose age nobody knows here."""

    price_per_hour: float
    source: Source
    age_s: float | None


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A price that moved; ``before`` is ``None`` for one that is new, ``zone`` empty for list prices."""

    instance_type: str
    capacity_type: str
    zone: str
    before: float | None
    after: float


@dataclass(frozen=True, slots=True)
class RefusedPrice:
    """A price that cannot be right, what it was measured against, and why it was refused."""

    instance_type: str
    capacity_type: str
    zone: str
    price: float
    reference: float | None
    why: str


@dataclass(frozen=True, slots=True)
class PriceReport:
    """What a refresh did; an error is one source's, and the other one's prices count all the same."""

    changes: tuple[PriceChange, ...] = ()
    refused: tuple[RefusedPrice, ...] = ()
    errors: tuple[KarpenterError, ...] = ()
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    price: float
    source: Source
    at: float | None


class ListPrices:
    """The package's own prices of a region, with spot at the list price: what there is without an account."""

    version: int = 0

    def __init__(self, region: str) -> None:
        self._prices = facts.on_demand_prices(region)

    def on_demand(self, instance_type: str) -> float | None:
        """Returns the list price per hour."""
        return self._prices.get(instance_type)

    def spot(self, instance_type: str, zone: str) -> float | None:  # noqa: ARG002  # the same in every zone
        """Returns the list price per hour, which spot never exceeds for long."""
        return self._prices.get(instance_type)

    def usual_spot(self, instance_type: str, zone: str) -> float | None:  # noqa: ARG002  # nobody knows the market
        """Returns nothing."""
        return None


class Prices:
    """Prices of one region; refreshed by its owner every ``REFRESH_EVERY_S``."""

    def __init__(self, aws: Aws, clock: Clock, *, isolated_vpc: bool = False) -> None:
        """Starts with the package's list prices.

        Args:
            aws: Where the price list and the spot market are asked.
            clock: Counts ages.
            isolated_vpc: Whether the price list cannot be reached from here.
        """
        self._aws = aws
        self._clock = clock
        self._isolated = isolated_vpc
        self._list = {
            name: _Known(price, Source.PACKAGE, None)
            for name, price in facts.on_demand_prices(aws.region).items()
        }
        self._spot: dict[tuple[str, str], _Known] = {}
        self._usual: dict[tuple[str, str], float] = {}
        self._samples: dict[int, dict[tuple[str, str], float]] = {}
        self._asked_at: dict[str, float] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """A number that moves when a price does."""
        return self._version

    def on_demand(self, instance_type: str) -> float | None:
        """Returns the last good list price per hour; ``None`` where none is known."""
        known = self._list.get(instance_type)
        return None if known is None else known.price

    def spot(self, instance_type: str, zone: str) -> float | None:
        """Returns the last good spot price per hour; until the market was first asked, the list price."""
        if not self._spot:
            return self.on_demand(instance_type)
        known = self._spot.get((instance_type, zone))
        return None if known is None else known.price

    def usual_spot(self, instance_type: str, zone: str) -> float | None:
        """Returns what spot cost per hour on average over the last day; ``None`` as long as that is not known."""
        return self._usual.get((instance_type, zone))

    def quote(self, instance_type: str, capacity_type: str, zone: str = "") -> Quote | None:
        """Returns a price with its source and age, for people and for who must not act on old prices."""
        of_market = capacity_type == SPOT and bool(self._spot)
        known = self._spot.get((instance_type, zone)) if of_market else self._list.get(instance_type)
        if known is None:
            return None
        age_s = None if known.at is None else self._clock.monotonic() - known.at
        return Quote(known.price, known.source, age_s)

    def age_s(self, capacity_type: str) -> float | None:
        """Returns how long ago the source of these prices last answered with prices; ``None`` if it never did.

        Who moves pods to save money asks this first: a saving on old prices may be none.
        """
        at = self._asked_at.get(capacity_type)
        return None if at is None else self._clock.monotonic() - at

    async def refresh(self) -> PriceReport:
        """Asks both sources at once and takes in what is credible; failures are in the report, not raised."""
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self.refresh_on_demand()), group.create_task(self.refresh_spot())]
        on_demand, spot = (task.result() for task in asked)
        return PriceReport(
            on_demand.changes + spot.changes,
            on_demand.refused + spot.refused,
            on_demand.errors + spot.errors,
            on_demand.skipped,
        )

    async def refresh_on_demand(self) -> PriceReport:
        """Asks the price list, for shared and for bare metal machines; both must answer with prices."""
        if self._isolated:
            return PriceReport(skipped="the price list cannot be reached from an isolated VPC")
        if self._aws.region.startswith("us-gov-"):
            return PriceReport(skipped="AWS GovCloud has no price list")
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._listed(filters)) for filters in _LISTS]
        answers = [task.result() for task in asked]
        errors = tuple(answer for answer in answers if isinstance(answer, KarpenterError))
        if errors:
            return PriceReport(errors=errors)
        lists = [answer for answer in answers if not isinstance(answer, KarpenterError)]
        if not all(lists):
            return PriceReport(
                errors=(
                    PriceError(
                        f"the price list has no prices for {self._aws.region}",
                        hint="the last good prices stay in use; check pricing:GetProducts",
                    ),
                )
            )
        found = {name: price for prices in lists for name, price in prices.items()}
        changes, refused = [], []
        for name, price in sorted(found.items()):
            reference = self.on_demand(name)
            why = _implausible(price, reference)
            if why:
                refused.append(RefusedPrice(name, ON_DEMAND, "", price, reference, why))
                continue
            if price != reference:
                changes.append(PriceChange(name, ON_DEMAND, "", reference, price))
            self._list[name] = _Known(price, Source.PRICE_LIST, self._clock.monotonic())
        self._asked_at[ON_DEMAND] = self._clock.monotonic()
        self._version += bool(changes)
        return PriceReport(tuple(changes), tuple(refused))

    async def refresh_spot(self) -> PriceReport:
        """Asks the spot market for today's price of each type in each zone."""
        try:
            found = await self._market(self._clock.now())
        except KarpenterError as error:
            return PriceReport(errors=(error,))
        changes, refused = [], []
        known = dict(self._spot)
        for (name, zone), price in sorted(found.items()):
            before = known[name, zone].price if (name, zone) in known else None
            reference = self.on_demand(name) if before is None else before
            why = _implausible(price, reference)
            if why:
                refused.append(RefusedPrice(name, SPOT, zone, price, reference, why))
                continue
            if price != before:
                changes.append(PriceChange(name, SPOT, zone, before, price))
            known[name, zone] = _Known(price, Source.SPOT_MARKET, self._clock.monotonic())
        if not found:
            return PriceReport(
                errors=(
                    PriceError(
                        f"the spot market has no prices for {self._aws.region}",
                        hint="the last good prices stay in use; check ec2:DescribeSpotPriceHistory",
                    ),
                )
            )
        self._spot = known
        self._asked_at[SPOT] = self._clock.monotonic()
        self._version += bool(changes)
        return PriceReport(tuple(changes), tuple(refused))

    async def refresh_usual(self) -> None:
        """Asks what spot cost every four hours of the last day, as far as that was not asked before.

        Too much for a start, so it is asked some minutes later. Prices that cannot be right do not count.

        Raises:
            KarpenterError: The market did not answer; what was known stays.
        """
        newest = int(self._clock.now().timestamp() // _SAMPLE_S)
        wanted = range(newest - _SAMPLES + 1, newest + 1)
        self._samples = {sample: self._samples[sample] for sample in wanted if sample in self._samples}
        for sample in wanted:
            if sample not in self._samples:
                at = datetime.fromtimestamp(sample * _SAMPLE_S, UTC)
                # The price in force at the start is part of the answer, and nothing else is then.
                self._samples[sample] = await self._market(at, EndTime=at)
        usual = {}
        for key, known in self._spot.items():
            prices = [found[key] for found in self._samples.values() if key in found]
            good = [price for price in prices if not _implausible(price, known.price)]
            if good:
                usual[key] = sum(good) / len(good)
        self._version += usual != self._usual
        self._usual = usual

    async def _listed(self, filters: Mapping[str, str]) -> dict[str, float] | KarpenterError:
        """Reads one list; an error is returned, so that the other list is read to its end."""
        wanted = {"regionCode": self._aws.region, **_COMMON_FILTERS, **filters}
        found: dict[str, float] = {}
        try:
            async for page in self._aws.pages(
                "pricing",
                "GetProducts",
                ServiceCode="AmazonEC2",
                Filters=[
                    {"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()
                ],
                MaxResults=100,
            ):
                found.update(_products(page.get("PriceList", ()), facts.currency(self._aws.region)))
        except KarpenterError as error:
            return error
        return found

    async def _market(self, at: datetime, **more: datetime) -> dict[tuple[str, str], float]:
        """Reads what each type costs in each zone from some moment on; of several prices the newest."""
        newest: dict[tuple[str, str], tuple[datetime, float]] = {}
        async for page in self._aws.pages(
            "ec2",
            "DescribeSpotPriceHistory",
            StartTime=at,
            **more,
            ProductDescriptions=list(_SPOT_PRODUCTS),
            MaxResults=1000,  # the most that EC2 documents
        ):
            for entry in page.get("SpotPriceHistory", ()):
                key = (entry.get("InstanceType", ""), entry.get("AvailabilityZone", ""))
                since, price = entry.get("Timestamp"), _number(entry.get("SpotPrice"))
                if all(key) and since is not None and (key not in newest or newest[key][0] <= since):
                    newest[key] = (since, price)
        return {key: price for key, (_, price) in newest.items()}


def _products(entries: Sequence[str], currency: str) -> Iterator[tuple[str, float]]:
    """Yields what the entries of a price list say; an entry of another shape, or of price zero, says nothing.

    A price of zero stands beside the real one where a product is also sold in another way.
    """
    for entry in entries:
        try:
            product = msgspec.json.decode(entry)
            name = product["product"]["attributes"]["instanceType"]
            dimensions = [
                dimension
                for term in product["terms"]["OnDemand"].values()
                for dimension in term["priceDimensions"].values()
            ]
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
            continue
        for dimension in dimensions:
            price = _number(dimension.get("pricePerUnit", {}).get(currency, "0"))
            if name and price != 0:
                yield name, price


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return math.nan


def _implausible(price: float, reference: float | None) -> str:
    """Returns what is wrong with a price, or nothing."""
    if not math.isfinite(price):
        return "it is not a number"
    if price <= 0:
        return "it is not above zero"
    least, most = (_LEAST, _MOST) if reference is None else (reference / _BAND, reference * _BAND)
    if price > most:
        return f"it is above {most:g}"
    if price < least:
        return f"it is below {least:g}"
    return ""
