# SPDX-License-Identifier: Apache-2.0
"""Filters and pages: how every Describe call picks and cuts its answer.

A filter names a field and gives values; the values are ORed, the filters ANDed. ``*`` and ``?`` are wildcards, a
backslash takes their meaning away. An unknown filter is refused, as EC2 does, because a filter that is silently
ignored answers too much.

Pages follow the order of creation (or of names), not positions: what is created or goes away between two pages is
never skipped or told twice. ``NextToken`` carries the place after which to go on.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from karpenter.sandbox.ec2.compute.seam import Params, invalid
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Field", "cut", "matcher", "matching", "patterns", "place_after"]

Field = Callable[[Any], object]
"""Reads from a record what a filter compares: a text, a number, a truth, or several of them."""

_T = TypeVar("_T")
_VALUES_AT_MOST: Final = 200


def matching(records: Iterable[_T], filters: Sequence[Params], fields: Mapping[str, Field]) -> list[_T]:
    """Gives the records that pass all filters, in the order given.

    Raises:
        ModelError: A filter is not known here, has no values, or has too many.
    """
    tests = [_test(each, fields) for each in filters]
    return [record for record in records if all(test(record) for test in tests)]


def _test(each: Params, fields: Mapping[str, Field]) -> Callable[[Any], bool]:
    name, values = each.get("Name", ""), each.get("Values") or ()
    if not values:
        raise ModelError("InvalidParameterValue", f"The filter '{name}' has no values")
    if len(values) > _VALUES_AT_MOST:
        raise ModelError("FilterLimitExceeded", f"The maximum number of filter values is {_VALUES_AT_MOST}")
    accepts = matcher(tuple(values))
    if name.startswith("tag:"):
        key = name[4:]
        return lambda record: key in record.tags and accepts(record.tags[key])
    if name == "tag-key":
        return lambda record: any(map(accepts, record.tags))
    if name == "tag-value":
        return lambda record: any(map(accepts, record.tags.values()))
    if name not in fields:
        raise ModelError("InvalidParameterValue", f"The filter '{name}' is invalid")
    read = fields[name]
    return lambda record: any(map(accepts, patterns(read(record))))


def patterns(value: object) -> Iterable[str]:
    """Gives a field's value as the texts that filters compare with."""
    if isinstance(value, str):
        return (value,)
    if value is None:
        return ()
    if isinstance(value, bool):
        return ("true" if value else "false",)
    if isinstance(value, Iterable):
        return [text for part in value for text in patterns(part)]
    return (str(value),)


@lru_cache(maxsize=4096)
def matcher(values: tuple[str, ...]) -> Callable[[str], bool]:
    """Compiles the values of one filter; plain ones are looked up, those with wildcards are matched."""
    plain = frozenset(value for value in values if not re.search(r"[*?\\]", value))
    globs = [_glob(value) for value in values if value not in plain]
    if not globs:
        return plain.__contains__
    return lambda text: text in plain or any(glob.fullmatch(text) for glob in globs)


def _glob(value: str) -> re.Pattern[str]:
    parts: list[str] = []
    letters = iter(value)
    for letter in letters:
        if letter == "\\":
            parts.append(re.escape(next(letters, "\\")))
        else:
            parts.append({"*": ".*", "?": "."}.get(letter) or re.escape(letter))
    return re.compile("".join(parts), re.DOTALL)


def cut(
    records: Sequence[_T],
    params: Params,
    key: Callable[[_T], int | str],
    *,
    at_least: int = 5,
    at_most: int = 1000,
    by_itself: bool = False,
) -> tuple[Sequence[_T], dict[str, str]]:
    """Gives the records of the page that is asked for, and ``NextToken`` when there are more.

    Args:
        records: All that pass the filters, ascending by ``key``.
        params: The call's parameters; ``MaxResults`` and ``NextToken`` are read.
        key: What pages go on by.
        at_least: The smallest page that may be asked for.
        at_most: The largest page that may be asked for.
        by_itself: Whether a page is cut at ``at_most`` even if no size is asked for.

    Raises:
        ModelError: The page size is out of bounds or the token is not one of ours.
    """
    size = params.get("MaxResults")
    if size is not None and not at_least <= size <= at_most:
        word = f"greater than {at_least}" if size < at_least else f"less than {at_most}"
        raise invalid(f" {size} ", "maxResults", f"Expecting a value {word}.")
    after = place_after(params)
    if after is not None:
        records = [record for record in records if _follows(key(record), after)]
    size = size or (at_most if by_itself else len(records))
    if len(records) <= size:
        return records, {}
    page = records[:size]
    token = base64.urlsafe_b64encode(json.dumps([key(page[-1])]).encode()).decode()
    return page, {"NextToken": token}


def place_after(params: Params) -> int | str | None:
    """Gives the place after which ``NextToken`` goes on, None for a first page.

    Raises:
        ModelError: The token is not one of ours.
    """
    token = params.get("NextToken")
    if not token:
        return None
    try:
        (place,) = json.loads(base64.urlsafe_b64decode(token))
    except (ValueError, TypeError, binascii.Error):
        place = None
    if not isinstance(place, int | str):
        raise ModelError("InvalidNextToken", "The specified NextToken is not valid")
    return place


def _follows(place: int | str, after: int | str) -> bool:
    if isinstance(place, int) and isinstance(after, int):
        return place > after
    return str(place) > str(after)
