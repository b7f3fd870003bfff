# SPDX-License-Identifier: Apache-2.0
"""Every kind through the same life: made, made again, read, listed, shown, patched, applied, replaced, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.e2e.conformance.cases.manifests import MANIFESTS
from tests.e2e.conformance.requests import APPLY, MERGE, TABLE, Request

__all__ = ["requests"]

NAMESPACE = "conf"


def requests() -> Iterator[Request]:
    """Gives the requests."""
    yield from _namespace()
    for (group, version, plural, kind), (namespaced, rest) in MANIFESTS.items():
        yield from _life(group, version, plural, kind, namespaced=namespaced, rest=rest)


def _namespace() -> Iterator[Request]:
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield Request("namespace/make", "POST", "/api/v1/namespaces", made)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    yield Request("namespace/account", "POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    yield Request("namespace/read", "GET", f"/api/v1/namespaces/{NAMESPACE}")


def _life(
    group: str, version: str, plural: str, kind: str, *, namespaced: bool, rest: dict[str, Any]
) -> Iterator[Request]:
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    base = f"{root}/namespaces/{NAMESPACE}/{plural}" if namespaced else f"{root}/{plural}"
    api_version = f"{group}/{version}" if group else version
    head = {"apiVersion": api_version, "kind": kind}
    obj = {**head, "metadata": {"name": "life", "labels": {"conf": "life"}}, **rest}
    name = f"kinds/{plural}"
    yield Request(f"{name}/dry", "POST", f"{base}?dryRun=All", obj)
    yield Request(f"{name}/create", "POST", base, obj)
    yield Request(f"{name}/again", "POST", base, obj)
    yield Request(
        f"{name}/unknown-field",
        "POST",
        f"{base}?fieldValidation=Strict",
        {**obj, "metadata": {"name": "strict"}, "nonsense": 1},
    )
    yield Request(f"{name}/wrong-name", "POST", base, {**obj, "metadata": {"name": "Bad_Name"}})
    # A real server keeps a LimitRange without a name, and takes its time over Services.
    if plural not in {"limitranges", "services"}:
        yield Request(f"{name}/no-name", "POST", base, {**obj, "metadata": {}})
    yield Request(f"{name}/get", "GET", f"{base}/life")
    yield Request(f"{name}/missing", "GET", f"{base}/missing")
    yield Request(f"{name}/list", "GET", f"{base}?labelSelector=conf%3Dlife")
    yield Request(f"{name}/table", "GET", f"{base}?labelSelector=conf%3Dlife", accept=TABLE)
    yield Request(f"{name}/merge", "PATCH", f"{base}/life", {"metadata": {"annotations": {"a": "b"}}}, MERGE)
    yield Request(f"{name}/same", "PATCH", f"{base}/life", {"metadata": {"annotations": {"a": "b"}}}, MERGE)
    applied = {**head, "metadata": {"name": "life", "labels": {"applied": "yes"}}}
    yield Request(f"{name}/apply", "PATCH", f"{base}/life?fieldManager=first", applied, APPLY)
    conflicting = {**head, "metadata": {"name": "life", "labels": {"applied": "no"}}}
    yield Request(f"{name}/apply-conflict", "PATCH", f"{base}/life?fieldManager=second", conflicting, APPLY)
    yield Request(
        f"{name}/apply-force", "PATCH", f"{base}/life?fieldManager=second&force=true", conflicting, APPLY
    )
    stale = {**obj, "metadata": {"name": "life", "resourceVersion": f"{{rv:{name}/create}}"}}
    yield Request(f"{name}/stale", "PUT", f"{base}/life", stale)
    yield Request(f"{name}/after", "GET", f"{base}/life")
    if plural == "pods":
        yield Request(f"{name}/delete", "DELETE", f"{base}/life")
    else:
        yield Request(f"{name}/delete", "DELETE", f"{base}/life?propagationPolicy=Background")
    yield Request(f"{name}/delete-missing", "DELETE", f"{base}/never")
