# SPDX-License-Identifier: Apache-2.0
"""The pieces of an installation as Terraform reads them in JSON; save the text as karpenter.tf.json."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

from karpenter.cloud.aws.install.entrance import AccessEntryPiece, PodIdentityPiece
from karpenter.cloud.aws.install.pieces import MARK, Piece
from karpenter.cloud.aws.install.queues import QueuePiece, RulePiece
from karpenter.cloud.aws.install.roles import ProfilePiece, RolePiece
from karpenter.cloud.aws.install.site import Site
from karpenter.cloud.aws.install.tagging import DISCOVERY, TagPiece

__all__ = ["terraform"]

# Type, name and arguments of a resource.
Block = tuple[str, str, dict[str, Any]]


def terraform(site: Site, pieces: Sequence[Piece]) -> str:
    """Give the installation as Terraform's JSON."""
    resources: dict[str, dict[str, Any]] = {}
    for piece in pieces:
        for kind, name, body in _blocks(piece):
            resources.setdefault(kind, {})[name] = body
    provider = {"aws": {"region": site.region}}
    return json.dumps({"provider": provider, "resource": resources}, indent=2) + "\n"


@singledispatch
def _blocks(piece: Piece) -> Iterator[Block]:
    raise TypeError(f"a piece of a kind that Terraform is not told about: {piece.kind}")


@_blocks.register
def _(piece: RolePiece) -> Iterator[Block]:
    name = _snake(piece.name)
    body = {
        "name": piece.name,
        "assume_role_policy": json.dumps(piece.trust),
        "tags": {MARK: piece.cluster},
    }
    yield "aws_iam_role", name, body
    role = f"${{aws_iam_role.{name}.name}}"
    for arn in piece.managed:
        attached = f"{name}_{_snake(arn.rpartition('/')[2])}"
        yield "aws_iam_role_policy_attachment", attached, {"role": role, "policy_arn": arn}
    for title, text in piece.inline.items():
        yield "aws_iam_role_policy", _snake(title), {"name": title, "role": role, "policy": text}


@_blocks.register
def _(piece: ProfilePiece) -> Iterator[Block]:
    role = f"${{aws_iam_role.{_snake(piece.role)}.name}}"
    body = {"name": piece.name, "role": role, "tags": {MARK: piece.cluster}}
    yield "aws_iam_instance_profile", _snake(piece.name), body


@_blocks.register
def _(piece: QueuePiece) -> Iterator[Block]:
    name = _snake(piece.name)
    body = {
        "name": piece.name,
        "message_retention_seconds": 300,
        "sqs_managed_sse_enabled": True,
        "tags": {MARK: piece.cluster},
    }
    yield "aws_sqs_queue", name, body
    policy = {"queue_url": f"${{aws_sqs_queue.{name}.url}}", "policy": json.dumps(piece.policy)}
    yield "aws_sqs_queue_policy", name, policy


@_blocks.register
def _(piece: RulePiece) -> Iterator[Block]:
    name = _snake(piece.name)
    pattern = json.dumps(piece.pattern)
    body = {"name": piece.name, "event_pattern": pattern, "tags": {MARK: piece.cluster}}
    yield "aws_cloudwatch_event_rule", name, body
    target = {"rule": f"${{aws_cloudwatch_event_rule.{name}.name}}", "arn": piece.queue_arn}
    yield "aws_cloudwatch_event_target", name, target


@_blocks.register
def _(piece: TagPiece) -> Iterator[Block]:
    body = {"resource_id": piece.name, "key": DISCOVERY, "value": piece.cluster}
    yield "aws_ec2_tag", _snake(piece.name), body


@_blocks.register
def _(piece: AccessEntryPiece) -> Iterator[Block]:
    body = {"cluster_name": piece.cluster, "principal_arn": piece.name, "type": "EC2_LINUX"}
    yield "aws_eks_access_entry", "karpenter_node", body


@_blocks.register
def _(piece: PodIdentityPiece) -> Iterator[Block]:
    body = {
        "cluster_name": piece.cluster,
        "namespace": piece.namespace,
        "service_account": piece.service_account,
        "role_arn": piece.role_arn,
    }
    yield "aws_eks_pod_identity_association", "karpenter", body


def _snake(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
