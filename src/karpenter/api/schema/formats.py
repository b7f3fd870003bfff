# SPDX-License-Identifier: Apache-2.0
"""The string formats that the API server checks, as it checks them, which is not always as their names promise.

``int32``, ``int64``, ``float`` and every word it does not know are ignored there and here: a number is
never checked against its format. A format that the server checks and we do not is refused when the
definition is read, so nobody relies on a check that is not made.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["CHECKED_FORMATS", "FORMATS_WITHOUT_A_CHECK_HERE", "normal_name"]

_DATE: Final = re.compile(r"[0-9]{4}-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_GO_DURATION: Final = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_SPOKEN_DURATION: Final = re.compile(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)")
_SPOKEN_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "hr", "wk"})
_SPOKEN_STEMS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.ASCII)
_DAYS_IN_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def normal_name(name: str) -> str:
    """Return the name under which a format is known: dashes do not count."""
    return name.replace("-", "")


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = int(text[:4]), int(found[1]), int(found[2])
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS_IN_MONTH[month - 1]:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return leap or (month, day) != (2, 29)


def _is_date_time(text: str) -> bool:
    date, separator, rest = text.lower().partition("t")
    # The server splits at every t and reads the first two parts alone.
    time = _TIME.fullmatch(rest.partition("t")[0])
    if not separator or time is None or not _is_date(date):
        return False
    return time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


def _is_duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    # Otherwise any number beside a spoken unit, anywhere in the text, will do.
    return any(
        unit.lower() in _SPOKEN_UNITS or unit.lower().startswith(_SPOKEN_STEMS)
        for _, unit in _SPOKEN_DURATION.findall(text)
    )


def _is_address(text: str, mark: str) -> bool:
    # Old clusters hold addresses with leading zeros; the server still takes them.
    plain = re.sub(r"(?<![0-9A-Fa-f:.])0+(?=[0-9])|(?<=\.)0+(?=[0-9])", "", text)
    try:
        ipaddress.ip_address(plain)
    except ValueError:
        return False
    return mark in text and "%" not in text


def _is_network(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()):
        return False
    mark = ":" if ":" in address else "."
    return _is_address(address, mark) and int(length) <= (128 if mark == ":" else 32)


CHECKED_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "cidr": _is_network,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "ipv4": lambda text: _is_address(text, "."),
    "ipv6": lambda text: _is_address(text, ":"),
    "password": lambda _: True,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}

FORMATS_WITHOUT_A_CHECK_HERE: Final = frozenset(
    {
        "bsonobjectid",
        "creditcard",
        "email",
        "hexcolor",
        "hostname",
        "isbn",
        "isbn10",
        "isbn13",
        "mac",
        "rgbcolor",
        "ssn",
        "uri",
        "uuid3",
        "uuid4",
        "uuid5",
    }
)
