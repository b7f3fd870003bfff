# SPDX-License-Identifier: Apache-2.0
"""Writes the facts about built-in kinds that the sandbox's Kubernetes API serves: ``python -m tools.kube_schemas``.

Takes them from a real control plane (OpenAPI v3, discovery, the columns of tables) and from the Go types of
k8s.io/api in the module cache (which fields are pointers, which are left out when empty). Prose is left behind:
the file says what fields there are, not what they mean.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.e2e.controlplane import ControlPlane
from tests.e2e.controlplane.connection import Connection

__all__ = ["main"]

_TARGET: Final = Path(__file__).parent.parent / "src/karpenter/sandbox/kube/kinds/builtin.json.xz"
_RELEASE: Final = "v0.34.4"
_GROUPS: Final = (
    "api/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v1",
    "apis/autoscaling/v2",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/node.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/storage.k8s.io/v1",
)
# Streams and proxies are no part of an API without machines behind it.
_LEFT_OUT: Final = ("/proxy", "/exec", "/attach", "/portforward", "/resize", "/ephemeralcontainers")
# Nor are webhooks: the sandbox's API server calls none, so it must not take their configurations.
_KINDS_LEFT_OUT: Final = (
    "ComponentStatus",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_FIELD: Final = re.compile(r'^\s+(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"(?:.*protobuf:"\w+,(\d+))?')
_STRUCT: Final = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.MULTILINE | re.DOTALL)


class _GoTypes:
    """The struct fields of the packages behind the definitions."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._packages: dict[str, dict[str, dict[str, str]]] = {}

    def fields(self, definition: str) -> dict[str, str]:
        """Returns ``Go type,option;number`` of each JSON field of a definition."""
        package, _, name = definition.rpartition(".")
        if package not in self._packages:
            self._packages[package] = self._read(package)
        return self._packages[package].get(name, {})

    def _read(self, package: str) -> dict[str, dict[str, str]]:
        module, _, rest = package.removeprefix("io.k8s.").partition(".")
        directory = self._cache / f"k8s.io/{module}@{_RELEASE}" / rest.replace(".", "/")
        structs: dict[str, dict[str, str]] = {}
        for file in sorted(directory.glob("*.go")):
            text = file.read_text(encoding="utf-8")
            for name, body in _STRUCT.findall(text):
                structs[name] = dict(_fields(body))
        return {name: _inlined(fields, structs) for name, fields in structs.items()}


def _fields(body: str) -> list[tuple[str, str]]:
    found = []
    for line in body.splitlines():
        match = _FIELD.match(line)
        if match:
            key, _, option = match[3].partition(",")
            found.append((key or f"inline {match[2]}", f"{match[2]},{option};{match[4] or ''}"))
    return found


def _inlined(fields: dict[str, str], structs: dict[str, dict[str, str]]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, told in fields.items():
        if key.startswith("inline "):
            inner = _inlined(structs.get(key.removeprefix("inline ").lstrip("*"), {}), structs)
            number = told.partition(";")[2]
            # What is one struct in JSON is a message in a message on the wire.
            flat |= (
                {name: each.replace(";", f";{number}/", 1) for name, each in inner.items()}
                if number
                else inner
            )
        else:
            flat[key] = told
    return flat


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, dict):
        dropped = {"description"} if isinstance(schema.get("description"), str) else set()
        return {key: _without_prose(value) for key, value in schema.items() if key not in dropped}
    return [_without_prose(each) for each in schema] if isinstance(schema, list) else schema


def _schemas(api: Connection, types: _GoTypes) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for group in _GROUPS:
        document = api.request("GET", f"/openapi/v3/{group}").json()
        for name, schema in document["components"]["schemas"].items():
            told = _without_prose(schema)
            for key, field in types.fields(name).items():
                if key in told.get("properties", {}):
                    go, _, number = field.partition(";")
                    told["properties"][key] |= {"x-go": go, "x-proto": number}
            schemas[name] = told
    return schemas


def _resources(api: Connection) -> dict[str, list[Any]]:
    groups = {}
    for group in _GROUPS:
        listed = api.request("GET", f"/{group}").json()["resources"]
        groups[group.split("/", 1)[1]] = [
            each
            for each in listed
            if not each["name"].endswith(_LEFT_OUT) and each["kind"] not in _KINDS_LEFT_OUT
        ]
    return groups


def _columns(plane: ControlPlane, resources: dict[str, list[Any]]) -> dict[str, Any]:
    columns = {}
    for group, listed in resources.items():
        root = f"/api/{group}" if group == "v1" else f"/apis/{group}"
        for each in listed:
            if "/" not in each["name"] and "list" in each["verbs"]:
                table = _table(plane, f"{root}/{each['name']}?limit=1")
                columns[f"{group}/{each['name']}"] = [
                    [column["name"], column["type"], column["format"], column["priority"]] for column in table
                ]
    return columns


def _table(plane: ControlPlane, path: str) -> list[dict[str, Any]]:
    import ssl  # noqa: PLC0415 - the harness sends no Accept header of the caller's
    import urllib.request  # noqa: PLC0415

    context = ssl.create_default_context(cafile=str(plane.ca_file))
    request = urllib.request.Request(  # noqa: S310 - ours, https
        plane.url + path, headers={"Accept": _TABLE, "Authorization": f"Bearer {plane.token}"}
    )
    with urllib.request.urlopen(request, context=context) as response:  # noqa: S310
        table: dict[str, Any] = json.load(response)
    columns: list[dict[str, Any]] = table["columnDefinitions"]
    return columns


def main() -> int:
    """Writes the file and says how large it is."""
    go = shutil.which("go") or "go"
    cache = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, check=True)  # noqa: S603
    with ControlPlane() as plane:
        api = Connection(plane.url, plane.ca_file, token=plane.token)
        resources = _resources(api)
        told = {
            "release": api.request("GET", "/version").json()["gitVersion"],
            "resources": resources,
            "columns": _columns(plane, resources),
            "schemas": _schemas(api, _GoTypes(Path(cache.stdout.strip()))),
        }
    text = json.dumps(told, separators=(",", ":"), sort_keys=True)
    _TARGET.write_bytes(lzma.compress(text.encode(), preset=9))
    sys.stdout.write(f"{_TARGET}: {_TARGET.stat().st_size} bytes, {len(told['schemas'])} definitions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
