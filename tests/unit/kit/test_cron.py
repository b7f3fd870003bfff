# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from karpenter.kit.cron import CronError, EverySchedule, Schedule, parse
from karpenter.kit.durations import parse_duration

ROWS: list[list[Any]] = json.loads((Path(__file__).parent / "vectors" / "cron.json").read_text())
ACCEPTED = [row for row in ROWS if row[3] is not None]
REFUSED = [row for row in ROWS if row[3] is None]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def local_hits(schedule: Schedule, zone: str, after: str, count: int) -> list[str]:
    """Lists the next hits as a clock on the wall shows them, with the offset."""
    hits = []
    moment: datetime | None = at(after)
    for _ in range(count):
        assert moment is not None
        moment = schedule.next(moment)
        assert moment is not None
        hits.append(moment.astimezone(ZoneInfo(zone)).isoformat(" ", "minutes"))
    return hits


@pytest.mark.parametrize("row", ACCEPTED, ids=lambda row: " | ".join(row[:3]))
def test_the_next_hits_are_those_of_robfig_cron(row: list[Any]) -> None:
    text, zone, after, expected = row

    schedule = parse(text, zone)

    moment: datetime | None = at(after)
    for hit in expected:
        assert moment is not None
        moment = schedule.next(moment)
        assert moment == (None if hit is None else at(hit))


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: repr(row[0]))
def test_what_robfig_cron_refuses_is_refused_with_a_hint(row: list[Any]) -> None:
    with pytest.raises(CronError) as caught:
        parse(row[0], row[1])

    assert caught.value.message
    assert caught.value.hint


def test_the_error_names_field_value_and_allowed_range() -> None:
    with pytest.raises(CronError) as caught:
        parse("0 24 * * *")

    assert caught.value.field == "hour"
    assert caught.value.value == "24"
    assert caught.value.allowed == "0-23"
    assert str(caught.value) == 'cron field hour: "24" is out of range (allowed: 0-23)'


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0 0 * * 7", "Sunday is 0"),
        ("0 22-4 * * *", 'write "22-23,0-4" to go round the end'),
        ("0 0 * * MONDAY", 'write "MON"'),
        ("0 0 * january *", 'write "JAN"'),
        ("@every 30", 'add a unit: "30s" for seconds, "30m" for minutes, "30h" for hours'),
        ("@reboot", "write @yearly, @monthly, @weekly, @daily, @hourly, or five fields"),
    ],
)
def test_the_hint_says_what_to_write_instead(text: str, hint: str) -> None:
    with pytest.raises(CronError) as caught:
        parse(text)

    assert caught.value.hint == hint


def test_a_long_text_is_refused_with_a_short_message() -> None:
    for text in ("x" * 10_000, "@" + "x" * 10_000, "x" * 10_000 + " * * * *", f"TZ={'x' * 10_000} * * * * *"):
        with pytest.raises(CronError) as caught:
            parse(text)

        assert len(caught.value.message) < 250


@pytest.mark.parametrize(
    "zone", ["Local", "localtime", "Mars/Olympus", "America", "/etc/localtime", "\0"], ids=repr
)
def test_a_zone_that_is_unknown_or_depends_on_the_machine_is_refused(zone: str) -> None:
    with pytest.raises(CronError) as caught:
        parse("0 9 * * *", zone)

    assert caught.value.field == "time zone"
    assert caught.value.value == zone
    assert "Europe/Berlin" in caught.value.hint


def test_a_zone_in_the_text_wins_over_the_one_beside_it() -> None:
    schedule = parse("CRON_TZ=Asia/Tokyo 0 9 * * *", "America/New_York")

    assert schedule.next(at("2026-01-01T00:00:00Z")) == at("2026-01-02T00:00:00Z")


def test_times_are_given_in_utc_whatever_zone_was_asked_in() -> None:
    schedule = parse("0 9 * * *", "Europe/Berlin")

    hit = schedule.next(at("2026-01-01T03:00:00-05:00"))

    assert hit == at("2026-01-02T08:00:00Z")
    assert hit is not None
    assert hit.tzinfo is UTC


