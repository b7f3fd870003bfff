# SPDX-License-Identifier: Apache-2.0
"""Decoding 5,000 pods as a real API server sends them: the first thing that every start and relist does.

The yardstick is `json.loads` of the standard library on the same bytes, which gives untyped dicts.
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.measure import Row, best_cpu_ms, peak_mib
from karpenter.api.core import Pod, decode_list

__all__ = ["pod_list", "run"]

PODS = 5_000
PROMISE = "<= 100 ms CPU"


def run() -> list[Row]:
    """Measure decoding, typed and as dicts."""
    data = pod_list(PODS)
    decoded = decode_list(data, Pod)
    assert len(decoded) == PODS
    assert next(iter(decoded)).spec.containers[0].resources.requests["cpu"] == "250m"
    return [
        Row(
            benchmark="decode-pods",
            what=f"{PODS} pods, {len(data) / 1e6:.1f} MB",
            cpu_ms=best_cpu_ms(lambda: decode_list(data, Pod)),
            yardstick_ms=best_cpu_ms(lambda: json.loads(data), rounds=3),
            peak_mib=peak_mib(lambda: decode_list(data, Pod)),
            promise=PROMISE,
        )
    ]


def pod_list(count: int) -> bytes:
    """Return a PodList with the usual baggage: managed fields, environment, probes, tokens, statuses."""
    items = [_pod(i) for i in range(count)]
    return json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "987654"}, "items": items},
        separators=(",", ":"),
    ).encode()


def _pod(i: int) -> dict[str, Any]:
    app = f"service-{i % 180}"
    started = "2026-11-02T08:15:27Z"
    return {
        "metadata": {
            "name": f"{app}-7c9f8d6b5d-{i:05x}",
            "generateName": f"{app}-7c9f8d6b5d-",
            "namespace": f"team-{i % 23}",
            "uid": f"5f0c1d2e-0000-4000-8000-{i:012x}",
            "resourceVersion": str(100_000 + i),
            "creationTimestamp": started,
            "labels": {
                "app": app,
                "pod-template-hash": "7c9f8d6b5d",
                "team": f"team-{i % 23}",
                "tier": "backend",
            },
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": f"{i:064x}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-7c9f8d6b5d",
                    "uid": f"9a8b7c6d-0000-4000-8000-{i % 180:012x}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_managed_fields("kube-controller-manager"), _managed_fields("kubelet")],
        },
        "spec": _spec(i, app),
        "status": _status(i, app, started),
    }


def _managed_fields(manager: str) -> dict[str, Any]:
    owned: dict[str, Any] = {
        f"f:{name}": {".": {}, f"f:{name}Value": {}}
        for name in ("env", "image", "name", "ports", "resources")
    }
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-02T08:15:27Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": owned}, "f:spec": {"f:containers": owned}},
    }


def _spec(i: int, app: str) -> dict[str, Any]:
    token = {
        "name": "kube-api-access-x7k2p",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ],
            "defaultMode": 420,
        },
    }
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    return {
        "volumes": [token, {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}}],
        "containers": [
            {
                "name": "main",
                "image": f"registry.example.com/platform/{app}:1.27.3",
                "command": ["/app/server", "--listen=:8080", "--log-format=json"],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(8)],
                "resources": {
                    "requests": {"cpu": "250m", "memory": "512Mi"},
                    "limits": {"cpu": "1", "memory": "512Mi"},
                },
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/app"},
                    {"name": token["name"], "readOnly": True, "mountPath": "/var/run/secrets/serviceaccount"},
                ],
                "livenessProbe": probe,
                "readinessProbe": probe,
                "terminationMessagePath": "/dev/termination-log",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "nodeName": f"ip-10-0-{i % 250}-{i % 199}.ec2.internal",
        "schedulerName": "default-scheduler",
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": {"app": app}},
                            "topologyKey": "kubernetes.io/hostname",
                        },
                    }
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ],
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _status(i: int, app: str, started: str) -> dict[str, Any]:
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [
            {"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": started}
            for name in types
        ],
        "hostIP": f"10.0.{i % 250}.{i % 199}",
        "podIP": f"10.1.{i % 250}.{i % 199}",
        "podIPs": [{"ip": f"10.1.{i % 250}.{i % 199}"}],
        "startTime": started,
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": started}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": f"registry.example.com/platform/{app}:1.27.3",
                "imageID": f"registry.example.com/platform/{app}@sha256:{i:064x}",
                "containerID": f"containerd://{i:064x}",
                "started": True,
                "allocatedResources": {"cpu": "250m", "memory": "512Mi"},
                "resources": {
                    "requests": {"cpu": "250m", "memory": "512Mi"},
                    "limits": {"cpu": "1", "memory": "512Mi"},
                },
            }
        ],
        "qosClass": "Burstable",
    }
