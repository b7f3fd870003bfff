# SPDX-License-Identifier: Apache-2.0
"""What the pods on a node add up to, all of them and those of DaemonSets alone: pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from karpenter.api.core import Pod
from karpenter.kit.quantity import QuantityError
from karpenter.model.pods import is_daemon, is_terminal
from karpenter.model.resources import NO_RESOURCES, Resources, pod_limits, pod_requests, total

__all__ = ["Load", "load_of"]


@dataclass(frozen=True, slots=True)
class Load:
    """What pods request and are limited to."""

    requests: Resources = NO_RESOURCES
    limits: Resources = NO_RESOURCES
    daemon_requests: Resources = NO_RESOURCES
    daemon_limits: Resources = NO_RESOURCES


def load_of(pods: Iterable[Pod]) -> Load:
    """Adds up the pods that are not over; one whose quantities cannot be read counts for nothing."""
    every: list[tuple[Resources, Resources]] = []
    daemons: list[tuple[Resources, Resources]] = []
    for pod in pods:
        if is_terminal(pod):
            continue
        try:
            amounts = pod_requests(pod), pod_limits(pod)
        except QuantityError:
            continue
        every.append(amounts)
        if is_daemon(pod):
            daemons.append(amounts)
    return Load(
        total(requests for requests, _ in every),
        total(limits for _, limits in every),
        total(requests for requests, _ in daemons),
        total(limits for _, limits in daemons),
    )
