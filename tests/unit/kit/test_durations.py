# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from karpenter.kit.durations import (
    NEVER,
    Duration,
    DurationError,
    Never,
    later,
    parse_budget_duration,
    parse_duration,
    parse_nillable_duration,
)

ROWS: list[list[Any]] = json.loads((Path(__file__).parent / "vectors" / "durations.json").read_text())
ACCEPTED = [row for row in ROWS if row[1] is not None]
REFUSED = [row[0] for row in ROWS if row[1] is None]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("row", ACCEPTED, ids=lambda row: repr(row[0]))
def test_a_text_means_what_it_means_to_go(row: list[Any]) -> None:
    text, nanoseconds, printed = row

    duration = parse_duration(text)

    assert duration.nanoseconds == nanoseconds
    assert str(duration) == printed


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_a_text_that_go_refuses_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)

    assert "is not a duration" in caught.value.message
    assert caught.value.hint


def test_a_bare_number_is_refused_with_a_hint() -> None:
    for raw in ("30", 30):
        with pytest.raises(DurationError) as caught:
            parse_duration(raw)

        assert caught.value.hint == 'add a unit: "30s" for seconds, "30m" for minutes, "30h" for hours'


def test_days_are_refused_with_the_hours_as_a_hint() -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration("30d")

    assert caught.value.hint == 'write days as hours: "720h"'


def test_a_number_of_any_length_is_refused_quickly() -> None:
    for text in ("9" * 100_000 + "s", "9" * 100_000):
        with pytest.raises(DurationError) as caught:
            parse_duration(text)

        assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("1h30m", "1h30m"),
        ("90m", "1h30m"),
        ("720h", "720h"),
        ("1h5s", "1h5s"),
        ("10m", "10m"),
        ("30s", "30s"),
        ("1m500ms", "1m0.5s"),
        ("1500us", "1.5ms"),
        ("-2h", "-2h"),
        ("0", "0s"),
    ],
)
def test_the_short_form_leaves_out_what_is_zero(text: str, short: str) -> None:
    assert parse_duration(text).short() == short


def test_a_duration_is_given_in_the_unit_that_is_needed() -> None:
    duration = Duration.of(hours=1, minutes=2, seconds=3, milliseconds=4)

    assert duration.nanoseconds == 3_723_004_000_000
    assert Duration.of() == Duration(0)
    assert duration.milliseconds == 3_723_004
    assert duration.seconds == pytest.approx(3723.004)
    assert duration.timedelta == timedelta(hours=1, minutes=2, seconds=3, milliseconds=4)


def test_milliseconds_are_cut_off_towards_zero() -> None:
    assert Duration(1_999_999).milliseconds == 1
    assert Duration(-1_999_999).milliseconds == -1


def test_a_timedelta_is_never_shorter_than_the_duration() -> None:
    assert Duration(1).timedelta == timedelta(microseconds=1)


def test_a_duration_beyond_64_bits_cannot_be_made() -> None:
    with pytest.raises(DurationError) as caught:
        Duration.of(hours=2_562_048)

    assert "292 years" in caught.value.hint


def test_durations_are_ordered_by_length() -> None:
    assert parse_duration("59m") < parse_duration("1h") <= parse_duration("60m")


def test_a_duration_has_elapsed_at_its_very_end() -> None:
    hour = parse_duration("1h")

    assert hour.ends(NOON) == NOON + timedelta(hours=1)
    assert hour.has_elapsed(NOON, NOON + timedelta(hours=1))
    assert not hour.has_elapsed(NOON, NOON + timedelta(minutes=59, seconds=59))


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (60, NOON + timedelta(minutes=1)),
        (timedelta(minutes=-1), NOON - timedelta(minutes=1)),
        (10**11 * 10, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (2**63 - 1, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (-(2**63), datetime(1, 1, 1, tzinfo=UTC)),
        (timedelta.max, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (timedelta.min, datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_sum_beyond_all_dates_is_the_last_or_the_first_one(
    length: float | timedelta, expected: datetime
) -> None:
    assert later(NOON, length) == expected


def test_a_duration_that_begins_at_the_last_moment_ends_there() -> None:
    assert Duration.of(hours=1).ends(datetime.max.replace(tzinfo=UTC)).year == 9999


def test_never_is_not_a_number_of_seconds() -> None:
    never = parse_nillable_duration("Never")

    assert never is NEVER
    assert not hasattr(never, "seconds")
    assert not isinstance(never, Duration)
    with pytest.raises(TypeError):
        assert never < parse_duration("1h")  # type: ignore[operator]


def test_never_does_not_elapse() -> None:
    assert not NEVER.has_elapsed(NOON, NOON + timedelta(days=100_000))
    assert NEVER.ends(NOON) is None


def test_never_is_printed_as_it_is_written_and_stays_one_value() -> None:
    assert str(NEVER) == NEVER.short() == "Never"
    assert pickle.loads(pickle.dumps(NEVER)) is Never.NEVER  # noqa: S301 - our own bytes


@pytest.mark.parametrize("text", ["0s", "30s", "720h", "1h30m", "1h30m15s", "5m5m", "15s1h"])
def test_a_field_that_may_be_never_takes_whole_seconds_minutes_and_hours(text: str) -> None:
    assert parse_nillable_duration(text) == parse_duration(text)


@pytest.mark.parametrize("text", ["1.5h", "-1h", "+1h", "100ms", "0", "1h\n"])
def test_a_field_that_may_be_never_refuses_other_durations(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_nillable_duration(text)

    assert caught.value.hint


@pytest.mark.parametrize("text", ["never", "NEVER"])
def test_never_in_another_spelling_is_refused_with_the_right_one(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_nillable_duration(text)

    assert caught.value.hint == 'the word is spelt "Never", and only some fields allow it'


def test_what_gives_no_clue_is_refused_with_examples() -> None:
    with pytest.raises(DurationError) as caught:
        parse_nillable_duration("soon")

    assert caught.value.hint == 'write for example "30s", "1h30m" or "720h"'


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("8h", 480), ("30m", 30), ("1h30m", 90), ("8h0s", 480), ("1h30m0s", 90), ("90m", 90)],
)
def test_a_budget_lasts_whole_hours_and_minutes(text: str, minutes: int) -> None:
    assert parse_budget_duration(text) == Duration.of(minutes=minutes)


@pytest.mark.parametrize("text", ["30s", "1h30s", "30m1h", "1.5h", "-8h", "1h1h", "Never", "8"])
def test_a_budget_refuses_other_durations(text: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_budget_duration(text)

    assert caught.value.hint
