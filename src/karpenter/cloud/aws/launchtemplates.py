# SPDX-License-Identifier: Apache-2.0
"""Launch templates: what is in them, made once, shared by equal launches, removed when nobody uses them.

A template's name is a hash of all its content and tags, so equal launches find the same one, a changed node class
gets another, and one that exists is always the right one: "already exists" is success. Templates are remembered for a
minute after their last use; then ``sweep`` removes them from EC2, unless a launch holds them. After a restart
``hydrate`` finds those that are left from before, so that they are used or removed too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from karpenter.api import labels
from karpenter.api.base import EMPTY
from karpenter.api.ec2nodeclass import ConnectionTracking, MetadataOptions, NetworkInterface
from karpenter.cloud.aws.api import Aws, AwsError
from karpenter.cloud.aws.codes import is_already_there, is_not_found
from karpenter.kit.clock import Clock

__all__ = ["NAME_PREFIX", "LaunchSpec", "LaunchTemplates", "template_data", "template_name"]

NAME_PREFIX: Final = f"{labels.AWS_GROUP}/"

_UNUSED_AFTER_S: Final = 60.0
_DEFAULT_METADATA: Final = MetadataOptions()


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything that a launch template says, settled.

    Attributes:
        image_id: The image.
        user_data: User data in base64.
        block_devices: Volumes in EC2's own shape.
        instance_profile: Name of the instance profile.
        security_group_ids: Security groups of every network interface.
        tags: Tags of the network interfaces and of the template itself.
        metadata: How instances reach the metadata service.
        detailed_monitoring: Whether metrics come every minute.
        public_ip: Whether instances get public addresses; None leaves it to the subnet.
        ip_prefix_count: Address prefixes of each interface.
        ipv6: Whether each interface gets an IPv6 address that stays.
        efa_count: EFA devices, one per network card.
        network_interfaces: Interfaces that the node class asks for; they take the place of ``efa_count``.
        connection_tracking: How long idle connections are remembered.
        nested_virtualization: enabled, disabled or nothing.
        tenancy: default or dedicated; nothing leaves it out.
        placement_group_id: The placement group.
        partition: Its partition.
        enclave: Whether instances may run Nitro enclaves.
        capacity_type: spot, on-demand or reserved.
        reservation_ids: The reservation that reserved instances go into.
        reservation_type: default or capacity-block.
        interruptible: Whether the reservation may be taken back.
        keeps_off_reservations: Whether other launches stay out of open reservations.
    """

    image_id: str
    user_data: str
    security_group_ids: tuple[str, ...]
    block_devices: tuple[Mapping[str, Any], ...] = ()
    instance_profile: str = ""
    tags: Mapping[str, str] = field(default=EMPTY)
    metadata: MetadataOptions = _DEFAULT_METADATA
    detailed_monitoring: bool = False
    public_ip: bool | None = None
    ip_prefix_count: int | None = None
    ipv6: bool = False
    efa_count: int = 0
    network_interfaces: tuple[NetworkInterface, ...] = ()
    connection_tracking: ConnectionTracking | None = None
    nested_virtualization: str = ""
    tenancy: str = ""
    placement_group_id: str = ""
    partition: int | None = None
    enclave: bool = False
    capacity_type: str = labels.ON_DEMAND
    reservation_id: str = ""
    reservation_type: str = "default"
    interruptible: bool = False
    keeps_off_reservations: bool = True


