# SPDX-License-Identifier: Apache-2.0
"""Small objects for the tests of the benchmarks; every option has a harmless default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]


def requirement(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def pool(
    name: str = "default",
    *,
    requirements: Sequence[Object] = (),
    taints: Sequence[Object] = (),
    labels: Mapping[str, str] | None = None,
) -> Object:
    template = {
        "metadata": {"labels": dict(labels or {})},
        "spec": {"requirements": list(requirements), "taints": list(taints)},
    }
    return {"kind": "NodePool", "metadata": {"name": name}, "spec": {"template": template}}


def pod(name: str = "pod", *, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> Object:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": containers, **spec},
    }


def daemon(*, cpu: str = "100m", memory: str = "100Mi", **spec: Any) -> Object:
    return {
        "kind": "DaemonSet",
        "metadata": {"name": "daemon"},
        "spec": {"template": {"spec": pod(cpu=cpu, memory=memory, **spec)["spec"]}},
    }


def instance_type(
    name: str = "small",
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "100",
    price: float = 1.0,
    offerings: Sequence[tuple[str, str, float]] = (),
    labels: Mapping[str, str] | None = None,
) -> Object:
    return {
        "name": name,
        "labels": {"kubernetes.io/arch": "amd64", **(labels or {})},
        "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
        "offerings": [list(each) for each in offerings or [("zone-a", "on-demand", price)]],
    }


def catalogue(*types: Object) -> Object:
    return {"instanceTypes": list(types)}


def problem(*objects: Object) -> Object:
    return {"objects": list(objects)}
