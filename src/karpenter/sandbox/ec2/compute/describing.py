# SPDX-License-Identifier: Apache-2.0
"""DescribeInstances and GetConsoleOutput: how instances are seen from outside.

An instance is shown as lists see it. Its item is made once and kept until what is seen changes; on the wire it is
kept as XML, so that a listing of thousands is a join of texts. Exact filters on tags and states go through indexes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from karpenter.sandbox.ec2.compute.addresses import host_name, private_dns_name, public_dns_name
from karpenter.sandbox.ec2.compute.attachments import association, ipv6_view
from karpenter.sandbox.ec2.compute.filters import Field, cut, matching
from karpenter.sandbox.ec2.compute.instances import visible
from karpenter.sandbox.ec2.compute.listing import tag_list, unknown_id
from karpenter.sandbox.ec2.compute.records import STATE_CODES, Instance, Interface
from karpenter.sandbox.ec2.compute.seam import Params
from karpenter.sandbox.ec2.compute.store import Store
from karpenter.sandbox.ec2.contract import ModelError, Rendered

__all__ = [
    "describe_instances",
    "find_instances",
    "get_console_output",
    "instance_view",
    "named_instances",
    "state_view",
    "warm",
]

_CLOSING: Final = "</item>"
_GONE: Final = frozenset(
    {
        "SubnetId",
        "VpcId",
        "PrivateIpAddress",
        "PublicIpAddress",
        "Ipv6Address",
        "PrivateDnsNameOptions",
        "SourceDestCheck",
    }
)


class _Sight:
    """An instance as filters read it: tags and state are those that lists see."""

    __slots__ = ("instance", "tags")

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.tags: Mapping[str, str] = instance.seen.tags if instance.seen else {}


def _of(name: str) -> Field:
    read = attrgetter(name)
    return lambda sight: read(sight.instance) or None


def _data(*path: str) -> Field:
    def read(sight: _Sight) -> object:
        value: Any = sight.instance.data
        for step in path:
            value = (value or {}).get(step)
        return value

    return read


_FIELDS: Final[Mapping[str, Field]] = {
    "instance-id": _of("id"),
    "instance-type": _of("instance_type"),
    "image-id": _of("image_id"),
    "architecture": _of("architecture"),
    "availability-zone": _of("zone"),
    "availability-zone-id": _of("zone_id"),
    "subnet-id": _of("subnet_id"),
    "network-interface.subnet-id": _of("subnet_id"),
    "vpc-id": _of("vpc_id"),
    "client-token": _of("client_token"),
    "reservation-id": _of("reservation_id"),
    "spot-instance-request-id": _of("spot_request_id"),
    "capacity-reservation-id": _of("capacity_reservation_id"),
    "private-ip-address": _of("address"),
    "iam-instance-profile.arn": _of("profile_arn"),
    "iam-instance-profile.id": _of("profile_id"),
    "instance.group-id": _of("groups"),
    "network-interface.group-id": _of("groups"),
    "platform": _of("platform"),
    "placement-partition-number": _of("partition"),
    "instance-lifecycle": _of("lifecycle"),
    "instance-state-name": lambda sight: sight.instance.seen.state,
    "instance-state-code": lambda sight: STATE_CODES[sight.instance.seen.state],
    "state-reason-code": lambda sight: sight.instance.seen.reason and sight.instance.seen.reason.code,
    "launch-time": lambda sight: f"{sight.instance.launched:%Y-%m-%dT%H:%M:%S}.000Z",
    "placement-group-name": _data("Placement", "GroupName"),
    "tenancy": lambda sight: (sight.instance.data.get("Placement") or {}).get("Tenancy") or "default",
    "key-name": _data("KeyName"),
    "metadata-options.http-tokens": _data("MetadataOptions", "HttpTokens"),
}


def describe_instances(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers DescribeInstances, one reservation per launch."""
    if params.get("InstanceIds") and params.get("MaxResults"):
        raise ModelError(
            "InvalidParameterCombination",
            "The parameter instancesSet cannot be used with the parameter maxResults",
        )
    page, token = find_instances(ec2, params)
    by_reservation: dict[str, list[Any]] = {}
    for instance in page:
        by_reservation.setdefault(instance.reservation_id, []).append(_item(ec2, instance))
    rows = [
        {"ReservationId": key, "OwnerId": ec2.account.id, "Groups": [], "Instances": items}
        for key, items in by_reservation.items()
    ]
    return {"Reservations": rows, **token}


