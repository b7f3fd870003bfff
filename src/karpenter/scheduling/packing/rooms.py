# SPDX-License-Identifier: Apache-2.0
"""Fills nodes that stand already, which cost nothing, before anything is bought.

An open node, one that is planned but not bought, is filled only as far as its cheapest offering goes: so it stays
free. Only pods that find no other place may make it grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

from karpenter.model.catalogue import bits, lowest_bit
from karpenter.scheduling.packing.filling import Filler
from karpenter.scheduling.packing.limits import Allowance
from karpenter.scheduling.packing.lot import Room
from karpenter.scheduling.packing.menu import holding
from karpenter.scheduling.packing.projection import portions, project, repair
from karpenter.scheduling.packing.rules import NodeRules
from karpenter.scheduling.packing.stock import Size, Stock, present

__all__ = ["Rooms"]

# Up to so many looks of kinds at rooms, all pods are packed into all rooms at once if one by one leaves some.
_LOOKS = 4000


class Rooms:
    """The rooms of a lot, with what entered each."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._rooms = stock.lot.rooms
        self._held: list[dict[int, int]] = [{} for _ in self._rooms]
        self._admitted: dict[int, int] = {}

    def contents(self) -> list[list[tuple[int, int]]]:
        """Return what entered each room, as kinds and numbers."""
        return [sorted(held.items()) for held in self._held]

    def fill(self, left: list[int]) -> None:
        """Put pods into the rooms, and take them from the ones left."""
        stock = self._stock
        before = list(left)
        kinds = present(left)
        if not self._rooms or not kinds:
            return
        weights = [1.0 / max(1, amount) for amount in stock.total(left)]
        filler = Filler(stock, weights)
        smallest = [
            min(amounts) for amounts in zip(*(stock.sizes[kind] for kind in bits(kinds)), strict=True)
        ]
        rooms: list[Size] = []
        together = not stock.rules.binding
        for place, room in enumerate(self._rooms):
            state = NodeRules(dict(room.counts), dict(room.caps))
            free, admitted = self._space(room, state)
            rooms.append(free)
            together = together and not kinds & ~admitted
            if min(map(sub, free, smallest)) >= 0:
                self._held[place] = filler.fill(free, admitted & present(left), left, state)
                for kind, number in self._held[place].items():
                    left[kind] -= number
        if any(left) and together and kinds.bit_count() * len(rooms) <= _LOOKS:
            self._fill_at_once(rooms, before, left, weights)

    def _fill_at_once(
        self, rooms: Sequence[Size], before: Sequence[int], left: list[int], weights: Sequence[float]
    ) -> None:
        """Pack all pods into all rooms at once, and keep that if it leaves less."""
        sizes = self._stock.sizes
        worth = [sum(weight * amount for weight, amount in zip(weights, size, strict=True)) for size in sizes]
        order = [kind for _, kind in sorted((-worth[kind], kind) for kind in bits(present(before)))]
        load = project(rooms, sizes, portions(order, before, len(rooms)), weights)
        repair(load, sizes)
        missing = [load.missing.get(kind, 0) for kind in range(len(left))]
        if sum(map(float.__mul__, worth, map(float, missing))) < sum(
            map(float.__mul__, worth, map(float, left))
        ):
            self._held = load.contents
            left[:] = missing

    def _space(self, room: Room, state: NodeRules) -> tuple[Size, int]:
        """Return what is free in a room, and the kinds that may enter."""
        stock = self._stock
        kinds = self._admitted_by(room)
        if stock.rules.binding:
            kinds &= ~stock.rules.refused(state, room.ports)
        if not room.mask:
            return stock.project(room.free), kinds
        lot = stock.lot
        position = lowest_bit(room.mask)
        amounts = lot.catalogue.vector(position, lot.resources)
        overhead = next((extra for mask, extra in lot.overheads if mask >> position & 1), amounts)
        used = room.used or (0,) * len(amounts)
        free = [amount - extra - taken for amount, extra, taken in zip(amounts, overhead, used, strict=True)]
        kinds &= sum(1 << kind for kind, sample in enumerate(stock.samples) if sample.mask >> position & 1)
        return stock.project(free), kinds

    def _admitted_by(self, room: Room) -> int:
        kinds = self._admitted.get(room.admits)
        if kinds is None:
            kinds = self._admitted[room.admits] = self._stock.kinds_admitted(room.admits)
        return kinds

    def grow(self, left: list[int], allowance: Allowance) -> None:
        """Let open nodes become larger for pods that found no other place; take those from the ones left."""
        for place, room in enumerate(self._rooms):
            if room.mask and any(left):
                self._grow(room, self._held[place], left, allowance)

    def _grow(self, room: Room, held: dict[int, int], left: list[int], allowance: Allowance) -> None:
        stock = self._stock
        rules = stock.rules
        state = NodeRules(dict(room.counts), dict(room.caps))
        kinds = self._admitted_by(room) & ~rules.refused(state, room.ports)
        mask = room.mask
        for kind, number in held.items():
            mask &= stock.samples[kind].mask
            kinds &= ~rules.enter(state, kind, number)
        used = stock.project(room.used) if room.used else (0,) * len(stock.resources)
        for kind in bits(kinds):
            while left[kind] and kinds >> kind & 1:
                more = [
                    sum(amounts) for amounts in zip(used, stock.used([*held.items(), (kind, 1)]), strict=True)
                ]
                wider = holding(
                    stock.lot.catalogue,
                    stock.resources,
                    stock.overheads,
                    more,
                    mask & stock.samples[kind].mask,
                )
                if not wider or not allowance.exchange(lowest_bit(mask), lowest_bit(wider)):
                    break
                mask = wider
                kinds &= ~rules.enter(state, kind, 1)
                held[kind] = held.get(kind, 0) + 1
                left[kind] -= 1
