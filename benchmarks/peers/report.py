# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON of a run: a row for each problem, with a dash where a side has nothing to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.peers.promises import PROMISES
from benchmarks.peers.sides import Outcome

__all__ = ["Row", "render_table"]

_HEAD: Final = (
    *("PROBLEM", "PODS", "GO S", "OURS S", "FASTER", "PODS/S"),
    *("GO $/H", "OURS $/H", "BOUND $/H", "/GO", "/BOUND"),
    *("GO NODES", "OURS", "GO MIB", "OURS", "MISSED"),
)
_TEXT_COLUMNS: Final = (0, len(_HEAD) - 1)


@dataclass(frozen=True)
class Row:
    """One problem: what each side made of it, the bound, and what went wrong."""

    problem: str
    pods: int
    go: Outcome | None
    ours: Outcome | None
    bound_per_hour: float | None
    notes: Sequence[str] = ()

    @property
    def missed(self) -> list[str]:
        """Return the promises that our side did not keep here."""
        promise = PROMISES.get(self.problem)
        if self.ours is None or promise is None:
            return []
        return promise.missed(self.ours, self.go, self.bound_per_hour)

    def cells(self) -> tuple[str, ...]:
        """Return the row as texts, in the order of the table's head."""
        go_s, our_s = _get(self.go, "seconds"), _get(self.ours, "seconds")
        go_price, our_price = _get(self.go, "price_per_hour"), _get(self.ours, "price_per_hour")
        promised = self.ours is not None and self.problem in PROMISES
        return (
            self.problem,
            str(self.pods),
            _number(go_s, 3),
            _number(our_s, 3),
            _ratio(go_s, our_s, 1, "x"),
            _ratio(_get(self.ours, "placed_pods"), our_s, 0),
            _number(go_price, 3),
            _number(our_price, 3),
            _number(self.bound_per_hour, 3),
            _ratio(our_price, go_price, 2),
            _ratio(our_price, self.bound_per_hour, 3),
            _number(_get(self.go, "nodes"), 0),
            _number(_get(self.ours, "nodes"), 0),
            _number(_get(self.go, "max_rss_mib"), 0),
            _number(_get(self.ours, "max_rss_mib"), 0),
            ", ".join(self.missed) or ("nothing" if promised else "-"),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the row for a JSON file, with everything that was measured."""
        return {**asdict(self), "notes": list(self.notes), "missed": self.missed}


def render_table(rows: Sequence[Row]) -> str:
    """Return the rows as an aligned table, and under it what went wrong."""
    lines = [_HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
    table = [
        "  ".join(
            cell.ljust(width) if i in _TEXT_COLUMNS else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    notes = [f"{row.problem}: {note}" for row in rows for note in row.notes]
    return "\n".join([*table, *([""] if notes else []), *notes])


def _get(outcome: Outcome | None, name: str) -> float | None:
    return None if outcome is None else float(getattr(outcome, name))


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _ratio(value: float | None, other: float | None, digits: int, unit: str = "") -> str:
    return "-" if value is None or not other else f"{value / other:.{digits}f}{unit}"
