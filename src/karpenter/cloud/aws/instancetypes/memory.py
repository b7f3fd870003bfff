# SPDX-License-Identifier: Apache-2.0
"""Remembers how much memory real nodes had, per instance type and set of images.

EC2 tells the memory of the machine; what the kubelet sees is less, by an amount that depends on the type and the
kernel. The smallest that was seen is the safe figure. It holds for 60 days from the last node that showed it, and
only for the images it was seen with: another kernel may leave more or less.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock

__all__ = ["LearntMemory"]

_KEPT_S: Final = 60 * 86400.0

# Every type of EC2 with several sets of images; beyond that the oldest knowledge goes.
_MOST: Final = 20_000


class LearntMemory:
    """Memory in bytes by instance type and image ids."""

    def __init__(self, clock: Clock) -> None:
        self._seen: TTLCache[tuple[str, frozenset[str]], int] = TTLCache(clock, ttl_s=_KEPT_S, max_size=_MOST)
        self._version = 0

    @property
    def version(self) -> int:
        """A number that moves when a figure was learnt that was not known before."""
        return self._version

    def learn(self, instance_type: str, image_ids: Iterable[str], memory_bytes: int) -> bool:
        """Takes in what a node had, and tells whether that is news: the first figure, or a smaller one."""
        key = (instance_type, frozenset(image_ids))
        known = self._seen.get(key)
        if memory_bytes <= 0 or (known is not None and memory_bytes > known):
            return False
        self._seen.set(key, memory_bytes)
        if known == memory_bytes:
            return False
        self._version += 1
        return True

    def get(self, instance_type: str, image_ids: Iterable[str]) -> int | None:
        """Returns the smallest memory seen, or ``None``."""
        return self._seen.get((instance_type, frozenset(image_ids)))
