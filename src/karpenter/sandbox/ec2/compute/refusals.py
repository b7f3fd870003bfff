# SPDX-License-Identifier: Apache-2.0
"""What EC2 refuses about the parameters of a launch, whatever capacity there is.

Interfaces, volumes and options of one instance against its type and subnet. Codes are EC2's, as people have reported
them for RunInstances and CreateFleet; the sentences are ours. Each function raises on the first thing that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from karpenter.facts import TypeFacts
from karpenter.sandbox.ec2.compute.capacity import Pool
from karpenter.sandbox.ec2.compute.records import Subnet
from karpenter.sandbox.ec2.compute.seam import Params, invalid
from karpenter.sandbox.ec2.contract import ModelError

__all__ = ["check_interfaces", "check_options", "check_pools", "check_volume"]

_PREFIXES: Final = ("Ipv4PrefixCount", "Ipv4Prefixes", "Ipv6PrefixCount", "Ipv6Prefixes")
_IPV6: Final = ("Ipv6AddressCount", "Ipv6Addresses", "Ipv6PrefixCount", "Ipv6Prefixes", "PrimaryIpv6")
_HOP_LIMITS: Final = range(1, 65)
_PROVISIONED: Final = ("io1", "io2")


def check_interfaces(interfaces: Sequence[Params], known: TypeFacts, subnet: Subnet) -> None:
    """Refuses network interfaces that a type or a subnet cannot have."""
    if len(interfaces) > known.max_interfaces:
        raise ModelError(
            "AttachmentLimitExceeded", f"Interface count {len(interfaces)} exceeds the limit for {known.name}"
        )
    if sum(str(each.get("InterfaceType")).startswith("efa") for each in interfaces) > known.efa_max:
        raise ModelError("Unsupported", f"{known.name} supports at most {known.efa_max} EFA interface(s).")
    if len(interfaces) > 1 and any(each.get("AssociatePublicIpAddress") for each in interfaces):
        raise ModelError(
            "InvalidParameterCombination",
            f"associatePublicIpAddress asks for a public address, and the launch has {len(interfaces)} network "
            "interfaces; it is possible with one alone.",
        )
    _check_places(interfaces, known)
    for each in interfaces:
        _check_addresses(each, known, subnet)


def _check_places(interfaces: Sequence[Params], known: TypeFacts) -> None:
    taken: set[tuple[int, int]] = set()
    for each in interfaces:
        card, device = each.get("NetworkCardIndex") or 0, each.get("DeviceIndex") or 0
        if card >= len(known.network_cards):
            raise ModelError(
                "InvalidParameterValue", f"{known.name} has {len(known.network_cards)} network card(s)."
            )
        # Index 0 belongs to the primary interface, which is on the first card; the others begin with 1.
        last = known.network_cards[card].max_interfaces - (1 if card == 0 else 0)
        if device > last:
            raise invalid(
                device, "deviceIndex", f"Network card {card} of {known.name} has device indexes up to {last}."
            )
        if (card, device) in taken:
            raise invalid(device, "deviceIndex", f"Another interface of network card {card} has it already.")
        taken.add((card, device))


def _check_addresses(interface: Params, known: TypeFacts, subnet: Subnet) -> None:
    prefixes = [name for name in _PREFIXES if interface.get(name)]
    if prefixes and known.hypervisor == "xen":
        raise ModelError(
            "UnsupportedOperation",
            f"{known.name} is no Nitro type, so that its interfaces cannot have prefixes ({prefixes[0]}).",
        )
    addresses = [name for name in _IPV6 if interface.get(name)]
    if addresses and not known.ipv6:
        raise ModelError("UnsupportedOperation", f"IPv6 addresses are not supported on {known.name}")
    if addresses and not subnet.ipv6_cidr:
        raise ModelError(
            "InvalidParameterValue",
            f"{addresses[0]} asks for IPv6, and the subnet {subnet.id} has no IPv6 CIDR block.",
        )
    if interface.get("InterfaceType") == "efa-only":
        asked = [*prefixes, *addresses, *(["AssociatePublicIpAddress"] * _wants_public_address(interface))]
        if asked:
            raise invalid(
                interface[asked[0]], asked[0], "An interface of the type efa-only has no IP addresses."
            )


def _wants_public_address(interface: Params) -> bool:
    return bool(interface.get("AssociatePublicIpAddress"))


def check_volume(device: str, asked: Params, kind: str) -> None:
    """Refuses settings that do not go with the kind of an EBS volume.

    Args:
        device: The name of the device, for the message.
        asked: The volume's settings as the request has them, without those of the image.
        kind: The volume's kind, which may come from the image.
    """
    if kind in _PROVISIONED and not asked.get("Iops"):
        raise ModelError(
            "InvalidParameterCombination", f"The {kind} volume of {device} needs the parameter iops."
        )
    if asked.get("Iops") and kind not in {*_PROVISIONED, "gp3"}:
        raise ModelError(
            "InvalidParameterCombination", f"The {kind} volume of {device} cannot have the parameter iops."
        )
    if asked.get("Throughput") and kind != "gp3":
        raise ModelError(
            "InvalidBlockDeviceMapping",
            f"throughput is for gp3 volumes; that of {device} is a {kind} volume.",
        )


def check_options(data: Params, known: TypeFacts) -> None:
    """Refuses metadata, CPU and enclave options that EC2 or the type does not know."""
    hops = (data.get("MetadataOptions") or {}).get("HttpPutResponseHopLimit")
    if hops is not None and hops not in _HOP_LIMITS:
        raise invalid(
            hops,
            "HttpPutResponseHopLimit",
            f"It is a number from {_HOP_LIMITS.start} to {_HOP_LIMITS.stop - 1}.",
        )
    nested = (data.get("CpuOptions") or {}).get("NestedVirtualization") == "enabled"
    if nested and "nested-virtualization" not in known.processor_features:
        raise ModelError("UnsupportedOperation", f"{known.name} does not support nested virtualization.")
    if (data.get("EnclaveOptions") or {}).get("Enabled") and not known.nitro_enclaves:
        raise ModelError("UnsupportedOperation", f"{known.name} does not support Nitro Enclaves.")


def check_pools(pools: Iterable[Pool]) -> None:
    """Refuses a fleet that names a pool twice: one type in one zone, whatever the subnet or the template."""
    seen: set[tuple[str, str]] = set()
    for pool in pools:
        place = pool.instance_type, pool.zone
        # A type or a zone that is missing is an error of its own, told for each override.
        if not all(place):
            continue
        if place in seen:
            raise ModelError(
                "InvalidFleetConfig",
                f"The fleet names the instance pool {pool.instance_type} in {pool.zone} more than once.",
            )
        seen.add(place)
