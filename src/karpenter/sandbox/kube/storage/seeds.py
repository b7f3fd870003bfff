# SPDX-License-Identifier: Apache-2.0
"""What a new cluster begins with: its namespaces, the system's priority classes and the service of the API itself."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from karpenter.sandbox.kube.engine.engine import Engine

__all__ = ["seed"]

_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_CLASSES: Final = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


def seed(engine: Engine) -> None:
    """Makes what is not there yet."""
    for name in _NAMESPACES:
        _put(
            engine,
            "/namespaces",
            "v1",
            "Namespace",
            name,
            {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
            labels={"kubernetes.io/metadata.name": name},
        )
    for name, (value, said) in _CLASSES.items():
        _put(
            engine,
            "scheduling.k8s.io/priorityclasses",
            "scheduling.k8s.io/v1",
            "PriorityClass",
            name,
            {"value": value, "description": said, "preemptionPolicy": "PreemptLowerPriority"},
            generation=1,
        )
    spec = {
        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    _put(
        engine,
        "/services",
        "v1",
        "Service",
        "kubernetes",
        {"spec": spec, "status": {"loadBalancer": {}}},
        namespace="default",
        labels={"component": "apiserver", "provider": "kubernetes"},
    )


def _put(  # noqa: PLR0913
    engine: Engine,
    kind: str,
    api_version: str,
    name_of_kind: str,
    name: str,
    rest: dict[str, Any],
    *,
    namespace: str = "",
    labels: dict[str, str] | None = None,
    generation: int = 0,
) -> None:
    if engine.store.get(kind, namespace, name) is not None:
        return
    metadata: dict[str, Any] = {"name": name}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": engine.now()}
    metadata |= {"generation": generation} if generation else {}
    metadata |= {"labels": labels} if labels else {}
    engine.store.put(
        kind, {"kind": name_of_kind, "apiVersion": api_version, "metadata": metadata, **rest}, None
    )
