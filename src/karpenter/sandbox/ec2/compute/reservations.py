# SPDX-License-Identifier: Apache-2.0
"""Capacity reservations: room that is paid for, its state over time, and who may use it.

An ``open`` reservation takes every on-demand launch that matches it, unless the launch says ``none``; a
``targeted`` one takes only launches that name it. A reservation's state is a function of time: scheduled, active,
expired, or cancelled when somebody ended it. The instances of a reservation that has ended go on as on-demand ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from karpenter.sandbox.ec2.compute.capacity import Pool
from karpenter.sandbox.ec2.compute.filters import Field
from karpenter.sandbox.ec2.compute.listing import by_ids, describe, spec_tags, tag_list
from karpenter.sandbox.ec2.compute.records import Allocation, CapacityReservation, Instance
from karpenter.sandbox.ec2.compute.seam import Params, invalid, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = [
    "allocation_view",
    "cancel_capacity_reservation",
    "create_capacity_reservation",
    "describe_capacity_reservations",
    "enter",
    "find_room",
    "lends",
    "modify_capacity_reservation",
    "plan_expiry",
    "release_all",
    "state_at",
]


def create_capacity_reservation(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreateCapacityReservation."""
    kind = params["InstanceType"]
    if kind not in ec2.prices.offered:
        raise invalid(kind, "instanceType")
    zone = params.get("AvailabilityZone") or _zone_of(ec2, params.get("AvailabilityZoneId") or "")
    if zone not in ec2.prices.offered[kind]:
        raise ModelError("Unsupported", f"The instance type {kind} is not offered in {zone}.")
    if params["InstanceCount"] < 1:
        raise invalid(params["InstanceCount"], "instanceCount")
    now = ec2.now()
    ends = params.get("EndDate")
    if (params.get("EndDateType") == "limited") != bool(ends) or (ends and ends <= now):
        raise invalid(ends, "endDate")
    tags = spec_tags(params.get("TagSpecifications"), "capacity-reservation")
    stop_if_dry_run(params)
    reservation = CapacityReservation(
        ec2.ids.next("cr"),
        ec2.next_seq(),
        tags,
        kind,
        zone,
        params["InstanceCount"],
        now,
        params.get("StartDate") or now,
        ends,
        params.get("InstanceMatchCriteria") or "open",
        platform=params.get("InstancePlatform") or "Linux/UNIX",
        tenancy=params.get("Tenancy") or "default",
        owner=ec2.account.id,
    )
    plan_expiry(ec2, ec2.add(reservation))
    return {"CapacityReservation": _view(ec2, reservation, now)}


