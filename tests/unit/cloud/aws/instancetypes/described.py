# SPDX-License-Identifier: Apache-2.0
"""Builders: node classes with what sizes and offerings depend on, and types as DescribeInstanceTypes has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from karpenter import facts
from karpenter.api.ec2nodeclass import (
    AMI,
    CapacityReservation,
    EC2NodeClass,
    EC2NodeClassSpec,
    EC2NodeClassStatus,
    Subnet,
)
from karpenter.api.meta import ObjectMeta
from karpenter.facts import TypeFacts

SUBNETS = (
    Subnet(id="subnet-a", zone="us-west-2a", zone_id="usw2-az2"),
    Subnet(id="subnet-b", zone="us-west-2b", zone_id="usw2-az1"),
)


@dataclass(frozen=True)
class Group:
    """A placement group."""

    id: str = "pg-1"
    strategy: str = "cluster"
    partition_count: int = 0


def fact(name: str) -> TypeFacts:
    return facts.instance_types()[name]


def node_class(
    *,
    name: str = "default",
    subnets: tuple[Subnet, ...] = SUBNETS,
    amis: tuple[AMI, ...] = (),
    reservations: tuple[CapacityReservation, ...] = (),
    **spec: Any,
) -> EC2NodeClass:
    return EC2NodeClass(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}"),
        spec=EC2NodeClassSpec(**{"ami_family": "AL2023", **spec}),
        status=EC2NodeClassStatus(subnets=subnets, amis=amis, capacity_reservations=reservations),
    )


def reservation(**options: Any) -> CapacityReservation:
    return CapacityReservation(
        **{
            "id": "cr-1",
            "availability_zone": "us-west-2a",
            "instance_type": "m5.large",
            "owner_id": "123456789012",
            "instance_match_criteria": "targeted",
            **options,
        }
    )


def described(name: str = "m5.large", **changes: Any) -> dict[str, Any]:
    """One entry of DescribeInstanceTypes, as EC2 has it for m5.large, with some parts replaced or (None) left out."""
    entry: dict[str, Any] = {
        "InstanceType": name,
        "CurrentGeneration": True,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "BareMetal": False,
        "Hypervisor": "nitro",
        "ProcessorInfo": {
            "SupportedArchitectures": ["x86_64"],
            "SustainedClockSpeedInGhz": 3.1,
            "Manufacturer": "Intel",
        },
        "VCpuInfo": {"DefaultVCpus": 2, "DefaultCores": 1, "DefaultThreadsPerCore": 2},
        "MemoryInfo": {"SizeInMiB": 8192},
        "InstanceStorageSupported": False,
        "EbsInfo": {
            "EbsOptimizedSupport": "default",
            "NvmeSupport": "required",
            "EbsOptimizedInfo": {"BaselineBandwidthInMbps": 650, "MaximumBandwidthInMbps": 4750},
        },
        "NetworkInfo": {
            "MaximumNetworkInterfaces": 3,
            "DefaultNetworkCardIndex": 0,
            "NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3}],
            "Ipv4AddressesPerInterface": 10,
            "Ipv6Supported": True,
            "EnaSupport": "required",
        },
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
        "NitroEnclavesSupport": "unsupported",
    }
    return {key: value for key, value in {**entry, **changes}.items() if value is not None}