def template_data(spec: LaunchSpec) -> dict[str, Any]:
    """Return the content of a launch template in EC2's shape."""
    data: dict[str, Any] = {
        "ImageId": spec.image_id,
        "UserData": spec.user_data,
        "Monitoring": {"Enabled": spec.detailed_monitoring},
        "MetadataOptions": {
            "HttpEndpoint": spec.metadata.http_endpoint,
            "HttpProtocolIpv6": spec.metadata.http_protocol_ipv6,
            "HttpPutResponseHopLimit": spec.metadata.http_put_response_hop_limit,
            "HttpTokens": spec.metadata.http_tokens,
            # Label keys are no valid tag names there; with tags in the metadata service EC2 refuses the launch.
            "InstanceMetadataTags": "disabled",
        },
        "NetworkInterfaces": _interfaces(spec),
        "TagSpecifications": _tag_specifications(spec),
    }
    if spec.block_devices:
        data["BlockDeviceMappings"] = [dict(device) for device in spec.block_devices]
    if spec.instance_profile:
        data["IamInstanceProfile"] = {"Name": spec.instance_profile}
    placement = _placement(spec)
    if placement:
        data["Placement"] = placement
    if spec.enclave:
        data["EnclaveOptions"] = {"Enabled": True}
    if spec.nested_virtualization:
        data["CpuOptions"] = {"NestedVirtualization": spec.nested_virtualization}
    return data | _reservation(spec)


def _interfaces(spec: LaunchSpec) -> list[dict[str, Any]]:
    if spec.network_interfaces:
        wanted = [
            (each.network_card_index, each.device_index, each.interface_type)
            for each in spec.network_interfaces
        ]
    elif spec.efa_count:
        wanted = [(card, 0 if card == 0 else 1, "efa") for card in range(spec.efa_count)]
    else:
        wanted = [(0, 0, "interface")]
    return [_interface(spec, card, device, kind) for card, device, kind in sorted(wanted)]


def _interface(spec: LaunchSpec, card: int, device: int, kind: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "DeviceIndex": device,
        "NetworkCardIndex": card,
        "InterfaceType": kind,
        "Groups": list(spec.security_group_ids),
        "DeleteOnTermination": True,
    }
    if kind == "efa-only":
        return made  # it has no address, and EC2 refuses whatever is about addresses
    tracking = spec.connection_tracking
    if tracking is not None:
        limits = {
            "TcpEstablishedTimeout": tracking.tcp_established_timeout,
            "UdpStreamTimeout": tracking.udp_stream_timeout,
            "UdpTimeout": tracking.udp_timeout,
        }
        made["ConnectionTrackingSpecification"] = {
            name: seconds for name, seconds in limits.items() if seconds is not None
        }
    if spec.public_ip is not None:
        made["AssociatePublicIpAddress"] = spec.public_ip
    if spec.ip_prefix_count is not None:
        made["Ipv6PrefixCount" if spec.ipv6 else "Ipv4PrefixCount"] = spec.ip_prefix_count
    if spec.ipv6:
        made |= {"PrimaryIpv6": True, "Ipv6AddressCount": 1}
    return made


def _tag_specifications(spec: LaunchSpec) -> list[dict[str, Any]]:
    kinds = ["network-interface"]
    if spec.capacity_type == labels.SPOT:
        kinds.append("spot-instances-request")
    return [{"ResourceType": kind, "Tags": _tags(spec.tags)} for kind in kinds]


def _placement(spec: LaunchSpec) -> dict[str, Any]:
    placement: dict[str, Any] = {}
    if spec.tenancy:
        placement["Tenancy"] = spec.tenancy
    if spec.placement_group_id:
        placement["GroupId"] = spec.placement_group_id
    if spec.partition is not None:
        placement["PartitionNumber"] = spec.partition
    return placement


def _reservation(spec: LaunchSpec) -> dict[str, Any]:
    if spec.capacity_type != labels.RESERVED:
        if not spec.keeps_off_reservations:
            return {}
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    data: dict[str, Any] = {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": spec.reservation_id},
        }
    }
    if spec.reservation_type == "capacity-block":
        data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    elif spec.interruptible:
        data["InstanceMarketOptions"] = {"MarketType": "interruptible-capacity-reservation"}
    return data


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def template_name(spec: LaunchSpec) -> str:
    """Return the name of a template: a hash of all that is in it and on it."""
    content = json.dumps([template_data(spec), _tags(spec.tags)], sort_keys=True, default=str)
    return NAME_PREFIX + hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


