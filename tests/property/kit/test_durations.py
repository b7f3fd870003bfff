# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from karpenter.kit.durations import (
    NEVER,
    Duration,
    DurationError,
    parse_budget_duration,
    parse_duration,
    parse_nillable_duration,
)

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
DURATIONS = st.builds(Duration, st.integers(-(2**63), 2**63 - 1))
SHORT_DURATIONS = st.builds(Duration, st.integers(0, 10**18))


@given(DURATIONS)
def test_both_printed_forms_read_back_the_same(duration: Duration) -> None:
    assert parse_duration(str(duration)) == duration
    assert parse_duration(duration.short()) == duration
    assert len(duration.short()) <= len(str(duration))


@given(st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(sorted(UNITS))), min_size=1, max_size=6))
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)

    assert parse_duration(text).nanoseconds == sum(number * UNITS[unit] for number, unit in parts)


@given(st.one_of(st.text(max_size=20), st.text(alphabet="0123456789.+-numshNever", max_size=10)))
def test_any_text_is_a_duration_or_refused_and_nothing_else_happens(text: str) -> None:
    with contextlib.suppress(DurationError):
        assert parse_duration(str(parse_duration(text))) == parse_duration(text)


@given(st.text(alphabet="0123456789hms.-", max_size=8))
def test_the_fields_take_what_their_published_patterns_take(text: str) -> None:
    nillable = re.search(r"^(([0-9]+(s|m|h))+|Never)\Z", text) is not None
    budget = re.search(r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)\Z", text) is not None

    taken = []
    for parse in (parse_nillable_duration, parse_budget_duration):
        try:
            parse(text)
        except DurationError as error:
            taken.append("292 years" in error.message)
        else:
            taken.append(True)

    assert taken == [nillable, budget]


@given(SHORT_DURATIONS, st.timedeltas(timedelta(0), timedelta(days=36_500)))
def test_a_duration_has_elapsed_exactly_when_its_end_has_come(duration: Duration, passed: timedelta) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    assert duration.has_elapsed(start, start + passed) == (start + passed >= duration.ends(start))
    assert not NEVER.has_elapsed(start, start + passed)
