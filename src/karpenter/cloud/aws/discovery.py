# SPDX-License-Identifier: Apache-2.0
"""What finding things by selector terms has in common: filters of EC2, whose a found thing is, what is told about it.

Terms are alternatives, the fields of one term must all match, and the tag value ``*`` asks only for the key, as in
Karpenter. What belongs to somebody else is found all the same, because sharing is usual, but never silently: another
account, or a tag that says another cluster owns it, is told as a notice that names the field and the next step.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.cloud.aws.api import Aws
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock, within

__all__ = [
    "Account",
    "AccountUnknownError",
    "ClassKey",
    "Notice",
    "Owned",
    "class_key",
    "describe",
    "filter_of",
    "foreign_notices",
    "read_tags",
    "tag_filters",
]

# UID, name and generation: what was found for another generation answers another question.
ClassKey: TypeAlias = tuple[str, str, int]

# How many values EC2 takes in one filter.
_MOST_VALUES: Final = 200


_ACCOUNT_WAIT_S: Final = 5.0
_ACCOUNT_UNKNOWN_S: Final = 300.0


class AccountUnknownError(KarpenterError):
    """Nothing that can be reached names the account of our credentials."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know about a node class although nodes can be launched.

    Attributes:
        reason: One word for the event.
        field: The field it is about, as a path into the object.
        message: What was found.
        hint: What to do next.
    """

    reason: str
    field: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        said = f"{self.field}: {self.message}"
        return f"{said} (hint: {self.hint})" if self.hint else said


@dataclass(frozen=True, slots=True)
class Owned:
    """What tells whose a thing is."""

    id: str
    owner_id: str
    tags: Mapping[str, str]


class Account:
    """Whose credentials these are; asked once, because it does not change while a process runs.

    STS is asked first. It cannot be reached from every isolated VPC, so after a few seconds the ARN of the web identity
    role (``AWS_ROLE_ARN``) or of the EKS cluster answers. When nothing does, that is remembered for some minutes.
    """

    def __init__(self, aws: Aws, clock: Clock, *, cluster_name: str) -> None:
        self._aws = aws
        self._clock = clock
        self._cluster_name = cluster_name
        self._id = ""
        self._failed: tuple[float, KarpenterError] | None = None

    async def id(self) -> str:
        """Return the number of our own account.

        Raises:
            AccountUnknownError: Neither STS, the environment nor EKS tells.
        """
        if self._failed is not None and self._clock.monotonic() < self._failed[0]:
            raise self._failed[1]
        if not self._id:
            try:
                self._id = await self._find()
            except AccountUnknownError as error:
                self._failed = (self._clock.monotonic() + _ACCOUNT_UNKNOWN_S, error)
                raise
        return self._id

    async def _find(self) -> str:
        try:
            caller = await within(self._clock, _ACCOUNT_WAIT_S, self._aws.call("sts", "GetCallerIdentity"))
            return str(caller["Account"])
        except (KarpenterError, TimeoutError) as error:
            refused: Exception = error
        if found := _account_of(os.environ.get("AWS_ROLE_ARN", "")):
            return found
        with contextlib.suppress(KarpenterError, TimeoutError):
            answer = await within(
                self._clock,
                _ACCOUNT_WAIT_S,
                self._aws.call("eks", "DescribeCluster", name=self._cluster_name),
            )
            if found := _account_of(str(answer["cluster"].get("arn", ""))):
                return found
        raise AccountUnknownError(
            f"the AWS account is not known: {refused}",
            hint="let the controller reach STS (a VPC endpoint for sts), or EKS, which names the account too",
        ) from refused


def _account_of(arn: str) -> str:
    """Return the account in an ARN such as arn:aws:iam::123456789012:role/x; empty if there is none."""
    parts = arn.split(":")
    return parts[4] if len(parts) > 5 and parts[4].isdigit() else ""


def class_key(node_class: EC2NodeClass) -> ClassKey:
    """Return under what the findings of a node class are remembered."""
    meta = node_class.metadata
    return meta.uid, meta.name, meta.generation


def filter_of(name: str, values: Iterable[str]) -> dict[str, Any]:
    """Return one filter of a Describe call."""
    return {"Name": name, "Values": list(values)}


def tag_filters(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the filters of a term's tags; the value ``*`` asks only that the key is there."""
    return [
        filter_of("tag-key", [key]) if value == "*" else filter_of(f"tag:{key}", [value])
        for key, value in sorted(tags.items())
    ]


def read_tags(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a thing as EC2 describes it."""
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}


async def describe(
    aws: Aws, operation: str, items: str, queries: Iterable[Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Return what any of the queries finds, each thing as often as it is found.

    Args:
        aws: Where to look.
        operation: The Describe call.
        items: Under which name its answer lists what was found.
        queries: The filters of each call; one filter with too many values is sent in several calls.
    """
    found: list[dict[str, Any]] = []
    for filters in queries:
        for some in _within_limit(filters):
            async for page in aws.pages("ec2", operation, Filters=some):
                found += page.get(items, ())
    return found


def _within_limit(filters: Sequence[Mapping[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    if len(filters) != 1:
        return [[dict(each) for each in filters]]
    name, values = filters[0]["Name"], filters[0]["Values"]
    return [
        [filter_of(name, values[start : start + _MOST_VALUES])]
        for start in range(0, len(values), _MOST_VALUES)
    ]


def foreign_notices(
    found: Iterable[Owned], *, field: str, noun: str, account_id: str, cluster_name: str
) -> tuple[Notice, ...]:
    """Return a notice for everything that belongs to another account or to another cluster.

    Args:
        found: What the selector matched.
        field: The selector, as a path into the node class.
        noun: What one of them is called.
        account_id: Our own account; without it accounts are not compared.
        cluster_name: Our own cluster.
    """
    notices = []
    for each in found:
        if account_id and each.owner_id and each.owner_id != account_id:
            notices.append(
                Notice(
                    "ForeignOwner",
                    field,
                    f"{noun} {each.id} belongs to account {each.owner_id}, not to ours ({account_id})",
                    "if it is not shared with you on purpose, select by id or by tags that only yours have",
                )
            )
        owners = _other_clusters(each.tags, cluster_name)
        if owners:
            notices.append(
                Notice(
                    "ForeignCluster",
                    field,
                    f"{noun} {each.id} is tagged as owned by cluster {', '.join(owners)}, not {cluster_name}",
                    f"select by tags that only {noun}s of {cluster_name} have",
                )
            )
    return tuple(notices)


def _other_clusters(tags: Mapping[str, str], cluster_name: str) -> list[str]:
    claimed = [
        key.removeprefix(labels.CLUSTER_TAG_PREFIX)
        for key, value in tags.items()
        if key.startswith(labels.CLUSTER_TAG_PREFIX) and value == "owned"
    ]
    return [] if cluster_name in claimed else sorted(claimed)
