# SPDX-License-Identifier: Apache-2.0
import pytest
from benchmarks.consolidation.traces import Trace, Week, run_week

from karpenter.consolidation.types import Settings


def week(trace: Trace, settings: Settings | None = None) -> Week:
    """Return a day of a small cluster, kept by the search or, without settings, by nobody."""
    return run_week(trace, "none" if settings is None else "search", nodes=4, days=1, settings=settings)


def test_tidying_up_before_the_first_day_is_told_apart_from_the_days() -> None:
    nobody = week("day")

    eager = week("day", Settings(tries=5, eviction_price=0.0))

    assert (nobody.start, nobody.evictions) == (0, 0)
    assert eager.start > 0
    assert eager.evictions == eager.first_day == eager.last_day
    assert eager.prices[0] < nobody.prices[0]


def test_everybody_starts_from_the_same_cluster() -> None:
    reluctant = week("spot", Settings(tries=5, eviction_price=1e6))

    assert reluctant.prices == week("spot").prices


def test_a_week_costs_what_its_hours_cost() -> None:
    found = week("spot")

    assert len(found.prices) == 144
    assert found.dollars == pytest.approx(sum(found.prices) / 6)
