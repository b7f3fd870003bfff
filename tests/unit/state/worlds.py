# SPDX-License-Identifier: Apache-2.0
"""A cluster on paper: informers that were never started, fed object by object."""

from __future__ import annotations

from typing import Any

import msgspec

from karpenter.api import labels as names
from karpenter.api.base import Frozen
from karpenter.api.core import CSINode, DaemonSet, Namespace, Node, Pod
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kit.clock import FakeClock
from karpenter.kube import Client
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources
from karpenter.state import Cluster, Informers, Stored

_VERSION = iter(range(1, 1_000_000))


def cluster(clock: FakeClock | None = None) -> Cluster:
    """An empty cluster."""
    return Cluster(Informers.of(Client.__new__(Client)), clock=clock or FakeClock())


def put(world: Cluster, *items: Frozen) -> None:
    """Let the informers hear of objects."""
    for item in items:
        _informer(world, item).observe(item)


def remove(world: Cluster, item: Frozen) -> None:
    """Let the informers hear that an object is gone."""
    _informer(world, item).observe_gone(item)


def _informer(world: Cluster, item: Frozen) -> Any:
    informers = world.informers
    if isinstance(item, Stored):
        return informers.pools if item.kind == "NodePool" else informers.classes
    return {
        Pod: informers.pods,
        Node: informers.nodes,
        NodeClaim: informers.claims,
        DaemonSet: informers.daemon_sets,
        Namespace: informers.namespaces,
        CSINode: informers.csi_nodes,
    }[type(item)]


def _made(kind: type[Any], manifest: dict[str, Any]) -> Any:
    manifest["metadata"] = {"resourceVersion": str(next(_VERSION)), **manifest["metadata"]}
    return msgspec.convert(manifest, kind, strict=False)


def pod(
    name: str,
    node: str = "",
    *,
    phase: str = "Pending",
    metadata: Any = None,
    conditions: Any = (),
    **parts: Any,
) -> Pod:
    """A pod of half a core."""
    made: Pod = _made(
        Pod,
        {
            "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", **(metadata or {})},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}],
                **parts,
            },
            "status": {"phase": phase, "conditions": list(conditions)},
        },
    )
    return made


def node(name: str, provider_id: str = "", labels: dict[str, str] | None = None, **parts: Any) -> Node:
    """A node of four cores."""
    made: Node = _made(
        Node,
        {
            "metadata": {"name": name, "labels": labels or {}, **parts.pop("metadata", {})},
            "spec": {"providerID": provider_id, "taints": parts.pop("taints", [])},
            "status": {"allocatable": {"cpu": "3900m", "pods": "58"}, "capacity": {"cpu": "4"}, **parts},
        },
    )
    return made


def claim(
    name: str, pool: str = "default", provider_id: str = "", metadata: Any = None, **status: Any
) -> NodeClaim:
    """A claim for one of two types, launched if it has a provider id."""
    made: NodeClaim = _made(
        NodeClaim,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {names.NODEPOOL: pool},
                **(metadata or {}),
            },
            "spec": {
                "requirements": [
                    {"key": names.INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "m5.xlarge"]},
                    {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                ],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "resources": {"requests": {"cpu": "1500m", "pods": "3"}},
                "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "cni", "effect": "NoSchedule"}],
            },
            "status": {"providerID": provider_id, **status},
        },
    )
    return made


def stored_pool(name: str = "default", *, group: str = "karpenter.k8s.aws", **spec: Any) -> Stored:
    """A NodePool as the server keeps it; without a group it was written through v1beta1."""
    reference = {"kind": "EC2NodeClass", "name": "default"}
    reference |= {"group": group} if group else {"apiVersion": "karpenter.k8s.aws/v1beta1"}
    made: Stored = _made(
        Stored,
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 3},
            "spec": {
                "template": {"spec": {"requirements": [], "nodeClassRef": reference}},
                "limits": {"cpu": "10"},
                **spec,
            },
            "status": {"nodes": 2},
        },
    )
    return made


def stored_class(name: str = "default", **spec: Any) -> Stored:
    """An EC2NodeClass as the server keeps it."""
    whole = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c"}}],
        "role": "node",
        **spec,
    }
    made: Stored = _made(
        Stored,
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": {key: value for key, value in whole.items() if value is not None},
        },
    )
    return made


def catalogue() -> Catalogue:
    """Two types in one zone."""

    def kind(name: str, cpu: str) -> InstanceType:
        size = Resources.parse({"cpu": cpu, "memory": "8Gi", "pods": "29"})
        return InstanceType(name, {}, size, size, (Offering("us-west-2a", "on-demand", 0.1),))

    return Catalogue([kind("m5.large", "2"), kind("m5.xlarge", "4")])