def find_instances(
    ec2: Store, params: Params, fields: Mapping[str, Field] = _FIELDS
) -> tuple[Sequence[Instance], dict[str, str]]:
    """Gives the page of instances that a Describe call asks for, as lists see them.

    Raises:
        ModelError: An id is not there (or not visible yet), a filter or a page size is wrong.
    """
    filters = params.get("Filters") or ()
    chosen: Iterable[Instance]
    if params.get("InstanceIds"):
        chosen = sorted(named_instances(ec2, params["InstanceIds"]), key=lambda each: each.seq)
    else:
        chosen = _narrowed(ec2, filters)
    sights = matching([_Sight(each) for each in chosen if each.seen], filters, fields)
    return cut([sight.instance for sight in sights], params, lambda each: each.seq)


def get_console_output(ec2: Store, params: Params) -> dict[str, Any]:
    """Answers GetConsoleOutput with what such a machine would have written by now."""
    (instance,) = named_instances(ec2, [params["InstanceId"]])
    lines = [f"[    0.000000] Linux version 6.12 ({instance.architecture})"]
    if instance.state != "pending":
        lines.append("[    3.114159] cloud-init: running user data")
    if instance.boot == "never-joins":
        lines.append("kubelet: unable to register node with API server")
    if instance.reason:
        lines.append(f"ec2: {instance.reason.message}")
    return {
        "InstanceId": instance.id,
        "Timestamp": instance.changed or instance.launched,
        "Output": base64.b64encode("\n".join([*lines, ""]).encode()).decode(),
    }


def named_instances(ec2: Store, ids: Sequence[str]) -> list[Instance]:
    """Return the instances of the ids, each once.

    Raises:
        ModelError: One is malformed, not there, or not visible yet.
    """
    for each in ids:
        if not each.startswith("i-"):
            raise ModelError("InvalidInstanceID.Malformed", f'Invalid id: "{each}"')
    absent = [each for each in ids if each not in ec2.instances or not visible(ec2.instances[each])]
    if absent:
        raise unknown_id(*absent)
    return [ec2.instances[each] for each in dict.fromkeys(ids)]


def _narrowed(ec2: Store, filters: Sequence[Params]) -> Iterable[Instance]:
    """Gives the fewest instances among which all that pass the filters are, in the order of creation."""
    best: dict[str, Instance] = ec2.instances
    for each in filters:
        name, values = each.get("Name", ""), each.get("Values") or ()
        if any(letter in value for value in values for letter in "*?\\"):
            continue
        groups: list[dict[str, Instance]]
        if name.startswith("tag:"):
            known: Mapping[str, dict[str, Instance]] = ec2.seen_by_tag.get(name[4:], {})
            groups = [known[value] for value in values if value in known]
        elif name == "instance-state-name":
            groups = [ec2.seen_by_state[value] for value in values if value in ec2.seen_by_state]
        else:
            continue
        if sum(map(len, groups)) < len(best):
            best = {key: instance for group in groups for key, instance in group.items()}
    if best is ec2.instances:
        return best.values()
    return sorted(best.values(), key=lambda instance: instance.seq)


def warm(ec2: Store, instance: Instance) -> None:
    """Renders the part of an instance that stays the same while it lives, so that the first listing is fast too."""
    if ec2.render:
        # The closing tag is left open for what changes; the order of elements means nothing in EC2's answers.
        instance.lasting_xml = ec2.render("Instance", _lasting(ec2, instance)).removesuffix(_CLOSING)


