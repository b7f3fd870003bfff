# SPDX-License-Identifier: Apache-2.0
"""Local Zones: places near large cities that an account opts in to, a group at a time.

A zone that is not opted in to is listed only on request and takes no subnets. Few families are sold there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.sandbox.ec2.compute.seam import Params, invalid, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["LocalZone", "local_zone", "local_zones", "modify_availability_zone_group"]


@dataclass(frozen=True, slots=True)
class LocalZone:
    """One Local Zone: its name and id, the group that is opted in to, and the zone of the region that it hangs on."""

    name: str
    id: str
    group: str
    parent: str
    families: frozenset[str]


_FAMILIES: Final = frozenset({"t3", "c5", "c5d", "m5", "m5d", "r5", "r5d", "i3en", "g4dn"})
_ZONES: Final[Mapping[str, tuple[LocalZone, ...]]] = {
    "us-west-2": (
        LocalZone("us-west-2-lax-1a", "usw2-lax1-az1", "us-west-2-lax-1", "us-west-2a", _FAMILIES),
        LocalZone("us-west-2-lax-1b", "usw2-lax1-az2", "us-west-2-lax-1", "us-west-2b", _FAMILIES),
    ),
}


def local_zones(region: str) -> tuple[LocalZone, ...]:
    """Return the Local Zones of a region, whether or not the account has opted in to them."""
    return _ZONES.get(region, ())


def local_zone(region: str, name: str) -> LocalZone | None:
    """Return the Local Zone of that name; None for a zone of the region itself."""
    return next((each for each in local_zones(region) if each.name == name), None)


def modify_availability_zone_group(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer ModifyAvailabilityZoneGroup: opt in to a group of Local Zones; only AWS Support opts out."""
    group, status = params["GroupName"], params["OptInStatus"]
    members = [each for each in local_zones(ec2.account.region) if each.group == group]
    if not members:
        raise invalid(group, "groupName")
    if status != "opted-in":
        raise ModelError("OptInStatusNotSupported", f"The group {group} cannot be opted out of by this call.")
    stop_if_dry_run(params)
    for zone in members:
        ec2.prices.open_zone(zone.name, zone.id, zone.families)
    return {"Return": True}
