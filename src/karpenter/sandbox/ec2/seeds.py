# SPDX-License-Identifier: Apache-2.0
"""What a fresh world has: a network, a cluster, roles, a queue with its rules, machine images.

Everything is named and tagged as an installation by Karpenter's CloudFormation template would name it, for the
cluster that the options name (``sandbox``).
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from karpenter.sandbox.ec2.bus import Rule
from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.releases import release
from karpenter.sandbox.ec2.services.eks import AccessEntry, Cluster
from karpenter.sandbox.ec2.services.iam.store import IdentityProvider
from karpenter.sandbox.ec2.world import Options, World

__all__ = ["DISCOVERY_TAG", "RULES", "seeded"]

DISCOVERY_TAG = "karpenter.sh/discovery"
_NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)

# A release that people have pinned by its name, v20260520; AWS keeps such images for years.
_OLD_RELEASE = datetime(2026, 5, 20, tzinfo=UTC)

# A /18 in each of three zones: 16,379 addresses, room for five thousand nodes.
_SUBNETS = ("10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18")

# Name of each rule, and the source and detail type that it lets through.
RULES: Mapping[str, tuple[str, str]] = {
    "ScheduledChangeRule": ("aws.health", "AWS Health Event"),
    "SpotInterruptionRule": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "RebalanceRule": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChangeRule": ("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruptionRule": (
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ),
}


def seeded(clock: ModelClock | None = None, options: Options | None = None) -> World:
    """Makes a world that is ready for a cluster's nodes."""
    world = World(clock, options)
    network = _network(world)
    if not world.options.bare:
        _roles(world)
    _cluster(world, network)
    _node_group(world, network)
    if not world.options.bare:
        _queue(world)
    now = world.clock.now()
    if now - timedelta(days=35) > _OLD_RELEASE:
        release(world, _OLD_RELEASE)
    release(world, now - timedelta(days=35))
    release(world, now - timedelta(days=5))
    for name in world.options.instance_profiles:
        world.iam.add_profile(name, now).roles.append(world.iam.role(world.node_role))
    return world


def _network(world: World) -> dict[str, Any]:
    name, call = world.options.cluster, world.ec2.call

    def tags(kind: str, title: str) -> list[dict[str, Any]]:
        pairs = {"Name": title, DISCOVERY_TAG: name}
        if kind == "vpc" or world.options.bare:
            del pairs[DISCOVERY_TAG]
        return [
            {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in pairs.items()]}
        ]

    made = call(
        "CreateVpc",
        CidrBlock="10.0.0.0/16",
        AmazonProvidedIpv6CidrBlock=world.options.ip_family == "ipv6",
        TagSpecifications=tags("vpc", f"{name}/VPC"),
    )
    vpc = made["Vpc"]["VpcId"]
    subnets = [
        call(
            "CreateSubnet",
            VpcId=vpc,
            CidrBlock=cidr,
            AvailabilityZone=zone,
            TagSpecifications=tags("subnet", f"{name}/SubnetPrivate{zone}"),
        )["Subnet"]["SubnetId"]
        for zone, cidr in zip(sorted(world.zones), _SUBNETS, strict=False)
    ]
    if world.options.ip_family == "ipv6":
        _assign_ipv6(world, subnets)
    call("CreateSecurityGroup", GroupName="default", Description="default VPC security group", VpcId=vpc)
    group = call(
        "CreateSecurityGroup",
        GroupName=f"eks-cluster-sg-{name}",
        Description="applied to the control plane's interfaces and to nodes",
        VpcId=vpc,
        TagSpecifications=tags("security-group", f"eks-cluster-sg-{name}"),
    )["GroupId"]
    call(
        "CreateSecurityGroup",
        GroupName=f"{name}-ClusterSharedNodeSecurityGroup",
        Description="communication between all nodes of the cluster",
        VpcId=vpc,
        TagSpecifications=tags("security-group", f"{name}/ClusterSharedNodeSecurityGroup"),
    )
    return {"vpcId": vpc, "subnetIds": subnets, "clusterSecurityGroupId": group}


def _assign_ipv6(world: World, subnets: Sequence[str]) -> None:
    """Give each subnet a /64 of its network's block, and each interface in it an address of that."""
    for number, subnet in enumerate(subnets):
        block = world.ec2.vpcs[world.ec2.subnets[subnet].vpc_id].ipv6_cidr
        own = next(itertools.islice(ipaddress.IPv6Network(block).subnets(new_prefix=64), number, None))
        world.ec2.call("AssociateSubnetCidrBlock", SubnetId=subnet, Ipv6CidrBlock=str(own))
        world.ec2.call("ModifySubnetAttribute", SubnetId=subnet, AssignIpv6AddressOnCreation={"Value": True})


