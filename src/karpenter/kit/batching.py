# SPDX-License-Identifier: Apache-2.0
"""The window that gathers many triggers into one batch, as Karpenter's does.

A window opens with the first key. Every key that is new in this window restarts the idle timer; a key seen
again changes nothing. The window closes when the idle time has passed without a new key, or at the latest
after the maximum time, and gives all its keys at once. Times are those of the triggers, not of the waiting:
if the consumer was busy while keys came in, it does not wait for them a second time.

A window that opens after a quiet spell may have a shorter idle time, ``first_idle_s``: long enough for what comes
in one breath, short enough that one lonely pod hardly waits for company. A later window may close as early if many keys
came close together and then none: a silence of many times their distance is the end of a burst. Whoever knows that more
is on its way says so by ``expects_more``: then either waits for it, but for no longer than the ordinary idle time. And
where a certain number is as good as more, ``enough`` of them close the window.

Keys are never lost: who is cancelled while waiting leaves them for the next.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from karpenter.kit.clock import Clock

__all__ = ["BatchWindow"]

_K = TypeVar("_K", bound=Hashable)

# Sums of floating-point seconds may fall short by a rounding error; a shorter wait than this is no wait.
_SHORTEST_WAIT_S: Final = 1e-6
# So many keys tell how far apart they come, and so many times that distance without one is the end of a burst.
_BURST: Final = 10
_SILENCE: Final = 20
# How often a window that would close is asked whether more is on its way.
_LOOK_AGAIN_S: Final = 0.0625


class BatchWindow(Generic[_K]):
    """Gathers keys from many producers for one consumer."""

    def __init__(
        self,
        clock: Clock,
        *,
        idle_s: float = 1.0,
        max_s: float = 10.0,
        first_idle_s: float | None = None,
        expects_more: Callable[[], bool] = lambda: False,
        enough: int | None = None,
    ) -> None:
        """Makes a window that is not open yet.

        Args:
            clock: Where its time comes from.
            idle_s: How long without a new key closes the window.
            max_s: How long the window is open at most.
            first_idle_s: The idle time of a window that opens after a quiet spell; the same if not given.
            expects_more: Tells whether more is on its way, so that such a window had better wait a little longer.
            enough: How many keys close the window at once; any number may gather if not given.
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
        self._expects_more = expects_more
        self._enough = math.inf if enough is None else enough
        self._is_first = False
        self._opened_at = 0.0
        self._keys: set[_K] = set()
        self._arrived = asyncio.Event()
        self._closes_at = 0.0
        self._patient_until = 0.0
        self._latest_close_at = 0.0
        self._last_batch_at = -math.inf

    def trigger(self, key: _K) -> bool:
        """Adds a key and tells whether it is new in this window."""
        if key in self._keys:
            return False
        now = self._clock.monotonic()
        if not self._keys:
            self._is_first = now - self._last_batch_at >= self._idle_s
            self._opened_at = now
            self._latest_close_at = now + self._max_s
        self._keys.add(key)
        self._closes_at = min(now + self._idle_now_s(now), self._latest_close_at)
        self._patient_until = min(now + self._idle_s, self._latest_close_at)
        if len(self._keys) >= self._enough:
            self._closes_at = self._patient_until = self._latest_close_at = now
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
            while (left_s := self._left_s()) > _SHORTEST_WAIT_S:
                await self._clock.sleep(left_s)
            if self._keys:
                return self._take()

    def _idle_now_s(self, now: float) -> float:
        """Gives the silence that closes the window, as far as is known now."""
        if self._is_first:
            return self._first_idle_s
        if len(self._keys) < _BURST:
            return self._idle_s
        distance_s = (now - self._opened_at) / (len(self._keys) - 1)
        return min(max(_SILENCE * distance_s, self._first_idle_s), self._idle_s)

    def _left_s(self) -> float:
        """Gives the seconds until the window closes or is to be looked at again; nothing if it closes now."""
        now = self._clock.monotonic()
        left_s = self._closes_at - now
        if left_s > _SHORTEST_WAIT_S:
            # A window that may yet close earlier is looked at again before.
            return min(left_s, _LOOK_AGAIN_S) if self._first_idle_s < self._idle_s else left_s
        patience_s = self._patient_until - now
        if patience_s > _SHORTEST_WAIT_S and self._expects_more():
            return min(_LOOK_AGAIN_S, patience_s)
        return 0.0

    def _take(self) -> frozenset[_K]:
        batch = frozenset(self._keys)
        self._keys.clear()
        self._arrived.clear()
        self._last_batch_at = self._clock.monotonic()
        return batch
