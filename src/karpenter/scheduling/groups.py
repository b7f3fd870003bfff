# SPDX-License-Identifier: Apache-2.0
"""Who counts whom: the groups of pods that rules speak of, numbered, so that "counted by" is the bit of an int.

A group is counted per place (a zone, a host). For a spread rule only nodes that its owner could use are places, so
the owner's own conditions on the node are part of the group; other rules count everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from karpenter.api.core import Taint, Toleration
from karpenter.api.labels import HOSTNAME
from karpenter.model.affinity import NodeTerm
from karpenter.model.catalogue import bits
from karpenter.model.taints import tolerates_all
from karpenter.model.topology import AffinityRule, CountGroup, SpreadRule
from karpenter.scheduling.classes import PodClass

__all__ = ["Group", "GroupTable", "NodeFilter"]


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The nodes that are places for a spread rule: those its owner's node affinity and tolerations allow.

    A node that lacks a label over which another spread rule of the owner counts is no place for any of them.
    """

    alternatives: tuple[NodeTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    keys: tuple[str, ...] = ()

    def admits(self, labels: Mapping[str, str], taints: Iterable[Taint], name: str = "") -> bool:
        """Tell whether a standing node is a place."""
        if any(key not in labels for key in self.keys):
            return False
        if self.alternatives is not None and not any(
            term.matches(labels, name) for term in self.alternatives
        ):
            return False
        return self.tolerations is None or tolerates_all(taints, self.tolerations)


_EVERYWHERE = NodeFilter()


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that are counted per value of a node label, at the places that a filter admits."""

    index: int
    pods: CountGroup
    places: NodeFilter

    @property
    def key(self) -> str:
        """The node label whose values are the places."""
        return self.pods.key

    @property
    def by_host(self) -> bool:
        """Whether each node is a place of its own."""
        return self.pods.key == HOSTNAME


class GroupTable:
    """All groups of one solve, in the order in which they were met."""

    def __init__(
        self, namespaces: Mapping[str, Mapping[str, str]], everywhere: Collection[str] = (HOSTNAME,)
    ) -> None:
        self.groups: list[Group] = []
        self._namespaces = namespaces
        # Labels that no node lacks, so that nobody need ask.
        self._everywhere = everywhere
        self._numbers: dict[tuple[CountGroup, NodeFilter], int] = {}
        self._numbers_of: dict[CountGroup, int] = {}
        self._by_pair: dict[tuple[str, str], list[CountGroup]] = {}
        self._without_pair: list[CountGroup] = []
        # Groups that count on some nodes only.
        self.filtered = 0
        # Groups that somebody wants to stand evenly.
        self.levelled = 0
        self._counted: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._by_key: dict[int, dict[str, tuple[int, ...]]] = {}

    def number(self, pods: CountGroup, places: NodeFilter = _EVERYWHERE) -> int:
        """Return the number of a group, a new one if it was not met before."""
        known = self._numbers.get((pods, places))
        if known is not None:
            return known
        index = len(self.groups)
        self.groups.append(Group(index, pods, places))
        self._numbers[pods, places] = index
        if places != _EVERYWHERE:
            self.filtered |= 1 << index
        if pods not in self._numbers_of:
            self._file(pods)
        self._numbers_of[pods] = self._numbers_of.get(pods, 0) | 1 << index
        self._counted.clear()
        return index

    def find(self, pods: CountGroup) -> int | None:
        """Return the number of a group that counts everywhere; None if no rule of this solve speaks of it."""
        return self._numbers.get((pods, _EVERYWHERE))

    def number_of_rule(self, rule: SpreadRule | AffinityRule, owner: PodClass) -> int:
        """Return the number of the group that a rule of a class counts."""
        if isinstance(rule, AffinityRule):
            return self.number(rule.group)
        trivial = owner.node.alternatives == (NodeTerm(),)
        places = NodeFilter(
            None if trivial or not rule.honors_affinity else owner.node.alternatives,
            owner.tolerations if rule.honors_taints else None,
            self._other_keys(rule, owner) if rule.hard else (),
        )
        number = self.number(rule.group, places)
        self.levelled |= 1 << number
        return number

    def _other_keys(self, rule: SpreadRule, owner: PodClass) -> tuple[str, ...]:
        """Return the labels of the owner's other spread rules, as far as a node may lack them."""
        keys = _spread_keys(owner) - {rule.group.key}
        return tuple(sorted(keys.difference(self._everywhere)))

    def counting(self, namespace: str, labels: Mapping[str, str]) -> int:
        """Return the groups, as bits, that count a pod of this namespace with these labels."""
        key = (namespace, tuple(sorted(labels.items())))
        known = self._counted.get(key)
        if known is None:
            known = self._counted[key] = self._counting(namespace, labels)
        return known

    def by_key(self, numbers: int) -> dict[str, tuple[int, ...]]:
        """Return groups, given as bits, by the label over which they count."""
        known = self._by_key.get(numbers)
        if known is None:
            found: dict[str, list[int]] = {}
            for index in bits(numbers):
                found.setdefault(self.groups[index].key, []).append(index)
            known = self._by_key[numbers] = {key: tuple(each) for key, each in found.items()}
        return known

    def ambiguous(self, counted: int, pod_class: PodClass) -> int:
        """Return those of the groups whose places the class's own conditions do not settle."""
        return counted & self.filtered & ~self._settled(pod_class)

    def _settled(self, pod_class: PodClass) -> int:
        """Return the filtered groups of which every node that the class may use is a place."""
        found = 0
        for index in bits(self.filtered):
            places = self.groups[index].places
            if places.alternatives in (None, pod_class.node.alternatives) and places.tolerations in (
                None,
                pod_class.tolerations,
            ):
                found |= int(_spread_keys(pod_class).issuperset(places.keys)) << index
        return found

    def _counting(self, namespace: str, labels: Mapping[str, str]) -> int:
        of_namespace = self._namespaces.get(namespace, {})
        found = 0
        for candidates in (self._without_pair, *(self._by_pair.get(pair, ()) for pair in labels.items())):
            for pods in candidates:
                if pods.counts(namespace, labels, of_namespace):
                    found |= self._numbers_of[pods]
        return found

    def _file(self, pods: CountGroup) -> None:
        """Put the group where pods with one of its labels find it; a selector without such a label is tried always."""
        pairs = pods.selector.pairs
        if pairs:
            self._by_pair.setdefault(pairs[0], []).append(pods)
        elif not pods.selector.selects_nothing:
            self._without_pair.append(pods)


def _spread_keys(owner: PodClass) -> set[str]:
    return {rule.group.key for rule in owner.topology.spreads if rule.hard}
