# SPDX-License-Identifier: Apache-2.0
"""Cron schedules with time zones, read as robfig/cron's standard parser reads them, which Karpenter uses.

Five fields (minute, hour, day of month, month, day of week), names (JAN, MON), ranges, steps, lists, ``*``
and ``?``; @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, ``@every 1h30m``; and a
``TZ=Zone`` or ``CRON_TZ=Zone`` prefix, which wins over the zone given beside the text. If both day fields are
restricted, a day that satisfies either is a hit; if one has a star (without a step above 1), both must hold.

A hit is a moment at which a clock on the wall of that zone shows a matching minute. So a time that the switch
to summer time skips is not hit that day, and one that the switch back repeats is hit twice. robfig/cron means
the same but steps by whole hours, and so loses hits beside switches at midnight or of half an hour.

Refused: weekday 7, numbers beyond their field, unknown zones, and the zones "Local" and "localtime",
because a schedule must not depend on the machine that reads it. A schedule without a hit for five years (30
February) has no next.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from karpenter.errors import KarpenterError
from karpenter.kit.durations import Duration, DurationError, parse_duration

__all__ = ["CronError", "EverySchedule", "FieldSchedule", "Schedule", "parse"]

_MOST_YEARS: Final = 5
_FIRST_YEAR: Final = 2
_LAST_YEAR: Final = 9998
# No zone on record went to another offset and back within six days, so looking this often misses no switch.
_LOOK_EVERY_S: Final = 5 * 86_400
_ONE_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WALL_EPOCH: Final = _EPOCH.replace(tzinfo=None)


class CronError(KarpenterError):
    """A text that is not a cron schedule.

    Attributes:
        field: The field at fault ("hour"), or empty when the text as a whole is.
        value: What stands there.
        allowed: What may stand there ("0-23").
    """

    def __init__(
        self, message: str, *, field: str = "", value: str = "", allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.value = value
        self.allowed = allowed


class Schedule(ABC):
    """A set of moments. Times given to it carry a zone, times that it gives are in UTC."""

    __slots__ = ()

    @abstractmethod
    def next(self, after: datetime) -> datetime | None:
        """Gives the first hit later than ``after``, or None if there is none for five years."""

    @abstractmethod
    def previous(self, before: datetime) -> datetime | None:
        """Gives the last hit earlier than ``before``, or None if there was none for five years."""

    def is_active(self, now: datetime, duration: Duration) -> bool:
        """Tells whether the window that each hit opens for ``duration`` is open at ``now``.

        As Karpenter's budgets: open at the hit itself, closed again exactly ``duration`` later.
        """
        hit = self.next(now - duration.timedelta)
        return hit is not None and hit <= now


@dataclass(frozen=True, slots=True)
class EverySchedule(Schedule):
    """``@every``: no moments of its own; the next hit is one period after whatever moment is asked about."""

    period_s: int

    def next(self, after: datetime) -> datetime | None:
        """Gives ``after``, cut to the second, plus the period."""
        return _moment(_seconds(after) + self.period_s)

    def previous(self, before: datetime) -> datetime | None:
        """Gives ``before``, rounded up to the second, minus the period."""
        return _moment(_seconds_rounded_up(before) - self.period_s)


@dataclass(frozen=True, slots=True)
class FieldSchedule(Schedule):
    """Five fields in a time zone; each field is a set of numbers, kept as the bits of an integer."""

    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    both_days_must_match: bool
    zone: ZoneInfo

    def next(self, after: datetime) -> datetime | None:
        """Gives the first hit later than ``after``, or None if there is none for five years."""
        if after.year > _LAST_YEAR:
            return None
        moment = _seconds(after) + 1
        offset = _offset(self.zone, moment)
        last_year = min(_wall(moment + offset).year + _MOST_YEARS, _LAST_YEAR)
        # Between two switches of the zone's offset the wall clock runs evenly, so a hit found on it counts
        # unless a switch comes first; then the search goes on from the switch.
        while wall := self._first_from(_wall(moment + offset + 59), last_year):
            hit = _wall_seconds(wall) - offset
            switch = _first_switch(self.zone, moment, hit)
            if switch is None:
                return _moment(hit)
            moment, offset = switch, _offset(self.zone, switch)
        return None

    def previous(self, before: datetime) -> datetime | None:
        """Gives the last hit earlier than ``before``, or None if there was none for five years."""
        if before.year < _FIRST_YEAR:
            return None
        moment = _seconds_rounded_up(before) - 1
        offset = _offset(self.zone, moment)
        first_year = max(_wall(moment + offset).year - _MOST_YEARS, _FIRST_YEAR)
        while wall := self._last_until(_wall(moment + offset), first_year):
            hit = _wall_seconds(wall) - offset
            switch = _last_switch(self.zone, hit, moment)
            if switch is None:
                return _moment(hit)
            moment, offset = switch - 1, _offset(self.zone, switch - 1)
        return None

    def _first_from(self, wall: datetime, last_year: int) -> datetime | None:
        day, hour, minute = wall.date(), wall.hour, wall.minute
        while day.year <= last_year:
            if not self.months >> day.month & 1:
                day = (day.replace(day=28) + 4 * _ONE_DAY).replace(day=1)
            else:
                found = self._first_time(hour, minute) if self._day_matches(day) else None
                if found is not None:
                    return _at(day, found)
                day += _ONE_DAY
            hour = minute = 0
        return None

    def _last_until(self, wall: datetime, first_year: int) -> datetime | None:
        day, hour, minute = wall.date(), wall.hour, wall.minute
        while day.year >= first_year:
            if not self.months >> day.month & 1:
                day = day.replace(day=1) - _ONE_DAY
            else:
                found = self._last_time(hour, minute) if self._day_matches(day) else None
                if found is not None:
                    return _at(day, found)
                day -= _ONE_DAY
            hour, minute = 23, 59
        return None

    def _day_matches(self, day: date) -> bool:
        day_of_month = bool(self.days >> day.day & 1)
        day_of_week = bool(self.weekdays >> day.isoweekday() % 7 & 1)
        if self.both_days_must_match:
            return day_of_month and day_of_week
        return day_of_month or day_of_week

    def _first_time(self, hour: int, minute: int) -> tuple[int, int] | None:
        if self.hours >> hour & 1:
            later = _lowest(self.minutes, minute)
            if later is not None:
                return hour, later
        next_hour, first_minute = _lowest(self.hours, hour + 1), _lowest(self.minutes, 0)
        return None if next_hour is None or first_minute is None else (next_hour, first_minute)

    def _last_time(self, hour: int, minute: int) -> tuple[int, int] | None:
        if self.hours >> hour & 1:
            earlier = _highest(self.minutes, minute)
            if earlier is not None:
                return hour, earlier
        last_hour, last_minute = _highest(self.hours, hour - 1), _highest(self.minutes, 59)
        return None if last_hour is None or last_minute is None else (last_hour, last_minute)


def parse(expression: str, time_zone: str = "UTC") -> Schedule:
    """Reads a schedule; blanks around it do not matter.

    Args:
        expression: Five fields or an @word, perhaps after ``TZ=Zone`` or ``CRON_TZ=Zone``.
        time_zone: The IANA name of the zone, if the expression names none.

    Raises:
        CronError: It is no schedule; the error names the field, its value, and what is allowed there.
    """
    shown = expression[:80]
    text = expression.strip()
    if text.startswith(("TZ=", "CRON_TZ=")):
        prefix, _, text = text.partition(" ")
        time_zone = prefix.partition("=")[2]
        text = text.strip()
    if text.startswith("@every "):
        return _every(text)
    text = _WORDS.get(text, text)
    if text.startswith("@"):
        raise CronError(
            f'cron "{shown}": there is no "{text[:80]}"',
            value=text,
            hint="write @yearly, @monthly, @weekly, @daily, @hourly, or five fields",
        )
    texts = text.split()
    if len(texts) != len(_FIELDS):
        raise CronError(
            f'cron "{shown}" has {len(texts)} fields, not 5',
            value=text,
            hint='write minute, hour, day of month, month and day of week, e.g. "0 9 * * MON-FRI"',
        )
    zone = _zone(time_zone)
    minute, hour, day, month, weekday = (
        _parse_field(part, field) for part, field in zip(texts, _FIELDS, strict=True)
    )
    return FieldSchedule(
        minutes=minute.bits,
        hours=hour.bits,
        days=day.bits,
        months=month.bits,
        weekdays=weekday.bits,
        both_days_must_match=day.has_star or weekday.has_star,
        zone=zone,
    )


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        words = f" or {self.names[0].upper()}-{self.names[-1].upper()}" if self.names else ""
        return f"{self.low}-{self.high}{words}"


class _Numbers(NamedTuple):
    bits: int
    has_star: bool


_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _WEEKDAYS),
)
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MACHINE_ZONES: Final = frozenset({"Local", "localtime"})
_NUMBER: Final = re.compile(r"\+?[0-9]{1,18}")


def _every(text: str) -> EverySchedule:
    try:
        period = parse_duration(text.removeprefix("@every "))
    except DurationError as error:
        raise CronError(f'cron "{text[:80]}": {error.message}', value=text, hint=error.hint) from error
    return EverySchedule(max(period.nanoseconds // 10**9, 1))


def _zone(name: str) -> ZoneInfo:
    try:
        zone = None if name in _MACHINE_ZONES else ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        # Besides KeyError for an unknown name, zoneinfo lets through what the file system says of odd ones.
        zone = None
    if zone is None:
        raise CronError(
            f'there is no time zone "{name[:80]}"',
            field="time zone",
            value=name,
            allowed="IANA names",
            hint='write an IANA name such as "UTC", "Europe/Berlin" or "America/New_York"',
        )
    return zone


def _parse_field(text: str, field: _Field) -> _Numbers:
    bits, has_star = 0, False
    for item in filter(None, text.split(",")):
        part = _parse_range(item, field)
        bits |= part.bits
        has_star |= part.has_star
    return _Numbers(bits, has_star)


def _parse_range(item: str, field: _Field) -> _Numbers:
    ends_text, *steps = item.split("/")
    first, *others = ends_text.split("-")
    # What follows "*-" has no meaning, yet robfig/cron lets it stand; so do we.
    has_star = first in ("*", "?")
    if len(steps) > 1 or (len(others) > 1 and not has_star):
        raise _refusal(item, field, "has too many parts", 'write "from-to/step" at most')
    step = _number(steps[0], item, field._replace(names=())) if steps else 1
    if has_star:
        low, high = field.low, field.high
    else:
        low = _number(first, item, field)
        high = _number(others[0], item, field) if others else field.high if steps else low
    if low < field.low or high > field.high:
        hint = "Sunday is 0" if field.high == 6 and high == 7 else ""
        raise _refusal(item, field, "is out of range", hint)
    if low > high:
        wrapped = f'write "{low}-{field.high},{field.low}-{high}" to go round the end'
        raise _refusal(item, field, "runs backwards", wrapped)
    if step == 0:
        raise _refusal(item, field, "has a step of 0", "a step is 1 or more")
    # A step beyond the range leaves its first number alone; cut it so that range() stays small.
    bits = sum(1 << number for number in range(low, high + 1, min(step, 64)))
    return _Numbers(bits, has_star and step == 1)


def _number(text: str, item: str, field: _Field) -> int:
    if text.lower() in field.names:
        return field.names.index(text.lower()) + field.low
    if not _NUMBER.fullmatch(text):
        known = next((name for name in field.names if text.lower().startswith(name)), "")
        raise _refusal(item, field, "is not a number", f'write "{known.upper()}"' if known else "")
    return int(text)


def _refusal(item: str, field: _Field, why: str, hint: str) -> CronError:
    return CronError(
        f'cron field {field.name}: "{item[:80]}" {why} (allowed: {field.allowed})',
        field=field.name,
        value=item,
        allowed=field.allowed,
        hint=hint or f"use {field.allowed}, lists (1,2), ranges (1-5) and steps (*/2)",
    )


def _lowest(bits: int, at_least: int) -> int | None:
    rest = bits >> at_least << at_least
    return (rest & -rest).bit_length() - 1 if rest else None


def _highest(bits: int, at_most: int) -> int | None:
    rest = bits & ((1 << at_most + 1) - 1)
    return rest.bit_length() - 1 if rest else None


def _seconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone: a schedule needs a moment, not a clock reading")
    return (moment - _EPOCH) // timedelta(seconds=1)


def _seconds_rounded_up(moment: datetime) -> int:
    return _seconds(moment) + bool(moment.microsecond)


def _moment(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def _wall(wall_seconds: int) -> datetime:
    return _WALL_EPOCH + timedelta(seconds=wall_seconds)


def _wall_seconds(wall: datetime) -> int:
    return (wall - _WALL_EPOCH) // timedelta(seconds=1)


def _at(day: date, hour_and_minute: tuple[int, int]) -> datetime:
    hour, minute = hour_and_minute
    return _WALL_EPOCH.replace(year=day.year, month=day.month, day=day.day, hour=hour, minute=minute)


def _offset(zone: ZoneInfo, moment: int) -> int:
    """Gives how many seconds the wall clocks of the zone are ahead of UTC at that moment."""
    return _wall_seconds(_moment(moment).astimezone(zone).replace(tzinfo=None)) - moment


def _first_switch(zone: ZoneInfo, start: int, end: int) -> int | None:
    """Gives the first moment after ``start``, up to ``end``, with another offset than at ``start``."""
    if zone.utcoffset(None) is not None:  # a zone that never switches
        return None
    offset = _offset(zone, start)
    while start < end:
        step = min(start + _LOOK_EVERY_S, end)
        if _offset(zone, step) != offset:
            return _bisect(start, step, lambda moment: _offset(zone, moment) == offset)
        start = step
    return None


def _last_switch(zone: ZoneInfo, start: int, end: int) -> int | None:
    """Gives the last moment after ``start``, up to ``end``, at which the offset of ``end`` began."""
    if zone.utcoffset(None) is not None:
        return None
    offset = _offset(zone, end)
    while start < end:
        step = max(end - _LOOK_EVERY_S, start)
        if _offset(zone, step) != offset:
            return _bisect(step, end, lambda moment: _offset(zone, moment) != offset)
        end = step
    return None


def _bisect(before: int, after: int, is_before: Callable[[int], bool]) -> int:
    """Finds the first moment up to ``after`` that ``is_before`` denies, which it does from there on."""
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (middle, after) if is_before(middle) else (before, middle)
    return after
