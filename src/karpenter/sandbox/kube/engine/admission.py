# SPDX-License-Identifier: Apache-2.0
"""What the API server's admission plugins add to a new object, or refuse, by looking at other objects.

Namespaces must be there and not on their way out; pods get a priority, default tolerations and a service account;
services get an address; jobs a selector; claims the default class; a definition's names must fit.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from karpenter.kit.quantity import parse_quantity
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.storage.store import Store

__all__ = ["admit_creation", "admit_update", "check_namespace", "quality_of_service"]

_SERVICE_NETWORK: Final = ipaddress.ip_network("10.96.0.0/16")
_NODE_PORTS: Final = range(30000, 32768)
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_TOLERATED: Final = (_NOT_READY, "node.kubernetes.io/unreachable")
_TOLERATED_S: Final = 300
_ACCOUNT_MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"

Object = dict[str, Any]


def random_suffix() -> str:
    """Gives five characters that make a name one's own; vowels are left out, as Kubernetes does."""
    return "".join(secrets.choice(_LETTERS) for _ in range(5))


def check_namespace(store: Store, resource: Resource, namespace: str, name: str) -> None:
    """Refuses a new object in a namespace that is not there or is on its way out.

    Raises:
        ApiError: it is one or the other.
    """
    found = store.get("/namespaces", "", namespace)
    if found is None:
        raise ApiError.not_found("", "namespaces", namespace)
    if found.obj["metadata"].get("deletionTimestamp"):
        error = ApiError.forbidden(
            resource.group,
            resource.plural,
            name,
            f"unable to create new content in namespace {namespace} because it is being terminated",
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = {**(error.details or {}), "causes": [cause]}
        raise error


def admit_creation(store: Store, resource: Resource, obj: Object) -> None:
    """Adds to a new object, in place, what depends on other objects.

    Raises:
        ApiError: a class or account that it names is not there.
    """
    plugin = _PLUGINS.get(resource.storage_key)
    if plugin is not None and resource.definition is None:
        plugin(store, obj)


def _pod(store: Store, pod: Object) -> None:
    spec = pod["spec"]
    _priority(store, pod)
    _account(store, pod)
    tolerations = list(spec.get("tolerations") or ())
    for key in _TOLERATED:
        if not any(_covers(each, key) for each in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_S}
            )
    spec["tolerations"] = tolerations
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def admit_update(resource: Resource, obj: Object, old: Mapping[str, Any]) -> None:
    """Adds to a changed object, in place, what every object of its kind has."""
    if not isinstance(obj.get("spec"), dict):
        return
    if resource.storage_key == "/pods":
        _tolerate(obj["spec"])
    if resource.storage_key == "/services":
        obj["spec"] = _with_allocated(obj["spec"], old.get("spec") or {})


def _with_allocated(spec: Mapping[str, Any], old: Mapping[str, Any]) -> Object:
    """Return the spec of a service with the addresses and ports that it was given, where the change leaves them out."""
    kinds = [each.get("type") or "ClusterIP" for each in (spec, old)]
    made = dict(spec)
    if "ExternalName" not in kinds and not made.get("clusterIP"):
        made |= {key: old[key] for key in ("clusterIP", "clusterIPs") if old.get(key) and not made.get(key)}
    if all(each in {"NodePort", "LoadBalancer"} for each in kinds):
        given = {_port_key(each): each["nodePort"] for each in old.get("ports") or () if each.get("nodePort")}
        taken = {each.get("nodePort") for each in made.get("ports") or ()}
        made["ports"] = [
            {**each, "nodePort": given[_port_key(each)]}
            if not each.get("nodePort") and given.get(_port_key(each), 0) not in {0, *taken}
            else each
            for each in made.get("ports") or ()
        ]
    return made


def _port_key(port: Mapping[str, Any]) -> tuple[str, int]:
    return str(port.get("protocol") or "TCP"), int(port.get("port") or 0)


def _tolerate(spec: Object) -> None:
    tolerations = list(spec.get("tolerations") or ())
    for key in _TOLERATED:
        if not any(_covers(each, key) for each in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATED_S,
                }
            )
    spec["tolerations"] = tolerations


def _covers(toleration: Mapping[str, Any], key: str) -> bool:
    return toleration.get("key", "") in {key, ""} and toleration.get("effect", "") in {"NoExecute", ""}


