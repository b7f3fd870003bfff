# SPDX-License-Identifier: Apache-2.0
"""Pods as the scheduler sees them: what is said about placing, compiled once for all pods that say the same.

Pods of one namespace with equal labels and equal rules share a `Shape`; whatever is worked out for a shape (which
nodes suit it, what it asks for) holds for all of them. Pods made from one template are a single shape, however many
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from karpenter.sandbox.scheduler.amounts import Amounts, pod_requests, scoring_requests
from karpenter.sandbox.scheduler.matching import (
    Requirement,
    Selector,
    Wire,
    node_matcher,
    read_selector,
)

__all__ = ["ClaimUse", "PodInfo", "Port", "Shape", "Spread", "Term", "read_pod"]

Port: TypeAlias = tuple[str, str, int]

_SPEC_FIELDS: Final = (
    "affinity",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
)
_CONTAINER_FIELDS: Final = ("resources", "ports", "restartPolicy")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Term:
    """One term of an inter-pod rule: which pods it means, and what "near" is.

    Attributes:
        key: The label of nodes whose value makes them near.
        selector: Which pods.
        namespaces: In which namespaces, by name.
        namespace_selector: In which namespaces, by label; None for none.
    """

    key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector | None

    def means(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Tells whether it means a pod of these labels in that namespace."""
        if namespace not in self.namespaces and (
            self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Spread:
    """One topology spread constraint."""

    key: str
    max_skew: int
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    selects_itself: bool


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A volume of a pod that comes from a claim; ``ephemeral`` if the claim is made for the pod alone."""

    claim: str
    ephemeral: bool = False


@dataclass(slots=True, weakref_slot=True, eq=False)
class Shape:
    """All that decides where pods of one kind may go.

    Attributes:
        named_nodes: The nodes that the required affinity names; None where it names none. Empty: it contradicts itself.
        memory: What each node alone says to it and how roomy it is, with the node's version for which that holds.
        layout: The nodes that count for its spread, with the cluster's layout for which that holds.
    """

    namespace: str
    labels: Mapping[str, str]
    requests: Amounts
    asked: tuple[tuple[str, int], ...]
    scoring: tuple[int, int]
    tolerations: tuple[Wire, ...]
    matches_node: Callable[[str, Mapping[str, str]], bool] | None
    named_nodes: frozenset[str] | None
    wished_nodes: tuple[tuple[int, Wire], ...]
    ports: tuple[Port, ...]
    near: tuple[Term, ...]
    apart: tuple[Term, ...]
    wishes: tuple[tuple[int, Term], ...]
    spread: tuple[Spread, ...]
    soft_spread: tuple[Spread, ...]
    claims: tuple[ClaimUse, ...]
    preempts: bool
    memory: dict[str, tuple[int, Any, float]] = field(default_factory=dict)
    layout: tuple[int, Any] = (0, None)


@dataclass(slots=True, eq=False)
class PodInfo:
    """A pod."""

    uid: str
    namespace: str
    name: str
    shape: Shape
    node: str
    priority: int
    created: str
    nominated: str
    terminating: bool
    terminal: bool
    gated: bool
    scheduler: str
    wire: Wire

    @property
    def key(self) -> tuple[str, str]:
        """Gives namespace and name."""
        return self.namespace, self.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Gives its labels."""
        return self.shape.labels

    def claim_name(self, use: ClaimUse) -> str:
        """Gives the name of a claim it uses."""
        return f"{self.name}-{use.claim}" if use.ephemeral else use.claim


_shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
_encoder = msgspec.json.Encoder(order="deterministic")


def read_pod(wire: Wire) -> PodInfo:
    """Reads a pod from the API."""
    metadata, spec, status = wire["metadata"], wire["spec"], wire.get("status") or {}
    return PodInfo(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        shape=_shape(metadata, spec),
        node=spec.get("nodeName") or "",
        priority=spec.get("priority") or 0,
        created=metadata.get("creationTimestamp") or "",
        nominated=status.get("nominatedNodeName") or "",
        terminating="deletionTimestamp" in metadata,
        terminal=status.get("phase") in {"Succeeded", "Failed"},
        gated=bool(spec.get("schedulingGates")),
        scheduler=spec.get("schedulerName") or "default-scheduler",
        wire=wire,
    )


def _shape(metadata: Wire, spec: Wire) -> Shape:
    labels = metadata.get("labels") or {}
    said = [spec.get(name) for name in _SPEC_FIELDS]
    containers = [
        [each.get(name) for name in _CONTAINER_FIELDS]
        for kind in ("containers", "initContainers")
        for each in (*(spec.get(kind) or ()), {})
    ]
    # Of volumes only the claims: each pod has one for its account's token, under a name of its own.
    claims = [(each.claim, each.ephemeral) for each in _claims(spec)]
    key = _encoder.encode((metadata["namespace"], labels, said, containers, claims))
    shape = _shapes.get(key)
    if shape is None:
        shape = _shapes[key] = _compile(metadata["namespace"], labels, spec)
    return shape


def _compile(namespace: str, labels: Mapping[str, str], spec: Wire) -> Shape:
    affinity = spec.get("affinity") or {}
    requests = pod_requests(spec)
    pods, others = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}

    def read(term: Wire) -> Term:
        return _term(term, namespace, labels)

    wishes = [(each["weight"], read(each["podAffinityTerm"])) for each in pods.get(_PREFERRED) or ()]
    wishes += [(-each["weight"], read(each["podAffinityTerm"])) for each in others.get(_PREFERRED) or ()]
    node_wishes = (affinity.get("nodeAffinity") or {}).get(_PREFERRED) or ()
    constraints = spec.get("topologySpreadConstraints") or ()
    return Shape(
        namespace=namespace,
        labels=labels,
        requests=requests,
        asked=tuple((name, amount) for name, amount in sorted(requests.items()) if amount > 0),
        scoring=scoring_requests(spec),
        tolerations=tuple(spec.get("tolerations") or ()),
        matches_node=node_matcher(spec),
        named_nodes=_named_nodes(affinity.get("nodeAffinity") or {}),
        wished_nodes=tuple((each["weight"], each["preference"]) for each in node_wishes),
        ports=_ports(spec),
        near=tuple(map(read, pods.get(_REQUIRED) or ())),
        apart=tuple(map(read, others.get(_REQUIRED) or ())),
        wishes=tuple(wishes),
        spread=tuple(_spread(each, labels) for each in constraints if _is_hard(each)),
        soft_spread=tuple(_spread(each, labels) for each in constraints if not _is_hard(each)),
        claims=tuple(_claims(spec)),
        preempts=spec.get("preemptionPolicy") != "Never",
    )