def modify_capacity_reservation(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers ModifyCapacityReservation: the count, the end and the match criteria."""
    reservation = _live(ec2, params)
    _refuse_if_lent(reservation)
    count = params.get("InstanceCount")
    if count is not None and count < len(reservation.used_by):
        raise invalid(count, "instanceCount", f"{len(reservation.used_by)} instances run in the reservation.")
    stop_if_dry_run(params)
    if count is not None:
        reservation.total = count
    if params.get("EndDateType") == "unlimited":
        reservation.ends = None
    elif params.get("EndDate"):
        reservation.ends = params["EndDate"]
        plan_expiry(ec2, reservation)
    reservation.match = params.get("InstanceMatchCriteria") or reservation.match
    return {"Return": True}


def cancel_capacity_reservation(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CancelCapacityReservation; its instances go on as on-demand ones, and a second time changes nothing."""
    (named,) = by_ids(ec2.reservations, [params["CapacityReservationId"]])
    if named.cancelled:
        stop_if_dry_run(params)
        return {"Return": True}
    reservation = _live(ec2, params)
    _refuse_if_lent(reservation)
    if lends(reservation):
        raise ModelError(
            "InvalidCapacityReservationState",
            f"The capacity reservation '{reservation.id}' has an active interruptible capacity allocation.",
        )
    stop_if_dry_run(params)
    reservation.cancelled = True
    release_all(ec2, reservation)
    return {"Return": True}


_FIELDS: Final[Mapping[str, Field]] = {
    "instance-type": lambda each: each.instance_type,
    "owner-id": lambda each: each.owner,
    "availability-zone": lambda each: each.zone,
    "instance-match-criteria": lambda each: each.match,
    "instance-platform": lambda each: each.platform,
    "tenancy": lambda each: each.tenancy,
    "end-date-type": lambda each: "limited" if each.ends else "unlimited",
    "reservation-type": lambda each: each.reservation_type,
    "interruptible": lambda each: each.interruptible,
}


def describe_capacity_reservations(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeCapacityReservations."""
    now = ec2.now()
    fields: dict[str, Field] = {**_FIELDS, "state": lambda each: state_at(each, now)}
    page, token = describe(ec2.reservations, params, ids="CapacityReservationIds", fields=fields)
    return {"CapacityReservations": [_view(ec2, each, now) for each in page], **token}


def state_at(reservation: CapacityReservation, now: datetime) -> str:
    """Tells the reservation's state at a moment."""
    if reservation.cancelled:
        return "cancelled"
    if now < reservation.starts:
        return "scheduled"
    return "expired" if reservation.ends and reservation.ends <= now else "active"


def find_room(
    ec2: Store, instance_type: str, zone: str, specification: Params, now: datetime
) -> CapacityReservation | None:
    """Finds the reservation that a launch goes into, None for a launch that goes without.

    Raises:
        ModelError: The launch names a reservation (or takes only reserved room) and there is no place for it.
    """
    preference = specification.get("CapacityReservationPreference") or "open"
    target = (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
    if target:
        (named,) = by_ids(ec2.reservations, [target])
        fits = named.instance_type == instance_type and named.zone == zone
        if not fits or state_at(named, now) != "active" or not named.available:
            raise _no_room()
        return named
    if preference == "none":
        return None
    for each in ec2.reservations.values():
        same = each.instance_type == instance_type and each.zone == zone and each.match == "open"
        if same and each.available and state_at(each, now) == "active":
            return each
    if preference == "capacity-reservations-only":
        raise _no_room()
    return None


def enter(reservation: CapacityReservation, instance: Instance) -> None:
    """Puts a new instance into its reservation."""
    reservation.used_by.add(instance.id)
    instance.capacity_reservation_id = reservation.id
    if reservation.interruptible:
        instance.lifecycle = "interruptible-capacity-reservation"
    elif reservation.reservation_type == "capacity-block":
        instance.lifecycle = "capacity-block"


def plan_expiry(ec2: Store, reservation: CapacityReservation) -> None:
    """Plans what happens at the end of a reservation: its instances go on as on-demand ones."""

    def expire(due: datetime) -> None:
        # The end may have been moved since; then another step is planned for it.
        if reservation.ends and reservation.ends <= due:
            release_all(ec2, reservation)

    if reservation.ends:
        ec2.timers.at(reservation.ends, f"{reservation.id} expires", expire)


def release_all(ec2: Store, reservation: CapacityReservation) -> None:
    """Lets the instances of a reservation that has ended go on as on-demand ones."""
    for each in sorted(reservation.used_by):
        instance = ec2.instances[each]
        instance.capacity_reservation_id = ""
        instance.lasting_xml = ""
        if instance.seen:
            instance.seen.item = None
        ec2.capacity.used[Pool(instance.instance_type, instance.zone, instance.capacity_type)] += 1
    reservation.used_by.clear()


def lends(reservation: CapacityReservation) -> bool:
    """Return whether a reservation lends places to an interruptible one."""
    return reservation.allocation is not None and reservation.allocation.status != "canceled"


def _refuse_if_lent(reservation: CapacityReservation) -> None:
    if reservation.source_id:
        raise ModelError(
            "UnsupportedOperation",
            f"The interruptible capacity reservation '{reservation.id}' is changed through the allocation of its "
            f"source '{reservation.source_id}'.",
        )


def _no_room() -> ModelError:
    return ModelError(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    )


def _live(ec2: Store, params: Params) -> CapacityReservation:
    (reservation,) = by_ids(ec2.reservations, [params["CapacityReservationId"]])
    if state_at(reservation, ec2.now()) in {"cancelled", "expired"}:
        raise ModelError(
            "InvalidCapacityReservationState", f"The capacity reservation '{reservation.id}' has ended."
        )
    return reservation


def _zone_of(ec2: Store, zone_id: str) -> str:
    for name, each in ec2.zones().items():
        if each == zone_id:
            return name
    raise invalid(zone_id, "availabilityZone")


def _view(ec2: Store, each: CapacityReservation, now: datetime) -> dict[str, Any]:
    view: dict[str, Any] = {
        "CapacityReservationId": each.id,
        "OwnerId": each.owner,
        "CapacityReservationArn": ec2.account.arn(f"capacity-reservation/{each.id}"),
        "AvailabilityZone": each.zone,
        "AvailabilityZoneId": ec2.zones()[each.zone],
        "InstanceType": each.instance_type,
        "InstancePlatform": each.platform,
        "Tenancy": each.tenancy,
        "TotalInstanceCount": each.total,
        "AvailableInstanceCount": each.available,
        "EbsOptimized": False,
        "EphemeralStorage": False,
        "State": state_at(each, now),
        "StartDate": each.starts,
        "EndDateType": "limited" if each.ends else "unlimited",
        "InstanceMatchCriteria": each.match,
        "CreateDate": each.created,
        "ReservationType": each.reservation_type,
        "Interruptible": each.interruptible,
        "Tags": tag_list(each.tags),
    }
    if each.ends:
        view["EndDate"] = each.ends
    if each.source_id:
        view["InterruptionInfo"] = {
            "SourceCapacityReservationId": each.source_id,
            "InterruptionType": "adhoc",
        }
    if each.allocation:
        view["InterruptibleCapacityAllocation"] = allocation_view(ec2, each.allocation)
    return view


def allocation_view(ec2: Store, allocation: Allocation) -> dict[str, Any]:
    """Return an allocation as EC2 shows it: what is lent now, and what is to be."""
    return {
        "InstanceCount": ec2.reservations[allocation.reservation_id].total,
        "TargetInstanceCount": allocation.target,
        "Status": allocation.status,
        "InterruptibleCapacityReservationId": allocation.reservation_id,
        "InterruptionType": "adhoc",
        "ZeroSizePreference": allocation.zero_size,
    }