def test_a_time_without_a_zone_is_refused() -> None:
    schedule = parse("@daily")

    with pytest.raises(ValueError, match="has no time zone"):
        schedule.next(datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(ValueError, match="has no time zone"):
        schedule.previous(datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_skipped_hour_is_not_hit_that_day() -> None:
    schedule = parse("30 2 * * *", "America/New_York")

    hits = local_hits(schedule, "America/New_York", "2026-03-07T12:00:00Z", 2)

    assert hits == ["2026-03-09 02:30-04:00", "2026-03-10 02:30-04:00"]


def test_a_repeated_hour_is_hit_twice() -> None:
    schedule = parse("30 1 * * *", "America/New_York")

    hits = local_hits(schedule, "America/New_York", "2026-10-31T12:00:00Z", 3)

    assert hits == ["2026-11-01 01:30-04:00", "2026-11-01 01:30-05:00", "2026-11-02 01:30-05:00"]


def test_a_day_that_begins_at_one_is_not_lost() -> None:
    # Midnight was skipped in Cairo on Friday 26 April 2024; robfig/cron then goes on to the week after.
    schedule = parse("0 9 * * FRI", "Africa/Cairo")

    hits = local_hits(schedule, "Africa/Cairo", "2024-04-21T00:00:00Z", 2)

    assert hits == ["2024-04-26 09:00+03:00", "2024-05-03 09:00+03:00"]


def test_a_switch_of_half_an_hour_loses_no_hit() -> None:
    # Lord Howe's clocks go back from 02:00 to 01:30.
    schedule = parse("45 1 * * *", "Australia/Lord_Howe")

    hits = local_hits(schedule, "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 3)

    assert hits == ["2026-04-05 01:45+11:00", "2026-04-05 01:45+10:30", "2026-04-06 01:45+10:30"]


def test_a_day_that_is_left_and_entered_again_loses_no_hit() -> None:
    # At one minute past midnight St. John's went back to 23:01 of the day before.
    schedule = parse("0,30 0,23 * * *", "America/St_Johns")

    hits = local_hits(schedule, "America/St_Johns", "2010-11-07T01:00:00Z", 5)

    assert hits == [
        "2010-11-06 23:00-02:30",
        "2010-11-06 23:30-02:30",
        "2010-11-07 00:00-02:30",
        "2010-11-06 23:30-03:30",
        "2010-11-07 00:00-03:30",
    ]


def test_previous_walks_the_same_hits_backwards() -> None:
    schedule = parse("0,30 0,23 * * *", "America/St_Johns")
    forward = [at("2010-11-07T00:00:00Z")]
    for _ in range(8):
        following = schedule.next(forward[-1])
        assert following is not None
        forward.append(following)

    backward = [forward[-1]]
    for _ in range(7):
        earlier = schedule.previous(backward[-1])
        assert earlier is not None
        backward.append(earlier)

    assert backward == forward[:0:-1]


def test_previous_is_earlier_even_by_less_than_a_second() -> None:
    schedule = parse("0 9 * * *")

    assert schedule.previous(at("2026-01-02T09:00:00Z")) == at("2026-01-01T09:00:00Z")
    assert schedule.previous(at("2026-01-02T09:00:00.000001Z")) == at("2026-01-02T09:00:00Z")


def test_previous_looks_back_to_the_fifth_year_by_the_calendar_of_the_zone() -> None:
    # 2100 is no leap year, so the last 29 February before 2104 is that of 2096.
    schedule = parse("0 0 29 2 *", "America/New_York")

    assert schedule.previous(at("2102-01-01T03:00:00Z")) == at("2096-02-29T05:00:00Z")
    assert schedule.previous(at("2102-01-01T06:00:00Z")) is None


@pytest.mark.parametrize("text", ["0 0 30 2 *", ", * * * *", "* , * * *", "* * * , *"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_schedule_without_any_hit_has_no_next_and_no_previous(text: str, zone: str) -> None:
    schedule = parse(text, zone)

    assert schedule.next(at("2026-01-01T00:00:00Z")) is None
    assert schedule.previous(at("2026-01-01T00:00:00Z")) is None
    assert not schedule.is_active(at("2026-01-01T00:00:00Z"), parse_duration("720h"))


def test_the_ends_of_the_calendar_are_no_trouble() -> None:
    schedule = parse("0 0 31 12 *", "America/New_York")

    assert schedule.next(datetime.max.replace(tzinfo=UTC)) is None
    assert schedule.previous(datetime.min.replace(tzinfo=UTC)) is None
    assert schedule.next(at("9998-12-31T12:00:00Z")) is None
    assert schedule.previous(at("0002-12-30T00:00:00Z")) is None


def test_every_counts_from_the_moment_that_is_asked_about() -> None:
    schedule = parse("@every 1h30m")

    assert schedule == EverySchedule(5400)
    assert schedule.next(at("2026-01-01T00:00:00.75Z")) == at("2026-01-01T01:30:00Z")
    assert schedule.previous(at("2026-01-01T01:29:59.25Z")) == at("2026-01-01T00:00:00Z")


def test_a_window_opens_at_the_hit_and_is_closed_at_its_end() -> None:
    schedule = parse("0 9 * * MON-FRI")
    eight_hours = parse_duration("8h")
    opening = at("2026-01-05T09:00:00Z")

    assert not schedule.is_active(opening - timedelta(microseconds=1), eight_hours)
    assert schedule.is_active(opening, eight_hours)
    assert schedule.is_active(opening + timedelta(hours=8) - timedelta(microseconds=1), eight_hours)
    assert not schedule.is_active(opening + timedelta(hours=8), eight_hours)


def test_windows_longer_than_their_distance_are_always_open() -> None:
    schedule = parse("@daily")

    assert schedule.is_active(at("2026-01-05T23:59:59Z"), parse_duration("25h"))


def test_a_window_of_no_length_is_never_open() -> None:
    assert not parse("* * * * *").is_active(at("2026-01-05T09:00:00Z"), parse_duration("0s"))
