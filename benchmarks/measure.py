# SPDX-License-Identifier: Apache-2.0
"""How we measure: CPU time of this process, the best of several rounds, the garbage collector on."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Row", "best_cpu_ms", "peak_mib"]


class Row(NamedTuple):
    """One measurement beside its yardstick (another way to do the same, in the same run)."""

    benchmark: str
    what: str
    cpu_ms: float
    yardstick_ms: float
    peak_mib: float
    promise: str

    def cells(self) -> tuple[str, ...]:
        """Return the row as text for a table; a ratio of 3.0 means three times faster than the yardstick."""
        return (
            self.benchmark,
            self.what,
            f"{self.cpu_ms:.1f}",
            f"{self.yardstick_ms:.1f}",
            f"{self.yardstick_ms / self.cpu_ms:.1f}x",
            f"{self.peak_mib:.0f}",
            self.promise,
        )


def best_cpu_ms(work: Callable[[], object], rounds: int = 7) -> float:
    """Return the smallest CPU time in milliseconds over some rounds; noise only ever adds."""
    times = []
    for _ in range(rounds):
        gc.collect()
        started = time.process_time()
        result = work()
        times.append(time.process_time() - started)
        del result
    return min(times) * 1e3


def peak_mib(work: Callable[[], object]) -> float:
    """Return the largest memory that Python allocated during one run, in MiB."""
    gc.collect()
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20
