# SPDX-License-Identifier: Apache-2.0
"""Addresses and names of interfaces: private ones of the subnet's range, public ones, IPv6, and the names made of them.

Private addresses are real: each interface takes one (or a prefix of sixteen) of its subnet's range and gives it back
when its instance is gone. Public addresses are of a range that is not routed on the Internet, so that a mistake meets
no stranger.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from karpenter.sandbox.ec2.compute.records import Instance, Subnet
from karpenter.sandbox.ec2.compute.seam import Params
from karpenter.sandbox.ec2.contract import ModelError

__all__ = [
    "free_addresses",
    "gets_public_address",
    "host_name",
    "host_names",
    "ipv6_of",
    "private_dns_name",
    "public_address",
    "public_dns_name",
    "take_addresses",
]

_PUBLIC: Final = ipaddress.IPv4Network("198.18.0.0/15")
_IPV6_PREFIX_BITS: Final = 80


def take_addresses(subnet: Subnet, count: int) -> tuple[int, ...]:
    """Take that many addresses of the subnet and return their offsets.

    Raises:
        ModelError: There are not that many left.
    """
    if subnet.free_addresses < count:
        raise ModelError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{subnet.id}' to satisfy the requested number of "
            "instances.",
        )
    found: list[int] = []
    offset = subnet.next_offset
    last = subnet.network.num_addresses - 2
    while len(found) < count:
        # Freshly freed addresses are used last, as EC2 tends to, so that a reader can tell machines apart.
        if offset > last:
            offset = 4
        if offset not in subnet.taken:
            subnet.taken.add(offset)
            found.append(offset)
        offset += 1
    subnet.next_offset = offset
    return tuple(found)


def free_addresses(subnet: Subnet, offsets: tuple[int, ...]) -> None:
    """Give addresses back."""
    subnet.taken.difference_update(offsets)


def gets_public_address(subnet: Subnet, interface: Params, interfaces: int) -> bool:
    """Return whether an interface gets a public address: as asked, else as its subnet gives one to a lone interface."""
    if interface.get("DeviceIndex") or interface.get("NetworkCardIndex"):
        return False
    asked = interface.get("AssociatePublicIpAddress")
    return subnet.maps_public_ip and interfaces == 1 if asked is None else bool(asked)


def public_address(seq: int) -> str:
    """Return the public address of the interface with this place in the order of creation."""
    return str(_PUBLIC[seq % _PUBLIC.num_addresses])


def ipv6_of(subnet: Subnet, interface: Params, seq: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the IPv6 addresses and prefixes of an interface: as asked, else one where the subnet assigns them."""
    if not subnet.ipv6_cidr or interface.get("InterfaceType") == "efa-only":
        return (), ()
    network = ipaddress.IPv6Network(subnet.ipv6_cidr)
    asked = tuple(each["Ipv6Address"] for each in interface.get("Ipv6Addresses") or ())
    count = interface.get("Ipv6AddressCount")
    if count is None:
        count = 1 if subnet.assigns_ipv6 or interface.get("PrimaryIpv6") else 0
    # Sixteen bits apart for each interface: EC2 gives no interface that many addresses.
    addresses = asked or tuple(str(network[(seq << 16) + index]) for index in range(count))
    step = 1 << (128 - _IPV6_PREFIX_BITS)
    named = tuple(each["Ipv6Prefix"] for each in interface.get("Ipv6Prefixes") or ())
    prefixes = named or tuple(
        f"{network[(seq * step + index * step) % network.num_addresses]}/{_IPV6_PREFIX_BITS}"
        for index in range(interface.get("Ipv6PrefixCount") or 0)
    )
    return addresses, prefixes


def private_dns_name(region: str, address: str) -> str:
    """Return the host name that EC2 derives from an address."""
    return f"ip-{address.replace('.', '-')}.{_domain(region)}"


def host_names(subnet: Subnet, asked: Params) -> Mapping[str, Any]:
    """Return how a new instance is named: as the launch asks, else as its subnet does."""
    return {
        "HostnameType": subnet.hostname_type,
        "EnableResourceNameDnsARecord": subnet.name_a_records,
        "EnableResourceNameDnsAAAARecord": subnet.name_aaaa_records,
        **asked,
    }


def host_name(region: str, instance: Instance) -> str:
    """Return an instance's private host name, made of its address or of its id."""
    if instance.host_names.get("HostnameType") == "resource-name":
        return f"{instance.id}.{_domain(region)}"
    return private_dns_name(region, instance.address)


def public_dns_name(region: str, address: str) -> str:
    """Return the name that EC2 derives from a public address."""
    domain = "compute-1.amazonaws.com" if region == "us-east-1" else f"{region}.compute.amazonaws.com"
    return f"ec2-{address.replace('.', '-')}.{domain}"


def _domain(region: str) -> str:
    return "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
