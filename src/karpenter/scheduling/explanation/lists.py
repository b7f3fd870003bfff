# SPDX-License-Identifier: Apache-2.0
"""Lists as people say them: "a, b or c", "a, b and c"."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["either", "listed"]

_MOST_LISTED = 5


def either(words: Iterable[str]) -> str:
    """Return words, each once, joined by "or"; a long list is cut short."""
    found = list(dict.fromkeys(words))
    if len(found) > _MOST_LISTED:
        return f"{', '.join(found[:_MOST_LISTED])} or {len(found) - _MOST_LISTED} more"
    return _joined(found, " or ")


def listed(words: Iterable[str]) -> str:
    """Return words, each once, joined by "and"."""
    return _joined(list(dict.fromkeys(words)), " and ")


def _joined(words: list[str], last: str) -> str:
    return last.join(filter(None, (", ".join(words[:-1]), *words[-1:])))
