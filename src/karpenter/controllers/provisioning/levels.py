# SPDX-License-Identifier: Apache-2.0
"""How many more pods the places of a hard spread take now, from what is bound: pure.

As the scheduler counts: over the nodes that are places for the spread's owner, pods of its namespace that are not on
their way out, and by how much a place is ahead of the emptiest. Whoever is planned but not bound counts nowhere yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from karpenter.api.core import Pod, Taint
from karpenter.model.affinity import NodeTerm, node_rules
from karpenter.model.pods import is_terminal, is_terminating
from karpenter.model.topology import CountGroup, SpreadRule, topology_rules
from karpenter.scheduling.groups import NodeFilter

__all__ = ["Crowd", "Levels", "PodRules", "Site", "crowds_of", "rules_of"]

# Pods of one namespace with the same labels: whoever counts one of them counts all.
Crowd = tuple[str, tuple[tuple[str, str], ...]]

_ANYWHERE: Final = (NodeTerm(),)


class PodRules(NamedTuple):
    """What a pod needs of others.

    Attributes:
        spreads: Its hard spreads, each with the nodes that are places for it.
        near: Whom it needs near.
    """

    spreads: tuple[tuple[SpreadRule, NodeFilter], ...] = ()
    near: tuple[CountGroup, ...] = ()


_NO_RULES: Final = PodRules()


class Site(NamedTuple):
    """A node with the pods that are bound to it, by namespace and labels."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    crowds: Mapping[Crowd, int]


class _Level(NamedTuple):
    """How many pods of a group stand in each place, and the place of each node."""

    counts: Mapping[str, int]
    place_of: Mapping[str, str]


def rules_of(pod: Pod) -> PodRules:
    """Compiles what a pod needs of others."""
    rules = topology_rules(pod)
    if not rules:
        return _NO_RULES
    spreads = [each for each in rules.spreads if each.hard]
    keys = tuple(sorted({each.group.key for each in spreads}))
    return PodRules(
        tuple((each, _places(pod, each, keys)) for each in spreads),
        tuple(each.group for each in rules.affinities if each.hard and not each.anti),
    )


def crowds_of(pods: Iterable[Pod]) -> dict[Crowd, int]:
    """Counts pods by namespace and labels; those that are over or on their way out count for nobody."""
    found: dict[Crowd, int] = {}
    for pod in pods:
        if not is_terminal(pod) and not is_terminating(pod):
            crowd = (pod.metadata.namespace, tuple(sorted(pod.metadata.labels.items())))
            found[crowd] = found.get(crowd, 0) + 1
    return found


class Levels:
    """What is bound at one moment; looked at only if somebody asks.

    Args:
        sites: Gives every node that stands.
    """

    def __init__(self, sites: Callable[[], Iterable[Site]]) -> None:
        self._look = sites
        self._sites: tuple[Site, ...] | None = None
        self._known: dict[tuple[CountGroup, NodeFilter], _Level] = {}

    def room(self, rule: SpreadRule, places: NodeFilter, node: str) -> int:
        """Gives how many more pods that a rule counts its place on a node takes while the owner may still come."""
        level = self._known.get((rule.group, places))
        if level is None:
            level = self._known[rule.group, places] = self._counted(rule.group, places)
        if node not in level.place_of:
            return rule.max_skew
        emptiest = min(level.counts.values()) if len(level.counts) >= rule.min_domains else 0
        return rule.max_skew - (level.counts[level.place_of[node]] - emptiest)

    def _counted(self, group: CountGroup, places: NodeFilter) -> _Level:
        if self._sites is None:
            self._sites = tuple(self._look())
        counts: dict[str, int] = {}
        place_of: dict[str, str] = {}
        matches: dict[Crowd, bool] = {}
        for site in self._sites:
            if not places.admits(site.labels, site.taints, site.name):
                continue
            place = place_of[site.name] = site.labels[group.key]
            counts.setdefault(place, 0)
            for crowd, number in site.crowds.items():
                counted = matches.get(crowd)
                if counted is None:
                    counted = matches[crowd] = group.counts(crowd[0], dict(crowd[1]), {})
                counts[place] += number * counted
        return _Level(counts, place_of)


def _places(owner: Pod, rule: SpreadRule, keys: tuple[str, ...]) -> NodeFilter:
    alternatives = node_rules(owner).alternatives if rule.honors_affinity else _ANYWHERE
    return NodeFilter(
        None if alternatives == _ANYWHERE else alternatives,
        owner.spec.tolerations if rule.honors_taints else None,
        keys,
    )
