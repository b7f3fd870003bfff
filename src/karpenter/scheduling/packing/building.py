# SPDX-License-Identifier: Apache-2.0
"""Builds a plan node by node: what to buy next is settled by what its contents are worth per dollar.

The fluid answer for the pods left gives the worth of each resource. Where host rules force the number of nodes, its
mix is bought in rounds, a part at a time, and every node first takes its share of the pods that must stand apart.
Elsewhere the largest pod left gets a node: the options that could pay most are filled for trial, and the one that
pays most is bought, as often as the same pods are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import mul, sub

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling.packing.filling import Filler
from karpenter.scheduling.packing.market import Market, Mix, Node, cost_of
from karpenter.scheduling.packing.rules import NodeRules
from karpenter.scheduling.packing.stock import Size, present

__all__ = ["absorb", "buy", "take"]

# How many options are filled for trial before one is bought, and how much of the fluid's number of it at once.
_TRIALS = 24
_TRIAL_SHARE = 0.5
# Nodes are bought in rounds when the row that counts them carries this share of the cost; a round buys this part of
# the mix. Both from trials with pods of which a fifth must stand apart; results move little with them.
_FORCED_SHARE = 0.02
_ROUND_SHARE = 0.4
# But so many nodes at least, if the mix has them: the last few are not worth a mix of their own each.
_ROUND_NODES = 5

# Kinds that a node should hold before it is filled, and how many pods of them.
Seeds = Iterable[tuple[int, int]]


def buy(
    market: Market, counts: Sequence[int], expired: Callable[[], bool], jitter: Sequence[float] = ()
) -> list[Node] | None:
    """Return nodes for all the pods, or nothing if time runs out.

    A node that holds all that is left may end the plan at any point; the cheapest such end is kept.

    Args:
        market: Where to buy.
        counts: The pods, at least one; they share a mask, and some option holds each.
        expired: Tells whether time is up.
        jitter: Factors for the weights of the resources, to get other plans.
    """
    left = list(counts)
    bought: list[Node] = []
    spent = 0.0
    best: list[Node] = []
    ceiling = float("inf")
    while any(left):
        if expired():
            return None
        end = _last_node(market, left)
        if end is not None and spent + end.cost < ceiling:
            ceiling = spent + end.cost
            best = [*bought, end]
        mix = market.mix(left)
        if spent + mix.value >= ceiling:
            return best
        filler = Filler(market.stock, [*map(mul, mix.weights, jitter)] if jitter else mix.weights)
        in_rounds = mix.forced > _FORCED_SHARE * mix.value
        nodes = _round(market, mix, filler, left, expired) if in_rounds else []
        if nodes is None:
            return None
        if not nodes:
            nodes = _best_trial(market, mix, filler, left)
        bought += nodes
        spent += cost_of(nodes)
    return bought if spent < ceiling else best


def absorb(market: Market, nodes: Iterable[Node], left: list[int], group: int) -> list[Node]:
    """Fill room left on the nodes with pods of kinds that share a mask; take those pods from the ones left."""
    stock = market.stock
    pods = [count if group >> kind & 1 else 0 for kind, count in enumerate(left)]
    kinds = present(pods)
    if not kinds:
        return list(nodes)
    filler = Filler(stock, market.mix(pods).weights)
    found: list[Node] = []
    for node in nodes:
        allowed = kinds & market.admits[node.option]
        state = NodeRules()
        for kind, number in node.contents if stock.rules.binding else ():
            allowed &= ~stock.rules.enter(state, kind, number)
        room = list(map(sub, market.menu.capacities[node.option], node.used))
        placed = filler.fill(room, allowed, left, state)
        kinds = take(left, placed.items(), 1, kinds)
        contents = dict(node.contents)
        for kind, number in placed.items():
            contents[kind] = contents.get(kind, 0) + number
        pairs = tuple(sorted(contents.items()))
        found.append(Node(node.option, node.cost, pairs, stock.used(pairs)))
    return found


def take(left: list[int], contents: Iterable[tuple[int, int]], times: int, kinds: int) -> int:
    """Take pods from the ones left; return those of the kinds of which some are still left."""
    for kind, number in contents:
        left[kind] -= number * times
        if not left[kind]:
            kinds &= ~(1 << kind)
    return kinds


def _last_node(market: Market, left: Sequence[int]) -> Node | None:
    """Return all that is left on one node, if one can hold it and no rule may object."""
    if present(left) & market.stock.rules.binding:
        return None
    node = market.close((kind, count) for kind, count in enumerate(left) if count)
    return node if node.option >= 0 else None


def _best_trial(market: Market, mix: Mix, filler: Filler, left: list[int]) -> list[Node]:
    """Buy the node that pays most for the largest pod left, as often as its contents last and the fluid asks for."""
    kinds = present(left)
    # The first kind of a cell stands for all of it, so that thousands of kinds are not looked at for each node.
    firsts = [lowest_bit(kinds & cell) for cell in market.stock.cells if kinds & cell]
    seed = max(firsts, key=lambda kind: (mix.worth(market.stock.sizes[kind]), -kind))
    best: list[Node] = []
    best_pay = -1.0
    for most, option, _ in market.by_pay(mix, market.options_of[seed])[:_TRIALS]:
        if most <= best_pay:
            break
        node = _filled(market, filler, option, left, kinds, [(1 << seed, 1)])
        pay = sum(map(mul, mix.duals, node.used)) / node.cost if node.cost > 0.0 else float("inf")
        if pay > best_pay:
            best, best_pay = [node], pay
    times = min(left[kind] // number for kind, number in best[0].contents)
    times = min(times, int(mix.amounts.get(best[0].option, 0.0) * _TRIAL_SHARE) + 1)
    take(left, best[0].contents, times, kinds)
    return best * times


def _round(
    market: Market, mix: Mix, filler: Filler, left: list[int], expired: Callable[[], bool]
) -> list[Node] | None:
    """Buy a part of the mix, options interleaved; each node first takes its share of pods that must stand apart.

    Returns nothing if time runs out: a round may buy hundreds of nodes.
    """
    planned = sum(mix.amounts.values())
    options = list(_interleaved(mix.amounts))
    # Sets of kinds that must stand apart and may fill a share of every node to come: pods left, limit, kinds.
    apart: list[list[int]] = []
    apart_of: dict[int, list[list[int]]] = {}
    for most, limit, kinds in market.stock.apart:
        if most < planned - len(options):
            break
        entry = [sum([left[kind] for kind in kinds]), limit, sum([1 << kind for kind in kinds])]
        apart.append(entry)
        for kind in kinds:
            apart_of.setdefault(kind, []).append(entry)
    everyone = present(left)
    nodes: list[Node] = []
    for option in options:
        if expired():
            return None
        # A little less than there are: the fluid's amounts are rounded.
        to_come = planned - len(nodes) - 1e-6
        seeds = [(members, limit) for pods, limit, members in apart if pods >= limit * to_come]
        node = _filled(market, filler, option, left, everyone, seeds)
        if node.contents:
            nodes.append(node)
            everyone = take(left, node.contents, 1, everyone)
            for kind, number in node.contents:
                for entry in apart_of.get(kind, ()):
                    entry[0] -= number
    return nodes


def _interleaved(amounts: dict[int, float]) -> Iterator[int]:
    """Yield options to buy now: a part of each, evenly mixed; what is planned less than once waits."""
    share = max(_ROUND_SHARE, min(1.0, _ROUND_NODES / sum(amounts.values())))
    counts = {option: int(amount * share) or int(amount >= 1.0) for option, amount in amounts.items()}
    steps = max(counts.values())
    for step in range(steps):
        for option, count in counts.items():
            if step * count // steps != (step + 1) * count // steps:
                yield option


def _filled(market: Market, filler: Filler, option: int, left: list[int], kinds: int, seeds: Seeds) -> Node:
    """Return a node that holds the seeds, as far as the option takes them, and whatever fills it."""
    stock = market.stock
    state = NodeRules()
    allowed = kinds & market.admits[option]
    room: Sequence[int] = market.menu.capacities[option]
    seeded: dict[int, int] = {}
    for members, wanted in seeds:
        for _ in range(wanted):
            kind = _first_fitting(stock.sizes, members & allowed, room)
            if kind < 0:
                break
            seeded[kind] = seeded.get(kind, 0) + 1
            left[kind] -= 1
            allowed &= ~stock.rules.enter(state, kind, 1)
            if not left[kind]:
                allowed &= ~(1 << kind)
            room = list(map(sub, room, stock.sizes[kind]))
    contents = filler.fill(room, allowed, left, state)
    for kind, number in seeded.items():
        left[kind] += number
        contents[kind] = contents.get(kind, 0) + number
    return market.close(contents.items())


def _first_fitting(sizes: Sequence[Size], kinds: int, room: Sequence[int]) -> int:
    while kinds:
        # Mostly the first fits: all bits of a wide int are not looked at for that.
        first = kinds & -kinds
        kind = first.bit_length() - 1
        if min(map(sub, room, sizes[kind])) >= 0:
            return kind
        kinds ^= first
    return -1
