# SPDX-License-Identifier: Apache-2.0
"""Which standing nodes had room for a pod when the solve began: the few of a large cluster that are worth asking.

Nodes are bits of an int. For each resource the nodes with at least so much free are known, so that asking costs a
search and an ``&`` for each. Room only shrinks while pods are placed, so whoever is left out here stays out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["Vacancies"]


class Vacancies:
    """What was free on some nodes, by resource; a node's number is its place."""

    def __init__(self, free: Sequence[tuple[int, ...]]) -> None:
        self._everybody = (1 << len(free)) - 1
        self._columns = [_at_least(amounts) for amounts in zip(*free, strict=True)]
        self._known: dict[tuple[int, ...], int] = {}

    def holding(self, requests: tuple[int, ...]) -> int:
        """Return the nodes that had room for so much."""
        known = self._known.get(requests)
        if known is None:
            known = self._everybody
            for amount, (amounts, nodes) in zip(requests, self._columns, strict=False):
                known &= nodes[bisect_left(amounts, amount)]
            self._known[requests] = known
        return known


def _at_least(amounts: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the distinct amounts, ascending, and for each the nodes with at least so much; none at the end."""
    by_amount: dict[int, int] = {}
    for node, amount in enumerate(amounts):
        by_amount[amount] = by_amount.get(amount, 0) | 1 << node
    ascending = sorted(by_amount)
    nodes = [0] * (len(ascending) + 1)
    for place in range(len(ascending) - 1, -1, -1):
        nodes[place] = nodes[place + 1] | by_amount[ascending[place]]
    return ascending, nodes
