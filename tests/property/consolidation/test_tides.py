# SPDX-License-Identifier: Apache-2.0
"""What holds of the life of a saving, however the day before went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.consolidation.tides import DAY_SLOTS, NOISE, SLOT_S, Tide

START_S = 1_800_000.0
SLOT_H = SLOT_S / 3600.0

days = st.lists(st.integers(1, 500), min_size=DAY_SLOTS + 1, max_size=DAY_SLOTS + 1)


def watched(levels: list[int], times: int = 1) -> Tide:
    tide = Tide()
    for slot, level in enumerate(levels):
        tide = tide.seen(float(level * times), START_S + slot * SLOT_S)
    return tide


@given(days)
def test_no_saving_outlives_the_first_moment_with_clearly_more(levels: list[int]) -> None:
    now = levels[-1]

    life_h = watched(levels).life_h()

    higher = [slot for slot, level in enumerate(levels[:-1]) if level > now * (1 + NOISE)]
    assert life_h >= 0.0
    assert not higher or life_h <= higher[0] * SLOT_H


@given(days, st.sampled_from((2, 4, 8)))
def test_the_size_of_the_cluster_does_not_matter(levels: list[int], times: int) -> None:
    assert watched(levels, times).life_h() == pytest.approx(watched(levels).life_h())


@given(days, st.integers(1, DAY_SLOTS - 1))
def test_fewer_replicas_later_never_lengthen_a_life(levels: list[int], slot: int) -> None:
    level = min(levels[slot], levels[-1])
    same = [*levels[:slot], level, *levels[slot + 1 :]]
    fewer = [*levels[:slot], level // 2, *levels[slot + 1 :]]

    assert watched(fewer).life_h() <= watched(same).life_h()
