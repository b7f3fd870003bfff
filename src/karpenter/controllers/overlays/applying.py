# SPDX-License-Identifier: Apache-2.0
"""What instance types look like under overlays: pure.

As Karpenter: overlays count by weight, then by name, later letters first. The first that is about an offering settles
its price, the first that names a resource of a type settles that resource. Two of the same weight that are about the
same price or the same resource contradict each other: the one that comes later does not count at all, and is told so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from karpenter.api import labels as names
from karpenter.api.base import EMPTY
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.errors import KarpenterError
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.requirements import Requirement, RequirementError, Requirements
from karpenter.model.resources import Resources

__all__ = ["Overlay", "OverlayError", "applied", "conflicts", "in_order", "read_overlay"]

_CORE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class OverlayError(KarpenterError):
    """An overlay that says nothing that could be applied."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """One overlay, read.

    Attributes:
        name: Its name.
        weight: The heavier counts first.
        requirements: Which types and offerings it is about.
        price: The price an hour that it sets; None if it sets none.
        change: What it adds to the price, in dollars.
        factor: What the price is multiplied with before.
        capacity: Extended resources that types have besides.
    """

    name: str
    weight: int = 0
    requirements: Requirements = field(default_factory=Requirements)
    price: float | None = None
    change: float = 0.0
    factor: float = 1.0
    capacity: Mapping[str, int] = field(default=EMPTY)

    @property
    def is_about_price(self) -> bool:
        """Whether it says anything about prices."""
        return self.price is not None or self.change != 0.0 or self.factor != 1.0

    def price_for(self, price_per_hour: float) -> float:
        """Gives the price that it makes of the cloud's."""
        if self.price is not None:
            return self.price
        return max(0.0, price_per_hour * self.factor + self.change)


def read_overlay(overlay: NodeOverlay) -> Overlay:
    """Gives an overlay as it is meant.

    Raises:
        OverlayError: Something in it cannot be read.
    """
    spec = overlay.spec
    try:
        requirements = Requirements.from_expressions(spec.requirements)
        capacity = Resources.parse(spec.capacity)
    except RequirementError as error:
        raise OverlayError(f"spec.requirements: {error.message}", hint=error.hint) from error
    except KarpenterError as error:
        raise OverlayError(f"spec.capacity: {error.message}", hint=error.hint) from error
    refused = sorted(_CORE & capacity.keys())
    if refused:
        raise OverlayError(f"spec.capacity: {', '.join(refused)} cannot be changed by an overlay")
    found = Overlay(overlay.metadata.name, spec.weight or 0, requirements, capacity=dict(capacity))
    try:
        if spec.price:
            return replace(found, price=float(spec.price))
        if spec.price_adjustment.endswith("%"):
            return replace(found, factor=1.0 + float(spec.price_adjustment.removesuffix("%")) / 100.0)
        if spec.price_adjustment:
            return replace(found, change=float(spec.price_adjustment))
    except ValueError as error:
        value = spec.price or spec.price_adjustment
        raise OverlayError(
            f'spec.price: "{value}" is neither a price nor a change of one',
            hint='e.g. "0.085", "-10%" or "+0.01"',
        ) from error
    return found


def in_order(overlays: Iterable[Overlay]) -> tuple[Overlay, ...]:
    """Gives overlays in the order in which they count."""
    return tuple(sorted(overlays, key=lambda each: (each.weight, each.name), reverse=True))


def applied(
    types: Sequence[InstanceType], overlays: Sequence[Overlay], labels: Mapping[str, str]
) -> Sequence[InstanceType]:
    """Gives the types as they are under overlays that count in this order; the same object if nothing changes.

    Args:
        types: What the cloud sells.
        overlays: The overlays, the first counts most.
        labels: The labels that every node of the pool has.
    """
    changed = [_applied(kind, overlays, labels) for kind in types]
    return changed if any(new is not old for new, old in zip(changed, types, strict=True)) else types


def conflicts(
    types: Iterable[InstanceType], overlays: Sequence[Overlay], labels: Mapping[str, str]
) -> dict[str, str]:
    """Gives the overlays that contradict one of the same weight that comes before, with its name."""
    found: dict[str, str] = {}
    for kind in types:
        resources: dict[tuple[int, str], str] = {}
        for overlay in overlays:
            if overlay.name in found or not _is_about(overlay, kind, None, labels):
                continue
            for resource in overlay.capacity:
                first = resources.setdefault((overlay.weight, resource), overlay.name)
                if first != overlay.name:
                    found[overlay.name] = first
        for offering in kind.offerings:
            prices: dict[int, str] = {}
            for overlay in overlays:
                if (
                    overlay.name in found
                    or not overlay.is_about_price
                    or not _is_about(overlay, kind, offering, labels)
                ):
                    continue
                first = prices.setdefault(overlay.weight, overlay.name)
                if first != overlay.name:
                    found[overlay.name] = first
    return found


def _applied(kind: InstanceType, overlays: Sequence[Overlay], labels: Mapping[str, str]) -> InstanceType:
    offerings = tuple(_priced(kind, offering, overlays, labels) for offering in kind.offerings)
    more: dict[str, int] = {}
    for overlay in overlays:
        if overlay.capacity and _is_about(overlay, kind, None, labels):
            more = {**overlay.capacity, **more}
    if not more and all(new is old for new, old in zip(offerings, kind.offerings, strict=True)):
        return kind
    return replace(
        kind,
        offerings=offerings,
        capacity=Resources({**kind.capacity, **more}),
        allocatable=Resources({**kind.allocatable, **more}),
    )


def _priced(
    kind: InstanceType, offering: Offering, overlays: Sequence[Overlay], labels: Mapping[str, str]
) -> Offering:
    for overlay in overlays:
        if overlay.is_about_price and _is_about(overlay, kind, offering, labels):
            usual = offering.usual_price_per_hour
            return replace(
                offering,
                price_per_hour=overlay.price_for(offering.price_per_hour),
                usual_price_per_hour=None if usual is None else overlay.price_for(usual),
            )
    return offering


def _is_about(
    overlay: Overlay, kind: InstanceType, offering: Offering | None, labels: Mapping[str, str]
) -> bool:
    """Tells whether an overlay is about an offering; without one whether it is about any offering of the type."""
    if offering is None:
        return any(_is_about(overlay, kind, each, labels) for each in kind.offerings)
    known = {
        **labels,
        **kind.labels,
        **offering.labels,
        names.INSTANCE_TYPE: kind.name,
        names.ZONE: offering.zone,
        names.CAPACITY_TYPE: offering.capacity_type,
    }
    return all(_allows(requirement, known) for requirement in overlay.requirements)


def _allows(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    return requirement.allows(labels.get(requirement.key))
