# SPDX-License-Identifier: Apache-2.0
"""What the performance suite measures about each controller, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["comparison"]

_ENDING: Final = "_performance_report.json"
# Heading, field of the suite's report, and what its unit is divided by.
_COLUMNS: Final = (
    ("seconds", "total_time", 1e9),
    ("nodes", "total_nodes", 1.0),
    ("pods/node", "pods_per_node", 1.0),
    ("cpu %", "total_reserved_cpu_utilization", 0.01),
    ("memory %", "total_reserved_memory_utilization", 0.01),
    ("rounds", "rounds", 1.0),
    ("p95 MB", "karpenter_p95_memory_mb", 1.0),
    ("mCPU", "karpenter_avg_cpu_cores", 0.001),
)


def comparison(sides: Mapping[str, Path]) -> str:
    """Return a table of the reports in the directory of each side, or nothing where there are none."""
    reports = {side: _reports(directory) for side, directory in sides.items()}
    names = dict.fromkeys(name for each in reports.values() for name in each)
    if not names:
        return ""
    head = f"{'measured':<48} {'side':<6}" + "".join(f"{title:>11}" for title, _, _ in _COLUMNS)
    rows = [
        f"{name:<48} {side:<6}" + _row(each[name])
        for name in names
        for side, each in reports.items()
        if name in each
    ]
    return "\n".join((head, *rows))


def _reports(directory: Path) -> dict[str, Mapping[str, Any]]:
    return {
        path.name.removesuffix(_ENDING): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(directory.glob(f"*{_ENDING}"))
    }


def _row(report: Mapping[str, Any]) -> str:
    return "".join(f"{float(report.get(name, 0)) / unit:>11.1f}" for _, name, unit in _COLUMNS)
