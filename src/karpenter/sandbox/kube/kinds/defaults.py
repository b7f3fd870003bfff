# SPDX-License-Identifier: Apache-2.0
"""What the API server fills in where the sender said nothing, by the name of the struct.

``DEFAULTS`` holds constants; where a default depends on other fields, a function of the struct gives it. Structs are
found by walking the shape, so a pod's defaults also reach the templates of workloads.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from karpenter.sandbox.kube.kinds.shapes import Shape, reaching

__all__ = ["apply_defaults"]

Struct = dict[str, Any]
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _pull_policy(container: Struct) -> Struct:
    image = container.get("image", "")
    tag = "" if "@" in image else image.rpartition("/")[2].partition(":")[2] or "latest"
    return {"imagePullPolicy": "Always" if tag == "latest" else "IfNotPresent"}


def _accounts(spec: Struct) -> Struct:
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    return {"serviceAccountName": name, "serviceAccount": name} if name else {}


def _volume(volume: Struct) -> Struct:
    return {"emptyDir": {}} if volume.keys() <= {"name"} else {}


def _pod(pod: Struct) -> Struct:
    pod.setdefault("spec", {}).setdefault("enableServiceLinks", True)
    for container in (*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())):
        resources = container.setdefault("resources", {})
        limits = resources.get("limits") or {}
        if limits:
            requests = resources.setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)
    return {}


def _host_ports(spec: Struct) -> Struct:
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("hostNetwork"):
        for container in spec.get("containers") or ():
            for port in container.get("ports") or ():
                if port.get("containerPort"):
                    port.setdefault("hostPort", port["containerPort"])
    return {}


def _rolling(strategy: Struct, inner: Struct) -> Struct:
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return {}
    return {"type": "RollingUpdate", "rollingUpdate": {**inner, **(strategy.get("rollingUpdate") or {})}}


def _deployment_strategy(strategy: Struct) -> Struct:
    given = _rolling(strategy, {"maxUnavailable": "25%", "maxSurge": "25%"})
    strategy.update({key: value for key, value in given.items() if key == "rollingUpdate"})
    return given


def _stateful_strategy(strategy: Struct) -> Struct:
    given = _rolling(strategy, {"partition": 0})
    strategy.update({key: value for key, value in given.items() if key == "rollingUpdate"})
    return given


def _daemon_strategy(strategy: Struct) -> Struct:
    given = _rolling(strategy, {"maxUnavailable": 1, "maxSurge": 0})
    strategy.update({key: value for key, value in given.items() if key == "rollingUpdate"})
    return given


def _job(job: Struct) -> Struct:
    spec = job.setdefault("spec", {})
    given: Struct = {
        "completionMode": "NonIndexed",
        "suspend": False,
        "backoffLimit": 6,
        "manualSelector": False,
    }
    if spec.get("completions") is None and spec.get("parallelism") is None:
        given |= {"completions": 1, "parallelism": 1}
    elif spec.get("parallelism") is None:
        given["parallelism"] = 1
    if spec.get("backoffLimitPerIndex") is not None:
        given["backoffLimit"] = 2**31 - 1
    given["podReplacementPolicy"] = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    _take(spec, given)
    # The labels that the template has when the job is made also become the job's own.
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)
    return {}


def _secret(secret: Struct) -> Struct:
    plain = secret.pop("stringData", None) or {}
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    return {"type": "Opaque"}


def _daemon_set(daemon: Struct) -> Struct:
    metadata = daemon.setdefault("metadata", {})
    metadata["annotations"] = {_TEMPLATE_GENERATION: "1", **(metadata.get("annotations") or {})}
    return {}


def _service(spec: Struct) -> Struct:
    given: Struct = {"sessionAffinity": "None", "type": "ClusterIP"}
    kind = spec.get("type", "ClusterIP")
    if kind != "ExternalName":
        given["internalTrafficPolicy"] = "Cluster"
    if kind in {"NodePort", "LoadBalancer"}:
        given["externalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        given["allocateLoadBalancerNodePorts"] = True
    return given


def _service_port(port: Struct) -> Struct:
    if port.get("targetPort") in (None, 0, ""):
        port["targetPort"] = port.get("port", 0)
    return {"protocol": "TCP"}


def _claim_policy(spec: Struct) -> Struct:
    policy = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    spec["persistentVolumeClaimRetentionPolicy"] = {
        **policy,
        **(spec.get("persistentVolumeClaimRetentionPolicy") or {}),
    }
    return {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10}


def _controller(obj: Struct) -> Struct:
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    if labels:
        if not obj["spec"].get("selector"):
            obj["spec"]["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    return {}


def _node_status(status: Struct) -> Struct:
    return {"allocatable": dict(status["capacity"])} if status.get("capacity") else {}


def _namespace(namespace: Struct) -> Struct:
    metadata = namespace.setdefault("metadata", {})
    if metadata.get("name"):
        metadata["labels"] = {
            **(metadata.get("labels") or {}),
            "kubernetes.io/metadata.name": metadata["name"],
        }
    if not namespace.setdefault("status", {}).get("phase"):
        namespace["status"]["phase"] = "Active"
    return {}


def _phase(phase: str) -> Callable[[Struct], Struct]:
    def given(obj: Struct) -> Struct:
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = phase
        return {}

    return given


def _subject(subject: Struct) -> Struct:
    return {"apiGroup": "rbac.authorization.k8s.io"} if subject.get("kind") in {"User", "Group"} else {}


def _definition_names(spec: Struct) -> Struct:
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    return {"conversion": {"strategy": "None"}}


_MODE: Final[Struct] = {"defaultMode": 420}
DEFAULTS: Final[dict[str, Struct | Callable[[Struct], Struct]]] = {
    "core.Pod": _pod,
    "core.PodSpec": {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    },
    "core.Container": {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    "core.ContainerPort": {"protocol": "TCP"},
    "core.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.GRPCAction": {"service": ""},
    "core.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.Volume": _volume,
    "core.SecretVolumeSource": _MODE,
    "core.ConfigMapVolumeSource": _MODE,
    "core.DownwardAPIVolumeSource": _MODE,
    "core.ProjectedVolumeSource": _MODE,
    "core.HostPathVolumeSource": {"type": ""},
    "core.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.ServiceSpec": _service,
    "core.ServicePort": _service_port,
    "core.EndpointPort": {"protocol": "TCP"},
    "core.Secret": _secret,
    "core.Namespace": _namespace,
    "core.NodeStatus": _node_status,
    "core.PersistentVolume": _phase("Pending"),
    "core.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "core.PersistentVolumeClaim": _phase("Pending"),
    "core.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.ReplicationController": _controller,
    "core.ReplicationControllerSpec": {"replicas": 1},
    "apps.DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "apps.DeploymentStrategy": _deployment_strategy,
    "apps.ReplicaSetSpec": {"replicas": 1},
    "apps.StatefulSetSpec": _claim_policy,
    "apps.StatefulSetUpdateStrategy": _stateful_strategy,
    "apps.DaemonSet": _daemon_set,
    "apps.DaemonSetSpec": {"revisionHistoryLimit": 10},
    "apps.DaemonSetUpdateStrategy": _daemon_strategy,
    "batch.Job": _job,
    "batch.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "autoscaling.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "storage.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "storage.CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    "scheduling.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "rbac.RoleRef": {"apiGroup": "rbac.authorization.k8s.io"},
    "rbac.Subject": _subject,
    "discovery.EndpointPort": {"name": "", "protocol": "TCP"},
    "apiextensions.CustomResourceDefinitionSpec": _definition_names,
}


def _claim_kinds(spec: Struct) -> Struct:
    """Name the kind of each claim template, as the server does on every way out."""
    for each in spec.get("volumeClaimTemplates") or ():
        each |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    return {}


# More than one thing to fill in, in order.
_ALSO: Final[dict[str, tuple[Callable[[Struct], Struct], ...]]] = {
    "core.PodSpec": (_accounts, _host_ports),
    "core.Container": (_pull_policy,),
    "apps.StatefulSetSpec": (_claim_kinds,),
}
_OWN_NAME: Final = re.compile(
    r"(?:io\.k8s\.api|io\.k8s\.apiextensions-apiserver\.pkg\.apis)\.(\w+)\.\w+\.(\w+)"
)


def apply_defaults(obj: Struct, shape: Shape, known: Mapping[str, Any] | None = None) -> None:
    """Fills in an object, in place, but for what it shares with one that was filled in before."""
    _fill(obj, shape, known)


def _fill(value: Any, shape: Shape, known: Any = None) -> None:  # noqa: C901 - one form of value after the other
    if value is known:
        return
    if isinstance(value, list):
        if shape.element is not None and _has_defaults(shape.element):
            for item in value:
                _fill(item, shape.element)
        return
    if not isinstance(value, dict):
        return
    if shape.kind == "map":
        if shape.element is not None and _has_defaults(shape.element):
            for item in value.values():
                _fill(item, shape.element)
        return
    name = own_name(shape)
    if name in DEFAULTS:
        told = DEFAULTS[name]
        _take(value, told(value) if callable(told) else told)
        for more in _ALSO.get(name, ()):
            _take(value, more(value))
    for key, inner in value.items():
        below = shape.fields.get(key)
        if below is not None and inner is not None and _has_defaults(below.shape):
            _fill(inner, below.shape, known.get(key) if isinstance(known, dict) else None)


def _take(value: Struct, given: Struct) -> None:
    for key, default in given.items():
        if value.get(key) in (None, "", [], {}):
            value[key] = copy.copy(default)


def own_name(shape: Shape) -> str:
    """Gives ``core.PodSpec`` for the struct's long name."""
    return _own_name(shape.definition)


@lru_cache(maxsize=2048)
def _own_name(definition: str) -> str:
    match = _OWN_NAME.fullmatch(definition)
    return f"{match[1]}.{match[2]}" if match else ""


_has_defaults = reaching(lambda shape: own_name(shape) in DEFAULTS)