def _term(wire: Wire, namespace: str, labels: Mapping[str, str]) -> Term:
    names = frozenset(wire.get("namespaces") or ())
    chosen = wire.get("namespaceSelector")
    if not names and chosen is None:
        names = frozenset((namespace,))
    # The API server writes these keys into the selector already; saying it twice changes nothing.
    selector = read_selector(wire.get("labelSelector")).plus(
        _own_values(wire.get("matchLabelKeys"), "In", labels)
        + _own_values(wire.get("mismatchLabelKeys"), "NotIn", labels)
    )
    by_label = None if chosen is None else read_selector(chosen)
    return Term(wire["topologyKey"], selector, names, by_label)


def _own_values(
    keys: Iterable[str] | None, operator: str, labels: Mapping[str, str]
) -> tuple[Requirement, ...]:
    return tuple(Requirement(key, operator, frozenset((labels[key],))) for key in keys or () if key in labels)


def _is_hard(constraint: Wire) -> bool:
    return bool(constraint.get("whenUnsatisfiable") == "DoNotSchedule")


def _spread(wire: Wire, labels: Mapping[str, str]) -> Spread:
    own = _own_values(wire.get("matchLabelKeys"), "In", labels)
    selector = read_selector(wire.get("labelSelector")).plus(own)
    return Spread(
        key=wire["topologyKey"],
        max_skew=wire["maxSkew"],
        selector=selector,
        min_domains=wire.get("minDomains") or 1,
        honors_affinity=wire.get("nodeAffinityPolicy") != "Ignore",
        honors_taints=wire.get("nodeTaintsPolicy") == "Honor",
        selects_itself=selector.matches(labels),
    )


def _named_nodes(affinity: Wire) -> frozenset[str] | None:
    required = affinity.get(_REQUIRED)
    terms = required.get("nodeSelectorTerms") if required else None
    if not terms:
        return None
    found: set[str] = set()
    for term in terms:
        names: set[str] | None = None
        for each in term.get("matchFields") or ():
            if each["key"] == "metadata.name" and each["operator"] == "In":
                values = set(each.get("values") or ())
                names = values if names is None else names & values
        if names is None:
            return None
        found |= names
    return frozenset(found)


def _ports(spec: Wire) -> tuple[Port, ...]:
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    return tuple(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])  # noqa: S104 - a wildcard
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _claims(spec: Wire) -> Iterable[ClaimUse]:
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield ClaimUse(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            yield ClaimUse(volume["name"], ephemeral=True)
