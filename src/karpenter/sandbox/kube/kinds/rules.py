# SPDX-License-Identifier: Apache-2.0
"""What objects of the built-in kinds may say, by the name of the struct, and what of them may change.

The rules are those that people run into; a real API server knows more. An object that passes here is whole enough for
everything in the sandbox that reads it. Custom kinds bring their own rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from karpenter.api.schema import Problem, ProblemType
from karpenter.api.schema.metadata import creation_problems as metadata_creation
from karpenter.api.schema.metadata import update_problems as metadata_update
from karpenter.api.schema.names import kind_complaints, namespace_complaints
from karpenter.api.schema.problems import child, forbidden, indexed, invalid, not_supported, required
from karpenter.kit import cron
from karpenter.sandbox.kube.kinds.behaviour import behaviour_of
from karpenter.sandbox.kube.kinds.catalogue import Resource
from karpenter.sandbox.kube.kinds.checks import (
    Check,
    Struct,
    at_least_zero,
    between,
    count_or_percent,
    needed,
    one_of,
    positive,
)
from karpenter.sandbox.kube.kinds.crdrules import definition_problems
from karpenter.sandbox.kube.kinds.defaults import own_name
from karpenter.sandbox.kube.kinds.podrules import POD_RULES, pod_update_problems
from karpenter.sandbox.kube.kinds.shapes import Shape, reaching
from karpenter.sandbox.kube.storage.selecting import matches_labels

__all__ = ["creation_problems", "update_problems"]

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_DUPLICATE: Final = ProblemType.DUPLICATE
_SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})


def _selected(spec: Struct, path: str, word: str) -> Iterator[Problem]:
    selector = spec.get("selector")
    template_labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    where = child(path, "selector")
    bad = any(
        (each.get("operator") not in {"Exists", "DoesNotExist"} and not each.get("values"))
        or each.get("operator") not in {"In", "NotIn", "Exists", "DoesNotExist"}
        for each in (selector or {}).get("matchExpressions") or ()
    )
    if selector is None:
        yield required(where)
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid(where, selector, f"empty selector is invalid for {word}")
        return
    if bad:
        yield invalid(where, selector, "invalid label selector")
    elif not matches_labels(selector, template_labels):
        text = "`selector` does not match template `labels`"
        yield invalid(child(path, "template.metadata.labels"), template_labels, text)


def _always(spec: Struct, path: str) -> Iterator[Problem]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy in {"OnFailure", "Never"}:
        yield not_supported(child(path, "template.spec.restartPolicy"), policy, ("Always",))


def _deployment(spec: Struct, path: str) -> Iterator[Problem]:
    yield from at_least_zero("replicas")(spec, path)
    yield from _selected(spec, path, "deployment")
    yield from _always(spec, path)
    yield from _deployment_strategy(spec.get("strategy") or {}, child(path, "strategy"))
    yield from at_least_zero("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")(spec, path)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and 0 <= deadline <= spec.get("minReadySeconds", 0):
        yield invalid(
            child(path, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds"
        )


def _deployment_strategy(strategy: Struct, path: str) -> Iterator[Problem]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            yield forbidden(
                child(path, "rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'"
            )
    elif kind != "RollingUpdate":
        yield not_supported(path, {"Type": kind, "RollingUpdate": rolling}, ("Recreate", "RollingUpdate"))
    elif rolling:
        where = child(path, "rollingUpdate")
        yield from count_or_percent("maxUnavailable", capped=True)(rolling, where)
        yield from count_or_percent("maxSurge")(rolling, where)
        if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
            text = "may not be 0 when `maxSurge` is 0"
            yield invalid(child(where, "maxUnavailable"), rolling["maxUnavailable"], text)


def _replica_set(spec: Struct, path: str) -> Iterator[Problem]:
    yield from at_least_zero("replicas", "minReadySeconds")(spec, path)
    yield from _selected(spec, path, "deployment")
    yield from _always(spec, path)


def _stateful(spec: Struct, path: str) -> Iterator[Problem]:
    policy = spec.get("podManagementPolicy")
    if policy not in {"OrderedReady", "Parallel"}:
        yield invalid(child(path, "podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'")
    yield from at_least_zero("replicas", "minReadySeconds", "revisionHistoryLimit")(spec, path)
    yield from _selected(spec, path, "statefulset")
    yield from _always(spec, path)


def _daemon(spec: Struct, path: str) -> Iterator[Problem]:
    yield from _selected(spec, path, "daemonset")
    yield from _always(spec, path)
    yield from at_least_zero("minReadySeconds", "revisionHistoryLimit")(spec, path)


def _job(spec: Struct, path: str) -> Iterator[Problem]:
    yield from at_least_zero(
        "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"
    )(spec, path)
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy not in {"OnFailure", "Never"}:
        yield required(child(path, "template.spec.restartPolicy"), 'valid values: "OnFailure", "Never"')


def _cron(spec: Struct, path: str) -> Iterator[Problem]:
    schedule = spec.get("schedule", "")
    if not schedule:
        yield required(child(path, "schedule"))
    else:
        try:
            cron.parse(schedule)
        except cron.CronError as error:
            fields = schedule.split()
            text = error.message
            if len(fields) != 5 and not schedule.startswith("@"):
                text = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
            yield invalid(child(path, "schedule"), schedule, text)
    yield from one_of("concurrencyPolicy", "Allow", "Forbid", "Replace")(spec, path)
    yield from at_least_zero(
        "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "startingDeadlineSeconds"
    )(spec, path)


def _budget(spec: Struct, path: str) -> Iterator[Problem]:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        told = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield _in_order(path, told, "minAvailable and maxUnavailable cannot be both set")
    yield from count_or_percent("minAvailable", capped=True)(spec, path)
    yield from count_or_percent("maxUnavailable", capped=True)(spec, path)
    yield from one_of("unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget")(spec, path)


def _in_order(path: str, told: Mapping[str, Any], text: str) -> Problem:
    return invalid(path, dict(told), text)


def _service(spec: Struct, path: str) -> Iterator[Problem]:
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield required(child(path, "ports"))
    for place, port in enumerate(ports):
        where = indexed(child(path, "ports"), place)
        if len(ports) > 1 and not port.get("name"):
            yield required(child(where, "name"))
        yield from between("port", 1, 65535)(port, where)
        yield from one_of("protocol", "SCTP", "TCP", "UDP")(port, where)
    yield from one_of("type", "ClusterIP", "ExternalName", "LoadBalancer", "NodePort")(spec, path)


def _claim(spec: Struct, path: str) -> Iterator[Problem]:
    modes = spec.get("accessModes") or ()
    known = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
    if not modes:
        yield required(child(path, "accessModes"), "at least 1 access mode is required")
    for mode in modes:
        if mode not in known:
            yield not_supported(child(path, "accessModes"), mode, known)
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        yield required(f"{child(path, 'resources')}[storage]")


def _keys(*names: str) -> Check:
    def check(struct: Struct, path: str) -> Iterator[Problem]:
        for name in names:
            for key in struct.get(name) or {}:
                if not _KEY.fullmatch(key):
                    yield invalid(indexed(child(path, name), key), key, _KEY_RULE)

    return check


def _taints(spec: Struct, _path: str) -> Iterator[Problem]:
    seen = set()
    for place, taint in enumerate(spec.get("taints") or ()):
        # The server names the place wrongly, and so do we.
        where = indexed("metadata.taints", place)
        yield from one_of("effect", "NoSchedule", "PreferNoSchedule", "NoExecute")(taint, where)
        pair = (taint.get("key"), taint.get("effect"))
        if pair in seen:
            yield Problem(
                where,
                _DUPLICATE,
                {
                    "key": taint.get("key"),
                    **({"value": taint["value"]} if taint.get("value") else {}),
                    "effect": taint.get("effect"),
                },
                "taints must be unique by key and effect pair",
            )
        seen.add(pair)


def _priority(obj: Struct, _path: str) -> Iterator[Problem]:
    name = (obj.get("metadata") or {}).get("name", "")
    if name.startswith("system-") and name not in _SYSTEM_CLASSES:
        yield forbidden(
            "metadata.name",
            "priority class names with 'system-' prefix are reserved for system use only. error: "
            f"{name} is not a known system priority class",
        )


_RULES: Final[dict[str, tuple[Check, ...]]] = {
    **POD_RULES,
    "core.ConfigMap": (_keys("data", "binaryData"),),
    "core.Secret": (_keys("data"),),
    "core.NodeSpec": (_taints,),
    "core.ServiceSpec": (_service,),
    "core.PersistentVolumeClaimSpec": (_claim,),
    "core.PersistentVolumeSpec": (needed("capacity"), needed("accessModes")),
    "apps.DeploymentSpec": (_deployment,),
    "apps.ReplicaSetSpec": (_replica_set,),
    "apps.StatefulSetSpec": (_stateful,),
    "apps.DaemonSetSpec": (_daemon,),
    "batch.JobSpec": (_job,),
    "batch.CronJobSpec": (_cron,),
    "policy.PodDisruptionBudgetSpec": (_budget,),
    "storage.StorageClass": (needed("provisioner"),),
    "scheduling.PriorityClass": (_priority,),
    "coordination.LeaseSpec": (positive("leaseDurationSeconds"),),
    "autoscaling.HorizontalPodAutoscalerSpec": (positive("maxReplicas"),),
    "node.RuntimeClass": (needed("handler"),),
    "apiextensions.CustomResourceDefinition": (definition_problems,),
}
_STATEFUL_FREE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


_has_rules = reaching(lambda shape: _name(shape) in _RULES)


def _name(shape: Shape) -> str:
    if shape.definition.endswith("meta.v1.LabelSelector"):
        return "meta.LabelSelector"
    return own_name(shape)


def _with_claim_volumes(new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a StatefulSet whose pod template has the volumes that the controller adds for its claims."""
    spec = new.get("spec") or {}
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    names = [(each.get("metadata") or {}).get("name", "") for each in spec.get("volumeClaimTemplates") or ()]
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
    own = [each for each in pod.get("volumes") or () if each.get("name") not in names]
    whole = {**pod, "volumes": [*added, *own]}
    return {**new, "spec": {**spec, "template": {**template, "spec": whole}}} if added else dict(new)


