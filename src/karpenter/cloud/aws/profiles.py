# SPDX-License-Identifier: Apache-2.0
"""Instance profiles: made for node classes that name a role; a profile that a node class names is taken as it is.

The name of a profile follows from cluster, region, node class (name and UID) and role. So a process that dies after
making one finds it again, another role gets another profile while nodes of the old one live on, and two clusters never
share one. Its path names cluster and class, which is how ``sweep`` finds what nobody uses any more; a profile younger
than an hour is never swept, since a launch that is under way may name it before anything in Kubernetes does. Its tags
follow those of the class, unless somebody took away the tags that make it ours: then nobody lets us write any.

A role that does not exist is remembered for a minute: IAM's limits are low, and nothing changes by asking at once.

IAM has no VPC endpoint in most regions, so a node class with ``spec.instanceProfile`` never causes a call to it; EC2
judges the name when it is asked for a dry run or a launch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from karpenter.api import labels
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.aws.api import Aws, AwsError
from karpenter.cloud.aws.codes import is_already_there, is_not_found
from karpenter.errors import KarpenterError
from karpenter.kit.cache import TTLCache
from karpenter.kit.clock import Clock

__all__ = [
    "SWEEP_EVERY_S",
    "InstanceProfiles",
    "RoleNotFoundError",
    "profile_name",
    "profiles_in_use",
]

SWEEP_EVERY_S: Final = 1800.0

_KNOWN_S: Final = 900.0
_MISSING_ROLE_S: Final = 60.0
_PROTECTED: Final = timedelta(hours=1)
_MOST: Final = 5000


class RoleNotFoundError(KarpenterError):
    """The node class names a role that does not exist."""


def profile_name(cluster_name: str, region: str, node_class: EC2NodeClass) -> str:
    """Return the name of the profile that is made for a node class and its role."""
    meta = node_class.metadata
    text = f"{region}\n{meta.name}\n{meta.uid}\n{node_class.spec.role}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    # IAM takes 128 characters; no part of a long name may push the digest out.
    return f"{cluster_name[:100]}_{int.from_bytes(digest, 'big')}"


def profiles_in_use(node_classes: Iterable[EC2NodeClass], claims: Iterable[NodeClaim]) -> frozenset[str]:
    """Return every instance profile that a node class or a claim names."""
    named = [
        name for each in node_classes for name in (each.status.instance_profile, each.spec.instance_profile)
    ]
    named += [claim.metadata.annotations.get(labels.INSTANCE_PROFILE_NAME, "") for claim in claims]
    return frozenset(filter(None, named))


class InstanceProfiles:
    """The instance profiles of one cluster."""

    def __init__(self, aws: Aws, clock: Clock, *, cluster_name: str) -> None:
        self._aws = aws
        self._clock = clock
        self._cluster_name = cluster_name
        self._known: TTLCache[str, str] = TTLCache(clock, ttl_s=_KNOWN_S, max_size=_MOST)
        self._missing_roles: TTLCache[str, str] = TTLCache(clock, ttl_s=_MISSING_ROLE_S, max_size=_MOST)

    async def resolve(self, node_class: EC2NodeClass) -> str:
        """Return the name of the profile that instances of a class get: made for its role, or the named one.

        Raises:
            RoleNotFoundError: ``spec.role`` does not exist.
            AwsError: IAM refuses.
            AwsUnreachableError: IAM did not answer.
        """
        return node_class.spec.instance_profile or await self._ensure(node_class)

    async def _ensure(self, node_class: EC2NodeClass) -> str:
        name = profile_name(self._cluster_name, self._aws.region, node_class)
        # Where a role has a path, IAM knows it by what follows the path.
        role = node_class.spec.role.rpartition("/")[2]
        tags = self._tags(node_class)
        settled = repr((role, sorted(tags.items())))
        if self._known.get(name) == settled:
            return name
        if role in self._missing_roles:
            raise _no_such_role(role)
        present = await self._get(name)
        if present is None:
            await self._create(name, node_class)
            holds: list[str] = []
        else:
            holds = [each["RoleName"] for each in present.get("Roles", ())]
            await self._tag(name, tags, {each["Key"]: each["Value"] for each in present.get("Tags", ())})
        for other in holds:
            if other != role:
                await self._aws.call(
                    "iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=other
                )
        if role not in holds:
            await self._add(name, role)
        self._known.set(name, settled)
        return name

    async def _get(self, name: str) -> dict[str, Any] | None:
        try:
            answer = await self._aws.call("iam", "GetInstanceProfile", InstanceProfileName=name)
        except AwsError as error:
            if is_not_found(error.code):
                return None
            raise
        found: dict[str, Any] = answer["InstanceProfile"]
        return found

    async def _create(self, name: str, node_class: EC2NodeClass) -> None:
        try:
            await self._aws.call(
                "iam",
                "CreateInstanceProfile",
                InstanceProfileName=name,
                Path=self._path(node_class.metadata.uid),
                Tags=_listed(self._tags(node_class)),
            )
        except AwsError as error:
            if not is_already_there(error.code):
                raise

    async def _tag(self, name: str, tags: Mapping[str, str], there: Mapping[str, str]) -> None:
        """Write the tags of a profile that is ours by the tags it has, if they are not what they should be."""
        marks = (f"{labels.CLUSTER_TAG_PREFIX}{self._cluster_name}", labels.EC2NODECLASS_TAG, labels.REGION)
        is_ours = all(mark in there for mark in marks)
        if is_ours and any(there.get(key) != value for key, value in tags.items()):
            await self._aws.call("iam", "TagInstanceProfile", InstanceProfileName=name, Tags=_listed(tags))

    async def _add(self, name: str, role: str) -> None:
        try:
            await self._aws.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=role)
        except AwsError as error:
            # IAM says of the role and of the profile alike that there is no such entity.
            if is_not_found(error.code) and "role" in error.text.lower():
                self._missing_roles.set(role, name)
                raise _no_such_role(role) from error
            raise

    def _tags(self, node_class: EC2NodeClass) -> Mapping[str, str]:
        return {
            **node_class.spec.tags,
            f"{labels.CLUSTER_TAG_PREFIX}{self._cluster_name}": "owned",
            labels.EKS_CLUSTER_NAME_TAG: self._cluster_name,
            labels.EC2NODECLASS_TAG: node_class.metadata.name,
            labels.REGION: self._aws.region,
        }

    def _path(self, class_uid: str = "") -> str:
        below = f"{class_uid}/" if class_uid else ""
        return f"/karpenter/{self._aws.region}/{self._cluster_name}/{below}"

    async def sweep(self, in_use: Collection[str]) -> tuple[str, ...]:
        """Remove our profiles that nobody names and that are older than an hour, and return their names.

        Args:
            in_use: Every name in the status or spec of a node class, or in an annotation of a NodeClaim.

        Raises:
            AwsError: IAM refuses; what is left is tried at the next sweep.
            AwsUnreachableError: IAM did not answer.
        """
        now = self._clock.now()
        unused = [
            each
            for each in await self._list(self._path())
            if each["InstanceProfileName"] not in in_use and now - _made_at(each, now) >= _PROTECTED
        ]
        for each in unused:
            await self._remove(each)
        return tuple(each["InstanceProfileName"] for each in unused)

    async def delete_of(self, node_class: EC2NodeClass) -> int:
        """Remove every profile that was made for a node class, and return how many there were.

        Raises:
            AwsError: IAM refuses.
            AwsUnreachableError: IAM did not answer.
        """
        found = await self._list(self._path(node_class.metadata.uid))
        for each in found:
            await self._remove(each)
        return len(found)

    async def _list(self, path: str) -> list[dict[str, Any]]:
        pages = self._aws.pages("iam", "ListInstanceProfiles", PathPrefix=path)
        return [each async for page in pages for each in page.get("InstanceProfiles", ())]

    async def _remove(self, profile: Mapping[str, Any]) -> None:
        name = profile["InstanceProfileName"]
        self._known.delete(name)
        try:
            for role in profile.get("Roles", ()):
                await self._aws.call(
                    "iam",
                    "RemoveRoleFromInstanceProfile",
                    InstanceProfileName=name,
                    RoleName=role["RoleName"],
                )
            await self._aws.call("iam", "DeleteInstanceProfile", InstanceProfileName=name)
        except AwsError as error:
            if not is_not_found(error.code):
                raise


def _listed(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def _made_at(profile: Mapping[str, Any], now: datetime) -> datetime:
    made: datetime | None = profile.get("CreateDate")
    if made is None:
        return now  # of unknown age is taken as new
    return made.replace(tzinfo=UTC) if made.tzinfo is None else made


def _no_such_role(role: str) -> RoleNotFoundError:
    return RoleNotFoundError(
        f"spec.role: no IAM role is called {role}",
        hint="check its name and account, or make it; it is looked for again after a minute",
    )
