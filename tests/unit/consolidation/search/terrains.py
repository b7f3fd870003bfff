# SPDX-License-Identifier: Apache-2.0
"""Small terrains in round numbers: cores, GiB and pods, and three machines to buy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from karpenter.consolidation.search.terrain import Kind, Source, Standing, Terrain
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering

RESOURCES = ("cpu", "memory", "pods")


def machine(name: str, cpu: int, memory: int, price: float) -> InstanceType:
    """Make a machine."""
    room = {"cpu": cpu, "memory": memory, "pods": 20}
    return InstanceType(name, {}, room, room, (Offering("zone-a", "on-demand", price),))


SMALL = machine("small", 2, 4, 0.1)
MEDIUM = machine("medium", 4, 8, 0.2)
LARGE = machine("large", 8, 16, 0.4)
CATALOGUE = Catalogue((SMALL, MEDIUM, LARGE))
ALL = CATALOGUE.everything


def source(
    *machines: InstanceType,
    overhead: tuple[int, int, int] = (0, 0, 0),
    limits: Iterable[tuple[str, int]] = (),
) -> Source:
    """Make a seller of some machines, the three usual ones if none is named."""
    catalogue = Catalogue(machines) if machines else CATALOGUE
    return Source(catalogue, ((catalogue.everything, overhead),), "default", tuple(limits))


def kind(cpu: int, memory: int, **more: Any) -> Kind:
    """Make a kind of pods that may go anywhere."""
    return Kind(**{"size": (cpu, memory, 1), "source": 0, "mask": ALL, "nodes": -1, **more})


def node(free: tuple[int, int, int], contents: Iterable[tuple[int, int]] = (), **more: Any) -> Standing:
    """Make a node that costs 0.4 and gains that if it goes."""
    return Standing(**{"free": free, "price": 0.4, "gain": 0.4, "contents": tuple(contents), **more})


def terrain(kinds: Iterable[Kind], nodes: Iterable[Standing], **more: Any) -> Terrain:
    """Make a terrain; kinds that may go anywhere may enter each of its nodes."""
    standing = tuple(nodes)
    everywhere = (1 << len(standing)) - 1
    made = tuple(
        Kind(
            each.size,
            each.source,
            each.mask,
            each.nodes & everywhere,
            each.counted,
            each.caps,
            ghost=each.ghost,
        )
        for each in kinds
    )
    return Terrain(
        **{"resources": RESOURCES, "kinds": made, "nodes": standing, "sources": (source(),), **more}
    )
