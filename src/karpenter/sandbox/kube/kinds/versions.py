# SPDX-License-Identifier: Apache-2.0
"""The few kinds that are served in two forms and stored in one: events and autoscalers.

Each form is turned into the stored one and back; what the other form cannot say is kept where Kubernetes keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["STORED_AS", "from_stored", "to_stored"]

Object = dict[str, Any]

# By group, version and plural: the version and group that is stored.
STORED_AS: Final[dict[tuple[str, str, str], tuple[str, str]]] = {
    ("events.k8s.io", "v1", "events"): ("", "v1"),
    ("autoscaling", "v1", "horizontalpodautoscalers"): ("autoscaling", "v2"),
}
_EVENT_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def _event_in(obj: Object) -> Object:
    return {_EVENT_NAMES.get(key, key): value for key, value in obj.items()} | {"apiVersion": "v1"}


def _event_out(obj: Mapping[str, Any]) -> Object:
    names = {stored: name for name, stored in _EVENT_NAMES.items()}
    return {names.get(key, key): value for key, value in obj.items()} | {"apiVersion": "events.k8s.io/v1"}


def _autoscaler_in(obj: Object) -> Object:
    if not isinstance(obj.get("spec"), dict):
        # What it should have been is told when it is read.
        return {**obj, "apiVersion": "autoscaling/v2"}
    spec = dict(obj["spec"])
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {**obj, "apiVersion": "autoscaling/v2", "spec": spec}


def _autoscaler_out(obj: Mapping[str, Any]) -> Object:
    spec = dict(obj.get("spec") or {})
    for each in spec.pop("metrics", None) or ():
        resource = each.get("resource") or {}
        utilization = (resource.get("target") or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and utilization is not None:
            spec["targetCPUUtilizationPercentage"] = utilization
    spec.pop("behavior", None)
    status = {
        key: value
        for key, value in (obj.get("status") or {}).items()
        if key not in {"currentMetrics", "conditions"}
    }
    status = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    return {**obj, "apiVersion": "autoscaling/v1", "spec": spec, "status": status}


_IN: Final[dict[tuple[str, str, str], Callable[[Object], Object]]] = {
    ("events.k8s.io", "v1", "events"): _event_in,
    ("autoscaling", "v1", "horizontalpodautoscalers"): _autoscaler_in,
}
_OUT: Final[dict[tuple[str, str, str], Callable[[Mapping[str, Any]], Object]]] = {
    ("events.k8s.io", "v1", "events"): _event_out,
    ("autoscaling", "v1", "horizontalpodautoscalers"): _autoscaler_out,
}


def to_stored(key: tuple[str, str, str], obj: Object) -> Object:
    """Gives the stored form of an object that was sent in another."""
    return _IN[key](obj) if key in _IN else obj


def from_stored(key: tuple[str, str, str], obj: Mapping[str, Any]) -> Object:
    """Gives an object in the form that was asked for."""
    return _OUT[key](obj) if key in _OUT else dict(obj)
