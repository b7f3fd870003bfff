# SPDX-License-Identifier: Apache-2.0
"""A cluster in faked time: workloads, pods on nodes, what can be bought, and how pods that wait get nodes.

Nothing here decides what goes. Pods that wait are provisioned the same way for every algorithm: the largest first, onto
the first node with room, else onto as few new nodes as hold them, each bought as the cheapest that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from karpenter.consolidation.search.copy import Copy
from karpenter.consolidation.search.terrain import Kind, Standing, Terrain
from karpenter.model.catalogue import Catalogue, lowest_bit
from karpenter.scheduling.packing.menu import menu_for
from karpenter.scheduling.packing.simplex import cover, proven_value
from karpenter.scheduling.problems import read_catalogue

__all__ = ["Cluster", "Market", "Node", "Pod", "Workload", "market"]

RESOURCES: Final = ("cpu", "memory", "pods")
MIB: Final = 1 << 20
# What the two DaemonSets take on every node: millicores, bytes, pods.
DAEMONS: Final = ((100, 200 * MIB, 1), (50, 120 * MIB, 1))
OVERHEAD: Final = (150, 320 * MIB, 2)
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")

_FILE: Final = Path(__file__).parents[1] / "peers" / "catalogue.json"
_MOST_CPU: Final = 16_000


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of one template.

    Attributes:
        name: Its name.
        size: What one pod takes: millicores, bytes, one pod.
        amd64: Whether it runs on amd64 only.
        on_demand: Whether it must not run on spot.
        zone: The only zone it runs in, or empty.
        apart: Whether no two of its pods share a node.
        protected: Whether its pods must not be moved.
        guarded: Whether a PodDisruptionBudget lets one tenth of it go at a time.
        weight: What evicting one of its pods weighs.
    """

    name: str
    size: tuple[int, int, int]
    amd64: bool = False
    on_demand: bool = False
    zone: str = ""
    apart: bool = False
    protected: bool = False
    guarded: bool = False
    weight: float = 1.0


@dataclass(slots=True, eq=False)
class Pod:
    """A pod: its workload, its number, and when it was last moved by consolidation."""

    uid: int
    workload: int
    moved_at: float = -1e9


