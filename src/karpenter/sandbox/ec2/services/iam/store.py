# SPDX-License-Identifier: Apache-2.0
"""Roles, policies, instance profiles and identity providers of the account, by name or ARN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any, NoReturn

from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Iam", "IdentityProvider", "InstanceProfile", "Policy", "Role", "as_tags", "from_tags"]

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

# The policies of AWS itself that installers of clusters and nodes attach.
_AWS_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonSSMManagedInstanceCore",
    "AmazonEKSClusterPolicy",
    "AmazonEKSVPCResourceController",
    "AdministratorAccess",
    "service-role/AmazonEBSCSIDriverPolicy",
)


@dataclass(slots=True)
class Role:
    """A role: who may take it, and its policies (attached by ARN, inline by name)."""

    name: str
    path: str
    arn: str
    id: str
    trust: str
    created_at: datetime
    description: str = ""
    session_s: int = 3600
    tags: dict[str, str] = field(default_factory=dict)
    attached: dict[str, str] = field(default_factory=dict)
    inline: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Policy:
    """A managed policy."""

    name: str
    path: str
    arn: str
    id: str
    document: str
    created_at: datetime
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class InstanceProfile:
    """The wrapping in which EC2 takes a role."""

    name: str
    path: str
    arn: str
    id: str
    created_at: datetime
    roles: list[Role] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class IdentityProvider:
    """Who vouches for service accounts."""

    arn: str
    url: str
    clients: list[str]
    thumbprints: list[str]
    created_at: datetime


class Iam:
    """Everything that IAM holds for the account."""

    def __init__(self, account: str, random: Random) -> None:
        self.account = account
        self.roles: dict[str, Role] = {}
        self.policies: dict[str, Policy] = {}
        self.profiles: dict[str, InstanceProfile] = {}
        self.providers: dict[str, IdentityProvider] = {}
        self._random = random

    def arn(self, kind: str, path: str, name: str) -> str:
        """Gives an ARN of the account."""
        return f"arn:aws:iam::{self.account}:{kind}{path}{name}"

    def new_id(self, prefix: str) -> str:
        """Gives a fresh unique id such as ``AROA...``."""
        return prefix + "".join(self._random.choices(_ALPHABET, k=17))

    def add_role(self, name: str, trust: str, now: datetime, path: str = "/") -> Role:
        """Makes a role.

        Raises:
            ModelError: The name is taken.
        """
        if name in self.roles:
            raise ModelError("EntityAlreadyExists", f"Role with name {name} already exists.", status=409)
        role = Role(name, path, self.arn("role", path, name), self.new_id("AROA"), trust, now)
        self.roles[name] = role
        return role

    def add_profile(self, name: str, now: datetime, path: str = "/") -> InstanceProfile:
        """Makes an instance profile.

        Raises:
            ModelError: The name is taken.
        """
        if name in self.profiles:
            raise ModelError("EntityAlreadyExists", f"Instance Profile {name} already exists.", status=409)
        made = InstanceProfile(name, path, self.arn("instance-profile", path, name), self.new_id("AIPA"), now)
        self.profiles[name] = made
        return made

    def role(self, name: str) -> Role:
        """Gives a role.

        Raises:
            ModelError: There is none of that name.
        """
        return self.roles.get(name) or _nothing(f"The role with name {name} cannot be found.")

    def profile(self, name: str) -> InstanceProfile:
        """Gives an instance profile.

        Raises:
            ModelError: There is none of that name.
        """
        return self.profiles.get(name) or _nothing(f"Instance Profile {name} cannot be found.")

    def profile_named(self, name_or_arn: str) -> InstanceProfile | None:
        """Gives an instance profile by its name or its ARN, or None."""
        found = self.profiles.get(name_or_arn.rpartition("/")[2])
        return found if found and name_or_arn in {found.name, found.arn} else None

    def policy(self, arn: str) -> Policy:
        """Gives a policy of the account.

        Raises:
            ModelError: There is none of that ARN.
        """
        return self.policies.get(arn) or _nothing(f"Policy {arn} was not found.")

    def policy_name(self, arn: str) -> str:
        """Gives the name of a policy that can be attached, the account's or one of AWS's.

        Raises:
            ModelError: There is none of that ARN.
        """
        of_aws = arn.removeprefix("arn:aws:iam::aws:policy/")
        if of_aws in _AWS_POLICIES:
            return of_aws.rpartition("/")[2]
        if arn in self.policies:
            return self.policies[arn].name
        return _nothing(f"Policy {arn} does not exist or is not attachable.")

    def provider(self, arn: str) -> IdentityProvider:
        """Gives an identity provider.

        Raises:
            ModelError: There is none of that ARN.
        """
        return self.providers.get(arn) or _nothing(f"OpenIDConnect Provider not found for arn {arn}")


def as_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Gives tags as IAM shows them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def from_tags(tags: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """Reads tags as IAM takes them."""
    return {tag["Key"]: tag["Value"] for tag in tags or ()}


def _nothing(message: str) -> NoReturn:
    raise ModelError("NoSuchEntity", message, status=404)
