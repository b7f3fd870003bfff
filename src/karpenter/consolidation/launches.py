# SPDX-License-Identifier: Apache-2.0
"""What a replacement may be bought as, so that the saving holds whichever offering it becomes.

A NodeClaim names types, zones and capacity types apart from each other, so every combination of those named must be
cheap enough, as Karpenter's rule of the worst launch price.

Spot for spot: Karpenter asks for 15 cheaper types, lest nodes wander to the cheapest pool of all, which is taken back
soonest. Here a spot replacement must keep a choice of as many spot offerings (type and zone) as the settings say, or
of half of those that could hold its pods where that is less. Narrow pools are thus not shut out, and wide ones stay
wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from karpenter.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, SPOT, ZONE
from karpenter.consolidation.types import Settings, VerdictKind
from karpenter.model.catalogue import Catalogue, lowest_bit
from karpenter.scheduling import NewNode

__all__ = ["Unfit", "narrowed", "price_of"]


def price_of(launch: Sequence[NewNode]) -> float:
    """Return what nodes to be bought cost together per hour."""
    return sum(each.price_per_hour for each in launch)


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why launches cannot be narrowed to what pays."""

    kind: VerdictKind
    words: str


def narrowed(
    launch: Sequence[NewNode], most_per_hour: float, settings: Settings, *, from_spot: bool
) -> tuple[NewNode, ...] | Unfit:
    """Return the launches with only offerings that keep their sum within a price, or why that cannot be.

    Args:
        launch: What is to be bought, at most for that price if each becomes its cheapest.
        most_per_hour: What all of them together may cost.
        settings: Whether spot may follow spot, and how much choice it needs.
        from_spot: Whether only spot nodes are replaced.
    """
    # What the cheapest choice leaves is shared equally.
    slack = (most_per_hour - price_of(launch)) / max(1, len(launch))
    found = []
    for each in launch:
        mask = _within(each.catalogue, each.usable, each.price_per_hour + slack)
        if from_spot and each.capacity_type == SPOT:
            choice = each.usable & each.catalogue.values(CAPACITY_TYPE)[SPOT]
            wanted = min(settings.spot_choices, -(-choice.bit_count() // 2))
            if not settings.spot_to_spot:
                return Unfit(VerdictKind.SPOT, "spot nodes are not replaced by spot nodes")
            if mask.bit_count() < wanted:
                words = f"a cheaper spot node would leave fewer than {wanted} offerings to choose from"
                return Unfit(VerdictKind.SPOT, words)
        short = "" if settings.solve.min_values == "BestEffort" else _short_of_values(each, mask)
        if short:
            return Unfit(VerdictKind.NOT_CHEAPER, f"too few cheaper offerings keep {short} open by minValues")
        found.append(replace(each, usable=mask))
    return tuple(found)


def _short_of_values(launch: NewNode, mask: int) -> str:
    """Return the label of which fewer values are left than its minValues asks for; empty if there is none."""
    for requirement in launch.pool_requirements:
        if requirement.min_values is not None:
            values = launch.catalogue.values(requirement.key).values()
            if sum(bool(part & mask) for part in values) < requirement.min_values:
                return requirement.key
    return ""


def _within(catalogue: Catalogue, usable: int, price_per_hour: float) -> int:
    """Return the largest simple part of some offerings of which no named combination is another, or costs more.

    The cheapest offering is always part of it. First everything is tried, then the cheapest one's capacity type alone,
    then its zone alone, where each type is one offering.
    """
    cheap = usable & catalogue.no_dearer_than(price_per_hour)
    cheapest = lowest_bit(usable)
    chosen = catalogue.offerings[cheapest]
    mask = usable
    for key, value in (("", ""), (CAPACITY_TYPE, chosen.capacity_type), (ZONE, chosen.zone)):
        mask &= catalogue.values(key)[value] if key else catalogue.everything
        kept = _whole_types(catalogue, mask, cheap)
        if kept >> cheapest & 1:
            return kept
    return 1 << cheapest


def _whole_types(catalogue: Catalogue, mask: int, cheap: int) -> int:
    """Return the part of some offerings whose types are cheap enough wherever and however the others may be bought."""
    named = catalogue.available
    for key in (ZONE, CAPACITY_TYPE):
        among = 0
        for part in catalogue.values(key).values():
            if part & mask:
                among |= part
        named &= among
    kept = 0
    for part in catalogue.values(INSTANCE_TYPE).values():
        if part & mask and not part & named & ~cheap:
            kept |= part & mask
    return kept
