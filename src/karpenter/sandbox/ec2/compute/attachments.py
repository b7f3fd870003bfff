# SPDX-License-Identifier: Apache-2.0
"""What hangs on instances, told by itself: volumes, network interfaces and spot requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from karpenter.sandbox.ec2.compute.addresses import private_dns_name, public_dns_name
from karpenter.sandbox.ec2.compute.filters import Field
from karpenter.sandbox.ec2.compute.listing import describe, tag_list
from karpenter.sandbox.ec2.compute.records import Disk, Interface, SpotRequest
from karpenter.sandbox.ec2.compute.seam import Params
from karpenter.sandbox.ec2.compute.store import Store

__all__ = [
    "association",
    "describe_network_interfaces",
    "describe_spot_instance_requests",
    "describe_volumes",
    "ipv6_view",
]

_DISK_FIELDS: Final[Mapping[str, Field]] = {
    "volume-id": lambda disk: disk.id,
    "attachment.instance-id": lambda disk: disk.instance_id,
    "attachment.device": lambda disk: disk.device,
    "availability-zone": lambda disk: disk.zone,
    "encrypted": lambda disk: bool(disk.spec.get("Encrypted")),
    "size": lambda disk: disk.spec.get("VolumeSize"),
    "volume-type": lambda disk: disk.spec.get("VolumeType") or "gp2",
}
_INTERFACE_FIELDS: Final[Mapping[str, Field]] = {
    "network-interface-id": lambda each: each.id,
    "attachment.instance-id": lambda each: each.instance_id,
    "availability-zone": lambda each: each.zone,
    "subnet-id": lambda each: each.subnet_id,
    "vpc-id": lambda each: each.vpc_id,
    "group-id": lambda each: each.groups,
    "private-ip-address": lambda each: each.address,
}


def describe_volumes(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeVolumes."""
    page, token = describe(ec2.disks, params, ids="VolumeIds", fields=_DISK_FIELDS)
    return {"Volumes": [_volume(ec2, disk) for disk in page], **token}


def describe_network_interfaces(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeNetworkInterfaces."""
    page, token = describe(ec2.interfaces, params, ids="NetworkInterfaceIds", fields=_INTERFACE_FIELDS)
    return {"NetworkInterfaces": [_interface(ec2, each) for each in page], **token}


def describe_spot_instance_requests(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeSpotInstanceRequests."""
    fields: dict[str, Field] = {
        "instance-id": lambda each: each.instance_id,
        "spot-instance-request-id": lambda each: each.id,
        "state": lambda each: _request_state(ec2, each),
    }
    page, token = describe(ec2.spot_requests, params, ids="SpotInstanceRequestIds", fields=fields)
    return {"SpotInstanceRequests": [_request(ec2, each) for each in page], **token}


def _volume(ec2: Store, disk: Disk) -> dict[str, Any]:
    spec = disk.spec
    view: dict[str, Any] = {
        "VolumeId": disk.id,
        "Size": spec.get("VolumeSize") or 8,
        "VolumeType": spec.get("VolumeType") or "gp2",
        "Encrypted": bool(spec.get("Encrypted")),
        "AvailabilityZone": disk.zone,
        "AvailabilityZoneId": ec2.zones()[disk.zone],
        "CreateTime": disk.created,
        "State": "in-use",
        "SnapshotId": spec.get("SnapshotId") or "",
        "Attachments": [
            {
                "AttachTime": disk.created,
                "Device": disk.device,
                "InstanceId": disk.instance_id,
                "State": "attached",
                "VolumeId": disk.id,
                "DeleteOnTermination": spec.get("DeleteOnTermination", True),
            }
        ],
        "Tags": tag_list(disk.tags),
    }
    return view | {key: spec[key] for key in ("Iops", "Throughput", "KmsKeyId") if spec.get(key)}


def _interface(ec2: Store, each: Interface) -> dict[str, Any]:
    view: dict[str, Any] = {
        "NetworkInterfaceId": each.id,
        "OwnerId": ec2.account.id,
        "SubnetId": each.subnet_id,
        "VpcId": each.vpc_id,
        "AvailabilityZone": each.zone,
        "Status": "in-use",
        "InterfaceType": each.spec.get("InterfaceType") or "interface",
        "Description": each.spec.get("Description") or "",
        "PrivateIpAddress": each.address,
        "PrivateDnsName": private_dns_name(ec2.account.region, each.address) if each.address else "",
        "Groups": ec2.groups_named(each.groups),
        "Attachment": {
            "InstanceId": each.instance_id,
            "DeviceIndex": each.spec.get("DeviceIndex") or 0,
            "NetworkCardIndex": each.spec.get("NetworkCardIndex") or 0,
            "DeleteOnTermination": each.spec.get("DeleteOnTermination", True),
            "Status": "attached",
        },
        "TagSet": tag_list(each.tags),
        **ipv6_view(each),
    }
    # EC2 shows the settings only where the launch had some.
    if tracking := each.spec.get("ConnectionTrackingSpecification"):
        view["ConnectionTrackingConfiguration"] = tracking
    if each.public_address:
        view["Association"] = association(ec2, each)
    return view


def association(ec2: Store, each: Interface) -> dict[str, Any]:
    """Return the public address of an interface as EC2 shows it; the address is Amazon's."""
    return {
        "IpOwnerId": "amazon",
        "PublicIp": each.public_address,
        "PublicDnsName": public_dns_name(ec2.account.region, each.public_address),
    }


def ipv6_view(each: Interface) -> dict[str, Any]:
    """Return the IPv6 addresses and prefixes of an interface as EC2 shows them."""
    primary = bool(each.spec.get("PrimaryIpv6"))
    return {
        "Ipv6Addresses": [
            {"Ipv6Address": address, "IsPrimaryIpv6": primary and index == 0}
            for index, address in enumerate(each.ipv6_addresses)
        ],
        "Ipv6Prefixes": [{"Ipv6Prefix": prefix} for prefix in each.ipv6_prefixes],
    }


def _request_state(ec2: Store, request: SpotRequest) -> str:
    instance = ec2.instances.get(request.instance_id)
    return "active" if instance and instance.alive else "closed"


def _request(ec2: Store, request: SpotRequest) -> dict[str, Any]:
    instance = ec2.instances.get(request.instance_id)
    alive = instance is not None and instance.alive
    return {
        "SpotInstanceRequestId": request.id,
        "InstanceId": request.instance_id,
        "CreateTime": request.created,
        "State": "active" if alive else "closed",
        "Status": {"Code": "fulfilled" if alive else "instance-terminated-by-user"},
        "Type": "one-time",
        "LaunchedAvailabilityZone": instance.zone if instance else "",
        "ProductDescription": "Linux/UNIX",
        "InstanceInterruptionBehavior": "terminate",
        "Tags": tag_list(request.tags),
    }
