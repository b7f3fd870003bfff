# SPDX-License-Identifier: Apache-2.0
"""One CreateFleet request and what its answer means.

A request names launch templates, and for each the offerings that may be bought with it: type, subnet, image, and the
price as priority. EC2 picks: on-demand by price, spot by price and depth of the pool. The answer lists what was
launched and, per offering, what went wrong; each error is classified, and what it says about offerings goes into the
memory of what is sold out. Nothing here waits or calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.api import labels
from karpenter.api.base import EMPTY
from karpenter.cloud.aws.choice import Choice
from karpenter.cloud.aws.codes import SLR_DENIED, Cause, Kind, classify
from karpenter.cloud.aws.unavailable import CapacityTypeOut, PoolOut, SubnetOut, Unavailable, ZoneOut
from karpenter.cloud.errors import CloudError, InsufficientCapacityError, LaunchError, SoldOut

__all__ = [
    "CLAIM_UID_TAG",
    "LAUNCH_TAG",
    "MAX_OVERRIDES",
    "FleetAnswer",
    "FleetError",
    "LaunchTerms",
    "Launched",
    "Override",
    "fleet_request",
    "instance_tags",
    "launch_failure",
    "launch_token",
    "mark_unavailable",
    "read_answer",
]

# Tags that make a launch findable: by the claim that it was for, and by the request that it came from.
CLAIM_UID_TAG: Final = f"{labels.GROUP}/nodeclaim-uid"
LAUNCH_TAG: Final = f"{labels.GROUP}/launch"

# More overrides than this, over all launch templates of a request, are refused by EC2.
MAX_OVERRIDES: Final = 300

_SPREAD_LIMIT: Final = "spread placement group"


@dataclass(frozen=True, slots=True)
class Override:
    """One offering as a fleet names it."""

    template: str
    instance_type: str
    zone: str
    subnet_id: str
    image_id: str
    price_per_hour: float


@dataclass(frozen=True, slots=True)
class LaunchTerms:
    """What is known of every instance of a launch before EC2 answers, because its launch templates say so.

    Attributes:
        capacity_type: on-demand, spot or reserved.
        reservations: Reservation by launch template name.
        tenancy: default or dedicated.
        partition: The partition of the placement group; empty where EC2 chooses one.
    """

    capacity_type: str
    reservations: Mapping[str, str] = field(default=EMPTY)
    tenancy: str = "default"
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Launched:
    """One instance that a fleet brought, or that was found later."""

    instance_id: str
    instance_type: str
    zone: str
    capacity_type: str
    image_id: str = ""
    subnet_id: str = ""
    reservation_id: str = ""
    tenancy: str = "default"
    partition: str = ""


@dataclass(frozen=True, slots=True)
class FleetError:
    """What went wrong with one offering."""

    cause: Cause
    message: str
    instance_type: str = ""
    zone: str = ""
    subnet_id: str = ""

    @property
    def tells_spread_limit(self) -> bool:
        """Whether a spread placement group has all the instances in the zone that it may have."""
        return _SPREAD_LIMIT in self.message.lower()

    @property
    def tells_shortage(self) -> bool:
        """Whether the offering itself is used up: no subnet's addresses, nor the limit of a spread placement group."""
        return self.cause.kind in {Kind.CAPACITY, Kind.QUOTA} and not self.tells_spread_limit


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """What a fleet brought, in the order of the instances' ids, and what went wrong."""

    instances: tuple[Launched, ...]
    errors: tuple[FleetError, ...]


def launch_token(members: Iterable[tuple[str, int]]) -> str:
    """Return the client token of a launch: it follows from the claims' UIDs and attempts alone."""
    text = "\n".join(f"{uid} {attempt}" for uid, attempt in sorted(members))
    return "karpenter-" + hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def fleet_request(
    overrides: Sequence[Override],
    choice: Choice,
    *,
    count: int,
    token: str,
    tags: Mapping[str, str],
    context: str = "",
    by_priority: bool = False,
) -> dict[str, Any]:
    """Return the parameters of CreateFleet.

    Args:
        overrides: What may be bought; the cheapest are kept where there are too many.
        choice: Gives the capacity type and the kind of reservation.
        count: How many instances.
        token: The client token.
        tags: Tags of instances, volumes and the fleet.
        context: The node class's context.
        by_priority: Whether prices were overlaid, so that EC2 must follow ours and not its own.
    """
    kept = sorted(overrides, key=lambda each: (each.price_per_hour, each.instance_type, each.zone))
    configs: dict[str, list[dict[str, Any]]] = {}
    for each in kept[:MAX_OVERRIDES]:
        configs.setdefault(each.template, []).append(_override(each))
    request: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
                "Overrides": listed,
            }
            for name, listed in sorted(configs.items())
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": _target(choice),
        },
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in sorted(tags.items())]}
            for kind in ("instance", "volume", "fleet")
        ],
    }
    if choice.capacity_type == labels.SPOT:
        strategy = "capacity-optimized-prioritized" if by_priority else "price-capacity-optimized"
        request["SpotOptions"] = {"AllocationStrategy": strategy}
    elif choice.reservation_kind == "interruptible":
        request["ReservedCapacityOptions"] = {"ReservationTypes": ["interruptible-capacity-reservation"]}
    elif choice.reservation_kind != "capacity-block":
        request["OnDemandOptions"] = {"AllocationStrategy": "prioritized" if by_priority else "lowest-price"}
    if context:
        request["Context"] = context
    return request


