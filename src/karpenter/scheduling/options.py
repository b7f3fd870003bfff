# SPDX-License-Identifier: Apache-2.0
"""What a caller may choose about a solve; the defaults are those of the controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["SolveOptions", "never"]


def never() -> bool:
    """Say that there is time left, always: the deadline of those who can wait."""
    return False


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """How to decide.

    Attributes:
        preferences: ``Respect`` treats wishes as needs until they must give way; ``Ignore`` passes them over.
        min_values: ``Strict`` refuses a node that keeps too few different values open; ``BestEffort`` takes what
            there is and says so.
        tolerance: The share of the price that may be given up for fewer nodes.
        alternatives_margin: How much dearer than the chosen offering an alternative may be, as a share.
        effort: How many tries improvement gets; 0 is the greedy plan alone. The result depends on tries, never on
            the speed of the machine, unless the deadline cuts in.
        expired: Asked now and then; once it says true, what is placed by then is the plan.
        seed: Makes the choices among equals of the improvement.
        first: Pods, as namespace/name, that the last solve left untried (`Plan.unfinished`): of equal priority they
            come before all others, so that a deadline never cuts off the same pods again and again.
    """

    preferences: Literal["Respect", "Ignore"] = "Respect"
    min_values: Literal["Strict", "BestEffort"] = "Strict"
    tolerance: float = 0.01
    alternatives_margin: float = 1.0
    effort: int = 100
    expired: Callable[[], bool] = never
    seed: int = 1
    first: frozenset[str] = frozenset()
