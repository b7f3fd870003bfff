# SPDX-License-Identifier: Apache-2.0
"""The window that gathers many triggers into one batch, as Karpenter's does.

A window opens with the first key. Every key that is new in this window restarts the idle timer; a key seen
again changes nothing. The window closes when the idle time has passed without a new key, or at the latest
after the maximum time, and gives all its keys at once. Times are those of the triggers, not of the waiting:
if the consumer was busy while keys came in, it does not wait for them a second time.

A window that opens after a quiet spell may have a shorter idle time, ``first_idle_s``: long enough for what comes
in one breath, short enough that one lonely pod hardly waits for company.

Keys are never lost: who is cancelled while waiting leaves them for the next.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from karpenter.kit.clock import Clock

__all__ = ["BatchWindow"]

_K = TypeVar("_K", bound=Hashable)

# Sums of floating-point seconds may fall short by a rounding error; a shorter wait than this is no wait.
_SHORTEST_WAIT_S: Final = 1e-6


class BatchWindow(Generic[_K]):
    """Gathers keys from many producers for one consumer."""

    def __init__(
        self, clock: Clock, *, idle_s: float = 1.0, max_s: float = 10.0, first_idle_s: float | None = None
    ) -> None:
        """Makes a window that is not open yet.

        Args:
            clock: Where its time comes from.
            idle_s: How long without a new key closes the window.
            max_s: How long the window is open at most.
            first_idle_s: The idle time of a window that opens after a quiet spell; the same if not given.
        """
        first_idle_s = idle_s if first_idle_s is None else first_idle_s
        if not 0 <= first_idle_s <= idle_s <= max_s:
            raise ValueError(
                f"a window of idle {first_idle_s} s, then {idle_s} s and at most {max_s} s never closes as told"
            )
        self._clock = clock
        self._idle_s = idle_s
        self._max_s = max_s
        self._first_idle_s = first_idle_s
        self._this_idle_s = idle_s
        self._keys: set[_K] = set()
        self._arrived = asyncio.Event()
        self._closes_at = 0.0
        self._latest_close_at = 0.0
        self._last_batch_at = -math.inf

    def trigger(self, key: _K) -> bool:
        """Adds a key and tells whether it is new in this window."""
        if key in self._keys:
            return False
        now = self._clock.monotonic()
        if not self._keys:
            is_quiet = now - self._last_batch_at >= self._idle_s
            self._this_idle_s = self._first_idle_s if is_quiet else self._idle_s
            self._latest_close_at = now + self._max_s
        self._keys.add(key)
        self._closes_at = min(now + self._this_idle_s, self._latest_close_at)
        self._arrived.set()
        return True

    @property
    def pending(self) -> int:
        """Counts the keys gathered so far."""
        return len(self._keys)

    async def wait(self) -> frozenset[_K]:
        """Waits until a window has closed and gives its keys; there is always at least one.

        One consumer at a time: of two, each key goes to one only, and the other goes on waiting.
        """
        while True:
            await self._arrived.wait()
            # Sleeping to the known end and looking again costs a few wakings per window, not one per key.
            while (left_s := self._closes_at - self._clock.monotonic()) > _SHORTEST_WAIT_S:
                await self._clock.sleep(left_s)
            if self._keys:
                return self._take()

    def _take(self) -> frozenset[_K]:
        batch = frozenset(self._keys)
        self._keys.clear()
        self._arrived.clear()
        self._last_batch_at = self._clock.monotonic()
        return batch
