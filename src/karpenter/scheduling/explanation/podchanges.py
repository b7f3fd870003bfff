# SPDX-License-Identifier: Apache-2.0
"""Makes the changes of a pod: what it tolerates, asks for, insists on.

Each function knows where the manifest says a thing (nodeSelector and node affinity, containers and init containers) and
gives the changes that say it otherwise; whether they help is for others to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from karpenter.api.base import to_wire
from karpenter.api.core import (
    Affinity,
    Container,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    ResourceRequirements,
    Taint,
    Toleration,
    WeightedPodAffinityTerm,
)
from karpenter.api.labels import stable_name
from karpenter.model.ports import HostPorts, host_ports
from karpenter.model.resources import Resources
from karpenter.model.selectors import compile_selector
from karpenter.scheduling.explanation.changes import POD
from karpenter.scheduling.explanation.conditions import selected
from karpenter.scheduling.explanation.spelling import misread_requests
from karpenter.scheduling.reasons import Change, ChangeKind

__all__ = [
    "Rewrite",
    "corrected_requests",
    "dropped_requests",
    "freed_ports",
    "loosened_spread",
    "lowered_request",
    "relabelled",
    "softened_affinity",
    "softened_anti_affinity",
    "tolerating",
]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_REQUIRED_TERMS = ("spec", "affinity", "nodeAffinity", _REQUIRED)
_MIB = 2**20
_HEAVIEST = 100

# What becomes of an expression; None where it goes.
Rewrite = Callable[[NodeSelectorRequirement], NodeSelectorRequirement | None]
Path = tuple[str | int, ...]


def tolerating(pod: Pod, taint: Taint, words: str) -> Change:
    """Return the change that lets the pod put up with a taint."""
    new = Toleration(
        key=taint.key, operator="Equal" if taint.value else "Exists", value=taint.value, effect=taint.effect
    )
    return Change(
        ChangeKind.ADD_TOLERATION,
        POD,
        ("spec", "tolerations"),
        after=words,
        value=[to_wire(each) for each in (*pod.spec.tolerations, new)],
    )


def relabelled(pod: Pod, key: str, kind: ChangeKind, rewrite: Rewrite) -> tuple[Change, ...]:
    """Return the changes that rewrite all that a pod says about a label of its node.

    Args:
        pod: The pod.
        key: The label under its name of today, or ``metadata.name`` for the node's name.
        kind: What the changes are.
        rewrite: Gives what becomes of an expression.
    """
    return (*_reselected(pod.spec.node_selector, key, kind, rewrite), *_retermed(pod, key, kind, rewrite))


def _reselected(
    node_selector: Mapping[str, str], key: str, kind: ChangeKind, rewrite: Rewrite
) -> Iterator[Change]:
    for written, value in node_selector.items():
        if stable_name(written) != key:
            continue
        asked = NodeSelectorRequirement(key=written, operator="In", values=(value,))
        new = rewrite(asked)
        if new is asked:
            continue
        kept = {other: each for other, each in node_selector.items() if other != written}
        if new is not None:
            kept[new.key] = new.values[0]
        yield Change(
            kind,
            POD,
            ("spec", "nodeSelector"),
            f"{written}={value}",
            "" if new is None else f"{new.key}={new.values[0]}",
            value=kept,
        )


def _retermed(pod: Pod, key: str, kind: ChangeKind, rewrite: Rewrite) -> Iterator[Change]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is None:
        return
    before, after, terms = [], [], []
    for term in required.node_selector_terms:
        kept: dict[str, list[NodeSelectorRequirement]] = {"match_expressions": [], "match_fields": []}
        for part, kept_part in kept.items():
            for expression in getattr(term, part):
                new = rewrite(expression) if stable_name(expression.key) == key else expression
                if new is not None:
                    kept_part.append(new)
                if new is not expression:
                    before.append(_written(expression))
                    after += [_written(new)] if new is not None else []
        terms.append(
            NodeSelectorTerm(
                match_expressions=tuple(kept["match_expressions"]), match_fields=tuple(kept["match_fields"])
            )
        )
    if before:
        # A term without conditions would match no node; what is meant is that every node will do.
        free = NodeSelectorTerm() in terms
        value = None if free else to_wire(NodeSelector(node_selector_terms=tuple(dict.fromkeys(terms))))
        yield Change(kind, POD, _REQUIRED_TERMS, _joined(before), _joined(after), value=value)


def _written(expression: NodeSelectorRequirement) -> str:
    return f"{expression.key} {expression.operator} [{', '.join(expression.values)}]"


def _joined(words: list[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def corrected_requests(pod: Pod, resource: str) -> tuple[Change, ...]:
    """Return the changes that put ``m`` where ``M`` was written."""
    return tuple(
        Change(ChangeKind.CORRECT_REQUEST, POD, path, mistake.written, mistake.meant, value=mistake.meant)
        for path, mistake in misread_requests(pod, resource)
    )


def lowered_request(pod: Pod, resource: str, excess: int) -> Change | None:
    """Return the change that takes an excess off the largest request; None where no request is that large."""
    asked = [
        (Resources.parse({resource: owner.requests[resource]})[resource], path, owner.requests[resource])
        for path, owner in _owners(pod)
        if resource in owner.requests
    ]
    have, path, before = max(asked, key=lambda each: each[0], default=(0, (), ""))
    new = have - excess
    if resource == "memory" and new > _MIB:
        new -= new % _MIB
    if new <= 0:
        return None
    after = Resources({resource: new}).to_quantities()[resource]
    return Change(
        ChangeKind.LOWER_REQUEST, POD, (*path, "requests", resource), str(before), after, value=after
    )


def dropped_requests(pod: Pod, resource: str) -> tuple[Change, ...]:
    """Return the changes by which the pod does without a resource."""
    return tuple(
        Change(ChangeKind.DROP_REQUEST, POD, (*path, part, resource), str(amounts[resource]))
        for path, owner in _owners(pod)
        for part, amounts in (("requests", owner.requests), ("limits", owner.limits))
        if resource in amounts
    )


def freed_ports(pod: Pod, taken: HostPorts) -> tuple[Change, ...]:
    """Return the changes that give up host ports that are taken."""
    return tuple(
        Change(ChangeKind.DROP_HOST_PORT, POD, (*path, "ports", number, "hostPort"), str(port.host_port))
        for path, container in _containers(pod)
        for number, port in enumerate(container.ports)
        if port.host_port and taken.conflict(host_ports(_only(pod, container, number))) is not None
    )


def loosened_spread(index: int, before: int, skew: int | None) -> Change:
    """Return the change that allows a spread constraint a larger skew, or makes it a wish where none would do."""
    path = ("spec", "topologySpreadConstraints", index)
    if skew is None:
        soft = "ScheduleAnyway"
        return Change(
            ChangeKind.SOFTEN_RULE, POD, (*path, "whenUnsatisfiable"), "DoNotSchedule", soft, value=soft
        )
    return Change(ChangeKind.RAISE_MAX_SKEW, POD, (*path, "maxSkew"), str(before), str(skew), value=skew)


def softened_affinity(pod: Pod) -> Change | None:
    """Return the change that makes wishes of all required terms of pod affinity, as they count together."""
    side = (pod.spec.affinity or Affinity()).pod_affinity
    if side is None or not side.required:
        return None
    return _softened("podAffinity", side, range(len(side.required)))


def softened_anti_affinity(pod: Pod, index: int) -> Change:
    """Return the change that makes a wish of one required term of pod anti-affinity."""
    side = (pod.spec.affinity or Affinity()).pod_anti_affinity or PodAffinity()
    return _softened("podAntiAffinity", side, (index,))


def _softened(name: str, side: PodAffinity, chosen: Collection[int]) -> Change:
    wishes = [term for index, term in enumerate(side.required) if index in chosen]
    new = PodAffinity(
        required=tuple(term for index, term in enumerate(side.required) if index not in chosen),
        preferred=(
            *side.preferred,
            *(WeightedPodAffinityTerm(weight=_HEAVIEST, pod_affinity_term=term) for term in wishes),
        ),
    )
    words = ", ".join(
        f"{selected(compile_selector(term.label_selector))} by {term.topology_key}" for term in wishes
    )
    return Change(
        ChangeKind.SOFTEN_RULE,
        POD,
        ("spec", "affinity", name),
        f"required: {words}",
        "preferred",
        value=to_wire(new),
    )


def _containers(pod: Pod) -> Iterator[tuple[Path, Container]]:
    for index, container in enumerate(pod.spec.containers):
        yield ("spec", "containers", index), container
    for index, container in enumerate(pod.spec.init_containers):
        yield ("spec", "initContainers", index), container


def _owners(pod: Pod) -> Iterator[tuple[Path, ResourceRequirements]]:
    """Yield everything that states requests: the pod itself and its containers."""
    if pod.spec.resources is not None:
        yield ("spec", "resources"), pod.spec.resources
    for path, container in _containers(pod):
        yield (*path, "resources"), container.resources


def _only(pod: Pod, container: Container, number: int) -> Pod:
    """Return the pod with a single port."""
    alone = replace(container, ports=(container.ports[number],))
    return replace(pod, spec=replace(pod.spec, containers=(alone,), init_containers=()))