class LaunchTemplates:
    """The launch templates of one cluster."""

    def __init__(self, aws: Aws, clock: Clock, *, cluster_name: str) -> None:
        self._aws = aws
        self._clock = clock
        self._cluster_name = cluster_name
        self._last_used: dict[str, float] = {}
        self._held: Counter[str] = Counter()
        self._making: dict[str, asyncio.Lock] = {}

    async def ensure(
        self, spec: LaunchSpec, on_created: Callable[[str, LaunchSpec], None] = lambda _name, _spec: None
    ) -> str:
        """Return the name of the template of a launch, made if need be.

        Args:
            spec: What it says.
            on_created: Is told when it was not there before.

        Raises:
            AwsError: EC2 refuses the template.
            AwsUnreachableError: There was no answer.
        """
        name = template_name(spec)
        async with self._making.setdefault(name, asyncio.Lock()):
            if name not in self._last_used:
                await self._create(name, spec)
                on_created(name, spec)
            self._last_used[name] = self._clock.monotonic()
        return name

    async def _create(self, name: str, spec: LaunchSpec) -> None:
        try:
            await self._aws.call(
                "ec2",
                "CreateLaunchTemplate",
                LaunchTemplateName=name,
                LaunchTemplateData=template_data(spec),
                TagSpecifications=[{"ResourceType": "launch-template", "Tags": _tags(spec.tags)}],
            )
        except AwsError as error:
            if not is_already_there(error.code):
                raise

    @asynccontextmanager
    async def holding(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Keep templates from being swept while a launch names them."""
        held = tuple(names)
        self._held.update(held)
        try:
            yield
        finally:
            self._held.subtract(held)
            for name in held:
                if name in self._last_used:
                    self._last_used[name] = self._clock.monotonic()

    def forget(self, names: Iterable[str]) -> None:
        """Note that EC2 does not know these, so that the next launch makes them again."""
        for name in names:
            self._last_used.pop(name, None)

    async def hydrate(self) -> int:
        """Find the templates that an earlier process of this cluster left, and return how many there are."""
        found = 0
        async for template in self._ours():
            self._last_used.setdefault(template["LaunchTemplateName"], self._clock.monotonic())
            found += 1
        return found

    async def sweep(self) -> tuple[str, ...]:
        """Remove from EC2 what has not been used for a minute, and return the names.

        Raises:
            AwsError: EC2 refuses to delete one; the rest are tried at the next sweep.
        """
        now = self._clock.monotonic()
        unused = [
            name
            for name, used_at in self._last_used.items()
            if now - used_at >= _UNUSED_AFTER_S and not self._held[name]
        ]
        for name in unused:
            async with self._making.setdefault(name, asyncio.Lock()):
                if now - self._last_used.get(name, now) < _UNUSED_AFTER_S or self._held[name]:
                    continue  # somebody came for it while others were being removed
                # Forgotten before it is gone: who wants it meanwhile waits for the lock and makes it again.
                del self._last_used[name]
                await self._delete(name)
            self._making.pop(name, None)
        return tuple(name for name in unused if name not in self._last_used)

    async def delete_of(self, node_class: str) -> int:
        """Remove every template of a node class, known to us or not, and return how many there were."""
        names = [
            template["LaunchTemplateName"]
            async for template in self._ours(
                {"Name": f"tag:{labels.EC2NODECLASS_TAG}", "Values": [node_class]}
            )
        ]
        for name in names:
            self._last_used.pop(name, None)
            await self._delete(name)
        return len(names)

    async def _delete(self, name: str) -> None:
        try:
            await self._aws.call("ec2", "DeleteLaunchTemplate", LaunchTemplateName=name)
        except AwsError as error:
            if not is_not_found(error.code):
                raise

    async def _ours(self, *filters: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        ours = {"Name": f"tag:{labels.EKS_CLUSTER_NAME_TAG}", "Values": [self._cluster_name]}
        async for page in self._aws.pages("ec2", "DescribeLaunchTemplates", Filters=[ours, *filters]):
            for template in page.get("LaunchTemplates", ()):
                if template["LaunchTemplateName"].startswith(NAME_PREFIX):
                    yield template
