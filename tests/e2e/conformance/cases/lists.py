# SPDX-License-Identifier: Apache-2.0
"""Lists: selectors, pages, resource versions; and watches."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from tests.e2e.conformance.requests import MERGE, TABLE, Request

__all__ = ["requests"]

_BASE = "/api/v1/namespaces/lists/configmaps"


def requests() -> Iterator[Request]:
    """Gives the requests."""
    yield Request(
        "list/namespace",
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lists"}},
    )
    for place, colour in enumerate(("red", "green", "red", "blue", "")):
        labels = {"colour": colour, "place": str(place)} if colour else {}
        yield Request(
            f"list/make-{place}",
            "POST",
            _BASE,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{place}", "labels": labels}},
        )
    for name, selector in {
        "equal": "colour=red",
        "double-equal": "colour==red",
        "not-equal": "colour!=red",
        "in": "colour in (red, blue)",
        "not-in": "colour notin (red)",
        "exists": "colour",
        "absent": "!colour",
        "both": "colour=red,place=0",
        "greater": "place>1",
        "empty-value": "colour=",
        "bad": "a b",
        "bad-operator": "a~b",
        "bad-set": "a in b",
        "bad-key": "=x",
        "bad-value": "a=b c",
        "bad-number": "place>x",
    }.items():
        yield Request(f"list/labels/{name}", "GET", f"{_BASE}?labelSelector={quote(selector)}")
    for name, selector in {
        "name": "metadata.name=m1",
        "not-name": "metadata.name!=m1",
        "namespace": "metadata.namespace=lists",
        "unknown": "data.a=b",
        "bad": "metadata.name",
        "two": "metadata.name=m1,metadata.namespace=lists",
    }.items():
        yield Request(f"list/fields/{name}", "GET", f"{_BASE}?fieldSelector={quote(selector)}")
    yield Request("list/fields/pods", "GET", "/api/v1/pods?fieldSelector=spec.color%3Dred")
    yield Request(
        "list/fields/events", "GET", "/api/v1/events?fieldSelector=involvedObject.kind%3DPod,reason%3DNope"
    )
    yield Request("list/page-1", "GET", f"{_BASE}?limit=2")
    yield Request("list/page-2", "GET", f"{_BASE}?limit=2&continue={{continue:list/page-1}}")
    yield Request("list/page-3", "GET", f"{_BASE}?limit=2&continue={{continue:list/page-2}}")
    yield Request("list/page-selected", "GET", f"{_BASE}?limit=1&labelSelector=colour%3Dred")
    yield Request("list/page-odd-token", "GET", f"{_BASE}?limit=1&continue=xyz")
    yield Request("list/limit-odd", "GET", f"{_BASE}?limit=many")
    yield Request("list/version-zero", "GET", f"{_BASE}?resourceVersion=0")
    yield Request("list/version-past", "GET", f"{_BASE}?resourceVersion={{rv:list/make-1}}")
    yield Request(
        "list/version-exact-now",
        "GET",
        f"{_BASE}?resourceVersion={{rv:list/make-4}}&resourceVersionMatch=Exact",
    )
    yield Request(
        "list/version-not-older",
        "GET",
        f"{_BASE}?resourceVersion={{rv:list/make-1}}&resourceVersionMatch=NotOlderThan",
    )
    yield Request("list/version-odd", "GET", f"{_BASE}?resourceVersion=abc")
    yield Request("list/match-alone", "GET", f"{_BASE}?resourceVersionMatch=Exact")
    yield Request("list/match-odd", "GET", f"{_BASE}?resourceVersion=1&resourceVersionMatch=Maybe")
    yield Request("list/match-exact-zero", "GET", f"{_BASE}?resourceVersion=0&resourceVersionMatch=Exact")
    yield Request("list/table", "GET", _BASE, accept=TABLE)
    yield Request("list/table-object", "GET", f"{_BASE}?includeObject=Object&limit=1", accept=TABLE)
    yield Request("list/table-none", "GET", f"{_BASE}?includeObject=None", accept=TABLE)
    yield Request(
        "list/metadata",
        "GET",
        _BASE,
        accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
    )
    yield Request(
        "list/metadata-one",
        "GET",
        f"{_BASE}/m1",
        accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
    )
    yield Request("list/empty", "GET", "/api/v1/namespaces/lists/pods")
    yield Request("list/empty-namespace", "GET", "/api/v1/namespaces/nowhere/pods")
    yield Request("list/change", "PATCH", f"{_BASE}/m0", {"metadata": {"labels": {"colour": "blue"}}}, MERGE)
    yield Request("list/delete", "DELETE", f"{_BASE}/m1")
    watch = f"{_BASE}?watch=true&resourceVersion={{rv:list/make-4}}"
    yield Request("watch/past", "GET", watch, stream_s=1.0)
    yield Request("watch/selected", "GET", f"{watch}&labelSelector=colour%3Dred", stream_s=1.0)
    yield Request("watch/entering", "GET", f"{watch}&labelSelector=colour%3Dblue", stream_s=1.0)
    yield Request(
        "watch/from-zero",
        "GET",
        f"{_BASE}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dm2",
        stream_s=1.0,
    )
    yield Request(
        "watch/from-nothing", "GET", f"{_BASE}?watch=true&fieldSelector=metadata.name%3Dm2", stream_s=1.0
    )
    yield Request("watch/timeout", "GET", f"{watch}&timeoutSeconds=1", stream_s=3.0)
    yield Request(
        "watch/initial",
        "GET",
        f"{_BASE}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dm2",
        stream_s=1.0,
    )
    yield Request(
        "watch/table",
        "GET",
        f"{_BASE}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dm2",
        stream_s=1.0,
        accept=TABLE,
    )
    yield Request("watch/odd-version", "GET", f"{_BASE}?watch=true&resourceVersion=abc")
    yield Request("list/delete-collection", "DELETE", f"{_BASE}?labelSelector=colour%3Dblue")
    yield Request("list/left", "GET", f"{_BASE}?labelSelector=colour")
