# SPDX-License-Identifier: Apache-2.0
"""Searches a laid-out pool for the smallest set of obstacles that leaves nothing, and for the offering nearest to free.

Both are questions about sets of offerings alone. The smallest set is exact up to two obstacles; beyond that it is a set
from which none can be left out, found by leaving out what can be. Near means failing few obstacles; among equally near
offerings those that fail late in the order are preferred (a type that is too small is nearer than one of another kind),
then the largest, then the cheapest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from karpenter.model.catalogue import bits, lowest_bit
from karpenter.scheduling.explanation.obstacles import PoolLayout
from karpenter.scheduling.reasons import Cause
from karpenter.scheduling.templates import Template

__all__ = ["Miss", "nearest_miss", "smallest_excluding"]

# Beyond this many obstacles pairs are not searched: 24 give 276 pairs.
_MOST_PAIRED = 24
# An offering that fails more than this is near to nothing.
_MOST_MISSES = 8


def smallest_excluding(layout: PoolLayout) -> int | None:
    """Return the smallest set of obstacles, as bits, that leaves nothing of the pool; None if something is left.

    The pod's part is made as small as it can be while the pool stays as it is, then the pool's part. Nothing of the
    result can be left out: what a pod's obstacle alone keeps out of the whole pool, it keeps out of less of it too.
    Beside minValues the pool's part stays as it is, because there a wider choice may leave fewer values open.
    """
    if not layout.excludes(layout.all):
        return None
    wants = [index for index in range(len(layout.obstacles)) if not layout.of_pool >> index & 1]
    kept = _smallest(layout, wants, layout.of_pool)
    if any(layout.obstacles[index].cause is Cause.MIN_VALUES for index in bits(kept)):
        return kept
    return _smallest(layout, list(bits(layout.of_pool)), kept & ~layout.of_pool)


def _smallest(layout: PoolLayout, candidates: list[int], fixed: int) -> int:
    """Return the fixed obstacles with the fewest candidates that exclude everything together."""
    if layout.excludes(fixed):
        return fixed
    for index in candidates:
        if layout.excludes(fixed | 1 << index):
            return fixed | 1 << index
    if len(candidates) <= _MOST_PAIRED:
        for first, second in combinations(candidates, 2):
            if layout.excludes(fixed | 1 << first | 1 << second):
                return fixed | 1 << first | 1 << second
    kept, before = fixed | sum(1 << index for index in candidates), 0
    while kept != before:
        before = kept
        # Later obstacles go first, so that what a person checks first is what is named.
        for index in reversed(candidates):
            if layout.excludes(kept & ~(1 << index)):
                kept &= ~(1 << index)
    return kept


@dataclass(frozen=True, slots=True)
class Miss:
    """An offering that fails few obstacles.

    Attributes:
        layout: The pool.
        template: The template it would be made from.
        position: Its place in the catalogue.
        failed: The obstacles it fails, by their place in the layout.
        shortfall: How many times too small it is in what it lacks most; 1 where size is not what fails.
    """

    layout: PoolLayout
    template: Template
    position: int
    failed: tuple[int, ...]
    shortfall: float

    @property
    def price_per_hour(self) -> float:
        """What the offering costs."""
        return self.layout.catalogue.prices[self.position]

    def rank(self) -> tuple[int, tuple[int, ...], float, float]:
        """Order misses of different pools: fewest failed, failed last, least short, cheapest."""
        later_first = tuple(-_TURNS[self.layout.obstacles[index].cause] for index in self.failed)
        return (len(self.failed), later_first, self.shortfall, self.price_per_hour)


_TURNS = {cause: turn for turn, cause in enumerate(Cause)}


def nearest_miss(layout: PoolLayout, *, within_pool: bool) -> Miss | None:
    """Return the offering that fails the fewest obstacles; None where all fail too many.

    Args:
        layout: The pool.
        within_pool: Whether the pool's own requirements must hold; otherwise they count like any other obstacle.
    """
    best: Miss | None = None
    for row in layout.rows:
        for cell in row.cells:
            mask = _least_failing(layout, cell, within_pool=within_pool)
            if mask:
                miss = _choose(layout, row.template, cell, mask)
                if best is None or miss.rank() < best.rank():
                    best = miss
    return best


def _least_failing(layout: PoolLayout, cell: tuple[int, ...], *, within_pool: bool) -> int:
    """Return the offerings that fail as few obstacles as any."""
    start = layout.catalogue.everything
    if within_pool:
        for index in bits(layout.of_pool):
            start &= cell[index]
    # by_number[n] holds the offerings that fail n of the obstacles seen so far.
    by_number = [start] + [0] * _MOST_MISSES
    for index, mask in enumerate(cell):
        if within_pool and layout.of_pool >> index & 1:
            continue
        for number in range(_MOST_MISSES, 0, -1):
            by_number[number] = by_number[number] & mask | by_number[number - 1] & ~mask
        by_number[0] &= mask
    return next((mask for mask in by_number if mask), 0)


def _choose(layout: PoolLayout, template: Template, cell: tuple[int, ...], mask: int) -> Miss:
    for left in cell:
        mask = mask & left or mask
    failed = tuple(index for index, left in enumerate(cell) if not mask & left)
    short = [
        layout.obstacles[index].subject
        for index in failed
        if layout.obstacles[index].cause is Cause.RESOURCES
    ]
    for resource in short:
        mask &= layout.catalogue.at_least(resource, layout.catalogue.most(resource, mask))
    position = lowest_bit(mask)
    return Miss(layout, template, position, failed, _shortfall(layout, template, position, short))


def _shortfall(layout: PoolLayout, template: Template, position: int, short: list[str]) -> float:
    worst = 1.0
    overhead = dict(zip(template.resources, template.overhead_at(position), strict=True))
    for resource in short:
        wanted = layout.requests.get(resource, 0) + overhead.get(resource, 0)
        have = layout.catalogue.type_at(position).allocatable.get(resource, 0)
        worst = max(worst, wanted / have if have else float("inf"))
    return worst
