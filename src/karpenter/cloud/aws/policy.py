# SPDX-License-Identifier: Apache-2.0
"""The rights of the controller, as IAM policies made from the table of its calls.

Every call of ``calls.CALLS`` is allowed by the statements below and nothing else is: calls that change something, only
on what carries this cluster's tags, or as it is made with them; the interruption queue, the cluster and the node
role by their names. A call that is added to the table and fits no statement is refused here, so that rights cannot
fall behind the code. Five small policies instead of one: IAM takes 6,144 characters each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.api import labels
from karpenter.cloud.aws.calls import CALLS, Call
from karpenter.errors import KarpenterError

__all__ = ["Scope", "Statement", "UncoveredCallError", "action_of", "controller_policies", "document"]

# Calls that IAM checks under another name, and one that it never refuses.
_ACTIONS: Final[Mapping[tuple[str, str], str]] = {
    ("sqs", "DeleteMessageBatch"): "sqs:DeleteMessage",
    ("sts", "GetCallerIdentity"): "",
}
_LAUNCHING: Final = ("CreateFleet", "RunInstances")
_MAKING: Final = ("CreateFleet", "CreateLaunchTemplate", "RunInstances")
_TAKEN: Final = ("capacity-reservation", "image", "placement-group", "security-group", "snapshot", "subnet")
_MADE: Final = (
    "fleet",
    "instance",
    "launch-template",
    "network-interface",
    "spot-instances-request",
    "volume",
)


class UncoveredCallError(KarpenterError):
    """A call of ours that no statement allows."""


@dataclass(frozen=True, slots=True)
class Scope:
    """For which cluster rights are given.

    Attributes:
        cluster: Its name.
        region: Its region.
        account: The account's number.
        node_role_arn: The role that nodes take; several for node classes with roles of their own.
        queue_arn: The interruption queue; empty for none.
        partition: ``aws``, ``aws-cn`` or ``aws-us-gov``.
    """

    cluster: str
    region: str
    account: str
    node_role_arn: str
    queue_arn: str = ""
    partition: str = "aws"


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that is allowed, and why."""

    sid: str
    why: str
    actions: tuple[str, ...]
    resources: tuple[str, ...] = ("*",)
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Give the statement as IAM reads it."""
        shown: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": "Allow",
            "Action": list(self.actions),
            "Resource": list(self.resources),
        }
        return shown | ({"Condition": dict(self.conditions)} if self.conditions else {})


def action_of(call: Call) -> str:
    """Give the action that IAM checks for a call; empty if it needs no right."""
    return _ACTIONS.get((call.service, call.operation), f"{call.service}:{call.operation}")


def controller_policies(scope: Scope) -> Mapping[str, tuple[Statement, ...]]:
    """Give the statements of each policy, by the policy's name.

    Raises:
        UncoveredCallError: A call of the table fits no statement.
    """
    cluster = scope.cluster
    policies = {
        f"KarpenterControllerNodeLifecyclePolicy-{cluster}": _node_lifecycle(scope),
        f"KarpenterControllerIAMIntegrationPolicy-{cluster}": _profiles(scope),
        f"KarpenterControllerEKSIntegrationPolicy-{cluster}": _cluster(scope),
        f"KarpenterControllerResourceDiscoveryPolicy-{cluster}": _discovery(scope),
    }
    if scope.queue_arn:
        policies[f"KarpenterControllerInterruptionPolicy-{cluster}"] = _interruption(scope)
    given = {action for each in policies.values() for statement in each for action in statement.actions}
    wanted = {call for call in CALLS.values() if scope.queue_arn or call.service != "sqs"}
    missing = sorted(action_of(call) for call in wanted if action_of(call) and action_of(call) not in given)
    if missing:
        raise UncoveredCallError(
            f"no statement allows {', '.join(missing)}",
            hint="add it to a statement of cloud/aws/policy.py, as narrow as it can be",
        )
    return policies


def document(statements: Iterable[Statement]) -> str:
    """Give a policy document as IAM takes it."""
    listed = [each.as_json() for each in statements]
    return json.dumps({"Version": "2012-10-17", "Statement": listed}, separators=(",", ":"))


def _node_lifecycle(scope: Scope) -> tuple[Statement, ...]:
    owned, ours = _owned(scope, "Resource"), {"StringLike": {f"aws:ResourceTag/{labels.NODEPOOL_TAG}": "*"}}
    made = _arns(scope, _MADE)
    creation = {
        "StringEquals": _owned(scope, "Request") | _named(scope),
        "StringLike": {f"aws:RequestTag/{labels.NODEPOOL_TAG}": "*"},
    }
    return (
        Statement(
            "AllowScopedEC2InstanceAccessActions",
            "launches use images, subnets and groups, which carry no tags of ours",
            _ec2(*_LAUNCHING),
            tuple(_arns(scope, _TAKEN)),
        ),
        Statement(
            "AllowScopedEC2LaunchTemplateAccessActions",
            "launches use launch templates of this cluster only",
            _ec2(*_LAUNCHING),
            tuple(_arns(scope, ["launch-template"])),
            {"StringEquals": owned} | ours,
        ),
        Statement(
            "AllowScopedEC2InstanceActionsWithTags",
            "what is made carries this cluster's tags from its first moment",
            _ec2(*_MAKING),
            tuple(made),
            creation,
        ),
        Statement(
            "AllowScopedResourceCreationTagging",
            "those tags may be written in the call that makes it",
            _ec2("CreateTags"),
            tuple(made),
            creation | {"StringEquals": creation["StringEquals"] | {"ec2:CreateAction": list(_MAKING)}},
        ),
        Statement(
            "AllowScopedResourceTagging",
            "names of node and claim are written on instances of this cluster later",
            _ec2("CreateTags"),
            tuple(_arns(scope, ["instance"])),
            {
                "StringEquals": owned,
                "StringEqualsIfExists": _named(scope),
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": [labels.EKS_CLUSTER_NAME_TAG, labels.NODECLAIM_TAG, labels.NAME_TAG]
                },
            }
            | ours,
        ),
        Statement(
            "AllowScopedDeletion",
            "only what belongs to this cluster is taken away",
            _ec2("DeleteLaunchTemplate", "TerminateInstances"),
            tuple(_arns(scope, ["instance", "launch-template"])),
            {"StringEquals": owned} | ours,
        ),
    )


def _profiles(scope: Scope) -> tuple[Statement, ...]:
    profiles = (f"arn:{scope.partition}:iam::{scope.account}:instance-profile/*",)
    region, node_class = {labels.REGION: scope.region}, f"{labels.EC2NODECLASS_TAG}"
    asked = _owned(scope, "Request") | _named(scope) | _tags("Request", region)
    there = _owned(scope, "Resource") | _tags("Resource", region)
    service = f"ec2.amazonaws.com{'.cn' if scope.partition == 'aws-cn' else ''}"
    return (
        Statement(
            "AllowPassingInstanceRole",
            "instances take the node role, and no other",
            ("iam:PassRole",),
            (scope.node_role_arn,),
            {"StringEquals": {"iam:PassedToService": [service]}},
        ),
        Statement(
            "AllowScopedInstanceProfileCreationActions",
            "instance profiles are made with this cluster's tags",
            ("iam:CreateInstanceProfile",),
            profiles,
            {"StringEquals": asked, "StringLike": {f"aws:RequestTag/{node_class}": "*"}},
        ),
        Statement(
            "AllowScopedInstanceProfileTagActions",
            "instance profiles of this cluster keep their tags",
            ("iam:TagInstanceProfile",),
            profiles,
            {
                "StringEquals": there | asked,
                "StringLike": {
                    f"aws:ResourceTag/{node_class}": "*",
                    f"aws:RequestTag/{node_class}": "*",
                },
            },
        ),
        Statement(
            "AllowScopedInstanceProfileActions",
            "instance profiles of this cluster get their role and go with their node class",
            (
                "iam:AddRoleToInstanceProfile",
                "iam:DeleteInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
            ),
            profiles,
            {"StringEquals": there, "StringLike": {f"aws:ResourceTag/{node_class}": "*"}},
        ),
        Statement(
            "AllowInstanceProfileReadActions",
            "looks whether a profile is there, and for those that are left over",
            ("iam:GetInstanceProfile", "iam:ListInstanceProfiles"),
            # A list is asked for below a path, which IAM checks as an ARN of the account.
            profiles,
        ),
    )


def _cluster(scope: Scope) -> tuple[Statement, ...]:
    where = f"arn:{scope.partition}:eks:{scope.region}:{scope.account}:cluster/{scope.cluster}"
    return (
        Statement(
            "AllowAPIServerEndpointDiscovery",
            CALLS["eks", "DescribeCluster"].why,
            ("eks:DescribeCluster",),
            (where,),
        ),
        Statement(
            "AllowZonalShiftReadActions",
            CALLS["arc-zonal-shift", "GetManagedResource"].why,
            ("arc-zonal-shift:GetManagedResource",),
            (where,),
        ),
    )


def _interruption(scope: Scope) -> tuple[Statement, ...]:
    actions = sorted({action_of(call) for call in CALLS.values() if call.service == "sqs"})
    return (
        Statement(
            "AllowInterruptionQueueActions",
            "receives notices of interruptions and removes those that were acted on",
            tuple(actions),
            (scope.queue_arn,),
        ),
    )


def _discovery(scope: Scope) -> tuple[Statement, ...]:
    reads = sorted(action_of(call) for call in CALLS.values() if call.service == "ec2" and not call.mutating)
    return (
        Statement(
            "AllowRegionalReadActions",
            "reads types, prices, networks and instances; EC2 cannot narrow these further than to a region",
            tuple(reads),
            conditions={"StringEquals": {"aws:RequestedRegion": scope.region}},
        ),
        Statement(
            "AllowSSMReadActions",
            CALLS["ssm", "GetParameter"].why,
            ("ssm:GetParameter",),
            (f"arn:{scope.partition}:ssm:{scope.region}::parameter/aws/service/*",),
        ),
        Statement("AllowPricingReadActions", CALLS["pricing", "GetProducts"].why, ("pricing:GetProducts",)),
    )


def _ec2(*operations: str) -> tuple[str, ...]:
    return tuple(action_of(CALLS["ec2", each]) for each in operations)


def _arns(scope: Scope, kinds: Iterable[str]) -> list[str]:
    # Images, snapshots and reservations may belong to other accounts.
    return [f"arn:{scope.partition}:ec2:{scope.region}:*:{kind}/*" for kind in kinds]


def _owned(scope: Scope, whose: str) -> dict[str, Any]:
    return _tags(whose, {f"{labels.CLUSTER_TAG_PREFIX}{scope.cluster}": "owned"})


def _named(scope: Scope) -> dict[str, Any]:
    return _tags("Request", {labels.EKS_CLUSTER_NAME_TAG: scope.cluster})


def _tags(whose: str, tags: Mapping[str, str]) -> dict[str, Any]:
    return {f"aws:{whose}Tag/{key}": value for key, value in tags.items()}
