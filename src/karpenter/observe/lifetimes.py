# SPDX-License-Identifier: Apache-2.0
"""Series go with their objects: the one place that removes what counters and histograms have of objects that are gone.

A series is kept for two minutes after its object went, so that a last scrape sees the last count.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from karpenter.observe.metrics import Metrics

__all__ = ["KEPT_S", "Lifetimes"]

KEPT_S: Final = 120.0


class Lifetimes:
    """The names of objects that series may exist for.

    Args:
        metrics: Whose series they are.
        label: The label that has the objects' names.
    """

    def __init__(self, metrics: Metrics, label: str) -> None:
        self._metrics = metrics
        self._label = label
        self._gone_since: dict[str, float | None] = {}

    def seen(self, name: str) -> None:
        """Notes that there is, or was, an object of that name."""
        if name:
            self._gone_since.setdefault(name, None)

    def sweep(self, living: Collection[str], now: float) -> None:
        """Removes the series of objects that have been gone for long enough."""
        for name, since in tuple(self._gone_since.items()):
            if name in living:
                self._gone_since[name] = None
            elif since is None:
                self._gone_since[name] = now
            elif now - since >= KEPT_S:
                self._metrics.forget(self._label, name)
                del self._gone_since[name]
