# SPDX-License-Identifier: Apache-2.0
"""What a mistyped label key was meant to be.

Decides from the text of the keys alone, and always the same. It refuses to guess where the texts have too
little in common: a custom label that no node has is more often new than misspelt.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

__all__ = ["nearest_label"]

# Both bounds are a judgement: three slips of the pen, and no more than one in four letters.
_MOST_SLIPS: Final = 3
_LETTERS_PER_SLIP: Final = 4


@lru_cache(maxsize=1024)
def nearest_label(key: str, known: frozenset[str]) -> str:
    """Finds the known label that a mistyped key was probably meant to be, or gives an empty text.

    A label of the same name under another prefix comes first (``topology.kubernetes.io/zone`` for ``zone``),
    then the one with the fewest slips; ties go to the first in alphabetical order.
    """
    name = _name_part(key)
    others = known - {key}
    namesakes = [candidate for candidate in others if _name_part(candidate) == name]
    if namesakes:
        return _closest(key, namesakes, most_slips=len(key) + max(map(len, namesakes)))
    return _closest(key, others, most_slips=min(_MOST_SLIPS, len(key) // _LETTERS_PER_SLIP))


def _name_part(key: str) -> str:
    return key.rpartition("/")[2]


def _closest(key: str, candidates: Iterable[str], *, most_slips: int) -> str:
    ranked = min(((_slips(key, candidate), candidate) for candidate in candidates), default=None)
    return ranked[1] if ranked is not None and ranked[0] <= most_slips else ""


def _slips(left: str, right: str) -> int:
    """Counts the letters to insert, drop, change or swap with a neighbour to turn one text into the other."""
    before: list[int] = []
    above = list(range(len(right) + 1))
    for row, letter in enumerate(left, start=1):
        current = [row]
        for column, other in enumerate(right, start=1):
            cost = min(above[column] + 1, current[-1] + 1, above[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, above = above, current
    return above[-1]
