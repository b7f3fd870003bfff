# SPDX-License-Identifier: Apache-2.0
"""What is packed, and what comes out: pods folded into shapes, nodes that stand already, new nodes to buy.

A lot is all that the packing knows. Zones, taints, preferences and pools are settled before: they arrive as masks
over the catalogue's offerings. Rules between pods on one node arrive as host groups. Amounts are whole numbers in
base units, in the order of ``Lot.resources``.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from karpenter.model.catalogue import Catalogue

__all__ = ["Bin", "Lot", "PackOptions", "Packing", "Room", "Shape"]


class Shape(msgspec.Struct, frozen=True, gc=False):
    """Pods that are equal in all that packing looks at.

    Attributes:
        size: The amounts one pod takes, in the order of ``Lot.resources``; a pod takes one of "pods".
        count: How many such pods there are.
        mask: The offerings such a pod may use.
        counted: The host groups that count the pod, as a bit set.
        caps: The host rules the pod owns, each a host group and a limit: while the pod stands on a node, the node
            holds at most so many pods counted by the group, the pod itself included if the group counts it.
        ports: The host ports the pod takes, as a bit set.
        port_conflicts: The host ports the pod cannot stand beside, as a bit set.
        order: Settles ties between shapes that are equal otherwise.
    """

    size: tuple[int, ...]
    count: int
    mask: int
    counted: int = 0
    caps: tuple[tuple[int, int], ...] = ()
    ports: int = 0
    port_conflicts: int = 0
    order: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """A node that stands already and costs nothing more: it is filled before anything is bought.

    Attributes:
        free: What is left for pods; for an open node ``mask`` and ``used`` say so instead.
        admits: The shapes that may enter, as a bit set over indices of ``Lot.shapes``.
        counts: For each host group, how many pods on the node it counts.
        caps: For each host group, the smallest limit that a pod on the node sets.
        ports: The host ports taken.
        mask: For a new node that is not bought yet: the offerings it can still be. Zero for any other node.
        used: For such an open node: what its pods take, DaemonSets not included.
    """

    free: tuple[int, ...]
    admits: int
    counts: tuple[tuple[int, int], ...] = ()
    caps: tuple[tuple[int, int], ...] = ()
    ports: int = 0
    mask: int = 0
    used: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lot:
    """Pods of one pool variant, and what they may be put on.

    Attributes:
        catalogue: What can be bought.
        resources: The names of the amounts in all vectors.
        shapes: The pods.
        overheads: What DaemonSets take on a new node, by offerings; the masks do not overlap. An offering that no
            mask holds cannot be bought.
        rooms: Nodes that stand already.
        limits: What the pool may still grow by, by resource, over the sum of the capacity of the new nodes;
            "nodes" counts them.
    """

    catalogue: Catalogue
    resources: tuple[str, ...]
    shapes: tuple[Shape, ...]
    overheads: tuple[tuple[int, tuple[int, ...]], ...]
    rooms: tuple[Room, ...] = ()
    limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PackOptions:
    """How the packing weighs price against the number of nodes, and how long it tries.

    Attributes:
        tolerance: The share of the price that may be given up, over all, for fewer nodes.
        node_fee: Dollars per hour added to each node while plans are compared, never to a reported price: what a
            node costs beside its price (root volume, addresses, agents, one more machine to patch).
        effort: How much is tried to improve a plan: for each unit half a pod, and a thousandth of the lot's pods, is
            planned once more. Zero gives the greedy plan alone.
        seed: Where the choices of the improvement start.
        prove: Whether a bound is proven for the packing; who proves one over several lots needs none of each.
    """

    tolerance: float = 0.01
    node_fee: float = 0.02
    effort: int = 100
    seed: int = 1
    prove: bool = True


class Bin(msgspec.Struct, frozen=True, gc=False):
    """A new node.

    Attributes:
        contents: The pods, as shape index and number, ascending.
        mask: Every offering that holds these pods and their overhead and is allowed by all of them. If the lot has
            limits, only those with which no choice over all bins can break a limit. The lowest bit is the choice.
        used: What the pods take, DaemonSets not included.
    """

    contents: tuple[tuple[int, int], ...]
    mask: int
    used: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """Where the pods of a lot go.

    Attributes:
        rooms: For each room of the lot the pods that enter it, as shape index and number.
        bins: The nodes to buy.
        left: For each shape the number of pods that found no place.
        price_per_hour: The price of the bins.
        bound_per_hour: No set of nodes that holds the pods in the bins costs less; zero if none was asked for.
        found_by: The step that found the plan.
    """

    rooms: tuple[tuple[tuple[int, int], ...], ...]
    bins: tuple[Bin, ...]
    left: tuple[int, ...]
    price_per_hour: float
    bound_per_hour: float
    found_by: str