def _problems_within(resource: Resource, new: Mapping[str, Any]) -> Iterator[Problem]:
    judged = _with_claim_volumes(new) if resource.storage_key == "apps/statefulsets" else dict(new)
    return _walk(judged, resource.shape, "")


def _walk(value: Any, shape: Shape, path: str) -> Iterator[Problem]:
    if isinstance(value, list):
        if shape.element is not None:
            for place, item in enumerate(value):
                yield from _walk(item, shape.element, indexed(path, place))
    elif isinstance(value, dict):
        if shape.kind == "map":
            return
        # Parts first: the server tells what is wrong inside before what is wrong with the whole.
        for key, inner in value.items():
            below = shape.fields.get(key)
            if below is not None and inner is not None and key != "status" and _has_rules(below.shape):
                yield from _walk(inner, below.shape, child(path, key))
        for check in _RULES.get(_name(shape), ()):
            yield from check(value, path)


def creation_problems(resource: Resource, new: Mapping[str, Any]) -> list[Problem]:
    """Gives what is wrong with a new object."""
    rule = behaviour_of(resource.storage_key).name_rule
    problems = metadata_creation(_nameable(new["metadata"], rule), namespaced=resource.namespaced)
    problems += _name_problems(new["metadata"], rule)
    problems += _finalizer_problems(new["metadata"])
    return [*problems, *_problems_within(resource, new)]


