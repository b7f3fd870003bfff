# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors, read from their query form and matched against objects.

A selector that cannot be read, or a field that the kind does not offer, is refused in the API server's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from karpenter.api.schema import gotext
from karpenter.api.schema.names import qualified_name_complaints
from karpenter.sandbox.kube.errors import ApiError

__all__ = [
    "Selector",
    "field_selector",
    "field_value",
    "label_selector",
    "matches_labels",
    "supported_fields",
]

Selector = Callable[[Mapping[str, Any]], bool]

_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "/pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "/nodes": ("spec.unschedulable",),
    "/namespaces": ("status.phase",),
    "/secrets": ("type",),
    "/services": ("spec.clusterIP", "spec.type"),
    "/events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "/replicationcontrollers": ("status.replicas",),
    "apps/replicasets": ("status.replicas",),
    "batch/jobs": ("status.successful",),
}
_NOT: Final = "!"
_SIGNS: Final = frozenset({"=", "==", "!=", "<", ">", "(", ")", ",", "!"})
_TOKEN: Final = re.compile(r"\s*(==|!=|=|<|>|\(|\)|,|!|[^\s=!<>(),]+)")
_PHASES: Final = {"/pods": "Pending", "/namespaces": "Active"}


def supported_fields(storage_key: str) -> tuple[str, ...]:
    """Gives the fields by which objects of a kind can be selected, besides name and namespace."""
    return _FIELDS.get(storage_key, ())


def matches_labels(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Tells whether a ``LabelSelector`` object selects the labels; none selects nothing, an empty one all."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for each in selector.get("matchExpressions") or ():
        value, values = labels.get(each["key"]), each.get("values") or ()
        met = {
            "In": value in values and value is not None,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not met.get(each["operator"], False):
            return False
    return True


def label_selector(text: str) -> Selector | None:
    """Reads ``a=b,c in (d,e),!f``; nothing to select by gives None.

    Raises:
        ApiError: it cannot be read.
    """
    if not text.strip():
        return None
    parser = _Labels(text)
    requirements = parser.all()

    def selects(obj: Mapping[str, Any]) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return selects


class _Labels:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def all(self) -> list[Callable[[Mapping[str, str]], bool]]:
        found = [self._one()]
        while self._peek():
            if self._next() != ",":
                raise ApiError.bad_request(
                    f"found '{self._tokens[self._at - 1]}', expected: ',' or 'end of string'"
                )
            found.append(self._one())
        return found

    def _one(self) -> Callable[[Mapping[str, str]], bool]:  # noqa: PLR0911
        token = self._next()
        if token == _NOT:
            absent = self._key(self._next())
            return lambda labels: absent not in labels
        key = self._key(token)
        operator = self._peek()
        if operator in {"", ","}:
            return lambda labels: key in labels
        self._at += 1
        if operator in {"in", "notin"}:
            values = self._values()
            if operator == "in":
                return lambda labels: labels.get(key) in values
            return lambda labels: labels.get(key) not in values
        if operator in {"=", "==", "!="}:
            value = self._next() if self._peek() not in {"", ","} else ""
            if operator == "!=":
                return lambda labels: labels.get(key) != value
            return lambda labels: labels.get(key) == value
        if operator in {"<", ">"}:
            bound = self._next()
            if not bound.lstrip("-").isdigit():
                raise self._refused(
                    f"values[0]: Invalid value: {gotext.quote(bound)}: for 'Gt', 'Lt' operators, the value must be an "
                    "integer"
                )
            number, above = int(bound), operator == ">"
            return lambda labels: _compares(labels.get(key), number, above=above)
        raise self._refused(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _values(self) -> frozenset[str]:
        if self._next() != "(":
            raise self._refused(f"found '{self._tokens[self._at - 1] if self._tokens else ''}' expected: '('")
        values = []
        while (word := self._next()) != ")":
            if not word:
                raise self._refused("found '', expected: ',' or ')'")
            if word != ",":
                values.append(word)
        return frozenset(values)

    def _key(self, token: str) -> str:
        if not token or token in _SIGNS:
            raise ApiError.bad_request(f"found '{token}', expected: !, identifier, or 'end of string'")
        for complaint in qualified_name_complaints(token):
            raise self._refused(f"<nil>: Invalid value: {gotext.quote(token)}: {complaint}")
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return str(token)

    def _refused(self, why: str) -> ApiError:
        return ApiError.bad_request(f"unable to parse requirement: {why}")


def _compares(value: str | None, bound: int, *, above: bool) -> bool:
    if value is None or not value.lstrip("-").isdigit():
        return False
    return int(value) > bound if above else int(value) < bound


def field_selector(text: str, storage_key: str, extra: tuple[str, ...] = ()) -> Selector | None:
    """Reads ``spec.nodeName=a,status.phase!=Running``; nothing to select by gives None.

    Args:
        text: The query.
        storage_key: The kind whose objects are selected.
        extra: Fields that the kind's definition offers.

    Raises:
        ApiError: it cannot be read, or names a field that is not offered.
    """
    if not text.strip():
        return None
    allowed = {"metadata.name", "metadata.namespace", *_FIELDS.get(storage_key, ()), *extra}
    wanted: list[tuple[str, str, bool]] = []
    for part in text.split(","):
        if not part:
            continue
        match = re.fullmatch(r"(.*?)(!=|==|=)(.*)", part)
        if match is None:
            raise ApiError.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        name, operator, value = match.groups()
        if name not in allowed:
            raise ApiError.bad_request(_unsupported(name, storage_key))
        wanted.append((name, value, operator != "!="))

    def selects(obj: Mapping[str, Any]) -> bool:
        return all((field_value(obj, name, storage_key) == value) is equal for name, value, equal in wanted)

    return selects


def _unsupported(name: str, storage_key: str) -> str:
    if storage_key in _FIELDS:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def field_value(obj: Mapping[str, Any], name: str, storage_key: str = "") -> str:
    """Gives the value of a selectable field as text; an absent one is empty."""
    if storage_key == "/events" and name == "source":
        return str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "")
    if storage_key == "batch/jobs" and name == "status.successful":
        return str((obj.get("status") or {}).get("succeeded") or 0)
    value: Any = obj
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if value is None:
        if name in {"spec.unschedulable", "spec.hostNetwork"}:
            return "false"
        if name == "status.replicas":
            return "0"
        return _PHASES.get(storage_key, "") if name == "status.phase" else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
