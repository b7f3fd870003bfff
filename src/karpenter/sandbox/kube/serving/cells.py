# SPDX-License-Identifier: Apache-2.0
"""What stands in the columns of ``kubectl get``, by kind.

Each function gives the cells of one object in the order of the kind's columns. Kinds without one show their name and
age, as the API server does for kinds that it has no printer for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from karpenter.sandbox.kube.serving.podcells import pod_cells

__all__ = ["CELLS", "age", "human_duration"]

Object = Mapping[str, Any]
_NONE: Final = "<none>"
_UNSET: Final = "<unset>"
_ROLE: Final = "node-role.kubernetes.io/"
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def human_duration(seconds: float) -> str:  # noqa: PLR0911 - one answer a span
    """Gives a span as kubectl shows it: ``42s``, ``3m12s``, ``5h``, ``2d3h``, ``400d``, ``3y``."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    return f"{years}y{days % 365}d" if years < 8 and days % 365 else f"{years}y"


def age(text: str | None, now: datetime) -> str:
    """Gives how long ago a time of an object was."""
    if not text:
        return "<unknown>"
    return human_duration((now - datetime.fromisoformat(text).astimezone(UTC)).total_seconds())


def _born(obj: Object, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _status(obj: Object) -> Object:
    return obj.get("status") or {}


def _labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or _NONE


def _selector(selector: Object | None) -> str:
    if not selector:
        return _NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    forms = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}
    parts += [
        forms[each["operator"]].format(each["key"], ",".join(sorted(each.get("values") or ())))
        for each in selector.get("matchExpressions") or ()
    ]
    return ",".join(parts) or _NONE


def _containers(template: Object) -> tuple[str, str]:
    containers = (template.get("spec") or {}).get("containers") or ()
    return ",".join(each["name"] for each in containers), ",".join(
        each.get("image", "") for each in containers
    )


