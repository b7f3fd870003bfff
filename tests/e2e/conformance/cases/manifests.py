# SPDX-License-Identifier: Apache-2.0
"""Small objects of every kind, as people write them."""

from __future__ import annotations

from typing import Any

__all__ = ["MANIFESTS", "container", "deployment", "pod", "pod_spec"]

Object = dict[str, Any]


def container(**more: Any) -> Object:
    return {"name": "main", "image": "registry.example/app:1.2", **more}


def pod_spec(**more: Any) -> Object:
    return {"containers": [container()], **more}


def pod(name: str, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(**spec)}


def _template(**spec: Any) -> Object:
    return {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec(**spec)}


def deployment(name: str, **spec: Any) -> Object:
    told = {"selector": {"matchLabels": {"app": "a"}}, "template": _template(), **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": told}


_SELECTOR = {"matchLabels": {"app": "a"}}
_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}

# By plural, group and version: what follows metadata, and whether the kind is namespaced.
MANIFESTS: dict[tuple[str, str, str, str], tuple[bool, Object]] = {
    ("", "v1", "configmaps", "ConfigMap"): (True, {"data": {"a": "1"}, "binaryData": {"b": "AAE="}}),
    ("", "v1", "secrets", "Secret"): (True, {"stringData": {"a": "1"}, "data": {"c": "Yg=="}}),
    ("", "v1", "serviceaccounts", "ServiceAccount"): (True, {"automountServiceAccountToken": False}),
    ("", "v1", "services", "Service"): (
        True,
        {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": "http", "name": "web"}]}},
    ),
    ("", "v1", "endpoints", "Endpoints"): (
        True,
        {"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]},
    ),
    ("", "v1", "events", "Event"): (
        True,
        {
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "conf"},
            "reason": "Started",
            "message": "it began",
            "type": "Normal",
            "count": 2,
            "source": {"component": "kubelet", "host": "n1"},
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:05Z",
        },
    ),
    ("", "v1", "pods", "Pod"): (True, {"spec": pod_spec()}),
    ("", "v1", "podtemplates", "PodTemplate"): (True, {"template": _template()}),
    ("", "v1", "replicationcontrollers", "ReplicationController"): (
        True,
        {"spec": {"template": _template()}},
    ),
    ("", "v1", "limitranges", "LimitRange"): (
        True,
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "200"}}]}},
    ),
    ("", "v1", "resourcequotas", "ResourceQuota"): (True, {"spec": {"hard": {"pods": "1000"}}}),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"): (
        True,
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    ("", "v1", "persistentvolumes", "PersistentVolume"): (
        False,
        {
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
            }
        },
    ),
    ("", "v1", "nodes", "Node"): (
        False,
        {
            "spec": {
                "providerID": "aws:///us-west-2a/i-1",
                "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
            },
            "status": {
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"},
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
                ],
                "nodeInfo": {"kubeletVersion": "v1.34.4", "osImage": "Linux"},
                "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
            },
        },
    ),
    ("", "v1", "namespaces", "Namespace"): (False, {}),
    ("apps", "v1", "deployments", "Deployment"): (
        True,
        {"spec": {"selector": _SELECTOR, "template": _template()}},
    ),
    ("apps", "v1", "replicasets", "ReplicaSet"): (
        True,
        {"spec": {"selector": _SELECTOR, "template": _template()}},
    ),
    ("apps", "v1", "statefulsets", "StatefulSet"): (
        True,
        {"spec": {"serviceName": "s", "selector": _SELECTOR, "template": _template()}},
    ),
    ("apps", "v1", "daemonsets", "DaemonSet"): (
        True,
        {"spec": {"selector": _SELECTOR, "template": _template()}},
    ),
    ("apps", "v1", "controllerrevisions", "ControllerRevision"): (True, {"revision": 1, "data": {"a": "b"}}),
    ("batch", "v1", "jobs", "Job"): (True, {"spec": {"template": {"spec": pod_spec(restartPolicy="Never")}}}),
    ("batch", "v1", "cronjobs", "CronJob"): (
        True,
        {
            "spec": {
                "schedule": "*/5 * * * *",
                "jobTemplate": {"spec": {"template": {"spec": pod_spec(restartPolicy="OnFailure")}}},
            }
        },
    ),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"): (
        True,
        {"spec": {"minAvailable": 1, "selector": _SELECTOR}},
    ),
    ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"): (
        True,
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "maxReplicas": 3,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 60},
                        },
                    }
                ],
            }
        },
    ),
    ("coordination.k8s.io", "v1", "leases", "Lease"): (
        True,
        {
            "spec": {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "renewTime": "2026-01-01T00:00:00.123456Z",
            }
        },
    ),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"): (
        True,
        {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"port": 80}]},
    ),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"): (
        True,
        {"spec": {"podSelector": _SELECTOR, "policyTypes": ["Ingress"]}},
    ),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role"): (True, {"rules": _RULES}),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"): (
        True,
        {"roleRef": _REF, "subjects": [{"kind": "User", "name": "u"}]},
    ),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"): (False, {"rules": _RULES}),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"): (
        False,
        {"roleRef": _REF, "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}]},
    ),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass"): (False, {"value": 1000}),
    ("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass"): (False, {"handler": "runc"}),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass"): (False, {"provisioner": "ebs.csi.aws.com"}),
    ("storage.k8s.io", "v1", "csinodes", "CSINode"): (
        False,
        {"spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "i-1", "topologyKeys": ["zone"]}]}},
    ),
    ("storage.k8s.io", "v1", "csidrivers", "CSIDriver"): (False, {"spec": {}}),
    ("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment"): (
        False,
        {"spec": {"attacher": "ebs.csi.aws.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    ),
}
