# SPDX-License-Identifier: Apache-2.0
"""Which offerings a launch names: what meets the claim, cut down as Karpenter cuts it.

From all types of a node class: those that meet the claim's requirements, have room for its requests and can be bought
now. Then, in this order: reserved capacity alone where there is any, of one kind of reservation, of a capacity block
only its cheapest offering, per type and zone the reservation with the most room; no exotic machine where an ordinary
one will do; no spot that costs more than the cheapest on-demand of what is left; spot if any is left, else on-demand;
the 60 cheapest types. The exotic and the dear are kept where the claim wants many values to choose from, and a cut that
breaks that wish is a shortage, not a cut.

Pure: equal arguments give equal choices. Nothing left is an ``InsufficientCapacityError`` that says at which step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from karpenter.api import labels
from karpenter.cloud.errors import InsufficientCapacityError, SoldOut
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.requirements import Requirement, Requirements
from karpenter.model.resources import Resources

__all__ = ["MAX_TYPES", "Candidate", "Choice", "choose", "offering_labels"]

MAX_TYPES: Final = 60

# Falling back to on-demand with fewer types than this deserves a warning: the next shortage finds no way out.
_FEW_TYPES: Final = 5

# Labels that nodes get from elsewhere; that a machine lacks them is no reason against it.
_NOT_OF_MACHINES: Final = frozenset({labels.NODEPOOL, labels.REGION})
_JUDGED: Final = labels.WELL_KNOWN - _NOT_OF_MACHINES
# What differs between offerings of one type.
_OF_OFFERINGS: Final = frozenset(
    {
        labels.ZONE,
        labels.ZONE_ID,
        labels.CAPACITY_TYPE,
        labels.INSTANCE_TENANCY,
        labels.CAPACITY_RESERVATION_ID,
        labels.CAPACITY_RESERVATION_TYPE,
        labels.CAPACITY_RESERVATION_INTERRUPTIBLE,
        labels.PLACEMENT_GROUP_PARTITION,
    }
)
_EXOTIC: Final = (labels.NVIDIA_GPU, labels.AMD_GPU, labels.NEURON, labels.NEURON_CORE, labels.HABANA_GAUDI)
_KINDS: Final = ("default", "capacity-block", "interruptible")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A type and the offerings of it that may be bought, cheapest first."""

    kind: InstanceType
    offerings: tuple[Offering, ...]

    @property
    def price_per_hour(self) -> float:
        """What the cheapest offering costs."""
        return self.offerings[0].price_per_hour


@dataclass(frozen=True, slots=True)
class Choice:
    """What a launch may buy: one capacity type, types by price.

    Attributes:
        capacity_type: The capacity type of every offering.
        candidates: The types, cheapest first.
        reservation_kind: default, capacity-block or interruptible; empty unless reserved.
        tenancy: The tenancy of every offering.
        partition: The partition of every offering; empty where none was asked for.
        is_narrow_fallback: Whether spot was allowed, on-demand was taken, and few types are left.
    """

    capacity_type: str
    candidates: tuple[Candidate, ...]
    reservation_kind: str = ""
    tenancy: str = "default"
    partition: str = ""
    is_narrow_fallback: bool = False


