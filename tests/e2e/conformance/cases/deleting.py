# SPDX-License-Identifier: Apache-2.0
"""Deletion: finalizers, propagation, preconditions, grace."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.conformance.cases.kinds import NAMESPACE
from tests.e2e.conformance.cases.manifests import deployment, pod
from tests.e2e.conformance.requests import MERGE, TABLE, Request

__all__ = ["requests"]

_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def requests() -> Iterator[Request]:
    """Gives the requests."""
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["conf/hold"]},
    }
    yield Request("delete/held-make", "POST", _MAPS, held)
    yield Request("delete/held", "DELETE", f"{_MAPS}/held")
    yield Request("delete/held-again", "DELETE", f"{_MAPS}/held")
    yield Request("delete/held-read", "GET", f"{_MAPS}/held")
    yield Request("delete/held-table", "GET", f"{_MAPS}/held", accept=TABLE)
    yield Request(
        "delete/held-more-finalizers",
        "PATCH",
        f"{_MAPS}/held",
        {"metadata": {"finalizers": ["conf/hold", "conf/more"]}},
        MERGE,
    )
    yield Request("delete/held-release", "PATCH", f"{_MAPS}/held", {"metadata": {"finalizers": None}}, MERGE)
    yield Request("delete/held-gone", "GET", f"{_MAPS}/held")
    yield Request(
        "delete/bad-finalizer",
        "POST",
        _MAPS,
        {**held, "metadata": {"name": "bf", "finalizers": ["no slash"]}},
    )
    for policy in ("Foreground", "Orphan", "Background"):
        name = policy.lower()
        yield Request(f"delete/{name}-make", "POST", _DEPLOYMENTS, deployment(name), compared=False)
        yield Request(
            f"delete/{name}",
            "DELETE",
            f"{_DEPLOYMENTS}/{name}",
            {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy},
        )
    yield Request("delete/foreground-read", "GET", f"{_DEPLOYMENTS}/foreground")
    yield Request(
        "delete/make", "POST", _MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pre"}}
    )
    yield Request("delete/policy-odd", "DELETE", f"{_MAPS}/pre?propagationPolicy=Maybe")
    yield Request("delete/dry-odd", "DELETE", f"{_MAPS}/pre?dryRun=Maybe")
    yield Request(
        "delete/other-uid",
        "DELETE",
        f"{_MAPS}/pre",
        {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}},
    )
    yield Request(
        "delete/other-version", "DELETE", f"{_MAPS}/pre", {"preconditions": {"resourceVersion": "1"}}
    )
    yield Request("delete/bad-body", "DELETE", f"{_MAPS}/pre", "{")
    yield Request(
        "delete/right-uid", "DELETE", f"{_MAPS}/pre", {"preconditions": {"uid": "{uid:delete/make}"}}
    )
    placed = pod("slow", nodeName="n1")
    yield Request("delete/pod-make", "POST", _PODS, placed, compared=False)
    yield Request("delete/pod", "DELETE", f"{_PODS}/slow")
    yield Request("delete/pod-again", "DELETE", f"{_PODS}/slow")
    yield Request("delete/pod-sooner", "DELETE", f"{_PODS}/slow?gracePeriodSeconds=5")
    yield Request("delete/pod-later", "DELETE", f"{_PODS}/slow?gracePeriodSeconds=50")
    yield Request("delete/pod-read", "GET", f"{_PODS}/slow")
    yield Request("delete/pod-table", "GET", f"{_PODS}/slow", accept=TABLE)
    yield Request("delete/pod-now", "DELETE", f"{_PODS}/slow?gracePeriodSeconds=0")
    yield Request("delete/pod-gone", "GET", f"{_PODS}/slow")
    yield Request("delete/pod-grace-odd", "DELETE", f"{_PODS}/slow?gracePeriodSeconds=x")
    yield Request("delete/pod-grace-endless", "DELETE", f"{_PODS}/slow?gracePeriodSeconds={'9' * 20}")
    for name in ("default", "kube-system", "kube-public"):
        yield Request(f"delete/own-namespace-{name}", "DELETE", f"/api/v1/namespaces/{name}")
    ended = pod("ended", nodeName="n1")
    yield Request("delete/ended-make", "POST", _PODS, ended, compared=False)
    yield Request(
        "delete/ended-status", "PATCH", f"{_PODS}/ended/status", {"status": {"phase": "Succeeded"}}, MERGE
    )
    yield Request("delete/ended", "DELETE", f"{_PODS}/ended")
    yield Request("delete/pods", "DELETE", f"{_PODS}?labelSelector=nothing%3Dhere")
