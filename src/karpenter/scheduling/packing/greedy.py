# SPDX-License-Identifier: Apache-2.0
"""The greedy plan: each new node takes as many pods as any option can hold, the largest first.

This is how the Go scheduler goes about it. It is fast, it places all pods that can be placed within the limits, and no
better plan may cost more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling.packing.building import take
from karpenter.scheduling.packing.limits import Allowance
from karpenter.scheduling.packing.market import Market, Node
from karpenter.scheduling.packing.menu import Menu
from karpenter.scheduling.packing.rules import NodeRules

__all__ = ["greedy"]


def greedy(market: Market, counts: Sequence[int], allowance: Allowance) -> list[Node]:
    """Return nodes for all pods that some option holds, as far as the allowance goes; it is used up."""
    stock = market.stock
    left = list(counts)
    order = sorted(range(len(left)), key=lambda kind: ([-amount for amount in stock.sizes[kind]], kind))
    waiting = [kind for kind in order if left[kind] and market.is_buyable(kind)]
    nodes: list[Node] = []
    while waiting:
        affordable = allowance.affordable(market.menu)
        seed = next((kind for kind in waiting if market.options_of[kind] & affordable), None)
        if seed is None:
            break
        node = _widest(market, left, waiting[waiting.index(seed) :], affordable)
        times = min(left[kind] // number for kind, number in node.contents)
        times = allowance.charge(market.menu.positions[node.option], times)
        take(left, node.contents, times, 0)
        nodes += [node] * times
        waiting = [kind for kind in waiting if left[kind]]
    return nodes


def _widest(market: Market, left: Sequence[int], order: Sequence[int], options: int) -> Node:
    """Return a node with as many pods of each kind in turn as some option still holds.

    Args:
        market: Where to buy.
        left: How many pods of each kind are left.
        order: The kinds, by their amount of the first resource, falling.
        options: The options to choose from.
    """
    stock = market.stock
    menu = market.menu
    rules = stock.rules
    state = NodeRules()
    allowed = stock.allowed
    used = [0] * len(stock.resources)
    contents: list[tuple[int, int]] = []
    place = 0
    while place < len(order):
        kind = order[place]
        place += 1
        admitting = options & menu.admitting[stock.mask_of[kind]]
        if not allowed >> kind & 1 or not admitting:
            continue
        most = left[kind]
        if rules.binding >> kind & 1:
            most = min(most, rules.most(state, kind))
        number, holding = _most_held(menu, admitting, used, stock.sizes[kind], most)
        if number:
            used = [have + need * number for have, need in zip(used, stock.sizes[kind], strict=True)]
            options = holding
            contents.append((kind, number))
            if rules.binding >> kind & 1:
                allowed &= ~rules.enter(state, kind, number)
        else:
            # All kinds that take more of the first resource than any option has left are passed over at once.
            room = menu.most(options) - used[0]
            place = max(place, bisect_left(order, -room, key=lambda kind: -stock.sizes[kind][0]))
    option = lowest_bit(options)
    return Node(option, market.costs[option], tuple(sorted(contents)), tuple(used))


def _most_held(
    menu: Menu, options: int, used: Sequence[int], size: Sequence[int], most: int
) -> tuple[int, int]:
    """Return how many pods of a size some option holds beside what is used, up to the most, and who holds so many."""
    low, high = 0, most
    holding = options
    while low < high:
        # The first guess is all of them; then halves.
        number = high if high == most and not low else (low + high + 1) // 2
        found = options & menu.holds([have + need * number for have, need in zip(used, size, strict=True)])
        if found:
            low, holding = number, found
        else:
            high = number - 1
    return low, holding
