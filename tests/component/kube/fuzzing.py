# SPDX-License-Identifier: Apache-2.0
"""Requests that nobody should send, made from the OpenAPI documents that the server itself serves.

Bodies follow the schema of their kind and are then spoilt somewhere; paths, queries, patches, selectors and content
types are spoilt too. One seed always gives the same requests.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

__all__ = ["Fuzzer", "Shot", "kinds_of"]

_REF: Final = "#/components/schemas/"
_NAMES: Final = ("a", "a", "a", "a", "b", "b", "default", "x.y")
_ODD_NAMES: Final = (
    *(
        "A",
        "a_b",
        "-",
        "a" * 254,
        "..",
        ".",
        "%2e%2e",
        "%00",
        "%ff%fe",
        "a%2Fb",
        "é",
        "a b",
        "{name}",
        "%",
        "'",
    ),
    *("status", "namespaces", "0", "null"),
)
_NAMESPACES: Final = (*["default"] * 12, "kube-system", "kube-system", "none", "%ff", "D")
_SCALARS: Final = (
    *(None, True, False, 0, -1, 1, 1.5, 1e308, 2**31, 2**63, 2**70, -(2**63) - 1, "", "x", "0", "-1", "true"),
    *(
        "{}",
        "\x00",
        "é" * 40,
        "a" * 300,
        "50%",
        "1Gi",
        "1e400",
        "0x10",
        "2020-01-01T00:00:00Z",
        "9999-99-99",
        "10s",
    ),
    *(
        "ClusterIP",
        "RollingUpdate",
        "In",
        "Exists",
        "NoSchedule",
        "self.x > 1",
        "self == oldSelf",
        "^[a-",
        "*/5 * * * *",
    ),
)
_WORDS: Final = (
    *(
        "spec",
        "metadata",
        "status",
        "name",
        "labels",
        "$patch",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/x",
    ),
    *(
        "$retainKeys",
        "containers",
        "finalizers",
        "ownerReferences",
        "managedFields",
        "x-kubernetes-validations",
        "",
    ),
)
_PARAMETERS: Final = {
    "limit": ("0", "1", "-1", "x", "99999999999999999999", "1.5"),
    "continue": ("", "x", "eyJ2IjoibWV0YSJ9", "%ff", "a" * 5000),
    "resourceVersion": ("0", "1", "-1", "x", "99999999", "1.0", "18446744073709551616"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x", ""),
    "labelSelector": (
        *("a=b", "a!=b", "a in (b,c)", "a notin ()", "!a", "a", "a=b=c", "a in (", "(,)", ",,,", "=", "é=é"),
        *("a>1", "a<x", "x/y/z=1", "a" * 400, "a==", "a=\x00", "%ff=1"),
    ),
    "fieldSelector": (
        *("metadata.name=a", "metadata.name!=a", "spec.nodeName=", "status.phase=Running", "nonsense=1", "="),
        *("metadata.name", "metadata.name==a,metadata.namespace=default", ",", "\\,=\\", "a=b=c"),
    ),
    "watch": ("true", "false", "1", "x", ""),
    "timeoutSeconds": ("1", "0", "-1", "x", "1e9"),
    "allowWatchBookmarks": ("true", "x"),
    "sendInitialEvents": ("true", "false", "x"),
    "dryRun": ("All", "None", "", "x"),
    "fieldManager": ("m", "", "é", "a" * 200, "\x00"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "force": ("true", "false", "x"),
    "gracePeriodSeconds": ("0", "-1", "30", "x", "99999999999999999999"),
    "propagationPolicy": ("Orphan", "Foreground", "Background", "x", ""),
    "orphanDependents": ("true", "x"),
    "includeObject": ("None", "Object", "Metadata", "x"),
    "pretty": ("true",),
}
_JSON: Final = "application/json"
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_TYPES: Final = (
    *(
        _JSON,
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
        "x",
        "application/cbor",
    ),
    *("application/json; charset=latin-1", "multipart/form-data", "application/apply-patch+cbor", *_PATCHES),
)
_ACCEPTS: Final = (
    *(_JSON, "*/*", "", "text/html", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/yaml"),
    *("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/vnd.kubernetes.protobuf"),
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
)


@dataclass(frozen=True, slots=True)
class Shot:
    """One request."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Operation:
    method: str
    path: str
    schema: Mapping[str, Any]
    api_version: str
    kind: str


