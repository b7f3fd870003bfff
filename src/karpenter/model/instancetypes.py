# SPDX-License-Identifier: Apache-2.0
"""Instance types and their offerings: what can be bought, where, at what price.

A type's labels are facts with one value each; a label that a type lacks is absent, and a requirement judges
that too. What varies between offerings of one type (zone, capacity type, reservation) stands in the offering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from karpenter.api.base import EMPTY

__all__ = ["InstanceType", "Offering"]


@dataclass(frozen=True, slots=True)
class Offering:
    """One way to buy a type.

    A reserved offering also says how many more instances its reservation holds; any other holds as many as
    asked. Where prices move, ``usual_price_per_hour`` is what it cost on average over the last day.
    """

    zone: str
    capacity_type: str
    price_per_hour: float
    available: bool = True
    labels: Mapping[str, str] = field(default=EMPTY)
    reservation_id: str = ""
    reservation_capacity: int = 0
    usual_price_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A machine that can be bought.

    ``capacity`` is what the machine has and what pool limits count; ``allocatable`` what is left for pods.
    Both in base units by resource name: millicores of cpu, bytes of memory and storage, counts of the rest.
    """

    name: str
    labels: Mapping[str, str]
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    offerings: tuple[Offering, ...]
