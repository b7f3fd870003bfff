# SPDX-License-Identifier: Apache-2.0
"""Subnets of a node class: which its selector terms find, the one with the most free addresses first.

Found by id or by tags, asked again every minute, because free addresses move. Which subnet a launch takes is decided
in ``addresses``, which also counts launches under way; the order here is what the status of the class shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.ec2nodeclass import EC2NodeClass, Subnet, SubnetSelectorTerm
from karpenter.cloud.aws.api import Aws
from karpenter.cloud.aws.discovery import (
    ClassKey,
    Owned,
    class_key,
    describe,
    filter_of,
    read_tags,
    tag_filters,
)
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock

__all__ = ["FoundSubnet", "Subnets"]

_MOST_CLASSES: Final = 1000


@dataclass(frozen=True, slots=True)
class FoundSubnet:
    """A subnet that a selector found."""

    id: str
    zone: str
    zone_id: str
    free_addresses: int
    vpc_id: str
    owned: Owned

    def status(self) -> Subnet:
        """Return the subnet as the status of a node class shows it."""
        return Subnet(id=self.id, zone=self.zone, zone_id=self.zone_id)


class Subnets:
    """Finds subnets, and remembers for a while what it found."""

    def __init__(self, aws: Aws, clock: Clock, *, refresh_s: float = 60.0) -> None:
        self._aws = aws
        self._found: TTLCache[ClassKey, tuple[FoundSubnet, ...]] = TTLCache(
            clock, ttl_s=refresh_s, max_size=_MOST_CLASSES
        )

    async def find(self, node_class: EC2NodeClass) -> tuple[FoundSubnet, ...]:
        """Return the subnets of a node class: most free addresses first, equals by id; none if none match.

        Raises:
            AwsError: EC2 refuses.
            AwsUnreachableError: EC2 did not answer.
        """
        key = class_key(node_class)
        remembered = self._found.get(key)
        if remembered is not None:
            return remembered
        queries = _queries(node_class.spec.subnet_selector_terms)
        described = await describe(self._aws, "DescribeSubnets", "Subnets", queries)
        by_id = {each["SubnetId"]: _read(each) for each in described}
        found = tuple(sorted(by_id.values(), key=lambda each: (-each.free_addresses, each.id)))
        if found:
            # Nothing is not remembered: whoever has just tagged a subnet should not wait.
            self._found.set(key, found)
        return found


def _queries(terms: Sequence[SubnetSelectorTerm]) -> list[list[dict[str, Any]]]:
    ids = list(dict.fromkeys(term.id for term in terms if term.id))
    queries = [tag_filters(term.tags) for term in terms if term.tags and not term.id]
    return [*([[filter_of("subnet-id", ids)]] if ids else []), *queries]


def _read(described: Mapping[str, Any]) -> FoundSubnet:
    subnet_id = described["SubnetId"]
    return FoundSubnet(
        id=subnet_id,
        zone=described.get("AvailabilityZone", ""),
        zone_id=described.get("AvailabilityZoneId", ""),
        free_addresses=int(described.get("AvailableIpAddressCount", 0)),
        vpc_id=described.get("VpcId", ""),
        owned=Owned(subnet_id, described.get("OwnerId", ""), read_tags(described)),
    )
