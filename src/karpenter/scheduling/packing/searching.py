# SPDX-License-Identifier: Apache-2.0
"""Searches the best plan for the pods of a lot that must be bought for.

The greedy plan is the floor: no plan that costs more, or leaves more pods, replaces it. Better plans follow in a fixed
order, each whole or not at all, and each replaces the best so far only if it is better. Whatever is tried is counted,
never timed; the deadline only cuts the list short. So more effort or more time never makes a plan worse.

Plans are compared by price and a fee for each node. The fee is what a node costs beside its price; and it is at least
what one node less may cost, so that the number of nodes is settled at the price of a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from karpenter.scheduling.packing.building import absorb, take
from karpenter.scheduling.packing.greedy import greedy
from karpenter.scheduling.packing.improving import Chance, improve
from karpenter.scheduling.packing.limits import Allowance
from karpenter.scheduling.packing.lot import PackOptions
from karpenter.scheduling.packing.market import Market, Node
from karpenter.scheduling.packing.planning import Plan, Shop, plan

__all__ = ["Candidate", "Search"]

# A plan this close to the fluid, or with a price this close to a bound, is not improved any further.
_GOOD_ENOUGH = 1.005
# The fluid knows little of pods that must stand apart. Where the number of nodes that they force carries the first of
# these shares of the cost, a plan that exceeds the fluid by the second gained a thousandth at most by improvement.
_FORCED_SHARE = 0.02
_GOOD_ENOUGH_APART = 1.08
# When a plan breaks a limit, limited capacity gets a price of its own: these shares of the fluid's cost for all of it.
_LIMIT_PRICES = (0.1, 0.5, 2.0)
# Pods planned anew for one unit of effort: some, and a share of the lot's.
_PODS_TRIED = 0.5
_SHARE_TRIED = 0.001


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan: its nodes, the market they are from, pods it leaves, cost with fees, price, and who found it."""

    nodes: Sequence[Node]
    market: Market
    left: int
    cost: float
    price: float
    found_by: str