def choose(
    types: Iterable[InstanceType],
    requirements: Requirements,
    requests: Resources,
    *,
    min_values_relaxed: bool = False,
    max_types: int = MAX_TYPES,
) -> Choice:
    """Return what a launch for a claim names.

    Args:
        types: All types of the node class.
        requirements: Those of the claim.
        requests: What the pods of the claim need together.
        min_values_relaxed: Whether the claim's wish for many values was given up when it was planned.
        max_types: How many types one launch names.

    Raises:
        InsufficientCapacityError: Nothing is left.
    """
    matching = _matching(types, requirements, requests)
    if not matching:
        raise InsufficientCapacityError(
            "no instance type meets the requirements of the claim and has room for its pods",
            hint="the catalogue moved since the claim was planned; it is planned anew",
        )
    buyable = _of(matching, lambda each: each.available)
    if not buyable:
        raise InsufficientCapacityError(
            f"all {len(matching)} instance types that meet the claim are sold out or out of reach just now",
            offerings=_sold_out(matching),
        )
    buyable = _one_partition(_one_tenancy(buyable), requirements)
    wants_many = requirements.has_min_values and not min_values_relaxed
    chosen, kind = _reserve(buyable)
    if not wants_many:
        # Exotic types first: the price of a type that is not chosen must not cap spot.
        chosen = _without_dear_spot(_without_exotic(chosen))
    capacity_type = _capacity_type(chosen)
    chosen = _of(chosen, lambda each: each.capacity_type == capacity_type)
    cut = sorted(chosen, key=lambda each: (each.price_per_hour, each.kind.name))[:max_types]
    if wants_many:
        _check_min_values(cut, requirements)
    allows_spot = any(each.capacity_type == labels.SPOT for one in matching for each in one.offerings)
    return Choice(
        capacity_type,
        tuple(cut),
        kind,
        tenancy=_tenancy(cut[0].offerings[0]),
        partition=_partition(cut[0].offerings[0]),
        is_narrow_fallback=allows_spot and capacity_type == labels.ON_DEMAND and len(cut) < _FEW_TYPES,
    )


def offering_labels(kind: InstanceType, offering: Offering) -> Mapping[str, str]:
    """Return the labels of a node that is bought this way."""
    return {
        **kind.labels,
        **offering.labels,
        labels.INSTANCE_TYPE: kind.name,
        labels.ZONE: offering.zone,
        labels.CAPACITY_TYPE: offering.capacity_type,
    }


def _matching(
    types: Iterable[InstanceType], requirements: Requirements, requests: Resources
) -> list[Candidate]:
    """Keep what meets the claim; each type is judged once, and its offerings only by what differs among them."""
    of_types = [each for each in requirements if each.key not in _OF_OFFERINGS]
    of_offerings = [each for each in requirements if each.key in _OF_OFFERINGS]
    found = []
    for kind in types:
        if not (_allows(of_types, kind.labels) and requests.fits(kind.allocatable)):
            continue
        kept = [each for each in kind.offerings if _allows(of_offerings, offering_labels(kind, each))]
        if kept:
            found.append(Candidate(kind, tuple(sorted(kept, key=_order))))
    return found


def _allows(requirements: Iterable[Requirement], machine: Mapping[str, str]) -> bool:
    """Tell whether a machine with these labels will do; labels that no machine has are somebody else's."""
    return all(
        requirement.allows(machine.get(requirement.key))
        for requirement in requirements
        if requirement.key in machine or requirement.key in _JUDGED
    )


def _of(candidates: Iterable[Candidate], keep: Callable[[Offering], bool]) -> list[Candidate]:
    found = []
    for candidate in candidates:
        kept = tuple(filter(keep, candidate.offerings))
        if kept:
            found.append(replace(candidate, offerings=kept))
    return found


def _order(offering: Offering) -> tuple[float, str, str, str]:
    return offering.price_per_hour, offering.zone, offering.capacity_type, offering.reservation_id


def _capacity_type(candidates: Iterable[Candidate]) -> str:
    there = {offering.capacity_type for candidate in candidates for offering in candidate.offerings}
    return next(each for each in (labels.RESERVED, labels.SPOT, labels.ON_DEMAND) if each in there)


def _one_tenancy(candidates: list[Candidate]) -> list[Candidate]:
    """Keep shared hardware where it will do; dedicated hardware costs more than its price here says."""
    shared = _of(candidates, lambda each: _tenancy(each) == "default")
    return shared or candidates


def _tenancy(offering: Offering) -> str:
    return offering.labels.get(labels.INSTANCE_TENANCY, "default")


