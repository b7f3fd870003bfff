# SPDX-License-Identifier: Apache-2.0
"""Chooses a whole set of nodes first, then packs all pods into it at once.

The fluid answer, rounded down, is completed to a whole set by a few more nodes in many ways. Sets are tried from the
cheapest up, and the first that takes all pods is near the best there is. Pods that find no room in a set get one more
node. Suits pods without rules between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import mul, sub

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling.packing.market import Market, Mix, Node, cost_of
from karpenter.scheduling.packing.projection import portions, project, repair
from karpenter.scheduling.packing.stock import present

__all__ = ["buy_sets"]

# By how much a set's capacity exceeds what the pods take, tried in turn.
_SLACKS = (0.0, 0.004, 0.01, 0.02, 0.04, 0.08)
# How many pods are packed, counted over all sets tried, and how often at least.
_PODS_PACKED = 1500
_LEAST_PACKS = 5
# Options that complete a set: so many that pay best for a dollar, and so many that lose least in all. With these, the
# cheapest set is nearly always the cheapest there is (compared with an integer solver).
_BEST_PAID = 6
_LEAST_LOSS = 14
# Pods missing from a set are helped to a place if they are no more than this share.
_HELPED = 0.1
# If no more than this share is missing, the set is packed again by other weights.
_NEARLY = 0.05

# Weights to pack by, and the pods in the order they give, as kinds and numbers.
View = tuple[Sequence[float], list[tuple[int, int]]]


def buy_sets(
    market: Market, counts: Sequence[int], expired: Callable[[], bool]
) -> tuple[list[Node], bool] | None:
    """Return nodes for all the pods, and whether they are a whole set; nothing if no set was found.

    A whole set is the cheapest one found that takes all pods: it is hard to beat. Otherwise one more node takes pods
    that found no room.

    Args:
        market: Where to buy.
        counts: The pods, at least one; they share a mask, have no rules between them, and some option holds each.
        expired: Tells whether time is up; then the best set so far counts.
    """
    everyone = present(counts)
    if all(everyone & ~admits for admits in market.admits):
        return None
    # Sets are made of options that hold any of the pods, but for the last few nodes: otherwise the fluid may ask for
    # many small ones that the larger pods find no room on.
    mix = market.mix(counts, roomy=True)
    tries = _Tries(market, _views(market, mix, counts), sum(counts), expired)
    for slack in _SLACKS:
        if tries.are_over(mix.value * (1.0 + slack)):
            break
        for cost, options in _sets(market, mix, slack):
            if tries.are_over(cost):
                break
            if tries.pack(options):
                return tries.best
    return tries.best


class _Tries:
    """Sets packed so far, and the best of them."""

    def __init__(self, market: Market, views: Sequence[View], pods: int, expired: Callable[[], bool]) -> None:
        self._market = market
        self._expired = expired
        self._views = views
        self._pods = pods
        self._left = max(_LEAST_PACKS, _PODS_PACKED // pods)
        self._tried: set[tuple[int, ...]] = set()
        self._ceiling = float("inf")
        self.best: tuple[list[Node], bool] | None = None

    def are_over(self, least: float) -> bool:
        """Tell whether no set that costs at least so much is worth a try, or none at all."""
        return self._left <= 0 or least >= self._ceiling or self._expired()

    def pack(self, options: tuple[int, ...]) -> bool:
        """Pack a set, if it is new, by one view after the other; tell whether it took all pods."""
        if options in self._tried:
            return False
        self._tried.add(options)
        for view in self._views:
            self._left -= 1
            nodes, missing = self._packed(options, view)
            cost = cost_of(nodes)
            if cost < self._ceiling and nodes[-1].option >= 0:
                self._ceiling = cost
                self.best = nodes, not missing
            if not missing:
                return True
            if missing > _NEARLY * self._pods or self._expired():
                break
        return False

    def _packed(self, options: Sequence[int], view: View) -> tuple[list[Node], int]:
        """Return nodes at their least cost, the last one for pods without room in the set, and the number of those."""
        weights, pods = view
        sizes = self._market.stock.sizes
        load = project((self._market.menu.capacities[option] for option in options), sizes, pods, weights)
        missing = sum(load.missing.values())
        if 0 < missing <= _HELPED * self._pods:
            repair(load, sizes)
            missing = sum(load.missing.values())
        held = [contents.items() for contents in load.contents if contents]
        if missing:
            held.append(load.missing.items())
        return [self._market.close(contents) for contents in held], missing


def _views(market: Market, mix: Mix, counts: Sequence[int]) -> list[View]:
    """Return weights to pack by, with the pods in the order they give: prices, even shares, and half of each."""
    even = [mix.value / max(1, amount) for amount in mix.total]
    both = [weight + share / 2.0 for weight, share in zip(mix.weights, even, strict=True)]
    sizes = market.stock.sizes
    nodes = int(sum(mix.amounts.values())) + 2
    found: list[View] = []
    for weights in (mix.weights, even, both):
        worth = [sum(map(mul, weights, size)) for size in sizes]
        order = [
            kind for _, kind in sorted((-worth[kind], kind) for kind, count in enumerate(counts) if count)
        ]
        found.append((weights, portions(order, counts, nodes)))
    return found


def _sets(market: Market, mix: Mix, slack: float) -> list[tuple[float, tuple[int, ...]]]:
    """Return sets of options that cover the pods' total and some slack, the cheapest first."""
    need = [amount * (1.0 + slack) for amount in mix.total]
    ranked = market.by_pay(mix, market.menu.everything)
    losses = sorted((loss, option) for _, option, loss in ranked)
    completions = sorted(
        {option for _, option, _ in ranked[:_BEST_PAID]} | {option for _, option in losses[:_LEAST_LOSS]}
    )
    admitting = market.menu.admitting[mix.mask]
    found: dict[tuple[int, ...], float] = {}
    for base in _bases([(option, int(amount * (1.0 + slack))) for option, amount in mix.amounts.items()]):
        chosen = [option for option, number in base for _ in range(number)]
        missing = need
        for option, number in base:
            missing = [
                amount - have * number for amount, have in zip(missing, market.usable[option], strict=True)
            ]
        cost = sum(market.costs[option] for option in chosen)
        for more, extra in _completed(market, missing, completions, admitting):
            found.setdefault(tuple(sorted(chain(chosen, extra))), cost + more)
    return sorted((cost, options) for options, cost in found.items())