@dataclass(slots=True, eq=False)
class Node:
    """A node: what it was bought as, and the pods on it."""

    number: int
    position: int
    pods: dict[int, Pod] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name."""
        return f"node-{self.number:06}"


class Market:
    """What can be bought: c, m and r types of generation 3 and later with at most 16 cores, in three zones."""

    def __init__(self) -> None:
        whole = read_catalogue(_FILE.read_bytes(), str(_FILE))
        self.catalogue = Catalogue(
            kind
            for kind in whole.types
            if kind.labels.get("karpenter.k8s.aws/instance-category") in {"c", "m", "r"}
            and int(kind.labels.get("karpenter.k8s.aws/instance-generation", "0")) > 2
            and kind.capacity["cpu"] <= _MOST_CPU
            and "karpenter.k8s.aws/instance-gpu-count" not in kind.labels
        )
        self.rooms = [self.room(position) for position in range(len(self.catalogue.offerings))]

    def room(self, position: int) -> tuple[int, ...]:
        """Return what an offering leaves for pods."""
        amounts = self.catalogue.vector(position, RESOURCES)
        return tuple(have - less for have, less in zip(amounts, OVERHEAD, strict=True))

    def holding(self, used: Sequence[int]) -> int:
        """Return the offerings that hold so much beside the DaemonSets."""
        found = self.catalogue.everything
        for name, amount, extra in zip(RESOURCES, used, OVERHEAD, strict=True):
            found &= self.catalogue.at_least(name, amount + extra)
        return found

    def allowed(self, workload: Workload) -> int:
        """Return the offerings that a workload may use."""
        values = self.catalogue.values
        found = self.catalogue.available
        if workload.amd64:
            found &= values("kubernetes.io/arch")["amd64"]
        if workload.on_demand:
            found &= values("karpenter.sh/capacity-type")["on-demand"]
        if workload.zone:
            found &= values("topology.kubernetes.io/zone")[workload.zone]
        return found


@cache
def market() -> Market:
    """Return the one market, read once."""
    return Market()


@dataclass(slots=True)
class _Claim:
    """A node to be bought, as long as it is open what it will be."""

    mask: int
    used: tuple[int, ...]
    pods: list[Pod]
    apart: set[int]
    refused: set[int] = field(default_factory=set)


class Cluster:
    """Nodes and pods at one moment.

    Attributes:
        prices: What each offering costs now; spot prices may move.
        usual_prices: What each offering costs on average, as far as the product knows; nothing if prices do not move.
        nodes: By number, in the order in which they were bought.
        launches: How many nodes were bought so far.
    """

    def __init__(self, workloads: Sequence[Workload]) -> None:
        self.market = market()
        self.workloads = list(workloads)
        self.allowed = [self.market.allowed(workload) for workload in self.workloads]
        self.prices = list(self.market.catalogue.prices)
        self.usual_prices: list[float] = []
        self.nodes: dict[int, Node] = {}
        self.launches = 0
        self._pods = 0

    # What is there.

    def price(self) -> float:
        """Return what the nodes cost per hour."""
        return sum(self.prices[node.position] for node in self.nodes.values())

    def pods(self) -> list[Pod]:
        """Return every pod."""
        return [pod for node in self.nodes.values() for pod in node.pods.values()]

    def is_pinned(self, node: Node) -> bool:
        """Tell whether a pod on the node must not be moved."""
        return any(self.workloads[pod.workload].protected for pod in node.pods.values())

    def free(self, node: Node) -> tuple[int, ...]:
        """Return what is left on a node."""
        room = list(self.market.rooms[node.position])
        for pod in node.pods.values():
            for i, amount in enumerate(self.workloads[pod.workload].size):
                room[i] -= amount
        return tuple(room)

    def terrain(self) -> tuple[Terrain, list[int]]:
        """Return the cluster as whole numbers, one kind for each workload, and the numbers of the nodes in order."""
        numbers = list(self.nodes)
        positions = [self.nodes[number].position for number in numbers]
        suiting: dict[int, int] = {}
        kinds = []
        for index, (workload, mask) in enumerate(zip(self.workloads, self.allowed, strict=True)):
            if mask not in suiting:
                digits = "".join(["1" if mask >> position & 1 else "0" for position in reversed(positions)])
                suiting[mask] = int(digits or "0", 2)
            group = 1 << index if workload.apart else 0
            caps = ((index, 1),) if workload.apart else ()
            kinds.append(Kind(workload.size, -1, 0, suiting[mask], group, caps))
        nodes = []
        for number in numbers:
            node = self.nodes[number]
            apart = [pod.workload for pod in node.pods.values() if self.workloads[pod.workload].apart]
            nodes.append(
                Standing(
                    free=self.free(node),
                    counts=tuple((group, apart.count(group)) for group in sorted(set(apart))),
                    caps=tuple((group, 1) for group in sorted(set(apart))),
                )
            )
        return Terrain(RESOURCES, tuple(kinds), tuple(nodes), ()), numbers

    def lower_bound(self) -> float:
        """Return what no cluster for these pods costs less than, as long as pinned nodes stay.

        For every set of offerings that some workload is bound to, nodes bought in the set and the room left on pinned
        ones must hold all pods that are bound to it or to less.
        """
        pinned = 0.0
        spare: list[tuple[int, tuple[int, ...]]] = []
        demand: dict[int, list[int]] = {}
        for node in self.nodes.values():
            if self.is_pinned(node):
                pinned += self.prices[node.position]
                spare.append((node.position, self.free(node)))
                continue
            for pod in node.pods.values():
                total = demand.setdefault(self.allowed[pod.workload], [0] * len(RESOURCES))
                for i, amount in enumerate(self.workloads[pod.workload].size):
                    total[i] += amount
        masks = tuple(sorted(demand))
        overheads = ((self.market.catalogue.everything, OVERHEAD),)
        menu = menu_for(self.market.catalogue, RESOURCES, overheads, masks)
        costs = [self.prices[position] for position in menu.positions]
        rows = []
        for mask, admitting in zip(masks, menu.admitting, strict=True):
            for i in range(2):
                need = sum(amounts[i] for other, amounts in demand.items() if not other & ~mask)
                need -= sum(free[i] for position, free in spare if mask >> position & 1)
                if need <= 0:
                    continue
                rows.append(
                    [
                        room[i] / need if admitting >> option & 1 else 0.0
                        for option, room in enumerate(menu.capacities)
                    ]
                )
        ones = [1.0] * len(rows)
        return pinned + proven_value(rows, costs, ones, cover(rows, costs, ones).duals)

    # What happens to it.

    def new_pods(self, workload: int, number: int) -> list[Pod]:
        """Return new pods that have no place yet."""
        self._pods += number
        return [Pod(self._pods - i, workload) for i in range(number)]

    def launch(self, position: int) -> Node:
        """Buy a node."""
        self.launches += 1
        node = Node(self.launches, position)
        self.nodes[node.number] = node
        return node

    def provision(self, pods: Iterable[Pod]) -> int:
        """Give every pod a place, on new nodes where there is no room; return how many were bought."""
        waiting = sorted(pods, key=lambda pod: (*(-a for a in self.workloads[pod.workload].size), pod.uid))
        if not waiting:
            return 0
        terrain, numbers = self.terrain()
        copy = Copy(terrain)
        everywhere = copy.open_hosts()
        claims: list[_Claim] = []
        for pod in waiting:
            host = lowest_bit(copy.having_room(pod.workload) & everywhere)
            if host >= 0:
                copy.put(host, pod.workload, 1)
                self.nodes[numbers[host]].pods[pod.uid] = pod
            else:
                self.join(claims, pod)
        for claim in claims:
            node = self.launch(self.cheapest(claim.mask))
            node.pods.update({pod.uid: pod for pod in claim.pods})
        return len(claims)

    def cheapest(self, mask: int) -> int:
        """Return the cheapest of some offerings at the prices of now."""
        if self.prices == list(self.market.catalogue.prices):
            return lowest_bit(mask)
        best = lowest_bit(mask)
        position = best
        rest = mask
        while rest:
            position = lowest_bit(rest)
            rest &= rest - 1
            if self.prices[position] < self.prices[best]:
                best = position
        return best

    def join(self, claims: list[_Claim], pod: Pod) -> None:
        """Put a pod onto one of the claims, those with the fewest pods first, or onto a new one."""
        workload = self.workloads[pod.workload]
        open_claims = [claim for claim in claims if pod.workload not in claim.refused]
        for claim in sorted(open_claims, key=lambda claim: len(claim.pods)):
            if workload.apart and pod.workload in claim.apart:
                claim.refused.add(pod.workload)
                continue
            used = tuple(a + b for a, b in zip(claim.used, workload.size, strict=True))
            mask = claim.mask & self.allowed[pod.workload] & self.market.holding(used)
            if mask:
                claim.mask, claim.used = mask, used
                claim.pods.append(pod)
                claim.apart.update({pod.workload} if workload.apart else ())
                return
            # Claims only fill up: who is refused once always is.
            claim.refused.add(pod.workload)
        mask = self.allowed[pod.workload] & self.market.holding(workload.size)
        assert mask, f"{workload.name} fits no offering"
        claims.append(_Claim(mask, workload.size, [pod], {pod.workload} if workload.apart else set()))
