# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from karpenter.consolidation.tides import DAY_SLOTS, SLOT_S, Tide
from tests.unit.consolidation.world import NOW


def watched(*levels: float) -> Tide:
    tide = Tide()
    for slot, level in enumerate(levels):
        tide = tide.seen(level, NOW + slot * SLOT_S)
    return tide


def test_before_a_day_is_known_nothing_is_said() -> None:
    tide = watched(*[1.0, 2.0] * (DAY_SLOTS // 2))

    assert not tide.knows_a_day
    assert tide.life_h() == math.inf
    assert tide.seen(1.0, NOW + DAY_SLOTS * SLOT_S).knows_a_day


def test_what_never_changes_lasts_without_end() -> None:
    assert watched(*[100.0] * 60).life_h() == math.inf


def test_life_ends_where_more_was_asked_for_yesterday() -> None:
    yesterday = [100.0] * 6 + [101.0] + [100.0] * 41

    assert watched(*yesterday, 100.0).life_h() == 3.0
    assert watched(*yesterday, 101.0).life_h() == math.inf


@pytest.mark.parametrize(("less", "life_h"), [(96.0, math.inf), (94.0, 2.0)])
def test_somewhat_less_is_no_other_situation(less: float, life_h: float) -> None:
    assert watched(*[100.0] * 4, less, *[100.0] * 43, 100.0).life_h() == life_h


def test_the_most_of_a_half_hour_counts_and_the_level_is_that_of_now() -> None:
    tide = Tide().seen(5.0, NOW).seen(9.0, NOW + 60).seen(7.0, NOW + 120)

    assert tide.levels == (9.0,)
    assert tide.level == 7.0


def test_a_gap_counts_as_if_nothing_had_happened_in_it() -> None:
    tide = Tide().seen(5.0, NOW).seen(8.0, NOW + 3 * SLOT_S)

    assert tide.levels == (5.0, 5.0, 5.0, 8.0)


@pytest.mark.parametrize("moment", [NOW - SLOT_S, NOW + DAY_SLOTS * SLOT_S])
def test_a_gap_of_a_day_and_a_clock_that_goes_backwards_begin_anew(moment: float) -> None:
    assert Tide().seen(5.0, NOW).seen(8.0, moment).levels == (8.0,)


def test_no_more_than_a_day_is_kept() -> None:
    tide = watched(*[float(level) for level in range(200)])

    assert tide.levels == tuple(float(level) for level in range(200 - DAY_SLOTS - 1, 200))