def _bases(whole: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Yield the rounded-down mix, and the same with one or two nodes less."""
    yield whole
    for i, (option, number) in enumerate(whole):
        if number >= 1:
            less = [*whole[:i], (option, number - 1), *whole[i + 1 :]]
            yield less
            for j in range(i, len(less)):
                other, others = less[j]
                if others >= 1:
                    yield [*less[:j], (other, others - 1), *less[j + 1 :]]


def _completed(
    market: Market, missing: Sequence[float], completions: Sequence[int], admitting: int
) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield cost and options of up to three nodes that cover what is missing: two of the best, one that fits."""
    costs = market.costs
    capacities = market.usable
    holds = market.menu.holds

    def last(lacking: Sequence[float]) -> int:
        return lowest_bit(holds(lacking) & admitting)

    if max(missing) <= 0.0:
        yield 0.0, ()
        return
    option = last(missing)
    if option >= 0:
        yield costs[option], (option,)
    for place, first in enumerate(completions):
        after_first = list(map(sub, missing, capacities[first]))
        if max(after_first) <= 0.0:
            yield costs[first], (first,)
            continue
        option = last(after_first)
        if option >= 0:
            yield costs[first] + costs[option], (first, option)
        for second in completions[place:]:
            after_second = list(map(sub, after_first, capacities[second]))
            if max(after_second) <= 0.0:
                yield costs[first] + costs[second], (first, second)
                continue
            option = last(after_second)
            if option >= 0:
                yield costs[first] + costs[second] + costs[option], (first, second, option)