def _priority(store: Store, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    policy, value = "PreemptLowerPriority", 0
    if name:
        found = store.get("scheduling.k8s.io/priorityclasses", "", name)
        if found is None and name not in _SYSTEM_CLASSES:
            raise ApiError.forbidden(
                "", "pods", pod["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
            )
        value = found.obj.get("value", 0) if found else _SYSTEM_CLASSES[name]
        policy = (found.obj.get("preemptionPolicy") if found else None) or policy
    else:
        defaults = [
            each.obj
            for each in store.items("scheduling.k8s.io/priorityclasses")
            if each.obj.get("globalDefault")
        ]
        if defaults:
            chosen = max(defaults, key=lambda each: int(each.get("value", 0)))
            spec["priorityClassName"] = chosen["metadata"]["name"]
            value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy") or policy
    if spec.get("priority") not in (None, value):
        raise ApiError.forbidden(
            "",
            "pods",
            pod["metadata"].get("name", ""),
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _account(store: Store, pod: Object) -> None:
    spec = pod["spec"]
    namespace = pod["metadata"].get("namespace", "")
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    found = store.get("/serviceaccounts", namespace, name)
    if found is None and name != "default":
        raise ApiError.forbidden(
            "",
            "pods",
            pod["metadata"].get("name", ""),
            f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found',
        )
    automount = spec.get("automountServiceAccountToken")
    if automount is None and found is not None:
        automount = found.obj.get("automountServiceAccountToken")
    if automount is False:
        return
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    wanting = [
        each
        for each in containers
        if all(mount.get("mountPath") != _ACCOUNT_MOUNT for mount in each.get("volumeMounts") or ())
    ]
    if not wanting:
        return
    volume = f"kube-api-access-{random_suffix()}"
    for each in wanting:
        mounts = list(each.get("volumeMounts") or ())
        each["volumeMounts"] = [*mounts, {"name": volume, "readOnly": True, "mountPath": _ACCOUNT_MOUNT}]
    spec["volumes"] = [*(spec.get("volumes") or ()), _account_volume(volume)]


def _account_volume(name: str) -> Object:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [namespace]}},
            ],
            "defaultMode": 420,
        },
    }


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """Gives the class of a pod: Guaranteed, Burstable or BestEffort."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    any_set, guaranteed = False, True
    for each in containers:
        resources = each.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = requests.get(name), limits.get(name)
            if _positive(request) or _positive(limit):
                any_set = True
            if (
                limit is None
                or not _positive(limit)
                or (request is not None and parse_quantity(request).nano != parse_quantity(limit).nano)
            ):
                guaranteed = False
    return "BestEffort" if not any_set else "Guaranteed" if guaranteed else "Burstable"


def _positive(amount: str | None) -> bool:
    return amount is not None and parse_quantity(amount).nano > 0


def _service(store: Store, service: Object) -> None:
    spec = service["spec"]
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return
    if not spec.get("clusterIP"):
        used = {each.obj["spec"].get("clusterIP") for each in store.items("/services")}
        size = _SERVICE_NETWORK.num_addresses
        while True:
            address = str(_SERVICE_NETWORK[10 + secrets.randbelow(size - 20)])
            if address not in used:
                break
        spec["clusterIP"] = address
    spec["clusterIPs"] = spec.get("clusterIPs") or [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv6" if ":" in spec["clusterIP"] else "IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if kind in {"NodePort", "LoadBalancer"}:
        taken = {
            port.get("nodePort")
            for each in store.items("/services")
            for port in each.obj["spec"].get("ports") or ()
        }
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = next(number for number in _NODE_PORTS if number not in taken)
                taken.add(port["nodePort"])


def _job(_store: Store, job: Object) -> None:
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    metadata = spec["template"].setdefault("metadata", {})
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(metadata["labels"])


def _node(_store: Store, node: Object) -> None:
    spec = node.setdefault("spec", {})
    taints = list(spec.get("taints") or ())
    # Until the node lifecycle finds the node ready.
    if not any((each.get("key"), each.get("effect")) == (_NOT_READY, "NoSchedule") for each in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def _definition(_store: Store, crd: Object) -> None:
    stored = [each["name"] for each in crd["spec"].get("versions") or () if each.get("storage")]
    crd["status"]["storedVersions"] = stored


def _protect(obj: Object, finalizer: str) -> None:
    present = obj["metadata"].get("finalizers") or []
    if finalizer not in present:
        obj["metadata"]["finalizers"] = [*present, finalizer]


def _volume(_store: Store, volume: Object) -> None:
    _protect(volume, "kubernetes.io/pv-protection")
    volume["status"]["lastPhaseTransitionTime"] = volume["metadata"]["creationTimestamp"]


def _claim(store: Store, claim: Object) -> None:
    _protect(claim, "kubernetes.io/pvc-protection")
    if claim["spec"].get("storageClassName") is not None:
        return
    marked = [
        each.obj
        for each in store.items("storage.k8s.io/storageclasses")
        if (each.obj["metadata"].get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class")
        == "true"
    ]
    if marked:
        newest = max(marked, key=lambda each: str(each["metadata"]["creationTimestamp"]))
        claim["spec"]["storageClassName"] = newest["metadata"]["name"]


def _namespace(_store: Store, namespace: Object) -> None:
    spec = namespace.setdefault("spec", {})
    if "kubernetes" not in (spec.get("finalizers") or ()):
        spec["finalizers"] = [*(spec.get("finalizers") or ()), "kubernetes"]


_PLUGINS: Final[dict[str, Callable[[Store, Object], None]]] = {
    "/pods": _pod,
    "/services": _service,
    "/persistentvolumeclaims": _claim,
    "/namespaces": _namespace,
    "/nodes": _node,
    "/persistentvolumes": _volume,
    "batch/jobs": _job,
    "apiextensions.k8s.io/customresourcedefinitions": _definition,
}