class Search:
    """The search for the best plan for some pods on a market.

    Attributes:
        best: The best plan so far; the greedy one to begin with.
        bound: A price that no plan for all pods that can be placed is below, if some step found one.
    """

    def __init__(
        self, market: Market, counts: Sequence[int], options: PackOptions, expired: Callable[[], bool]
    ) -> None:
        self._counts = counts
        self._options = options
        self._expired = expired
        self._limits = Allowance(market.stock.lot)
        self._buyable = sum([count for kind, count in enumerate(counts) if market.is_buyable(kind)])
        price, number, _ = self._fluid_of(market)
        # What a node costs beside its price, and at least what one node less may cost.
        self._fee = max(options.node_fee, options.tolerance * price / max(1.0, number))
        self._market = market.at([price + self._fee for price in market.menu.prices])
        self._fluid, _, forced = self._fluid_of(self._market)
        self._are_nodes_forced = forced > _FORCED_SHARE * self._fluid
        nodes = greedy(self._market, counts, Allowance(market.stock.lot))
        self._floor = self._candidate(nodes, self._market, "greedy")
        self.best = self._floor
        self.bound = 0.0

    def _fluid_of(self, market: Market) -> tuple[float, float, float]:
        """Return the fluid's cost and number of nodes for all pods, mask by mask, and the cost of forced nodes."""
        value = 0.0
        nodes = 0.0
        forced = 0.0
        for group in market.groups:
            pods = [count if group >> kind & 1 else 0 for kind, count in enumerate(self._counts)]
            if any(pods):
                mix = market.mix(pods)
                value += mix.value
                nodes += sum(mix.amounts.values())
                forced += mix.forced
        return value, nodes, forced

    def _candidate(self, nodes: Sequence[Node], market: Market, found_by: str) -> Candidate:
        held = sum([number for node in nodes for _, number in node.contents])
        price = sum([market.menu.prices[node.option] for node in nodes])
        return Candidate(nodes, market, self._buyable - held, price + self._fee * len(nodes), price, found_by)

    def run(self) -> None:
        """Look for better plans, as far as effort and time go."""
        if self._options.effort <= 0:
            return
        shop = Shop(self._market, self._expired)
        for buyer in (shop.quickly, shop.thoroughly):
            if self._is_good_enough() or self._expired():
                break
            found = plan(self._market, self._counts, buyer, self._expired)
            if found is not None:
                self._offer_within_limits(found)
        if not self._is_good_enough() and not self._is_hard_to_improve():
            self._improve()

    def _is_good_enough(self) -> bool:
        close = self.best.cost <= _GOOD_ENOUGH * self._fluid or self.best.price <= _GOOD_ENOUGH * self.bound
        return close and not self.best.left

    def _is_hard_to_improve(self) -> bool:
        close = self.best.cost <= _GOOD_ENOUGH_APART * self._fluid
        return close and self._are_nodes_forced and not self.best.left

    def _offer(self, found: Candidate) -> bool:
        """Keep a plan if it leaves fewer pods than the best so far, or as many at a lower cost; tell whether."""
        if found.left == self._floor.left and found.price > self._floor.price:
            return False
        if (found.left, found.cost) >= (self.best.left, self.best.cost):
            return False
        self.best = found
        return True

    def _offer_within_limits(self, found: Plan) -> None:
        """Offer a plan, or others that take less of what is limited."""
        market = self._market
        nodes = found.nodes
        self.bound = max(self.bound, found.bound)
        if self._limits.hold(market.menu, nodes):
            self._offer(self._candidate(nodes, market, found.found_by))
            return
        for share in _LIMIT_PRICES:
            self._offer(self._candidate(self._trimmed(market, nodes), market, found.found_by))
            market = self._with_limit_prices(share)
            other = plan(market, self._counts, Shop(market, self._expired).quickly, self._expired)
            if other is None:
                break
            nodes = other.nodes
            if self._limits.hold(market.menu, nodes):
                self._offer(self._candidate(nodes, market, other.found_by))
                break

    def _with_limit_prices(self, share: float) -> Market:
        """Return the market where all of a limit costs this share of the fluid, on top of prices and fees."""
        menu = self._market.menu
        costs = []
        for option, position in enumerate(menu.positions):
            dearer = share * self._fluid * self._limits.part(position)
            costs.append((self._market.costs[option] + dearer, option))
        costs.sort()
        reordered = menu.reordered([option for _, option in costs])
        return Market(self._market.stock, reordered, self._counts).at([cost for cost, _ in costs])

    def _trimmed(self, market: Market, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes that hold most for what they take of the limits, refilled with pods of the others."""
        total = market.stock.total(self._counts)
        ranked = []
        for place, node in enumerate(nodes):
            held = sum(used / max(1, amount) for used, amount in zip(node.used, total, strict=True))
            ranked.append((-held / max(1e-9, self._limits.part(market.menu.positions[node.option])), place))
        allowance = Allowance(market.stock.lot)
        kept: list[Node] = []
        left = list(self._counts)
        for _, place in sorted(ranked):
            if allowance.charge(market.menu.positions[nodes[place].option], 1):
                kept.append(nodes[place])
                take(left, nodes[place].contents, 1, 0)
        for group in market.groups:
            kept = absorb(market, kept, left, group)
        return [*kept, *greedy(market, left, allowance)]

    def _improve(self) -> None:
        start = self.best
        pods = int(self._options.effort * (_PODS_TRIED + _SHARE_TRIED * sum(self._counts)))

        def accepts(nodes: Sequence[Node]) -> bool:
            return self._limits.hold(start.market.menu, nodes) and self._offer(
                self._candidate(nodes, start.market, "improve")
            )

        improve(start.market, start.nodes, pods, Chance(self._options.seed), accepts, self._expired)
