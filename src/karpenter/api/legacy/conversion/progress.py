# SPDX-License-Identifier: Apache-2.0
"""How far a conversion is, for who waits for one of many objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

__all__ = ["Progress", "counted", "silent"]

# Is told what is being done, how many objects that is done for, and of how many.
Progress: TypeAlias = Callable[[str, int, int], None]

_T = TypeVar("_T")


def silent(_stage: str, _done: int, _total: int) -> None:
    """Tell nothing."""


def counted(stage: str, items: Sequence[_T], tell: Progress) -> Iterator[_T]:
    """Yield the items, telling before each how many are done."""
    for done, item in enumerate(items):
        tell(stage, done, len(items))
        yield item
