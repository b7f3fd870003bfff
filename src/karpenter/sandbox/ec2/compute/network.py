# SPDX-License-Identifier: Apache-2.0
"""Networks, subnets, security groups and zones: the least that a launch stands on.

There are no routes, gateways or rules of security groups.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from karpenter import facts
from karpenter.sandbox.ec2.compute.filters import Field, matching
from karpenter.sandbox.ec2.compute.listing import by_ids, describe, spec_tags, tag_list
from karpenter.sandbox.ec2.compute.localzones import local_zone, local_zones
from karpenter.sandbox.ec2.compute.records import SecurityGroup, Subnet, Vpc
from karpenter.sandbox.ec2.compute.seam import Params, invalid, missing, stop_if_dry_run
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError

__all__ = [
    "associate_subnet_cidr_block",
    "create_security_group",
    "create_subnet",
    "create_vpc",
    "delete_security_group",
    "delete_subnet",
    "delete_vpc",
    "describe_availability_zones",
    "describe_regions",
    "describe_security_groups",
    "describe_subnets",
    "describe_vpcs",
    "modify_subnet_attribute",
]


# Blocks of networks are /56 of a range for documentation, so that a mistake meets no stranger.
_AMAZON_IPV6: Final = ipaddress.IPv6Network("2001:db8::/32")
_IPV6_SUBNET_BITS: Final = 64


def create_vpc(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreateVpc."""
    cidr = _network(params.get("CidrBlock") or "", "cidrBlock")
    tags = spec_tags(params.get("TagSpecifications"), "vpc")
    stop_if_dry_run(params)
    vpc = ec2.add(Vpc(ec2.ids.next("vpc"), ec2.next_seq(), tags, str(cidr)))
    if params.get("AmazonProvidedIpv6CidrBlock"):
        vpc.ipv6_cidr = str(_AMAZON_IPV6[vpc.seq % 2**16 << 72]) + "/56"
    return {"Vpc": _vpc_view(ec2, vpc)}


