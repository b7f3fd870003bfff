# SPDX-License-Identifier: Apache-2.0
"""Placement groups: cluster, spread (at most seven a zone) and partition.

A launch into a spread group is refused when the zone is full; a cluster group keeps to the zone of its first
member; a partition group gives each member a partition, the asked one or the emptiest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from karpenter.sandbox.ec2.compute.filters import Field, matching
from karpenter.sandbox.ec2.compute.listing import by_ids, spec_tags, tag_list
from karpenter.sandbox.ec2.compute.records import PlacementGroup
from karpenter.sandbox.ec2.compute.seam import Params, invalid, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = [
    "choose_partition",
    "create_placement_group",
    "delete_placement_group",
    "describe_placement_groups",
    "find_group",
    "refuse_if_full",
]

_STRATEGIES: Final = ("cluster", "spread", "partition")
_FIELDS: Final[Mapping[str, Field]] = {
    "group-name": lambda group: group.name,
    "state": lambda group: group.state,
    "strategy": lambda group: group.strategy,
    "spread-level": lambda group: group.spread_level,
}


def create_placement_group(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreatePlacementGroup."""
    name = params.get("GroupName")
    strategy = params.get("Strategy") or "cluster"
    if not name:
        raise missing("groupName")
    if strategy not in _STRATEGIES:
        raise invalid(strategy, "strategy")
    partitions = params.get("PartitionCount")
    if partitions is not None and (strategy != "partition" or not 1 <= partitions <= 7):
        raise invalid(partitions, "partitionCount")
    if any(group.name == name for group in ec2.placement_groups.values()):
        raise ModelError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    tags = spec_tags(params.get("TagSpecifications"), "placement-group")
    stop_if_dry_run(params)
    group = PlacementGroup(ec2.ids.next("pg"), ec2.next_seq(), tags, name, strategy)
    group.partitions = (partitions or 7) if strategy == "partition" else 0
    group.spread_level = (params.get("SpreadLevel") or "rack") if strategy == "spread" else ""
    return {"PlacementGroup": _view(ec2, ec2.add(group))}


def delete_placement_group(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DeletePlacementGroup; a group with members is kept."""
    group = find_group(ec2, name=params.get("GroupName") or "")
    if group.members:
        raise ModelError(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group.name}' is in use and may not be deleted.",
        )
    stop_if_dry_run(params)
    ec2.drop(group)
    return {}


def describe_placement_groups(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribePlacementGroups; a name or id that is not there refuses the call."""
    chosen = list(ec2.placement_groups.values())
    if params.get("GroupIds"):
        chosen = by_ids(ec2.placement_groups, params["GroupIds"])
    if params.get("GroupNames"):
        named = {find_group(ec2, name=each).id for each in params["GroupNames"]}
        chosen = [group for group in chosen if group.id in named]
    fields: dict[str, Field] = {**_FIELDS, "group-arn": lambda group: _arn(ec2, group)}
    passed = matching(chosen, params.get("Filters") or (), fields)
    return {"PlacementGroups": [_view(ec2, group) for group in passed]}


def find_group(ec2: Store, *, name: str = "", group_id: str = "") -> PlacementGroup:
    """Finds a group by name or id.

    Raises:
        ModelError: There is none such.
    """
    if group_id:
        return by_ids(ec2.placement_groups, [group_id])[0]
    for group in ec2.placement_groups.values():
        if group.name == name:
            return group
    raise ModelError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")


def refuse_if_full(ec2: Store, group: PlacementGroup, zone: str) -> None:
    """Refuses one more member in this zone where the group's strategy forbids it."""
    zones = Counter(ec2.instances[each].zone for each in group.members)
    if group.strategy == "spread" and zones[zone] >= ec2.settings.spread_limit:
        raise ModelError(
            "InsufficientInstanceCapacity",
            f"The spread placement group '{group.name}' has reached its limit of {ec2.settings.spread_limit} "
            f"running instances in the Availability Zone {zone}.",
        )
    if group.strategy == "cluster" and zones and zone not in zones:
        raise ModelError(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group.name}' is in use in another availability zone: {min(zones)}",
        )


def choose_partition(ec2: Store, group: PlacementGroup, asked: int | None) -> int:
    """Gives the partition for a new member: the asked one, else the emptiest; 0 without partitions."""
    if group.strategy != "partition":
        return 0
    if asked is not None:
        if not 1 <= asked <= group.partitions:
            raise invalid(asked, "partitionNumber", f"The group has {group.partitions} partitions.")
        return asked
    members = Counter(ec2.instances[each].partition for each in group.members)
    return min(range(1, group.partitions + 1), key=lambda number: (members[number], number))


def _arn(ec2: Store, group: PlacementGroup) -> str:
    return ec2.account.arn(f"placement-group/{group.name}")


def _view(ec2: Store, group: PlacementGroup) -> dict[str, Any]:
    view: dict[str, Any] = {
        "GroupId": group.id,
        "GroupName": group.name,
        "GroupArn": _arn(ec2, group),
        "State": group.state,
        "Strategy": group.strategy,
        "Tags": tag_list(group.tags),
    }
    if group.partitions:
        view["PartitionCount"] = group.partitions
    if group.spread_level:
        view["SpreadLevel"] = group.spread_level
    return view
