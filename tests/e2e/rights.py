# SPDX-License-Identifier: Apache-2.0
"""The chart's roles as objects, and what the API server's audit log says about their use.

Helm is not needed: the RBAC templates hold nothing but names, labels and blocks that are empty by default, which are
filled in here by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["NAME", "NAMESPACE", "USER", "Call", "Right", "calls", "granted", "render", "used"]

NAME = "karpenter"
NAMESPACE = "karpenter"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"

_TEMPLATES = Path(__file__).parents[2] / "charts" / "karpenter" / "templates"
_FILES = ("serviceaccount.yaml", "clusterrole.yaml", "role.yaml", "aggregate-clusterrole.yaml")
_WORDS = {
    '{{ include "karpenter.fullname" . }}': NAME,
    '{{ include "karpenter.serviceAccountName" . }}': NAME,
    "{{ .Release.Namespace }}": NAMESPACE,
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


def render() -> list[dict[str, Any]]:
    """The objects of the RBAC templates, for a release karpenter in namespace karpenter with default values."""
    found: list[dict[str, Any]] = []
    for file in _FILES:
        text = _CONDITION.sub("", _EMPTY_BLOCK.sub("", (_TEMPLATES / file).read_text(encoding="utf-8")))
        for word, value in _WORDS.items():
            text = text.replace(word, value)
        assert "{{" not in text, f"{file} has a template that this reader does not know"
        found += [each for each in yaml.safe_load_all(text) if each]
    return found


def granted() -> frozenset[Right]:
    """What the controller's own roles grant."""
    bound = {f"{NAME}", f"{NAME}-dns"}
    return frozenset(
        Right(str(each["metadata"].get("namespace", "")), group, resource, verb)
        for each in render()
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
