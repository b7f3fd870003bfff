# SPDX-License-Identifier: Apache-2.0
"""Nodes and namespaces."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from karpenter.api.base import EMPTY, Frozen, Resources
from karpenter.api.meta import Condition, ObjectMeta

__all__ = [
    "AttachedVolume",
    "Namespace",
    "Node",
    "NodeAddress",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "Taint",
]


class Taint(Frozen):
    """What keeps pods off a node unless they tolerate it."""

    key: str
    effect: str
    value: str = ""
    time_added: datetime | None = None


class NodeSpec(Frozen):
    """Where a node comes from and who may use it."""

    provider_id: str = field(name="providerID", default="")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeAddress(Frozen):
    """A name or address of a node."""

    type: str
    address: str


class NodeSystemInfo(Frozen):
    """What the kubelet says about its machine."""

    architecture: str = ""
    kubelet_version: str = ""
    operating_system: str = ""
    os_image: str = ""


class AttachedVolume(Frozen):
    """A volume that the node holds."""

    name: str
    device_path: str = ""


class NodeStatus(Frozen):
    """Size and health of a node."""

    capacity: Resources = EMPTY
    allocatable: Resources = EMPTY
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    volumes_attached: tuple[AttachedVolume, ...] = ()


class Node(Frozen):
    """A node (v1)."""

    api_version: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Frozen):
    """A namespace (v1); its labels decide which pods a namespaceSelector reaches."""

    api_version: str = "v1"
    kind: str = "Namespace"
    metadata: ObjectMeta = ObjectMeta()
