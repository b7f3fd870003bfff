# SPDX-License-Identifier: Apache-2.0
"""Our own request limits, a little below those that EC2 publishes, and lower still for a while when EC2 objects.

EC2 gives each account and region buckets of requests that refill at a fixed rate; who empties one is refused, and
everybody else in the account with them. We keep to nine tenths of each bucket. When a refusal comes all the same,
because others share the account, the bucket is taken for empty and its rate is halved; it grows back by a tenth of
the full rate every few seconds. Waiting callers are served in the order they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from karpenter.cloud.aws.calls import Limit
from karpenter.kit.clock import Clock

__all__ = ["PUBLISHED", "Bucket", "buckets"]

# What EC2 publishes: refill per second, and how many a full bucket holds. Nothing is published for CreateFleet itself:
# it is held to the numbers of RunInstances, which it uses. Launches also draw one token per instance from INSTANCES.
# Other services publish nothing of the kind; theirs is a guess on the low side.
PUBLISHED: Final[Mapping[Limit, tuple[float, float]]] = MappingProxyType(
    {
        Limit.READ: (20.0, 100.0),
        Limit.WRITE: (5.0, 50.0),
        Limit.LAUNCH: (2.0, 5.0),
        Limit.INSTANCES: (2.0, 1000.0),
        Limit.TERMINATE: (5.0, 100.0),
        Limit.TAG: (10.0, 100.0),
        Limit.QUEUE: (300.0, 300.0),
        Limit.OTHER: (20.0, 40.0),
    }
)

_SHARE: Final = 0.9
_LOWEST: Final = 0.1
_RECOVERY_PER_S: Final = 0.02


class Bucket:
    """A bucket of request tokens that refills with time."""

    def __init__(self, clock: Clock, *, rate_per_s: float, burst: float) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise ValueError(f"a bucket of {burst} tokens at {rate_per_s}/s lets nothing through")
        self._clock = clock
        self._full_rate = rate_per_s
        self._burst = burst
        self._tokens = burst
        self._factor = 1.0
        self._as_of = clock.monotonic()
        self._turn = asyncio.Lock()

    @property
    def rate_per_s(self) -> float:
        """How many requests a second go through now."""
        self._refill()
        return self._full_rate * self._factor

    async def take(self, amount: float = 1.0) -> None:
        """Wait for that many tokens and take them; more than a full bucket holds counts as a full one."""
        wanted = min(amount, self._burst)
        async with self._turn:
            self._refill()
            while self._tokens < wanted:
                # A little longer than needed, because sums of fractions fall short of it.
                await self._clock.sleep((wanted - self._tokens) / (self._full_rate * self._factor) + 1e-3)
                self._refill()
            self._tokens -= wanted

    def refused(self) -> None:
        """Note that AWS refused a request for coming too fast."""
        self._refill()
        self._tokens = min(self._tokens, 0.0)
        self._factor = max(self._factor / 2, _LOWEST)

    def _refill(self) -> None:
        now = self._clock.monotonic()
        passed_s = now - self._as_of
        self._as_of = now
        self._tokens = min(self._tokens + passed_s * self._full_rate * self._factor, self._burst)
        self._factor = min(self._factor + passed_s * _RECOVERY_PER_S, 1.0)


def buckets(
    clock: Clock, published: Mapping[Limit, tuple[float, float]] = PUBLISHED
) -> Mapping[Limit, Bucket]:
    """Return one bucket per limit, each a little smaller than the published one."""
    return {
        limit: Bucket(
            clock,
            rate_per_s=_SHARE * rate,
            # Instances are launched by us alone as a rule, and a tenth of them would take a minute to come back.
            burst=burst if limit is Limit.INSTANCES else max(_SHARE * burst, 1.0),
        )
        for limit, (rate, burst) in published.items()
    }
