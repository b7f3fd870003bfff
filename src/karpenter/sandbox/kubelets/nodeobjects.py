# SPDX-License-Identifier: Apache-2.0
"""The objects that a kubelet writes about its node: Node, Lease, CSINode. Pure; the moment is an argument.

The labels are those that nodes of EKS have once the kubelet and the cloud controller have set theirs, and the ones
from the user data. The Node begins with the taint that says it is not ready; who takes that away is the control plane.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter.model.resources import Resources
from karpenter.sandbox.kubelets.behaviour import State
from karpenter.sandbox.kubelets.boot import BOTTLEROCKET, WINDOWS, Boot
from karpenter.sandbox.kubelets.capacity import Size
from karpenter.sandbox.kubelets.machines import Machine
from karpenter.sandbox.kubelets.podstatus import timestamp

__all__ = [
    "Told",
    "csi_labels",
    "csi_node",
    "csi_registrations",
    "kubelet_version",
    "lease",
    "lease_renewal",
    "node_labels",
    "node_object",
    "node_status",
]

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
LEASE_S: Final = 40
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_SYSTEMS: Final = {
    BOTTLEROCKET: "Bottlerocket OS",
    WINDOWS: "Windows Server",
    "AL2": "Amazon Linux 2",
    "AL2023": "Amazon Linux 2023",
}
_HEALTHY: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_EBS_DRIVER: Final = "ebs.csi.aws.com"
_EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"
_VERSION: Final = re.compile(r"(?:^|[-_])1\.(\d{2})(?=-|$)")


@dataclass(frozen=True, slots=True)
class Told:
    """All that is known of a node when its kubelet starts."""

    machine: Machine
    boot: Boot
    size: Size
    devices: Resources
    version: str
    port: int = 10250

    @property
    def name(self) -> str:
        """Gives the node's name."""
        return self.machine.host_name


def kubelet_version(image_name: str, fallback: str = "1.33") -> str:
    """Gives the kubelet's version from the image's name, in EKS's spelling."""
    match = _VERSION.search(image_name)
    minor = f"1.{match[1]}" if match else fallback
    return f"v{minor}.0-eks-{hashlib.sha256(minor.encode()).hexdigest()[:7]}"


def node_labels(told: Told) -> dict[str, str]:
    """Gives the labels with which the node appears."""
    machine = told.machine
    arch = _ARCHITECTURES.get(machine.architecture, machine.architecture)
    system = "windows" if told.boot.family == WINDOWS else "linux"
    own = {
        "kubernetes.io/arch": arch,
        "kubernetes.io/os": system,
        "kubernetes.io/hostname": told.name,
        "beta.kubernetes.io/arch": arch,
        "beta.kubernetes.io/os": system,
        "beta.kubernetes.io/instance-type": machine.instance_type,
        "node.kubernetes.io/instance-type": machine.instance_type,
        "topology.kubernetes.io/region": machine.region,
        "topology.kubernetes.io/zone": machine.zone,
        "failure-domain.beta.kubernetes.io/region": machine.region,
        "failure-domain.beta.kubernetes.io/zone": machine.zone,
    }
    if machine.zone_id:
        own["topology.k8s.aws/zone-id"] = machine.zone_id
    return {**told.boot.kubelet.labels, **own}


def node_object(told: Told, now: datetime) -> dict[str, Any]:
    """Gives the Node as the kubelet registers it: not ready yet."""
    taints = [
        {"key": each.key, "value": each.value, "effect": each.effect} for each in told.boot.kubelet.taints
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": told.name,
            "labels": node_labels(told),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"providerID": told.machine.provider_id, "taints": [*taints, NOT_READY]},
        "status": node_status(told, State(ready=False), now, devices=False, since={}),
    }


def node_status(
    told: Told, state: State, now: datetime, *, devices: bool, since: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """Gives the status that the kubelet reports.

    Args:
        told: The node.
        state: How it is.
        now: The moment of the heartbeat.
        devices: Whether device plugins have reported.
        since: For conditions by type and value, since when they hold; others hold since now.
    """
    more = told.devices if devices else Resources()
    machine = told.machine
    return {
        "capacity": (told.size.capacity + more).to_quantities(),
        "allocatable": (told.size.allocatable + more).to_quantities(),
        "conditions": [
            each
            | {
                "lastHeartbeatTime": timestamp(now),
                "lastTransitionTime": since.get((each["type"], each["status"]), timestamp(now)),
            }
            for each in _conditions(state)
        ],
        "addresses": [
            # A node of an IPv6 cluster is reached by IPv6 alone, and its machine has such an address only there.
            {"type": "InternalIP", "address": machine.ipv6_address or machine.address},
            {"type": "InternalDNS", "address": machine.host_name},
            {"type": "Hostname", "address": machine.host_name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": told.port}},
        "nodeInfo": {
            "machineID": machine.id.removeprefix("i-"),
            "systemUUID": machine.id.removeprefix("i-"),
            "bootID": machine.id.removeprefix("i-"),
            "kernelVersion": "6.1.0",
            "osImage": _SYSTEMS.get(told.boot.family, "Linux"),
            "containerRuntimeVersion": "containerd://2.0.0",
            "kubeletVersion": told.version,
            "kubeProxyVersion": "",
            "operatingSystem": "windows" if told.boot.family == WINDOWS else "linux",
            "architecture": _ARCHITECTURES.get(machine.architecture, machine.architecture),
        },
    }


def lease(node: str, uid: str, now: datetime) -> dict[str, Any]:
    """Gives the node's lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": "kube-node-lease", "ownerReferences": [_owner(node, uid)]},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_S, **lease_renewal(now)},
    }


def lease_renewal(now: datetime) -> dict[str, Any]:
    """Gives what a renewal changes."""
    return {"renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}


def csi_node(told: Told, uid: str, volumes: int) -> dict[str, Any]:
    """Gives the CSINode in which the EBS driver says how many volumes it can attach."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": told.name, "ownerReferences": [_owner(told.name, uid)]},
        "spec": {"drivers": [_driver(told, volumes)]},
    }


def csi_registrations(told: Told, volumes: int) -> list[dict[str, Any]]:
    """Return the changes of a CSINode by which the EBS driver is registered anew: what it said cannot be changed."""
    gone = {"name": _EBS_DRIVER, "$patch": "delete"}
    return [{"spec": {"drivers": [each]}} for each in (gone, _driver(told, volumes))]


def _driver(told: Told, volumes: int) -> dict[str, Any]:
    return {
        "name": _EBS_DRIVER,
        "nodeID": told.machine.id,
        "topologyKeys": ["kubernetes.io/os", _EBS_ZONE, "topology.kubernetes.io/zone"],
        "allocatable": {"count": volumes},
    }


def csi_labels(told: Told) -> dict[str, str]:
    """Gives the labels that the kubelet adds once the EBS driver has registered: where its volumes can be."""
    return {_EBS_ZONE: told.machine.zone}


def _conditions(state: State) -> list[dict[str, str]]:
    found = {
        kind: {"type": kind, "status": "False", "reason": reason, "message": message}
        for kind, reason, message in _HEALTHY
    }
    found["Ready"] = (
        {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }
        if state.ready
        else {
            "type": "Ready",
            "status": "False",
            "reason": "KubeletNotReady",
            "message": "container runtime network not ready: NetworkReady=false",
        }
    )
    for kind, status in state.conditions:
        reason = f"KubeletHas{kind}" if kind.endswith("Pressure") else f"Sandbox{kind}"
        found[kind] = {"type": kind, "status": status, "reason": reason, "message": "set by the sandbox"}
    return list(found.values())


def _owner(node: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