def _item(ec2: Store, instance: Instance) -> Any:
    seen = instance.seen
    if seen is None:
        return instance_view(ec2, instance)
    if seen.item is None:
        seen.item = _rendered(ec2, instance, ec2.render) if ec2.render else instance_view(ec2, instance)
    return seen.item


def _rendered(ec2: Store, instance: Instance, render: Callable[[str, Mapping[str, Any]], str]) -> Rendered:
    if instance.seen and instance.seen.state == "terminated":
        return Rendered(render("Instance", instance_view(ec2, instance)))
    if not instance.lasting_xml:
        warm(ec2, instance)
    changing = render("Instance", _changing(instance)).removeprefix("<item>")
    return Rendered(instance.lasting_xml + changing)


def instance_view(ec2: Store, instance: Instance) -> dict[str, Any]:
    """Gives an instance as DescribeInstances and RunInstances show it."""
    changing = _changing(instance)
    if changing["State"]["Name"] == "terminated":
        gone = {
            "PrivateDnsName": "",
            "SecurityGroups": [],
            "NetworkInterfaces": [],
            "BlockDeviceMappings": [],
        }
        lasting = {key: value for key, value in _lasting(ec2, instance).items() if key not in _GONE}
        return {**lasting, **gone, **changing}
    return {**_lasting(ec2, instance), **changing}


def _changing(instance: Instance) -> dict[str, Any]:
    seen = instance.seen
    reason = seen.reason if seen else instance.reason
    view: dict[str, Any] = {
        "State": state_view(seen.state if seen else instance.state),
        "StateTransitionReason": seen.transition if seen else instance.transition,
        "Tags": tag_list(seen.tags if seen else instance.tags),
    }
    if reason:
        view["StateReason"] = {"Code": reason.code, "Message": reason.message}
    return view


def _lasting(ec2: Store, instance: Instance) -> dict[str, Any]:
    view: dict[str, Any] = {
        "InstanceId": instance.id,
        "ImageId": instance.image_id,
        "InstanceType": instance.instance_type,
        "LaunchTime": instance.launched,
        "AmiLaunchIndex": instance.launch_index,
        "Architecture": instance.architecture,
        "Placement": _placement(ec2, instance),
        "Monitoring": {"State": "enabled" if _enabled(instance, "Monitoring") else "disabled"},
        "ClientToken": instance.client_token,
        "EbsOptimized": bool(instance.data.get("EbsOptimized")),
        "EnaSupport": True,
        "Hypervisor": instance.hypervisor,
        "VirtualizationType": "hvm",
        "RootDeviceName": instance.root_device,
        "RootDeviceType": "ebs",
        "PlatformDetails": "Windows" if instance.platform else "Linux/UNIX",
        "UsageOperation": "RunInstances:0002" if instance.platform else "RunInstances",
        "MetadataOptions": _metadata(instance),
        "EnclaveOptions": {"Enabled": _enabled(instance, "EnclaveOptions")},
        "HibernationOptions": {"Configured": False},
        "CapacityReservationSpecification": instance.data.get("CapacityReservationSpecification")
        or {"CapacityReservationPreference": "open"},
        "ProductCodes": [],
        "PublicDnsName": public_dns_name(ec2.account.region, instance.public_address)
        if instance.public_address
        else "",
    }
    optional = {
        "Platform": "Windows" if instance.platform else "",
        "InstanceLifecycle": instance.lifecycle,
        "SpotInstanceRequestId": instance.spot_request_id,
        "CapacityReservationId": instance.capacity_reservation_id,
        "KeyName": instance.data.get("KeyName"),
        "PublicIpAddress": instance.public_address,
        "Ipv6Address": next((each for nic in instance.interfaces for each in nic.ipv6_addresses), ""),
        "CpuOptions": instance.data.get("CpuOptions"),
        "IamInstanceProfile": instance.profile_arn
        and {"Arn": instance.profile_arn, "Id": instance.profile_id},
    }
    view |= {key: value for key, value in optional.items() if value}
    return view | _attachments(ec2, instance)


