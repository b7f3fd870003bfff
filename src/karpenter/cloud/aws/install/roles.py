# SPDX-License-Identifier: Apache-2.0
"""Roles with their policies, and the instance profile around the node role."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from karpenter.cloud.aws.install.account import Account, tag_list, tags_of
from karpenter.cloud.aws.install.pieces import ABSENT, MARK, Found, Piece, same_json

__all__ = ["ProfilePiece", "RolePiece", "trust"]

_GONE = frozenset({"NoSuchEntity"})


def trust(statement: Mapping[str, Any]) -> dict[str, Any]:
    """Give the document that says who may take a role."""
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]}


@dataclass(frozen=True)
class RolePiece(Piece):
    """A role: who may take it, and what it may do."""

    name: str
    cluster: str
    trust: Mapping[str, Any]
    about: str
    managed: tuple[str, ...] = ()
    inline: Mapping[str, str] = field(default_factory=dict)
    kind: str = "role"

    @property
    def purpose(self) -> str:
        """Say what it is for."""
        return self.about

    def find(self, account: Account) -> Found:
        """Look at it."""
        answer = account.ask("iam", "GetRole", _GONE, RoleName=self.name)
        if answer is None:
            return ABSENT
        role = answer["Role"]
        if tags_of(role.get("Tags")).get(MARK) != self.cluster:
            return self.foreign(f"role {self.name}")
        differences = []
        if not same_json(_document(role["AssumeRolePolicyDocument"]), self.trust):
            differences.append("its trust policy")
        attached = self._attached(account)
        differences += [f"{_last(arn)} is not attached" for arn in self.managed if arn not in attached]
        for name, wanted in self.inline.items():
            found = account.ask("iam", "GetRolePolicy", _GONE, RoleName=self.name, PolicyName=name)
            if found is None:
                differences.append(f"policy {name} is missing")
            elif not same_json(_document(found["PolicyDocument"]), wanted):
                differences.append(f"policy {name} says something else")
        return Found.compared(differences)

    def make(self, account: Account) -> None:
        """Make or mend it."""
        text, tags = json.dumps(self.trust), tag_list({MARK: self.cluster})
        if account.ask("iam", "GetRole", _GONE, RoleName=self.name) is None:
            account.call(
                "iam",
                "CreateRole",
                RoleName=self.name,
                AssumeRolePolicyDocument=text,
                Description=f"Karpenter: {self.about}",
                Tags=tags,
            )
        account.call("iam", "UpdateAssumeRolePolicy", RoleName=self.name, PolicyDocument=text)
        attached = self._attached(account)
        for arn in self.managed:
            if arn not in attached:
                account.call("iam", "AttachRolePolicy", RoleName=self.name, PolicyArn=arn)
        for name, document in self.inline.items():
            account.call("iam", "PutRolePolicy", RoleName=self.name, PolicyName=name, PolicyDocument=document)

    def remove(self, account: Account) -> None:
        """Remove it, if it is ours."""
        if account.ask("iam", "GetRole", _GONE, RoleName=self.name) is None:
            return
        for arn in self._attached(account):
            account.call("iam", "DetachRolePolicy", RoleName=self.name, PolicyArn=arn)
        for name in account.pages("iam", "ListRolePolicies", "PolicyNames", RoleName=self.name):
            account.call("iam", "DeleteRolePolicy", RoleName=self.name, PolicyName=name)
        account.call("iam", "DeleteRole", RoleName=self.name)

    def _attached(self, account: Account) -> set[str]:
        listed = account.pages("iam", "ListAttachedRolePolicies", "AttachedPolicies", RoleName=self.name)
        return {each["PolicyArn"] for each in listed}


@dataclass(frozen=True)
class ProfilePiece(Piece):
    """The wrapping in which instances take the node role, for node classes that name a profile."""

    name: str
    cluster: str
    role: str
    kind: str = "instance profile"

    @property
    def purpose(self) -> str:
        """Say what it is for."""
        return "node classes may name it instead of the role"

    def find(self, account: Account) -> Found:
        """Look at it."""
        profile = self._profile(account)
        if profile is None:
            return ABSENT
        if tags_of(profile.get("Tags")).get(MARK) != self.cluster:
            return self.foreign(f"instance profile {self.name}")
        roles = [each["RoleName"] for each in profile["Roles"]]
        return Found.compared(
            [] if roles == [self.role] else [f"its role is {', '.join(roles) or 'missing'}"]
        )

    def make(self, account: Account) -> None:
        """Make or mend it."""
        profile = self._profile(account)
        if profile is None:
            tags = tag_list({MARK: self.cluster})
            made = account.call("iam", "CreateInstanceProfile", InstanceProfileName=self.name, Tags=tags)
            profile = made["InstanceProfile"]
        self._clear(account, profile, but=self.role)
        if self.role not in [each["RoleName"] for each in profile["Roles"]]:
            account.call("iam", "AddRoleToInstanceProfile", InstanceProfileName=self.name, RoleName=self.role)

    def remove(self, account: Account) -> None:
        """Remove it, if it is ours."""
        profile = self._profile(account)
        if profile is not None:
            self._clear(account, profile)
            account.call("iam", "DeleteInstanceProfile", InstanceProfileName=self.name)

    def _profile(self, account: Account) -> dict[str, Any] | None:
        answer = account.ask("iam", "GetInstanceProfile", _GONE, InstanceProfileName=self.name)
        return answer["InstanceProfile"] if answer else None

    def _clear(self, account: Account, profile: Mapping[str, Any], but: str = "") -> None:
        for role in profile["Roles"]:
            if role["RoleName"] != but:
                account.call(
                    "iam",
                    "RemoveRoleFromInstanceProfile",
                    InstanceProfileName=self.name,
                    RoleName=role["RoleName"],
                )


def _document(given: Any) -> Any:
    # IAM gives documents percent-encoded; botocore decodes them on most ways.
    return json.loads(unquote(given)) if isinstance(given, str) else given


def _last(arn: str) -> str:
    return arn.rpartition("/")[2]