def instance_tags(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags that a request puts on its instances."""
    return {
        tag["Key"]: tag["Value"]
        for each in request["TagSpecifications"]
        if each["ResourceType"] == "instance"
        for tag in each["Tags"]
    }


def _target(choice: Choice) -> str:
    if choice.capacity_type == labels.SPOT:
        return "spot"
    if choice.reservation_kind == "capacity-block":
        return "capacity-block"
    return "reserved-capacity" if choice.reservation_kind == "interruptible" else "on-demand"


def _override(override: Override) -> dict[str, Any]:
    return {
        "InstanceType": override.instance_type,
        "SubnetId": override.subnet_id,
        "ImageId": override.image_id,
        "AvailabilityZone": override.zone,
        "Priority": override.price_per_hour,
    }


def read_answer(answer: Mapping[str, Any], terms: LaunchTerms, zones: Mapping[str, str]) -> FleetAnswer:
    """Return what CreateFleet answered.

    Args:
        answer: As boto3 gives it.
        terms: What was asked for.
        zones: Zone by subnet id, for answers that name only the subnet.
    """
    instances = []
    for group in answer.get("Instances", ()):
        used = group.get("LaunchTemplateAndOverrides", {})
        override = used.get("Overrides", {})
        template = used.get("LaunchTemplateSpecification", {}).get("LaunchTemplateName", "")
        subnet = override.get("SubnetId") or group.get("SubnetId", "")
        instances += [
            Launched(
                instance_id,
                group.get("InstanceType") or override.get("InstanceType", ""),
                override.get("AvailabilityZone") or group.get("AvailabilityZone") or zones.get(subnet, ""),
                terms.capacity_type,
                override.get("ImageId", ""),
                subnet,
                terms.reservations.get(template, ""),
                terms.tenancy,
                terms.partition,
            )
            for instance_id in group.get("InstanceIds", ())
        ]
    errors = [_error(each, zones) for each in answer.get("Errors", ())]
    return FleetAnswer(tuple(sorted(instances, key=lambda each: each.instance_id)), tuple(errors))


def _error(error: Mapping[str, Any], zones: Mapping[str, str]) -> FleetError:
    override = error.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    message = str(error.get("ErrorMessage", ""))
    subnet = override.get("SubnetId", "")
    return FleetError(
        classify(str(error.get("ErrorCode", "")), message),
        message,
        override.get("InstanceType", ""),
        override.get("AvailabilityZone") or zones.get(subnet, ""),
        subnet,
    )


def mark_unavailable(
    errors: Iterable[FleetError],
    capacity_type: str,
    unavailable: Unavailable,
    *,
    group: str = "",
    partition: str = "",
) -> None:
    """Remember what the errors say cannot be bought; reserved capacity is counted elsewhere, not remembered."""
    for error in errors:
        if error.cause.code == SLR_DENIED:
            # The role is for spot alone, whatever this launch was to buy.
            unavailable.mark(CapacityTypeOut(labels.SPOT), error.cause.code)
        elif error.cause.kind is Kind.ADDRESSES and error.subnet_id:
            unavailable.mark(SubnetOut(error.subnet_id), error.cause.code)
        elif group and error.tells_spread_limit:
            unavailable.mark(ZoneOut(group, error.zone), error.cause.code)
        elif error.cause.is_unfulfillable and capacity_type != labels.RESERVED and error.instance_type:
            pool = PoolOut(capacity_type, error.instance_type, error.zone, group, partition)
            unavailable.mark(pool, error.cause.code)


def launch_failure(errors: Sequence[FleetError], capacity_type: str) -> CloudError:
    """Return what a launch without any instance means for the claim.

    Only if every error is a shortage is it a shortage; spot that cannot be bought for want of its service-linked role
    is one, because on-demand can. Otherwise the first other cause names the failure, because a person must remove that
    one whatever the rest was.
    """
    others = [
        error for error in errors if not error.cause.is_unfulfillable and error.cause.code != SLR_DENIED
    ]
    if others and not any(error.cause.kind is Kind.THROTTLE for error in others):
        first = others[0]
        return LaunchError(
            f"EC2 refused to launch: {first.cause.code}: {first.message}",
            reason=first.cause.reason,
            code=first.cause.code,
            hint=first.cause.hint,
        )
    if others:
        return LaunchError(
            "EC2 asked for fewer requests while it launched",
            reason="RequestLimitExceeded",
            code=others[0].cause.code,
            hint="it is tried again by itself",
        )
    sold_out = tuple(
        dict.fromkeys(
            SoldOut(error.instance_type, error.zone, capacity_type, error.cause.code) for error in errors
        )
    )
    told = "; ".join(dict.fromkeys(f"{each.code} {each.instance_type} {each.zone}" for each in sold_out[:5]))
    more = f" and {len(sold_out) - 5} more" if len(sold_out) > 5 else ""
    hints = [error.cause.hint for error in errors if error.cause.kind is not Kind.CAPACITY]
    return InsufficientCapacityError(
        f"EC2 had none of the {capacity_type} offerings asked for: {told or 'no cause given'}{more}",
        offerings=sold_out,
        hint=hints[0] if hints else "",
    )
