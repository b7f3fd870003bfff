# SPDX-License-Identifier: Apache-2.0
"""ARC zonal shift: which zones traffic was moved away from, for the clusters that are registered.

A shift ends by the model's clock; an ended one is not shown.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from karpenter.sandbox.ec2.contract import Handler, ModelError, Request

__all__ = ["Shift", "ZonalShifts", "handlers"]


@dataclass(slots=True)
class Shift:
    """Traffic away from one zone, until a time."""

    id: str
    zone_id: str
    starts_at: datetime
    ends_at: datetime
    comment: str = ""


class ZonalShifts:
    """The registered resources by ARN, each with its shifts."""

    def __init__(self) -> None:
        self.by_arn: dict[str, list[Shift]] = {}

    def register(self, arn: str) -> None:
        """Makes a resource one that can be shifted."""
        self.by_arn.setdefault(arn, [])

    def start(self, arn: str, zone_id: str, now: datetime, lasts: timedelta, comment: str = "") -> Shift:
        """Moves traffic of a registered resource away from a zone."""
        shift = Shift(
            str(uuid.uuid5(uuid.NAMESPACE_URL, f"{arn}{zone_id}{now}")), zone_id, now, now + lasts, comment
        )
        self.by_arn[arn].append(shift)
        return shift

    def cancel(self, id_: str, now: datetime) -> tuple[str, Shift] | None:
        """Ends a shift that is under way; gives it with its resource, or None if there is none."""
        for arn, shifts in self.by_arn.items():
            for shift in shifts:
                if shift.id == id_ and shift.ends_at > now:
                    shift.ends_at = now
                    return arn, shift
        return None

    def active(self, arn: str, now: datetime) -> list[Shift]:
        """Gives the shifts under way."""
        return [shift for shift in self.by_arn.get(arn, []) if shift.starts_at <= now < shift.ends_at]


def get_managed_resource(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives a registered resource with its shifts and the weight of each zone."""
    world = request.world
    arn = _registered(request, parameters["resourceIdentifier"])
    shifts = world.zonal_shifts.active(arn, request.now)
    away = {shift.zone_id for shift in shifts}
    return {
        "arn": arn,
        "name": arn.rpartition("/")[2],
        "appliedWeights": {zone_id: 0.0 if zone_id in away else 1.0 for zone_id in world.zones.values()},
        "zonalShifts": [
            {
                "appliedStatus": "APPLIED",
                "zonalShiftId": shift.id,
                "resourceIdentifier": arn,
                "awayFrom": shift.zone_id,
                "expiryTime": shift.ends_at,
                "startTime": shift.starts_at,
                "comment": shift.comment,
                "shiftType": "ZONAL_SHIFT",
            }
            for shift in shifts
        ],
        "autoshifts": [],
        "zonalAutoshiftStatus": "DISABLED",
    }


def start_zonal_shift(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Moves traffic away from a zone for a while."""
    world = request.world
    arn = _registered(request, parameters["resourceIdentifier"])
    zone_id = parameters["awayFrom"]
    if zone_id not in world.zones.values():
        raise ModelError(
            "ValidationException", f"The Availability Zone {zone_id} is not valid for the resource."
        )
    if world.zonal_shifts.active(arn, request.now):
        raise ModelError(
            "ConflictException", "There is already an active zonal shift for the resource.", status=409
        )
    match = re.fullmatch(r"([1-9]\d*)([mh])", parameters["expiresIn"])
    if match is None:
        raise ModelError(
            "ValidationException", "expiresIn must be a number of minutes or hours, such as 60m or 2h."
        )
    lasts = timedelta(minutes=int(match[1]) * (60 if match[2] == "h" else 1))
    return _shown(
        arn, world.zonal_shifts.start(arn, zone_id, request.now, lasts, parameters["comment"]), "ACTIVE"
    )


def cancel_zonal_shift(request: Request, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ends a shift."""
    found = request.world.zonal_shifts.cancel(parameters["zonalShiftId"], request.now)
    if found is None:
        raise ModelError("ResourceNotFoundException", "The zonal shift was not found.", status=404)
    return _shown(*found, "CANCELED")


def handlers() -> Mapping[str, Handler]:
    """Gives the handler of each operation."""
    return {
        "GetManagedResource": get_managed_resource,
        "StartZonalShift": start_zonal_shift,
        "CancelZonalShift": cancel_zonal_shift,
    }


def _registered(request: Request, arn: str) -> str:
    if arn not in request.world.zonal_shifts.by_arn:
        raise ModelError(
            "ResourceNotFoundException", f"Could not find resource with identifier {arn}", status=404
        )
    return arn


def _shown(arn: str, shift: Shift, status: str) -> Mapping[str, Any]:
    return {
        "zonalShiftId": shift.id,
        "resourceIdentifier": arn,
        "awayFrom": shift.zone_id,
        "expiryTime": shift.ends_at,
        "startTime": shift.starts_at,
        "status": status,
        "comment": shift.comment,
    }
