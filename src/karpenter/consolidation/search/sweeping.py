# SPDX-License-Identifier: Apache-2.0
"""Takes away the nodes that are not worth their price: into the room of others where that does, else for new nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import mul

from karpenter.consolidation.search.buying import Shop, worthless
from karpenter.consolidation.search.copy import Contents, Copy, together
from karpenter.consolidation.search.pricing import Prices

__all__ = ["Sweep"]

# So many nodes are exchanged for new ones at once; fewer make smaller steps, more make slightly cheaper clusters.
_CHUNK = 24
# In very large clusters no more than so many nodes are exchanged in one plan: budgets let go fewer at a time anyway.
_MOST_DROPPED = 1500
# A gain must be more than rounding could be.
_LEAST_GAIN = 1e-9


class Sweep:
    """Changes a copy for the better, step by step; every step is kept only if the cost falls.

    Attributes:
        tries: How many changes were looked at.
    """

    def __init__(self, copy: Copy, prices: Prices, shop: Shop, stop: Callable[[], bool]) -> None:
        self._copy = copy
        self._shop = shop
        self._stop = stop
        self.prices = prices
        self.tries = 0

    def worth(self, host: int) -> float:
        """Return what the pods on a host that stands would be worth in room elsewhere."""
        terrain = self._copy.terrain
        weights = self.prices.on(self.prices.groups_on[host])
        total = 0.0
        for kind, number in self._copy.contents(host).items():
            total += number * sum(map(mul, weights, terrain.kinds[kind].size))
        return total

    def run(self) -> None:
        """Take away what the prices say, then whatever else has room elsewhere."""
        copy = self._copy
        drop = [
            node
            for node in range(copy.standing)
            if copy.may_leave(node) and not self.prices.keep[node] and copy.worth_of_leaving(node) > 0.0
        ]
        going = sum(1 << node for node in drop)
        drop = self._by_gain(drop)
        self._drop(drop[:_MOST_DROPPED], going)
        # What is left for another time takes no pods meanwhile.
        going = sum(1 << node for node in drop[_MOST_DROPPED:])
        self._delete_all(going)

    def _by_gain(self, nodes: Iterable[int]) -> list[int]:
        copy = self._copy
        ranked = []
        for node in nodes:
            pods = sum(copy.contents(node).values())
            ranked.append(((self.worth(node) - copy.worth_of_leaving(node)) / (pods + 1), node))
        return [node for _, node in sorted(ranked)]

    def _drop(self, nodes: Sequence[int], going: int) -> None:
        copy = self._copy
        collected: list[int] = []
        for node in nodes:
            if self._stop():
                return
            if not self.delete(node, copy.open_hosts() & ~going):
                collected.append(node)
            if len(collected) >= _CHUNK:
                self._exchange(collected, copy.open_hosts() & ~going)
                collected = []
        if collected:
            self._exchange(collected, copy.open_hosts() & ~going)

    def delete(self, node: int, allowed: int) -> bool:
        """Take a node away if all its pods have room on the allowed hosts and the cost falls; tell whether it did."""
        copy = self._copy
        if copy.worth_of_leaving(node) <= _LEAST_GAIN:
            return False
        contents = copy.contents(node)
        if not copy.has_room(contents, allowed & ~(1 << node)):
            return False
        self.tries += 1
        mark = copy.mark()
        copy.close(node)
        if copy.place(contents, allowed & ~(1 << node)):
            copy.take_back(mark)
            return False
        copy.forget()
        return True

    def _delete_all(self, going: int) -> None:
        """Take away every node whose pods have room elsewhere, but on some hosts."""
        copy = self._copy
        hosts = [host for host in copy.hosts() if copy.may_leave(host)]
        density = []
        for host in hosts:
            pods = sum(copy.contents(host).values())
            density.append((-copy.worth_of_leaving(host) / (pods + 1), host))
        for _, host in sorted(density):
            self.delete(host, copy.open_hosts() & ~going)

    def _exchange(self, nodes: Sequence[int], allowed: int) -> None:
        """Take nodes away for new ones if that pays, else half of them."""
        if not self.exchange(nodes, allowed) and len(nodes) > 1:
            middle = len(nodes) // 2
            for part in (nodes[:middle], nodes[middle:]):
                self._exchange(part, allowed & self._copy.open_hosts())

    def exchange(self, hosts: Sequence[int], allowed: int) -> bool:
        """Take hosts away, place their pods, and buy for those without room; tell whether that paid.

        Args:
            hosts: The hosts that go.
            allowed: The hosts that may take pods.
        """
        copy = self._copy
        self.tries += 1
        before = copy.cost
        mark = copy.mark()
        contents = together([copy.close(host) for host in hosts])
        for host in hosts:
            allowed &= ~(1 << host)
        if self.settle(contents, allowed, before - _LEAST_GAIN):
            copy.forget()
            return True
        copy.take_back(mark)
        return False

    def settle(self, contents: Contents, allowed: int, ceiling: float) -> bool:
        """Place pods, and buy for those without room; tell whether all have a place and the cost is below a ceiling.

        If not, some may have a place already, for the caller to take back.
        """
        copy = self._copy
        if copy.cost >= ceiling:
            return False
        left = copy.place(contents, allowed)
        if not left:
            return True
        most = (ceiling - copy.cost) / (1.0 + copy.terrain.surcharge)
        purchases = self._shop.buy(left, copy, most)
        if purchases is None or worthless(purchases, copy.terrain.ghosts):
            return False
        for source, position, pods in purchases:
            copy.buy(source, position, pods)
        return copy.cost < ceiling
