# SPDX-License-Identifier: Apache-2.0
"""Lines that stay, and below them a table that is kept up to date where there is a terminal.

Without a terminal there are lines only, and the table where the story asks for it. Nothing is said by colour alone. The
table is never wider than the terminal; what does not fit is cut off.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Protocol, TextIO

import click

from karpenter.cli import output
from karpenter.cli.demo.money import total
from karpenter.cli.demo.seeing import Machine, Picture, State
from karpenter.cli.demo.telling import Line, bar

__all__ = ["Screen", "table"]

_CLEAR_BELOW: Final = "\x1b[J"
_UP: Final = "\x1b[{}F"
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_WHAT_WIDTH: Final = 24
_STATE_COLOURS: Final = {State.READY: "green", State.LEAVING: "yellow"}
_WIDE: Final = 112
_WIDE_HEAD: Final = ("NODE", "TYPE", "CAPACITY", "ZONE", "$/H", "MEMORY", "CPU", "PODS", "STATE")
_NARROW_HEAD: Final = ("NODE", "TYPE", "$/H", "MEMORY", "CPU", "PODS", "STATE")
_NO_TABLE: Final = ("no nodes, nothing to pay",)


class Screen:
    """Where the demo speaks.

    Args:
        stream: Standard output, or what stands for it.
        live: Whether the table is kept up to date; None asks the stream.
    """

    def __init__(self, stream: TextIO | None = None, *, live: bool | None = None) -> None:
        self._stream = stream or sys.stdout
        self.live = self._stream.isatty() if live is None else live
        self._colour = output.colour_wanted(self._stream)
        self._below: list[str] = []

    def heading(self, text: str) -> None:
        """Shows what is done next."""
        self._lasting("", self._styled(f"▸ {text}", bold=True))

    def line(self, line: Line) -> None:
        """Shows what happened, with the time of day."""
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        lead = f"  {self._styled(clock, dim=True)}  "
        self._lasting(f"{lead}{line.what.ljust(_WHAT_WIDTH)}{line.about}".rstrip())
        for each in line.more:
            self.note(each)

    def note(self, text: str) -> None:
        """Shows something to add to the line before, below its words."""
        # Below what it is about, or where that leaves too little room, below what happened.
        indent = " " * (len("  00:00:00  ") + (_WHAT_WIDTH if self._width() >= _WIDE else 0))
        for each in _wrapped(text, self._width() - len(indent)):
            self._lasting(f"{indent}{self._styled(each, dim=True)}")

    def text(self, text: str = "") -> None:
        """Shows a plain line."""
        self._lasting(text)

    def table(self, picture: Picture) -> None:
        """Shows the machines where no table is kept up to date."""
        if not self.live:
            for each in self._rows(picture):
                self._lasting(f"  {each}")

    def update(self, picture: Picture) -> None:
        """Brings the table up to date; without a terminal there is none."""
        below = ["", *self._rows(picture)]
        if self.live and below != self._below:
            self._draw((), below)

    def finish(self) -> None:
        """Leaves the table as it is and goes on below it."""
        self._below = []

    def _rows(self, picture: Picture) -> list[str]:
        pods = f"{picture.running} of {len(picture.pods)} pods run"
        rows = table(picture, self._styled, width=self._width()) or list(_NO_TABLE)
        count = len(picture.machines)
        head = f"{count} node{'s' * (count != 1)}   {total(picture)}   {pods}"
        return [self._styled(head, bold=True), *rows]

    def _lasting(self, *lines: str) -> None:
        self._draw(lines, self._below)

    def _draw(self, lasting: Sequence[str], below: list[str]) -> None:
        width = self._width()
        parts = []
        if self._below:
            parts.append(_UP.format(len(self._below)) + _CLEAR_BELOW)
        parts += [f"{line}\n" for line in lasting]
        if self.live:
            parts += [f"{_cut(line, width)}\n" for line in below]
            self._below = list(below)
        # In one go, or a terminal would flicker.
        self._stream.write("".join(parts))
        self._stream.flush()

    def _width(self) -> int:
        return shutil.get_terminal_size((_WIDE, 24)).columns if self.live else _WIDE

    def _styled(self, text: str, *, fg: str = "", bold: bool = False, dim: bool = False) -> str:
        if not self._colour:
            return text
        # None and not False: that would switch off what was just switched on.
        return click.style(text, fg=fg or None, bold=bold or None, dim=dim or None)


def _plain(text: str, *, fg: str = "", bold: bool = False, dim: bool = False) -> str:
    del fg, bold, dim
    return text


class Style(Protocol):
    """Gives a text in colours, or as it is."""

    def __call__(self, text: str, *, fg: str = "", bold: bool = False, dim: bool = False) -> str:
        """Gives the text."""
        ...


def table(picture: Picture, style: Style = _plain, *, width: int = _WIDE) -> list[str]:
    """Gives the machines as rows with bars; none where there are none, and less of each where it is narrow."""
    if not picture.machines:
        return []
    head, cells = (_WIDE_HEAD, _wide) if width >= _WIDE else (_NARROW_HEAD, _narrow)
    rows = [head, *(cells(each) for each in picture.machines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    shown = [style(lines[0].rstrip(), dim=True)]
    for line, machine in zip(lines[1:], picture.machines, strict=True):
        state = machine.state.value
        shown.append(line[: line.rindex(state)] + style(state, fg=_STATE_COLOURS.get(machine.state, "")))
    return shown


def _wide(machine: Machine) -> tuple[str, ...]:
    return (
        machine.shown,
        machine.instance_type or "-",
        machine.capacity_type or "-",
        machine.zone or "-",
        _price(machine),
        f"{bar(machine.memory_share)} {machine.memory_share:4.0%}",
        f"{bar(machine.cpu_share, 8)} {machine.cpu_share:4.0%}",
        str(machine.pods),
        machine.state.value,
    )


def _narrow(machine: Machine) -> tuple[str, ...]:
    return (
        machine.shown,
        machine.instance_type or "-",
        _price(machine),
        f"{bar(machine.memory_share, 12)} {machine.memory_share:4.0%}",
        f"{machine.cpu_share:4.0%}",
        str(machine.pods),
        machine.state.value,
    )


def _price(machine: Machine) -> str:
    if not machine.instance:
        return "-"
    return "?" if machine.price_per_hour is None else f"{machine.price_per_hour:.3f}"


def _wrapped(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= max(width, 30):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _cut(text: str, width: int) -> str:
    """Gives as much of a line as a terminal shows in one row, its colours whole."""
    if len(_ANSI.sub("", text)) <= width:
        return text
    plain = _ANSI.sub("", text)
    return f"{plain[: max(width - 1, 0)]}…"
