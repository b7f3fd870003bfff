# SPDX-License-Identifier: Apache-2.0
"""Questions about who may do what, and figures of use: answers that are made, not stored.

Everybody who is let in may do everything. What nodes and pods use is taken to be what they asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from karpenter.kit.quantity import Format, Quantity, parse_quantity
from karpenter.sandbox.kube.engine.bodies import parse_body
from karpenter.sandbox.kube.engine.calls import Call, Target, User
from karpenter.sandbox.kube.engine.engine import Engine, Object
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.storage.selecting import label_selector

__all__ = ["metrics", "review"]

_WINDOW = "30s"


def review(resource: Resource, call: Call, known: Mapping[str, User]) -> Object:
    """Answers a question about access or identity.

    Raises:
        ApiError: the body is not an object.
    """
    body = parse_body(call.body, call.content_type)
    if not isinstance(body, dict):
        raise ApiError.bad_request("the body is not an object")
    told = body.get("spec")
    spec = dict(told) if isinstance(told, dict) else {}
    head: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
    if resource.kind == "TokenReview":
        user = known.get(str(spec.get("token", "")))
        if user is None:
            return {
                **head,
                "spec": spec,
                "status": {"user": {}, "error": "invalid bearer token"},
            }
        return {
            **head,
            "spec": spec,
            "status": {
                "authenticated": True,
                "user": _user(user),
                "audiences": ["https://kubernetes.default.svc"],
            },
        }
    if resource.kind == "SelfSubjectReview":
        return {**head, "status": {"userInfo": _user(call.user)}}
    if resource.kind == "SelfSubjectRulesReview":
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        return {
            **head,
            "spec": {},
            "status": {"resourceRules": [everything], "nonResourceRules": [paths], "incomplete": False},
        }
    return {**head, "spec": spec, "status": {"allowed": True}}


def _user(user: User) -> Object:
    told: Object = {"username": user.name}
    if user.uid:
        told["uid"] = user.uid
    return {**told, "groups": list(user.groups)} if user.groups else told


def metrics(engine: Engine, resource: Resource, target: Target, call: Call) -> Object:
    """Gives what nodes or pods use.

    Raises:
        ApiError: the one that was asked for does not run.
    """
    if resource.kind == "NodeMetrics":
        items = [_node(engine, each.obj) for each in engine.store.items("/nodes")]
    else:
        pods = engine.store.items("/pods", target.namespace)
        items = [
            _pod(engine, each.obj)
            for each in pods
            if (each.obj.get("status") or {}).get("phase") == "Running"
        ]
    if target.name:
        found = [each for each in items if each["metadata"]["name"] == target.name]
        if not found:
            raise ApiError.not_found("metrics.k8s.io", resource.plural, target.name)
        return {"kind": resource.kind, "apiVersion": resource.api_version, **found[0]}
    selects = label_selector(call.query.get("labelSelector", ""))
    return {
        "kind": resource.list_kind,
        "apiVersion": resource.api_version,
        "metadata": {},
        "items": [each for each in items if selects is None or selects(each)],
    }


def _measured(engine: Engine, obj: Mapping[str, Any]) -> Object:
    metadata = obj["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    return {
        "metadata": {**kept, "creationTimestamp": engine.now()},
        "timestamp": engine.now(),
        "window": _WINDOW,
    }


def _requests(container: Mapping[str, Any]) -> Mapping[str, str]:
    requests: Mapping[str, str] = (container.get("resources") or {}).get("requests") or {}
    return requests


def _pod(engine: Engine, pod: Mapping[str, Any]) -> Object:
    containers = [
        {
            "name": each["name"],
            "usage": {"cpu": _requests(each).get("cpu", "0"), "memory": _requests(each).get("memory", "0")},
        }
        for each in pod["spec"]["containers"]
    ]
    return {**_measured(engine, pod), "containers": containers}


def _node(engine: Engine, node: Mapping[str, Any]) -> Object:
    cpu, memory = Quantity(0), Quantity(0, Format.BINARY_SI)
    name = node["metadata"]["name"]
    for each in engine.store.items("/pods"):
        if (
            each.obj["spec"].get("nodeName") == name
            and (each.obj.get("status") or {}).get("phase") == "Running"
        ):
            for container in each.obj["spec"]["containers"]:
                cpu += parse_quantity(_requests(container).get("cpu", "0"))
                memory += parse_quantity(_requests(container).get("memory", "0"))
    return {**_measured(engine, node), "usage": {"cpu": cpu.canonical(), "memory": memory.canonical()}}
