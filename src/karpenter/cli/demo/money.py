# SPDX-License-Identifier: Apache-2.0
"""What it costs: prices with their unit, and what the same pods would cost otherwise.

Prices are Amazon's list prices of the modelled region, which the EC2 model charges. A month has 730 hours, as in AWS's
own calculator. Disks, traffic and the control plane are not in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from karpenter.cli.demo.reasons import Offer
from karpenter.cli.demo.seeing import Picture

__all__ = ["HOURS_A_MONTH", "hourly", "monthly", "otherwise", "total"]

HOURS_A_MONTH: Final = 730


def hourly(price: float | None) -> str:
    """Gives a price an hour; one that is not known says so."""
    return "$?/h" if price is None else f"${price:.3f}/h"


def monthly(price: float) -> str:
    """Gives an hourly price for a month."""
    return f"${price * HOURS_A_MONTH:,.2f}/month"


def total(picture: Picture) -> str:
    """Gives what all machines cost, by the hour and for a month."""
    return f"{hourly(picture.price_per_hour)}  {monthly(picture.price_per_hour)}"


def otherwise(picture: Picture, offers: Sequence[Offer]) -> list[str]:
    """Gives what the same pods would cost with a node each, and on the dearest type that was allowed."""
    if not picture.pods or not offers or not picture.price_per_hour:
        return []
    memory = max(each.memory_bytes for each in picture.pods)
    fitting = [each for each in offers if each.holds(memory)]
    if not memory or not fitting:
        return []
    count, lines = len(picture.pods), []
    smallest = min(fitting, key=lambda each: each.price_per_hour)
    apart = count * smallest.price_per_hour
    lines.append(
        f"a node for each pod, {count} x {smallest.instance_type}: {hourly(apart)}, "
        f"{apart / picture.price_per_hour:.1f} times as much"
    )
    dearest = max(fitting, key=lambda each: each.price_per_hour)
    needed = -(-count // dearest.holds(memory))
    packed = needed * dearest.price_per_hour
    if packed > picture.price_per_hour:
        lines.append(
            f"the same packing on the largest type, {needed} x {dearest.instance_type}: {hourly(packed)}"
        )
    return lines
