# SPDX-License-Identifier: Apache-2.0
"""The client's own limit on requests a second: a bucket of tokens that fills at a steady rate.

Those who must wait are served in the order they came. The bucket may go into debt: each waiter takes its
token at once and sleeps until the debt in front of it is paid, so that no timer is woken in vain.
"""

from __future__ import annotations

from karpenter.kit.clock import Clock

__all__ = ["TokenBucket"]


class TokenBucket:
    """Lets ``rate_per_s`` requests through each second, and ``burst`` at once after a quiet spell."""

    def __init__(self, clock: Clock, *, rate_per_s: float, burst: float) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise ValueError(f"a bucket of {burst} filled at {rate_per_s} per second lets nothing through")
        self._clock = clock
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    async def take(self) -> float:
        """Takes one token, waits for it if need be, and gives the seconds waited."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate_per_s)
        self._filled_at = now
        self._tokens -= 1
        if self._tokens >= 0:
            return 0.0
        wait_s = -self._tokens / self._rate_per_s
        await self._clock.sleep(wait_s)
        return wait_s
