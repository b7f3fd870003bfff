# SPDX-License-Identifier: Apache-2.0
"""The clusters of ``benchmarks.consolidation`` as live objects, the same for both sides: pure.

The catalogue is written in the format of the Go Karpenter's kwok provider, and both sides read that one file. Nodes are
bought by claims that leave nothing open; pods stand on the nodes that the state has them on. Their owners are
ReplicaSets, which adopt them, so that the successor of an evicted pod is a new pod that the real scheduler places.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from benchmarks.consolidation.cluster import DAEMONS, RESOURCES, Cluster, Workload
from benchmarks.consolidation.states import diurnal, third
from karpenter.api import labels as names

__all__ = [
    "NAMESPACE",
    "STATES",
    "budgets",
    "claims",
    "daemon_sets",
    "kwok_catalogue",
    "pods",
    "pool",
    "prices",
    "replica_sets",
]

STATES: Final[Mapping[str, Callable[[int, int], Cluster]]] = {"third": third, "diurnal": diurnal}
NAMESPACE: Final = "default"

# What the kwok provider takes off every type, whatever the file says.
_RESERVED: Final = (100, 10 << 20, 0)
_POOL: Final = "default"
_GRACE_S: Final = 1
# By Karpenter's formula an eviction weighs one more for each of this.
_COST_OF_ONE: Final = 1 << 27


def kwok_catalogue(cluster: Cluster) -> str:
    """Gives everything that can be bought as a file for the kwok provider, allocatable as the state has it."""
    catalogue = cluster.market.catalogue
    found = []
    seen: dict[str, list[int]] = {}
    for position in range(len(catalogue.offerings)):
        seen.setdefault(catalogue.type_at(position).name, []).append(position)
    for name, positions in sorted(seen.items()):
        kind = catalogue.type_at(positions[0])
        cpu, memory, pods_ = (
            have + more
            for have, more in zip(catalogue.vector(positions[0], RESOURCES), _RESERVED, strict=True)
        )
        found.append(
            {
                "name": name,
                "architecture": kind.labels[names.ARCH],
                "operatingSystems": ["linux"],
                "resources": {"cpu": f"{cpu}m", "memory": str(memory), "pods": str(pods_)},
                "offerings": [
                    {
                        "Price": catalogue.offerings[position].price_per_hour,
                        "Available": True,
                        "Requirements": [
                            _is(names.CAPACITY_TYPE, catalogue.offerings[position].capacity_type),
                            _is(names.ZONE, catalogue.offerings[position].zone),
                        ],
                    }
                    for position in positions
                ],
            }
        )
    return json.dumps(found, indent=1)


def prices(catalogue: str) -> dict[tuple[str, str, str], float]:
    """Gives the price of each type, zone and capacity type of a file for the kwok provider."""
    found = {}
    for kind in json.loads(catalogue):
        for offering in kind["offerings"]:
            values = {each["key"]: each["values"][0] for each in offering["Requirements"]}
            found[(kind["name"], values[names.ZONE], values[names.CAPACITY_TYPE])] = offering["Price"]
    return found


def pool(node_class: Mapping[str, str]) -> dict[str, Any]:
    """Gives the pool, which takes nothing away yet."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": _POOL},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": dict(node_class),
                    "expireAfter": "Never",
                    "requirements": [
                        {"key": names.ARCH, "operator": "In", "values": ["amd64", "arm64"]},
                        {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]},
                    ],
                }
            },
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        },
    }


