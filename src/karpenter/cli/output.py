# SPDX-License-Identifier: Apache-2.0
"""How the command speaks: data on stdout, errors, hints and warnings on stderr, colour where someone looks.

Colour is used on a terminal alone, and not if NO_COLOR is set or the terminal is dumb; nothing is said by
colour only. A reader that goes away (``| head``) ends the program quietly, as it ends others.
"""

from __future__ import annotations

import difflib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

__all__ = [
    "BROKEN_PIPE",
    "ERROR",
    "HINT",
    "PATIENCE_S",
    "WARNING",
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

# How long a person waits without a word.
PATIENCE_S = 2.0
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


@contextmanager
def patiently(text: str) -> Iterator[None]:
    """Says what is going on if the block takes longer than a person likes to wait without a word."""
    timer = threading.Timer(PATIENCE_S, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _coloured(line: str) -> str:
    return click.style(line, fg=_DIFF_COLOURS.get(line[:1]))
