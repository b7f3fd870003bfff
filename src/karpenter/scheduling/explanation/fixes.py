# SPDX-License-Identifier: Apache-2.0
"""Finds the smallest change that would place the pods, and offers nothing that was not tried.

First single obstacles whose absence alone would do, over all pools; where there is none, all that the nearest offering
of a pool fails, together. Candidates are tried in the order of their size until one works; others that are as small but
of another kind are offered beside it. Work is bounded by the numbers below, which are judgements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from karpenter.api.core import Pod
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling.explanation.changes import apply
from karpenter.scheduling.explanation.obstacles import PoolLayout
from karpenter.scheduling.explanation.proposals import Proposer
from karpenter.scheduling.explanation.search import nearest_miss
from karpenter.scheduling.reasons import Change, ChangeKind, Fix

__all__ = ["Trial", "find_fixes", "try_out"]

# Tells whether the pod gets a place in the cluster.
Trial = Callable[[Snapshot, Pod], bool]

_MOST_POOLS = 64
_MOST_JOINED = 8
_MOST_TRIALS = 12
_MOST_FIXES = 3

_SIZES = {kind: size for size, kind in enumerate(ChangeKind)}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fix to try, in some pools; in all of them where none is named."""

    changes: tuple[Change, ...]
    pools: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, list[int]]:
        """How large it is: few changes before many, then by kind."""
        return (len(self.changes), sorted((_SIZES[each.kind] for each in self.changes), reverse=True))

    @property
    def kinds(self) -> frozenset[ChangeKind]:
        """The kinds of its changes."""
        return frozenset(each.kind for each in self.changes)


def find_fixes(
    layouts: Sequence[PoolLayout], proposer: Proposer, cluster: Snapshot, pod: Pod, trial: Trial
) -> tuple[Fix, ...]:
    """Return what would place a pod, the smallest first.

    Args:
        layouts: The pools, the nearest first; those beyond the first few are not asked.
        proposer: Knows what takes an obstacle away.
        cluster: The cluster as the solve leaves it.
        pod: The pod.
        trial: Tries a fix.
    """
    singles = (each for layout in layouts[:_MOST_POOLS] for each in _singles(layout, proposer))
    joined = (each for layout in layouts[:_MOST_JOINED] for each in _together(layout, proposer))
    return try_out(singles, cluster, pod, trial) or try_out(joined, cluster, pod, trial)


def try_out(candidates: Iterable[Candidate], cluster: Snapshot, pod: Pod, trial: Trial) -> tuple[Fix, ...]:
    """Return the candidates that work, the smallest first, one of each kind and none larger than needed."""
    found: list[Candidate] = []
    trials = 0
    for candidate in sorted(_folded(candidates), key=lambda each: each.size):
        if trials == _MOST_TRIALS or len(found) == _MOST_FIXES:
            break
        if found and (
            len(candidate.changes) > len(found[0].changes)
            or any(candidate.kinds == each.kinds for each in found)
        ):
            continue
        trials += 1
        if trial(*apply(_only(cluster, candidate.pools), pod, Fix(candidate.changes))):
            found.append(candidate)
    return tuple(Fix(each.changes) for each in found)


def _folded(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Put together what is the same change for several pools, and leave out what is none."""
    pools: dict[tuple[Change, ...], dict[str, None]] = {}
    for candidate in candidates:
        if candidate.changes:
            pools.setdefault(candidate.changes, {}).update(dict.fromkeys(candidate.pools))
    return [Candidate(changes, tuple(names)) for changes, names in pools.items()]


def _only(cluster: Snapshot, pools: tuple[str, ...]) -> Snapshot:
    if not pools:
        return cluster
    return replace(cluster, pools=tuple(each for each in cluster.pools if each.name in pools))


def _singles(layout: PoolLayout, proposer: Proposer) -> Iterator[Candidate]:
    """Yield what takes a single obstacle away that alone keeps the pod out."""
    for index in range(len(layout.obstacles)):
        reach = layout.left(layout.all & ~(1 << index))
        if any(reach):
            for changes in proposer.proposals(layout, index, reach):
                yield Candidate(changes, (layout.pool.name,))


def _together(layout: PoolLayout, proposer: Proposer) -> Iterator[Candidate]:
    """Yield what takes everything away that the nearest offering fails, in the pool as it is and in a wider one."""
    for within_pool in (True, False):
        miss = nearest_miss(layout, within_pool=within_pool)
        if miss is None:
            continue
        reach = [1 << miss.position if row.template is miss.template else 0 for row in layout.rows]
        if not all(next(proposer.proposals(layout, index, reach), ()) for index in miss.failed):
            continue
        changes: list[Change] = []
        for index in miss.failed:
            # Each change is made to what those before leave, or it would undo them.
            changes += next(proposer.after(changes).proposals(layout, index, reach), ())
        yield Candidate(tuple(changes), (layout.pool.name,))
