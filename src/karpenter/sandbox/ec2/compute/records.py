# SPDX-License-Identifier: Apache-2.0
"""The things an account holds: networks, images, templates, instances and what hangs on them.

Plain mutable records without behaviour of their own; the modules named after them decide. Every record carries
its ``id``, its ``seq`` (the order of creation, which pages follow) and its ``tags``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

__all__ = [
    "STATE_CODES",
    "Allocation",
    "CapacityReservation",
    "Disk",
    "Fleet",
    "Image",
    "Instance",
    "Interface",
    "LaunchTemplate",
    "PlacementGroup",
    "Record",
    "ScheduledEvent",
    "SecurityGroup",
    "Seen",
    "SpotRequest",
    "StateReason",
    "Subnet",
    "TemplateVersion",
    "Vpc",
]

STATE_CODES: Final[Mapping[str, int]] = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}


@dataclass(slots=True, eq=False)
class Record:
    """Anything with an id that can be tagged."""

    kind: ClassVar[str] = ""
    id: str
    seq: int
    tags: dict[str, str]


@dataclass(slots=True, eq=False)
class Vpc(Record):
    """A network."""

    kind: ClassVar[str] = "vpc"
    cidr: str
    is_default: bool = False
    ipv6_cidr: str = ""


@dataclass(slots=True, eq=False)
class Subnet(Record):
    """A range of addresses in one zone; ``taken`` holds the offsets in use."""

    kind: ClassVar[str] = "subnet"
    vpc_id: str
    zone: str
    zone_id: str
    network: ipaddress.IPv4Network
    maps_public_ip: bool = False
    assigns_ipv6: bool = False
    dns64: bool = False
    hostname_type: str = "ip-name"
    name_a_records: bool = False
    name_aaaa_records: bool = False
    ipv6_cidr: str = ""
    taken: set[int] = field(default_factory=set)
    next_offset: int = 4
    extra_taken: int = 0

    @property
    def free_addresses(self) -> int:
        """Counts the addresses left; EC2 keeps the first four and the last one of every subnet."""
        return max(self.network.num_addresses - 5 - len(self.taken) - self.extra_taken, 0)


@dataclass(slots=True, eq=False)
class SecurityGroup(Record):
    """A firewall in one network."""

    kind: ClassVar[str] = "security-group"
    name: str
    description: str
    vpc_id: str


@dataclass(slots=True, eq=False)
class Image(Record):
    """A machine image; ``deprecated_at`` in the past hides it from those who do not ask for deprecated ones."""

    kind: ClassVar[str] = "image"
    name: str
    owner: str
    architecture: str
    created: datetime
    deprecated_at: datetime | None = None
    owner_alias: str = ""
    description: str = ""
    state: str = "available"
    platform: str = ""
    public: bool = True
    root_device: str = "/dev/xvda"
    disks: tuple[Mapping[str, Any], ...] = ()
    source_id: str = ""
    source_region: str = ""


@dataclass(slots=True)
class TemplateVersion:
    """One immutable version of a launch template; ``data`` is as the caller wrote it."""

    number: int
    data: Mapping[str, Any]
    created: datetime
    description: str = ""


@dataclass(slots=True, eq=False)
class LaunchTemplate(Record):
    """A named, versioned set of launch parameters."""

    kind: ClassVar[str] = "launch-template"
    name: str
    created: datetime
    versions: dict[int, TemplateVersion]
    default_version: int = 1

    @property
    def latest_version(self) -> int:
        """Gives the number of the newest version."""
        return max(self.versions)


@dataclass(slots=True)
class Allocation:
    """What a reservation lends to an interruptible one: to which, how many in the end, and how far that is."""

    reservation_id: str
    target: int
    status: str = "active"
    zero_size: str = "default"


@dataclass(slots=True, eq=False)
class CapacityReservation(Record):
    """Paid-for room for one type in one zone; ``used_by`` holds the ids of the instances in it."""

    kind: ClassVar[str] = "capacity-reservation"
    instance_type: str
    zone: str
    total: int
    created: datetime
    starts: datetime
    ends: datetime | None = None
    match: str = "open"
    reservation_type: str = "default"
    interruptible: bool = False
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    owner: str = ""
    cancelled: bool = False
    used_by: set[str] = field(default_factory=set)
    source_id: str = ""
    """The reservation that an interruptible one has its places from."""

    allocation: Allocation | None = None
    """What this reservation lends, if anything."""

    @property
    def available(self) -> int:
        """Counts the places left."""
        return max(self.total - len(self.used_by), 0)


@dataclass(slots=True, eq=False)
class PlacementGroup(Record):
    """A rule about how instances lie apart or together."""

    kind: ClassVar[str] = "placement-group"
    name: str
    strategy: str
    partitions: int = 0
    spread_level: str = ""
    state: str = "available"
    members: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Disk(Record):
    """A volume that came with an instance."""

    kind: ClassVar[str] = "volume"
    instance_id: str
    device: str
    spec: Mapping[str, Any]
    zone: str
    created: datetime


@dataclass(slots=True, eq=False)
class Interface(Record):
    """A network interface that came with an instance."""

    kind: ClassVar[str] = "network-interface"
    instance_id: str
    subnet_id: str
    vpc_id: str
    zone: str
    address: str
    groups: tuple[str, ...]
    spec: Mapping[str, Any]
    offsets: tuple[int, ...] = ()
    public_address: str = ""
    ipv6_addresses: tuple[str, ...] = ()
    ipv6_prefixes: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class SpotRequest(Record):
    """The request that EC2 writes for each spot instance."""

    kind: ClassVar[str] = "spot-instances-request"
    instance_id: str
    created: datetime


@dataclass(slots=True, eq=False)
class Fleet(Record):
    """An instant fleet: what was asked and which instances came of it."""

    kind: ClassVar[str] = "fleet"
    created: datetime
    client_token: str
    instance_ids: tuple[str, ...]
    request: Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class StateReason:
    """Why an instance is in its state, as EC2 codes it."""

    code: str
    message: str


@dataclass(slots=True)
class ScheduledEvent:
    """A reboot, retirement or maintenance that AWS has announced for an instance."""

    id: str
    code: str
    description: str
    not_before: datetime
    not_after: datetime | None = None


@dataclass(slots=True)
class Seen:
    """An instance as lists show it; it trails the truth by the list and tag lags.

    ``item`` is how DescribeInstances tells it, kept until what is seen changes.
    """

    state: str
    reason: StateReason | None
    transition: str
    tags: Mapping[str, str]
    item: Any = None


@dataclass(slots=True, eq=False)
class Instance(Record):
    """One virtual machine: how it was launched, its true state, and how lists see it."""

    kind: ClassVar[str] = "instance"
    reservation_id: str
    instance_type: str
    vcpus: int
    image_id: str
    architecture: str
    capacity_type: str
    zone: str
    zone_id: str
    subnet_id: str
    vpc_id: str
    launched: datetime
    data: Mapping[str, Any]
    launch_index: int = 0
    groups: tuple[str, ...] = ()
    profile_arn: str = ""
    profile_id: str = ""
    client_token: str = ""
    fleet_id: str = ""
    spot_request_id: str = ""
    capacity_reservation_id: str = ""
    lifecycle: str = ""
    placement_group_id: str = ""
    partition: int = 0
    platform: str = ""
    root_device: str = "/dev/xvda"
    hypervisor: str = "xen"
    host_names: Mapping[str, Any] = field(default_factory=dict)
    """The type of the host name and which DNS records it has, as ``PrivateDnsNameOptions``."""
    disks: list[Disk] = field(default_factory=list)
    interfaces: list[Interface] = field(default_factory=list)
    state: str = "pending"
    reason: StateReason | None = None
    transition: str = ""
    changed: datetime | None = None
    boot: str = "joins"
    instance_impaired_since: datetime | None = None
    system_impaired_since: datetime | None = None
    events: list[ScheduledEvent] = field(default_factory=list)
    seen: Seen | None = None
    lasting_xml: str = ""
    """The rendered part of the instance that stays the same while it lives."""

    @property
    def address(self) -> str:
        """Gives the primary private address; a terminated instance has none."""
        return self.interfaces[0].address if self.interfaces else ""

    @property
    def public_address(self) -> str:
        """Return the public address, which the primary interface has if any does."""
        return self.interfaces[0].public_address if self.interfaces else ""

    @property
    def alive(self) -> bool:
        """Return whether the instance is still to be ended: pending, running, stopping or stopped."""
        return self.state not in {"shutting-down", "terminated"}

    @property
    def holds_capacity(self) -> bool:
        """Return whether the instance takes a place of its pool; one that stops has given it back."""
        return self.state in {"pending", "running"}
