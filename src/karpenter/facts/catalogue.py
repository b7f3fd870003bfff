# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of public facts that come with the package: types, zones, where a type is sold, list prices.

Each table is read once, on first use, and shared from then on; all together take a few hundredths of a second.
The tables are as old as the package. A controller that can reach AWS asks AWS; these serve where it cannot be
asked: the price list of an account without access, the EC2 model of the sandbox, a plan made on a laptop.

Nothing here guesses: a region or a type that is not in a table has no entry. The one exception is said aloud
by ``has_prices``: list prices of an unknown region are those of us-east-1, whose order is right more often
than none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from karpenter.facts.types import TypeFacts

__all__ = [
    "DEFAULT_REGION",
    "branch_interfaces",
    "currency",
    "has_prices",
    "instance_types",
    "network_bandwidth_mbps",
    "offered",
    "on_demand_prices",
    "price_region",
    "regions",
    "zones",
]

DEFAULT_REGION: Final = "us-east-1"

_T = TypeVar("_T")


class _Region(msgspec.Struct, frozen=True):
    """A region's zones, name to id, and its types by the last letters of the zones that sell them."""

    zones: dict[str, str]
    offered: dict[str, list[str]]


@cache
def instance_types() -> Mapping[str, TypeFacts]:
    """Returns all known instance types by name, in the order of the names."""
    return MappingProxyType({facts.name: facts for facts in _read("types.json", list[TypeFacts])})


def regions() -> tuple[str, ...]:
    """Returns the regions whose zones and offers are known, in order."""
    return tuple(_regions())


@cache
def zones(region: str) -> Mapping[str, str]:
    """Returns the region's zones, name to id; nothing for a region that is not known.

    Which id a name stands for differs between accounts; this is one consistent choice.
    """
    known = _regions().get(region)
    return MappingProxyType(dict(known.zones) if known else {})


@cache
def offered(region: str) -> Mapping[str, tuple[str, ...]]:
    """Returns for each type that the region sells the names of the zones that do, in order."""
    known = _regions().get(region)
    if known is None:
        return MappingProxyType({})
    found: dict[str, tuple[str, ...]] = {}
    for letters, names in known.offered.items():
        selling = tuple(f"{region}{letter}" for letter in letters)
        found.update(dict.fromkeys(names, selling))
    return MappingProxyType(dict(sorted(found.items())))


def has_prices(region: str) -> bool:
    """Tells whether the list prices are the region's own."""
    return region in _prices()


def price_region(region: str) -> str:
    """Return the region whose list prices are used for a region: itself, or us-east-1."""
    return region if has_prices(region) else DEFAULT_REGION


def currency(region: str) -> str:
    """Returns the currency of a region's prices: yuan in China, US dollars elsewhere."""
    return "CNY" if region.startswith("cn-") else "USD"


def on_demand_prices(region: str) -> Mapping[str, float]:
    """Returns list prices per hour by type name, those of us-east-1 where the region's own are not known.

    All are above zero.
    """
    return _prices()[price_region(region)]


def network_bandwidth_mbps(type_name: str) -> int | None:
    """Returns the network bandwidth of a type; ``None`` where no figure is published."""
    facts = instance_types().get(type_name)
    return facts.network_bandwidth_mbps if facts else _beyond().get(type_name, (None, 0))[0]


def branch_interfaces(type_name: str) -> int:
    """Returns how many branch interfaces a type can have for its pods; 0 where it has none or is not known."""
    facts = instance_types().get(type_name)
    return facts.branch_interfaces if facts else _beyond().get(type_name, (None, 0))[1]


@cache
def _beyond() -> Mapping[str, tuple[int | None, int]]:
    """Bandwidth and branch interfaces of types that are in those two tables but in no other."""
    return _read("network.json", dict[str, tuple[int | None, int]])


@cache
def _regions() -> Mapping[str, _Region]:
    return _read("regions.json", dict[str, _Region])


@cache
def _prices() -> Mapping[str, Mapping[str, float]]:
    tables = _read("prices.json", dict[str, dict[str, float]])
    return {region: MappingProxyType(prices) for region, prices in tables.items()}


def _read(name: str, shape: type[_T]) -> _T:
    return msgspec.json.decode(files("karpenter.facts").joinpath("data", name).read_bytes(), type=shape)
