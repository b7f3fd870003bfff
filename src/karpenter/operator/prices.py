# SPDX-License-Identifier: Apache-2.0
"""The refresh of prices in the background: every 12 hours, and after a failure again with backoff.

The two sources are refreshed independently, because an isolated VPC reaches EC2 (spot) but not the price list
(on-demand). A replica that takes over the lease refreshes at once what is older than 12 hours. Each failure is logged
with the age of the prices that stay in use, and so is the end of an outage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from karpenter.api.labels import ON_DEMAND, SPOT
from karpenter.cloud.aws.pricing import REFRESH_EVERY_S, PriceReport, Prices
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock
from karpenter.kit.durations import Duration
from karpenter.observe import Log

__all__ = ["refresh_prices"]

_BACKOFF: Final = BackoffPolicy(base_s=30.0, cap_s=1800.0, jitter=0.2)


async def refresh_prices(prices: Prices, clock: Clock, log: Log) -> None:
    """Refresh the prices of both sources until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_follow(prices, ON_DEMAND, prices.refresh_on_demand, clock, log))
        group.create_task(_follow(prices, SPOT, prices.refresh_spot, clock, log))


async def _follow(
    prices: Prices,
    capacity_type: str,
    refresh: Callable[[], Awaitable[PriceReport]],
    clock: Clock,
    log: Log,
) -> None:
    failures = 0
    while True:
        age_s = prices.age_s(capacity_type)
        due_s = 0.0 if age_s is None else REFRESH_EVERY_S - age_s
        await clock.sleep(_BACKOFF.delay_s(failures, capacity_type) if failures else due_s)
        report = await refresh()
        if report.skipped:
            log.info("prices of the package are used", capacity_type=capacity_type, reason=report.skipped)
            return
        for refused in report.refused:
            log.warning(
                "a price is implausible and not used",
                capacity_type=capacity_type,
                instance_type=refused.instance_type,
                zone=refused.zone,
                price=refused.price,
                reason=refused.why,
            )
        if report.errors:
            failures += 1
            log.error(
                "prices cannot be refreshed, the last good ones stay in use",
                capacity_type=capacity_type,
                prices_in_use=_in_use(prices.age_s(capacity_type), capacity_type),
                retry_in=_short(_BACKOFF.delay_s(failures, capacity_type)),
                error=report.errors[0],
            )
        elif failures:
            failures = 0
            log.info("prices are refreshed again", capacity_type=capacity_type, changes=len(report.changes))


def _in_use(age_s: float | None, capacity_type: str) -> str:
    if age_s is not None:
        return f"of {_short(age_s)} ago"
    if capacity_type == SPOT:
        return "on-demand prices, because the spot market has not answered yet"
    return "list prices of this release"


def _short(seconds: float) -> str:
    return Duration.of(seconds=round(seconds)).short()
