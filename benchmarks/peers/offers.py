# SPDX-License-Identifier: Apache-2.0
"""What a problem asks for and what may be bought, read plainly: the view of the resource bound.

Decides which offers (NodePool x instance type x zone x capacity type) a pod could use by itself, from labels,
node selector, required node affinity and taints. An offer is refused only if no plan could ever use it for
this pod: where a pool leaves a label open the pod gets the benefit of the doubt, and preferences and rules
between pods do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from karpenter.api.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODEPOOL,
    STABLE_NAMES,
    WELL_KNOWN,
    ZONE,
)
from karpenter.kit.quantity import parse_quantity

__all__ = ["Amounts", "Offer", "Wishes", "fits", "is_pending", "list_offers", "pod_amounts"]

Object = Mapping[str, Any]
# Billionths of a unit by resource name: exact, whatever the quantity.
Amounts = Mapping[str, int]

_ONE: Final = 10**9


@dataclass(frozen=True, eq=False)
class Offer:
    """One way to buy a node.

    Attributes:
        room: what pods may use.
        labels: the labels that every such node has.
        open_labels: what the pool demands of labels that are not settled yet.
        taints: those of the pool; startup taints pass by themselves.
    """

    price_per_hour: Fraction
    room: Amounts
    labels: Mapping[str, str]
    open_labels: Mapping[str, Sequence[Object]]
    taints: Sequence[Object]


@dataclass(frozen=True)
class Wishes:
    """Where a pod agrees to run: alternative lists of label requirements, and its tolerations."""

    alternatives: Sequence[Sequence[Object]]
    tolerations: Sequence[Object]

    @classmethod
    def of(cls, spec: Object) -> Wishes:
        """Read the wishes of a pod spec."""
        selector: Mapping[str, str] = spec.get("nodeSelector") or {}
        always = [{"key": key, "operator": "In", "values": [value]} for key, value in selector.items()]
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        terms = required.get("nodeSelectorTerms") or [{}]
        alternatives = [[*always, *(term.get("matchExpressions") or ())] for term in terms]
        return cls(alternatives, spec.get("tolerations") or ())

    def accept(self, offer: Offer) -> bool:
        """Return whether the pod could run on such a node, were there room."""
        return all(
            taint["effect"] == "PreferNoSchedule" or any(_tolerates(each, taint) for each in self.tolerations)
            for taint in offer.taints
        ) and any(all(_could_match(offer, each) for each in wanted) for wanted in self.alternatives)


def is_pending(pod: Object) -> bool:
    """Return whether a place is to be found for the pod: not bound, not over, not a DaemonSet's."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return (
        not pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and not any(owner["kind"] in ("DaemonSet", "Node") for owner in owners)
    )


def pod_amounts(spec: Object) -> Amounts:
    """Return what a pod takes from a node: containers, sidecars and overhead, or its init phase if larger."""
    running: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = _plus(running, _requests(container))
        if container.get("restartPolicy") == "Always":
            running = amounts
        peak = _largest(peak, amounts)
    for container in spec["containers"]:
        running = _plus(running, _requests(container))
    total = _plus(_largest(peak, running), _parse(spec.get("overhead") or {}))
    return {name: amount for name, amount in total.items() if amount} | {"pods": _ONE}


def fits(amounts: Amounts, room: Amounts) -> bool:
    """Return whether there is room for all amounts."""
    return all(amount <= room.get(name, 0) for name, amount in amounts.items())


def list_offers(
    pools: Iterable[Object], instance_types: Iterable[Object], daemons: Iterable[Object]
) -> Iterator[Offer]:
    """Yield what the pools may buy, less what the DaemonSets take; without those that cannot hold these."""
    specs = [daemon["spec"]["template"]["spec"] for daemon in daemons]
    overheads = [(Wishes.of(spec), pod_amounts(spec)) for spec in specs]
    types = [(each, _parse(each["allocatable"])) for each in instance_types]
    for pool in pools:
        for instance_type, allocatable in types:
            for offer in _bare_offers(pool, instance_type, allocatable):
                taken: Amounts = {}
                for wishes, amounts in overheads:
                    if wishes.accept(offer):
                        taken = _plus(taken, amounts)
                if fits(taken, allocatable):
                    left = {name: amount - taken.get(name, 0) for name, amount in allocatable.items()}
                    yield replace(offer, room=left)


def _bare_offers(pool: Object, instance_type: Object, allocatable: Amounts) -> Iterator[Offer]:
    template = pool["spec"]["template"]
    fixed = {
        **((template.get("metadata") or {}).get("labels") or {}),
        **instance_type["labels"],
        INSTANCE_TYPE: instance_type["name"],
        NODEPOOL: pool["metadata"]["name"],
    }
    for zone, capacity_type, price in instance_type["offerings"]:
        labels = {**fixed, ZONE: zone, CAPACITY_TYPE: capacity_type}
        open_labels: dict[str, list[Object]] = {}
        suits = True
        for requirement in template["spec"].get("requirements") or ():
            key = _key(requirement)
            if key in labels:
                suits = suits and _matches(labels[key], requirement)
            else:
                open_labels.setdefault(key, []).append(requirement)
        if suits:
            taints = template["spec"].get("taints") or ()
            yield Offer(Fraction(str(price)), allocatable, labels, open_labels, taints)


def _could_match(offer: Offer, requirement: Object) -> bool:
    key, operator = _key(requirement), requirement["operator"]
    if key in offer.labels:
        return _matches(offer.labels[key], requirement)
    if key in offer.open_labels:
        demands = offer.open_labels[key]
        return operator != "In" or any(
            all(_matches(value, demand) for demand in demands) for value in requirement["values"]
        )
    # A host gets any name, and of a well-known label a catalogue may be silent.
    return operator in ("NotIn", "DoesNotExist") or key == HOSTNAME or key in WELL_KNOWN


def _matches(value: str, requirement: Object) -> bool:
    """Return whether a label of this value satisfies the requirement."""
    operator: str = requirement["operator"]
    values: Sequence[str] = requirement.get("values") or []
    if operator in ("In", "NotIn"):
        return (value in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return operator == "Exists"
    if not value.isdecimal():
        return False
    number, limit = int(value), int(values[0])
    return {"Gt": number > limit, "Lt": number < limit, "Gte": number >= limit, "Lte": number <= limit}[
        operator
    ]


def _key(requirement: Object) -> str:
    key: str = requirement["key"]
    return STABLE_NAMES.get(key, key)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or bool(toleration["key"] == taint["key"])
    same_key = toleration.get("key") == taint["key"]
    return same_key and (toleration.get("value") or "") == (taint.get("value") or "")


def _requests(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    # As the API server fills in: a limit without a request is also the request.
    return _parse({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _parse(quantities: Mapping[str, str | float]) -> Amounts:
    return {name: parse_quantity(quantity).nano for name, quantity in quantities.items()}


def _plus(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
