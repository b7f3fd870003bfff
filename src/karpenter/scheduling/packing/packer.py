# SPDX-License-Identifier: Apache-2.0
"""Packs a lot: rooms that stand are filled first, then the cheapest nodes are bought for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from karpenter.model.catalogue import lowest_bit
from karpenter.scheduling.packing.bounds import lower_bound
from karpenter.scheduling.packing.building import take
from karpenter.scheduling.packing.limits import Allowance
from karpenter.scheduling.packing.lot import Bin, Lot, Packing, PackOptions
from karpenter.scheduling.packing.market import Market, Node
from karpenter.scheduling.packing.menu import holding
from karpenter.scheduling.packing.rooms import Rooms
from karpenter.scheduling.packing.searching import Search
from karpenter.scheduling.packing.stock import Stock

__all__ = ["bound", "pack"]


def pack(lot: Lot, *, options: PackOptions, expired: Callable[[], bool]) -> Packing:
    """Return where the pods of a lot go, at the lowest price found.

    The same lot and options give the same packing on every machine, whatever the order of the shapes, as long as time
    does not run out.

    Args:
        lot: The pods, what can be bought, and what stands already.
        options: How to weigh price against the number of nodes, and how much to try.
        expired: Asked now and then; once it says true, the best plan so far is the answer. The greedy plan is made
            in any case.
    """
    stock = Stock(lot)
    left = list(stock.counts)
    rooms = Rooms(stock)
    rooms.fill(left)
    market = Market(stock, stock.menu, left)
    search = Search(market, left, options, expired)
    search.run()
    best = search.best
    menu = best.market.menu
    nodes = sorted(best.nodes, key=lambda node: (menu.positions[node.option], node.contents), reverse=True)
    positions = [menu.positions[node.option] for node in nodes]
    bought = list(left)
    allowance = Allowance(lot)
    for node, position in zip(nodes, positions, strict=True):
        allowance.charge(position, 1)
        take(left, node.contents, 1, 0)
    least = 0.0
    if nodes and options.prove:
        placed = [before - after for before, after in zip(bought, left, strict=True)]
        least = max(lower_bound(market, placed, best.price), 0.0 if best.left else search.bound)
    rooms.grow(left, allowance)
    contents, rest = stock.unfold([*rooms.contents(), *(node.contents for node in nodes)])
    bins = tuple(
        _bin(stock, node, shapes, mask)
        for node, shapes, mask in zip(
            nodes, contents[len(lot.rooms) :], Allowance(lot).shared(positions), strict=True
        )
    )
    return Packing(
        rooms=tuple(contents[: len(lot.rooms)]),
        bins=bins,
        left=tuple(rest),
        price_per_hour=sum(lot.catalogue.prices[lowest_bit(bought.mask)] for bought in bins),
        bound_per_hour=least,
        found_by=best.found_by,
    )


def bound(lot: Lot, price: float) -> float:
    """Return a price per hour that no nodes for all pods of a lot are below.

    Args:
        lot: The pods; those that no offering holds do not count, nor do rooms and limits.
        price: What a plan for them costs: a bound close to it is good enough.
    """
    stock = Stock(lot)
    market = Market(stock, stock.menu, stock.counts)
    counts = [count if market.is_buyable(kind) else 0 for kind, count in enumerate(stock.counts)]
    return lower_bound(market, counts, price)


def _bin(stock: Stock, node: Node, shapes: Sequence[tuple[int, int]], mask: int) -> Bin:
    """Return a node of the plan with all offerings of the mask that hold it."""
    lot = stock.lot
    for kind, _ in node.contents:
        mask &= stock.samples[kind].mask
    used = [0] * len(lot.resources)
    for column, amount in zip(stock.columns, node.used, strict=True):
        used[column] = amount
    return Bin(
        contents=tuple(shapes),
        mask=holding(lot.catalogue, lot.resources, lot.overheads, used, mask),
        used=tuple(used),
    )
