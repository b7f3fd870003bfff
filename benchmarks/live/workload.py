# SPDX-License-Identifier: Apache-2.0
"""The pods and pools of the rows: those of the scheduler's comparison, as live objects.

Pods have the shapes of ``benchmarks.peers.problems`` and nothing that the API server sets itself. The pool of a row is
that of its shape; for the Go side it names a class of the kwok provider and leaves out what only EC2 types have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.peers.problems import make_problem

__all__ = [
    "CLASS_PATH",
    "KWOK_CLASS_PATH",
    "POD_PATH",
    "POOL_PATH",
    "kwok_pool",
    "node_class",
    "pods",
    "pool",
]

POD_PATH: Final = "/api/v1/namespaces/default/pods"
POOL_PATH: Final = "/apis/karpenter.sh/v1/nodepools"
CLASS_PATH: Final = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
KWOK_CLASS_PATH: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"

_EC2_ONLY: Final = "karpenter.k8s.aws/"
_GRACE_S: Final = 1


def pods(shape: str, count: int, *, prefix: str = "pod") -> list[dict[str, Any]]:
    """Gives the pending pods of a shape, to be created."""
    found = [each for each in make_problem(shape, count)["objects"] if each["kind"] == "Pod"]
    return [_pod(each, f"{prefix}-{number}") for number, each in enumerate(found)]


def pool(shape: str) -> dict[str, Any]:
    """Gives the pool of a shape for our controller; its nodes stay until they are deleted."""
    [found] = [each for each in make_problem(shape, 1)["objects"] if each["kind"] == "NodePool"]
    return _pool(found, found["spec"]["template"])


def kwok_pool(shape: str) -> dict[str, Any]:
    """Gives the same pool for the Go Karpenter's kwok provider."""
    [found] = [each for each in make_problem(shape, 1)["objects"] if each["kind"] == "NodePool"]
    spec = dict(found["spec"]["template"]["spec"])
    spec["nodeClassRef"] = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    spec["requirements"] = [each for each in spec["requirements"] if not each["key"].startswith(_EC2_ONLY)]
    return _pool(found, {"spec": spec})


def node_class() -> dict[str, Any]:
    """Gives the node class of the model's account."""
    tags = {"karpenter.sh/discovery": "sandbox"}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "KarpenterNodeRole-sandbox",
            "subnetSelectorTerms": [{"tags": tags}],
            "securityGroupSelectorTerms": [{"tags": tags}],
        },
    }


def _pool(found: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": found["metadata"]["name"]},
        "spec": {
            **found["spec"],
            "template": template,
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        },
    }


def _pod(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": found["metadata"]["labels"]},
        "spec": {**found["spec"], "terminationGracePeriodSeconds": _GRACE_S},
    }