def delete_vpc(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DeleteVpc; a network that still has subnets is kept."""
    (vpc,) = by_ids(ec2.vpcs, [params["VpcId"]])
    if any(subnet.vpc_id == vpc.id for subnet in ec2.subnets.values()):
        raise ModelError("DependencyViolation", f"The vpc '{vpc.id}' has dependencies and cannot be deleted.")
    stop_if_dry_run(params)
    ec2.drop(vpc)
    return {}


def create_subnet(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreateSubnet; without a zone the first of the region is taken."""
    (vpc,) = by_ids(ec2.vpcs, [params["VpcId"]])
    network = _network(params.get("CidrBlock") or "", "cidrBlock")
    if not 16 <= network.prefixlen <= 28 or not network.subnet_of(ipaddress.IPv4Network(vpc.cidr)):
        raise ModelError("InvalidSubnet.Range", f"The CIDR '{network}' is invalid.")
    if any(other.vpc_id == vpc.id and other.network.overlaps(network) for other in ec2.subnets.values()):
        raise ModelError("InvalidSubnet.Conflict", f"The CIDR '{network}' conflicts with another subnet")
    zone = _zone(ec2, params)
    tags = spec_tags(params.get("TagSpecifications"), "subnet")
    stop_if_dry_run(params)
    subnet = Subnet(ec2.ids.next("subnet"), ec2.next_seq(), tags, vpc.id, zone, ec2.zones()[zone], network)
    subnet.ipv6_cidr = params.get("Ipv6CidrBlock") or ""
    return {"Subnet": _subnet_view(ec2, ec2.add(subnet))}


def associate_subnet_cidr_block(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer AssociateSubnetCidrBlock: a /64 of the network's IPv6 block for a subnet that has none."""
    (subnet,) = by_ids(ec2.subnets, [params["SubnetId"]])
    text = params.get("Ipv6CidrBlock") or ""
    try:
        block = ipaddress.IPv6Network(text)
    except ValueError as broken:
        raise invalid(text, "ipv6CidrBlock", "This is not a valid IPv6 CIDR block.") from broken
    of_vpc = ec2.vpcs[subnet.vpc_id].ipv6_cidr
    if (
        not of_vpc
        or block.prefixlen != _IPV6_SUBNET_BITS
        or not block.subnet_of(ipaddress.IPv6Network(of_vpc))
    ):
        raise ModelError("InvalidSubnet.Range", f"The IPv6 CIDR '{block}' is no /64 of the network's block.")
    if subnet.ipv6_cidr or any(each.ipv6_cidr == str(block) for each in ec2.subnets.values()):
        raise ModelError("InvalidSubnet.Conflict", f"The IPv6 CIDR '{block}' conflicts with another.")
    subnet.ipv6_cidr = str(block)
    return {
        "SubnetId": subnet.id,
        "Ipv6CidrBlockAssociation": _subnet_view(ec2, subnet)["Ipv6CidrBlockAssociationSet"][0],
    }


def delete_subnet(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DeleteSubnet; a subnet with interfaces in it is kept."""
    (subnet,) = by_ids(ec2.subnets, [params["SubnetId"]])
    if subnet.taken:
        raise ModelError(
            "DependencyViolation", f"The subnet '{subnet.id}' has dependencies and cannot be deleted."
        )
    stop_if_dry_run(params)
    ec2.drop(subnet)
    return {}


def create_security_group(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers CreateSecurityGroup; names are unique within a network."""
    if not params.get("GroupName"):
        raise missing("GroupName")
    vpc_id = params.get("VpcId") or next(iter(ec2.vpcs), "")
    by_ids(ec2.vpcs, [vpc_id])
    name = params["GroupName"]
    if any(group.vpc_id == vpc_id and group.name == name for group in ec2.groups.values()):
        raise ModelError(
            "InvalidGroup.Duplicate", f"The security group '{name}' already exists for VPC '{vpc_id}'"
        )
    tags = spec_tags(params.get("TagSpecifications"), "security-group")
    stop_if_dry_run(params)
    group = SecurityGroup(
        ec2.ids.next("sg"), ec2.next_seq(), tags, name, params.get("Description") or "", vpc_id
    )
    ec2.add(group)
    arn = ec2.account.arn(f"security-group/{group.id}")
    return {"GroupId": group.id, "Tags": tag_list(tags), "SecurityGroupArn": arn}


def delete_security_group(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DeleteSecurityGroup; a group that an instance uses is kept."""
    (group,) = by_ids(ec2.groups, [params["GroupId"]])
    if any(group.id in interface.groups for interface in ec2.interfaces.values()):
        raise ModelError("DependencyViolation", f"resource {group.id} has a dependent object")
    stop_if_dry_run(params)
    ec2.drop(group)
    return {"Return": True, "GroupId": group.id}


_SUBNET_SWITCHES: Final[Mapping[str, str]] = {
    "AssignIpv6AddressOnCreation": "assigns_ipv6",
    "MapPublicIpOnLaunch": "maps_public_ip",
    "EnableDns64": "dns64",
    "EnableResourceNameDnsARecordOnLaunch": "name_a_records",
    "EnableResourceNameDnsAAAARecordOnLaunch": "name_aaaa_records",
}
_OUTPOST_ATTRIBUTES: Final = (
    "MapCustomerOwnedIpOnLaunch",
    "CustomerOwnedIpv4Pool",
    "EnableLniAtDeviceIndex",
    "DisableLniAtDeviceIndex",
)
_NEED_IPV6: Final = ("AssignIpv6AddressOnCreation", "EnableResourceNameDnsAAAARecordOnLaunch")


def modify_subnet_attribute(ec2: Store, params: Params) -> dict[str, Any]:
    """Answer ModifySubnetAttribute, one attribute in each call; it holds for later launches."""
    (subnet,) = by_ids(ec2.subnets, [params["SubnetId"]])
    if outpost := [name for name in _OUTPOST_ATTRIBUTES if name in params]:
        raise ModelError(
            "UnsupportedOperation", f"{outpost[0]} is for subnets on Outposts; {subnet.id} is not on one."
        )
    named = [name for name in (*_SUBNET_SWITCHES, "PrivateDnsHostnameTypeOnLaunch") if name in params]
    if len(named) != 1:
        raise ModelError("InvalidParameterCombination", "A call modifies exactly one attribute of a subnet.")
    (attribute,) = named
    if attribute == "PrivateDnsHostnameTypeOnLaunch":
        if params[attribute] not in {"ip-name", "resource-name"}:
            raise invalid(params[attribute], "privateDnsHostnameTypeOnLaunch")
        stop_if_dry_run(params)
        subnet.hostname_type = params[attribute]
        return {}
    on = bool((params[attribute] or {}).get("Value"))
    if on and attribute in _NEED_IPV6 and not subnet.ipv6_cidr:
        raise invalid("true", attribute, f"The subnet {subnet.id} has no IPv6 CIDR block.")
    stop_if_dry_run(params)
    setattr(subnet, _SUBNET_SWITCHES[attribute], on)
    return {}


_VPC_FIELDS: Final[Mapping[str, Field]] = {
    "vpc-id": lambda vpc: vpc.id,
    "cidr": lambda vpc: vpc.cidr,
    "cidr-block-association.cidr-block": lambda vpc: vpc.cidr,
    "is-default": lambda vpc: vpc.is_default,
    "state": lambda _: "available",
}
_SUBNET_FIELDS: Final[Mapping[str, Field]] = {
    "subnet-id": lambda subnet: subnet.id,
    "vpc-id": lambda subnet: subnet.vpc_id,
    "availability-zone": lambda subnet: subnet.zone,
    "availabilityZone": lambda subnet: subnet.zone,
    "availability-zone-id": lambda subnet: subnet.zone_id,
    "cidr": lambda subnet: str(subnet.network),
    "cidr-block": lambda subnet: str(subnet.network),
    "available-ip-address-count": lambda subnet: subnet.free_addresses,
    "map-public-ip-on-launch": lambda subnet: subnet.maps_public_ip,
    "default-for-az": lambda _: False,
    "state": lambda _: "available",
}
_GROUP_FIELDS: Final[Mapping[str, Field]] = {
    "group-id": lambda group: group.id,
    "group-name": lambda group: group.name,
    "vpc-id": lambda group: group.vpc_id,
    "description": lambda group: group.description,
}


def describe_vpcs(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeVpcs."""
    page, token = describe(ec2.vpcs, params, ids="VpcIds", fields=_VPC_FIELDS)
    return {"Vpcs": [_vpc_view(ec2, vpc) for vpc in page], **token}


def describe_subnets(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeSubnets."""
    fields = {**_SUBNET_FIELDS, "owner-id": lambda _: ec2.account.id}
    page, token = describe(ec2.subnets, params, ids="SubnetIds", fields=fields)
    return {"Subnets": [_subnet_view(ec2, subnet) for subnet in page], **token}


def describe_security_groups(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeSecurityGroups; ``GroupNames`` that do not exist are refused as ids are."""
    fields = {**_GROUP_FIELDS, "owner-id": lambda _: ec2.account.id}
    groups: Mapping[str, SecurityGroup] = ec2.groups
    if params.get("GroupNames"):
        names = set(params["GroupNames"])
        groups = {key: group for key, group in groups.items() if group.name in names}
        if absent := names - {group.name for group in groups.values()}:
            raise ModelError("InvalidGroup.NotFound", f"The security group '{min(absent)}' does not exist")
    page, token = describe(groups, params, ids="GroupIds", fields=fields)
    return {"SecurityGroups": [_group_view(ec2, group) for group in page], **token}


def describe_availability_zones(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeAvailabilityZones."""
    known = dict(ec2.zones())
    if params.get("AllAvailabilityZones"):
        known |= {each.name: each.id for each in local_zones(ec2.account.region)}
    rows = [_zone_view(ec2, name, zone_id) for name, zone_id in known.items()]
    fields: dict[str, Field] = {
        "zone-name": lambda row: row["ZoneName"],
        "zone-id": lambda row: row["ZoneId"],
        "zone-type": lambda row: row["ZoneType"],
        "region-name": lambda row: row["RegionName"],
        "state": lambda row: row["State"],
        "opt-in-status": lambda row: row["OptInStatus"],
        "group-name": lambda row: row["GroupName"],
    }
    for parameter, key in (("ZoneNames", "ZoneName"), ("ZoneIds", "ZoneId")):
        wanted = params.get(parameter) or ()
        if absent := sorted(set(wanted) - {str(row[key]) for row in rows}):
            raise ModelError("InvalidParameterValue", f"Invalid availability zone: [{', '.join(absent)}]")
        rows = [row for row in rows if not wanted or row[key] in wanted]
    return {"AvailabilityZones": matching(rows, params.get("Filters") or (), fields)}


def describe_regions(_ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeRegions with all regions of the catalogue."""
    wanted = params.get("RegionNames") or facts.regions()
    if absent := sorted(set(wanted) - set(facts.regions())):
        raise ModelError("InvalidParameterValue", f"Invalid region: [{', '.join(absent)}]")
    rows = [
        {
            "RegionName": name,
            "Endpoint": f"ec2.{name}.amazonaws.com",
            "OptInStatus": "opt-in-not-required",
        }
        for name in facts.regions()
        if name in set(wanted)
    ]
    return {
        "Regions": matching(rows, params.get("Filters") or (), {"region-name": lambda row: row["RegionName"]})
    }


def _network(cidr: str, parameter: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(cidr)
    except ValueError as broken:
        raise invalid(cidr, parameter, "This is not a valid CIDR block.") from broken


def _zone(ec2: Store, params: Params) -> str:
    zones = ec2.zones()
    if zone_id := params.get("AvailabilityZoneId"):
        names = [name for name, each in zones.items() if each == zone_id]
        if not names:
            raise invalid(zone_id, "availabilityZoneId")
        return names[0]
    zone: str = params.get("AvailabilityZone") or next(iter(zones))
    if zone not in zones:
        raise invalid(
            zone,
            "availabilityZone",
            f"Subnets can currently only be created in the following availability zones: {', '.join(zones)}.",
        )
    return zone


def _zone_view(ec2: Store, name: str, zone_id: str) -> dict[str, Any]:
    region = ec2.account.region
    view = {
        "State": "available",
        "OptInStatus": "opt-in-not-required",
        "Messages": [],
        "RegionName": region,
        "ZoneName": name,
        "ZoneId": zone_id,
        "GroupName": f"{region}-zg-1",
        "NetworkBorderGroup": region,
        "ZoneType": "availability-zone",
    }
    local = local_zone(region, name)
    if local:
        view |= {
            "OptInStatus": "opted-in" if name in ec2.zones() else "not-opted-in",
            "GroupName": local.group,
            "NetworkBorderGroup": local.group,
            "ZoneType": "local-zone",
            "ParentZoneName": local.parent,
            "ParentZoneId": ec2.zones()[local.parent],
        }
    return view


def _vpc_view(ec2: Store, vpc: Vpc) -> dict[str, Any]:
    return {
        "VpcId": vpc.id,
        "CidrBlock": vpc.cidr,
        "CidrBlockAssociationSet": [
            {
                "AssociationId": vpc.id.replace("vpc-", "vpc-cidr-assoc-"),
                "CidrBlock": vpc.cidr,
                "CidrBlockState": {"State": "associated"},
            }
        ],
        "Ipv6CidrBlockAssociationSet": [
            {"Ipv6CidrBlock": each, "Ipv6CidrBlockState": {"State": "associated"}, "Ipv6Pool": "Amazon"}
            for each in filter(None, (vpc.ipv6_cidr,))
        ],
        "State": "available",
        "IsDefault": vpc.is_default,
        "InstanceTenancy": "default",
        "OwnerId": ec2.account.id,
        "Tags": tag_list(vpc.tags),
    }


def _subnet_view(ec2: Store, subnet: Subnet) -> dict[str, Any]:
    view: dict[str, Any] = {
        "SubnetId": subnet.id,
        "SubnetArn": ec2.account.arn(f"subnet/{subnet.id}"),
        "VpcId": subnet.vpc_id,
        "OwnerId": ec2.account.id,
        "AvailabilityZone": subnet.zone,
        "AvailabilityZoneId": subnet.zone_id,
        "CidrBlock": str(subnet.network),
        "AvailableIpAddressCount": subnet.free_addresses,
        "MapPublicIpOnLaunch": subnet.maps_public_ip,
        "AssignIpv6AddressOnCreation": subnet.assigns_ipv6,
        "EnableDns64": subnet.dns64,
        "PrivateDnsNameOptionsOnLaunch": {
            "HostnameType": subnet.hostname_type,
            "EnableResourceNameDnsARecord": subnet.name_a_records,
            "EnableResourceNameDnsAAAARecord": subnet.name_aaaa_records,
        },
        "Ipv6CidrBlockAssociationSet": [],
        "DefaultForAz": False,
        "State": "available",
        "Tags": tag_list(subnet.tags),
    }
    if subnet.ipv6_cidr:
        view["Ipv6CidrBlockAssociationSet"] = [
            {"Ipv6CidrBlock": subnet.ipv6_cidr, "Ipv6CidrBlockState": {"State": "associated"}}
        ]
    return view


def _group_view(ec2: Store, group: SecurityGroup) -> dict[str, Any]:
    return {
        "GroupId": group.id,
        "GroupName": group.name,
        "Description": group.description,
        "OwnerId": ec2.account.id,
        "VpcId": group.vpc_id,
        "SecurityGroupArn": ec2.account.arn(f"security-group/{group.id}"),
        "IpPermissions": [],
        "IpPermissionsEgress": [],
        "Tags": tag_list(group.tags),
    }
