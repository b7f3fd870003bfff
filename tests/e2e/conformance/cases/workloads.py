# SPDX-License-Identifier: Apache-2.0
"""Workloads as people get them wrong, and their scale and status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.e2e.conformance.cases.kinds import NAMESPACE
from tests.e2e.conformance.cases.manifests import container, deployment, pod_spec
from tests.e2e.conformance.requests import JSON_PATCH, MERGE, Request

__all__ = ["requests"]

_APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
_BATCH = f"/apis/batch/v1/namespaces/{NAMESPACE}"


def _template(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "a"} if labels is None else labels}, "spec": pod_spec(**spec)}


def requests() -> Iterator[Request]:
    """Gives the requests."""
    yield from _bad_deployments()
    yield from _scale()
    yield from _status()
    yield from _others()


def _bad_deployments() -> Iterator[Request]:
    cases: dict[str, dict[str, Any]] = {
        "no-selector": {"selector": None},
        "empty-selector": {"selector": {}},
        "selector-mismatch": {"selector": {"matchLabels": {"app": "other"}}},
        "no-labels": {"template": _template({})},
        "negative-replicas": {"replicas": -1},
        "text-replicas": {"replicas": "two"},
        "fraction-replicas": {"replicas": 1.5},
        "no-containers": {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {}}},
        "no-image": {"template": _template(containers=[{"name": "c"}])},
        "no-container-name": {"template": _template(containers=[{"image": "i"}])},
        "restart-never": {"template": _template(restartPolicy="Never")},
        "bad-strategy": {"strategy": {"type": "Sometimes"}},
        "recreate-with-rolling": {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
        "zero-rolling": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        "bad-percent": {"strategy": {"rollingUpdate": {"maxSurge": "a%"}}},
        "negative-history": {"revisionHistoryLimit": -1},
        "deadline-below-ready": {"minReadySeconds": 10, "progressDeadlineSeconds": 5},
        "bad-expression": {"selector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}},
        "expression-without-values": {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
    }
    for name, spec in cases.items():
        yield Request(f"deployment/{name}", "POST", f"{_APPS}/deployments", deployment("bad", **spec))
    yield Request("deployment/make", "POST", f"{_APPS}/deployments", deployment("d", replicas=2))
    yield Request(
        "deployment/selector-immutable",
        "PATCH",
        f"{_APPS}/deployments/d",
        {
            "spec": {
                "selector": {"matchLabels": {"app": "b"}},
                "template": {"metadata": {"labels": {"app": "b"}}},
            }
        },
        MERGE,
    )
    yield Request(
        "deployment/generation", "PATCH", f"{_APPS}/deployments/d", {"spec": {"paused": True}}, MERGE
    )
    yield Request(
        "deployment/no-generation",
        "PATCH",
        f"{_APPS}/deployments/d",
        {"metadata": {"labels": {"x": "y"}}},
        MERGE,
    )
    yield Request(
        "deployment/status-through-main",
        "PATCH",
        f"{_APPS}/deployments/d",
        {"status": {"replicas": 9}},
        MERGE,
    )


def _scale() -> Iterator[Request]:
    base = f"{_APPS}/deployments/d/scale"
    yield Request("scale/get", "GET", base)
    yield Request(
        "scale/put",
        "PUT",
        base,
        {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "d", "namespace": NAMESPACE},
            "spec": {"replicas": 5},
        },
    )
    yield Request("scale/merge", "PATCH", base, {"spec": {"replicas": 0}}, MERGE)
    yield Request(
        "scale/json", "PATCH", base, [{"op": "replace", "path": "/spec/replicas", "value": 4}], JSON_PATCH
    )
    yield Request("scale/negative", "PATCH", base, {"spec": {"replicas": -4}}, MERGE)
    yield Request(
        "scale/stale",
        "PUT",
        base,
        {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "d", "namespace": NAMESPACE, "resourceVersion": "{rv:deployment/make}"},
            "spec": {"replicas": 5},
        },
    )
    yield Request("scale/missing", "GET", f"{_APPS}/deployments/none/scale")
    yield Request("scale/table", "GET", base, accept="application/json")
    yield Request("scale/after", "GET", f"{_APPS}/deployments/d")
    yield Request("scale/not-for-daemonsets", "GET", f"{_APPS}/daemonsets/none/scale")


def _status() -> Iterator[Request]:
    base = f"{_APPS}/deployments/d/status"
    yield Request("status/get", "GET", base)
    yield Request(
        "status/merge",
        "PATCH",
        base,
        {
            "status": {
                "replicas": 4,
                "observedGeneration": 3,
                "conditions": [{"type": "Available", "status": "True"}],
            }
        },
        MERGE,
    )
    yield Request(
        "status/spec-ignored",
        "PATCH",
        base,
        {"spec": {"replicas": 77}, "metadata": {"labels": {"not": "taken"}}},
        MERGE,
    )
    yield Request("status/negative", "PATCH", base, {"status": {"replicas": -1}}, MERGE)
    yield Request("status/not-served", "GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/m/status")
    yield Request("status/after", "GET", f"{_APPS}/deployments/d")


def _others() -> Iterator[Request]:
    def job(**spec: Any) -> dict[str, Any]:
        told = {"template": {"spec": pod_spec(restartPolicy="Never")}, **spec}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": told}

    yield Request("job/restart-always", "POST", f"{_BATCH}/jobs", job(template={"spec": pod_spec()}))
    yield Request("job/negative", "POST", f"{_BATCH}/jobs", job(completions=-1))
    yield Request("job/make", "POST", f"{_BATCH}/jobs", job(completions=3, parallelism=2))
    yield Request(
        "job/template-immutable",
        "PATCH",
        f"{_BATCH}/jobs/j",
        {"spec": {"template": {"spec": {"containers": [container(image="other")]}}}},
        MERGE,
    )
    yield Request(
        "job/completions-immutable", "PATCH", f"{_BATCH}/jobs/j", {"spec": {"completions": 5}}, MERGE
    )
    yield Request("job/parallelism", "PATCH", f"{_BATCH}/jobs/j", {"spec": {"parallelism": 5}}, MERGE)

    def cron(**spec: Any) -> dict[str, Any]:
        told = {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": {"spec": pod_spec(restartPolicy="Never")}}},
            **spec,
        }
        return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": told}

    yield Request("cronjob/bad-schedule", "POST", f"{_BATCH}/cronjobs", cron(schedule="often"))
    yield Request("cronjob/no-schedule", "POST", f"{_BATCH}/cronjobs", cron(schedule=""))
    yield Request("cronjob/bad-policy", "POST", f"{_BATCH}/cronjobs", cron(concurrencyPolicy="Maybe"))
    stateful = {"serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": _template()}
    head = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}}
    yield Request(
        "statefulset/bad-policy",
        "POST",
        f"{_APPS}/statefulsets",
        {**head, "spec": {**stateful, "podManagementPolicy": "Any"}},
    )
    yield Request("statefulset/make", "POST", f"{_APPS}/statefulsets", {**head, "spec": stateful})
    yield Request(
        "statefulset/immutable", "PATCH", f"{_APPS}/statefulsets/s", {"spec": {"serviceName": "t"}}, MERGE
    )
    yield Request(
        "statefulset/scale", "PATCH", f"{_APPS}/statefulsets/s/scale", {"spec": {"replicas": 3}}, MERGE
    )
    yield from _stateful_volumes(stateful)
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    budgets = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "a"}}
    yield Request(
        "pdb/both",
        "POST",
        budgets,
        {**budget, "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": selector}},
    )
    yield Request(
        "pdb/negative", "POST", budgets, {**budget, "spec": {"minAvailable": -1, "selector": selector}}
    )
    yield Request(
        "pdb/percent", "POST", budgets, {**budget, "spec": {"maxUnavailable": "150%", "selector": selector}}
    )
    yield Request(
        "pdb/make", "POST", budgets, {**budget, "spec": {"maxUnavailable": "50%", "selector": selector}}
    )
    yield Request(
        "pdb/unversioned",
        "PUT",
        f"{budgets}/b",
        {**budget, "spec": {"maxUnavailable": "40%", "selector": selector}},
    )
    services = f"/api/v1/namespaces/{NAMESPACE}/services"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}}
    yield Request(
        "service/headless",
        "POST",
        services,
        {**service, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
    )
    yield Request(
        "service/node-port",
        "POST",
        services,
        {**service, "metadata": {"name": "np"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}},
    )
    yield Request(
        "priorityclass/immutable-make",
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "pc"},
            "value": 5,
        },
    )
    yield Request(
        "priorityclass/immutable",
        "PATCH",
        "/apis/scheduling.k8s.io/v1/priorityclasses/pc",
        {"value": 6},
        MERGE,
    )
    yield Request(
        "priorityclass/system",
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "system-mine"},
            "value": 5,
        },
    )
    yield Request(
        "storageclass/make",
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "sc"},
            "provisioner": "p",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    yield Request(
        "storageclass/immutable",
        "PATCH",
        "/apis/storage.k8s.io/v1/storageclasses/sc",
        {"provisioner": "q"},
        MERGE,
    )
    yield Request(
        "storageclass/no-provisioner",
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "sd"}},
    )
    claims = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "pvc"}}
    yield Request(
        "pvc/no-modes", "POST", claims, {**claim, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    )
    yield Request("pvc/no-storage", "POST", claims, {**claim, "spec": {"accessModes": ["ReadWriteOnce"]}})
    yield Request(
        "pvc/bad-mode",
        "POST",
        claims,
        {**claim, "spec": {"accessModes": ["Sometimes"], "resources": {"requests": {"storage": "1Gi"}}}},
    )
    yield Request(
        "pvc/bad-quantity",
        "POST",
        claims,
        {**claim, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gib"}}}},
    )
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    yield Request(
        "lease/create-on-update",
        "PUT",
        f"{leases}/l",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "x"},
        },
    )
    yield Request(
        "lease/unversioned",
        "PUT",
        f"{leases}/l",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "y"},
        },
    )
    yield Request(
        "lease/bad-duration",
        "POST",
        leases,
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "k"},
            "spec": {"leaseDurationSeconds": 0},
        },
    )
    yield Request(
        "lease/bad-time",
        "POST",
        leases,
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "k"},
            "spec": {"renewTime": "noon"},
        },
    )


def _stateful_volumes(stateful: dict[str, Any]) -> Iterator[Request]:
    """StatefulSets whose containers mount the volumes of their claim templates, and one that mounts another."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }

    def made(name: str, mounted: str) -> dict[str, Any]:
        mounts = [{"name": mounted, "mountPath": "/data"}, {"name": "scratch", "mountPath": "/scratch"}]
        template = _template()
        template["spec"] = {
            **template["spec"],
            "containers": [{**each, "volumeMounts": mounts} for each in template["spec"]["containers"]],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        }
        spec = {**stateful, "template": template, "volumeClaimTemplates": [claim]}
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}

    yield Request("statefulset/claims", "POST", f"{_APPS}/statefulsets", made("v", "data"))
    yield Request("statefulset/other-mount", "POST", f"{_APPS}/statefulsets", made("w", "elsewhere"))
    yield Request(
        "statefulset/claims-changed",
        "PATCH",
        f"{_APPS}/statefulsets/v",
        {"spec": {"template": {"metadata": {"labels": {"app": "a", "tier": "b"}}}}},
        MERGE,
    )
