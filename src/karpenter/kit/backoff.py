# SPDX-License-Identifier: Apache-2.0
"""Growing delays between attempts, for one thing or for many by key.

A policy decides the delay from the number of failures alone: a base, multiplied by a factor each time, up
to a cap. Jitter shortens each delay by a share that is computed from the key, the attempt and a seed. So a
thousand keys that fail together do not come back together, yet the same run always gives the same delays:
nothing here draws random numbers.

A table remembers failures per key, by the monotonic clock. It holds a bounded number of keys and forgets
the one that failed longest ago first; a key that has been quiet for long starts anew.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from karpenter.kit.clock import Clock

__all__ = ["BackoffPolicy", "BackoffTable"]

_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPolicy:
    """How long to wait after the first, second, n-th failure in a row.

    Attributes:
        base_s: The delay after the first failure.
        cap_s: The longest delay.
        factor: What each further failure multiplies the delay by; 1 keeps it constant.
        jitter: The largest share, from 0 to 1, by which a delay may be shortened.
        seed: Another seed gives other jitter, e.g. one per replica.
    """

    base_s: float = 1.0
    cap_s: float = 60.0
    factor: float = 2.0
    jitter: float = 0.0
    seed: str = ""

    def __post_init__(self) -> None:
        if not (0 < self.base_s <= self.cap_s and self.factor >= 1 and 0 <= self.jitter <= 1):
            raise ValueError(f"{self} makes no sense: 0 < base_s <= cap_s, factor >= 1, jitter from 0 to 1")

    def delay_s(self, failures: int, key: object = "") -> float:
        """Gives the seconds to wait after that many failures in a row; none, no wait.

        The key enters by its ``repr()``, which must be the same in every process for the delays to be.
        """
        if failures <= 0:
            return 0.0
        try:
            # As a float, so that it overflows at once; as an integer it would grow without end.
            grown = self.base_s * float(self.factor) ** (failures - 1)
        except OverflowError:
            grown = self.cap_s
        return min(grown, self.cap_s) * (1 - self.jitter * self._share(failures, key))

    def _share(self, failures: int, key: object) -> float:
        digest = hashlib.blake2b(f"{self.seed}\0{key!r}\0{failures}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "big") / 2**48


class _Record(NamedTuple):
    failures: int
    ready_at: float


class BackoffTable(Generic[_K]):
    """Failures in a row per key, and when each key may be tried again."""

    def __init__(
        self,
        clock: Clock,
        policy: BackoffPolicy,
        *,
        max_keys: int = 10_000,
        forget_after_s: float | None = None,
    ) -> None:
        """Makes an empty table.

        Args:
            clock: Where its time comes from.
            policy: How long the delays are.
            max_keys: How many keys it remembers at most.
            forget_after_s: How long after its delay a quiet key starts anew; by default twice the cap.
        """
        if max_keys < 1:
            raise ValueError(f"a table of {max_keys} keys remembers nothing")
        self._clock = clock
        self._policy = policy
        self._max_keys = max_keys
        self._forget_after_s = 2 * policy.cap_s if forget_after_s is None else forget_after_s
        self._records: OrderedDict[_K, _Record] = OrderedDict()

    def failed(self, key: _K) -> float:
        """Notes one more failure and gives the seconds to wait from now on."""
        failures = self.failures(key) + 1
        delay_s = self._policy.delay_s(failures, key)
        self._records[key] = _Record(failures, self._clock.monotonic() + delay_s)
        self._records.move_to_end(key)
        if len(self._records) > self._max_keys:
            self._records.popitem(last=False)
        return delay_s

    def reset(self, key: _K) -> None:
        """Forgets the failures of a key, because it succeeded or is gone."""
        self._records.pop(key, None)

    def failures(self, key: _K) -> int:
        """Counts the failures in a row."""
        record = self._records.get(key)
        if record is None:
            return 0
        if self._clock.monotonic() - record.ready_at > self._forget_after_s:
            del self._records[key]
            return 0
        return record.failures

    def remaining_s(self, key: _K) -> float:
        """Gives the seconds until the key may be tried again; 0.0 if it may be now."""
        record = self._records.get(key)
        return 0.0 if record is None else max(record.ready_at - self._clock.monotonic(), 0.0)

    def is_ready(self, key: _K) -> bool:
        """Tells whether the key may be tried now."""
        return self.remaining_s(key) == 0.0

    def __len__(self) -> int:
        return len(self._records)
