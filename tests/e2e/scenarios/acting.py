# SPDX-License-Identifier: Apache-2.0
"""What people type, and what they look at afterwards; the same on every control plane."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tests.e2e.product import Product, wait_for

__all__ = [
    "has_rows_of_describe_node",
    "manifest",
    "node_types",
    "nodes_labelled",
    "rollout",
    "scale",
    "wait_until_ready",
]

_INSTANCE = (
    "category",
    "cpu",
    "family",
    "generation",
    "hypervisor",
    "memory",
    "size",
    "encryption-in-transit-supported",
)
_ROWS = (
    *(f"karpenter.k8s.aws/instance-{name}" for name in _INSTANCE),
    *("karpenter.sh/capacity-type", "karpenter.sh/initialized", "karpenter.sh/nodepool"),
    *("kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os"),
    *("node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone"),
)


def manifest(name: str) -> str:
    """The text of a manifest of the scenarios."""
    return (Path(__file__).parent / "manifests" / f"{name}.yaml").read_text(encoding="utf-8")


def wait_until_ready(product: Product, *names: str) -> None:
    """Wait until objects, each as ``kind/name``, say that they are ready."""
    for each in names:
        kind, _, name = each.partition("/")
        wait_for(functools.partial(product.ready, kind, name), f"{each} is ready", 180)


def rollout(product: Product, name: str, namespace: str = "other", seconds: int = 180) -> None:
    """Wait for a rollout with kubectl."""
    arguments = ("rollout", "status", "-n", namespace, name, f"--timeout={seconds}s")
    product.plane.kubectl(*arguments, timeout_s=seconds + 10)


def scale(product: Product, count: int, name: str = "deploy/inflate", namespace: str = "other") -> None:
    """Scale a Deployment and wait for its rollout, as people do."""
    product.plane.kubectl("scale", "-n", namespace, name, f"--replicas={count}")
    rollout(product, name, namespace)


def nodes_labelled(product: Product, label: str) -> list[dict[str, Any]]:
    """The nodes that a label selects, the oldest first."""
    nodes = product.get("nodes", "-l", label)
    return sorted(nodes, key=lambda node: str(node["metadata"]["creationTimestamp"]))


def node_types(nodes: list[dict[str, Any]]) -> list[str]:
    """The instance types of nodes."""
    return [str(node["metadata"]["labels"]["node.kubernetes.io/instance-type"]) for node in nodes]


def has_rows_of_describe_node(node: dict[str, Any]) -> None:
    """Check that the labels that ``kubectl describe node`` shows are all there."""
    assert [name for name in _ROWS if name not in node["metadata"]["labels"]] == []
