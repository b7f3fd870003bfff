# SPDX-License-Identifier: Apache-2.0
"""The pieces of an installation as a CloudFormation template.

CloudFormation cannot tag subnets and groups that exist already; these stand as commands in the template's metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from karpenter.cloud.aws.install.account import tag_list
from karpenter.cloud.aws.install.entrance import AccessEntryPiece, PodIdentityPiece
from karpenter.cloud.aws.install.pieces import MARK, Piece
from karpenter.cloud.aws.install.queues import TARGET, QueuePiece, RulePiece
from karpenter.cloud.aws.install.roles import ProfilePiece, RolePiece
from karpenter.cloud.aws.install.site import Site
from karpenter.cloud.aws.install.tagging import DISCOVERY, TagPiece

__all__ = ["cloudformation"]


def cloudformation(site: Site, pieces: Sequence[Piece]) -> str:
    """Give the installation as a template in JSON."""
    resources: dict[str, Any] = {}
    for piece in pieces:
        resources |= _resources(piece)
    commands = [
        f"aws ec2 create-tags --resources {piece.name} --tags Key={DISCOVERY},Value={piece.cluster}"
        for piece in pieces
        if isinstance(piece, TagPiece)
    ]
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"What Karpenter needs for the EKS cluster {site.choices.cluster}",
        "Metadata": {"RunAlso": commands},
        "Resources": resources,
    }
    return json.dumps(template, indent=2) + "\n"


@singledispatch
def _resources(piece: Piece) -> dict[str, Any]:
    raise TypeError(f"a piece of a kind that CloudFormation is not told about: {piece.kind}")


@_resources.register
def _(piece: RolePiece) -> dict[str, Any]:
    policies = [
        {"PolicyName": title, "PolicyDocument": json.loads(text)} for title, text in piece.inline.items()
    ]
    return _one(
        _logical(piece),
        "AWS::IAM::Role",
        RoleName=piece.name,
        AssumeRolePolicyDocument=dict(piece.trust),
        ManagedPolicyArns=list(piece.managed),
        Policies=policies,
        Tags=tag_list({MARK: piece.cluster}),
    )


@_resources.register
def _(piece: ProfilePiece) -> dict[str, Any]:
    role = {"Ref": _name(f"role {piece.role}")}
    return _one(_logical(piece), "AWS::IAM::InstanceProfile", InstanceProfileName=piece.name, Roles=[role])


@_resources.register
def _(piece: QueuePiece) -> dict[str, Any]:
    name = _logical(piece)
    queue = _one(
        name,
        "AWS::SQS::Queue",
        QueueName=piece.name,
        MessageRetentionPeriod=300,
        SqsManagedSseEnabled=True,
        Tags=tag_list({MARK: piece.cluster}),
    )
    policy = {"Queues": [{"Ref": name}], "PolicyDocument": piece.policy}
    return queue | _one(f"{name}Policy", "AWS::SQS::QueuePolicy", **policy)


@_resources.register
def _(piece: RulePiece) -> dict[str, Any]:
    return _one(
        _logical(piece),
        "AWS::Events::Rule",
        Name=piece.name,
        EventPattern=piece.pattern,
        State="ENABLED",
        Targets=[{"Id": TARGET, "Arn": piece.queue_arn}],
    )


@_resources.register
def _(piece: AccessEntryPiece) -> dict[str, Any]:
    return _one(
        "NodeAccessEntry",
        "AWS::EKS::AccessEntry",
        ClusterName=piece.cluster,
        PrincipalArn=piece.name,
        Type="EC2_LINUX",
    )


@_resources.register
def _(piece: PodIdentityPiece) -> dict[str, Any]:
    return _one(
        "ControllerPodIdentity",
        "AWS::EKS::PodIdentityAssociation",
        ClusterName=piece.cluster,
        Namespace=piece.namespace,
        ServiceAccount=piece.service_account,
        RoleArn=piece.role_arn,
    )


@_resources.register
def _(_piece: TagPiece) -> dict[str, Any]:
    return {}


def _one(name: str, kind: str, **properties: Any) -> dict[str, Any]:
    return {name: {"Type": kind, "Properties": {key: value for key, value in properties.items() if value}}}


def _logical(piece: Piece) -> str:
    return _name(f"{piece.kind} {piece.name}")


def _name(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))
