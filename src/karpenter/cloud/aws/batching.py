# SPDX-License-Identifier: Apache-2.0
"""Many small requests folded into few calls.

Who asks waits for the batch that the question falls into: a window opens with the first question, closes when no new
one has come for a moment, at the latest after its maximum time, and each part of at most ``max_items`` becomes one
call. Equal questions in one window are one. A batch that fails, fails for all who asked; a caller who gives up leaves
the others alone. What is not in a batch's answer is answered with nothing. Who knows some answers of a batch before the
others says so by ``settle``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from karpenter.kit.batching import BatchWindow
from karpenter.kit.clock import Clock

__all__ = ["Batcher", "OnBatch", "chunks"]

# Is told name and size of a batch, and for how many seconds it was gathered.
OnBatch: TypeAlias = Callable[[str, int, float], None]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Batcher(Generic[_K, _V]):
    """Gathers questions by key and answers each from the batch that it went into."""

    def __init__(
        self,
        clock: Clock,
        answer: Callable[[tuple[_K, ...]], Awaitable[Mapping[_K, _V]]],
        *,
        idle_s: float,
        max_s: float,
        max_items: int,
        on_batch: Callable[[int, float], None] = lambda _size, _seconds: None,
    ) -> None:
        """Makes a batcher that does nothing yet.

        Args:
            clock: Where its time comes from.
            answer: Answers a batch of different keys; keys may be missing from its answer.
            idle_s: How long without a new key closes the window.
            max_s: How long the window is open at most.
            max_items: How many keys one call takes.
            on_batch: Is told the size of each call, and for how long it was gathered.
        """
        self._clock = clock
        self._opened_at = 0.0
        self._answer = answer
        self._max_items = max_items
        self._on_batch = on_batch
        self._window: BatchWindow[_K] = BatchWindow(clock, idle_s=idle_s, max_s=max_s)
        self._waiting: dict[_K, asyncio.Future[_V | None]] = {}
        self._asked: dict[_K, asyncio.Future[_V | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_collecting = False

    async def ask(self, key: _K) -> _V | None:
        """Return the answer for a key, or nothing if its batch had none; raises what the batch raised."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = asyncio.get_running_loop().create_future()
            # Nobody may be left to hear of a failure; that is no reason to complain of it.
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._waiting[key] = waiting
            if not self._window.pending:
                self._opened_at = self._clock.monotonic()
            self._window.trigger(key)
            if not self._is_collecting:
                self._is_collecting = True
                self._start(self._collect())
        return await asyncio.shield(waiting)

    def settle(self, answers: Mapping[_K, _V]) -> None:
        """Answer some of a batch that is under way before the rest of it."""
        for key, answer in answers.items():
            waiting = self._asked.get(key)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    async def close(self) -> None:
        """Give up on what has not been answered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiting in self._waiting.values():
            waiting.cancel()

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _collect(self) -> None:
        try:
            while self._window.pending:
                keys = await self._window.wait()
                gathered_s = self._clock.monotonic() - self._opened_at
                # In the order in which they were asked; a set has none.
                asked = {key: self._waiting[key] for key in tuple(self._waiting) if key in keys}
                for key in asked:
                    del self._waiting[key]
                for part in chunks(tuple(asked), self._max_items):
                    self._on_batch(len(part), gathered_s)
                    self._start(self._run({key: asked[key] for key in part}))
        finally:
            self._is_collecting = False

    async def _run(self, asked: Mapping[_K, asyncio.Future[_V | None]]) -> None:
        self._asked.update(asked)
        try:
            answers = await self._answer(tuple(asked))
        except Exception as error:  # noqa: BLE001 - whoever asked is told, whatever it was
            for waiting in asked.values():
                if not waiting.done():
                    waiting.set_exception(error)
        except asyncio.CancelledError:
            for waiting in asked.values():
                waiting.cancel()
            raise
        else:
            for key, waiting in asked.items():
                if not waiting.done():
                    waiting.set_result(answers.get(key))
        finally:
            self._forget(asked)

    def _forget(self, asked: Mapping[_K, asyncio.Future[_V | None]]) -> None:
        for key, waiting in asked.items():
            # The same may have been asked again meanwhile.
            if self._asked.get(key) is waiting:
                del self._asked[key]


def chunks(items: Sequence[_K], size: int) -> Iterable[Sequence[_K]]:
    """Yield the items in order, at most ``size`` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
