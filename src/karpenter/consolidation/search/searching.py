# SPDX-License-Identifier: Apache-2.0
"""Looks for a cheaper cluster: any nodes may go, any may come, and each pod moves at most once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from karpenter.consolidation.search.buying import Shop
from karpenter.consolidation.search.copy import Copy
from karpenter.consolidation.search.polishing import polish
from karpenter.consolidation.search.pricing import price
from karpenter.consolidation.search.staging import Step, staged
from karpenter.consolidation.search.sweeping import Sweep
from karpenter.consolidation.search.terrain import Terrain

__all__ = ["Outcome", "explore"]

# Up to so many nodes every try is made that is asked for.
_USUAL = 1500


@dataclass(frozen=True, slots=True)
class Outcome:
    """A rearrangement of a terrain.

    Attributes:
        copy: The cluster as it would be.
        steps: How to get there; each step pays.
        tries: How many changes were looked at.
    """

    copy: Copy
    steps: tuple[Step, ...]
    tries: int


def explore(terrain: Terrain, tries: int, seed: int, stop: Callable[[], bool]) -> Outcome:
    """Return the best rearrangement found.

    Args:
        terrain: The cluster.
        tries: How many small changes are tried at the end; in very large clusters fewer.
        seed: Settles what is tried first.
        stop: Once it says true, the best so far counts.
    """
    copy = Copy(terrain)
    if not any(node.removable for node in terrain.nodes):
        return Outcome(copy, (), 0)
    _hold_room(copy)
    shop = Shop(terrain)
    sweep = Sweep(copy, price(terrain), shop, stop)
    sweep.run()
    # A try costs more the more hosts there are.
    polish(copy, sweep, min(tries, tries * _USUAL // max(1, len(terrain.nodes))), seed, stop)
    return Outcome(copy, tuple(staged(copy)), sweep.tries)


def _hold_room(copy: Copy) -> None:
    """Let pods that wait and ghosts take room where there is some; the others find none today either."""
    everyone = copy.open_hosts()
    for kind, number in copy.terrain.extra:
        copy.place({kind: number}, everyone)
    copy.forget()
