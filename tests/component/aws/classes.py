# SPDX-License-Identifier: Apache-2.0
"""Node classes as people write them for the model's cluster, and all that finds out their status, over real HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from karpenter.api import conditions
from karpenter.api.ec2nodeclass import (
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    EC2NodeClassStatus,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.cloud.aws.amis import Amis
from karpenter.cloud.aws.api import Aws
from karpenter.cloud.aws.discovery import Account
from karpenter.cloud.aws.instancetypes.provider import InstanceTypes
from karpenter.cloud.aws.launchtemplates import LaunchTemplates
from karpenter.cloud.aws.nodeclass import DryRuns, NodeClassStatus, Resolved, StatusParts
from karpenter.cloud.aws.placementgroups import PlacementGroups
from karpenter.cloud.aws.pricing import Prices
from karpenter.cloud.aws.profiles import InstanceProfiles
from karpenter.cloud.aws.provider import AwsSettings, describe_cluster
from karpenter.cloud.aws.reservations import Reservations
from karpenter.cloud.aws.securitygroups import SecurityGroups
from karpenter.cloud.aws.subnets import Subnets
from karpenter.cloud.aws.unavailable import Unavailable
from karpenter.kit.clock import SystemClock
from tests.component.aws.stand import CLUSTER

DISCOVERY = {"karpenter.sh/discovery": CLUSTER}
ROLE = f"KarpenterNodeRole-{CLUSTER}"


def written_class(
    name: str = "default", *, generation: int = 1, status: EC2NodeClassStatus | None = None, **spec: Any
) -> EC2NodeClass:
    """A node class for the model's cluster, with nothing found yet."""
    wanted: dict[str, Any] = {
        "ami_selector_terms": (AMISelectorTerm(alias="al2023@latest"),),
        "subnet_selector_terms": (SubnetSelectorTerm(tags=DISCOVERY),),
        "security_group_selector_terms": (SecurityGroupSelectorTerm(tags=DISCOVERY),),
        "role": ROLE,
    }
    if "instance_profile" in spec:
        del wanted["role"]
    return EC2NodeClass(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", generation=generation),
        spec=EC2NodeClassSpec(**{**wanted, **spec}),
        status=status or EC2NodeClassStatus(),
    )


@dataclass
class Desk:
    """All parts of the status of node classes, made for one test."""

    status: NodeClassStatus
    parts: StatusParts
    types: InstanceTypes

    async def resolve(self, node_class: EC2NodeClass) -> Resolved:
        return await self.status.resolve(node_class)


async def desk_for(aws: Aws, *, dry_runs: bool = True, listed: Aws | None = None) -> Desk:
    """Everything that finds out the status of node classes.

    Args:
        aws: What the status is found out with.
        dry_runs: Whether EC2 is asked by dry runs.
        listed: What cluster and catalogue are read with, where ``aws`` is not allowed to.
    """
    clock, reader = SystemClock(), listed or aws
    cluster = await describe_cluster(reader, AwsSettings(cluster_name=CLUSTER), clock)
    version = (await reader.call("eks", "DescribeCluster", name=CLUSTER))["cluster"]["version"]
    types = await _catalogue(reader)
    groups = PlacementGroups(aws, clock)
    templates = LaunchTemplates(aws, clock, cluster_name=CLUSTER)
    parts = StatusParts(
        clock=clock,
        cluster_name=CLUSTER,
        kubernetes=lambda: version,
        cluster=lambda: cluster,
        account=Account(aws, clock, cluster_name=CLUSTER),
        amis=Amis(aws, clock),
        reservations=Reservations(aws, clock),
        placement_groups=groups,
        subnets=Subnets(aws, clock),
        security_groups=SecurityGroups(aws, clock),
        profiles=InstanceProfiles(aws, clock, cluster_name=CLUSTER),
        templates=templates,
        dry_runs=DryRuns(
            aws,
            clock,
            templates=templates,
            types_of=lambda node_class: types.list(node_class, group=groups.group_of(node_class)),
            cluster=lambda: cluster,
            group_of=groups.group_of,
        )
        if dry_runs
        else None,
    )
    return Desk(NodeClassStatus(parts), parts, types)


_READ: list[InstanceTypes] = []


async def _catalogue(aws: Aws) -> InstanceTypes:
    """Instance types, read once for all tests: none of them changes what is sold."""
    if not _READ:
        clock = SystemClock()
        types = InstanceTypes(aws, clock, prices=Prices(aws, clock), unavailable=Unavailable(clock))
        await types.refresh()
        _READ.append(types)
    return _READ[0]


def condition(resolved: Resolved, condition_type: str) -> Condition:
    """One condition of a result."""
    return next(each for each in resolved.status.conditions if each.type == condition_type)


def is_ready(resolved: Resolved) -> bool:
    """Whether nodes can be launched."""
    return condition(resolved, conditions.READY).status == "True"
