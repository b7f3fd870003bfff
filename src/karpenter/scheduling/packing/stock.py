# SPDX-License-Identifier: Apache-2.0
"""The pods of a lot, folded once more: kinds of pods that nothing in this lot tells apart.

Shapes that differ only in what nothing here looks at (a group that nobody owns a rule on, an order number) become one
kind with a count. Kinds have a canonical order, so that the order of the input never shows in the result: owners of
host rules first, then larger pods before smaller ones.

Kinds of the same mask and size are one sort: all that the fluid looks at. Kinds of like sizes share a cell: with few
distinct sizes each has a cell of its own; with many, a cell is half an octave of every resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import mul
from typing import Any, TypeVar

from karpenter.model.catalogue import bits, lowest_bit
from karpenter.scheduling.packing.lot import Lot, Shape
from karpenter.scheduling.packing.menu import Menu, holding, menu_for
from karpenter.scheduling.packing.rules import NodeRules, Rules

__all__ = ["Contents", "Size", "Stock", "present"]

# With more distinct sizes than this, cells are squares of a grid. Arbitrary; fills slow down in proportion.
_MOST_CELLS = 96

T = TypeVar("T")

Size = tuple[int, ...]
Contents = tuple[tuple[int, int], ...]


class Stock:
    """All kinds of pods of a lot, with the menu they choose from.

    Vectors follow ``resources``, those that some pod asks for. Counts of pods are lists with a place for each kind.

    Attributes:
        columns: The places of the resources in the lot's.
        samples: One shape for each kind, and ``counts``, ``sizes`` and ``mask_of`` by kind.
        masks: The distinct masks; ``sorts`` are the distinct masks and sizes, ``sort_of`` the sort of each kind.
        apart: Sets of kinds that must stand apart: the number of nodes they force, the most pods of them on a node, and
            their kinds, those that force most first.
        allowed: The kinds that an empty node takes: all but those whose own rules keep them out.
    """

    def __init__(self, lot: Lot) -> None:
        self.lot = lot
        asked = [i for i in range(len(lot.resources)) if any(shape.size[i] for shape in lot.shapes)]
        self.columns = asked or [0]
        self.resources = tuple(lot.resources[i] for i in self.columns)
        folded = self._fold()
        self.samples = [sample for sample, _ in folded]
        self._parts = [parts for _, parts in folded]
        self.counts = [sample.count for sample in self.samples]
        self.sizes = [sample.size for sample in self.samples]
        distinct = {id(sample.mask): sample.mask for sample in self.samples}
        self.masks = tuple(sorted(set(distinct.values())))
        places = {mask: place for place, mask in enumerate(self.masks)}
        place_of = {identity: places[mask] for identity, mask in distinct.items()}
        self.mask_of = [place_of[id(sample.mask)] for sample in self.samples]
        sorts: dict[tuple[int, Size], int] = {}
        self.sort_of = [
            sorts.setdefault(key, len(sorts)) for key in zip(self.mask_of, self.sizes, strict=True)
        ]
        self.sorts = list(sorts)
        self._amounts = [[size[i] for size in self.sizes] for i in range(len(self.resources))]
        self._falling = [
            [kind for _, kind in sorted((-amount, kind) for kind, amount in enumerate(column))]
            for column in self._amounts
        ]
        self.rules = Rules(self.samples)
        self.allowed = ((1 << len(self.sizes)) - 1) & ~self.rules.refused(NodeRules(), 0)
        self.apart = self._apart()
        self.overheads = tuple((mask, self.project(extra)) for mask, extra in lot.overheads)
        self.menu: Menu = menu_for(
            lot.catalogue,
            self.resources,
            self.overheads,
            self.masks,
            tuple(sorted(name for name, _ in lot.limits if name != "nodes")),
        )

    def _fold(self) -> list[tuple[Shape, list[tuple[int, int]]]]:
        """Return a shape for each kind, with the indices and counts of the lot's shapes in it."""
        lot = self.lot
        doors = list(dict.fromkeys(room.admits for room in lot.rooms))
        # Shapes are many and their parts few: each part is looked at once, and stands for its place among its kind.
        owned = 0
        for owner in {*(shape.caps for shape in lot.shapes), *(room.caps for room in lot.rooms)}:
            for group, _ in owner:
                owned |= 1 << group
        caps, counted = self._ranked_rules(owned)
        sizes = _ranks({shape.size for shape in lot.shapes}, lambda size: [-amount for amount in size])
        masks, places = self._sellable_masks()
        folded: dict[tuple[object, ...], list[tuple[int, int, int]]] = {}
        for index, shape in enumerate(lot.shapes):
            if shape.count > 0:
                key = (
                    not shape.caps,
                    sizes[shape.size],
                    caps[shape.caps],
                    counted[shape.counted],
                    shape.ports,
                    shape.port_conflicts,
                    places[id(shape.mask)],
                    tuple([admits >> index & 1 for admits in doors]) if doors else (),
                )
                folded.setdefault(key, []).append((shape.order, index, shape.count))
        projected = {size: self.project(size) for size in sizes}
        kinds: list[tuple[Shape, list[tuple[int, int]]]] = []
        for _, members in sorted(folded.items()):
            members.sort()
            shape = lot.shapes[members[0][1]]
            sample = Shape(
                size=projected[shape.size],
                count=sum([count for _, _, count in members]),
                mask=masks[id(shape.mask)],
                counted=shape.counted & owned,
                caps=shape.caps,
                ports=shape.ports,
                port_conflicts=shape.port_conflicts,
            )
            kinds.append((sample, [(index, count) for _, index, count in members]))
        return kinds

    def _ranked_rules(self, owned: int) -> tuple[dict[tuple[tuple[int, int], ...], int], dict[int, int]]:
        """Return the rank of each owner's rules, and of each set of groups that count a shape.

        What concerns most pods comes first, whatever the numbers of the groups: those pods are the hardest to part.

        Args:
            owned: The groups that somebody has a rule about, as bits.
        """
        shapes = self.lot.shapes
        pods: dict[int, int] = {}
        for shape in shapes:
            groups = shape.counted & owned
            pods[groups] = pods.get(groups, 0) + shape.count
        by_group: dict[int, int] = dict.fromkeys(bits(owned), 0)
        for groups, count in pods.items():
            for group in bits(groups):
                by_group[group] += count
        return (
            _ranks(
                {shape.caps for shape in shapes},
                lambda owner: sorted((-by_group[group], group, limit) for group, limit in owner),
            ),
            _ranks(
                {shape.counted for shape in shapes},
                lambda groups: (-pods[groups & owned], groups & owned),
            ),
        )

    def _sellable_masks(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return for each mask of the shapes the offerings in it that can be bought at all, and its rank among them.

        Masks are as wide as the catalogue, and most shapes share a few of them: both go by ``id``.
        """
        lot = self.lot
        nothing = (0,) * len(lot.resources)
        sellable = holding(lot.catalogue, lot.resources, lot.overheads, nothing, lot.catalogue.everything)
        distinct = {id(shape.mask): shape.mask for shape in lot.shapes}
        masks = {identity: mask & sellable for identity, mask in distinct.items()}
        ranks = {mask: rank for rank, mask in enumerate(sorted(set(masks.values())))}
        return masks, {identity: ranks[mask] for identity, mask in masks.items()}

    # What only filling asks for is worked out when it does.

    @cached_property
    def cells(self) -> list[int]:
        """Sets of kinds of like sizes."""
        keys = self.sizes
        if len(set(keys)) > _MOST_CELLS:
            keys = [tuple(map(_half_octave, size)) for size in self.sizes]
        cells: dict[Size, int] = {}
        for kind, key in enumerate(keys):
            cells[key] = cells.get(key, 0) | 1 << kind
        return list(cells.values())

    @cached_property
    def cell_sizes(self) -> list[Size]:
        """The size of the first kind of each cell."""
        return [self.sizes[lowest_bit(kinds)] for kinds in self.cells]

    @cached_property
    def least(self) -> list[list[int]]:
        """For each resource the least amount in each cell."""
        members = [[self.sizes[kind] for kind in bits(kinds)] for kinds in self.cells]
        amounts = [[min(each) for each in zip(*sizes, strict=True)] for sizes in members]
        return [[each[i] for each in amounts] for i in range(len(self.resources))]

    @cached_property
    def has_zeros(self) -> bool:
        """Whether some kind asks for nothing of some resource."""
        return not all(map(all, self.sizes))

    @cached_property
    def twins(self) -> list[int]:
        """For each kind those of the same size."""
        same: dict[Size, int] = {}
        for kind, size in enumerate(self.sizes):
            same[size] = same.get(size, 0) | 1 << kind
        return [same[size] for size in self.sizes]

    def project(self, amounts: Sequence[int]) -> Size:
        """Return the amounts of the resources that count here."""
        return tuple(amounts[i] for i in self.columns)

    def by_sort(self, counts: Sequence[int]) -> list[int]:
        """Return how many of the pods there are of each sort."""
        found = [0] * len(self.sorts)
        for sort, count in zip(self.sort_of, counts, strict=True):
            found[sort] += count
        return found

    def total(self, counts: Sequence[int]) -> list[int]:
        """Return what the pods take together."""
        return [sum(map(mul, amounts, counts)) for amounts in self._amounts]

    def largest(self, counts: Sequence[int]) -> list[int]:
        """Return the most of each resource that any of the pods takes."""
        return [
            next((amounts[kind] for kind in falling if counts[kind]), 0)
            for amounts, falling in zip(self._amounts, self._falling, strict=True)
        ]

    def _apart(self) -> list[tuple[int, int, list[int]]]:
        found = []
        for members, limit in self.rules.forced:
            kinds = list(bits(members))
            found.append((-(-sum(self.counts[kind] for kind in kinds) // limit), limit, kinds))
        return sorted(found, reverse=True)

    def forced_nodes(self, counts: Sequence[int]) -> tuple[int, Sequence[int]]:
        """Return how many nodes host rules force, at least one, and the kinds that must stand apart on them.

        There must be no more pods than the stock has.
        """
        nodes: int = 1
        apart: Sequence[int] = ()
        for most, limit, kinds in self.apart:
            if most <= nodes:
                break
            forced = -(-sum([counts[kind] for kind in kinds]) // limit)
            if forced > nodes:
                nodes, apart = forced, kinds
        return nodes, apart

    def used(self, contents: Iterable[tuple[int, int]]) -> Size:
        """Return what the contents of a node take."""
        pods = list(contents)
        return tuple([sum([amounts[kind] * number for kind, number in pods]) for amounts in self._amounts])

    def kinds_admitted(self, admits: int) -> int:
        """Return the kinds whose shapes are in a set of shapes, as a room gives it."""
        return sum(1 << kind for kind, parts in enumerate(self._parts) if admits >> parts[0][0] & 1)

    def unfold(self, nodes: Iterable[Iterable[tuple[int, int]]]) -> tuple[list[Contents], list[int]]:
        """Return the contents of the nodes by shape instead of kind, and how many pods of each shape are left.

        Shapes of one kind are handed out in their order.
        """
        queues = [[[index, count] for index, count in reversed(parts)] for parts in self._parts]
        found: list[Contents] = []
        for contents in nodes:
            shapes: list[tuple[int, int]] = []
            for kind, number in contents:
                missing = number
                while missing:
                    head = queues[kind][-1]
                    taken = min(missing, head[1])
                    shapes.append((head[0], taken))
                    missing -= taken
                    head[1] -= taken
                    if not head[1]:
                        queues[kind].pop()
            found.append(tuple(sorted(shapes)))
        left = [0] * len(self.lot.shapes)
        for queue in queues:
            for index, count in queue:
                left[index] = count
        return found, left


def present(counts: Sequence[int]) -> int:
    """Return the kinds of which there are pods."""
    # As text, which the interpreter turns into a number faster than any loop over bits adds one up.
    return int("".join(["1" if count else "0" for count in reversed(counts)]) or "0", 2)


def _ranks(parts: Iterable[T], order: Callable[[T], Any]) -> dict[T, int]:
    """Return for each part its rank by the order; equal ones share a rank."""
    keys = {part: order(part) for part in parts}
    ranks: dict[T, int] = {}
    last = None
    for part in sorted(keys, key=keys.__getitem__):
        ranks[part] = ranks[last] if last is not None and keys[last] == keys[part] else len(ranks)
        last = part
    return ranks


def _half_octave(amount: int) -> int:
    """Return the same number for amounts within half an octave: the bit length, and the bit below the highest."""
    length = amount.bit_length()
    return 2 * length + (amount >> length - 2 & 1 if length > 1 else 0)
