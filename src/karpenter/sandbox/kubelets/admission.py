# SPDX-License-Identifier: Apache-2.0
"""Whether a kubelet takes a pod that the scheduler gave it, decided as kubelets do: from what it already runs.

Looked at in the kubelet's order: resources, the node selector, host ports, taints that evict. Extended resources that
the node does not have at all are left to device plugins and refuse nothing. Required node affinity is not looked at:
it cannot have changed since the scheduler did, unless somebody took labels away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from karpenter.api.core import Taint
from karpenter.kit.quantity import QuantityError
from karpenter.model.ports import HostPorts, host_ports
from karpenter.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NO_RESOURCES,
    PODS,
    Resources,
    pod_requests,
    total,
)
from karpenter.model.taints import tolerates
from karpenter.sandbox.kubelets.objects import PodView

__all__ = ["Load", "Refusal", "Room", "admit", "load_of"]

_ALWAYS_COUNTED: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})


class Load(NamedTuple):
    """What a pod takes of its node."""

    requests: Resources
    ports: HostPorts


class Refusal(NamedTuple):
    """Why a pod is not run, in the kubelet's words."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Room:
    """What a node offers to pods."""

    allocatable: Resources
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()


def load_of(pod: PodView) -> Load:
    """Gives what a pod takes; one whose amounts cannot be read takes nothing and will be refused."""
    try:
        return Load(pod_requests(pod), host_ports(pod))
    except QuantityError:
        return Load(NO_RESOURCES, host_ports(pod))


def admit(pod: PodView, room: Room, running: Iterable[Load]) -> Refusal | None:
    """Gives None where the pod may run beside those that are running, else why not."""
    wanted, others = load_of(pod), list(running)
    if not wanted.requests:
        return _refusal("UnexpectedAdmissionError", "the amounts that it asks for cannot be read")
    refusal = _short_of(wanted.requests, room.allocatable, total(each.requests for each in others))
    if refusal is not None:
        return refusal
    if any(room.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return _refusal(
            "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )
    if any(each.ports.conflict(wanted.ports) for each in others):
        return _refusal(
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        )
    if any(each.effect == "NoExecute" and not tolerates(pod.spec.tolerations, each) for each in room.taints):
        return _refusal(
            "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
        )
    return None


def _short_of(asked: Resources, allocatable: Resources, used: Resources) -> Refusal | None:
    for name in sorted(asked, key=lambda each: (each != PODS, each)):
        if name not in _ALWAYS_COUNTED and name not in allocatable:
            continue
        if used[name] + asked[name] > allocatable[name]:
            return _refusal(
                f"OutOf{name}",
                f"Node didn't have enough resource: {name}, requested: {asked[name]}, "
                f"used: {used[name]}, capacity: {allocatable[name]}",
            )
    return None


def _refusal(reason: str, message: str) -> Refusal:
    return Refusal(reason, f"Pod was rejected: {message}")