def _roles(world: World) -> None:
    now, iam = world.clock.now(), world.iam
    node = iam.add_role(world.node_role, _trust({"Service": "ec2.amazonaws.com"}), now)
    for policy in _NODE_POLICIES:
        arn = f"arn:aws:iam::aws:policy/{policy}"
        node.attached[arn] = iam.policy_name(arn)
    iam.add_role(world.controller_role, _trust({"Service": "pods.eks.amazonaws.com"}), now)
    iam.add_role(
        "AWSServiceRoleForEC2Spot",
        _trust({"Service": "spot.amazonaws.com"}),
        now,
        "/aws-service-role/spot.amazonaws.com/",
    )


def _cluster(world: World, network: Mapping[str, Any]) -> None:
    options, now = world.options, world.clock.now()
    name = options.cluster
    digest = hashlib.sha256(f"{name}{options.seed}".encode()).hexdigest().upper()
    arn = world.eks.arn(f"cluster/{name}")
    cluster = world.eks.add(
        Cluster(
            name=name,
            arn=arn,
            version=options.cluster_version,
            endpoint=options.cluster_endpoint
            or f"https://{digest[:32]}.gr7.{world.region}.eks.amazonaws.com",
            certificate_authority=options.cluster_ca or base64.b64encode(_CERTIFICATE.encode()).decode(),
            service_cidr="fd30:1c53:5f8a::/108" if options.ip_family == "ipv6" else "10.100.0.0/16",
            ip_family=options.ip_family,
            role_arn=world.iam.arn("role", "/", f"EKSClusterRole-{name}"),
            created_at=now,
            vpc={
                **network,
                "securityGroupIds": [],
                "endpointPublicAccess": True,
                "endpointPrivateAccess": True,
                "publicAccessCidrs": ["0.0.0.0/0"],
            },
            issuer=f"https://oidc.eks.{world.region}.amazonaws.com/id/{digest[:32]}",
            tags={DISCOVERY_TAG: name},
        )
    )
    issuer = cluster.issuer.removeprefix("https://")
    provider = world.iam.arn("oidc-provider", "/", issuer)
    world.iam.providers[provider] = IdentityProvider(provider, issuer, ["sts.amazonaws.com"], [], now)
    if not options.bare:
        node_role = world.iam.roles[world.node_role].arn
        cluster.entries[node_role] = AccessEntry(
            node_role, "EC2_LINUX", ["system:nodes"], "system:node:{{EC2PrivateDNSName}}", now
        )
    world.zonal_shifts.register(arn)


def _node_group(world: World, network: Mapping[str, Any]) -> None:
    """Puts a managed node group beside what Karpenter makes, as every cluster needs one to begin with."""
    cluster, now = world.eks.by_name[world.options.cluster], world.clock.now()
    cluster.nodegroups["system"] = {
        "nodegroupName": "system",
        "nodegroupArn": world.eks.arn(
            f"nodegroup/{cluster.name}/system/00000000-0000-0000-0000-000000000001"
        ),
        "clusterName": cluster.name,
        "version": cluster.version,
        "createdAt": now,
        "modifiedAt": now,
        "status": "ACTIVE",
        "capacityType": "ON_DEMAND",
        "scalingConfig": {"minSize": 2, "maxSize": 3, "desiredSize": 2},
        "instanceTypes": ["m5.large"],
        "subnets": list(network["subnetIds"]),
        "amiType": "AL2023_x86_64_STANDARD",
        "nodeRole": world.iam.arn("role", "/", f"EKSNodeRole-{cluster.name}"),
        "labels": {},
        "diskSize": 20,
        "health": {"issues": []},
    }


def _queue(world: World) -> None:
    name = world.options.cluster
    queue = world.sqs.create(name, world.clock.now())
    queue.attributes["MessageRetentionPeriod"] = "300"
    for rule, (source, detail_type) in RULES.items():
        pattern = {"source": [source], "detail-type": [detail_type]}
        world.bus.rules[f"{name}-{rule}"] = Rule(
            f"{name}-{rule}",
            pattern,
            json.dumps(pattern),
            targets={
                "KarpenterInterruptionQueueTarget": {
                    "Id": "KarpenterInterruptionQueueTarget",
                    "Arn": queue.arn,
                }
            },
        )


def _trust(principal: Mapping[str, str]) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


# Looks like a certificate to who passes it on; nobody may trust it.
_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nc2FuZGJveA==\n-----END CERTIFICATE-----\n"
