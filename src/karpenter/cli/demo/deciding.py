# SPDX-License-Identifier: Apache-2.0
"""How long the controller's last decision took and how good it can be, from the controller's own metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from karpenter.sandbox.stack.calls import text_at
from karpenter.sandbox.stack.errors import CallError

__all__ = ["Meter"]

_TOOK: Final = "karpenter_scheduler_scheduling_duration_seconds"
_BOUND: Final = "karpenter_plan_lower_bound_per_hour"
_SAMPLE: Final = re.compile(r'^([a-z_]+)(?:\{controller="provisioner"\})? ([0-9.e+-]+)$', re.MULTILINE)


class Meter:
    """Reads the metrics of all replicas; the one that leads is the one that has decided something.

    Args:
        addresses: Where the metrics are.
        get: Gives the text at an address.
    """

    def __init__(self, addresses: Sequence[str], get: Callable[[str], str] = text_at) -> None:
        self._addresses = addresses
        self._get = get
        self._before = (0.0, 0.0)

    def last(self) -> tuple[float | None, float | None]:
        """Gives the milliseconds of a decision since the last look, and the dollars an hour that none can go below."""
        samples: dict[str, float] = {}
        for each in self._addresses:
            try:
                found = {name: float(value) for name, value in _SAMPLE.findall(self._get(each))}
            except CallError:
                continue
            if found.get(f"{_TOOK}_count", 0.0) >= samples.get(f"{_TOOK}_count", 0.0):
                samples = found
        took_s, count = samples.get(f"{_TOOK}_sum", 0.0), samples.get(f"{_TOOK}_count", 0.0)
        rounds = count - self._before[1]
        average = (took_s - self._before[0]) / rounds * 1000 if rounds > 0 else None
        self._before = (took_s, count)
        return average, samples.get(_BOUND)
