# SPDX-License-Identifier: Apache-2.0
"""What a pod may say: the rules about pods and all that stands in them, by the name of the struct."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from karpenter.api.schema.names import qualified_name_complaints
from karpenter.api.schema.problems import (
    Problem,
    child,
    duplicate,
    forbidden,
    indexed,
    invalid,
    not_supported,
    required,
)
from karpenter.kit.quantity import parse_quantity
from karpenter.sandbox.kube.kinds.checks import (
    Check,
    Struct,
    at_least_zero,
    between,
    each_unique,
    expression,
    label_selector,
    labels,
    named_label,
    needed,
    not_found,
    one_of,
    positive,
    quantities,
)

__all__ = ["POD_RULES", "pod_update_problems"]

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_ENV_NAME: Final = re.compile(r"[^=\x00-\x1f]+")
_FREELY_CHANGED: Final = (
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates",
)
_UPDATES: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _spec(spec: Struct, path: str) -> Iterator[Problem]:
    if not spec.get("containers"):
        yield required(child(path, "containers"))
    names = {each.get("name") for each in spec.get("volumes") or ()}
    seen: set[str] = set()
    for group in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(group) or ()):
            where = indexed(child(path, group), place)
            name = container.get("name")
            if name and name in seen:
                yield duplicate(child(where, "name"), name)
            seen.add(name or "")
            for spot, mount in enumerate(container.get("volumeMounts") or ()):
                if mount.get("name") not in names:
                    yield not_found(
                        child(indexed(child(where, "volumeMounts"), spot), "name"), mount.get("name", "")
                    )


def _container(container: Struct, path: str) -> Iterator[Problem]:
    yield from named_label()(container, path)
    if not container.get("image"):
        yield required(child(path, "image"))
    yield from one_of("imagePullPolicy", "Always", "IfNotPresent", "Never")(container, path)
    yield from each_unique("ports", "name")(container, path)


def _resources(resources: Struct, path: str) -> Iterator[Problem]:
    yield from quantities("limits")(resources, path)
    yield from quantities("requests")(resources, path)
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        limit = limits.get(name)
        if limit is not None and parse_quantity(amount).nano > parse_quantity(limit).nano:
            text = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(child(path, "requests"), amount, text)


def _port(port: Struct, path: str) -> Iterator[Problem]:
    number = port.get("containerPort", 0)
    if number == 0:
        yield required(child(path, "containerPort"))
    elif not 1 <= number <= 65535:
        yield invalid(child(path, "containerPort"), number, "must be between 1 and 65535, inclusive")
    yield from between("hostPort", 1, 65535)(port, path)
    yield from one_of("protocol", "SCTP", "TCP", "UDP")(port, path)


def _probe(probe: Struct, path: str) -> Iterator[Problem]:
    given = [name for name in _HANDLERS if probe.get(name) is not None]
    if not given:
        yield required(path, "must specify a handler type")
    for extra in given[1:]:
        yield forbidden(child(path, extra), "may not specify more than 1 handler type")


def _env(env: Struct, path: str) -> Iterator[Problem]:
    name = env.get("name", "")
    if not name:
        yield required(child(path, "name"))
    elif not _ENV_NAME.fullmatch(name):
        yield invalid(
            child(path, "name"),
            name,
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        )


def _toleration(toleration: Struct, path: str) -> Iterator[Problem]:
    operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
    key = toleration.get("key", "")
    if key:
        for text in qualified_name_complaints(key):
            yield invalid(child(path, "key"), key, text)
    elif operator != "Exists":
        yield invalid(
            child(path, "operator"),
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(
            child(path, "effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
        )
    if operator not in {"", "Equal", "Exists"}:
        yield not_supported(child(path, "operator"), operator, ("Equal", "Exists"))
    if operator == "Exists" and toleration.get("value"):
        yield invalid(
            child(path, "operator"), toleration["value"], "value must be empty when `operator` is 'Exists'"
        )
    yield from one_of("effect", "NoSchedule", "PreferNoSchedule", "NoExecute")(toleration, path)


def _node_selector(selector: Struct, path: str) -> Iterator[Problem]:
    if not selector.get("nodeSelectorTerms"):
        yield required(child(path, "nodeSelectorTerms"), "must have at least one node selector term")


def _node_term(term: Struct, path: str) -> Iterator[Problem]:
    for place, each in enumerate(term.get("matchExpressions") or ()):
        yield from expression(each, indexed(child(path, "matchExpressions"), place), ("Lt", "Gt"))


def _affinity_term(term: Struct, path: str) -> Iterator[Problem]:
    key = term.get("topologyKey", "")
    if not key:
        yield required(child(path, "topologyKey"), "can not be empty")
    for text in qualified_name_complaints(key):
        yield invalid(child(path, "topologyKey"), key, text)


def _spread(spread: Struct, path: str) -> Iterator[Problem]:
    yield from positive("maxSkew", "must be greater than zero")(spread, path)
    key = spread.get("topologyKey", "")
    if not key:
        yield required(child(path, "topologyKey"), "can not be empty")
    yield from one_of("whenUnsatisfiable", "DoNotSchedule", "ScheduleAnyway")(spread, path)
    if spread.get("minDomains") is not None and spread["minDomains"] <= 0:
        yield invalid(child(path, "minDomains"), spread["minDomains"], "must be greater than zero")


_WEIGHT: Final = between("weight", 1, 100, "must be in the range 1-100")

POD_RULES: Final[dict[str, tuple[Check, ...]]] = {
    "core.PodSpec": (
        each_unique("volumes", "name"),
        _spec,
        one_of("restartPolicy", "Always", "OnFailure", "Never"),
        one_of("dnsPolicy", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
        labels("nodeSelector"),
        between("activeDeadlineSeconds", 1, 2**31 - 1),
    ),
    "core.Container": (_container,),
    "core.ContainerPort": (_port,),
    "core.EnvVar": (_env,),
    "core.Probe": (
        _probe,
        at_least_zero(
            "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"
        ),
    ),
    "core.ResourceRequirements": (_resources,),
    "core.Toleration": (_toleration,),
    "core.Volume": (named_label(),),
    "core.NodeSelector": (_node_selector,),
    "core.NodeSelectorTerm": (_node_term,),
    "core.PodAffinityTerm": (_affinity_term,),
    "core.WeightedPodAffinityTerm": (_WEIGHT,),
    "core.PreferredSchedulingTerm": (_WEIGHT,),
    "core.TopologySpreadConstraint": (_spread,),
    "core.PodSchedulingGate": (needed("name"),),
    "meta.LabelSelector": (label_selector,),
}


def pod_update_problems(new: Struct, old: Struct) -> Iterator[Problem]:
    """Gives what is wrong with a change of a pod's spec: hardly anything of it may change."""
    ours, theirs = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    missing = [
        each for each in theirs.get("tolerations") or () if each not in (ours.get("tolerations") or ())
    ]
    if missing:
        yield forbidden(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    for key in _FREELY_CHANGED:
        ours.pop(key, None)
        theirs.pop(key, None)
    for group in ("containers", "initContainers"):
        for spec in (ours, theirs):
            if spec.get(group):
                spec[group] = [_without_image(each) for each in spec[group]]
    if ours != theirs:
        yield forbidden("spec", f"{_UPDATES}\n")


def _without_image(container: Any) -> Any:
    return {key: value for key, value in container.items() if key != "image"}
