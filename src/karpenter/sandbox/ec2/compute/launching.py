# SPDX-License-Identifier: Apache-2.0
"""From launch parameters to a plan: everything that EC2 checks before it looks for a machine.

A plan is made of a launch template's data with the overrides of a fleet, or the parameters of RunInstances, laid
over it. It says which type, zone, image, subnet, groups, profile, disks and interfaces an instance gets, or refuses
with the code that EC2 gives. A plan takes nothing; capacity and addresses are taken when the instance is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.facts import TypeFacts
from karpenter.sandbox.ec2.compute.capacity import Pool
from karpenter.sandbox.ec2.compute.listing import by_ids, unknown_id
from karpenter.sandbox.ec2.compute.placement import find_group
from karpenter.sandbox.ec2.compute.records import Image, PlacementGroup, Subnet
from karpenter.sandbox.ec2.compute.refusals import check_interfaces, check_options, check_volume
from karpenter.sandbox.ec2.compute.seam import Params, Profile, missing
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.compute.templates import check_user_data, find_template, find_version
from karpenter.sandbox.ec2.compute.types import facts_of
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["Plan", "make_plan", "overlaid", "template_data", "zone_and_subnet"]

_AMI: Final = re.compile(r"ami-[0-9a-f]{8,17}|ami-[0-9a-z]+")
_PREFIX_ADDRESSES: Final = 16
_OVERRIDDEN: Final = ("InstanceType", "ImageId", "SubnetId", "AvailabilityZone", "BlockDeviceMappings")


@dataclass(frozen=True, slots=True)
class Plan:
    """One instance to be, with all that it names found and checked."""

    pool: Pool
    facts: TypeFacts
    image: Image
    subnet: Subnet
    groups: tuple[str, ...]
    profile: Profile | None
    placement_group: PlacementGroup | None
    disks: tuple[Mapping[str, Any], ...]
    interfaces: tuple[Mapping[str, Any], ...]
    data: Mapping[str, Any]

    @property
    def addresses(self) -> int:
        """Counts the addresses of the subnet that the instance takes."""
        return sum(map(address_count, self.interfaces))


def address_count(interface: Params) -> int:
    """Counts the IPv4 addresses that an interface takes; one for EFA alone takes none."""
    if interface.get("InterfaceType") == "efa-only":
        return 0
    secondary = interface.get("SecondaryPrivateIpAddressCount") or 0
    return 1 + secondary + _PREFIX_ADDRESSES * (interface.get("Ipv4PrefixCount") or 0)


def template_data(ec2: Store, specification: Params) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Gives a launch template's data, and the specification as fleets tell it back.

    Raises:
        ModelError: The template or its version is not there.
    """
    template = find_template(ec2, specification)
    version = find_version(template, specification.get("Version"))
    told = {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "Version": str(specification.get("Version") or version.number),
    }
    return version.data, told


def overlaid(data: Params, override: Params) -> dict[str, Any]:
    """Lays a fleet's override over a template's data."""
    merged = {**data, **{key: override[key] for key in _OVERRIDDEN if override.get(key)}}
    if override.get("Placement"):
        merged["Placement"] = {**data.get("Placement", {}), **override["Placement"]}
    return merged


def make_plan(ec2: Store, data: Params, market: str, *, fleet: bool = False) -> Plan:
    """Checks launch parameters and finds all that they name.

    Args:
        ec2: The store.
        data: Launch parameters in the shape of a launch template's data, with ``SubnetId`` or ``AvailabilityZone``.
        market: The capacity type: on-demand, spot, reserved or capacity-block.
        fleet: Whether a fleet asks; it names a few errors otherwise than RunInstances.

    Raises:
        ModelError: The first thing that is wrong, with EC2's code for it.
    """
    name = data.get("InstanceType")
    if not name:
        raise missing("InstanceType")
    known = facts_of(ec2, name)
    if known is None:
        raise ModelError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    check_user_data(data.get("UserData"))
    image = _image(ec2, data)
    _check_architecture(known, image)
    zone, subnet = zone_and_subnet(ec2, data)
    _check_offered(ec2, known, zone, market, fleet=fleet)
    interfaces = _interfaces(data, known, subnet)
    check_options(data, known)
    groups = _groups(ec2, data, interfaces, subnet)
    return Plan(
        pool=Pool(name, zone, market),
        facts=known,
        image=image,
        subnet=subnet,
        groups=groups,
        profile=_profile(ec2, data),
        placement_group=_placement_group(ec2, data, known),
        disks=_disks(data, image),
        interfaces=interfaces,
        data=data,
    )


def zone_and_subnet(ec2: Store, data: Params) -> tuple[str, Subnet]:
    """Finds the subnet that is named, else the first one of the zone, else the first of all."""
    named = data.get("SubnetId") or next(
        (each["SubnetId"] for each in data.get("NetworkInterfaces") or () if each.get("SubnetId")), None
    )
    zone = data.get("AvailabilityZone") or (data.get("Placement") or {}).get("AvailabilityZone")
    if named:
        (subnet,) = by_ids(ec2.subnets, [named])
        if zone and zone != subnet.zone:
            raise ModelError(
                "InvalidParameterCombination",
                f"The specified Subnet: {named} cannot be used with the specified Availability Zone: {zone}.",
            )
        return subnet.zone, subnet
    for subnet in ec2.subnets.values():
        if zone in {None, subnet.zone}:
            return subnet.zone, subnet
    where = f" for availability zone {zone}" if zone else ""
    raise ModelError("MissingInput", f"No subnets found{where}. Please specify a subnet.")


