# SPDX-License-Identifier: Apache-2.0
"""Our own definitions, installed while the servers run, and objects of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import yaml

from tests.e2e.conformance.requests import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, Request

__all__ = ["requests"]

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_POOLS = "/apis/karpenter.sh/v1/nodepools"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_THINGS = "/apis/conf.example/v1/namespaces/conf/things"
_MARKS = "/apis/conf.example/v1/marks"


def _definitions() -> list[dict[str, Any]]:
    files = sorted(resources.files("karpenter.api.crds").iterdir(), key=lambda file: file.name)
    return [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files if file.name.endswith(".yaml")]


def _pool(name: str, **template: Any) -> dict[str, Any]:
    told = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
        **template,
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": told}},
    }


def requests() -> Iterator[Request]:
    """Gives the requests."""
    for crd in _definitions():
        name = crd["metadata"]["name"]
        yield Request(f"crd/{name}", "POST", _CRDS, crd, compared=False)
        version = crd["spec"]["versions"][0]["name"]
        path = f"/apis/{crd['spec']['group']}/{version}/{crd['spec']['names']['plural']}"
        yield Request(f"crd/{name}/served", "GET", path, until=200)
    yield Request("crd/read", "GET", f"{_CRDS}/nodepools.karpenter.sh")
    yield Request("crd/table", "GET", f"{_CRDS}/nodepools.karpenter.sh", accept=TABLE)
    yield Request("crd/discovery", "GET", "/apis/karpenter.sh/v1", until=200)
    yield Request("crd/group", "GET", "/apis/karpenter.sh", until=200)
    yield Request("crd/bad-name", "POST", _CRDS, _thing_definition() | {"metadata": {"name": "wrong"}})
    yield from _pools()
    yield from _claims()
    yield from _things()
    yield from _marks()


def _pools() -> Iterator[Request]:
    yield Request("pool/create", "POST", f"{_POOLS}?fieldManager=maker", _pool("p"))
    yield Request("pool/again", "POST", _POOLS, _pool("p"))
    yield Request("pool/get", "GET", f"{_POOLS}/p")
    yield Request("pool/list", "GET", _POOLS)
    yield Request("pool/table", "GET", _POOLS, accept=TABLE)
    yield Request(
        "pool/no-template",
        "POST",
        _POOLS,
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "q"}, "spec": {}},
    )
    yield Request(
        "pool/no-spec",
        "POST",
        _POOLS,
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "q"}},
    )
    yield Request(
        "pool/bad-operator",
        "POST",
        _POOLS,
        _pool("q", requirements=[{"key": "a", "operator": "Near", "values": ["b"]}]),
    )
    yield Request(
        "pool/in-without-values", "POST", _POOLS, _pool("q", requirements=[{"key": "a", "operator": "In"}])
    )
    yield Request("pool/unknown-field", "POST", _POOLS, {**_pool("q"), "extra": 1})
    yield Request(
        "pool/unknown-field-strict", "POST", f"{_POOLS}?fieldValidation=Strict", {**_pool("q2"), "extra": 1}
    )
    yield from _unknown_nulls()
    yield Request("pool/wrong-version", "POST", _POOLS, {**_pool("q"), "apiVersion": "karpenter.sh/v9"})
    yield Request("pool/no-kind", "POST", _POOLS, {"metadata": {"name": "q"}})
    yield Request("pool/other-kind", "POST", _POOLS, {**_pool("q"), "kind": "NodeClaim"})
    yield Request("pool/put-unversioned", "PUT", f"{_POOLS}/p", _pool("p"))
    yield Request(
        "pool/put",
        "PUT",
        f"{_POOLS}/p",
        {**_pool("p", expireAfter="300h"), "metadata": {"name": "p", "resourceVersion": "{rv:pool/create}"}},
    )
    yield Request(
        "pool/put-stale",
        "PUT",
        f"{_POOLS}/p",
        {**_pool("p"), "metadata": {"name": "p", "resourceVersion": "{rv:pool/create}"}},
    )
    yield Request(
        "pool/merge", "PATCH", f"{_POOLS}/p", {"spec": {"weight": 10, "limits": {"cpu": 1000}}}, MERGE
    )
    yield Request("pool/merge-invalid", "PATCH", f"{_POOLS}/p", {"spec": {"weight": 1000}}, MERGE)
    yield Request("pool/merge-type", "PATCH", f"{_POOLS}/p", {"spec": {"weight": "heavy"}}, MERGE)
    yield Request(
        "pool/json",
        "PATCH",
        f"{_POOLS}/p",
        [{"op": "replace", "path": "/spec/weight", "value": 20}],
        JSON_PATCH,
    )
    yield Request("pool/strategic", "PATCH", f"{_POOLS}/p", {"spec": {"weight": 5}}, STRATEGIC)
    yield Request(
        "pool/status",
        "PATCH",
        f"{_POOLS}/p/status",
        {
            "status": {
                "resources": {"cpu": "4"},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "Ready",
                        "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            }
        },
        MERGE,
    )
    yield Request("pool/status-table", "GET", _POOLS, accept=TABLE)
    yield Request(
        "pool/status-ignored", "PATCH", f"{_POOLS}/p", {"status": {"resources": {"cpu": "9"}}}, MERGE
    )
    yield Request("pool/spec-through-status", "PATCH", f"{_POOLS}/p/status", {"spec": {"weight": 99}}, MERGE)
    yield Request(
        "pool/apply",
        "PATCH",
        f"{_POOLS}/p?fieldManager=applier",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "p"},
            "spec": {"weight": 20},
        },
        APPLY,
    )
    yield Request(
        "pool/apply-conflict",
        "PATCH",
        f"{_POOLS}/p?fieldManager=applier",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "p"},
            "spec": {"weight": 30},
        },
        APPLY,
    )
    yield Request(
        "pool/apply-force",
        "PATCH",
        f"{_POOLS}/p?fieldManager=applier&force=true",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "p"},
            "spec": {"weight": 30},
        },
        APPLY,
    )
    yield Request(
        "pool/apply-drop",
        "PATCH",
        f"{_POOLS}/p?fieldManager=applier",
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}},
        APPLY,
    )
    yield Request(
        "pool/apply-unknown",
        "PATCH",
        f"{_POOLS}/p?fieldManager=applier",
        {**_pool("p"), "extra": 1},
        APPLY,
    )
    yield Request(
        "pool/apply-unknown-null",
        "PATCH",
        f"{_POOLS}/p?fieldManager=applier",
        _pool("p", extra=None),
        APPLY,
    )
    yield Request(
        "pool/apply-new-unknown-null",
        "PATCH",
        f"{_POOLS}/m?fieldManager=applier",
        {**_pool("m"), "extra": None},
        APPLY,
    )
    yield Request(
        "pool/merge-unknown-null",
        "PATCH",
        f"{_POOLS}/p?fieldManager=merger&fieldValidation=Strict",
        {"spec": {"extra": None}},
        MERGE,
    )
    yield Request("pool/apply-new", "PATCH", f"{_POOLS}/n?fieldManager=applier", _pool("n"), APPLY)
    yield Request("pool/old-version", "GET", "/apis/karpenter.sh/v1beta1/nodepools/p", until=200)
    yield Request("pool/scale-none", "GET", f"{_POOLS}/p/scale")
    yield Request(
        "pool/delete-held",
        "PATCH",
        f"{_POOLS}/p",
        {"metadata": {"finalizers": ["karpenter.sh/termination"]}},
        MERGE,
    )
    yield Request("pool/delete", "DELETE", f"{_POOLS}/p")
    yield Request("pool/deleting", "GET", f"{_POOLS}/p")
    yield Request("pool/released", "PATCH", f"{_POOLS}/p", {"metadata": {"finalizers": []}}, MERGE)
    yield Request("pool/gone", "GET", f"{_POOLS}/p")
    yield Request("pool/delete-new", "DELETE", f"{_POOLS}/n")


def _unknown_nulls() -> Iterator[Request]:
    """A field that is not in the schema, with a null: refused by name where the caller is strict, dropped otherwise."""
    for name, body in (
        ("top", {**_pool("q3"), "extra": None}),
        ("nested", _pool("q3", extra=None)),
        ("item", _pool("q3", requirements=[{"key": "a", "operator": "Exists", "extra": None}])),
        ("metadata", {**_pool("q3"), "metadata": {"name": "q3", "extra": None}}),
    ):
        yield Request(f"pool/null-{name}-strict", "POST", f"{_POOLS}?fieldValidation=Strict", body)
        yield Request(f"pool/null-{name}", "POST", f"{_POOLS}?dryRun=All", body)


def _claims() -> Iterator[Request]:
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [{"key": "a", "operator": "Exists"}],
    }
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"generateName": "generated-"},
        "spec": spec,
    }
    yield Request("claim/generate", "POST", _CLAIMS, claim)
    yield Request("claim/make", "POST", _CLAIMS, {**claim, "metadata": {"name": "c"}})
    yield Request("claim/immutable", "PATCH", f"{_CLAIMS}/c", {"spec": {"expireAfter": "1h"}}, MERGE)
    yield Request(
        "claim/status",
        "PATCH",
        f"{_CLAIMS}/c/status",
        {"status": {"providerID": "aws:///a/i-1", "nodeName": "n", "capacity": {"cpu": "2000m"}}},
        MERGE,
    )
    yield Request("claim/table", "GET", f"{_CLAIMS}/c", accept=TABLE)
    yield Request("claim/metadata-type", "POST", _CLAIMS, {**claim, "metadata": {"name": 5}})


def _thing_definition() -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 1, "minimum": 0},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                        },
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "either": {"x-kubernetes-int-or-string": True},
                },
                "x-kubernetes-validations": [{"rule": "self.size < 100", "message": "too big"}],
            },
            "status": {
                "type": "object",
                "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}},
            },
        },
    }
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "First", "type": "string", "jsonPath": ".spec.parts[0].name", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.conf.example"},
        "spec": {
            "group": "conf.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            "versions": [version],
        },
    }


def _things() -> Iterator[Request]:
    yield Request("thing/define", "POST", _CRDS, _thing_definition(), compared=False)
    yield Request("thing/served", "GET", _THINGS, until=200)
    thing = {"apiVersion": "conf.example/v1", "kind": "Thing", "metadata": {"name": "t"}}
    yield Request("thing/defaults", "POST", _THINGS, {**thing, "spec": {}})
    yield Request(
        "thing/prunes",
        "PATCH",
        f"{_THINGS}/t",
        {"spec": {"nope": 1, "free": {"any": {"thing": 1}}, "either": "5%"}},
        MERGE,
    )
    yield Request("thing/rule", "PATCH", f"{_THINGS}/t", {"spec": {"size": 500}}, MERGE)
    yield Request("thing/minimum", "PATCH", f"{_THINGS}/t", {"spec": {"size": -1}}, MERGE)
    yield Request("thing/type", "PATCH", f"{_THINGS}/t", {"spec": {"size": "big"}}, MERGE)
    yield Request(
        "thing/apply-parts",
        "PATCH",
        f"{_THINGS}/t?fieldManager=a",
        {**thing, "spec": {"parts": [{"name": "x", "value": "1"}], "tags": ["a", "b"]}},
        APPLY,
    )
    yield Request(
        "thing/apply-more-parts",
        "PATCH",
        f"{_THINGS}/t?fieldManager=b",
        {**thing, "spec": {"parts": [{"name": "y", "value": "2"}], "tags": ["c"]}},
        APPLY,
    )
    yield Request(
        "thing/apply-fewer-parts",
        "PATCH",
        f"{_THINGS}/t?fieldManager=a",
        {**thing, "spec": {"tags": ["b"]}},
        APPLY,
    )
    yield Request(
        "thing/duplicate-parts",
        "PATCH",
        f"{_THINGS}/t",
        {"spec": {"parts": [{"name": "x"}, {"name": "x"}]}},
        MERGE,
    )
    yield Request("thing/scale", "GET", f"{_THINGS}/t/scale")
    yield Request("thing/rescale", "PATCH", f"{_THINGS}/t/scale", {"spec": {"replicas": 7}}, MERGE)
    yield Request("thing/rescale-refused", "PATCH", f"{_THINGS}/t/scale", {"spec": {"replicas": 700}}, MERGE)
    yield Request(
        "thing/status", "PATCH", f"{_THINGS}/t/status", {"status": {"size": 6, "selector": "a=b"}}, MERGE
    )
    yield Request("thing/scale-after", "GET", f"{_THINGS}/t/scale")
    yield Request("thing/table", "GET", _THINGS, accept=TABLE)
    yield Request("thing/watch", "GET", f"{_THINGS}?watch=true&resourceVersion=0", stream_s=1.0)
    yield Request("thing/collection", "DELETE", _THINGS)
    yield Request("thing/undefine", "DELETE", f"{_CRDS}/things.conf.example", compared=False)
    yield Request("thing/unserved", "GET", f"{_THINGS}/t", until=404, compared=False)


def _mark_definition() -> dict[str, Any]:
    status = {
        "type": "object",
        "default": {"level": "low"},
        "properties": {"level": {"type": "string"}, "seen": {"type": "integer", "default": 1}},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object"}, "status": status}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "marks.conf.example"},
        "spec": {
            "group": "conf.example",
            "scope": "Cluster",
            "names": {"plural": "marks", "kind": "Mark"},
            "versions": [version],
        },
    }


def _marks() -> Iterator[Request]:
    """Gives requests about a status that has a default although no sender may set it."""
    yield Request("mark/define", "POST", _CRDS, _mark_definition(), compared=False)
    yield Request("mark/served", "GET", _MARKS, until=200)
    mark = {"apiVersion": "conf.example/v1", "kind": "Mark", "metadata": {"name": "m", "labels": {"a": "a"}}}
    other = {**mark, "metadata": {"name": "n", "labels": {"a": "a"}}}
    yield Request("mark/make", "POST", _MARKS, {**mark, "status": {"level": "high"}})
    yield Request("mark/get", "GET", f"{_MARKS}/m")
    yield Request("mark/change", "PATCH", f"{_MARKS}/m", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    yield Request("mark/status", "PATCH", f"{_MARKS}/m/status", {"status": {"level": "high"}}, MERGE)
    yield Request("mark/no-status", "PATCH", f"{_MARKS}/m/status", {"status": None}, MERGE)
    yield Request("mark/get-again", "GET", f"{_MARKS}/m")
    yield Request("mark/apply", "PATCH", f"{_MARKS}/n?fieldManager=a", other, APPLY)
    yield Request("mark/collection", "DELETE", _MARKS)
    yield Request("mark/undefine", "DELETE", f"{_CRDS}/marks.conf.example", compared=False)
    yield Request("mark/unserved", "GET", _MARKS, until=404, compared=False)
