# SPDX-License-Identifier: Apache-2.0
"""The environment and the ports of a container that is run as a process of this machine.

Containers have addresses of their own, processes do not: each port of a container stands for a free port on loopback.
A variable called ``*_PORT`` whose value is one of the container's ports tells the program that free port instead, so
several pods of one workload listen side by side.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Final

from karpenter.kit.quantity import QuantityError, parse_quantity
from karpenter.sandbox.kubelets.objects import ContainerView, EnvVar, PodView

__all__ = ["environ_of", "free_ports", "port_of"]

_HOST: Final = "127.0.0.1"
_KEYED: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def environ_of(
    pod: PodView, container: ContainerView, host_ip: str, ports: Mapping[int, int]
) -> dict[str, str]:
    """Return the variables of a container, with those that ask for fields of their pod.

    Args:
        pod: The pod.
        container: One of its containers.
        host_ip: The address of the node.
        ports: For each port of the container, the port that stands for it.
    """
    found = {"HOSTNAME": pod.metadata.name}
    for variable in container.env:
        value = _value(pod, container, host_ip, variable)
        known = variable.name.endswith("_PORT") and value.isdecimal()
        found[variable.name] = str(ports.get(int(value), value)) if known else value
    return found


def free_ports(wanted: Iterable[int], kept: Mapping[int, int]) -> dict[int, int]:
    """Return a free port of loopback for each port; the one that it had before, if that is free."""
    found: dict[int, int] = {}
    with ExitStack() as held:
        for port in wanted:
            # All stay bound until every one is found, so that no two get the same.
            probe = held.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, kept.get(port, 0)))
            except OSError:
                probe.bind((_HOST, 0))
            found[port] = probe.getsockname()[1]
    return found


def port_of(container: ContainerView, wanted: int | str) -> int:
    """Return the number of a port that is given by number or by name; 0 if the container has none of that name."""
    if isinstance(wanted, int) or wanted.isdecimal():
        return int(wanted)
    return next((each.container_port for each in container.ports if each.name == wanted), 0)


def _value(pod: PodView, container: ContainerView, host_ip: str, variable: EnvVar) -> str:
    source = variable.value_from
    if source is None:
        return variable.value
    if source.field_ref is not None:
        return _field(pod, host_ip, source.field_ref.field_path)
    if source.resource_field_ref is not None:
        return _amount(container, source.resource_field_ref.resource, source.resource_field_ref.divisor)
    return ""


def _field(pod: PodView, host_ip: str, path: str) -> str:
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        held: Mapping[str, str] = getattr(pod.metadata, keyed[1])
        return held.get(keyed[2], "")
    return {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": host_ip,
        "status.podIP": pod.status.pod_ip,
    }.get(path, "")


def _amount(container: ContainerView, resource: str, divisor: str) -> str:
    kind, _, name = resource.partition(".")
    held = container.resources.limits if kind == "limits" else container.resources.requests
    try:
        amount = parse_quantity(str(held.get(name, "0")))
        unit = parse_quantity(divisor if divisor not in {"", "0"} else "1")
    except QuantityError:
        return ""
    return str(-(-amount.nano // unit.nano))
