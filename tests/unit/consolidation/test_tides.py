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
    yesterday = [100.0] * 6 + [110.0] + [100.0] * 41

    assert watched(*yesterday, 100.0).life_h() == 3.0
    assert watched(*yesterday, 110.0).life_h() == pytest.approx(0.55)


def test_what_goes_up_by_a_few_per_cent_is_no_more_than_before() -> None:
    yesterday = [100.0, 102.0, 101.0] * 16

    assert watched(*yesterday, 100.0).life_h() == math.inf


def test_where_less_was_asked_for_waiting_would_spare_evictions() -> None:
    # A quarter was gone after two hours, so that in eight all would be; a tenth of that is believed.
    assert watched(*[100.0] * 4, 75.0, *[100.0] * 43, 100.0).life_h() == pytest.approx(0.8)


def test_the_moment_counts_at_which_waiting_spares_most_for_its_time() -> None:
    slow = watched(*[100.0 - slot for slot in range(48)], 100.0)
    sudden = watched(*[100.0] * 20, *[50.0] * 28, 100.0)

    # Two in a hundred are gone each hour; or half of all after ten.
    assert slow.life_h() == pytest.approx(5.0)
    assert sudden.life_h() == pytest.approx(2.0)


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
