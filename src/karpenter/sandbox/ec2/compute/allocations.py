# SPDX-License-Identifier: Apache-2.0
"""Interruptible capacity reservations: unused places of a reservation, lent until its owner takes them back.

An allocation moves places from a source to an interruptible reservation, one for each source. A lower target takes
places back: free ones at once, used ones after their instances were warned and ended two minutes later. A target of
zero cancels the interruptible reservation unless it is to be retained. EC2 documents no error codes for these calls;
those of capacity reservations are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from karpenter.sandbox.ec2.compute.interruptions import interrupt_reserved
from karpenter.sandbox.ec2.compute.listing import by_ids, spec_tags
from karpenter.sandbox.ec2.compute.records import Allocation, CapacityReservation
from karpenter.sandbox.ec2.compute.reservations import allocation_view, lends, state_at
from karpenter.sandbox.ec2.compute.seam import Params, invalid, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = [
    "create_interruptible_capacity_reservation_allocation",
    "update_interruptible_capacity_reservation_allocation",
]

_AT_MOST: Final = 1000
_WARNING_S: Final = 120.0
_PREFERENCES: Final = ("default", "retain")


def create_interruptible_capacity_reservation_allocation(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer CreateInterruptibleCapacityReservationAllocation."""
    source, count = _source(ec2, params), params["InstanceCount"]
    if source.interruptible or source.reservation_type != "default":
        raise ModelError("UnsupportedOperation", f"Places of '{source.id}' cannot be lent: it is no ODCR.")
    if source.ends or state_at(source, ec2.now()) != "active":
        raise _state(f"The capacity reservation '{source.id}' is not active without an end date.")
    if lends(source):
        raise _state(
            f"The capacity reservation '{source.id}' has an interruptible capacity allocation already."
        )
    if not 1 <= count <= min(source.available, _AT_MOST):
        raise invalid(
            count, "instanceCount", f"{source.available} instances are available, {_AT_MOST} the most."
        )
    preference = _preference(params) or "default"
    tags = spec_tags(params.get("TagSpecifications"), "capacity-reservation")
    stop_if_dry_run(params)
    now = ec2.now()
    lent = CapacityReservation(
        ec2.ids.next("cr"),
        ec2.next_seq(),
        tags,
        source.instance_type,
        source.zone,
        count,
        now,
        now,
        match="targeted",
        interruptible=True,
        platform=source.platform,
        tenancy=source.tenancy,
        owner=ec2.account.id,
        source_id=source.id,
    )
    ec2.add(lent)
    source.total -= count
    source.allocation = Allocation(lent.id, count, zero_size=preference)
    return {
        "SourceCapacityReservationId": source.id,
        **_shown(ec2, source.allocation, "TargetInstanceCount", "Status", "InterruptionType"),
    }


def update_interruptible_capacity_reservation_allocation(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer UpdateInterruptibleCapacityReservationAllocation."""
    source = _source(ec2, params)
    allocation = source.allocation
    if allocation is None or allocation.status not in {"active", "updating"}:
        raise _state(
            f"The capacity reservation '{source.id}' doesn't have an active interruptible capacity allocation."
        )
    target, preference = params.get("TargetInstanceCount"), _preference(params)
    if target is None and preference is None:
        raise missing("TargetInstanceCount")
    lent = ec2.reservations[allocation.reservation_id]
    if target is not None and not 0 <= target <= min(lent.total + source.available, _AT_MOST):
        raise invalid(target, "targetInstanceCount", f"{source.available} more instances are available.")
    stop_if_dry_run(params)
    allocation.zero_size = preference or allocation.zero_size
    if target is not None:
        allocation.target = target
        _move(ec2, source, lent, allocation)
    return {
        "SourceCapacityReservationId": source.id,
        **_shown(
            ec2,
            allocation,
            "InterruptibleCapacityReservationId",
            "InstanceCount",
            "TargetInstanceCount",
            "Status",
            "InterruptionType",
        ),
    }


def _move(ec2: Store, source: CapacityReservation, lent: CapacityReservation, allocation: Allocation) -> None:
    """Move places between the two reservations; those that instances use come back when these have ended."""
    now = ec2.now()
    kept = max(allocation.target, len(lent.used_by))
    source.total += lent.total - kept
    lent.total = kept
    if kept == allocation.target:
        _complete(lent, allocation)
        return
    allocation.status = "updating" if allocation.target or allocation.zero_size == "retain" else "canceling"
    newest = sorted((ec2.instances[each] for each in lent.used_by), key=lambda each: each.seq, reverse=True)
    interrupt_reserved(ec2, newest[: kept - allocation.target], _WARNING_S)

    def reclaim(due: datetime) -> None:
        # The instances were ended by the step before this one, whatever became of them until then.
        reclaimed = lent.total - max(allocation.target, len(lent.used_by))
        lent.total -= reclaimed
        source.total += reclaimed
        if lent.total != allocation.target:
            return
        _announce(ec2, source, allocation, reclaimed, due)
        _complete(lent, allocation)

    ec2.timers.at(now + timedelta(seconds=_WARNING_S), f"{source.id} takes back its places", reclaim)


def _complete(lent: CapacityReservation, allocation: Allocation) -> None:
    if allocation.target or allocation.zero_size == "retain":
        allocation.status = "active"
        return
    allocation.status = "canceled"
    lent.cancelled = True


def _announce(
    ec2: Store, source: CapacityReservation, allocation: Allocation, reclaimed: int, at: datetime
) -> None:
    ec2.bus.publish(
        "aws.ec2",
        "EC2 Capacity Reservation Interruptible Reclamation Complete",
        {
            "sourceCapacityReservationId": source.id,
            "instanceType": source.instance_type,
            "availabilityZoneId": ec2.zones()[source.zone],
            "TotalInstanceCount": source.total,
            "ReclaimedInstanceCount": reclaimed,
            "targetInstanceCount": allocation.target,
        },
        [ec2.account.arn(f"capacity-reservation/{source.id}")],
        at,
    )


def _source(ec2: Store, params: Params) -> CapacityReservation:
    (source,) = by_ids(ec2.reservations, [params["CapacityReservationId"]])
    return source


def _preference(params: Params) -> str | None:
    preference: str | None = params.get("ZeroSizePreference")
    if preference not in {None, *_PREFERENCES}:
        raise invalid(preference, "zeroSizePreference")
    return preference


def _shown(ec2: Store, allocation: Allocation, *names: str) -> Mapping[str, Any]:
    view = allocation_view(ec2, allocation)
    return {name: view[name] for name in names}


def _state(message: str) -> ModelError:
    return ModelError("InvalidCapacityReservationState", message)
