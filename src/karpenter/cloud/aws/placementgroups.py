# SPDX-License-Identifier: Apache-2.0
"""The placement group of a node class: looked up by id or name, usable only while EC2 calls it available.

What was found is asked again after a minute; if EC2 cannot be asked then, what was known stays good for a day, because
a group does not change while it exists and launches must not stop for a failed look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.api import Aws, AwsError
from karpenter.cloud.aws.codes import is_not_found
from karpenter.cloud.aws.discovery import ClassKey, class_key
from karpenter.errors import KarpenterError
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock

__all__ = ["FoundPlacementGroup", "PlacementGroupNotFoundError", "PlacementGroups"]

_REFRESH_S: Final = 60.0
_KEPT_S: Final = 24 * 3600.0
_MOST_CLASSES: Final = 1000
_FIELD: Final = "spec.placementGroupSelector"


class PlacementGroupNotFoundError(KarpenterError):
    """The selector names a group that does not exist or cannot be launched into."""


@dataclass(frozen=True, slots=True)
class FoundPlacementGroup:
    """A placement group; ``partition_count`` is 0 unless its strategy is partition."""

    id: str
    name: str
    strategy: str
    partition_count: int = 0


class PlacementGroups:
    """Finds placement groups, and remembers them."""

    def __init__(self, aws: Aws, clock: Clock) -> None:
        self._aws = aws
        self._fresh: TTLCache[ClassKey, FoundPlacementGroup] = TTLCache(
            clock, ttl_s=_REFRESH_S, max_size=_MOST_CLASSES
        )
        self._kept: TTLCache[ClassKey, FoundPlacementGroup] = TTLCache(
            clock, ttl_s=_KEPT_S, max_size=_MOST_CLASSES
        )

    def group_of(self, node_class: EC2NodeClass) -> FoundPlacementGroup | None:
        """Return the group that was last found for a node class, without asking; None if it names none."""
        return self._kept.get(class_key(node_class)) if node_class.spec.placement_group_selector else None

    async def find(self, node_class: EC2NodeClass) -> FoundPlacementGroup | None:
        """Return the group of a node class; None if it names none.

        Raises:
            PlacementGroupNotFoundError: There is no such group, or it is being deleted.
            AwsError: EC2 refuses.
            AwsUnreachableError: EC2 did not answer.
        """
        selector = node_class.spec.placement_group_selector
        if selector is None:
            return None
        key = class_key(node_class)
        remembered = self._fresh.get(key)
        if remembered is not None:
            return remembered
        wanted: dict[str, Any] = (
            {"GroupIds": [selector.id]} if selector.id else {"GroupNames": [selector.name]}
        )
        try:
            groups = (await self._aws.call("ec2", "DescribePlacementGroups", **wanted)).get(
                "PlacementGroups", []
            )
        except AwsError as error:
            if not is_not_found(error.code):
                raise
            groups = []
        which = f"id {selector.id}" if selector.id else f"name {selector.name}"
        if not groups:
            self._kept.delete(key)
            raise PlacementGroupNotFoundError(
                f"{_FIELD}: no placement group has the {which}",
                hint=f"check the selector and the region ({self._aws.region}), or make the group",
            )
        group = groups[0]
        if group.get("State") != "available":
            self._kept.delete(key)
            raise PlacementGroupNotFoundError(
                f"{_FIELD}: the placement group with the {which} is {group.get('State')}, not available",
                hint="wait until it is available, or select another",
            )
        found = FoundPlacementGroup(
            group["GroupId"],
            group.get("GroupName", ""),
            group.get("Strategy", ""),
            int(group.get("PartitionCount") or 0) if group.get("Strategy") == "partition" else 0,
        )
        self._fresh.set(key, found)
        self._kept.set(key, found)
        return found
