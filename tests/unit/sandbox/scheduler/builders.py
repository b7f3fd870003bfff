# SPDX-License-Identifier: Apache-2.0
"""Nodes and pods as the API gives them, with keyword options."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from karpenter.sandbox.scheduler import Cluster, PodInfo, read_pod
from karpenter.sandbox.scheduler.matching import Wire

__all__ = ["ZONE", "anti", "cluster", "node", "pod", "spread", "wire_pod"]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
_uids = itertools.count(1)


def node(
    name: str = "n0",
    *,
    cpu: str = "4",
    pods: str = "10",
    zone: str = "a",
    taints: Iterable[Wire] = (),
    unschedulable: bool = False,
    room: Wire | None = None,
    **labels: str,
) -> Wire:
    """Writes a node."""
    allocatable = {"cpu": cpu, "memory": "16Gi", "pods": pods, **(room or {})}
    return {
        "metadata": {"name": name, "labels": {HOST: name, ZONE: zone, **labels}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": allocatable},
    }


def wire_pod(
    name: str = "p",
    *,
    cpu: str = "1",
    on: str = "",
    app: str = "web",
    namespace: str = "default",
    priority: int = 0,
    nominated: str = "",
    status: Wire | None = None,
    requests: Wire | None = None,
    **spec: Any,
) -> Wire:
    """Writes a pod."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, **(requests or {})}}}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{next(_uids)}",
            "labels": {"app": app},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [container], "nodeName": on, "priority": priority, **spec},
        "status": {"phase": "Pending", "nominatedNodeName": nominated, **(status or {})},
    }


def pod(name: str = "p", **options: Any) -> PodInfo:
    """Makes a pod as the scheduler sees it."""
    return read_pod(wire_pod(name, **options))


def cluster(nodes: Iterable[Wire], pods: Iterable[PodInfo] = ()) -> Cluster:
    """Makes a cluster with nodes and the pods that stand on them."""
    made = Cluster()
    for each in nodes:
        made.set_node(each)
    for standing in pods:
        made.set_pod(standing)
    return made


def anti(app: str = "web", key: str = HOST, **term: Any) -> Wire:
    """Writes a required anti-affinity."""
    selector = {"matchLabels": {"app": app}}
    return {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": key, "labelSelector": selector, **term}
            ]
        }
    }


def spread(app: str = "web", key: str = ZONE, **constraint: Any) -> list[Wire]:
    """Writes a spread constraint."""
    return [
        {
            "topologyKey": key,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
            **constraint,
        }
    ]