def _nameable(metadata: Mapping[str, Any], rule: str) -> dict[str, Any]:
    """Gives metadata whose name offends nobody, where the kind has a rule of its own for names."""
    if rule == "subdomain" or not metadata.get("name"):
        return dict(metadata)
    return {**{key: value for key, value in metadata.items() if key != "generateName"}, "name": "x"}


_NAME_RULES: Final[dict[str, Callable[[str], list[str]]]] = {
    "label": namespace_complaints,
    "label1035": kind_complaints,
    "subdomain": lambda _: [],
    "path": lambda name: [f"may not contain '{each}'" for each in ("/", "%") if each in name],
}


def _name_problems(metadata: Mapping[str, Any], rule: str) -> list[Problem]:
    name = metadata.get("name", "")
    return [invalid("metadata.name", name, text) for text in _NAME_RULES[rule](name)] if name else []


def _finalizer_problems(metadata: Mapping[str, Any]) -> list[Problem]:
    text = "name is neither a standard finalizer name nor is it fully qualified"
    standard = {"orphan", "foregroundDeletion", "kubernetes"}
    return [
        invalid(indexed("metadata.finalizers", place), name, text)
        for place, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name and name not in standard
    ]


def update_problems(
    resource: Resource, new: Mapping[str, Any], old: Mapping[str, Any], subresource: str
) -> list[Problem]:
    """Gives what is wrong with the new state of an object, given the old one."""
    problems = metadata_update(new["metadata"], old["metadata"], namespaced=resource.namespaced)
    if subresource == "status":
        return [*problems, *_status_problems(resource, new)]
    if any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - {"metadata", "status"}):
        problems += _problems_within(resource, new)
        change = _CHANGES.get(resource.storage_key)
        if change is not None:
            problems += change(new, old)
    return problems


