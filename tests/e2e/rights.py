# SPDX-License-Identifier: Apache-2.0
"""The chart's roles as objects, and what the API server's audit log says about their use.

Helm is not needed: the RBAC templates hold nothing but names, labels and blocks that are empty by default, which are
filled in here by hand. Roles of features that are off by default are given only where they are asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane import ControlPlane

__all__ = [
    "GATED",
    "NAME",
    "NAMESPACE",
    "USER",
    "USUAL",
    "Call",
    "Right",
    "calls",
    "granted",
    "install",
    "kubeconfig",
    "render",
    "used",
]

NAME = "karpenter"
NAMESPACE = "karpenter"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"

_TEMPLATES = Path(__file__).parents[2] / "charts" / "karpenter" / "templates"
# The roles that features bring with them, by what the chart adds to their names: off by default, and on by default.
GATED = ("buffers", "overlays", "placement")
USUAL = ("nominations",)
_FILES = (
    "serviceaccount.yaml",
    "clusterrole.yaml",
    "role.yaml",
    "aggregate-clusterrole.yaml",
    *(f"clusterrole-{each}.yaml" for each in USUAL),
)
_WORDS = {
    '{{ include "karpenter.fullname" . }}': NAME,
    '{{ include "karpenter.serviceAccountName" . }}': NAME,
    "{{ .Release.Namespace }}": NAMESPACE,
    '{{ include "karpenter.stateNamespace" . }}': NAMESPACE,
    '{{- include "karpenter.labels" . | nindent 4 }}': f"app.kubernetes.io/name: {NAME}",
}
_EMPTY_BLOCK = re.compile(r"^ *\{\{- with [^\n]*\n(?:[^\n]*\n)*?^ *\{\{- end \}\}\n", re.MULTILINE)
_CONDITION = re.compile(r"^\{\{- (?:if [^\n]*|end) ?\}\}\n", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource, in one namespace or (empty) everywhere."""

    namespace: str
    group: str
    resource: str
    verb: str


@dataclass(frozen=True)
class Call:
    """One request of the audit log."""

    right: Right
    name: str
    code: int
    uri: str


def render(*gated: str) -> list[dict[str, Any]]:
    """The objects of the RBAC templates, for a release karpenter in namespace karpenter with default values.

    Args:
        gated: features that are switched on.
    """
    found: list[dict[str, Any]] = []
    for file in (*_FILES, *(f"clusterrole-{each}.yaml" for each in gated)):
        text = _CONDITION.sub("", _EMPTY_BLOCK.sub("", (_TEMPLATES / file).read_text(encoding="utf-8")))
        for word, value in _WORDS.items():
            text = text.replace(word, value)
        assert "{{" not in text, f"{file} has a template that this reader does not know"
        found += [each for each in yaml.safe_load_all(text) if each]
    return found


def install(plane: ControlPlane, *gated: str) -> None:
    """Make the namespace and the roles in a control plane."""
    plane.kubectl("create", "namespace", NAMESPACE)
    whole = {"apiVersion": "v1", "kind": "List", "items": render(*gated)}
    plane.kubectl("apply", "-f", "-", input=json.dumps(whole))


def kubeconfig(plane: ControlPlane, directory: Path) -> Path:
    """Make a kubeconfig for the controller's ServiceAccount."""
    token = plane.kubectl("create", "token", NAME, "-n", NAMESPACE, "--duration=2h").stdout.strip()
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        "clusters": [
            {"name": "c", "cluster": {"server": plane.url, "certificate-authority": str(plane.ca_file)}}
        ],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    path = directory / "controller.kubeconfig"
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def granted(*gated: str) -> frozenset[Right]:
    """What the controller's own roles grant: those that it always has, or those of some features alone."""
    bound = {f"{NAME}-{each}" for each in gated} or {
        NAME,
        f"{NAME}-state",
        f"{NAME}-dns",
        *(f"{NAME}-{each}" for each in USUAL),
    }
    return frozenset(
        Right(str(each["metadata"].get("namespace", "")), group, resource, verb)
        for each in render(*gated)
        if each["kind"] in {"ClusterRole", "Role"} and each["metadata"]["name"] in bound
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def calls(audit_log: Path) -> Iterator[Call]:
    """What the controller asked of the API server about objects."""
    for line in audit_log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        about = event.get("objectRef")
        if event["user"]["username"] != USER or not about:
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        right = Right(about.get("namespace", ""), about.get("apiGroup", ""), resource, event["verb"])
        code = int(event.get("responseStatus", {}).get("code", 0))
        yield Call(right, about.get("name", ""), code, event["requestURI"])


def used(audit_log: Path) -> frozenset[Right]:
    """The rights that the calls needed; a right for all namespaces is used by a call in one."""
    found = set()
    for call in calls(audit_log):
        verbs = [call.right.verb]
        if call.right.verb == "patch" and call.code == 201:
            # Server-side apply of an object that was not there: the server asks for the right to create too.
            verbs.append("create")
        for verb in verbs:
            for namespace in {call.right.namespace, ""}:
                found.add(Right(namespace, call.right.group, call.right.resource, verb))
    return frozenset(found)
