# SPDX-License-Identifier: Apache-2.0
"""Host ports: which two pods cannot share a node."""

from __future__ import annotations

from collections.abc import Iterator

from karpenter.api.core import Pod

__all__ = ["clash"]


def clash(one: Pod, other: Pod) -> str:
    """Name a port that both pods want of their node; empty where there is none."""
    for number, protocol, address in _taken(one):
        for other_number, other_protocol, other_address in _taken(other):
            if (number, protocol) == (other_number, other_protocol) and (
                address == other_address or "" in (address, other_address)
            ):
                return f"{protocol} {number}"
    return ""


def _taken(pod: Pod) -> Iterator[tuple[int, str, str]]:
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number:
                everywhere = port.host_ip in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound to
                yield number, port.protocol or "TCP", "" if everywhere else port.host_ip
