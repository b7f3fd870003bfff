# SPDX-License-Identifier: Apache-2.0
"""Lines that tell a waiting person how long it has taken so far.

Says nothing for the first two seconds (most waits end by then) and then a line now and again, never one a
tick.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Progress", "Say", "elapsed_text"]

Say = Callable[[str], None]


class Progress:
    """Turns frequent ticks into rare lines, each with the time since the start."""

    def __init__(
        self,
        say: Say,
        *,
        quiet_s: float = 2.0,
        every_s: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._every_s = every_s
        self._clock = clock
        self._started = clock()
        self._next_line = self._started + quiet_s

    @property
    def elapsed_s(self) -> float:
        """The seconds since the start."""
        return self._clock() - self._started

    def tick(self, text: str) -> None:
        """Print ``text`` with the elapsed time when a line is due."""
        if self._clock() >= self._next_line:
            self._next_line = self._clock() + self._every_s
            self.line(text)

    def line(self, text: str) -> None:
        """Print ``text`` with the elapsed time at once."""
        self._say(f"{elapsed_text(self.elapsed_s):>11}  {text}")


def elapsed_text(seconds: float) -> str:
    """Return a duration as a person says it: ``3 s`` or ``12 min 05 s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
