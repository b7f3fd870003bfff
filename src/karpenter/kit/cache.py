# SPDX-License-Identifier: Apache-2.0
"""A bounded cache whose entries die of age.

Ages are counted by the monotonic clock, so setting the time of day neither revives nor kills an entry. An
entry is dead at the very end of its life, and nobody sees a dead one. When the cache is full, the entry
whose life was set or renewed longest ago makes room. There is no thread and no timer: dead entries are
dropped when touched, or all at once by ``sweep``, which a loop of the owner may call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar, overload

from karpenter.kit.clock import Clock

__all__ = ["TTLCache"]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
_D = TypeVar("_D")


class _Entry(NamedTuple, Generic[_V]):
    value: _V
    ttl_s: float
    dies_at: float


class TTLCache(Generic[_K, _V]):
    """Values by key, each for a limited time."""

    def __init__(self, clock: Clock, *, ttl_s: float, max_size: int, sliding: bool = False) -> None:
        """Makes an empty cache.

        Args:
            clock: Where its time comes from.
            ttl_s: How long an entry lives, unless ``set`` says otherwise.
            max_size: How many entries it holds at most.
            sliding: Whether reading an entry starts its life anew.
        """
        if ttl_s <= 0 or max_size < 1:
            raise ValueError(f"a cache of {max_size} entries for {ttl_s} s holds nothing")
        self._clock = clock
        self._ttl_s = ttl_s
        self._max_size = max_size
        self._sliding = sliding
        self._entries: OrderedDict[_K, _Entry[_V]] = OrderedDict()

    @overload
    def get(self, key: _K) -> _V | None: ...

    @overload
    def get(self, key: _K, default: _D) -> _V | _D: ...

    def get(self, key: _K, default: _D | None = None) -> _V | _D | None:
        """Gives the value, or the default if there is none alive."""
        entry = self._alive(key)
        if entry is None:
            return default
        if self._sliding:
            self._put(key, entry.value, entry.ttl_s)
        return entry.value

    def set(self, key: _K, value: _V, *, ttl_s: float | None = None) -> None:
        """Stores a value in place of the former and its age; with a life of 0 or less stores nothing."""
        life_s = self._ttl_s if ttl_s is None else ttl_s
        if life_s <= 0:
            self._entries.pop(key, None)
            return
        self._put(key, value, life_s)
        if len(self._entries) > self._max_size:
            self._entries.popitem(last=False)

    def delete(self, key: _K) -> bool:
        """Removes an entry and tells whether it was alive."""
        was_alive = self._alive(key) is not None
        self._entries.pop(key, None)
        return was_alive

    def expire(self, key: _K, *, in_s: float) -> bool:
        """Gives a living entry that long to live from now on, and tells whether there was one."""
        entry = self._alive(key)
        if entry is None:
            return False
        self.set(key, entry.value, ttl_s=in_s)
        return True

    def remaining_s(self, key: _K) -> float:
        """Gives the seconds that an entry still has to live; 0.0 if there is none."""
        entry = self._alive(key)
        return 0.0 if entry is None else entry.dies_at - self._clock.monotonic()

    def sweep(self) -> int:
        """Drops every dead entry and counts them."""
        now = self._clock.monotonic()
        dead = [key for key, entry in self._entries.items() if entry.dies_at <= now]
        for key in dead:
            del self._entries[key]
        return len(dead)

    def clear(self) -> None:
        """Drops everything."""
        self._entries.clear()

    def items(self) -> list[tuple[_K, _V]]:
        """Lists what is alive now, the longest untouched first; reading it so renews nothing."""
        now = self._clock.monotonic()
        return [(key, entry.value) for key, entry in self._entries.items() if entry.dies_at > now]

    def __contains__(self, key: _K) -> bool:
        return self._alive(key) is not None

    def __iter__(self) -> Iterator[_K]:
        return iter([key for key, _ in self.items()])

    def __len__(self) -> int:
        return len(self.items())

    def _alive(self, key: _K) -> _Entry[_V] | None:
        entry = self._entries.get(key)
        if entry is not None and entry.dies_at <= self._clock.monotonic():
            del self._entries[key]
            return None
        return entry

    def _put(self, key: _K, value: _V, ttl_s: float) -> None:
        self._entries[key] = _Entry(value, ttl_s, self._clock.monotonic() + ttl_s)
        self._entries.move_to_end(key)
