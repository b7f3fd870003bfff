# SPDX-License-Identifier: Apache-2.0
"""Plain values in the shape of a plan: for plans that were made by hand or by another scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from karpenter.api.core import Pod

__all__ = ["ForeignOptions", "ForeignPlan", "Offer", "Purchase", "Refusal"]


@dataclass(frozen=True, slots=True)
class Offer:
    """An offering that a new node may be."""

    instance_type: str
    zone: str
    capacity_type: str
    price_per_hour: float


@dataclass(frozen=True, slots=True)
class Purchase:
    """A node to buy."""

    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price_per_hour: float
    alternatives: tuple[Offer, ...]
    requirements: Any
    pods: tuple[Pod, ...]
    requests: Mapping[str, int]
    daemon_overhead: Mapping[str, int]
    min_values_relaxed: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Pods without a place."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class ForeignPlan:
    """A plan."""

    existing: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    new_nodes: tuple[Purchase, ...] = ()
    rejections: tuple[Refusal, ...] = ()
    unfinished: tuple[Pod, ...] = ()
    price_per_hour: float = 0.0
    lower_bound_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class ForeignOptions:
    """How a plan was to be made."""

    min_values: str = "Strict"