def _image(ec2: Store, data: Params) -> Image:
    image_id = data.get("ImageId")
    if not image_id:
        raise missing("ImageId")
    if not _AMI.fullmatch(image_id):
        raise ModelError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
    image = ec2.images.get(image_id)
    if image is None:
        raise unknown_id(image_id)
    if image.state != "available":
        raise ModelError("InvalidAMIID.Unavailable", f"The image ID '{image_id}' is not available")
    return image


def _check_architecture(known: TypeFacts, image: Image) -> None:
    if image.architecture not in known.architectures:
        raise ModelError(
            "InvalidParameterValue",
            f"The architecture '{','.join(known.architectures)}' of the specified instance type does not match the "
            f"architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI that "
            "have matching architectures, and try again.",
        )


def _check_offered(ec2: Store, known: TypeFacts, zone: str, market: str, *, fleet: bool) -> None:
    offered = ec2.prices.offered[known.name]
    if zone not in offered:
        raise ModelError(
            "InvalidFleetConfiguration" if fleet else "Unsupported",
            f"Your requested instance type ({known.name}) is not supported in your requested Availability Zone "
            f"({zone}). Please retry your request by not specifying an Availability Zone or choosing "
            f"{', '.join(offered)}.",
        )
    if market == "spot" and "spot" not in known.usage_classes:
        raise ModelError(
            "Unsupported", f"The instance type {known.name} is not supported as a Spot Instance."
        )


def _interfaces(data: Params, known: TypeFacts, subnet: Subnet) -> tuple[Mapping[str, Any], ...]:
    asked = sorted(
        data.get("NetworkInterfaces") or [{"DeviceIndex": 0}],
        key=lambda each: (each.get("NetworkCardIndex") or 0, each.get("DeviceIndex") or 0),
    )
    check_interfaces(asked, known, subnet)
    if data.get("SecurityGroupIds") and any(each.get("Groups") for each in asked):
        raise ModelError(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level security groups may not be specified on the same request",
        )
    return tuple(asked)


def _groups(ec2: Store, data: Params, interfaces: Sequence[Params], subnet: Subnet) -> tuple[str, ...]:
    ids = [
        *(data.get("SecurityGroupIds") or ()),
        *(each for nic in interfaces for each in nic.get("Groups") or ()),
    ]
    for name in data.get("SecurityGroups") or ():
        found = [
            each.id for each in ec2.groups.values() if each.name == name and each.vpc_id == subnet.vpc_id
        ]
        if not found:
            raise ModelError("InvalidGroup.NotFound", f"The security group '{name}' does not exist")
        ids += found
    if not ids:
        ids = [
            each.id for each in ec2.groups.values() if each.name == "default" and each.vpc_id == subnet.vpc_id
        ]
    for each in ids:
        if each not in ec2.groups:
            raise unknown_id(each)
        if ec2.groups[each].vpc_id != subnet.vpc_id:
            raise ModelError(
                "InvalidParameter",
                f"Security group {each} and subnet {subnet.id} belong to different networks.",
            )
    return tuple(dict.fromkeys(ids))


def _profile(ec2: Store, data: Params) -> Profile | None:
    asked = data.get("IamInstanceProfile") or {}
    for key, noun in (("Name", "name"), ("Arn", "arn")):
        if asked.get(key):
            profile = ec2.profiles(asked[key])
            if profile is None:
                raise ModelError(
                    "InvalidParameterValue",
                    f"Value ({asked[key]}) for parameter iamInstanceProfile.{noun} is invalid. "
                    f"Invalid IAM Instance Profile {noun}",
                )
            return profile
    return None


def _placement_group(ec2: Store, data: Params, known: TypeFacts) -> PlacementGroup | None:
    placement = data.get("Placement") or {}
    if not (placement.get("GroupName") or placement.get("GroupId")):
        return None
    group = find_group(ec2, name=placement.get("GroupName") or "", group_id=placement.get("GroupId") or "")
    if group.strategy not in known.placement_strategies:
        raise ModelError(
            "InvalidParameterCombination",
            f"The instance type {known.name} does not support the placement strategy {group.strategy}.",
        )
    return group


def _disks(data: Params, image: Image) -> tuple[Mapping[str, Any], ...]:
    """Lays the asked mappings over the image's, by device; an image without any has a small root disk."""
    root = {"DeviceName": image.root_device, "Ebs": {"VolumeSize": 8, "VolumeType": "gp3"}}
    by_device: dict[str, dict[str, Any]] = {str(root["DeviceName"]): root}
    by_device |= {disk["DeviceName"]: dict(disk) for disk in image.disks if disk.get("DeviceName")}
    for asked in data.get("BlockDeviceMappings") or ():
        device = asked.get("DeviceName") or image.root_device
        base = by_device.get(device, {"DeviceName": device})
        if "NoDevice" in asked:
            by_device.pop(device, None)
            continue
        ebs = {**base.get("Ebs", {}), **asked.get("Ebs", {})}
        snapshot_gib = (
            (base.get("Ebs") or {}).get("VolumeSize", 0) if (base.get("Ebs") or {}).get("SnapshotId") else 0
        )
        if ebs.get("VolumeSize", 0) < snapshot_gib:
            raise ModelError(
                "InvalidBlockDeviceMapping",
                f"Volume of size {ebs.get('VolumeSize', 0)}GB is smaller than snapshot "
                f"'{ebs.get('SnapshotId')}', expect size >= {snapshot_gib}GB",
            )
        check_volume(device, asked.get("Ebs", {}), ebs.get("VolumeType", "gp2"))
        by_device[device] = {**base, **asked, "DeviceName": device, "Ebs": ebs}
    return tuple(disk for disk in by_device.values() if "Ebs" in disk)
