# SPDX-License-Identifier: Apache-2.0
"""Security groups of a node class: found by id, by the group's name (not its Name tag) or by tags.

Every group that is found is put on every instance, so the order does not matter and is that of the ids. The default
group of a VPC counts like any other. Asked again every minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.ec2nodeclass import EC2NodeClass, SecurityGroup, SecurityGroupSelectorTerm
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

__all__ = ["FoundSecurityGroup", "SecurityGroups"]

_MOST_CLASSES: Final = 1000


@dataclass(frozen=True, slots=True)
class FoundSecurityGroup:
    """A security group that a selector found."""

    id: str
    name: str
    vpc_id: str
    owned: Owned

    def status(self) -> SecurityGroup:
        """Return the group as the status of a node class shows it."""
        return SecurityGroup(id=self.id, name=self.name)


class SecurityGroups:
    """Finds security groups, and remembers for a while what it found."""

    def __init__(self, aws: Aws, clock: Clock, *, refresh_s: float = 60.0) -> None:
        self._aws = aws
        self._found: TTLCache[ClassKey, tuple[FoundSecurityGroup, ...]] = TTLCache(
            clock, ttl_s=refresh_s, max_size=_MOST_CLASSES
        )

    async def find(self, node_class: EC2NodeClass) -> tuple[FoundSecurityGroup, ...]:
        """Return the security groups of a node class, by id; none if none match.

        Raises:
            AwsError: EC2 refuses.
            AwsUnreachableError: EC2 did not answer.
        """
        key = class_key(node_class)
        remembered = self._found.get(key)
        if remembered is not None:
            return remembered
        queries = _queries(node_class.spec.security_group_selector_terms)
        described = await describe(self._aws, "DescribeSecurityGroups", "SecurityGroups", queries)
        by_id = {each["GroupId"]: _read(each) for each in described}
        found = tuple(by_id[each] for each in sorted(by_id))
        if found:
            self._found.set(key, found)
        return found


def _queries(terms: Sequence[SecurityGroupSelectorTerm]) -> list[list[dict[str, Any]]]:
    ids = list(dict.fromkeys(term.id for term in terms if term.id))
    names = list(dict.fromkeys(term.name for term in terms if term.name and not term.id))
    queries = [tag_filters(term.tags) for term in terms if term.tags and not (term.id or term.name)]
    return [
        *([[filter_of("group-id", ids)]] if ids else []),
        *([[filter_of("group-name", names)]] if names else []),
        *queries,
    ]


def _read(described: Mapping[str, Any]) -> FoundSecurityGroup:
    group_id = described["GroupId"]
    return FoundSecurityGroup(
        id=group_id,
        name=described.get("GroupName", ""),
        vpc_id=described.get("VpcId", ""),
        owned=Owned(group_id, described.get("OwnerId", ""), read_tags(described)),
    )
