# SPDX-License-Identifier: Apache-2.0
"""Which kinds of pods fit into some room, asked by the million."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from karpenter.consolidation.search.terrain import Size

__all__ = ["Fits"]


class Fits:
    """Which kinds fit into some room: for each resource the kinds that ask for at most so much."""

    def __init__(self, sizes: Sequence[Size]) -> None:
        self._columns: list[tuple[list[int], list[int]]] = []
        for amounts in zip(*sizes, strict=True):
            by_amount: dict[int, int] = {}
            for kind, amount in enumerate(amounts):
                by_amount[amount] = by_amount.get(amount, 0) | 1 << kind
            ascending = sorted(by_amount)
            masks = [0]
            for amount in ascending:
                masks.append(masks[-1] | by_amount[amount])
            self._columns.append((ascending, masks))
        self._everything = (1 << len(sizes)) - 1

    def into(self, free: Size) -> int:
        """Return the kinds of which one fits."""
        found = self._everything
        # Without any kind there are no columns.
        for have, (amounts, masks) in zip(free, self._columns, strict=False):
            found &= masks[bisect_right(amounts, have)]
        return found
