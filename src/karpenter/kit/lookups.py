# SPDX-License-Identifier: Apache-2.0
"""Lookups by key with a bounded wait: a caller that stops waiting leaves the lookup running, the next one joins it.

For answers that are useful but not worth blocking for. An answer that arrives after every caller has stopped waiting is
dropped; where ``on_late`` is given, it is kept for the next caller until the key is forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from karpenter.kit.clock import Clock, within

__all__ = ["Lookups"]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Lookups(Generic[_K, _V]):
    """Questions that are under way or answered and not yet heard."""

    def __init__(
        self,
        clock: Clock,
        ask: Callable[[_K], Coroutine[Any, Any, _V]],
        *,
        on_late: Callable[[_K], None] | None = None,
    ) -> None:
        """Asks nothing yet.

        Args:
            clock: Counts how long is waited.
            ask: Answers a key, or raises.
            on_late: Is called with each key whose answer arrived late and was kept.
        """
        self._clock = clock
        self._ask = ask
        self._on_late = on_late
        self._tasks: dict[_K, asyncio.Task[_V]] = {}
        self._waiting: dict[_K, int] = {}

    async def within(self, key: _K, seconds: float) -> _V:
        """Return the answer for a key, asked now or before; raises what asking raised.

        Raises:
            TimeoutError: There is no answer yet; the question stays under way.
        """
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.ensure_future(self._ask(key))
            task.add_done_callback(lambda done: self._answered(key, done))
            self._tasks[key] = task
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            answer = await within(self._clock, seconds, _joined(task))
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
            # Heard: the next to ask wants to know how things are then.
            if task.done() and self._tasks.get(key) is task:
                del self._tasks[key]
        return answer

    def forget(self, key: _K) -> None:
        """Give up on a key, and drop its answer."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Give up on everything."""
        tasks = tuple(self._tasks.values())
        for key in tuple(self._tasks):
            self.forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _answered(self, key: _K, task: asyncio.Task[_V]) -> None:
        if task.cancelled():
            return
        task.exception()  # retrieved, so that the event loop does not report it as never retrieved
        if self._waiting.get(key) or self._tasks.get(key) is not task:
            return
        if self._on_late is None:
            del self._tasks[key]
        else:
            self._on_late(key)


async def _joined(task: asyncio.Task[_V]) -> _V:
    return await asyncio.shield(task)
