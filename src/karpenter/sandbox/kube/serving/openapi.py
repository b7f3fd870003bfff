# SPDX-License-Identifier: Apache-2.0
"""OpenAPI as kubectl needs it: to explain kinds, to check manifests, to merge lists, to know what a patch may say.

Documents are made when first asked for, one a version of a group, and again once the definitions change. They hold
the schemas of the kinds and the paths with the little of them that clients look at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from karpenter.sandbox.kube.kinds.catalogue import Catalogue, Resource
from karpenter.sandbox.kube.kinds.shapes import builtin_facts

__all__ = ["Documents"]

Object = dict[str, Any]
_REF: Final = "#/components/schemas/"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
_VERBS: Final = {
    "collection": (("get", "list"), ("post", "create"), ("delete", "deletecollection")),
    "object": (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete")),
}
_ACTIONS: Final = {"create": "post", "update": "put", "deletecollection": "deletecollection"}


class Documents:
    """The documents of what a catalogue serves."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._made: dict[str, tuple[tuple[int, ...], bytes]] = {}
        self._second: tuple[tuple[int, ...], bytes] | None = None

    def index(self) -> Object:
        """Gives the list of documents."""
        paths: Object = {}
        for group, versions in {"": ["v1"], **self._catalogue.groups()}.items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else "api/v1"
                body = self.document(name)
                if body is not None:
                    digest = hashlib.sha256(body).hexdigest().upper()
                    paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
        return {"paths": paths}

    def document(self, name: str) -> bytes | None:
        """Gives the document of one version of a group, by ``apis/GROUP/VERSION``; None where there is none."""
        parts = name.split("/")
        if parts == ["api", "v1"]:
            group, version = "", "v1"
        elif len(parts) == 3 and parts[0] == "apis":
            group, version = parts[1], parts[2]
        else:
            return None
        found = self._catalogue.of_version(group, version)
        if not found:
            return None
        state = tuple(id(each) for each in found)
        made = self._made.get(name)
        if made is None or made[0] != state:
            made = self._made[name] = (state, msgspec.json.encode(_document(found, "3")))
        return made[1]

    def swagger_head(self) -> bytes:
        """Return the document of OpenAPI 2 in protobuf, without schemas.

        kubectl asks for this form before it applies a List. Without a schema it leaves the check of the items to the
        server, which checks each of them as it comes.
        """
        info = _protobuf(1, b"Kubernetes") + _protobuf(2, str(builtin_facts()["release"]).encode("ascii"))
        return _protobuf(1, b"2.0") + _protobuf(2, info)

    def swagger(self) -> bytes:
        """Gives everything in one document of OpenAPI 2."""
        found = list(self._catalogue)
        state = tuple(id(each) for each in found)
        if self._second is None or self._second[0] != state:
            document = _document(found, "2")
            text = msgspec.json.encode(document).replace(b"#/components/schemas/", b"#/definitions/")
            self._second = (state, text)
        return self._second[1]


def _protobuf(number: int, content: bytes) -> bytes:
    """Return a field of up to 127 bytes as protobuf has it."""
    return bytes((number << 3 | 2, len(content))) + content


def _document(resources: Iterable[Resource], form: str) -> Object:
    schemas: Object = {}
    paths: Object = {}
    for resource in resources:
        kinds = [{"group": resource.group, "version": resource.version, "kind": resource.kind}]
        root = _root_schema(resource, schemas)
        if root:
            _take(schemas, root)
            schemas[root] = {**schemas[root], "x-kubernetes-group-version-kind": kinds}
        paths |= _paths(resource, root)
    info = {"title": "Kubernetes", "version": builtin_facts()["release"]}
    if form == "2":
        return {"swagger": "2.0", "info": info, "paths": paths, "definitions": schemas}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _root_schema(resource: Resource, schemas: Object) -> str:
    if resource.version_spec is None:
        return resource.shape.definition
    reversed_group = ".".join(reversed(resource.group.split(".")))
    name = f"{reversed_group}.{resource.version}.{resource.kind}"
    told = (resource.version_spec.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    text = {"type": "string"}
    properties = {
        **told.get("properties", {}),
        "apiVersion": {**text, **(told.get("properties", {}).get("apiVersion") or {})},
        "kind": {**text, **(told.get("properties", {}).get("kind") or {})},
        "metadata": {"allOf": [{"$ref": _REF + _META}], "description": "Standard object's metadata."},
    }
    schemas[name] = {**told, "properties": properties}
    _take(schemas, _META)
    return name


def _take(schemas: Object, name: str) -> None:
    """Adds a built-in definition and all that it refers to."""
    known = builtin_facts()["schemas"]
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in schemas:
            if each not in known:
                continue
            schemas[each] = _public(known[each])
        waiting += [found for found in _references(schemas[each]) if found not in schemas]


def _public(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _public(value) for key, value in schema.items() if key not in {"x-go", "x-proto"}}
    return [_public(each) for each in schema] if isinstance(schema, list) else schema


def _references(schema: Any) -> Iterable[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


def _paths(resource: Resource, root: str) -> Object:
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = (
        f"{base}/namespaces/{{namespace}}/{resource.plural}"
        if resource.namespaced
        else f"{base}/{resource.plural}"
    )
    paths: Object = {
        place: _operations(resource, resource.kind, "collection", resource.verbs, root),
        f"{place}/{{name}}": _operations(resource, resource.kind, "object", resource.verbs, root),
    }
    if resource.namespaced:
        paths[f"{base}/{resource.plural}"] = _operations(
            resource, resource.kind, "collection", ("list",), root
        )
    for name, entry in resource.subresources.items():
        kind = {
            "group": entry.get("group", resource.group),
            "version": entry.get("version", resource.version),
            "kind": entry["kind"],
        }
        paths[f"{place}/{{name}}/{name}"] = {
            verb: _operation(action, kind, "")
            for verb, action in _VERBS["object"]
            if action in entry["verbs"]
        }
    return {path: operations for path, operations in paths.items() if operations}


def _operations(resource: Resource, kind: str, where: str, verbs: Iterable[str], root: str) -> Object:
    told = {"group": resource.group, "version": resource.version, "kind": kind}
    return {verb: _operation(action, told, root) for verb, action in _VERBS[where] if action in verbs}


def _operation(action: str, kind: Object, root: str) -> Object:
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS.get(action, ())
    ]
    operation: Object = {
        "x-kubernetes-action": _ACTIONS.get(action, action),
        "x-kubernetes-group-version-kind": kind,
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    }
    if root:
        content = {"application/json": {"schema": {"$ref": _REF + root}}}
        operation["responses"] = {"200": {"description": "OK", "content": content}}
    return operation


_PARAMETERS: Final = {
    "create": ("dryRun", "fieldManager", "fieldValidation"),
    "update": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
    "deletecollection": (
        "dryRun",
        "gracePeriodSeconds",
        "propagationPolicy",
        "labelSelector",
        "fieldSelector",
    ),
    "list": ("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch"),
}
