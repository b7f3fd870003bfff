# SPDX-License-Identifier: Apache-2.0
"""Prices over model time: list prices from the catalogue, spot prices that wander, and rules that bend both.

A spot price is a share of the list price. The share is drawn per type and zone by the seed, between 0.25 and 0.75,
and moves by a few per cent from one step of model time to the next. Every price is a function of (seed, type, zone,
step), so that the past can be asked for and two runs agree. Rules set or multiply prices for a pattern and a span
of time; the last rule that matches wins.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from karpenter import facts
from karpenter.sandbox.ec2.compute.filters import cut, matcher, matching, place_after
from karpenter.sandbox.ec2.compute.ids import fraction
from karpenter.sandbox.ec2.compute.seam import Params

__all__ = ["PriceRule", "Prices", "spot_price_history"]

_EPOCH: Final = datetime(2020, 1, 1, tzinfo=UTC)
_PRODUCT: Final = "Linux/UNIX"
_PRODUCTS: Final = (_PRODUCT, f"{_PRODUCT} (Amazon VPC)")
_PAGE: Final = 1000
"""The rows of a page for which no size is asked."""
_BREAK: Final = "\x1f"
_ROWS_PER_POOL: Final = 90 * 24
"""The most changes told per pool; EC2 keeps 90 days."""


@dataclass(frozen=True, slots=True)
class PriceRule:
    """Sets (``price``) or multiplies (``factor``) the prices of a pattern from one moment to another."""

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"
    price: float | None = None
    factor: float = 1.0
    since: datetime | None = None
    until: datetime | None = None

    def holds(self, instance_type: str, zone: str, capacity_type: str, at: datetime) -> bool:
        """Says whether the rule speaks of this pool at this moment."""
        return (
            (self.since is None or self.since <= at)
            and (self.until is None or at < self.until)
            and matcher((self.instance_type,))(instance_type)
            and matcher((self.zone,))(zone)
            and matcher((self.capacity_type,))(capacity_type)
        )


class Prices:
    """The price of every type in every zone of one region at any moment of model time."""

    def __init__(self, region: str, seed: int = 0, step_s: int = 3600) -> None:
        self.region = region
        self.zones = dict(facts.zones(region))
        self.offered = dict(facts.offered(region))
        self.step_s = step_s
        self.rules: list[PriceRule] = []
        self._seed = seed
        self._list_prices = facts.on_demand_prices(region)
        self._share = lru_cache(maxsize=65536)(self._drawn_share)

    def open_zone(self, name: str, zone_id: str, families: Collection[str]) -> None:
        """Sell the types of some families in one more zone; a second time changes nothing."""
        if name in self.zones:
            return
        self.zones[name] = zone_id
        for instance_type, zones in self.offered.items():
            if instance_type.partition(".")[0] in families:
                self.offered[instance_type] = (*zones, name)

    def on_demand(self, instance_type: str, at: datetime) -> float | None:
        """Gives the list price in $/h at that moment, None for a type that has none."""
        price = self._list_prices.get(instance_type)
        return None if price is None else self._bent(price, instance_type, "", "on-demand", at)

    def spot(self, instance_type: str, zone: str, at: datetime) -> float | None:
        """Gives the spot price in $/h at that moment, None where the type is not sold as spot."""
        price = self._list_prices.get(instance_type)
        known = facts.instance_types().get(instance_type)
        if price is None or known is None or "spot" not in known.usage_classes:
            return None
        if zone not in self.offered.get(instance_type, ()):
            return None
        share = self._share(instance_type, zone, self._step(at))
        return self._bent(round(price * share, 6), instance_type, zone, "spot", at)

    def of(self, capacity_type: str, instance_type: str, zone: str, at: datetime) -> float:
        """Gives the price by which a fleet compares; a type without one is infinitely dear."""
        price = (
            self.spot(instance_type, zone, at)
            if capacity_type == "spot"
            else self.on_demand(instance_type, at)
        )
        return math.inf if price is None else price

    def spot_changes(
        self, instance_type: str, zone: str, start: datetime, end: datetime
    ) -> Sequence[tuple[datetime, float]]:
        """Gives the price in force at the start and each change up to the end, newest first."""
        first, last = self._step(start), self._step(end)
        moments = [self._started(step) for step in range(max(first, last - _ROWS_PER_POOL), last + 1)]
        if self.rules:
            edges = {edge for rule in self.rules for edge in (rule.since, rule.until) if edge}
            # A rule that began within the step of the start is in force at the start.
            moments = sorted({*moments, *(edge for edge in edges if moments[0] < edge <= end)})
        found: list[tuple[datetime, float]] = []
        for moment in moments:
            price = self.spot(instance_type, zone, moment)
            if price is not None and (not found or price != found[-1][1]):
                found.append((moment, price))
        return found[::-1]

    def _bent(self, price: float, instance_type: str, zone: str, capacity_type: str, at: datetime) -> float:
        for rule in reversed(self.rules):
            if rule.holds(instance_type, zone, capacity_type, at):
                return rule.price if rule.price is not None else round(price * rule.factor, 6)
        return price

    def _drawn_share(self, instance_type: str, zone: str, step: int) -> float:
        rest = 0.25 + 0.5 * fraction(self._seed, instance_type, zone)
        # Three waves of unequal length wander without ever leaving the band or needing the steps before.
        phase = 2 * math.pi * fraction(self._seed, "phase", instance_type, zone)
        wave = math.sin(step / 7 + phase) + math.sin(step / 31 + 2 * phase) + math.sin(step / 113 + 3 * phase)
        return rest * (1 + 0.04 * wave)

    def _step(self, at: datetime) -> int:
        return int((at - _EPOCH).total_seconds() // self.step_s)

    def _started(self, step: int) -> datetime:
        return _EPOCH + timedelta(seconds=step * self.step_s)


@dataclass(frozen=True, slots=True)
class _Row:
    instance_type: str
    zone: str
    moment: datetime
    price: float
    tags: Mapping[str, str]

    @property
    def key(self) -> str:
        # Newest first within a pool: a later moment must have the smaller key.
        return f"{self.instance_type}{_BREAK}{self.zone}{_BREAK}{10**12 - self.moment.timestamp():017.3f}"


_FIELDS: Final = {
    "availability-zone": lambda row: row.zone,
    "instance-type": lambda row: row.instance_type,
    "product-description": lambda _: _PRODUCTS,
    "spot-price": lambda row: f"{row.price:.6f}",
    "timestamp": lambda row: f"{row.moment:%Y-%m-%dT%H:%M:%S}.000Z",
}


def spot_price_history(prices: Prices, params: Params, now: datetime) -> dict[str, Any]:
    """Answers DescribeSpotPriceHistory: per pool the price at the start time and each change until the end time.

    Without a start time it tells the last 90 days, as EC2 does; ask for what you need.
    """
    end = min(params.get("EndTime") or now, now)
    start = min(params.get("StartTime") or end - timedelta(days=90), end)
    if not set(params.get("ProductDescriptions") or _PRODUCTS) & set(_PRODUCTS):
        return {"SpotPriceHistory": []}
    # EC2 takes pages of any size here, unlike elsewhere.
    most = max(params.get("MaxResults") or 0, _PAGE)
    rows: list[_Row] = []
    page: Sequence[_Row] = ()
    token: dict[str, str] = {}
    for name in _wanted_types(prices, params):
        fresh = [
            _Row(name, zone, moment, price, {})
            for zone in prices.offered[name]
            if params.get("AvailabilityZone") in {None, zone}
            for moment, price in prices.spot_changes(name, zone, start, end)
        ]
        rows += matching(fresh, params.get("Filters") or (), _FIELDS)
        if len(rows) > most:
            # Rows come in the order of their keys, so a full page needs none of the later types.
            page, token = cut(rows, params, lambda row: row.key, at_least=1, at_most=most, by_itself=True)
            if token:
                break
    else:
        page, token = cut(rows, params, lambda row: row.key, at_least=1, at_most=most, by_itself=True)
    return {"SpotPriceHistory": [_view(row, prices) for row in page], **token}


def _wanted_types(prices: Prices, params: Params) -> list[str]:
    """Gives the types to tell of, in order, without those of earlier pages."""
    wanted = params.get("InstanceTypes") or _filter_values(params, "instance-type")
    accepts = matcher(tuple(wanted)) if wanted else (lambda _: True)
    reached = place_after(params)
    first = reached.partition(_BREAK)[0] if isinstance(reached, str) else ""
    return sorted(name for name in prices.offered if name >= first and accepts(name))


def _filter_values(params: Params, name: str) -> Sequence[str]:
    return [
        value for each in params.get("Filters") or () if each.get("Name") == name for value in each["Values"]
    ]


def _view(row: _Row, prices: Prices) -> dict[str, Any]:
    return {
        "AvailabilityZone": row.zone,
        "AvailabilityZoneId": prices.zones.get(row.zone, ""),
        "InstanceType": row.instance_type,
        "ProductDescription": _PRODUCT,
        "SpotPrice": f"{row.price:.6f}",
        "Timestamp": row.moment,
    }