def _one_partition(candidates: list[Candidate], requirements: Requirements) -> list[Candidate]:
    """Keep the lowest partition that was asked for; where none was, one offering stands for them all."""
    numbers = sorted(
        {int(part) for one in candidates for each in one.offerings if (part := _partition(each)).isdecimal()}
    )
    if not numbers:
        return candidates
    lowest = str(numbers[0])
    kept = _of(candidates, lambda each: _partition(each) in {"", lowest})
    if labels.PLACEMENT_GROUP_PARTITION in requirements:
        return kept
    return [replace(one, offerings=tuple(map(_without_partition, one.offerings))) for one in kept]


def _partition(offering: Offering) -> str:
    return offering.labels.get(labels.PLACEMENT_GROUP_PARTITION, "")


def _without_partition(offering: Offering) -> Offering:
    rest = {key: value for key, value in offering.labels.items() if key != labels.PLACEMENT_GROUP_PARTITION}
    return replace(offering, labels=rest)


def _reserve(candidates: list[Candidate]) -> tuple[list[Candidate], str]:
    """Keep reserved capacity where there is any: one kind of it, and per type and zone one reservation."""
    reserved = [each for one in candidates for each in one.offerings if each.reservation_id]
    if not reserved:
        return candidates, ""
    kind = _kind(min(reserved, key=lambda each: (each.price_per_hour, _KINDS.index(_kind(each)))))
    kept = _of(candidates, lambda each: bool(each.reservation_id) and _kind(each) == kind)
    if kind == "capacity-block":
        cheapest = min(kept, key=lambda one: (one.price_per_hour, one.kind.name))
        return [replace(cheapest, offerings=cheapest.offerings[:1])], kind
    return [replace(one, offerings=_roomiest(one.offerings)) for one in kept], kind


def _kind(offering: Offering) -> str:
    if offering.labels.get(labels.CAPACITY_RESERVATION_INTERRUPTIBLE) == "true":
        return "interruptible"
    return offering.labels.get(labels.CAPACITY_RESERVATION_TYPE, "default")


def _roomiest(offerings: Sequence[Offering]) -> tuple[Offering, ...]:
    best: dict[str, Offering] = {}
    for offering in offerings:
        known = best.get(offering.zone)
        if known is None or offering.reservation_capacity > known.reservation_capacity:
            best[offering.zone] = offering
    return tuple(sorted(best.values(), key=_order))


def _without_exotic(candidates: list[Candidate]) -> list[Candidate]:
    ordinary = [candidate for candidate in candidates if not _is_exotic(candidate.kind)]
    return ordinary or candidates


def _is_exotic(kind: InstanceType) -> bool:
    return "metal" in kind.name or any(kind.capacity.get(device, 0) for device in _EXOTIC)


def _without_dear_spot(candidates: list[Candidate]) -> list[Candidate]:
    """Leave out spot that costs more than the cheapest on-demand, even if no spot is left then."""
    on_demand = [
        each.price_per_hour
        for one in candidates
        for each in one.offerings
        if each.capacity_type == labels.ON_DEMAND
    ]
    if not on_demand:
        return candidates
    most = min(on_demand)
    return _of(candidates, lambda each: each.capacity_type != labels.SPOT or each.price_per_hour <= most)


def _check_min_values(candidates: Sequence[Candidate], requirements: Requirements) -> None:
    for requirement in requirements:
        if requirement.min_values is None:
            continue
        values = {
            value
            for one in candidates
            for each in one.offerings
            if (value := offering_labels(one.kind, each).get(requirement.key)) is not None
        }
        if len(values) < requirement.min_values:
            raise InsufficientCapacityError(
                f"{requirement.key}: {requirement.min_values} different values are wanted to choose from,"
                f" {len(values)} can be bought now",
                hint="lower minValues of the NodePool, or set min-values-policy to BestEffort",
            )


def _sold_out(candidates: Iterable[Candidate]) -> tuple[SoldOut, ...]:
    return tuple(
        SoldOut(one.kind.name, each.zone, each.capacity_type) for one in candidates for each in one.offerings
    )