def _node(obj: Object, now: datetime) -> list[Any]:
    status, metadata = _status(obj), obj["metadata"]
    ready = next((each for each in status.get("conditions") or () if each["type"] == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if _spec(obj).get("unschedulable"):
        words.append("SchedulingDisabled")
    roles = sorted(
        key.removeprefix(_ROLE)
        for key in metadata.get("labels") or {}
        if key.startswith(_ROLE) and key != _ROLE
    )
    if role := (metadata.get("labels") or {}).get("kubernetes.io/role"):
        roles = sorted({*roles, role})
    addresses = {each["type"]: each["address"] for each in reversed(status.get("addresses") or ())}
    info = status.get("nodeInfo") or {}
    return [
        metadata["name"],
        ",".join(words),
        ",".join(roles) or _NONE,
        _born(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", _NONE),
        addresses.get("ExternalIP", _NONE),
        *(info.get(key) or "<unknown>" for key in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _deployment(obj: Object, now: datetime) -> list[Any]:
    status = _status(obj)
    names, images = _containers(_spec(obj).get("template") or {})
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _born(obj, now),
        names,
        images,
        _selector(_spec(obj).get("selector")),
    ]


def _replicas(obj: Object, now: datetime) -> list[Any]:
    status, selector = _status(obj), _spec(obj).get("selector")
    names, images = _containers(_spec(obj).get("template") or {})
    plain = obj["kind"] == "ReplicationController"
    return [
        obj["metadata"]["name"],
        _spec(obj).get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _born(obj, now),
        names,
        images,
        _labels(selector) if plain else _selector(selector),
    ]


def _stateful(obj: Object, now: datetime) -> list[Any]:
    names, images = _containers(_spec(obj).get("template") or {})
    ready = f"{_status(obj).get('readyReplicas', 0)}/{_spec(obj).get('replicas', 0)}"
    return [obj["metadata"]["name"], ready, _born(obj, now), names, images]


def _daemon(obj: Object, now: datetime) -> list[Any]:
    status = _status(obj)
    names, images = _containers(_spec(obj).get("template") or {})
    keys = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    node_selector = ((_spec(obj).get("template") or {}).get("spec") or {}).get("nodeSelector")
    return [
        obj["metadata"]["name"],
        *(status.get(key, 0) for key in keys),
        _labels(node_selector),
        _born(obj, now),
        names,
        images,
        _selector(_spec(obj).get("selector")),
    ]


def _job(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    done, wanted = status.get("succeeded", 0), spec.get("completions")
    parallel = spec.get("parallelism") or 0
    told = (
        f"{done}/{wanted}"
        if wanted is not None
        else f"{done}/1 of {parallel}"
        if parallel > 1
        else f"{done}/1"
    )
    begun, ended = status.get("startTime"), status.get("completionTime")
    span = ""
    if begun:
        end = datetime.fromisoformat(ended) if ended else now
        span = human_duration((end - datetime.fromisoformat(begun)).total_seconds())
    held = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    words = (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    )
    state = next((word for kind, word in words if kind in held), "Running")
    if state == "Running" and obj["metadata"].get("deletionTimestamp"):
        state = "Terminating"
    names, images = _containers(spec.get("template") or {})
    return [
        obj["metadata"]["name"],
        state,
        told,
        span,
        _born(obj, now),
        names,
        images,
        _selector(spec.get("selector")),
    ]


def _cron_job(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    last = status.get("lastScheduleTime")
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    names, images = _containers(template.get("template") or {})
    return [
        obj["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or _NONE,
        str(bool(spec.get("suspend"))),
        len(status.get("active") or ()),
        age(last, now) if last else _NONE,
        _born(obj, now),
        names,
        images,
        _selector(template.get("selector")),
    ]


def _event(obj: Object, now: datetime) -> list[Any]:
    about = obj.get("involvedObject") or {}
    first, last = obj.get("firstTimestamp"), obj.get("lastTimestamp")
    series = obj.get("series") or {}
    count = obj.get("count") or 1
    micro = obj.get("eventTime")
    seen_first = age(first or micro, now)
    seen_last = age(last, now) if last else seen_first
    if series:
        count = series.get("count", count)
        seen_last = age(series.get("lastObservedTime"), now)
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent", "")
    host = source.get("host") or (obj.get("reportingInstance", "") if not source.get("component") else "")
    target = (
        f"{about.get('kind', '').lower()}/{about.get('name', '')}"
        if about.get("name")
        else about.get("kind", "").lower()
    )
    return [
        seen_last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (obj.get("message") or "").strip(),
        seen_first,
        count,
        obj["metadata"]["name"],
    ]


def _service(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    kind = spec.get("type", "ClusterIP")
    external = ",".join(spec.get("externalIPs") or ())
    if kind == "LoadBalancer":
        ingress = (_status(obj).get("loadBalancer") or {}).get("ingress") or ()
        given = [each.get("ip") or each.get("hostname", "") for each in ingress]
        external = ",".join([*given, *(spec.get("externalIPs") or ())]) or "<pending>"
    elif kind == "ExternalName":
        external = spec.get("externalName", "")
    ports = ",".join(
        f"{each.get('port')}{':' + str(each['nodePort']) if each.get('nodePort') else ''}/{each.get('protocol', 'TCP')}"
        for each in spec.get("ports") or ()
    )
    return [
        obj["metadata"]["name"],
        kind,
        (spec.get("clusterIPs") or [spec.get("clusterIP") or _NONE])[0] or _NONE,
        external or _NONE,
        ports or _NONE,
        _born(obj, now),
        _labels(spec.get("selector")),
    ]


def _modes(modes: list[str] | None) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in _MODES if mode in (modes or ()))


def _class_of(obj: Object) -> str:
    beta = (obj["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    return str(beta or _spec(obj).get("storageClassName") or "")


def _volume(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    claim = spec.get("claimRef") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        obj["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", ""),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        f"{claim['namespace']}/{claim['name']}" if claim.get("name") else "",
        _class_of(obj),
        spec.get("volumeAttributesClassName") or _UNSET,
        status.get("reason", ""),
        _born(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def _claim(obj: Object, now: datetime) -> list[Any]:
    spec, status = _spec(obj), _status(obj)
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        obj["metadata"]["name"],
        phase,
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        _class_of(obj),
        spec.get("volumeAttributesClassName") or _UNSET,
        _born(obj, now),
        spec.get("volumeMode") or _UNSET,
    ]


def _storage_class(obj: Object, now: datetime) -> list[Any]:
    marks = obj["metadata"].get("annotations") or {}
    name = obj["metadata"]["name"]
    if "true" in {marks.get(f"storageclass.{word}kubernetes.io/is-default-class") for word in ("", "beta.")}:
        name += " (default)"
    return [
        name,
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        _born(obj, now),
    ]


def _budget(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        obj["metadata"]["name"],
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        _status(obj).get("disruptionsAllowed", 0),
        _born(obj, now),
    ]


def _endpoints(obj: Object, now: datetime) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or ():
        ports = subset.get("ports") or ()
        for address in subset.get("addresses") or ():
            found += [f"{address['ip']}:{port['port']}" for port in ports] or [address["ip"]]
    told = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [obj["metadata"]["name"], told or _NONE, _born(obj, now)]


def _slice(obj: Object, now: datetime) -> list[Any]:
    ports = [str(each.get("port", "*")) for each in obj.get("ports") or ()]
    addresses = [address for each in obj.get("endpoints") or () for address in each.get("addresses") or ()]

    def told(items: list[str]) -> str:
        more = f" + {len(items) - 3} more..." if len(items) > 3 else ""
        return ",".join(items[:3]) + more if items else _UNSET

    return [
        obj["metadata"]["name"],
        obj.get("addressType", ""),
        told(ports),
        told(addresses),
        _born(obj, now),
    ]


def _autoscaler(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    reference = spec.get("scaleTargetRef") or {}
    parts = []
    for each in spec.get("metrics") or ():
        target = (each.get("resource") or {}).get("target") or {}
        if "averageUtilization" in target:
            parts.append(f"{each['resource']['name']}: <unknown>/{target['averageUtilization']}%")
        else:
            parts.append("<unknown type>")
    if "targetCPUUtilizationPercentage" in spec:
        parts.append(f"cpu: <unknown>/{spec['targetCPUUtilizationPercentage']}%")
    least = spec.get("minReplicas")
    return [
        obj["metadata"]["name"],
        f"{reference.get('kind')}/{reference.get('name')}",
        ", ".join(parts) or _NONE,
        _UNSET if least is None else str(least),
        spec.get("maxReplicas"),
        _status(obj).get("currentReplicas", 0),
        _born(obj, now),
    ]


def _bindings(obj: Object, now: datetime) -> list[Any]:
    reference = obj.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for each in obj.get("subjects") or ():
        kind, name = each.get("kind", ""), each.get("name", "")
        told = f"{each.get('namespace', '')}/{name}" if kind == "ServiceAccount" else name
        by_kind.setdefault(kind, []).append(told)
    role = f"{reference.get('kind')}/{reference.get('name')}"
    return [obj["metadata"]["name"], role, _born(obj, now), *(", ".join(names) for names in by_kind.values())]


def _driver(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    tokens = ",".join(each.get("audience", "") for each in spec.get("tokenRequests") or ()) or _UNSET
    return [
        obj["metadata"]["name"],
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        tokens,
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or _NONE,
        _born(obj, now),
    ]


def _attachment(obj: Object, now: datetime) -> list[Any]:
    spec = _spec(obj)
    volume = (spec.get("source") or {}).get("persistentVolumeName", "")
    return [
        obj["metadata"]["name"],
        spec.get("attacher", ""),
        volume,
        spec.get("nodeName", ""),
        bool(_status(obj).get("attached")),
        _born(obj, now),
    ]


def _revision(obj: Object, now: datetime) -> list[Any]:
    owner = next(
        (each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")), None
    )
    told = _NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        told = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"
    return [obj["metadata"]["name"], told, obj.get("revision", 0), _born(obj, now)]


def _simple(*paths: str) -> Callable[[Object, datetime], list[Any]]:
    def cells(obj: Object, now: datetime) -> list[Any]:
        found: list[Any] = [obj["metadata"]["name"]]
        for path in paths:
            value: Any = obj
            for step in path.split("."):
                value = value.get(step) if isinstance(value, Mapping) else None
            found.append(len(value or ()) if isinstance(value, (list, dict)) or path in _COUNTED else value)
        return [*found, _born(obj, now)]

    return cells


_COUNTED: Final = frozenset({"data", "secrets", "spec.drivers"})


def _priority(obj: Object, now: datetime) -> list[Any]:
    return [
        obj["metadata"]["name"],
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        _born(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


def _template(obj: Object, _now: datetime) -> list[Any]:
    template = obj.get("template") or {}
    return [
        obj["metadata"]["name"],
        *_containers(template),
        _labels((template.get("metadata") or {}).get("labels")),
    ]


def _named(obj: Object, _now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


def _config(obj: Object, now: datetime) -> list[Any]:
    size = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [obj["metadata"]["name"], size, _born(obj, now)]


def _policy(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], _selector(_spec(obj).get("podSelector")), _born(obj, now)]


CELLS: Final[dict[str, Callable[[Object, datetime], list[Any]]]] = {
    "/pods": lambda obj, now: pod_cells(obj, now, age),
    "/nodes": _node,
    "/namespaces": _simple("status.phase"),
    "/configmaps": _config,
    "/secrets": lambda obj, now: [
        obj["metadata"]["name"],
        obj.get("type", ""),
        len(obj.get("data") or ()),
        _born(obj, now),
    ],
    "/serviceaccounts": _simple("secrets"),
    "/services": _service,
    "/endpoints": _endpoints,
    "/events": _event,
    "/persistentvolumes": _volume,
    "/persistentvolumeclaims": _claim,
    "/podtemplates": _template,
    "/replicationcontrollers": _replicas,
    "apps/controllerrevisions": _revision,
    "apps/deployments": _deployment,
    "apps/replicasets": _replicas,
    "apps/statefulsets": _stateful,
    "apps/daemonsets": _daemon,
    "autoscaling/horizontalpodautoscalers": _autoscaler,
    "batch/jobs": _job,
    "batch/cronjobs": _cron_job,
    "coordination.k8s.io/leases": _simple("spec.holderIdentity"),
    "discovery.k8s.io/endpointslices": _slice,
    "networking.k8s.io/networkpolicies": _policy,
    "node.k8s.io/runtimeclasses": _simple("handler"),
    "policy/poddisruptionbudgets": _budget,
    "rbac.authorization.k8s.io/clusterrolebindings": _bindings,
    "rbac.authorization.k8s.io/rolebindings": _bindings,
    "rbac.authorization.k8s.io/roles": _named,
    "rbac.authorization.k8s.io/clusterroles": _named,
    "apiextensions.k8s.io/customresourcedefinitions": _named,
    "scheduling.k8s.io/priorityclasses": _priority,
    "storage.k8s.io/csidrivers": _driver,
    "storage.k8s.io/csinodes": _simple("spec.drivers"),
    "storage.k8s.io/storageclasses": _storage_class,
    "storage.k8s.io/volumeattachments": _attachment,
}