def state_view(name: str) -> dict[str, Any]:
    """Return a state as EC2 shows it."""
    return {"Code": STATE_CODES[name], "Name": name}


def _enabled(instance: Instance, key: str) -> bool:
    return bool((instance.data.get(key) or {}).get("Enabled"))


def _placement(ec2: Store, instance: Instance) -> dict[str, Any]:
    asked = instance.data.get("Placement") or {}
    placement: dict[str, Any] = {
        "AvailabilityZone": instance.zone,
        "AvailabilityZoneId": instance.zone_id,
        "Tenancy": asked.get("Tenancy") or "default",
        "GroupName": "",
    }
    group = ec2.placement_groups.get(instance.placement_group_id)
    if group:
        placement |= {"GroupName": group.name, "GroupId": group.id}
    if instance.partition:
        placement["PartitionNumber"] = instance.partition
    return placement


def _metadata(instance: Instance) -> dict[str, Any]:
    return {
        "State": "applied",
        "HttpTokens": "optional",
        "HttpPutResponseHopLimit": 1,
        "HttpEndpoint": "enabled",
        "HttpProtocolIpv6": "disabled",
        "InstanceMetadataTags": "disabled",
        **(instance.data.get("MetadataOptions") or {}),
    }


def _attachments(ec2: Store, instance: Instance) -> dict[str, Any]:
    return {
        "SubnetId": instance.subnet_id,
        "VpcId": instance.vpc_id,
        "PrivateIpAddress": instance.address,
        "PrivateDnsName": host_name(ec2.account.region, instance),
        "PrivateDnsNameOptions": instance.host_names,
        "SourceDestCheck": True,
        "SecurityGroups": ec2.groups_named(instance.groups),
        "NetworkInterfaces": [_interface(ec2, instance, each) for each in instance.interfaces],
        "BlockDeviceMappings": [
            {
                "DeviceName": disk.device,
                "Ebs": {
                    "AttachTime": disk.created,
                    "DeleteOnTermination": disk.spec.get("DeleteOnTermination", True),
                    "Status": "attached",
                    "VolumeId": disk.id,
                },
            }
            for disk in instance.disks
        ],
    }


def _interface(ec2: Store, instance: Instance, interface: Interface) -> dict[str, Any]:
    dns = private_dns_name(ec2.account.region, interface.address) if interface.address else ""
    view: dict[str, Any] = {
        "NetworkInterfaceId": interface.id,
        "OwnerId": ec2.account.id,
        "SubnetId": interface.subnet_id,
        "VpcId": interface.vpc_id,
        "Status": "in-use",
        "SourceDestCheck": True,
        "InterfaceType": interface.spec.get("InterfaceType") or "interface",
        "Description": interface.spec.get("Description") or "",
        "MacAddress": _mac(interface.id),
        "PrivateIpAddress": interface.address,
        "PrivateDnsName": dns,
        "PrivateIpAddresses": [],
        **ipv6_view(interface),
        "Groups": ec2.groups_named(interface.groups),
        "Attachment": {
            "AttachmentId": interface.id.replace("eni-", "eni-attach-"),
            "AttachTime": instance.launched,
            "DeleteOnTermination": interface.spec.get("DeleteOnTermination", True),
            "DeviceIndex": interface.spec.get("DeviceIndex") or 0,
            "NetworkCardIndex": interface.spec.get("NetworkCardIndex") or 0,
            "Status": "attached",
        },
    }
    if interface.address:
        view["PrivateIpAddresses"] = [
            {"Primary": True, "PrivateIpAddress": interface.address, "PrivateDnsName": dns}
        ]
    if interface.public_address:
        view["Association"] = association(ec2, interface)
        view["PrivateIpAddresses"][0]["Association"] = view["Association"]
    if tracking := interface.spec.get("ConnectionTrackingSpecification"):
        view["ConnectionTrackingConfiguration"] = tracking
    return view


def _mac(interface_id: str) -> str:
    digits = interface_id[-10:]
    return ":".join(["06", *(digits[at : at + 2] for at in range(0, 10, 2))])
