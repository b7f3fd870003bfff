# SPDX-License-Identifier: Apache-2.0
"""What no plan can undercut: prices of the fluid with more rows than plans are made by.

Each row is true for every set of nodes that holds the pods: the nodes together can be loaded with what some of the
pods take of a resource. Which pods: all; those of one mask; those that must stand apart; those that ask for much. Any
prices for such rows prove a bound, so it does not matter how well the program is solved. Fees are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling.packing.market import Market
from karpenter.scheduling.packing.simplex import cover_by_few, proven_value

__all__ = ["lower_bound"]

# At most so many masks, the narrowest, and sets that stand apart, the largest, get rows of their own: more make the
# bound a little better and the program slow.
_MOST_MASKS = 4
_MOST_APART = 2
_PODS = "pods"
# So often options that the prices overpay join the program; what is still overpaid then lowers the bound.
_MOST_TURNS = 6
# A bound this close to the price is good enough.
_CLOSE = 0.995


def lower_bound(market: Market, counts: Sequence[int], price: float) -> float:
    """Return a price that no nodes holding the pods are below.

    Args:
        market: The whole menu at its prices.
        counts: How many pods of each kind there are; some option must hold each.
        price: What a plan costs: once the bound is close to it, nothing more is tried.
    """
    rows: list[list[float]] = []
    best = 0.0
    for fresh in (chain(_apart(market, counts), _by_mask(market, counts)), _large(market, counts)):
        if best < _CLOSE * price:
            rows += fresh
            duals = cover_by_few(rows, market.menu.prices, [1.0] * len(rows), turns=_MOST_TURNS).duals
            best = max(best, proven_value(rows, market.menu.prices, [1.0] * len(rows), duals))
    return best


def _apart(market: Market, counts: Sequence[int]) -> Iterator[list[float]]:
    """Yield rows for all pods, and for those that must stand apart, of which a node holds so many at most."""
    everything = range(len(market.stock.resources))
    yield from _rows(market, counts, everything)
    for _, limit, kinds in market.stock.apart[:_MOST_APART]:
        pods = [0] * len(counts)
        for kind in kinds:
            pods[kind] = counts[kind]
        if sum(pods) > limit:
            yield from _rows(market, pods, everything, limit)


def _by_mask(market: Market, counts: Sequence[int]) -> Iterator[list[float]]:
    """Yield rows for the pods of each mask, narrow ones first."""
    if len(market.groups) > 1:
        narrow = []
        for kinds in market.groups:
            mask = market.stock.mask_of[lowest_bit(kinds)]
            narrow.append((market.menu.admitting[mask].bit_count(), kinds))
        amounts = [i for i, name in enumerate(market.stock.resources) if name != _PODS]
        for _, kinds in sorted(narrow)[:_MOST_MASKS]:
            yield from _rows(market, _of(counts, kinds), amounts)


def _large(market: Market, counts: Sequence[int]) -> Iterator[list[float]]:
    """Yield rows for the pods that ask for most of a resource."""
    stock = market.stock
    for i, largest in enumerate(stock.largest(counts)):
        if stock.resources[i] != _PODS:
            pods = [count if stock.sizes[kind][i] == largest else 0 for kind, count in enumerate(counts)]
            yield from _rows(market, pods, range(len(stock.resources)))


def _of(counts: Sequence[int], kinds: int) -> list[int]:
    return [count if kinds >> kind & 1 else 0 for kind, count in enumerate(counts)]


def _rows(
    market: Market, counts: Sequence[int], resources: Iterable[int], limit: int = 0
) -> Iterator[list[float]]:
    """Yield for each resource what part of the pods' total each option can be loaded with.

    Args:
        market: The menu.
        counts: The pods.
        resources: The places of the resources.
        limit: How many of the pods a node holds at most; zero for any number.
    """
    usable = market.usable_by(counts)
    totals = market.stock.total(counts)
    for i in resources:
        most = totals[i]
        if limit:
            pods = zip(market.stock.sizes, counts, strict=True)
            most = _largest_sum([(size[i], count) for size, count in pods if count], limit)
        if most:
            yield [min(have[i], most) / totals[i] for have in usable]


def _largest_sum(amounts: list[tuple[int, int]], limit: int) -> int:
    """Return the most that so many pods can take together, given how many pods take each amount."""
    total = 0
    for amount, count in sorted(amounts, reverse=True):
        number = min(count, limit)
        total += amount * number
        limit -= number
    return total
