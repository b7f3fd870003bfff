# SPDX-License-Identifier: Apache-2.0
"""The client's own limits: buckets of tokens that fill at a steady rate, to wait for or to go without.

Those who must wait are served in the order they came. The bucket may go into debt: each waiter takes its
token at once and sleeps until the debt in front of it is paid, so that no timer is woken in vain.
"""

from __future__ import annotations

from karpenter.kit.clock import Clock

__all__ = ["Allowance", "TokenBucket"]


class _Bucket:
    """Tokens, at most ``burst``, to which ``rate_per_s`` are added each second."""

    def __init__(self, clock: Clock, *, rate_per_s: float, burst: float) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise ValueError(f"a bucket of {burst} filled at {rate_per_s} per second lets nothing through")
        self._clock = clock
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate_per_s)
        self._filled_at = now


class TokenBucket(_Bucket):
    """Lets ``rate_per_s`` requests through each second, and ``burst`` at once after a quiet spell."""

    async def take(self) -> float:
        """Takes one token, waits for it if need be, and gives the seconds waited."""
        self._fill()
        self._tokens -= 1
        if self._tokens >= 0:
            return 0.0
        wait_s = -self._tokens / self._rate_per_s
        await self._clock.sleep(wait_s)
        return wait_s


class Allowance(_Bucket):
    """Allows ``burst`` at once and ``rate_per_s`` each second; who finds nothing left goes without."""

    def take(self) -> bool:
        """Takes one, if there is one, and tells whether there was."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
