# SPDX-License-Identifier: Apache-2.0
"""What is going to happen: a queue of due times, lived through when somebody asks.

Nothing runs by itself. ``settle`` does, in the order of the due times, all that has become due; each step is told
the moment it was due, not the moment at which it was noticed, so that a model that nobody asked for an hour has
the same history as one that was asked every second.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime

__all__ = ["Step", "Timers"]

Step = Callable[[datetime], None]


class Timers:
    """Steps in the order of their due times; equal ones in the order in which they were set."""

    def __init__(self) -> None:
        self._queue: list[tuple[datetime, int, str, Step]] = []
        self._order = 0

    def at(self, due: datetime, what: str, step: Step) -> None:
        """Sets a step; ``what`` says in a few words what it does."""
        self._order += 1
        heapq.heappush(self._queue, (due, self._order, what, step))

    def settle(self, now: datetime) -> int:
        """Does all that is due and says how many steps that were."""
        done = 0
        while self._queue and self._queue[0][0] <= now:
            due, _, _, step = heapq.heappop(self._queue)
            step(due)
            done += 1
        return done

    def next_due(self) -> datetime | None:
        """Gives the moment of the next step, None when there is none."""
        return self._queue[0][0] if self._queue else None

    def upcoming(self, count: int = 20) -> list[tuple[datetime, str]]:
        """Gives the next steps, for a person to read."""
        return [(due, what) for due, _, what, _ in heapq.nsmallest(count, self._queue)]
