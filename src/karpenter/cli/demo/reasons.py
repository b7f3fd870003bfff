# SPDX-License-Identifier: Apache-2.0
"""Why the machine that was bought is the right one: what each type of the pool costs and how many of the pods it holds.

Sizes are reckoned by the function that the controller itself uses; prices are the region's list prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from karpenter import facts
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.amis.families import family_of
from karpenter.cloud.aws.instancetypes.sizes import SizeSettings, size_of
from karpenter.model.resources import MEMORY

__all__ = ["Offer", "offers_of", "reasons"]


@dataclass(frozen=True, slots=True)
class Offer:
    """A type that the pool allows: its price and its memory for pods."""

    instance_type: str
    price_per_hour: float
    memory_bytes: int

    def holds(self, memory_bytes: int) -> int:
        """Counts the pods of that size that fit by their memory."""
        return self.memory_bytes // memory_bytes if memory_bytes else 0


def offers_of(types: Iterable[str], node_class: EC2NodeClass, region: str) -> list[Offer]:
    """Gives the types as offers, cheapest first; those that the region does not sell are left out."""
    prices, known = facts.on_demand_prices(region), facts.instance_types()
    family = family_of(node_class)
    found = [
        Offer(
            name, prices[name], size_of(known[name], node_class, family, SizeSettings()).allocatable[MEMORY]
        )
        for name in types
        if name in prices and name in known
    ]
    return sorted(found, key=lambda each: (each.price_per_hour, each.instance_type))


def reasons(chosen: str, pods: int, memory_bytes: int, offers: Sequence[Offer]) -> list[str]:
    """Gives why this type was bought for so many pods of that size, in one line or none."""
    bought = next((each for each in offers if each.instance_type == chosen), None)
    if bought is None or not pods or not memory_bytes:
        return []
    parts = []
    for each in offers:
        held = min(each.holds(memory_bytes), pods)
        if each.price_per_hour < bought.price_per_hour and held < pods:
            parts.append(
                f"{each.instance_type} is cheaper (${each.price_per_hour:.3f}/h) but holds {held} of {pods} pods"
            )
    dearer = [each for each in offers if each.price_per_hour > bought.price_per_hour]
    fitting = [each.instance_type for each in dearer if each.holds(memory_bytes) >= pods]
    if fitting:
        names = " and ".join([", ".join(fitting[:-1]), fitting[-1]] if len(fitting) > 1 else fitting)
        parts.append(f"{names} would do and cost{'s' * (len(fitting) == 1)} more")
    return ["; ".join(parts)] if parts else []
