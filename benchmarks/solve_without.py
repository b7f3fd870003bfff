# SPDX-License-Identifier: Apache-2.0
"""What if this node went? Consolidation asks it of every node of a cluster, again and again.

A cluster of 1,000 nodes with 20,000 pods of 250 workloads: some spread over zones, some keep apart by host, most say
nothing. For a node at a time, its pods are placed anew on what is left. The yardstick is the same question to a
snapshot that nobody asked before, which has to look at every pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from benchmarks.measure import Row, best_cpu_ms, peak_mib
from karpenter.model.snapshot import NodeView, Snapshot
from karpenter.scheduling import solve
from karpenter.scheduling.problems import read_catalogue, read_problem

__all__ = ["cluster", "run"]

NODES: Final = 1_000
PODS_PER_NODE: Final = 20
WORKLOADS: Final = 250
QUESTIONS: Final = 20
PROMISE: Final = "<= 20 ms CPU a node"

_CATALOGUE: Final = Path(__file__).parent / "peers" / "catalogue.json"
_ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
_ZONE: Final = "topology.kubernetes.io/zone"
_HOSTNAME: Final = "kubernetes.io/hostname"


def run() -> list[Row]:
    """Measure what one question costs, after others and as the first."""
    snapshot = cluster(NODES, PODS_PER_NODE)
    asked = snapshot.nodes[:: NODES // QUESTIONS]
    first = iter(asked * 3)
    return [
        Row(
            benchmark="solve-without",
            what=f"one of {NODES} nodes, {PODS_PER_NODE} of {NODES * PODS_PER_NODE} pods",
            cpu_ms=best_cpu_ms(lambda: _ask_all(snapshot, asked), rounds=3) / len(asked),
            yardstick_ms=best_cpu_ms(lambda: _ask(_unasked(snapshot), next(first)), rounds=3),
            peak_mib=peak_mib(lambda: _ask(snapshot, asked[0])),
            promise=PROMISE,
        )
    ]


def _ask_all(snapshot: Snapshot, nodes: Iterable[NodeView]) -> None:
    for node in nodes:
        _ask(snapshot, node)


def _ask(snapshot: Snapshot, node: NodeView) -> None:
    plan = solve(snapshot.without([node.name]), node.pods)
    assert not plan.rejections


def _unasked(snapshot: Snapshot) -> Snapshot:
    """Return the same cluster as if it had just been read."""
    return Snapshot(
        pools=snapshot.pools,
        nodes=tuple(replace(node) for node in snapshot.nodes),
        daemons=snapshot.daemons,
        storage=snapshot.storage,
        namespaces=snapshot.namespaces,
    )


def cluster(nodes: int, pods_per_node: int) -> Snapshot:
    """Return a cluster whose nodes are about three quarters full."""
    # Not a secret: the point of a seed is that everybody gets the same pods.
    random = Random(1)  # noqa: S311
    objects = [_pool(), *(_node(number) for number in range(nodes)), *_pods(nodes, pods_per_node, random)]
    catalogue = read_catalogue(_CATALOGUE.read_bytes(), str(_CATALOGUE))
    data = json.dumps({"catalogue": _CATALOGUE.name, "objects": objects}).encode()
    return read_problem(data, catalogue, "solve-without").snapshot


def _pool() -> dict[str, Any]:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default", "uid": "pool"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "default",
                    },
                    "requirements": requirements,
                }
            }
        },
    }


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number:04}"
    labels = {
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/initialized": "true",
        "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": "m5.2xlarge",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        _HOSTNAME: name,
        _ZONE: _ZONES[number % len(_ZONES)],
    }
    room = {"cpu": "7910m", "memory": "31Gi", "pods": "58"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def _pods(nodes: int, pods_per_node: int, random: Random) -> Iterator[dict[str, Any]]:
    """Yield bound pods; the replicas of a workload stand on different nodes, evenly over the zones."""
    for number in range(nodes * pods_per_node):
        workload = number % WORKLOADS
        yield _pod(number, workload, f"node-{number % nodes:04}", random)


def _pod(number: int, workload: int, node: str, random: Random) -> dict[str, Any]:
    labels = {"app": f"app-{workload}"}
    selector = {"matchLabels": labels}
    rules: dict[str, Any] = {}
    if workload % 5 == 0:
        spread = {"maxSkew": 5, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        rules = {"topologySpreadConstraints": [{**spread, "labelSelector": selector}]}
    elif workload % 10 == 1:
        term = {"topologyKey": _HOSTNAME, "labelSelector": selector}
        rules = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    requests = {
        "cpu": f"{random.choice((100, 200, 250, 400))}m",
        "memory": f"{random.choice((256, 512, 1024, 2048))}Mi",
    }
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"app-{workload}-{number}",
            "namespace": f"team-{workload % 20}",
            "uid": f"pod-{number}",
            "labels": labels,
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": labels["app"], "uid": labels["app"]}
            ],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
            **rules,
        },
        "status": {"phase": "Running"},
    }
