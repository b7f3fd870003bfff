# SPDX-License-Identifier: Apache-2.0
"""What a pod says about other pods: spread constraints, affinity and anti-affinity, compiled once.

A rule has two halves. The ``CountGroup`` (a topology key, namespaces, a selector) says which pods are counted
per place, and is shared by every rule that counts the same ones; the rule says what its owner makes of the
counts. Keys are mapped to their names of today: a zone is a zone, whatever it was called.

This is vocabulary alone: nothing here counts, and a selector that cannot be read selects nothing (see
``selectors``). Preferred terms come heaviest first, as they are given up in that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from karpenter.api.core import Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from karpenter.api.labels import stable_name
from karpenter.model.selectors import NamespaceSelection, Selector, compile_selector, select_namespaces

__all__ = ["AffinityRule", "CountGroup", "SpreadRule", "TopologyRules", "topology_rules"]


class CountGroup(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods that are counted per value of a node label.

    Attributes:
        key: The node label whose values are the places: a zone, a host.
        namespaces: Where the pods are.
        selector: Which pods they are, by their labels.
    """

    key: str
    namespaces: NamespaceSelection
    selector: Selector

    def counts(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Tells whether a pod is counted, from its namespace and labels and those of the namespace."""
        return self.selector.matches(labels) and self.namespaces.matches(namespace, namespace_labels)

    @classmethod
    def all_of(cls, groups: tuple[CountGroup, ...]) -> CountGroup:
        """Gives the pods that every one of some groups counts, per place of the first."""
        selector, namespaces = groups[0].selector, groups[0].namespaces
        for group in groups[1:]:
            selector = selector.intersection(group.selector)
            namespaces = namespaces.intersection(group.namespaces)
        return cls(groups[0].key, namespaces, selector)

    def by(self, key: str) -> CountGroup:
        """Gives the same pods, counted per value of another label."""
        return CountGroup(key, self.namespaces, self.selector)


class SpreadRule(msgspec.Struct, frozen=True, cache_hash=True):
    """How evenly the pods of a group must stand.

    Attributes:
        group: The pods that are counted.
        max_skew: How many more than the emptiest place may hold.
        min_domains: With fewer places than this the emptiest counts as holding none.
        honors_affinity: Whether only nodes that the owner's node affinity allows are places.
        honors_taints: Whether only nodes whose taints the owner tolerates are places.
        hard: Whether a pod must wait where the rule cannot be kept (DoNotSchedule).
    """

    group: CountGroup
    max_skew: int
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    hard: bool = True


class AffinityRule(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods to share a place with or, with ``anti``, to keep apart from; a ``weight`` makes it a mere wish."""

    group: CountGroup
    anti: bool = False
    weight: int | None = None

    @property
    def hard(self) -> bool:
        """Whether a pod must wait where the rule cannot be kept."""
        return self.weight is None


class TopologyRules(msgspec.Struct, frozen=True, cache_hash=True):
    """All rules that a pod owns: required ones in the order of the spec, then wishes, the heaviest first."""

    spreads: tuple[SpreadRule, ...] = ()
    affinities: tuple[AffinityRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spreads or self.affinities)


_NO_RULES: Final = TopologyRules()


def topology_rules(pod: Pod) -> TopologyRules:
    """Compiles the spread constraints, the affinity and the anti-affinity of a pod."""
    affinity = pod.spec.affinity
    constraints = pod.spec.topology_spread_constraints
    if not constraints and affinity is None:
        return _NO_RULES
    # The sort is stable: it parts hard from soft and keeps the order of the spec within each.
    spreads = sorted((_spread(each, pod) for each in constraints), key=lambda rule: not rule.hard)
    affinities: list[AffinityRule] = []
    if affinity is not None:
        affinities += _affinities(affinity.pod_affinity, pod, anti=False)
        affinities += _affinities(affinity.pod_anti_affinity, pod, anti=True)
    return TopologyRules(tuple(spreads), tuple(affinities))


def _spread(constraint: TopologySpreadConstraint, pod: Pod) -> SpreadRule:
    labels = pod.metadata.labels
    selector = compile_selector(constraint.label_selector, labels, match_keys=constraint.match_label_keys)
    own_namespace = NamespaceSelection(frozenset((pod.metadata.namespace,)))
    return SpreadRule(
        CountGroup(stable_name(constraint.topology_key), own_namespace, selector),
        constraint.max_skew,
        1 if constraint.min_domains is None else constraint.min_domains,
        constraint.node_affinity_policy != "Ignore",
        constraint.node_taints_policy == "Honor",
        constraint.when_unsatisfiable != "ScheduleAnyway",
    )


def _affinities(affinity: PodAffinity | None, pod: Pod, *, anti: bool) -> Iterable[AffinityRule]:
    if affinity is None:
        return
    for term in affinity.required:
        yield AffinityRule(_group(term, pod), anti)
    for wish in sorted(affinity.preferred, key=lambda wish: -wish.weight):
        yield AffinityRule(_group(wish.pod_affinity_term, pod), anti, wish.weight)


def _group(term: PodAffinityTerm, pod: Pod) -> CountGroup:
    selector = compile_selector(
        term.label_selector,
        pod.metadata.labels,
        match_keys=term.match_label_keys,
        mismatch_keys=term.mismatch_label_keys,
    )
    return CountGroup(
        stable_name(term.topology_key), select_namespaces(term, pod.metadata.namespace), selector
    )
