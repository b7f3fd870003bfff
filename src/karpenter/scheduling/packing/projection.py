# SPDX-License-Identifier: Apache-2.0
"""Packs all pods at once into a given set of nodes.

Pods come in turns, in each turn the most valuable first; each goes to the node whose remaining room points most in
the pod's direction. A few pods that find no room are helped by moving others: one pod to another node, or two pods in
exchange. Only sizes are looked at: for pods without rules between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heapreplace
from math import sqrt
from operator import mul, sub

__all__ = ["Load", "portions", "project", "repair"]

Size = tuple[int, ...]

# How often a kind may look for a node, over all nodes and turns, and into how many turns pods are divided at most.
_LOOKS = 2400
_MOST_TURNS = 16
# How many exchanges are looked at for all pods that found no room.
_EXCHANGES = 1500


class Load:
    """Nodes being packed: the room left on each, what each holds, and the pods that found no room."""

    __slots__ = ("contents", "free", "missing")

    def __init__(self, free: Iterable[Size]) -> None:
        self.free = list(free)
        self.contents: list[dict[int, int]] = [{} for _ in self.free]
        self.missing: dict[int, int] = {}

    def move(self, place: int, kind: int, number: int, size: Size) -> None:
        """Put pods on a node, or take them off if the number is negative."""
        self.free[place] = tuple(
            have - need * number for have, need in zip(self.free[place], size, strict=True)
        )
        held = self.contents[place]
        held[kind] = held.get(kind, 0) + number
        if not held[kind]:
            del held[kind]


def portions(order: Sequence[int], counts: Sequence[int], nodes: int) -> list[tuple[int, int]]:
    """Return kinds and numbers in turns, a part of every kind in each.

    Packed kind after kind, early ones would take the room that suits late ones; in turns, all find theirs.

    Args:
        order: The kinds, the first to be packed first in each turn.
        counts: How many pods there are of each kind.
        nodes: About how many nodes there will be; the more, the fewer turns, since each costs a look at every node.
    """
    turns = min(_MOST_TURNS, max(1, _LOOKS // max(1, len(order) * nodes)))
    found: list[tuple[int, int]] = []
    for turn in range(turns):
        for kind in order:
            count = counts[kind]
            number = -(-count * (turn + 1) // turns) + (-count * turn // turns)
            if number:
                found.append((kind, number))
    return found


def project(
    free: Iterable[Size],
    sizes: Sequence[Size],
    pods: Iterable[tuple[int, int]],
    weights: Sequence[float],
) -> Load:
    """Return the nodes packed with the pods, given as kinds and numbers in the order in which they come."""
    load = Load(free)
    rooms = load.free
    vectors = [list(map(mul, room, weights)) for room in rooms]
    lengths = [sqrt(sum(map(mul, vector, vector))) or 1.0 for vector in vectors]
    for kind, number in pods:
        size = sizes[kind]
        vector = list(map(mul, size, weights))
        heap = []
        for place, room in enumerate(rooms):
            for have, need in zip(room, size, strict=True):
                if have < need:
                    break
            else:
                heap.append((-sum(map(mul, vector, vectors[place])) / lengths[place], place))
        heapify(heap)
        open_ = number
        while open_ and heap:
            place = heap[0][1]
            open_ -= 1
            held = load.contents[place]
            held[kind] = held.get(kind, 0) + 1
            room = rooms[place] = tuple(map(sub, rooms[place], size))
            left = vectors[place] = list(map(sub, vectors[place], vector))
            length = lengths[place] = sqrt(sum(map(mul, left, left))) or 1.0
            for have, need in zip(room, size, strict=True):
                if have < need:
                    heappop(heap)
                    break
            else:
                heapreplace(heap, (-sum(map(mul, vector, left)) / length, place))
        if open_:
            load.missing[kind] = load.missing.get(kind, 0) + open_
    return load


def repair(load: Load, sizes: Sequence[Size]) -> None:
    """Make room for missing pods by moving others, the largest first, as far as a fixed number of looks allows."""
    looks = _EXCHANGES
    for kind in sorted(load.missing, key=lambda kind: [-amount for amount in sizes[kind]]):
        while load.missing.get(kind) and looks > 0:
            looks = _make_room(load, sizes, kind, looks)
            if looks < 0:
                return


def _make_room(load: Load, sizes: Sequence[Size], kind: int, looks: int) -> int:
    """Place one missing pod; return the looks left, -1 if there is no way."""
    size = sizes[kind]
    for place, room in enumerate(load.free):
        if min(map(sub, room, size)) >= 0:
            return _settle(load, sizes, kind, place, looks)
    for place, room in enumerate(load.free):
        lack = list(map(sub, size, room))
        if looks <= 0:
            return -1
        for other in load.contents[place]:
            spare = sizes[other]
            looks -= 1
            if min(map(sub, spare, lack)) < 0:
                continue
            for target, space in enumerate(load.free):
                if target != place and min(map(sub, space, spare)) >= 0:
                    load.move(place, other, -1, spare)
                    load.move(target, other, 1, spare)
                    return _settle(load, sizes, kind, place, looks)
    return _exchange(load, sizes, kind, looks)


def _exchange(load: Load, sizes: Sequence[Size], kind: int, looks: int) -> int:
    """Place one missing pod by letting two others change places; return the looks left, -1 if there is no way."""
    size = sizes[kind]
    for place, room in enumerate(load.free):
        lack = list(map(sub, size, room))
        # Most exchanges fail by the resource that is missing most: it is looked at first.
        shares = [missing / max(1, need) for missing, need in zip(lack, size, strict=True)]
        scarce = shares.index(max(shares))
        for mine in load.contents[place]:
            if min(map(sub, sizes[mine], lack)) < 0:
                continue
            most = sizes[mine][scarce] - lack[scarce]
            for target, space in enumerate(load.free):
                if looks <= 0:
                    return -1
                for theirs in load.contents[target]:
                    looks -= 1
                    if sizes[theirs][scarce] > most or target == place:
                        continue
                    gain = list(map(sub, sizes[mine], sizes[theirs]))
                    if min(map(sub, gain, lack)) >= 0 and min(map(sub, space, gain)) >= 0:
                        load.move(place, mine, -1, sizes[mine])
                        load.move(target, theirs, -1, sizes[theirs])
                        load.move(place, theirs, 1, sizes[theirs])
                        load.move(target, mine, 1, sizes[mine])
                        return _settle(load, sizes, kind, place, looks)
    return -1


def _settle(load: Load, sizes: Sequence[Size], kind: int, place: int, looks: int) -> int:
    load.move(place, kind, 1, sizes[kind])
    load.missing[kind] -= 1
    if not load.missing[kind]:
        del load.missing[kind]
    return looks
