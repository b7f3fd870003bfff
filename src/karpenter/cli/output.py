# SPDX-License-Identifier: Apache-2.0
"""How the command speaks: data on stdout, errors, hints and warnings on stderr, colour where someone looks.

Colour is used on a terminal alone, and not if NO_COLOR is set or the terminal is dumb; nothing is said by
colour only. A reader that goes away (``| head``) ends the program quietly, as it ends others.
"""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Self, TextIO

import click

__all__ = [
    "BROKEN_PIPE",
    "ERROR",
    "HINT",
    "PATIENCE_S",
    "WARNING",
    "Progress",
    "colour_wanted",
    "diff",
    "error",
    "patiently",
    "say",
    "write_data",
]

# Labels of lines; the hint's is padded so that its text stands under the error's.
ERROR = "error:"
WARNING = "warning:"
HINT = "hint: "

# What a shell reports for a program that SIGPIPE ended.
BROKEN_PIPE = 141

# How long a person waits without a word, and how often a count is brought up to date.
PATIENCE_S = 2.0
_ON_A_TERMINAL_S = 0.2
_ELSEWHERE_S = 10.0
_LABEL_COLOURS = {ERROR: "red", WARNING: "yellow", HINT: "cyan"}
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def say(text: str, label: str = "") -> None:
    """Prints a line of talk, with a label if it is a warning, an error or a hint."""
    wanted = colour_wanted(sys.stderr)
    shown = click.style(label, fg=_LABEL_COLOURS[label], bold=True) if wanted and label else label
    click.echo(f"{shown} {text}" if label else text, err=True, color=wanted)


def error(text: str, hint: str = "") -> None:
    """Prints an error, each of its lines labelled, and what to do about it."""
    for line in text.splitlines() or [""]:
        say(line, ERROR)
    if hint:
        say(hint, HINT)


def write_data(text: str) -> None:
    """Writes data to stdout, all of it, before anything else is said.

    Raises:
        click.exceptions.Exit: The reader went away.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as gone:
        # Python flushes stdout once more at exit; without somewhere to flush to, that would print a traceback.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open until the very end
        raise click.exceptions.Exit(BROKEN_PIPE) from gone


def colour_wanted(stream: TextIO) -> bool:
    """Tells whether coloured text on the stream reaches eyes that want it."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def diff(before: str, after: str, old_name: str, new_name: str) -> str:
    """Returns the unified difference of two texts, coloured if stdout wants it."""
    colour = colour_wanted(sys.stdout)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), old_name, new_name, lineterm="")
    return "".join(f"{_coloured(line) if colour else line}\n" for line in lines)


class Progress:
    """What is going on, said once it takes longer than a person likes to wait without a word.

    On a terminal one line is kept up to date and is gone in the end; elsewhere a line comes now and then, if it is a
    new one. The worker sets the text as often as it likes; another thread shows it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._over = threading.Event()
        self._on_one_line = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shower = threading.Thread(target=self._show, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._shower.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._shower.join()

    def _show(self) -> None:
        shown = ""
        wait_s = PATIENCE_S
        while not self._over.wait(wait_s):
            wait_s = _ON_A_TERMINAL_S if self._on_one_line else _ELSEWHERE_S
            if self.text == shown:
                continue
            shown = self.text
            if self._on_one_line:
                width = max(shutil.get_terminal_size().columns - 1, 20)
                click.echo(f"\r{shown[:width]}\x1b[K", err=True, nl=False)
            else:
                say(shown)
        if shown and self._on_one_line:
            click.echo("\r\x1b[K", err=True, nl=False)


def patiently(text: str) -> Progress:
    """Say what is going on if a block takes longer than a person likes to wait without a word."""
    return Progress(text)


def _coloured(line: str) -> str:
    return click.style(line, fg=_DIFF_COLOURS.get(line[:1]))
