# SPDX-License-Identifier: Apache-2.0
"""What room is worth here, and which nodes are not worth keeping: the whole question without whole pods.

Pods that may use the same nodes and offerings are a group. For each group there is a row for each resource: the nodes
that its pods may use, kept or bought, must have room for it and for all groups that may use no other nodes. A node is
kept or not, in part if need be; offerings are bought in any amount. The prices of the rows say what a unit of a
resource is worth on a node, given who may use it.

Thousands of nodes are too many columns: nodes that admit the same groups, of like shape and like value for money, are
kept or not together. Prices then judge each node by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul

from karpenter.consolidation.search.program import minimise
from karpenter.consolidation.search.terrain import Size, Terrain
from karpenter.model.catalogue import bits
from karpenter.scheduling.packing.menu import menu_for

__all__ = ["Prices", "price"]

# Rooms do not fill to the last bit.
_FILL = 0.97
# With more groups than this, those with the least to place get no rows of their own.
_MOST_GROUPS = 24
_MOST_BUNDLES = 160
# Offerings looked at: for each row so many that give most of it for a dollar, and as many for mixes of two.
_OFFERS = 5
_MIXES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_PIVOTS = 1500
_ENDLESS = float("inf")

# What a node or an offering costs and brings: groups that may use it, amounts, cost.
_Column = tuple[int, Sequence[float], float]


@dataclass(frozen=True, slots=True)
class Prices:
    """What room is worth.

    Attributes:
        groups_on: For each standing node the groups that may use it.
        group_of: For each kind its group.
        by_group: For each group the price of a unit of each resource on a node that it may use, its own row alone.
        keep: For each standing node whether it is worth its price.
    """

    groups_on: list[int]
    group_of: list[int]
    by_group: list[list[float]]
    keep: list[bool]
    _known: dict[int, list[float]]

    def on(self, groups: int) -> list[float]:
        """Return the price of a unit of each resource on a node that some groups may use."""
        known = self._known.get(groups)
        if known is None:
            known = [0.0] * len(self.by_group[0])
            for group in bits(groups):
                known = [a + b for a, b in zip(known, self.by_group[group], strict=True)]
            self._known[groups] = known
        return known


class _Question:
    """The rows and columns of one pricing."""

    def __init__(self, terrain: Terrain) -> None:
        self.terrain = terrain
        self.resources = range(len(terrain.resources))
        self.demand = self._demands()
        self.group_of, self.groups = self._group()
        self.inside = self._inside()
        self.groups_on = self._groups_on()

    def _demands(self) -> list[int]:
        """Return how many pods of each kind would have to move if all removable nodes went."""
        found = [0] * len(self.terrain.kinds)
        for node in self.terrain.nodes:
            if node.removable:
                for kind, number in node.contents:
                    found[kind] += number
        for kind, number in self.terrain.extra:
            found[kind] += number
        return found

    def _group(self) -> tuple[list[int], list[tuple[int, int, int]]]:
        load: dict[tuple[int, int, int], int] = {}
        whole = [
            max(1, sum(amounts)) for amounts in zip(*(node.free for node in self.terrain.nodes), strict=True)
        ]
        for kind, number in zip(self.terrain.kinds, self.demand, strict=True):
            key = (kind.source, kind.mask, kind.nodes)
            share = sum(amount * 1_000_000 // total for amount, total in zip(kind.size, whole, strict=True))
            load[key] = load.get(key, 0) + number * share
        largest = sorted(load, key=lambda key: (-load[key], key))[:_MOST_GROUPS]
        places = {key: place for place, key in enumerate(largest)}
        return [places.get((kind.source, kind.mask, kind.nodes), -1) for kind in self.terrain.kinds], largest

    def _inside(self) -> list[int]:
        """Return for each group the groups that may use no nodes but its own, itself included."""
        found = []
        for source, mask, nodes in self.groups:
            members = 0
            for place, (other_source, other_mask, other_nodes) in enumerate(self.groups):
                same = other_source == source or other_source < 0
                if same and not other_mask & ~mask and not other_nodes & ~nodes:
                    members |= 1 << place
            found.append(members)
        return found

    def _groups_on(self) -> list[int]:
        found = [0] * len(self.terrain.nodes)
        for place, (_, _, nodes) in enumerate(self.groups):
            for node in bits(nodes):
                found[node] |= 1 << place
        return found

    def totals(self) -> list[list[float]]:
        """Return for each group what it and those inside it need of each resource, less what stays free anyway."""
        own = [[0] * len(self.resources) for _ in self.groups]
        for kind, number, group in zip(self.terrain.kinds, self.demand, self.group_of, strict=True):
            if group >= 0:
                own[group] = [have + number * need for have, need in zip(own[group], kind.size, strict=True)]
        found = []
        for place, members in enumerate(self.inside):
            need = [sum(own[member][i] for member in bits(members)) for i in self.resources]
            free = [0.0] * len(need)
            for node, groups in zip(self.terrain.nodes, self.groups_on, strict=True):
                if not node.removable and node.receives and groups >> place & 1:
                    usable = _usable(node.free, need)
                    free = [have + more for have, more in zip(free, usable, strict=True)]
            found.append([max(0.0, amount - less) for amount, less in zip(need, free, strict=True)])
        return found

    def offers(self, totals: Sequence[Sequence[float]]) -> list[_Column]:
        """Return offerings worth looking at."""
        found: list[_Column] = []
        for place, source in enumerate(self.terrain.sources):
            groups = [(group, mask) for group, (seller, mask, _) in enumerate(self.groups) if seller == place]
            if not groups:
                continue
            masks = tuple(sorted({mask for _, mask in groups}))
            limited = tuple(sorted(name for name, _ in source.limits if name != "nodes"))
            menu = menu_for(source.catalogue, self.terrain.resources, source.overheads, masks, limited)
            columns: list[_Column] = []
            for position, cost, room in zip(menu.positions, menu.prices, menu.capacities, strict=True):
                admitted = sum(1 << group for group, mask in groups if mask >> position & 1)
                columns.append(
                    (
                        admitted,
                        [amount * _FILL for amount in room],
                        cost * (1.0 + self.terrain.surcharge) + self.terrain.fee,
                    )
                )
            chosen: set[int] = set()
            for group, _ in groups:
                chosen.update(self._best(columns, group, totals[group]))
            found += [columns[column] for column in sorted(chosen)]
        return found

    def _best(self, columns: Sequence[_Column], group: int, total: Sequence[float]) -> Iterable[int]:
        there = [column for column, (groups, _, _) in enumerate(columns) if groups >> group & 1]
        first, second = (self.terrain.resources.index(name) for name in ("cpu", "memory"))
        for mix in _MIXES:
            weights = [0.0] * len(total)
            weights[first] = mix / max(1.0, total[first])
            weights[second] = (1.0 - mix) / max(1.0, total[second])
            pay = [
                (-sum(map(mul, weights, columns[column][1])) / max(columns[column][2], 1e-9), column)
                for column in there
            ]
            yield from [column for _, column in sorted(pay)[:_OFFERS]]

    def nodes(self) -> list[tuple[int, _Column]]:
        """Return the nodes that may go, each with what it brings if it is kept."""
        found: list[tuple[int, _Column]] = []
        sizes = [kind.size for kind in self.terrain.kinds]
        whole = [max(1, sum(node.free[i] for node in self.terrain.nodes)) for i in self.resources]
        for place, node in enumerate(self.terrain.nodes):
            if node.removable:
                used = [0] * len(self.resources)
                for kind, number in node.contents:
                    used = [have + need * number for have, need in zip(used, sizes[kind], strict=True)]
                need = [have + amount for have, amount in zip(used, node.free, strict=True)]
                free = _usable(node.free, whole) if node.receives else [0.0] * len(used)
                room = [
                    have + min(more * _FILL, most - have)
                    for have, more, most in zip(used, free, need, strict=True)
                ]
                found.append((place, (self.groups_on[place], room, node.gain + self.terrain.fee)))
        return found


def _usable(free: Size, mix: Sequence[float]) -> list[float]:
    """Return what of some room a mix of pods can use before one resource runs out; a little more of the others."""
    shares = [have / want for have, want in zip(free, mix, strict=True) if want > 0]
    least = min(shares, default=0.0)
    return [min(float(have), 1.5 * least * want) for have, want in zip(free, mix, strict=True)]


def price(terrain: Terrain) -> Prices:
    """Return what room is worth and which nodes are worth keeping; some node must be removable."""
    question = _Question(terrain)
    totals = question.totals()
    nodes = question.nodes()
    bundles = _bundled(nodes)
    columns = [*bundles, *question.offers(totals)]
    rows: list[list[float]] = []
    names: list[tuple[int, int]] = []
    for group, total in enumerate(totals):
        for i in question.resources:
            if total[i] > 0.0:
                names.append((group, i))
                rows.append(
                    [room[i] / total[i] if groups >> group & 1 else 0.0 for groups, room, _ in columns]
                )
    costs = [cost for _, _, cost in columns]
    bounds = [1.0] * len(bundles) + [_ENDLESS] * (len(columns) - len(bundles))
    answer = minimise(rows, costs, [1.0] * len(rows), bounds, _PIVOTS)
    by_group = [[0.0] * len(terrain.resources) for _ in totals] or [[0.0] * len(terrain.resources)]
    for (group, i), dual in zip(names, answer.duals, strict=True):
        by_group[group][i] = dual / totals[group][i]
    prices = Prices(question.groups_on, question.group_of, by_group, [True] * len(terrain.nodes), {})
    for place, (groups, room, gain) in nodes:
        prices.keep[place] = gain <= sum(map(mul, prices.on(groups), room))
    return prices


def _bundled(nodes: Sequence[tuple[int, _Column]]) -> list[_Column]:
    """Put nodes that admit the same groups, of like shape and value for money, together."""
    width = len(nodes[0][1][1])
    whole = [max(1.0, sum(column[1][i] for _, column in nodes)) for i in range(width)]
    alike: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for index, (_, (groups, room, gain)) in enumerate(nodes):
        shares = [amount / total for amount, total in zip(room, whole, strict=True)]
        worth = sum(shares)
        shape = shares.index(max(shares))
        alike.setdefault((groups, shape), []).append((gain / worth if worth > 0.0 else _ENDLESS, index))
    size = max(1, -(-len(nodes) // _MOST_BUNDLES))
    found: list[_Column] = []
    for (groups, _), members in sorted(alike.items()):
        members.sort()
        for start in range(0, len(members), size):
            part = [index for _, index in members[start : start + size]]
            room = [sum(nodes[index][1][1][i] for index in part) for i in range(width)]
            found.append((groups, room, sum(nodes[index][1][2] for index in part)))
    return found
