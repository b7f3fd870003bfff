# SPDX-License-Identifier: Apache-2.0
"""What a mistyped label key or value was meant to be.

Decides from the texts alone, and always the same. It refuses to guess where the texts have too little in common: a
custom label that no node has is more often new than misspelt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from karpenter.api import labels

__all__ = ["meant_label", "meant_value", "nearest_label"]

# The longest label that Kubernetes allows: a prefix of 253, a slash, a name of 63.
_LONGEST_LABEL: Final = 317
# Labels whose values people write under another one; the first that knows all the values is meant.
_MEANT_LABELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        labels.INSTANCE_TYPE: (
            labels.INSTANCE_CATEGORY,
            labels.INSTANCE_FAMILY,
            labels.INSTANCE_SIZE,
            labels.INSTANCE_GENERATION,
        ),
        labels.ZONE: (labels.ZONE_ID,),
        labels.ZONE_ID: (labels.ZONE,),
    }
)
# What other tools call an architecture (uname, Docker, EC2), and what Kubernetes calls it.
_ARCHITECTURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "x86_64": "amd64",
        "x86-64": "amd64",
        "x64": "amd64",
        "intel": "amd64",
        "amd": "amd64",
        "aarch64": "arm64",
        "arm": "arm64",
        "armv8": "arm64",
        "graviton": "arm64",
    }
)

# Both bounds are a judgement: three slips of the pen, and no more than one in four letters.
_MOST_SLIPS: Final = 3
_LETTERS_PER_SLIP: Final = 4


def meant_label(key: str, values: Iterable[str], values_of: Callable[[str], Collection[str]]) -> str:
    """Return the label that values written under another one belong to; empty if there is no such label.

    Args:
        key: The label that they are written under.
        values: What is written, none of which the label has.
        values_of: Returns the values that a label has.
    """
    asked = tuple(values)
    return next(
        (other for other in _MEANT_LABELS.get(key, ()) if all(value in values_of(other) for value in asked)),
        "",
    )


def meant_value(key: str, value: str, known: frozenset[str]) -> str:
    """Return the known value of a label that a mistyped one was meant to be; empty if another is as near."""
    if len(value) > _LONGEST_LABEL:
        return ""
    other_name = _ARCHITECTURES.get(value.lower(), "") if key == labels.ARCH else ""
    if other_name in known:
        return other_name
    first = nearest_label(value, known)
    return "" if nearest_label(value, known - {first}) else first


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
