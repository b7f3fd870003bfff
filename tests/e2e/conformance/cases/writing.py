# SPDX-License-Identifier: Apache-2.0
"""Writes of all forms to one config map and one deployment: patches, applies, conflicts, options, bad bodies."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.conformance.cases.kinds import NAMESPACE
from tests.e2e.conformance.cases.manifests import container, deployment
from tests.e2e.conformance.requests import APPLY, JSON_PATCH, MERGE, STRATEGIC, Request

__all__ = ["requests"]

_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


def requests() -> Iterator[Request]:
    """Gives the requests."""
    yield from _plain()
    yield from _options()
    yield from _strategic()
    yield from _apply()
    yield from _bodies()


def _plain() -> Iterator[Request]:
    head = {"apiVersion": "v1", "kind": "ConfigMap"}
    yield Request(
        "write/make",
        "POST",
        f"{_MAPS}?fieldManager=maker",
        {**head, "metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}},
    )
    yield Request("write/generate", "POST", _MAPS, {**head, "metadata": {"generateName": "generated-"}})
    yield Request("write/generate-bad", "POST", _MAPS, {**head, "metadata": {"generateName": "Generated-"}})
    yield Request(
        "write/versioned", "POST", _MAPS, {**head, "metadata": {"name": "v", "resourceVersion": "1"}}
    )
    yield Request(
        "write/other-namespace", "POST", _MAPS, {**head, "metadata": {"name": "v", "namespace": "other"}}
    )
    yield Request(
        "write/no-namespace",
        "POST",
        "/api/v1/namespaces/nowhere/configmaps",
        {**head, "metadata": {"name": "v"}},
    )
    yield Request(
        "write/put", "PUT", f"{_MAPS}/m", {**head, "metadata": {"name": "m"}, "data": {"a": "1", "c": "3"}}
    )
    yield Request(
        "write/put-current",
        "PUT",
        f"{_MAPS}/m",
        {**head, "metadata": {"name": "m", "resourceVersion": "{rv:write/put}"}, "data": {"a": "1"}},
    )
    yield Request(
        "write/put-stale",
        "PUT",
        f"{_MAPS}/m",
        {**head, "metadata": {"name": "m", "resourceVersion": "{rv:write/put}"}, "data": {"a": "9"}},
    )
    yield Request(
        "write/put-uid",
        "PUT",
        f"{_MAPS}/m",
        {**head, "metadata": {"name": "m", "uid": "11111111-2222-3333-4444-555555555555"}},
    )
    yield Request("write/put-other-name", "PUT", f"{_MAPS}/m", {**head, "metadata": {"name": "n"}})
    yield Request("write/put-no-name", "PUT", f"{_MAPS}/m", {**head, "metadata": {}})
    yield Request("write/put-missing", "PUT", f"{_MAPS}/none", {**head, "metadata": {"name": "none"}})
    yield Request(
        "write/put-odd-version",
        "PUT",
        f"{_MAPS}/m",
        {**head, "metadata": {"name": "m", "resourceVersion": "abc"}},
    )
    yield Request("write/merge", "PATCH", f"{_MAPS}/m", {"data": {"a": None, "z": "26"}}, MERGE)
    yield Request("write/merge-missing", "PATCH", f"{_MAPS}/none", {"data": {}}, MERGE)
    yield Request("write/merge-stale", "PATCH", f"{_MAPS}/m", {"metadata": {"resourceVersion": "1"}}, MERGE)
    yield Request("write/merge-rename", "PATCH", f"{_MAPS}/m", {"metadata": {"name": "n"}}, MERGE)
    yield Request("write/merge-type", "PATCH", f"{_MAPS}/m", {"data": {"a": 5}}, MERGE)
    yield Request(
        "write/json-add", "PATCH", f"{_MAPS}/m", [{"op": "add", "path": "/data/k", "value": "v"}], JSON_PATCH
    )
    yield Request(
        "write/json-many",
        "PATCH",
        f"{_MAPS}/m",
        [
            {"op": "test", "path": "/data/k", "value": "v"},
            {"op": "replace", "path": "/data/k", "value": "w"},
            {"op": "copy", "from": "/data/k", "path": "/data/l"},
            {"op": "move", "from": "/data/l", "path": "/data/n"},
            {"op": "remove", "path": "/data/z"},
        ],
        JSON_PATCH,
    )
    yield Request(
        "write/json-test-fails",
        "PATCH",
        f"{_MAPS}/m",
        [{"op": "test", "path": "/data/k", "value": "x"}],
        JSON_PATCH,
    )
    yield Request(
        "write/json-remove-missing",
        "PATCH",
        f"{_MAPS}/m",
        [{"op": "remove", "path": "/data/nope"}],
        JSON_PATCH,
    )
    yield Request(
        "write/json-replace-missing",
        "PATCH",
        f"{_MAPS}/m",
        [{"op": "replace", "path": "/data/nope", "value": "x"}],
        JSON_PATCH,
    )
    yield Request(
        "write/json-deep-missing",
        "PATCH",
        f"{_MAPS}/m",
        [{"op": "add", "path": "/no/where/x", "value": "x"}],
        JSON_PATCH,
    )
    yield Request("write/json-not-a-list", "PATCH", f"{_MAPS}/m", {"op": "add"}, JSON_PATCH)
    yield Request(
        "write/json-odd-op", "PATCH", f"{_MAPS}/m", [{"op": "twist", "path": "/data/a"}], JSON_PATCH
    )
    yield Request("write/patch-type", "PATCH", f"{_MAPS}/m", {"data": {}}, "application/json")
    yield Request("write/after", "GET", f"{_MAPS}/m")


def _options() -> Iterator[Request]:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}}
    yield Request("options/dry-run", "POST", f"{_MAPS}?dryRun=All", head)
    yield Request("options/dry-run-left-nothing", "GET", f"{_MAPS}/o")
    yield Request("options/dry-run-odd", "POST", f"{_MAPS}?dryRun=Some", head)
    yield Request("options/validation-odd", "POST", f"{_MAPS}?fieldValidation=Maybe", head)
    yield Request(
        "options/validation-warn",
        "POST",
        f"{_MAPS}?fieldValidation=Warn&dryRun=All",
        {**head, "extra": 1, "metadata": {"name": "o", "lables": {}}},
    )
    yield Request(
        "options/validation-ignore",
        "POST",
        f"{_MAPS}?fieldValidation=Ignore&dryRun=All",
        {**head, "extra": 1},
    )
    yield Request("options/validation-default", "POST", f"{_MAPS}?dryRun=All", {**head, "extra": 1})
    yield Request("options/manager-long", "POST", f"{_MAPS}?dryRun=All&fieldManager={'m' * 129}", head)
    yield Request("options/force-without-apply", "PATCH", f"{_MAPS}/m?force=true", {}, MERGE)
    yield Request("options/patch-dry-run", "PATCH", f"{_MAPS}/m?dryRun=All", {"data": {"dry": "run"}}, MERGE)
    yield Request("options/put-dry-run", "PUT", f"{_MAPS}/m?dryRun=All", {**head, "metadata": {"name": "m"}})
    yield Request("options/delete-dry-run", "DELETE", f"{_MAPS}/m?dryRun=All")
    yield Request("options/after", "GET", f"{_MAPS}/m")


def _strategic() -> Iterator[Request]:
    yield Request("strategic/make", "POST", f"{_DEPLOYMENTS}?fieldManager=maker", deployment("s"))
    side = {
        "name": "side",
        "image": "side:1",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "value": "1"}],
    }
    for name, patch in (
        ("add-container", {"spec": {"template": {"spec": {"containers": [side]}}}}),
        (
            "change-image",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:2"}]}}}},
        ),
        (
            "merge-env",
            {
                "spec": {
                    "template": {
                        "spec": {"containers": [{"name": "side", "env": [{"name": "B", "value": "2"}]}]}
                    }
                }
            },
        ),
        (
            "delete-env",
            {
                "spec": {
                    "template": {
                        "spec": {"containers": [{"name": "side", "env": [{"name": "A", "$patch": "delete"}]}]}
                    }
                }
            },
        ),
        (
            "delete-container",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}},
        ),
        (
            "order",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "$setElementOrder/containers": [{"name": "new"}, {"name": "main"}],
                            "containers": [{"name": "new", "image": "new:1"}],
                        }
                    }
                }
            },
        ),
        ("recreate", {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        ("replace-labels", {"metadata": {"labels": {"$patch": "replace", "only": "this"}}}),
        ("null", {"metadata": {"labels": {"only": None}}}),
        ("finalizers", {"metadata": {"finalizers": ["conf/a", "conf/b"]}}),
        ("finalizers-more", {"metadata": {"finalizers": ["conf/c"]}}),
        (
            "finalizers-less",
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["conf/a", "conf/b", "conf/c"]}},
        ),
        ("no-merge-key", {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}),
        ("odd-directive", {"spec": {"$patch": "twist"}}),
    ):
        yield Request(
            f"strategic/{name}", "PATCH", f"{_DEPLOYMENTS}/s?fieldManager=patcher", patch, STRATEGIC
        )
    yield Request("strategic/after", "GET", f"{_DEPLOYMENTS}/s")


def _apply() -> Iterator[Request]:
    def config(**spec: object) -> dict[str, object]:
        return deployment("a", **spec)

    def apply(name: str, body: object, query: str = "fieldManager=one") -> Request:
        return Request(f"apply/{name}", "PATCH", f"{_DEPLOYMENTS}/a?{query}", body, APPLY)

    yield apply("create", config(replicas=2))
    yield apply("same", config(replicas=2))
    yield apply("no-manager", config(replicas=2), "")
    yield apply("other-conflict", config(replicas=3), "fieldManager=two")
    yield apply("other-same-value", config(replicas=2), "fieldManager=two")
    yield apply("other-force", config(replicas=3), "fieldManager=two&force=true")
    yield apply("drop-field", config(), "fieldManager=two")
    two = [container(), {"name": "extra", "image": "extra:1", "ports": [{"containerPort": 80}]}]
    template = {"metadata": {"labels": {"app": "a", "tier": "b"}}, "spec": {"containers": two}}
    yield apply("add-container", config(template=template))
    yield apply("drop-container", config())
    yield Request(
        "apply/update-over",
        "PATCH",
        f"{_DEPLOYMENTS}/a?fieldManager=patcher",
        {"spec": {"replicas": 7, "minReadySeconds": 3}},
        MERGE,
    )
    yield apply("conflict-with-update", config(replicas=5, minReadySeconds=4), "fieldManager=one")
    yield apply(
        "managed-fields", {**config(), "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}
    )
    yield apply("unknown-field", {**config(), "nonsense": 1})
    yield apply(
        "unknown-field-strict", {**config(), "nonsense": 1}, "fieldManager=one&fieldValidation=Strict"
    )
    yield apply("unknown-null", config(nonsense=None))
    unnamed = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{**container(), "nonsense": None}]},
    }
    yield apply("unknown-null-in-item", config(template=unnamed))
    yield apply("wrong-type", config(replicas="many"))
    yield apply("wrong-name", {**config(), "metadata": {"name": "b"}})
    yield apply("wrong-kind", {**config(), "kind": "ReplicaSet"})
    yield apply("no-kind", {"metadata": {"name": "a"}})
    yield apply("invalid", config(replicas=-1))
    yield apply("dry-run", config(replicas=9), "fieldManager=three&force=true&dryRun=All")
    yield apply("status-ignored", {**config(), "status": {"replicas": 5}})
    yield Request(
        "apply/yaml",
        "PATCH",
        f"{_DEPLOYMENTS}/a?fieldManager=yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\n  labels:\n    form: yaml\n",
        APPLY,
    )
    yield Request("apply/bad-yaml", "PATCH", f"{_DEPLOYMENTS}/a?fieldManager=yaml", "a: [b", APPLY)
    yield Request("apply/after", "GET", f"{_DEPLOYMENTS}/a")
    yield Request(
        "apply/status",
        "PATCH",
        f"{_DEPLOYMENTS}/a/status?fieldManager=ctl",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a"},
            "status": {"replicas": 1, "observedGeneration": 2},
        },
        APPLY,
    )
    yield Request(
        "apply/clear-managed",
        "PATCH",
        f"{_DEPLOYMENTS}/a?fieldManager=x",
        {"metadata": {"managedFields": [{}]}},
        MERGE,
    )


def _bodies() -> Iterator[Request]:
    yield Request("body/empty", "POST", _MAPS, "")
    yield Request("body/not-json", "POST", _MAPS, "{")
    yield Request("body/list", "POST", _MAPS, [])
    yield Request("body/text", "POST", _MAPS, '"text"')
    yield Request(
        "body/other-kind", "POST", _MAPS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
    )
    yield Request(
        "body/other-version",
        "POST",
        _MAPS,
        {"apiVersion": "v9", "kind": "ConfigMap", "metadata": {"name": "x"}},
    )
    yield Request("body/no-kind", "POST", f"{_MAPS}?dryRun=All", {"metadata": {"name": "x"}})
    yield Request("body/media-type", "POST", _MAPS, {"metadata": {"name": "x"}}, "text/plain")
    yield Request(
        "body/metadata-type", "POST", _MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"}
    )
    yield Request(
        "body/label-type",
        "POST",
        _MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a": 1}}},
    )
    yield Request(
        "body/yaml",
        "POST",
        f"{_MAPS}?dryRun=All",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
        "application/yaml",
    )
    yield Request(
        "body/labels-bad",
        "POST",
        _MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"a b": "c d"}}},
    )
    yield Request(
        "body/annotations-bad",
        "POST",
        _MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "annotations": {"a b": "c"}}},
    )
    yield Request(
        "body/owner-bad",
        "POST",
        _MAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "x", "ownerReferences": [{"kind": "Pod"}]},
        },
    )
    yield Request(
        "body/data-key-bad",
        "POST",
        _MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a b": "c"}},
    )
    yield Request(
        "body/base64-bad",
        "POST",
        f"/api/v1/namespaces/{NAMESPACE}/secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"a": "???"}},
    )