def _status_problems(resource: Resource, new: Mapping[str, Any]) -> Iterator[Problem]:
    if resource.storage_key.startswith("apps/"):
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
        yield from at_least_zero(*counts)(new.get("status") or {}, "status")


def _fixed(*paths: str, text: str = "field is immutable") -> Callable[[Struct, Struct], Iterator[Problem]]:
    def check(new: Struct, old: Struct) -> Iterator[Problem]:
        for path in paths:
            ours, theirs = _at(new, path), _at(old, path)
            if ours != theirs:
                yield invalid(path, ours, text)

    return check


def _forbidden_change(*changes: tuple[str, str]) -> Callable[[Struct, Struct], Iterator[Problem]]:
    def check(new: Struct, old: Struct) -> Iterator[Problem]:
        for path, text in changes:
            if _at(new, path) != _at(old, path):
                yield forbidden(path, text)

    return check


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _stateful_change(new: Struct, old: Struct) -> Iterator[Problem]:
    ours = {key: value for key, value in (new.get("spec") or {}).items() if key not in _STATEFUL_FREE}
    theirs = {key: value for key, value in (old.get("spec") or {}).items() if key not in _STATEFUL_FREE}
    if ours != theirs:
        listed = ", ".join(f"'{name}'" for name in _STATEFUL_FREE[:-1])
        text = f"updates to statefulset spec for fields other than {listed} and '{_STATEFUL_FREE[-1]}' are forbidden"
        yield forbidden("spec", text)


def _node_change(new: Struct, old: Struct) -> Iterator[Problem]:
    before = _at(old, "spec.providerID")
    if before and _at(new, "spec.providerID") != before:
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


_CHANGES: Final[dict[str, Callable[[Struct, Struct], Iterator[Problem]]]] = {
    "/pods": pod_update_problems,
    "/nodes": _node_change,
    "/services": lambda new, old: (
        iter(()) if not _at(old, "spec.clusterIP") else _fixed("spec.clusterIP")(new, old)
    ),
    "/secrets": _fixed("type"),
    "apps/deployments": _fixed("spec.selector"),
    "apps/replicasets": _fixed("spec.selector"),
    "apps/daemonsets": _fixed("spec.selector"),
    "apps/statefulsets": _stateful_change,
    "apps/controllerrevisions": _fixed("data"),
    "batch/jobs": _fixed("spec.completions", "spec.selector", "spec.template"),
    "scheduling.k8s.io/priorityclasses": _forbidden_change(
        ("value", "may not be changed in an update."),
        ("preemptionPolicy", "may not be changed in an update."),
    ),
    "storage.k8s.io/storageclasses": _forbidden_change(
        ("parameters", "updates to parameters are forbidden."),
        ("provisioner", "updates to provisioner are forbidden."),
        ("reclaimPolicy", "updates to reclaimPolicy are forbidden."),
        ("volumeBindingMode", "updates to volumeBindingMode are forbidden."),
    ),
    "rbac.authorization.k8s.io/rolebindings": _fixed("roleRef", text="cannot change roleRef"),
    "rbac.authorization.k8s.io/clusterrolebindings": _fixed("roleRef", text="cannot change roleRef"),
    "node.k8s.io/runtimeclasses": _fixed("handler"),
}
