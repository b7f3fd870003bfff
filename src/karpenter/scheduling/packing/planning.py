# SPDX-License-Identifier: Apache-2.0
"""Plans a whole lot: kinds of different masks one after the other, each by the method that suits it.

The dearest mask comes first; later ones first fill the room that earlier ones left. Pods without rules between them
are bought for by whole sets of nodes; where that leaves a gap to the fluid, node by node, and few large pods on a node
by patterns. Pods with host rules are always bought for node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from karpenter.scheduling.packing.building import absorb, buy
from karpenter.scheduling.packing.market import Market, Node, cost_of
from karpenter.scheduling.packing.patterns import Patterns
from karpenter.scheduling.packing.sets import buy_sets
from karpenter.scheduling.packing.stock import present

__all__ = ["Buyer", "Plan", "Purchase", "Shop", "plan"]

# A whole set this close to the fluid is hard to beat; so is any plan that is as close as this.
_HARD_TO_BEAT = 1.03
_CLOSE_ENOUGH = 1.01
# Many pods are packed in parts of about so many.
_PART = 1000
# Patterns are for few sizes, and either few pods on a node or so many nodes for each size: else the knapsacks take too
# long to gain anything.
_PATTERN_KINDS = 16
_PATTERN_PODS = 8
_PATTERN_NODES = 4

ONE_BY_ONE, SETS, PATTERNS = "one-by-one", "sets", "patterns"


class Purchase(NamedTuple):
    """Nodes, the method that found them, whether they are a whole set, and a price that no others are below."""

    nodes: list[Node]
    found_by: str
    whole: bool = False
    bound: float = 0.0


# Buys for pods that share a mask; nothing if time ran out.
Buyer = Callable[[Sequence[int]], Purchase | None]


class Plan(NamedTuple):
    """Nodes for a lot, the method that found the last of them, and a price that no plan for these pods is below."""

    nodes: list[Node]
    found_by: str
    bound: float


def plan(market: Market, counts: Sequence[int], buyer: Buyer, expired: Callable[[], bool]) -> Plan | None:
    """Return nodes for all pods that some option holds; nothing if time runs out.

    Args:
        market: Where to buy.
        counts: How many pods of each kind there are.
        buyer: Buys for pods that share a mask.
        expired: Tells whether time is up.
    """
    left = list(counts)
    found = Plan([], ONE_BY_ONE, 0.0)
    for group in market.groups:
        nodes = absorb(market, found.nodes, left, group) if found.nodes else []
        pods = [count if group >> kind & 1 else 0 for kind, count in enumerate(left)]
        if any(pods):
            bought = None if expired() else buyer(pods)
            if bought is None:
                return None
            found = Plan([*nodes, *bought.nodes], bought.found_by, max(found.bound, bought.bound))
            left = [count - bought_for for count, bought_for in zip(left, pods, strict=True)]
        else:
            found = found._replace(nodes=nodes)
    return found


class Shop:
    """Buys on a market by the methods that suit the pods."""

    def __init__(self, market: Market, expired: Callable[[], bool]) -> None:
        self._market = market
        self._expired = expired
        self._bought: dict[tuple[int, ...], Purchase | None] = {}

    def quickly(self, counts: Sequence[int]) -> Purchase | None:
        """Buy by the method that suits the pods best."""
        key = tuple(counts)
        if key not in self._bought:
            self._bought[key] = self._buy(counts)
        return self._bought[key]

    def _buy(self, counts: Sequence[int]) -> Purchase | None:
        if self._has_rules(counts) or self._is_lumpy(counts):
            return self._one_by_one(counts)
        same, number = _like_part(counts)
        left = [count - each * number for count, each in zip(counts, same, strict=True)]
        bought: Purchase | None = Purchase([], SETS, whole=True)
        if any(same):
            bought = self._add(bought, same, number)
            if bought is not None and any(left):
                # What does not come out even may find room on the nodes bought so far.
                bought = bought._replace(nodes=absorb(self._market, bought.nodes, left, present(left)))
        for part in _even_parts(left):
            bought = self._add(bought, part, 1)
        return bought

    def _add(self, bought: Purchase | None, part: Sequence[int], times: int) -> Purchase | None:
        """Buy for a part of the pods, so many times; nothing if time ran out before or now."""
        if bought is None or self._expired():
            return None
        found = buy_sets(self._market, part, self._expired)
        more = self._one_by_one(part) if found is None else Purchase(found[0], SETS, whole=found[1])
        return more and Purchase(
            [*bought.nodes, *more.nodes * times], more.found_by, bought.whole and more.whole
        )

    def _one_by_one(self, counts: Sequence[int]) -> Purchase | None:
        nodes = buy(self._market, counts, self._expired)
        return None if nodes is None else Purchase(nodes, ONE_BY_ONE)

    def thoroughly(self, counts: Sequence[int]) -> Purchase | None:
        """Buy by every method that may do better than the first."""
        best = self.quickly(counts)
        if best is None or self._has_rules(counts):
            return best
        margin = _HARD_TO_BEAT if best.whole else _CLOSE_ENOUGH
        if cost_of(best.nodes) <= margin * self._market.mix(counts).value:
            return best
        if best.found_by == SETS and (sum(counts) < 2 * _PART or _part_size(counts) == _PART):
            other = self._one_by_one(counts)
            if other is None:
                return None
            best = min(best, other, key=_cost)
        kinds = len(counts) - counts.count(0)
        if self._is_lumpy(counts) or kinds <= min(_PATTERN_KINDS, len(best.nodes) // _PATTERN_NODES):
            patterns = Patterns(self._market, counts)
            patterns.learn(best.nodes)
            patterns.generate(self._expired)
            best = min(best, Purchase(patterns.dive(), PATTERNS), key=_cost)
            best = best._replace(bound=patterns.bound())
        return best

    def _has_rules(self, counts: Sequence[int]) -> bool:
        return bool(present(counts) & self._market.stock.rules.binding)

    def _is_lumpy(self, counts: Sequence[int]) -> bool:
        """Tell whether there are few sizes, and few pods on a node: pods that only patterns pack well."""
        if len(counts) - counts.count(0) > _PATTERN_KINDS:
            return False
        return sum(counts) <= _PATTERN_PODS * sum(self._market.mix(counts).amounts.values())


def _like_part(counts: Sequence[int]) -> tuple[list[int], int]:
    """Return a part of the pods that stands for most of them, and how often; all of them once if they are few.

    Parts have a size that is packed fast and well. Too few pods of each kind make no such part.
    """
    size = _part_size(counts)
    number = max(1, sum(counts) // size)
    same = [count // number for count in counts]
    return (same, number) if number == 1 or sum(same) >= size // 2 else ([0] * len(counts), 1)


def _even_parts(counts: Sequence[int]) -> list[list[int]]:
    """Deal the pods out to parts, one after the other, so that all get a like mix."""
    number = -(-sum(counts) // _part_size(counts))
    parts = [[0] * len(counts) for _ in range(number)]
    turn = 0
    for kind, count in enumerate(counts):
        for _ in range(count):
            parts[turn % number][kind] += 1
            turn += 1
    return parts


def _part_size(counts: Sequence[int]) -> int:
    """Return how many pods are packed at once; fewer if they are of many kinds, each of which looks at every node."""
    return _PART // 2 if len(counts) - counts.count(0) > _PART // 4 else _PART


def _cost(purchase: Purchase) -> float:
    return cost_of(purchase.nodes)
