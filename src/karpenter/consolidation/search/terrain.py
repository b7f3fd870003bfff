# SPDX-License-Identifier: Apache-2.0
"""What the search walks over: the cluster as whole numbers, with pods that nothing tells apart folded into kinds.

Every rule has become one of four things before: a set of standing nodes that a kind may enter, a set of offerings that
it may be bought, a host group with a cap, or a node that stays. Sets are ints, one bit for each node, kind or offering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from karpenter.model.catalogue import Catalogue

__all__ = ["Kind", "Size", "Source", "Standing", "Terrain"]

Size = tuple[int, ...]


class Kind(msgspec.Struct, frozen=True, gc=False):
    """Pods that are equal in all that the search looks at.

    Attributes:
        size: What one of them takes, in the order of ``Terrain.resources``.
        source: Where nodes for it are bought, as a place in ``Terrain.sources``; -1 if nowhere.
        mask: The offerings of that source that it may use.
        nodes: The standing nodes that it may enter, whatever room they have.
        counted: The host groups that count it.
        caps: The host rules it owns: while it stands on a node, so many pods of a group may be there.
        ghost: Whether it only stands for room to be kept, so that nothing is bought for it alone.
    """

    size: Size
    source: int = -1
    mask: int = 0
    nodes: int = 0
    counted: int = 0
    caps: tuple[tuple[int, int], ...] = ()
    ghost: bool = False


class Standing(msgspec.Struct, frozen=True, gc=False):
    """A node that stands.

    Attributes:
        free: What is left on it.
        price: What it costs per hour.
        contents: The pods that must move if it goes, as kinds and numbers.
        gain: What taking it away is worth per hour before anything is bought for its pods: its price, less the least
            saving asked for, less what its pods' moves must save. Counts only if it is removable.
        removable: Whether it may go.
        receives: Whether moved pods may come.
        counts: How many pods of each host group are on it.
        caps: How many of each host group its pods bear.
    """

    free: Size
    price: float = 0.0
    contents: tuple[tuple[int, int], ...] = ()
    gain: float = 0.0
    removable: bool = True
    receives: bool = True
    counts: tuple[tuple[int, int], ...] = ()
    caps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where nodes are bought: a pool with the labels of its own settled.

    Attributes:
        catalogue: What it sells.
        overheads: What DaemonSets take, by offerings; the masks do not overlap, and hold all that may be bought.
        pool: Whose limits count.
        limits: What the pool may still grow by before anything is removed.
    """

    catalogue: Catalogue
    overheads: tuple[tuple[int, Size], ...]
    pool: str = ""
    limits: tuple[tuple[str, int], ...] = ()

    def room(self, position: int, resources: Sequence[str]) -> Size:
        """Return what a new node has for pods."""
        taken = next(amounts for mask, amounts in self.overheads if mask >> position & 1)
        amounts = self.catalogue.vector(position, resources)
        return tuple(have - less for have, less in zip(amounts, taken, strict=True))


@dataclass(frozen=True)
class Terrain:
    """The whole question.

    Attributes:
        resources: The names of the amounts in all vectors.
        kinds: The pods, folded, in the order in which they are placed: the largest first.
        nodes: The nodes that stand.
        sources: Where nodes can be bought.
        extra: Pods that hold room before anybody moves: those that wait, and ghosts; as kinds and numbers.
        surcharge: What a bought node costs beside its price, as a share: it is paid for while the old one still runs.
        fee: What every node costs per hour beside its price while rearrangements are compared: its root volume, its
            addresses, one more machine to patch. Never part of a reported price.
    """

    resources: tuple[str, ...]
    kinds: tuple[Kind, ...]
    nodes: tuple[Standing, ...]
    sources: tuple[Source, ...]
    extra: tuple[tuple[int, int], ...] = ()
    surcharge: float = 0.0
    fee: float = 0.0

    @cached_property
    def ghosts(self) -> int:
        """The kinds that only hold room."""
        return sum(1 << kind for kind, each in enumerate(self.kinds) if each.ghost)

    def admitted(self, source: int, position: int) -> int:
        """Return the kinds that may use an offering of a source."""
        known = self._admitted.get((source, position))
        if known is None:
            known = sum(
                1 << kind
                for kind, each in enumerate(self.kinds)
                if each.source == source and each.mask >> position & 1
            )
            self._admitted[source, position] = known
        return known

    @cached_property
    def _admitted(self) -> dict[tuple[int, int], int]:
        return {}
