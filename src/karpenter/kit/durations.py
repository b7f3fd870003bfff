# SPDX-License-Identifier: Apache-2.0
"""Durations as Go and Karpenter write them: "1h30m", "720h", "1.5s", and the word Never.

A duration is an exact number of nanoseconds within an int64, read by Go's rules and printed in Go's form
("1h30m0s") or in the form people write ("1h30m"). Never is no duration: it has no length, cannot be compared
with one, and answers the two questions that are asked of both, whether it has elapsed (no) and when it will
(at no time).

``later`` adds seconds to a moment and stays within what a datetime can hold: whoever writes a pod may write any number
of seconds, and a sum that raises would hold up everything beside it.

Refused: a bare number ("30": thirty what?), units that Go does not have (days), and what int64 nanoseconds
cannot hold, about 292 years. The stricter patterns of Karpenter's fields have functions of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, TypeAlias

from karpenter.errors import KarpenterError

__all__ = [
    "NEVER",
    "Duration",
    "DurationError",
    "Never",
    "NillableDuration",
    "later",
    "parse_budget_duration",
    "parse_duration",
    "parse_nillable_duration",
]

_MICROSECOND: Final = 1_000
_MILLISECOND: Final = 1_000_000
_SECOND: Final = 1_000_000_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_INT64_LIMIT: Final = 2**63
# The last second of year 9999 and the first of year 1: what RFC 3339 and a datetime can both say.
_LATEST: Final = datetime.max.replace(microsecond=0, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


class DurationError(KarpenterError):
    """A text that is not a duration, or not one that its field allows."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in whole nanoseconds, possibly negative, within an int64."""

    nanoseconds: int

    def __post_init__(self) -> None:
        if not -_INT64_LIMIT <= self.nanoseconds < _INT64_LIMIT:
            raise DurationError(
                f"a duration of {self.nanoseconds} ns does not fit into 64 bits",
                hint="the longest duration is about 292 years (2562047h)",
            )

    @classmethod
    def of(cls, *, hours: int = 0, minutes: int = 0, seconds: int = 0, milliseconds: int = 0) -> Duration:
        """Makes a duration of whole units, added up."""
        whole = hours * _HOUR + minutes * _MINUTE + seconds * _SECOND
        return cls(whole + milliseconds * _MILLISECOND)

    @property
    def seconds(self) -> float:
        """Gives the length in seconds, for timers; the only place where exactness may be lost."""
        return self.nanoseconds / _SECOND

    @property
    def milliseconds(self) -> int:
        """Gives the length in whole milliseconds, cut off towards zero as Go does."""
        magnitude = abs(self.nanoseconds) // _MILLISECOND
        return magnitude if self.nanoseconds >= 0 else -magnitude

    @property
    def timedelta(self) -> timedelta:
        """Gives the length as a timedelta, rounded up to the microsecond: nothing happens too early."""
        return timedelta(microseconds=-(-self.nanoseconds // _MICROSECOND))

    def has_elapsed(self, since: datetime, now: datetime) -> bool:
        """Tells whether this long has passed between two moments; exactly this long counts."""
        return now - since >= self.timedelta

    def ends(self, start: datetime) -> datetime:
        """Gives the moment at which a duration begun at ``start`` is over."""
        return later(start, self.timedelta)

    def short(self) -> str:
        """Gives the form people write, which leaves out what is zero: "1h30m", "2h5s", "0s"."""
        return _ZERO_UNIT.sub("", str(self)) or "0s"

    def __str__(self) -> str:
        sign, length = ("-", -self.nanoseconds) if self.nanoseconds < 0 else ("", self.nanoseconds)
        if 0 < length < _SECOND:
            unit, name = next((unit, name) for unit, name in _BELOW_A_SECOND if length >= unit)
            return f"{sign}{_decimal(length, unit)}{name}"
        hours, minutes = length // _HOUR, length // _MINUTE
        leading = f"{hours}h{minutes % 60}m" if hours else f"{minutes}m" if minutes else ""
        return f"{sign}{leading}{_decimal(length % _MINUTE, _SECOND)}s"


def later(moment: datetime, length: float | timedelta) -> datetime:
    """Return the moment so much later, earlier if negative, or the last or first one where none is left.

    Args:
        moment: Where to begin, carrying its zone.
        length: Seconds, any number of them, or a timedelta.
    """
    try:
        return moment + (length if isinstance(length, timedelta) else timedelta(seconds=length))
    except OverflowError:
        seconds = length.total_seconds() if isinstance(length, timedelta) else length
        return _LATEST if seconds > 0 else _EARLIEST


class Never(Enum):
    """The type of ``NEVER`` alone, so that a type checker knows what is left after ``is NEVER``."""

    NEVER = "Never"

    def has_elapsed(self, since: datetime, now: datetime) -> bool:  # noqa: ARG002 - Duration's question
        """Tells that it has not: never does not elapse."""
        return False

    def ends(self, start: datetime) -> datetime | None:  # noqa: ARG002 - Duration's question
        """Gives no moment: never does not end."""
        return None

    def short(self) -> str:
        """Gives the word itself."""
        return self.value

    def __str__(self) -> str:
        return self.value


NEVER: Final = Never.NEVER
NillableDuration: TypeAlias = Duration | Never


def parse_duration(raw: str | float) -> Duration:
    """Reads a duration as Go does: signed, fractions allowed, units ns us ms s m h in any order.

    Raises:
        DurationError: It is none; the hint says what to write.
    """
    if not isinstance(raw, str):
        raise _refusal(str(raw), "a duration is a text with a unit")
    unsigned = raw[1:] if raw[:1] in ("+", "-") else raw
    if unsigned == "0":
        return Duration(0)
    position = total = 0
    while position < len(unsigned) or not unsigned:
        part = _PART.match(unsigned, position)
        if part is None or not (part["whole"] or part["fraction"]):
            raise _refusal(raw, "a duration is numbers with units")
        if not part["unit"]:
            raise _refusal(raw, "the unit is missing")
        unit = _UNITS.get(part["unit"])
        if unit is None:
            raise _refusal(raw, f'there is no unit "{part["unit"][:20]}"')
        total += _whole(part["whole"]) * unit + _fraction(part["fraction"] or "", unit)
        position = part.end()
    nanoseconds = -total if raw.startswith("-") else total
    if not -_INT64_LIMIT <= nanoseconds < _INT64_LIMIT:
        raise _refusal(raw, "it is longer than 64 bits of nanoseconds, about 292 years")
    return Duration(nanoseconds)


def parse_nillable_duration(raw: str | float) -> NillableDuration:
    """Reads what Karpenter's expireAfter and consolidateAfter take: whole seconds, minutes, hours, or Never.

    Raises:
        DurationError: It is neither.
    """
    if raw == NEVER.value:
        return NEVER
    duration = parse_duration(raw)
    if not _NILLABLE.fullmatch(str(raw)):
        raise DurationError(
            f'duration "{raw}" is not allowed here: only whole numbers of s, m and h, or Never',
            hint='write for example "30s", "720h", "1h30m" or "Never"',
        )
    return duration


def parse_budget_duration(raw: str | float) -> Duration:
    """Reads the duration of a disruption budget: whole hours, whole minutes, or hours then minutes.

    Raises:
        DurationError: It is not of that form; a budget opens on the minute, so seconds have no place.
    """
    duration = parse_duration(raw)
    if not _BUDGET.fullmatch(str(raw)):
        raise DurationError(
            f'budget duration "{raw}" is not allowed: only whole hours and minutes',
            hint='write for example "8h", "30m" or "1h30m"',
        )
    return duration


_UNITS: Final = {
    "ns": 1,
    "us": _MICROSECOND,
    "\u00b5s": _MICROSECOND,  # micro sign
    "\u03bcs": _MICROSECOND,  # Greek letter mu
    "ms": _MILLISECOND,
    "s": _SECOND,
    "m": _MINUTE,
    "h": _HOUR,
}
_BELOW_A_SECOND: Final = ((_MILLISECOND, "ms"), (_MICROSECOND, "\u00b5s"), (1, "ns"))
_PART: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)")
_ZERO_UNIT: Final = re.compile(r"(?<![0-9.])0[ms]")
_NILLABLE: Final = re.compile(r"([0-9]+(s|m|h))+")
_BUDGET: Final = re.compile(r"(([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?")
_BARE_NUMBER: Final = re.compile(r"[+-]?[0-9]*\.?[0-9]+")
_DAYS: Final = re.compile(r"([0-9]{1,6})\s*(d|day|days)")


def _whole(digits: str) -> int:
    # Longer numbers overflow whatever the unit; cut before int() so that a hostile text costs nothing.
    significant = digits.lstrip("0")
    return int(significant[:20] or "0")


def _fraction(digits: str, unit: int) -> int:
    # Go sums the digits in 63 bits and scales in floating point; doing the same gives the same nanoseconds.
    number, scale = 0, 1.0
    for digit in digits:
        longer = number * 10 + int(digit)
        if number > (_INT64_LIMIT - 1) // 10 or longer > _INT64_LIMIT:
            break
        number, scale = longer, scale * 10
    return int(number * (unit / scale))


def _decimal(length: int, unit: int) -> str:
    whole, rest = divmod(length, unit)
    if rest == 0:
        return str(whole)
    places = len(str(unit)) - 1
    return f"{whole}.{rest:0{places}d}".rstrip("0")


def _refusal(raw: str, why: str) -> DurationError:
    text = raw[:80]
    days = _DAYS.fullmatch(text)
    if _BARE_NUMBER.fullmatch(text):
        hint = f'add a unit: "{text}s" for seconds, "{text}m" for minutes, "{text}h" for hours'
    elif days is not None:
        hint = f'write days as hours: "{24 * int(days[1])}h"'
    elif text.lower() == "never":
        hint = 'the word is spelt "Never", and only some fields allow it'
    else:
        hint = 'write for example "30s", "1h30m" or "720h"'
    return DurationError(f'"{text}" is not a duration: {why}', hint=hint)
