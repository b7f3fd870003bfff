# SPDX-License-Identifier: Apache-2.0
"""For how long things stay as they are, if today is like yesterday: how much was asked for, half hour by half hour.

A saving that is bought with evictions lasts until the cluster is another one. If more was asked for an hour later
yesterday, what is taken away now will be bought back in an hour. If less was, the nodes will have fewer pods by then,
and taking them away will cost fewer evictions. So the life of a saving ends where yesterday's curve leaves the level of
now: at once where there was more, with some tolerance where there was less.

Nothing is said before a whole day is known. A clock that goes backwards, and a gap of a day, begin anew; a shorter gap
counts as if nothing had happened in it.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
from msgspec.structs import replace

__all__ = ["Tide"]

SLOT_S: Final = 1800.0
DAY_SLOTS: Final = 48
# So much less than now is not another situation yet.
TOLERANCE: Final = 0.05

_SLOT_H: Final = SLOT_S / 3600.0


class Tide(msgspec.Struct, frozen=True):
    """How much was asked for over the last day.

    Attributes:
        level: How much is asked for now.
        last: The half hour of now, counted from 1970.
        levels: The most of each half hour, oldest first, with that of now; at most a day of them before.
    """

    level: float = 0.0
    last: int = 0
    levels: tuple[float, ...] = ()

    def seen(self, level: float, now: float) -> Tide:
        """Note how much is asked for now."""
        slot = int(now // SLOT_S)
        passed = slot - self.last
        if not self.levels or not 0 <= passed < DAY_SLOTS:
            return Tide(level, slot, (level,))
        if passed == 0:
            return replace(self, level=level, levels=(*self.levels[:-1], max(self.levels[-1], level)))
        between = (self.level,) * (passed - 1)
        return Tide(level, slot, (*self.levels, *between, level)[-DAY_SLOTS - 1 :])

    @property
    def knows_a_day(self) -> bool:
        """Whether it has been watched for a whole day."""
        return len(self.levels) > DAY_SLOTS

    def life_h(self) -> float:
        """Return for how many hours things stay as they are if today is like yesterday.

        Without end if they never change, or nothing is known of yesterday.
        """
        if not self.knows_a_day:
            return math.inf
        least = self.level * (1.0 - TOLERANCE)
        for slots, level in enumerate(self.levels[:-1]):
            if not least <= level <= self.level:
                return slots * _SLOT_H
        return math.inf
