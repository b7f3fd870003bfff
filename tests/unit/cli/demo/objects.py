# SPDX-License-Identifier: Apache-2.0
"""API objects as the demo meets them, and a cluster on paper that does what it is told, one step a look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["PaperCluster", "claim", "node", "pod"]

GIB = 1024**3


def pod(name: str, *, on: str = "", phase: str = "", memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    """Give a pod of other/inflate; one with a node runs unless a phase is given."""
    requests = {"memory": memory} if memory else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "other",
            "labels": {"pod-template-hash": "abc"},
            "ownerReferences": [{"name": "inflate-abc"}],
            **more,
        },
        "spec": {"containers": [{"resources": {"requests": requests}}]} | ({"nodeName": on} if on else {}),
        "status": {"phase": phase or ("Running" if on else "Pending")},
    }


def claim(
    name: str, *, instance: str = "", kind: str = "m5.large", pods: int = 5, **more: Any
) -> dict[str, Any]:
    """Give a NodeClaim, launched if it has an instance."""
    labels = {
        "node.kubernetes.io/instance-type": kind,
        "karpenter.sh/capacity-type": "on-demand",
        "topology.kubernetes.io/zone": "us-west-2a",
    }
    status: dict[str, Any] = {"conditions": [{"type": "Initialized", "status": "True"}]}
    if instance:
        status |= {
            "providerID": f"aws:///us-west-2a/{instance}",
            "allocatable": {"memory": "7Gi", "cpu": "2"},
        }
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels if instance else {},
            **more,
        },
        "spec": {
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [kind, "r5.large"]},
            ],
            "resources": {"requests": {"memory": f"{pods}Gi", "pods": str(pods)}},
        },
        "status": status,
    }


def node(name: str, instance: str, *, ready: bool = True) -> dict[str, Any]:
    """Give a Node of an instance."""
    return {
        "metadata": {"name": f"{name}.us-west-2.compute.internal"},
        "spec": {"providerID": f"aws:///us-west-2a/{instance}"},
        "status": {
            "allocatable": {"memory": "8Gi", "cpu": "2"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


class PaperCluster:
    """A cluster, its controller and its account on paper, where every look is a step ahead.

    An m5.large holds six pods; where three are left, a c5.large takes its place.

    Args:
        removes: Whether nodes that nobody needs go by themselves.
        works: Whether pods get nodes at all.
    """

    def __init__(self, *, removes: bool = True, works: bool = True) -> None:
        self.replicas = 0
        self.applied: list[str] = []
        self._removes = removes
        self._works = works
        self._machines: list[tuple[str, str, int]] = []
        self._count = 0

    def apply_all(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Take manifests."""
        self.applied += [each["kind"] for each in manifests]

    def merge(self, path: str, change: Mapping[str, Any]) -> None:
        """Scale."""
        assert path.endswith("/deployments/inflate")
        self.replicas = change["spec"]["replicas"]

    def delete(self, path: str) -> None:
        """Delete all claims."""
        assert path.endswith("/nodeclaims")
        self._machines = []

    def get(self, path: str) -> dict[str, Any]:
        """Give the pool."""
        assert path.endswith("/nodepools/default")
        return {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Give a list; that of claims is a step ahead."""
        del query
        kind = path.rpartition("/")[2]
        if kind == "nodeclaims":
            self._step()
        made: dict[str, list[dict[str, Any]]] = {
            "nodeclaims": [
                claim(name, instance=f"i-{name}" if age > 0 else "", kind=kind, pods=min(self.replicas, 6))
                for name, kind, age in self._machines
            ],
            "nodes": [node(f"ip-{name}", f"i-{name}") for name, _, age in self._machines if age > 1],
            "pods": [self._pod(number) for number in range(self.replicas)],
            "events": [],
        }
        return made[kind]

    def state(self) -> dict[str, Any]:
        """Give the account, as the model does."""
        prices = {"m5.large": 0.096, "c5.large": 0.085}
        return {
            "ec2": {
                "instances": [
                    {"id": f"i-{name}", "pricePerHour": prices[kind]} for name, kind, _ in self._machines
                ]
            }
        }

    def close(self) -> None:
        """Let go."""

    def _step(self) -> None:
        self._machines = [(name, kind, age + 1) for name, kind, age in self._machines]
        needed = -(-self.replicas // 6)
        kind = "m5.large" if self.replicas > 3 else "c5.large"
        if self._removes:
            del self._machines[needed:]
            if kind == "c5.large":
                self._machines = [each for each in self._machines if each[1] == kind]
        while self._works and len(self._machines) < needed:
            self._machines.append((f"c{self._count}", kind, 0))
            self._count += 1

    def _pod(self, number: int) -> dict[str, Any]:
        ready = [name for name, _, age in self._machines if age > 1]
        where = number // 6
        on = f"ip-{ready[where]}.us-west-2.compute.internal" if where < len(ready) else ""
        return pod(f"p{number}", on=on)