def kinds_of(documents: Mapping[str, Mapping[str, Any]]) -> tuple[list[_Operation], dict[str, Any]]:
    """Read what can be asked, and the schemas, from OpenAPI v3 documents."""
    operations: list[_Operation] = []
    schemas: dict[str, Any] = {}
    for document in documents.values():
        schemas |= document["components"]["schemas"]
        for path, entries in document["paths"].items():
            for method, entry in entries.items():
                kind = entry["x-kubernetes-group-version-kind"]
                content = entry["responses"]["200"].get("content", {})
                schema = content.get(_JSON, {}).get("schema", {"type": "object"})
                version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
                operations.append(_Operation(method.upper(), path, schema, version, kind["kind"]))
    return operations, schemas


class Fuzzer:
    """Makes requests without end.

    Args:
        documents: OpenAPI v3, by name.
        seed: Of all chance.
        examples: Objects that are good; half of what is sent begins as one of them.
    """

    def __init__(
        self,
        documents: Mapping[str, Mapping[str, Any]],
        seed: int,
        examples: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self._operations, self._schemas = kinds_of(documents)
        self._chance = random.Random(seed)  # noqa: S311 - the same in every run
        by_kind: dict[tuple[str, str], list[_Operation]] = {}
        for each in self._operations:
            by_kind.setdefault((each.api_version, each.kind), []).append(each)
        self._by_kind = list(by_kind.values())
        self._examples: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for example in examples:
            kind = (str(example.get("apiVersion")), str(example.get("kind")))
            self._examples.setdefault(kind, []).append(example)

    def shots(self) -> Iterator[Shot]:
        """Give requests, kind by kind, so that what one makes the next can meet."""
        while True:
            operations = self._chance.choice(self._by_kind)
            makes = [each for each in operations if each.method == "POST" and not each.path.endswith("}")]
            if makes and self._chance.random() < 0.7:
                body = self._written(self._object(makes[0]))
                yield Shot("POST", self._path(makes[0].path), body, {"Content-Type": _JSON})
            for _ in range(self._chance.randint(1, 6)):
                yield self._shot(self._chance.choice(operations))

    def _shot(self, operation: _Operation) -> Shot:
        chance = self._chance
        method = operation.method
        if chance.random() < 0.03:
            method = chance.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"))
        path = self._path(operation.path) + self._query()
        headers = {"Accept": chance.choice(_ACCEPTS) if chance.random() < 0.3 else _JSON}
        if method in {"GET", "HEAD"} and chance.random() < 0.97:
            return Shot(method, path, None, headers)
        kind, body = self._body(method, operation)
        if kind:
            headers["Content-Type"] = kind
        return Shot(method, path, body, headers)

    def _path(self, path: str) -> str:
        chance = self._chance
        name = (
            chance.choice(_NAMES) if chance.random() < 0.93 else quote(chance.choice(_ODD_NAMES), safe="%/.")
        )
        space = chance.choice(_NAMESPACES)
        path = path.replace("{namespace}", space if chance.random() < 0.95 else "default").replace(
            "{name}", name
        )
        if chance.random() < 0.02:
            path += chance.choice(
                ("/", "/status", "/scale", "/x", "//", "/eviction", "/binding", "/log", "/a/b/c")
            )
        if chance.random() < 0.01:
            parts = path.split("/")
            parts[chance.randrange(1, len(parts))] = chance.choice(_ODD_NAMES)
            path = quote("/".join(parts), safe="%/.")
        return path

    def _query(self) -> str:
        chance = self._chance
        if chance.random() < 0.6:
            return ""
        chosen = chance.sample(sorted(_PARAMETERS), chance.randint(1, 3))
        pairs = [f"{name}={quote(chance.choice(_PARAMETERS[name]), safe='%')}" for name in chosen]
        # A watch without an end would hold the run up.
        if any(each.startswith("watch") for each in pairs):
            pairs = [*(each for each in pairs if not each.startswith("timeoutSeconds")), "timeoutSeconds=1"]
        return "?" + "&".join(pairs)

    def _body(self, method: str, operation: _Operation) -> tuple[str, bytes | None]:
        chance = self._chance
        if chance.random() < 0.04:
            return chance.choice(_TYPES), self._bytes()
        if method == "PATCH":
            return self._patch(operation)
        if method == "DELETE":
            if chance.random() < 0.6:
                return "", None
            options: dict[str, Any] = {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Background",
            }
            options["preconditions"] = chance.choice((None, {}, {"uid": "x"}, {"resourceVersion": 5}))
            return _JSON, self._written(self._spoilt(options, 0.2))
        made = self._object(operation)
        kind = _JSON if chance.random() < 0.93 else chance.choice(_TYPES)
        return kind, self._written(self._spoilt(made, chance.choice((0.0, 0.0, 0.01, 0.03, 0.1))))

    def _object(self, operation: _Operation) -> dict[str, Any]:
        chance = self._chance
        known = self._examples.get((operation.api_version, operation.kind))
        made = copy.deepcopy(chance.choice(known)) if known and chance.random() < 0.5 else None
        made = made or self._value(operation.schema, 0)
        made = dict(made) if isinstance(made, Mapping) else {}
        metadata: dict[str, Any] = {"name": chance.choice(_NAMES)}
        if chance.random() < 0.1:
            metadata = {"generateName": chance.choice(("g-", "A", "a" * 300))}
        if chance.random() < 0.3:
            metadata |= {"labels": {"a": chance.choice(("b", "c"))}, "annotations": {"x/y": "z"}}
        if chance.random() < 0.15:
            metadata["finalizers"] = chance.choice((["x.y/z"], ["foregroundDeletion"], ["", 5], ["orphan"]))
        if chance.random() < 0.1:
            metadata["resourceVersion"] = chance.choice(("1", "x", ""))
        return {**made, "apiVersion": operation.api_version, "kind": operation.kind, "metadata": metadata}

    def _value(self, schema: Mapping[str, Any], depth: int) -> Any:  # noqa: C901, PLR0911 - one answer a type
        chance = self._chance
        if "$ref" in schema:
            schema = self._schemas.get(schema["$ref"].removeprefix(_REF), {})
        for key in ("allOf", "oneOf", "anyOf"):
            if key in schema and "type" not in schema:
                return self._value(chance.choice(schema[key]), depth)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return self._mapping(schema, depth)
            case "array":
                count = 0 if depth > 8 else chance.choice((0, 1, 1, 2))
                return [self._value(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "integer":
                return chance.choice((0, 1, 1, 2, 80, 100))
            case "number":
                return chance.choice((0.0, 1.5))
            case "boolean":
                return chance.random() < 0.5
            case "string":
                if schema.get("format") == "date-time":
                    return "2026-01-01T00:00:00Z"
                return chance.choice(("a", "b", "a", "100m", "1Gi", "kubernetes.io/x", "10s", "80"))
        return chance.choice(_SCALARS)

    def _mapping(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        chance = self._chance
        properties = schema.get("properties", {})
        required = set(schema.get("required", ()))
        share = 0.9 if depth == 0 else max(0.5 - 0.07 * depth, 0.03)
        made = {
            name: self._value(inner, depth + 1)
            for name, inner in properties.items()
            if name != "status" and depth < 12 and (name in required or chance.random() < share)
        }
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping) and depth < 12 and chance.random() < share:
            made[chance.choice(("cpu", "memory", "a", "x/y"))] = self._value(extra, depth + 1)
        return made

    def _spoilt(self, value: Any, share: float) -> Any:
        chance = self._chance
        if chance.random() < share:
            return chance.choice((*_SCALARS, [], {}, [None], [[]], {"a": None}, {"": ""}, [{}], {"name": 5}))
        if isinstance(value, dict):
            kept = {
                key: self._spoilt(inner, share)
                for key, inner in value.items()
                if chance.random() >= share / 2
            }
            if chance.random() < share:
                kept[chance.choice(_WORDS)] = chance.choice(_SCALARS)
            return kept
        return [self._spoilt(item, share) for item in value] if isinstance(value, list) else value

    def _patch(self, operation: _Operation) -> tuple[str, bytes]:
        chance = self._chance
        kind = chance.choice(_PATCHES) if chance.random() < 0.97 else chance.choice(_TYPES)
        if kind == _PATCHES[0]:
            return kind, self._written(
                self._spoilt([self._step() for _ in range(chance.randint(0, 4))], 0.05)
            )
        made = self._object(operation)
        if chance.random() < 0.5:
            made.pop("metadata")
            made = {key: made[key] for key in chance.sample(sorted(made), min(len(made), 2))}
        if chance.random() < 0.2:
            made["spec"] = {
                **(made.get("spec") or {}),
                chance.choice(_WORDS): chance.choice(("replace", "delete", "merge", 5, [])),
            }
        return kind, self._written(self._spoilt(made, chance.choice((0.0, 0.05, 0.15))))

    def _step(self) -> dict[str, Any]:
        chance = self._chance
        pointers = (
            *(
                "/metadata/labels",
                "/metadata/labels/a",
                "/spec",
                "/spec/replicas",
                "/spec/containers/0",
                "/metadata/name",
            ),
            *(
                "",
                "/",
                "x",
                "/~2",
                "/metadata/finalizers/-",
                "/metadata/finalizers/99",
                "/status",
                "/metadata",
                "/kind",
            ),
            *(
                "/metadata/resourceVersion",
                "/metadata/deletionTimestamp",
                "/metadata/uid",
                "/spec/~1",
                "/metadata/labels/-",
            ),
        )
        step: dict[str, Any] = {
            "op": chance.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
            "path": chance.choice(pointers),
        }
        if chance.random() < 0.8:
            step["value"] = chance.choice((*_SCALARS, {}, [], {"a": "b"}))
        if chance.random() < 0.4:
            step["from"] = chance.choice(pointers)
        return step

    def _written(self, value: Any) -> bytes:
        text = json.dumps(value)
        if self._chance.random() < 0.03:
            text = text[: self._chance.randrange(len(text) + 1)]
        raw = text.encode("utf-8", "surrogatepass")
        if raw and self._chance.random() < 0.03:
            place = self._chance.randrange(len(raw))
            raw = (
                raw[:place]
                + self._chance.choice((b"\xff", b"\xc3", b"\x00", b"\xed\xa0\x80", b'"'))
                + raw[place:]
            )
        return raw

    def _bytes(self) -> bytes:
        chance = self._chance
        bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
            b"%c: &%c [%b]\n" % (letter + 1, letter + 1, b",".join([b"*%c" % letter] * 9))
            for letter in range(97, 105)
        )
        return chance.choice(
            (
                *(
                    b"",
                    b"\xff\xfe",
                    b"null",
                    b"[]",
                    b"5",
                    b'"x"',
                    b"NaN",
                    b"{",
                    b"}{",
                    b"\x00" * 10,
                    b'{"a":1,"a":2}',
                ),
                *(
                    b"[" * 100_000,
                    b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
                    b'{"metadata":' * 500 + b"{}" + b"}" * 500,
                ),
                b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"'
                + b"y" * 1_000_000
                + b'"}}',
                *(
                    bomb,
                    b"k8s\x00\n\x0c\n\x02v1\x12\x06Secret",
                    b"k8s\x00" + chance.randbytes(60),
                    chance.randbytes(200),
                ),
                *(
                    b"a: [\n",
                    b"--- \n---\n",
                    b"!!python/object:os.system x",
                    b"1e999999",
                    b"-0",
                    b'{"a":1e999999}',
                    b"\xef\xbb\xbf{}",
                ),
            )
        )
