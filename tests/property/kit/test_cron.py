# SPDX-License-Identifier: Apache-2.0
"""Schedules against the plainest oracle there is: look at the wall clock of the zone, minute by minute."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import example, given, settings
from hypothesis import strategies as st

from karpenter.kit.cron import CronError, parse
from karpenter.kit.durations import Duration

MINUTE = timedelta(minutes=1)
LOOK_FOR = timedelta(hours=50)

# A day before switches of every kind: ordinary, of half an hour, at midnight, across midnight, of a rule that
# differs each year; and zones that never switch.
STARTS = [
    ("UTC", "2024-02-28T12:00:00Z"),
    ("Asia/Kathmandu", "2024-12-31T00:00:00Z"),
    ("America/New_York", "2024-03-09T12:00:00Z"),
    ("America/New_York", "2024-11-02T12:00:00Z"),
    ("Europe/London", "2024-03-30T12:00:00Z"),
    ("Europe/London", "2024-10-26T12:00:00Z"),
    ("Australia/Lord_Howe", "2024-04-05T15:00:00Z"),
    ("Australia/Lord_Howe", "2024-10-04T15:00:00Z"),
    ("Africa/Cairo", "2024-04-25T00:00:00Z"),
    ("Africa/Cairo", "2024-10-31T00:00:00Z"),
    ("America/Sao_Paulo", "2018-11-03T00:00:00Z"),
    ("America/Sao_Paulo", "2019-02-16T00:00:00Z"),
    ("America/St_Johns", "2010-11-06T00:00:00Z"),
    ("Africa/Casablanca", "2025-02-22T00:00:00Z"),
    ("Antarctica/Troll", "2024-03-30T00:00:00Z"),
    ("Pacific/Apia", "2011-12-29T00:00:00Z"),
]


@dataclass(frozen=True)
class Field:
    """A field as text beside the numbers it stands for, computed without the parser."""

    text: str
    numbers: frozenset[int]
    has_star: bool


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, names: str = "") -> Field:
    words = names.split()
    texts, numbers, has_star = [], set[int](), False
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(low, high))
        last = draw(st.integers(first, high))
        step = draw(st.sampled_from([1, 1, 2, 3, 7, 100]))
        named = bool(words) and draw(st.booleans())
        shown = [words[number - low] if named else str(number) for number in (first, last)]
        kind = draw(st.sampled_from(["star", "one", "range", "from"]))
        if kind == "star":
            texts.append(
                draw(st.sampled_from("*?")) + (f"/{step}" if step > 1 or draw(st.booleans()) else "")
            )
            numbers.update(range(low, high + 1, step))
            has_star |= step == 1
        elif kind == "one":
            texts.append(shown[0])
            numbers.add(first)
        elif kind == "range":
            texts.append(f"{shown[0]}-{shown[1]}/{step}")
            numbers.update(range(first, last + 1, step))
        else:
            texts.append(f"{shown[0]}/{step}")
            numbers.update(range(first, high + 1, step))
    return Field(",".join(texts), frozenset(numbers), has_star)


@dataclass(frozen=True)
class Fields:
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        return " ".join(field.text for field in (self.minute, self.hour, self.day, self.month, self.weekday))

    def shows(self, wall: datetime) -> bool:
        days = [wall.day in self.day.numbers, wall.isoweekday() % 7 in self.weekday.numbers]
        return (
            wall.second == 0
            and wall.minute in self.minute.numbers
            and wall.hour in self.hour.numbers
            and wall.month in self.month.numbers
            and (all(days) if self.day.has_star or self.weekday.has_star else any(days))
        )


SCHEDULES = st.builds(
    Fields,
    fields(0, 59),
    fields(0, 23),
    fields(1, 31),
    fields(1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    fields(0, 6, "SUN MON TUE WED THU FRI SAT"),
)
STAR = Field("*", frozenset(range(60)), has_star=True)
AT_MIDNIGHT = Field("0", frozenset({0}), has_star=False)


def looked_up(schedule: Fields, zone: str, start: datetime) -> list[datetime]:
    minutes = range(LOOK_FOR // MINUTE)
    moments = (start + MINUTE * (minute + 1) for minute in minutes)
    return [moment for moment in moments if schedule.shows(moment.astimezone(ZoneInfo(zone)))]


@settings(deadline=None)
@given(SCHEDULES, st.sampled_from(STARTS))
@example(Fields(AT_MIDNIGHT, STAR, STAR, STAR, STAR), ("Africa/Cairo", "2024-04-25T00:00:00Z"))
@example(Fields(AT_MIDNIGHT, AT_MIDNIGHT, STAR, STAR, STAR), ("Africa/Cairo", "2024-10-31T00:00:00Z"))
@example(Fields(AT_MIDNIGHT, AT_MIDNIGHT, STAR, STAR, STAR), ("Pacific/Apia", "2011-12-29T00:00:00Z"))
def test_next_finds_exactly_the_minutes_that_the_wall_clock_shows(
    fields: Fields, start_at: tuple[str, str]
) -> None:
    zone, start = start_at[0], datetime.fromisoformat(start_at[1])
    expected = looked_up(fields, zone, start)
    schedule = parse(fields.text, zone)

    found = []
    hit = schedule.next(start)
    while hit is not None and hit <= start + LOOK_FOR:
        found.append(hit)
        hit = schedule.next(hit)

    assert found == expected


@settings(deadline=None)
@given(SCHEDULES, st.sampled_from(STARTS))
@example(Fields(AT_MIDNIGHT, AT_MIDNIGHT, STAR, STAR, STAR), ("Africa/Cairo", "2024-10-31T00:00:00Z"))
def test_previous_finds_the_same_minutes_from_the_other_side(
    fields: Fields, start_at: tuple[str, str]
) -> None:
    zone, start = start_at[0], datetime.fromisoformat(start_at[1])
    expected = looked_up(fields, zone, start)
    schedule = parse(fields.text, zone)

    found = []
    hit = schedule.previous(start + LOOK_FOR + MINUTE)
    while hit is not None and hit > start:
        found.append(hit)
        hit = schedule.previous(hit)

    assert found[::-1] == expected


@settings(deadline=None)
@given(SCHEDULES, st.sampled_from(STARTS), st.integers(0, 2999), st.integers(0, 600))
def test_a_window_is_open_exactly_if_a_hit_lies_within_its_duration(
    fields: Fields, start_at: tuple[str, str], minute: int, minutes_open: int
) -> None:
    zone, start = start_at[0], datetime.fromisoformat(start_at[1])
    now = start + MINUTE * minute
    walls = ((now - MINUTE * back).astimezone(ZoneInfo(zone)) for back in range(minutes_open))
    expected = any(fields.shows(wall) for wall in walls)

    assert parse(fields.text, zone).is_active(now, Duration.of(minutes=minutes_open)) == expected


@settings(deadline=None)
@given(SCHEDULES, st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)), st.sampled_from(STARTS))  # noqa: DTZ001
def test_nothing_lies_between_a_moment_and_its_next_hit(
    fields: Fields, moment: datetime, start_at: tuple[str, str]
) -> None:
    schedule = parse(fields.text, start_at[0])
    after = moment.replace(tzinfo=UTC)

    hit = schedule.next(after)

    if hit is not None:
        assert hit > after
        assert fields.shows(hit.astimezone(ZoneInfo(start_at[0])))
        before = schedule.previous(hit)
        assert before is None or before <= after


@given(st.one_of(st.text(max_size=30), st.text(alphabet="0123456789*/-,? @TZ=MONJA", max_size=20)))
def test_any_text_is_a_schedule_or_refused_and_nothing_else_happens(text: str) -> None:
    with contextlib.suppress(CronError):
        hit = parse(text).next(datetime(2026, 1, 1, tzinfo=UTC))

        assert hit is None or hit > datetime(2026, 1, 1, tzinfo=UTC)
