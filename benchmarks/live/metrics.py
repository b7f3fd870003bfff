# SPDX-License-Identifier: Apache-2.0
"""Reads Prometheus' text format as far as we need it: counters by a label, and quantiles of histograms."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["buckets", "counted", "quantile", "since"]

_LINE: Final = re.compile(r"^(?P<name>[a-z_:A-Z0-9]+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def counted(text: str, name: str, label: str) -> dict[str, float]:
    """Gives the values of a metric by one of its labels, summed over the others."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is not None and match["name"] == name:
            value = dict(_LABEL.findall(match["labels"] or "")).get(label, "")
            found[value] = found.get(value, 0.0) + float(match["value"])
    return found


def buckets(text: str, name: str) -> dict[float, float]:
    """Gives a histogram as counts up to each bound."""
    found = counted(text, f"{name}_bucket", "le")
    return {math.inf if bound == "+Inf" else float(bound): count for bound, count in found.items()}


def since(before: Mapping[float, float], after: Mapping[float, float]) -> dict[float, float]:
    """Gives what a histogram has counted between two readings."""
    return {bound: count - before.get(bound, 0.0) for bound, count in after.items()}


def quantile(histogram: Mapping[float, float], share: float) -> float:
    """Gives the bound below which this share of a histogram's values lies: no less than the true quantile."""
    total = max(histogram.values(), default=0.0)
    if not total:
        return math.nan
    return min(bound for bound, count in histogram.items() if count >= share * total)
