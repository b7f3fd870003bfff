# SPDX-License-Identifier: Apache-2.0
"""Instance types and small catalogues of them, shaped like EC2's.

A type's labels follow from its name ("m5.large" is of family m5, category m, generation 5, size large), its size and
its devices. Prices are made up but ordered as on EC2: by cpu, memory and devices, spot below on-demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from karpenter.api.labels import (
    AMD64,
    ARCH,
    CAPACITY_RESERVATION_ID,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_NAME,
    INSTANCE_MEMORY,
    INSTANCE_SIZE,
    LINUX,
    NVIDIA_GPU,
    ON_DEMAND,
    OS,
    RESERVED,
    SPOT,
)
from karpenter.model.instancetypes import InstanceType, Offering

__all__ = ["ZONES", "instance_type", "offering", "reserved", "small_catalogue"]

ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")

_MIB: Final = 2**20
_GIB: Final = 2**30
_NAME: Final = re.compile(r"(?P<family>(?P<category>[a-z]+)(?P<generation>[0-9]+)[a-z]*)\.(?P<size>.+)")
_SPOT_SHARE: Final = 0.4


def offering(
    zone: str = ZONES[0], capacity_type: str = ON_DEMAND, price: float = 0.1, *, available: bool = True
) -> Offering:
    """Make an offering of a type."""
    return Offering(zone, capacity_type, price, available)


def reserved(reservation: str, capacity: int, zone: str = ZONES[0], price: float = 0.001) -> Offering:
    """Make an offering of reserved capacity."""
    return Offering(
        zone,
        RESERVED,
        price,
        labels={CAPACITY_RESERVATION_ID: reservation},
        reservation_id=reservation,
        reservation_capacity=capacity,
    )


def instance_type(
    name: str = "m5.large",
    *,
    cpu: int = 2,
    memory_gib: float = 8,
    pods: int = 29,
    gpus: int = 0,
    arch: str = AMD64,
    zones: Iterable[str] = ZONES,
    capacity_types: Iterable[str] = (ON_DEMAND, SPOT),
    price: float | None = None,
    offerings: Iterable[Offering] | None = None,
    labels: Mapping[str, str] | None = None,
) -> InstanceType:
    """Make an instance type, sold in every zone as every capacity type unless ``offerings`` are given.

    Args:
        name: Its name; family, category, generation and size are read from it.
        cpu: Its cores; 80m of them and 5 % of the memory are kept from pods.
        memory_gib: Its memory.
        pods: How many pods it holds.
        gpus: How many devices it has.
        arch: Its architecture.
        zones: Where it is sold.
        capacity_types: How it is sold.
        price: What it costs on demand per hour; worked out from its size if left out.
        offerings: Exactly how it is sold.
        labels: More labels.
    """
    base = price if price is not None else _price(cpu, memory_gib, gpus)
    if offerings is None:
        offerings = (
            offering(zone, each, base if each == ON_DEMAND else round(base * _SPOT_SHARE, 6))
            for zone in zones
            for each in capacity_types
        )
    memory = int(memory_gib * _GIB)
    capacity = {"cpu": cpu * 1000, "memory": memory, "pods": pods, "ephemeral-storage": 20 * _GIB}
    if gpus:
        capacity[NVIDIA_GPU] = gpus
    allocatable = {
        **capacity,
        "cpu": cpu * 1000 - 80,
        "memory": memory * 95 // 100 // _MIB * _MIB,
        "ephemeral-storage": 17 * _GIB,
    }
    return InstanceType(
        name,
        _labels(name, cpu, memory, gpus, arch) | dict(labels or {}),
        capacity,
        allocatable,
        tuple(offerings),
    )


def small_catalogue() -> tuple[InstanceType, ...]:
    """Make twelve types: three shapes in three sizes, two for arm64, one with a GPU."""
    sizes = {"large": 2, "xlarge": 4, "2xlarge": 8}
    shapes = {"c5": 2, "m5": 4, "r5": 8}
    general = [
        instance_type(f"{family}.{size}", cpu=cpu, memory_gib=cpu * ratio, pods=14 * cpu + 1)
        for family, ratio in shapes.items()
        for size, cpu in sizes.items()
    ]
    return (
        *general,
        instance_type("m6g.large", cpu=2, memory_gib=8, arch="arm64", price=0.077),
        instance_type("m6g.xlarge", cpu=4, memory_gib=16, arch="arm64", price=0.154),
        instance_type("g4dn.xlarge", cpu=4, memory_gib=16, gpus=1),
    )


def _price(cpu: int, memory_gib: float, gpus: int) -> float:
    return round(0.03 * cpu + 0.0045 * memory_gib + 0.35 * gpus, 6)


def _labels(name: str, cpu: int, memory: int, gpus: int, arch: str) -> dict[str, str]:
    labels = {
        ARCH: arch,
        OS: LINUX,
        INSTANCE_CPU: str(cpu),
        INSTANCE_MEMORY: str(memory // _MIB),
    }
    parts = _NAME.fullmatch(name)
    if parts is not None:
        labels |= {
            INSTANCE_FAMILY: parts["family"],
            INSTANCE_CATEGORY: parts["category"],
            INSTANCE_GENERATION: parts["generation"],
            INSTANCE_SIZE: parts["size"],
        }
    if gpus:
        labels |= {INSTANCE_GPU_COUNT: str(gpus), INSTANCE_GPU_NAME: "t4"}
    return labels
