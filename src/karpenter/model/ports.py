# SPDX-License-Identifier: Apache-2.0
"""Host ports: which pods cannot share a node because they want the same port of it.

Decides as Kubernetes' scheduler does, from the ports of containers and sidecars (an ordinary init container
is gone before the others start): port and protocol must be the same, and the addresses equal or one of them
unspecified, which means all. A pod on the host's network takes every port that its containers name. A text
that is no address is taken as it is written and meets only itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final

import msgspec

from karpenter.api.core import ContainerPort, Pod
from karpenter.model.resources import is_sidecar

__all__ = ["NO_PORTS", "HostPort", "HostPorts", "PortConflict", "host_ports"]

# The address that means all addresses of the host.
_ANY: Final = ""


class HostPort(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """A port of the node; an empty ``ip`` means every address of it."""

    port: int
    protocol: str = "TCP"
    ip: str = _ANY

    def meets(self, other: HostPort) -> bool:
        """Tells whether only one of both can be had on a node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or _ANY in (self.ip, other.ip)

    def __str__(self) -> str:
        address = f"[{self.ip}]" if ":" in self.ip else self.ip or "*"
        return f"{address}:{self.port}/{self.protocol}"


class PortConflict(msgspec.Struct, frozen=True, cache_hash=True):
    """A port that is wanted and already taken."""

    wanted: HostPort
    taken: HostPort

    def __str__(self) -> str:
        return f"host port {self.wanted} is taken ({self.taken})"


class HostPorts(msgspec.Struct, frozen=True, cache_hash=True):
    """The host ports of a pod, or of all pods of a node."""

    taken: frozenset[HostPort] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.taken)

    def union(self, other: HostPorts) -> HostPorts:
        """Gives the ports of both."""
        if not other.taken:
            return self
        return HostPorts(self.taken | other.taken) if self.taken else other

    def conflict(self, wanted: HostPorts) -> PortConflict | None:
        """Gives the first port, in order, that is wanted but taken here; None where all are free."""
        if not self.taken or not wanted.taken:
            return None
        by_number: dict[tuple[int, str], list[HostPort]] = {}
        for port in self.taken:
            by_number.setdefault((port.port, port.protocol), []).append(port)
        for want in sorted(wanted.taken):
            rivals = [port for port in by_number.get((want.port, want.protocol), ()) if port.meets(want)]
            if rivals:
                return PortConflict(want, min(rivals))
        return None


NO_PORTS: Final = HostPorts()


def host_ports(pod: Pod) -> HostPorts:
    """Gives the host ports that a pod takes on its node."""
    ports = frozenset(_ports(pod))
    return HostPorts(ports) if ports else NO_PORTS


def _ports(pod: Pod) -> Iterator[HostPort]:
    lasting = (*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers))
    for container in lasting:
        for port in container.ports:
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number > 0:
                yield HostPort(number, port.protocol or "TCP", _address(port))


def _address(port: ContainerPort) -> str:
    if not port.host_ip:
        return _ANY
    try:
        address = ip_address(port.host_ip)
    except ValueError:
        return port.host_ip
    if address.is_unspecified:
        return _ANY
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