def claims(cluster: Cluster, node_class: Mapping[str, str]) -> list[dict[str, Any]]:
    """Gives a claim for each node, named as the node is in the state."""
    found = []
    for node in cluster.nodes.values():
        kind, offering = (
            cluster.market.catalogue.type_at(node.position),
            cluster.market.catalogue.offerings[node.position],
        )
        used = [
            have - left
            for have, left in zip(
                cluster.market.catalogue.vector(node.position, RESOURCES), cluster.free(node), strict=True
            )
        ]
        found.append(
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {"name": node.name, "labels": {names.NODEPOOL: _POOL}},
                "spec": {
                    "nodeClassRef": dict(node_class),
                    "expireAfter": "Never",
                    "requirements": [
                        _is(names.NODEPOOL, _POOL),
                        _is(names.INSTANCE_TYPE, kind.name),
                        _is(names.ARCH, kind.labels[names.ARCH]),
                        _is(names.ZONE, offering.zone),
                        _is(names.CAPACITY_TYPE, offering.capacity_type),
                    ],
                    "resources": {
                        "requests": {"cpu": f"{used[0]}m", "memory": str(used[1]), "pods": str(used[2])}
                    },
                },
            }
        )
    return found


def pods(cluster: Cluster, node_names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Gives every pod, standing on its node; ``node_names`` has the node of each claim."""
    found = []
    for node in cluster.nodes.values():
        for pod in node.pods.values():
            template = _template(cluster.workloads[pod.workload])
            name = f"{cluster.workloads[pod.workload].name}-{pod.uid}"
            found.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {**template["metadata"], "name": name, "namespace": NAMESPACE},
                    "spec": {**template["spec"], "nodeName": node_names[node.name]},
                }
            )
    return found


def replica_sets(cluster: Cluster) -> list[dict[str, Any]]:
    """Gives the owner of each workload that has pods."""
    found = []
    for name, (workload, number) in _counted(cluster).items():
        found.append(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "replicas": number,
                    "selector": {"matchLabels": {"app": name}},
                    "template": _template(workload),
                },
            }
        )
    return found


def budgets(cluster: Cluster) -> list[dict[str, Any]]:
    """Gives the PodDisruptionBudgets: a tenth of a guarded workload may be away."""
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": name}}},
        }
        for name, (workload, _) in _counted(cluster).items()
        if workload.guarded
    ]


def daemon_sets() -> list[dict[str, Any]]:
    """Gives the DaemonSets; like most, they stay until their node goes."""
    found = []
    for number, (cpu, memory, _) in enumerate(DAEMONS):
        labels = {"daemon": f"daemon-{number}"}
        found.append(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": f"daemon-{number}", "namespace": "kube-system"},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "tolerations": [{"operator": "Exists"}],
                            "terminationGracePeriodSeconds": _GRACE_S,
                            "containers": [_container(cpu, memory)],
                        },
                    },
                },
            }
        )
    return found


def _counted(cluster: Cluster) -> dict[str, tuple[Workload, int]]:
    numbers: dict[int, int] = {}
    for pod in cluster.pods():
        numbers[pod.workload] = numbers.get(pod.workload, 0) + 1
    return {
        cluster.workloads[each].name: (cluster.workloads[each], numbers[each]) for each in sorted(numbers)
    }


def _template(workload: Workload) -> dict[str, Any]:
    labels = {"app": workload.name}
    annotations = {}
    if workload.protected:
        annotations[names.DO_NOT_DISRUPT] = "true"
    if workload.weight > 1:
        annotations["controller.kubernetes.io/pod-deletion-cost"] = str(
            round((workload.weight - 1) * _COST_OF_ONE)
        )
    selector = {}
    if workload.amd64:
        selector[names.ARCH] = "amd64"
    if workload.on_demand:
        selector[names.CAPACITY_TYPE] = "on-demand"
    if workload.zone:
        selector[names.ZONE] = workload.zone
    cpu, memory, _ = workload.size
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": _GRACE_S,
        "nodeSelector": selector,
        "containers": [_container(cpu, memory)],
    }
    if workload.apart:
        term = {"topologyKey": names.HOSTNAME, "labelSelector": {"matchLabels": labels}}
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        }
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _container(cpu: int, memory: int) -> dict[str, Any]:
    return {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": f"{cpu}m", "memory": str(memory)}},
    }


def _is(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}
