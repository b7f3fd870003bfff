# SPDX-License-Identifier: Apache-2.0
"""Builders for small catalogues and lots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.scheduling.packing import Lot, Packing, PackOptions, Room, Shape, pack

RESOURCES = ("cpu", "memory", "pods")


def never() -> bool:
    return False


def machine(
    name: str,
    *,
    cpu: int = 4,
    memory: int = 8,
    pods: int = 10,
    price: float = 1.0,
    zones: Sequence[str] = ("a",),
    reserved: int = 0,
    extra: int = 0,
) -> InstanceType:
    """One type; ``reserved`` is cpu that the machine has but pods cannot use, ``extra`` an amount of "gpu"."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, "gpu": extra}
    return InstanceType(
        name=name,
        labels={},
        capacity={**allocatable, "cpu": cpu + reserved},
        allocatable=allocatable,
        offerings=tuple(
            Offering(zone=zone, capacity_type="on-demand", price_per_hour=price) for zone in zones
        ),
    )


def linear_catalogue(sizes: Iterable[int] = (1, 2, 4, 8, 16)) -> Catalogue:
    """Three families (2, 4 and 8 of memory for a cpu) of the given sizes, prices in proportion."""
    return Catalogue(
        machine(
            f"{family}{size}", cpu=10 * size, memory=10 * size * ratio, pods=20 * size, price=price * size
        )
        for family, ratio, price in (("c", 2, 0.10), ("m", 4, 0.12), ("r", 8, 0.16))
        for size in sizes
    )


def shape(cpu: int, memory: int, count: int = 1, *, mask: int = -1, order: int = 0, **rules: object) -> Shape:
    """Pods that take one of "pods" each; by default they may use any offering."""
    return Shape(size=(cpu, memory, 1), count=count, mask=mask, order=order, **rules)  # type: ignore[arg-type]


def lot(
    catalogue: Catalogue,
    shapes: Iterable[Shape],
    *,
    rooms: Iterable[Room] = (),
    limits: Sequence[tuple[str, int]] = (),
    overhead: tuple[int, ...] = (0, 0, 0),
) -> Lot:
    whole = catalogue.everything
    return Lot(
        catalogue=catalogue,
        resources=RESOURCES,
        shapes=tuple(
            Shape(
                size=each.size,
                count=each.count,
                mask=each.mask & whole,
                counted=each.counted,
                caps=each.caps,
                ports=each.ports,
                port_conflicts=each.port_conflicts,
                order=each.order,
            )
            for each in shapes
        ),
        overheads=((whole, overhead),),
        rooms=tuple(rooms),
        limits=tuple(limits),
    )


def packed(problem: Lot, **options: float) -> Packing:
    return pack(problem, options=PackOptions(**options), expired=never)  # type: ignore[arg-type]


def types_of(problem: Lot, packing: Packing) -> list[str]:
    """The chosen type of each bin, sorted."""
    catalogue = problem.catalogue
    return sorted(
        catalogue.type_at((bought.mask & -bought.mask).bit_length() - 1).name for bought in packing.bins
    )
