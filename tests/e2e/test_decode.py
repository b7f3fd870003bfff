# SPDX-License-Identifier: Apache-2.0
"""What a real API server sends can be decoded, kind by kind."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.base import Frozen
from karpenter.api.core import (
    CSINode,
    DaemonSet,
    Deployment,
    Event,
    Lease,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodTemplate,
    ReplicaSet,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
    decode_list,
)
from tests.e2e.controlplane import ControlPlane, eventually

CONTAINER = {
    "name": "main",
    "image": "pause",
    "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}},
    "ports": [{"containerPort": 80, "hostPort": 8080}],
}
POD = {
    "metadata": {"labels": {"app": "decoded"}},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{**CONTAINER, "name": "proxy", "restartPolicy": "Always", "ports": []}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "decoded"}},
            }
        ],
    },
}
WORKLOAD = {"selector": {"matchLabels": {"app": "decoded"}}, "template": POD}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

# Path of the collection (namespaced ones under the test's namespace), type, and an object to put there.
CASES: list[tuple[str, type[Frozen], dict[str, Any]]] = [
    ("apps/v1|deployments", Deployment, {"spec": {**WORKLOAD, "replicas": 1}}),
    ("apps/v1|replicasets", ReplicaSet, {"spec": {**WORKLOAD, "replicas": 0}}),
    ("apps/v1|daemonsets", DaemonSet, {"spec": WORKLOAD}),
    ("apps/v1|statefulsets", StatefulSet, {"spec": {**WORKLOAD, "replicas": 0, "serviceName": "x"}}),
    ("v1|podtemplates", PodTemplate, {"template": POD}),
    ("v1|persistentvolumeclaims", PersistentVolumeClaim, {"spec": CLAIM}),
    (
        "policy/v1|poddisruptionbudgets",
        PodDisruptionBudget,
        {"spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "decoded"}}}},
    ),
    (
        "coordination.k8s.io/v1|leases",
        Lease,
        {"spec": {"holderIdentity": "me", "renewTime": "2026-11-15T09:00:00.123456Z"}},
    ),
]
CLUSTER_CASES: list[tuple[str, type[Frozen], dict[str, Any]]] = [
    (
        "v1|nodes",
        Node,
        {"spec": {"providerID": "aws:///us-east-1a/i-1", "taints": [{"key": "a", "effect": "NoSchedule"}]}},
    ),
    ("v1|namespaces", Namespace, {}),
    (
        "v1|persistentvolumes",
        PersistentVolume,
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
            }
        },
    ),
    ("storage.k8s.io/v1|storageclasses", StorageClass, {"provisioner": "ebs.csi.aws.com"}),
    ("storage.k8s.io/v1|csinodes", CSINode, {"spec": {"drivers": []}}),
    (
        "storage.k8s.io/v1|volumeattachments",
        VolumeAttachment,
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    ),
]


def root(group_version: str) -> str:
    return f"/api/{group_version}" if "/" not in group_version else f"/apis/{group_version}"


@pytest.mark.parametrize(("where", "kind", "body"), CASES, ids=[kind.__name__ for _, kind, _ in CASES])
def test_a_namespaced_kind_is_decoded_as_the_server_sends_it(
    control_plane: ControlPlane, namespace: str, where: str, kind: type[Frozen], body: dict[str, Any]
) -> None:
    group_version, plural = where.split("|")
    path = f"{root(group_version)}/namespaces/{namespace}/{plural}"

    created = control_plane.request(
        "POST",
        path,
        {"apiVersion": group_version, "kind": kind.__name__, "metadata": {"name": "decoded"}, **body},
    )
    listed = decode_list(control_plane.request("GET", path).text, kind)

    assert created.is_success, created.text
    names = [getattr(each, "metadata").name for each in listed]  # noqa: B009 - the base class has no metadata
    assert "decoded" in names


@pytest.mark.parametrize(
    ("where", "kind", "body"), CLUSTER_CASES, ids=[kind.__name__ for _, kind, _ in CLUSTER_CASES]
)
def test_a_kind_of_the_cluster_is_decoded_as_the_server_sends_it(
    control_plane: ControlPlane, namespace: str, where: str, kind: type[Frozen], body: dict[str, Any]
) -> None:
    group_version, plural = where.split("|")
    path, name = f"{root(group_version)}/{plural}", f"decoded-{namespace}"

    created = control_plane.request(
        "POST", path, {"apiVersion": group_version, "kind": kind.__name__, "metadata": {"name": name}, **body}
    )
    listed = decode_list(control_plane.request("GET", path).text, kind)
    control_plane.request("DELETE", f"{path}/{name}")

    assert created.is_success, created.text
    assert name in [getattr(each, "metadata").name for each in listed]  # noqa: B009 - as above


def test_pods_and_events_of_a_live_deployment_are_decoded(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.request(
        "POST",
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "live"},
            "spec": {**WORKLOAD, "replicas": 2},
        },
    )

    pods = eventually(
        lambda: decode_list(control_plane.request("GET", f"/api/v1/namespaces/{namespace}/pods").text, Pod),
        "two pods that the scheduler has looked at",
        holds=lambda found: len(found) == 2 and all(pod.status.conditions for pod in found),
    )
    events = eventually(
        lambda: decode_list(
            control_plane.request("GET", f"/api/v1/namespaces/{namespace}/events").text, Event
        ),
        "an event",
        holds=lambda found: len(found) > 0,
    )

    first = next(iter(pods))
    assert first.spec.containers[0].resources.requests == {"cpu": "250m", "memory": "1Gi"}
    assert first.spec.init_containers[0].restart_policy == "Always"
    assert first.spec.topology_spread_constraints[0].max_skew == 1
    assert next(iter(events)).involved_object.namespace == namespace
