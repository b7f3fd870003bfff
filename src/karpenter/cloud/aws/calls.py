# SPDX-License-Identifier: Apache-2.0
"""Every AWS call that we make, in one table: what it changes, whether it may be sent twice, which limit it counts to.

``api`` refuses any other call, so this table is also the list of permissions that we need: a policy can be made from
it and cannot fall behind the code. ``why`` is written for the person who grants them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["CALLS", "Call", "Limit", "Repeat"]


class Repeat(Enum):
    """Whether a call whose outcome is unknown may be sent again."""

    SAFE = "safe"  # reads, and writes that come to the same done twice
    TOKEN = "token"  # noqa: S105 - only with a ClientToken among the parameters
    NEVER = "never"


class Limit(Enum):
    """Which request limit of AWS a call counts to; the numbers stand in ``ratelimit``."""

    READ = "read"
    WRITE = "write"
    LAUNCH = "launch"
    INSTANCES = "instances"  # one per instance launched, beside LAUNCH
    TERMINATE = "terminate"
    TAG = "tag"
    QUEUE = "queue"  # SQS, whose own limits are far beyond any queue of interruptions
    OTHER = "other"  # services other than EC2 and SQS


@dataclass(frozen=True, slots=True)
class Call:
    """One operation of one service.

    Attributes:
        service: As boto3 names it.
        operation: As the API reference names it.
        why: What we need it for.
        mutating: Whether it changes anything; such calls are fenced by the lease.
        tag_scoped: Whether a policy can confine it to resources that carry our tags.
        repeat: Whether it may be sent again when nobody knows whether it was carried out.
        limit: Which request limit it counts to.
    """

    service: str
    operation: str
    why: str
    mutating: bool = False
    tag_scoped: bool = False
    repeat: Repeat = Repeat.SAFE
    limit: Limit = Limit.OTHER


def _read(operation: str, why: str) -> Call:
    return Call("ec2", operation, why, limit=Limit.READ)


def _write(operation: str, why: str, limit: Limit = Limit.WRITE, repeat: Repeat = Repeat.SAFE) -> Call:
    return Call("ec2", operation, why, mutating=True, tag_scoped=True, limit=limit, repeat=repeat)


def _iam(operation: str, why: str) -> Call:
    return Call("iam", operation, why, mutating=True, tag_scoped=True)


_TABLE: Final = (
    _write("CreateFleet", "launches instances", Limit.LAUNCH, Repeat.TOKEN),
    _write("RunInstances", "asks by dry run whether a node class could launch", Limit.LAUNCH, Repeat.TOKEN),
    _write("TerminateInstances", "takes instances back", Limit.TERMINATE),
    _write("CreateTags", "writes the names of node and claim on an instance", Limit.TAG),
    # Sent twice, the second is answered "already exists", which its caller takes for done.
    _write("CreateLaunchTemplate", "stores how instances of a node class start"),
    _write("DeleteLaunchTemplate", "removes launch templates that are not used any more"),
    _read("DescribeLaunchTemplates", "finds the launch templates of this cluster"),
    _read("DescribeInstances", "finds the instances of this cluster and what became of them"),
    _read("DescribeInstanceStatus", "finds instances that AWS reports as impaired or due for maintenance"),
    _read("DescribeInstanceTypes", "reads what each instance type has"),
    _read("DescribeInstanceTypeOfferings", "reads in which zones each instance type is sold"),
    _read("DescribeSubnets", "finds subnets and their free addresses"),
    _read("DescribeSecurityGroups", "finds security groups"),
    _read("DescribeImages", "finds machine images"),
    _read("DescribeSpotPriceHistory", "reads spot prices"),
    _read("DescribeCapacityReservations", "finds capacity reservations"),
    _read("DescribePlacementGroups", "finds placement groups"),
    Call("ssm", "GetParameter", "reads which image AWS recommends"),
    Call(
        "eks", "DescribeCluster", "reads endpoint, certificate, version and service addresses of the cluster"
    ),
    Call("pricing", "GetProducts", "reads on-demand prices"),
    Call("sts", "GetCallerIdentity", "tells whose credentials these are"),
    Call("sqs", "GetQueueUrl", "finds the interruption queue", limit=Limit.QUEUE),
    Call("sqs", "ReceiveMessage", "receives interruption messages", limit=Limit.QUEUE),
    Call(
        "sqs",
        "DeleteMessageBatch",
        "removes interruption messages that were acted on",
        mutating=True,
        limit=Limit.QUEUE,
    ),
    Call("arc-zonal-shift", "GetManagedResource", "reads which zone traffic is shifted away from"),
    Call("iam", "GetInstanceProfile", "finds the instance profile of a node class"),
    Call("iam", "ListInstanceProfiles", "finds instance profiles that are left over"),
    _iam("CreateInstanceProfile", "makes the instance profile of a node class that names a role"),
    _iam("TagInstanceProfile", "lets the tags of an instance profile follow those of its node class"),
    _iam("AddRoleToInstanceProfile", "puts the role into the instance profile"),
    _iam("RemoveRoleFromInstanceProfile", "takes the role out before the instance profile goes"),
    _iam("DeleteInstanceProfile", "removes instance profiles that are not used any more"),
)

CALLS: Final[Mapping[tuple[str, str], Call]] = MappingProxyType(
    {(call.service, call.operation): call for call in _TABLE}
)
