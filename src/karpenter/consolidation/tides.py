# SPDX-License-Identifier: Apache-2.0
"""For how long things stay as they are, if today is like yesterday: how much was asked for, half hour by half hour.

A saving that is bought with evictions lasts until the cluster is another one. If more was asked for an hour later
yesterday, what is taken away now will be bought back in an hour: there its life ends. What goes up and down within a
few per cent anyway is no more than before.

If less was asked for, the saving lasts, but waiting would have spared evictions: a tenth fewer pods in an hour are a
tenth of the evictions, against an hour of the saving. So the life is worth no more than the hours until then over the
share of pods that is gone by then, of which a tenth is believed: pods that are moved and gone soon after were moved
for nothing.

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
# So much more than now is what goes up and down anyway.
NOISE: Final = 0.03
# What part of the time that waiting needs to spare all evictions a saving is expected to last.
PATIENCE: Final = 0.1

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
        """Return for how many hours a saving lasts if today is like yesterday.

        Without end if things never change, or nothing is known of yesterday.
        """
        if not self.knows_a_day:
            return math.inf
        most = self.level * (1.0 + NOISE)
        life_h = math.inf
        for slots, level in enumerate(self.levels[:-1]):
            hours = slots * _SLOT_H
            if level > most:
                return min(life_h, hours)
            if slots and level < self.level:
                life_h = min(life_h, PATIENCE * hours * self.level / (self.level - level))
        return life_h
