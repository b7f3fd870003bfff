# SPDX-License-Identifier: Apache-2.0
"""Paths, methods and callers that get nothing, nodes and namespaces, and questions about access."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.conformance.cases.kinds import NAMESPACE
from tests.e2e.conformance.requests import JSON_PATCH, MERGE, STRATEGIC, TABLE, Request

__all__ = ["requests"]


def requests() -> Iterator[Request]:
    """Gives the requests."""
    for name, method, path in (
        ("no-group", "GET", "/apis/nowhere.example/v1"),
        ("no-group-resource", "GET", "/apis/nowhere.example/v1/things"),
        ("no-version", "GET", "/apis/apps/v9"),
        ("no-resource", "GET", "/api/v1/things"),
        ("no-namespaced-resource", "GET", f"/api/v1/namespaces/{NAMESPACE}/things/x"),
        ("no-subresource", "GET", f"/api/v1/namespaces/{NAMESPACE}/pods/x/nonsense"),
        ("no-path", "GET", "/nothing/here"),
        ("put-collection", "PUT", f"/api/v1/namespaces/{NAMESPACE}/pods"),
        ("post-object", "POST", f"/api/v1/namespaces/{NAMESPACE}/pods/x"),
        ("delete-all-namespaces", "DELETE", "/api/v1/namespaces"),
        ("post-all-namespaces", "POST", "/api/v1/pods"),
        ("namespaced-node", "GET", f"/api/v1/namespaces/{NAMESPACE}/nodes"),
        ("group", "GET", "/apis/apps"),
        ("core", "GET", "/api/v1"),
        ("apps", "GET", "/apis/apps/v1"),
        ("policy", "GET", "/apis/policy/v1"),
        ("batch", "GET", "/apis/batch/v1"),
        ("ready", "GET", "/readyz"),
        ("live", "GET", "/livez"),
        ("healthy", "GET", "/healthz"),
    ):
        yield Request(f"path/{name}", method, path, {} if method in {"PUT", "POST"} else None)
    yield Request("caller/none", "GET", "/api/v1/namespaces", headers={"Authorization": ""})
    yield Request("caller/unknown", "GET", "/api/v1/namespaces", headers={"Authorization": "Bearer nobody"})
    yield from _reviews()
    yield from _nodes()
    yield from _namespaces()


def _reviews() -> Iterator[Request]:
    base = "/apis/authorization.k8s.io/v1"
    attributes = {"namespace": "default", "verb": "create", "resource": "pods"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    yield Request("review/self", "POST", f"{base}/selfsubjectaccessreviews", review)
    yield Request("review/get", "GET", f"{base}/selfsubjectaccessreviews")
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "nobody"}}
    yield Request("review/token", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", token)


def _nodes() -> Iterator[Request]:
    base = "/api/v1/nodes"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/worker": ""}},
    }
    yield Request("node/make", "POST", base, {**node, "status": {"capacity": {"cpu": "2"}}})
    yield Request("node/cordon", "PATCH", f"{base}/n1", {"spec": {"unschedulable": True}}, STRATEGIC)
    yield Request(
        "node/taint",
        "PATCH",
        f"{base}/n1",
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        MERGE,
    )
    yield Request(
        "node/taint-effect",
        "PATCH",
        f"{base}/n1",
        {"spec": {"taints": [{"key": "a", "effect": "Odd"}]}},
        MERGE,
    )
    yield Request(
        "node/taint-twice",
        "PATCH",
        f"{base}/n1",
        {
            "spec": {
                "taints": [
                    {"key": "a", "effect": "NoExecute"},
                    {"key": "a", "value": "b", "effect": "NoExecute"},
                ]
            }
        },
        MERGE,
    )
    yield Request("node/provider", "PATCH", f"{base}/n1", {"spec": {"providerID": "aws:///a/i-1"}}, MERGE)
    yield Request(
        "node/provider-changed", "PATCH", f"{base}/n1", {"spec": {"providerID": "aws:///a/i-2"}}, MERGE
    )
    yield Request(
        "node/status",
        "PATCH",
        f"{base}/n1/status",
        {
            "metadata": {"labels": {"from": "kubelet"}},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "not yet"}
                ]
            },
        },
        STRATEGIC,
    )
    yield Request(
        "node/status-merge",
        "PATCH",
        f"{base}/n1/status",
        {
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "DiskPressure", "status": "False"},
                ]
            }
        },
        STRATEGIC,
    )
    yield Request("node/table", "GET", f"{base}/n1", accept=TABLE)
    yield Request("node/selected", "GET", f"{base}?fieldSelector=spec.unschedulable%3Dtrue")
    yield Request("node/delete", "DELETE", f"{base}/n1")


def _namespaces() -> Iterator[Request]:
    base = "/api/v1/namespaces"
    yield Request(
        "ns/make", "POST", base, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}
    )
    yield Request(
        "ns/dots", "POST", base, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a.b"}}
    )
    yield Request("ns/delete", "DELETE", f"{base}/going")
    yield Request(
        "ns/terminating",
        "POST",
        f"{base}/going/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}},
    )
    yield Request("ns/delete-again", "DELETE", f"{base}/going")
    yield Request("ns/table", "GET", f"{base}/going", accept=TABLE)
    yield Request(
        "ns/finalize",
        "PUT",
        f"{base}/going/finalize",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}, "spec": {"finalizers": []}},
    )
    yield Request("ns/gone", "GET", f"{base}/going")
    yield Request(
        "ns/patch-status",
        "PATCH",
        f"{base}/{NAMESPACE}/status",
        [{"op": "add", "path": "/metadata/labels/s", "value": "t"}],
        JSON_PATCH,
    )
