# SPDX-License-Identifier: Apache-2.0
"""A region's instance types from the package's own tables: a catalogue without an account.

Sizes, labels and offerings are made as for a real node class with a subnet in every zone; prices are list prices,
spot at the list price. Good for a plan on a laptop; a controller asks AWS.
"""

from __future__ import annotations

from typing import Final

from karpenter import facts
from karpenter.api.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from karpenter.cloud.aws.amis.families import family_of
from karpenter.cloud.aws.instancetypes.compatibility import incompatibility, is_launchable
from karpenter.cloud.aws.instancetypes.offerings import (
    DEFAULT_TENANCY,
    Market,
    PriceSource,
    Zone,
    offerings_of,
)
from karpenter.cloud.aws.instancetypes.sizes import SizeSettings, size_of
from karpenter.cloud.aws.instancetypes.traits import labels_of
from karpenter.cloud.aws.pricing import ListPrices
from karpenter.cloud.aws.unavailable import Unavailable
from karpenter.errors import KarpenterError
from karpenter.kit.clock import SystemClock
from karpenter.model.instancetypes import InstanceType

__all__ = ["UnknownRegionError", "listed_types"]

_PLAIN: Final = EC2NodeClass(spec=EC2NodeClassSpec(ami_family="AL2023"))


class UnknownRegionError(KarpenterError):
    """A region that the package's tables do not have."""


def listed_types(
    region: str = facts.DEFAULT_REGION,
    node_class: EC2NodeClass = _PLAIN,
    *,
    settings: SizeSettings | None = None,
    prices: PriceSource | None = None,
    tenancies: tuple[str, ...] = DEFAULT_TENANCY,
) -> tuple[InstanceType, ...]:
    """Returns every type that the region sells, by name.

    Args:
        region: One of ``facts.regions()``.
        node_class: The node class to size nodes for; Amazon Linux 2023 with all defaults unless given.
        settings: The installation's settings.
        prices: Other prices than the package's.
        tenancies: Tenancies to offer, the preferred one first.

    Raises:
        UnknownRegionError: The package knows no zones of that region.
    """
    zones, sold_in = facts.zones(region), facts.offered(region)
    if not zones:
        raise UnknownRegionError(
            f'region "{region}" is not in the tables of this package',
            hint=f"one of {', '.join(facts.regions())}",
        )
    market = Market(
        zones={name: Zone(name, zone_id, ()) for name, zone_id in zones.items()},
        prices=prices or ListPrices(region),
        unavailable=Unavailable(SystemClock()),
        reservations={},
        reservation_count=lambda _: 0,
        tenancies=tenancies,
    )
    family = family_of(node_class)
    types = []
    for name, where in sold_in.items():
        known = facts.instance_types()[name]
        if is_launchable(known):
            size = size_of(known, node_class, family, settings or SizeSettings())
            compatible = incompatibility(known, node_class.spec, family) is None
            offerings = offerings_of(known, where, market, compatible=compatible)
            made = InstanceType(
                name, labels_of(known, region, family), size.capacity, size.allocatable, offerings
            )
            types.append(made)
    return tuple(types)
