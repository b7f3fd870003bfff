# SPDX-License-Identifier: Apache-2.0
"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Outcome", "Table", "machine", "write_results"]


@dataclass(frozen=True)
class Table:
    """A title, a head and rows of texts; notes stand below."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())

    def render(self) -> str:
        """Gives the table, its columns aligned to the right but for the first."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        texts = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.title, *texts, *self.notes])


@dataclass(frozen=True)
class Outcome:
    """What a row came to: tables, everything as data, and what to say besides."""

    tables: Sequence[Table]
    data: dict[str, Any]
    notes: Sequence[str] = ()


def machine() -> dict[str, Any]:
    """Says on what was measured."""
    return {"system": platform.platform(), "cores": os.cpu_count(), "python": platform.python_version()}


def write_results(directory: Path, row: str, result: dict[str, Any]) -> Path:
    """Writes what a row measured to its file and gives the path."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"live-{row}.json"
    file.write_text(json.dumps({"machine": machine(), **result}, indent=2) + "\n", encoding="utf-8")
    return file
