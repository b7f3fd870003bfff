# SPDX-License-Identifier: Apache-2.0
"""Compares us with the Go scheduler on the random problems of some seeds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.e2e.peer.asking import ask_go
from tests.e2e.peer.comparing import Tally, compare
from tests.strategies import random_problem

__all__ = ["compared"]


def compared(program: Path, seeds: Iterable[int], folder: Path) -> Tally:
    """Compare us with Go on the random problems of some seeds."""
    asked = list(seeds)
    problems = [random_problem(seed) for seed in asked]
    tally = Tally()
    for seed, problem, answer in zip(asked, problems, ask_go(program, problems, folder), strict=True):
        tally.add(seed, compare(problem, answer))
    return tally
