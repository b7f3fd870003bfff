# SPDX-License-Identifier: Apache-2.0
"""Buys nodes for pods that found no room: one by one, each the offering whose contents are worth most for its price.

What pods cost at least is known at once: for some mixes of cpu and memory, the best rate at which the offerings of a
kind sell the mix. Most tries end there, before anything is filled. The limits of pools hold before anything is removed,
since what is bought comes before what goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_

from karpenter.consolidation.search.copy import Contents, Copy, Purchase
from karpenter.consolidation.search.fitting import Fits
from karpenter.consolidation.search.hostrules import HostRules
from karpenter.consolidation.search.terrain import Size, Terrain
from karpenter.model.catalogue import bits, lowest_bit
from karpenter.scheduling.packing.menu import holding

__all__ = ["Shop", "worthless"]

# The mixes of cpu and memory by which what pods cost at least is worked out, as the share of cpu.
_MIXES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
# A single node that costs no more than this beyond what pods cost at least is taken without further search.
_CLOSE = 1.03
# How many offerings are filled for trial before a node is bought.
_OFFERS = 32
_ENDLESS = float("inf")
_ALMOST_FREE = 1e-9

# What pools may still grow by, by pool and resource.
_Limits = dict[str, dict[str, int]]


class Shop:
    """Buys for pods of the kinds of a terrain."""

    def __init__(self, terrain: Terrain) -> None:
        self._terrain = terrain
        self._rules = HostRules(terrain.kinds)
        self._fits = Fits([kind.size for kind in terrain.kinds])
        self._limited = any(source.limits for source in terrain.sources)
        self._places = tuple(terrain.resources.index(name) for name in ("cpu", "memory"))
        self._whole = [max(1, sum(node.free[i] for node in terrain.nodes)) for i in self._places]
        # The same pods are asked for again and again.
        self._known: dict[tuple[tuple[int, int], ...], list[Purchase] | None] = {}
        self._rates: dict[int, list[float]] = {}
        self._best_rates: dict[tuple[int, int], list[float]] = {}
        self._ranked: dict[int, list[int]] = {}
        self._rooms: dict[tuple[int, int], Size] = {}

    # What things are worth.

    def least(self, contents: Contents) -> float:
        """Return a price that no nodes for the pods are below; endless if some cannot be bought for."""
        totals = [0.0] * len(_MIXES)
        for kind, number in contents.items():
            totals = [total + number * rate for total, rate in zip(totals, self._rates_of(kind), strict=True)]
        return max(totals)

    def _rates_of(self, kind: int) -> list[float]:
        """Return for each mix what one pod of a kind costs at the best rate of its offerings."""
        known = self._rates.get(kind)
        if known is None:
            each = self._terrain.kinds[kind]
            amounts = self._mixed(each.size)
            rates = self._best_rates_of(each.source, each.mask)
            known = [rate * amount if amount else 0.0 for rate, amount in zip(rates, amounts, strict=True)]
            if not each.mask:
                known = [_ENDLESS] * len(_MIXES)
            self._rates[kind] = known
        return known

    def _best_rates_of(self, source: int, mask: int) -> list[float]:
        known = self._best_rates.get((source, mask))
        if known is None:
            known = [_ENDLESS] * len(_MIXES)
            for position in bits(mask):
                price = self._terrain.sources[source].catalogue.prices[position]
                amounts = self._mixed(self._room(source, position))
                known = [
                    min(rate, price / amount) if amount > 0.0 else rate
                    for rate, amount in zip(known, amounts, strict=True)
                ]
            self._best_rates[source, mask] = known
        return known

    def _mixed(self, amounts: Size) -> list[float]:
        first, second = (amounts[i] / whole for i, whole in zip(self._places, self._whole, strict=True))
        return [mix * first + (1.0 - mix) * second for mix in _MIXES]

    def _value(self, kind: int) -> float:
        rates = self._rates_of(kind)
        return rates[len(rates) // 2]

    def _room(self, source: int, position: int) -> Size:
        known = self._rooms.get((source, position))
        if known is None:
            known = self._terrain.sources[source].room(position, self._terrain.resources)
            self._rooms[source, position] = known
        return known

    def _cost(self, source: int, position: int) -> float:
        return max(self._terrain.sources[source].catalogue.prices[position] + self._terrain.fee, _ALMOST_FREE)

    # What is bought.

    def buy(self, contents: Contents, copy: Copy, ceiling: float) -> list[Purchase] | None:
        """Return nodes that hold all the pods; nothing if they cost too much, or some pod cannot be bought for.

        Args:
            contents: The pods.
            copy: What was bought before counts against the limits of pools.
            ceiling: The price that the nodes must stay below.
        """
        least = self.least(contents)
        if least >= ceiling:
            return None
        key = tuple(sorted(contents.items()))
        if key not in self._known or self._limited:
            self._known[key] = self._buy(contents, self._limits(copy), least)
        return self._known[key]

    def _buy(self, contents: Contents, limits: _Limits, least: float) -> list[Purchase] | None:
        if not self._limited and not any(self._rules.binding >> kind & 1 for kind in contents):
            single = self._closed(contents)
            if single is not None and self._cost(single[0], single[1]) <= least * _CLOSE:
                return [single]
        found: list[Purchase] = []
        left = dict(contents)
        while left:
            bought = self._next(left, limits)
            if bought is None:
                return None
            found.append(bought)
            for kind, number in bought[2].items():
                left[kind] -= number
                if not left[kind]:
                    del left[kind]
        return found

    def _next(self, left: Contents, limits: _Limits) -> Purchase | None:
        """Return the node that is worth most for its price, of those that hold the largest pod left."""
        largest = min(left)
        source = self._terrain.kinds[largest].source
        there = sum(1 << kind for kind in left)
        best, chosen = -1.0, -1
        filled: Contents = {}
        for position in self._ranked_for(largest):
            if self._affordable(source, position, limits):
                trial, value = self._filled(source, position, left, there)
                pay = value / self._cost(source, position)
                if pay > best:
                    best, chosen, filled = pay, position, trial
        if chosen < 0:
            return None
        closed = self._closed(filled)
        if closed is not None and self._affordable(source, closed[1], limits):
            chosen = closed[1]
        self._charge(source, chosen, limits)
        return source, chosen, filled

    def _closed(self, contents: Contents) -> Purchase | None:
        """Return the cheapest single node that holds some pods; nothing if there is none."""
        kinds = [self._terrain.kinds[kind] for kind in contents]
        source = kinds[0].source
        if any(kind.source != source for kind in kinds):
            return None
        seller = self._terrain.sources[source]
        used = [0] * len(self._terrain.resources)
        for kind, number in zip(kinds, contents.values(), strict=True):
            used = [have + number * need for have, need in zip(used, kind.size, strict=True)]
        mask = reduce(and_, (kind.mask for kind in kinds))
        position = lowest_bit(
            holding(seller.catalogue, self._terrain.resources, seller.overheads, used, mask)
        )
        return None if position < 0 else (source, position, dict(contents))

    def _ranked_for(self, kind: int) -> list[int]:
        """Return offerings that hold a pod of a kind, those first whose room is cheapest."""
        known = self._ranked.get(kind)
        if known is None:
            each = self._terrain.kinds[kind]
            seller = self._terrain.sources[each.source]
            there = holding(seller.catalogue, self._terrain.resources, seller.overheads, each.size, each.mask)
            ranked = []
            for position in bits(there):
                amount = sum(self._mixed(self._room(each.source, position)))
                ranked.append((self._cost(each.source, position) / max(amount, _ALMOST_FREE), position))
            known = self._ranked[kind] = [position for _, position in sorted(ranked)[:_OFFERS]]
        return known

    def _filled(self, source: int, position: int, left: Contents, there: int) -> tuple[Contents, float]:
        """Return pods that an offering holds, in the order of their kinds, and what they are worth.

        Args:
            source: Where the offering is sold.
            position: The offering.
            left: The pods.
            there: The kinds of which pods are left, as a set.
        """
        kinds, fits = self._terrain.kinds, self._fits
        room = self._room(source, position)
        filled: Contents = {}
        value = 0.0
        counts: dict[int, int] = {}
        caps: dict[int, int] = {}
        there &= self._terrain.admitted(source, position)
        while there := there & fits.into(room):
            kind = lowest_bit(there)
            there ^= 1 << kind
            size = kinds[kind].size
            number = min([have // need for have, need in zip(room, size, strict=True) if need])
            number = min(number, left[kind])
            if self._rules.binding >> kind & 1:
                number = min(number, self._rules.most(counts, caps, kind))
                if number <= 0:
                    continue
                self._rules.enter(counts, caps, kind, number)
            filled[kind] = number
            value += number * self._value(kind)
            room = tuple([have - need * number for have, need in zip(room, size, strict=True)])
        return filled, value

    # What pools allow.

    def _limits(self, copy: Copy) -> _Limits:
        """Return what pools may still grow by after what the copy bought so far."""
        limits: _Limits = {
            source.pool: dict(source.limits) for source in self._terrain.sources if source.limits
        }
        for node in copy.purchases() if limits else ():
            self._charge(node.source, node.position, limits)
        return limits

    def _charges(self, source: int, position: int) -> Mapping[str, int]:
        return {**self._terrain.sources[source].catalogue.type_at(position).capacity, "nodes": 1}

    def _affordable(self, source: int, position: int, limits: _Limits) -> bool:
        left = limits.get(self._terrain.sources[source].pool)
        if left is None:
            return True
        charges = self._charges(source, position)
        return all(charges.get(name, 0) <= amount for name, amount in left.items())

    def _charge(self, source: int, position: int, limits: _Limits) -> None:
        left = limits.get(self._terrain.sources[source].pool)
        if left is not None:
            charges = self._charges(source, position)
            for name in left:
                left[name] -= charges.get(name, 0)


def worthless(purchases: Iterable[Purchase], ghosts: int) -> bool:
    """Tell whether a node would be bought for pods that only hold room."""
    return any(all(ghosts >> kind & 1 for kind in contents) for _, _, contents in purchases)
