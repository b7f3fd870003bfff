# SPDX-License-Identifier: Apache-2.0
"""What the commands of the benchmarks have in common: words for the person who waits, and numbers from them."""

from __future__ import annotations

import argparse
import sys

__all__ = ["positive", "say"]


def say(text: str) -> None:
    """Print a line beside what is measured."""
    print(text, file=sys.stderr, flush=True)


def positive(text: str) -> int:
    """Return the whole number above 0 that an option is given.

    Raises:
        ArgumentTypeError: It is not one.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
