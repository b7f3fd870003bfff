# SPDX-License-Identifier: Apache-2.0
"""Improves a plan: takes a few nodes out, the wasteful ones more often, and plans their pods anew.

Each try is kept only if it costs less, so more tries never make a plan dearer. The choices come from a small
generator of our own with a given seed: the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul

from karpenter.scheduling.packing.building import buy
from karpenter.scheduling.packing.market import Market, Node, cost_of
from karpenter.scheduling.packing.planning import Buyer, Purchase, Shop, plan

__all__ = ["Chance", "improve"]

# How many nodes are taken out at once: so many at least, and up to a third of all, but no more than so many.
_LEAST_NODES = 2
_MOST_NODES = 30
# A try must gain more than rounding could.
_LEAST_GAIN = 1e-9

_WORD = (1 << 64) - 1


class Chance:
    """A small generator of choices: a linear congruence of 64 bits, of which the upper half counts."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & _WORD

    def below(self, end: int) -> int:
        """Return a number from zero up to, not including, the end."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _WORD
        return (self._state >> 32) * end >> 32


def improve(
    market: Market,
    nodes: Sequence[Node],
    pods: int,
    chance: Chance,
    accepts: Callable[[Sequence[Node]], bool],
    expired: Callable[[], bool],
) -> list[Node]:
    """Return a plan that costs no more.

    Args:
        market: Where the plan was made.
        nodes: The plan.
        pods: How many pods may be planned anew, counted over all tries.
        chance: Where choices come from.
        accepts: Tells whether a whole plan will do (limits); asked for plans that cost less.
        expired: Tells whether time is up.
    """
    shop = Shop(market, expired)
    best = list(nodes)
    tries = 0
    while pods > 0 and len(best) > 1 and not expired():
        chosen = _wasteful(market, best, chance)
        counts = [0] * len(market.stock.sizes)
        for place in chosen:
            for kind, number in best[place].contents:
                counts[kind] += number
        pods -= sum(counts)
        tries += 1
        buyer = shop.quickly if tries % 2 else _jittery(market, chance, expired)
        found = plan(market, counts, buyer, expired)
        if found is None:
            break
        if cost_of(found.nodes) < sum(best[place].cost for place in chosen) - _LEAST_GAIN:
            whole = [node for place, node in enumerate(best) if place not in chosen] + found.nodes
            if accepts(whole):
                best = whole
    return best


def _jittery(market: Market, chance: Chance, expired: Callable[[], bool]) -> Buyer:
    """Return a buyer that goes node by node and weighs resources a little off their prices."""
    jitter = [0.7 + chance.below(61) / 100.0 for _ in market.stock.resources]

    def buyer(counts: Sequence[int]) -> Purchase | None:
        nodes = buy(market, counts, expired, jitter)
        return None if nodes is None else Purchase(nodes, "improve")

    return buyer


def _wasteful(market: Market, nodes: Sequence[Node], chance: Chance) -> set[int]:
    """Return places of some nodes, more often of those that leave much of what they cost unused."""
    whole = [max(1, sum(amounts)) for amounts in zip(*(node.used for node in nodes), strict=True)]
    weights = [1.0 / amount for amount in whole]
    waste = []
    for place, node in enumerate(nodes):
        filled = sum(map(mul, weights, node.used)) / sum(
            map(mul, weights, market.menu.capacities[node.option])
        )
        waste.append((node.cost * (filled - 1.0), place))
    waste.sort()
    found: set[int] = set()
    most = min(_MOST_NODES, max(_LEAST_NODES + 2, len(nodes) // 3))
    for _ in range(min(len(nodes), _LEAST_NODES + chance.below(most - _LEAST_NODES + 1))):
        # The smaller of two draws: the front, where the wasteful are, comes up more often.
        found.add(waste.pop(min(chance.below(len(waste)), chance.below(len(waste))))[1])
    return found
