# SPDX-License-Identifier: Apache-2.0
"""What pods say about each other, judged on the world to come as a whole.

Kubernetes judges a pod when it is bound; a plan must hold whatever the order, so every rule is judged with all pods in
their places:

- anti-affinity, both ways: no pod that a term counts in the place of the term's owner;
- affinity: there must be an order of binding in which every owner finds its targets in its place, where a pod that
  has no target anywhere yet may start a group that it belongs to. Pods that follow nobody are bound before. As in
  Kubernetes, a target must be counted by all terms of the owner;
- spread: in each owner's place at most maxSkew more pods than in the emptiest place that it could be. Places are
  those of the nodes that stand in the end and that nodeAffinityPolicy and nodeTaintsPolicy let count, and those that
  pools could still make where the owner could go. Any number of hosts can be made, so the emptiest is empty.

Pods that are on their way out do not count, except that an owner may still follow one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from karpenter.api.core import Pod, TopologySpreadConstraint
from karpenter.api.labels import HOSTNAME
from karpenter.model.snapshot import Snapshot
from tests.checker.matching import (
    Counted,
    affinity_terms,
    anti_affinity_terms,
    hard_spreads,
    node_suits,
    repelling_taints,
    spread_counts,
)
from tests.checker.plans import title
from tests.checker.world import Place, PossibleNode, possible_nodes

__all__ = ["TopologyCheck"]

# More orders of starting groups than these are not tried; real problems have a handful.
_MOST_STARTS = 500


@dataclass(frozen=True)
class _Stood:
    """A pod in its place."""

    pod: Pod
    place: Place
    arrived: bool

    @property
    def leaving(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None


class TopologyCheck:
    """The rules between pods, for one problem; it can judge several worlds of it."""

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod]) -> None:
        self._snapshot = snapshot
        self._namespaces = snapshot.namespaces
        everybody = [*pods, *(pod for node in snapshot.nodes for pod in node.pods)]
        self._possible: list[PossibleNode] = [
            node for pool in snapshot.pools for node in possible_nodes(pool, everybody)
        ]
        self._reachable: dict[tuple[str, str, str], frozenset[str]] = {}

    def keys(self, world: Iterable[Place]) -> set[str]:
        """Give the node labels that some rule in the world looks at."""
        keys = set()
        for stood in _stood(world):
            keys |= {term.key for term in affinity_terms(stood.pod, self._namespaces)}
            keys |= {term.key for term in anti_affinity_terms(stood.pod, self._namespaces)}
            keys |= {rule.topology_key for rule in hard_spreads(stood.pod)}
        return keys

    def violations(self, world: Iterable[Place]) -> list[str]:
        """Say which rules between pods the world breaks."""
        world = tuple(world)
        everybody = _stood(world)
        return [
            *self._anti_affinity(everybody),
            *self._affinity(everybody),
            *self._spread(world, everybody),
        ]

    def _anti_affinity(self, everybody: list[_Stood]) -> list[str]:
        found = []
        for owner in everybody:
            for term in anti_affinity_terms(owner.pod, self._namespaces):
                if owner.arrived and term.key in owner.place.open_labels:
                    found.append(_left_open(owner, term.key))
                for other in everybody:
                    if other is owner or not (owner.arrived or other.arrived):
                        continue
                    if owner.leaving or other.leaving or not term.counts(other.pod):
                        continue
                    if _same_value(term.key, owner.place, other.place):
                        found.append(
                            f"{title(owner.pod)} has anti-affinity by {term.key} to {title(other.pod)}, both are in"
                            f" {owner.place.labels[term.key]} ({owner.place.title}, {other.place.title})"
                        )
        return found

    def _affinity(self, everybody: list[_Stood]) -> list[str]:
        rules = {
            index: affinity_terms(stood.pod, self._namespaces)
            for index, stood in enumerate(everybody)
            if stood.arrived
        }
        waiting = [index for index, terms in rules.items() if terms]
        bound = [index for index in range(len(everybody)) if index not in waiting]
        found = [
            _left_open(everybody[index], term.key)
            for index in waiting
            for term in rules[index]
            if term.key in everybody[index].place.open_labels
        ]
        stranded = _Binding(everybody, rules).stranded(bound, waiting)
        found += [_why_stranded(index, everybody, rules[index]) for index in stranded]
        return found

    def _spread(self, world: tuple[Place, ...], everybody: list[_Stood]) -> list[str]:
        found = []
        for owner in everybody:
            if not owner.arrived:
                continue
            rules = hard_spreads(owner.pod)
            keys = [rule.topology_key for rule in rules]
            for rule in rules:
                if rule.topology_key in owner.place.open_labels:
                    found.append(_left_open(owner, rule.topology_key))
                elif rule.topology_key not in owner.place.labels:
                    found.append(
                        f"{owner.place.title} has no label {rule.topology_key} for {title(owner.pod)}"
                    )
                else:
                    found += self._skew(rule, keys, owner, world, everybody)
        return found

    def _skew(
        self,
        rule: TopologySpreadConstraint,
        keys: list[str],
        owner: _Stood,
        world: tuple[Place, ...],
        everybody: list[_Stood],
    ) -> list[str]:
        key = rule.topology_key
        places = {
            id(place): place.labels[key] for place in world if _is_place_for(place, rule, keys, owner.pod)
        }
        # Its own place counts even where a policy would pass it over: it stands there.
        places[id(owner.place)] = owner.place.labels[key]
        counts = dict.fromkeys(places.values(), 0)
        counted = spread_counts(rule, owner.pod)
        for stood in everybody:
            if id(stood.place) in places and not stood.leaving and counted(stood.pod):
                counts[places[id(stood.place)]] += 1
        here = counts[owner.place.labels[key]]
        emptiest = 0 if key == HOSTNAME else self._emptiest(rule, owner.pod, counts)
        if here - emptiest <= rule.max_skew:
            return []
        skew = f"{title(owner.pod)} allows a skew of {rule.max_skew} by {key}"
        excess = (
            f"{owner.place.labels[key]} has {here} of the pods it counts and the emptiest place {emptiest}"
        )
        return [f"{skew}, but {excess} ({dict(sorted(counts.items()))})"]

    def _emptiest(self, rule: TopologySpreadConstraint, owner: Pod, counts: Mapping[str, int]) -> int:
        everywhere = {**dict.fromkeys(self._within_reach(rule.topology_key, owner), 0), **counts}
        if rule.min_domains is not None and len(everywhere) < rule.min_domains:
            return 0
        return min(everywhere.values())

    def _within_reach(self, key: str, pod: Pod) -> frozenset[str]:
        """Give the values of a label on nodes that pools could make and the pod could go to.

        Nodes without one of the labels that the pod spreads over are none of them.
        """
        memo = (key, pod.metadata.namespace, pod.metadata.name)
        keys = [rule.topology_key for rule in hard_spreads(pod)]
        if memo not in self._reachable:
            self._reachable[memo] = frozenset(
                node.labels[key]
                for node in self._possible
                if all(each in node.labels for each in keys)
                and node_suits(pod, node.labels, "")
                and not repelling_taints(node.pool.taints, pod)
            )
        return self._reachable[memo]


class _Binding:
    """Looks for an order of binding in which every follower finds its targets."""

    def __init__(self, everybody: list[_Stood], rules: Mapping[int, list[Counted]]) -> None:
        self._everybody = everybody
        self._rules = rules
        self._tries = 0
        # Whom each follower counts: a target is counted by all of its terms.
        self._targets = {
            index: {
                other
                for other, stood in enumerate(everybody)
                if all(term.counts(stood.pod) for term in terms)
            }
            for index, terms in rules.items()
            if terms
        }

    def stranded(self, bound: list[int], waiting: list[int]) -> list[int]:
        """Give those who find no place in the best order, none where all do."""
        bound, waiting = list(bound), list(waiting)
        progress = True
        while progress:
            progress = False
            for index in tuple(waiting):
                if self._finds_targets(index, bound):
                    waiting.remove(index)
                    bound.append(index)
                    progress = True
        fewest = waiting
        for index in waiting:
            if not fewest or self._tries > _MOST_STARTS:
                break
            if self._may_start(index, bound):
                self._tries += 1
                left = self.stranded([*bound, index], [each for each in waiting if each != index])
                fewest = min(fewest, left, key=len)
        return fewest

    def _finds_targets(self, index: int, bound: list[int]) -> bool:
        place = self._everybody[index].place
        targets = [self._everybody[other].place for other in bound if other in self._targets[index]]
        return all(
            any(_same_value(term.key, place, target) for target in targets) for term in self._rules[index]
        )

    def _may_start(self, index: int, bound: list[int]) -> bool:
        """Tell whether the pod may start a group: it counts itself, and nobody that it counts stands anywhere.

        A target on a node without any of the labels stands nowhere.
        """
        place = self._everybody[index].place
        keys = [term.key for term in self._rules[index]]
        standing = [
            other
            for other in bound
            if other in self._targets[index]
            and not self._everybody[other].leaving
            and any(key in self._everybody[other].place.labels for key in keys)
        ]
        return index in self._targets[index] and not standing and all(key in place.labels for key in keys)


def _why_stranded(index: int, everybody: list[_Stood], terms: list[Counted]) -> str:
    """Say why a pod with affinity cannot be bound where it is put, whatever the order."""
    owner = everybody[index]
    others = [stood for other, stood in enumerate(everybody) if other != index]
    keys = ", ".join(term.key for term in terms)
    counted = [stood for stood in others if all(term.counts(stood.pod) for term in terms)]

    def beside(term: Counted, candidates: list[_Stood]) -> bool:
        return any(_same_value(term.key, owner.place, each.place) for each in candidates)

    if all(beside(term, counted) for term in terms):
        why = "its targets there need it, or each other, to be bound first"
    elif all(beside(term, [each for each in others if term.counts(each.pod)]) for term in terms):
        why = "no target there is counted by all of its terms"
    else:
        why = "it has no target there" + (", but elsewhere" if counted else "")
    return f"{title(owner.pod)} on {owner.place.title} has affinity by {keys}: {why}"


def _stood(world: Iterable[Place]) -> list[_Stood]:
    return [
        _Stood(pod, place, arrived)
        for place in world
        for arrived, pods in ((False, place.standing), (True, place.arriving))
        for pod in pods
    ]


def _same_value(key: str, one: Place, other: Place) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


def _is_place_for(place: Place, rule: TopologySpreadConstraint, keys: list[str], owner: Pod) -> bool:
    """Tell whether a node counts for a spread constraint, as Kubernetes has it."""
    if any(key not in place.labels for key in keys):
        return False
    if rule.node_affinity_policy != "Ignore" and not node_suits(owner, place.labels, place.name):
        return False
    return rule.node_taints_policy != "Honor" or not repelling_taints(place.taints, owner)


def _left_open(stood: _Stood, key: str) -> str:
    return f"{title(stood.pod)} has a rule by {key}, which {stood.place.title} leaves open"
