# SPDX-License-Identifier: Apache-2.0
"""The places of a spread rule: where its emptiest place is looked for.

Places are the nodes that stand and that the rule's policies let count, and what could be bought where the owner could
go. A node that is bought for others may become a place that the owner itself cannot use: a stray.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from karpenter.api.core import Toleration
from karpenter.model.affinity import NodeRules
from karpenter.model.taints import tolerates_all
from karpenter.scheduling.classes import PodClass
from karpenter.scheduling.groups import Group
from karpenter.scheduling.hosts import Host
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template

__all__ = ["Domains"]


class _Known(NamedTuple):
    """The places of a group for a class, and by template those that would become places."""

    places: tuple[str, ...]
    foreign: Mapping[int, Mapping[str, int]]


class Domains:
    """The places of all groups on one board, worked out once for all classes with the same needs.

    Args:
        templates: What can be bought.
        groups: The groups, by number.
        hosts: The board's own list: nodes that stand, and later those to be bought.
    """

    def __init__(self, templates: Sequence[Template], groups: Sequence[Group], hosts: Sequence[Host]) -> None:
        self._templates = templates
        self._groups = groups
        self._hosts = hosts
        self._standing = len(hosts)
        # By group: places in which nodes stand.
        self._stood: dict[int, frozenset[str]] = {}
        self._by_needs: dict[tuple[int, NodeRules, tuple[Toleration, ...]], _Known] = {}
        self._by_class: dict[tuple[int, int], _Known] = {}

    def of(self, group: int, stance: Stance) -> tuple[str, ...]:
        """Return the places of a group for a class, strays included."""
        key = (group, stance.pods.index)
        known = self._by_class.get(key)
        if known is None:
            known = self._by_class[key] = self._known(group, stance.pods)
        if not known.foreign:
            return known.places
        strays = {place for host in self._hosts[self._standing :] for place in _strays(host, known.foreign)}
        return tuple(sorted(strays.union(known.places))) if strays else known.places

    def _known(self, group: int, pods: PodClass) -> _Known:
        needs = (group, pods.node, pods.tolerations)
        known = self._by_needs.get(needs)
        if known is None:
            places = self._settled(self._groups[group], pods)
            known = self._by_needs[needs] = _Known(places, self._foreign_places(self._groups[group], places))
        return known

    def _settled(self, group: Group, pods: PodClass) -> tuple[str, ...]:
        """Return the places that count from the start."""
        stood = self._stood.get(group.index)
        if stood is None:
            stood = self._stood[group.index] = frozenset(self._standing_in(group))
        found = set(stood)
        for template in self._templates:
            if tolerates_all(template.pool.taints, pods.tolerations):
                mask = template.admits(pods.node.alternatives) & template.having(group.places.keys)
                found.update(place for place, part in template.domains(group.key).items() if part & mask)
        return tuple(sorted(found))

    def _standing_in(self, group: Group) -> Iterator[str]:
        """Yield the places of a group in which nodes stand."""
        for host in self._hosts[: self._standing]:
            node = host.node
            if (
                node is not None
                and group.key in node.labels
                and group.places.admits(node.labels, node.taints, node.name)
            ):
                yield node.labels[group.key]

    def _foreign_places(self, group: Group, known: tuple[str, ...]) -> dict[int, dict[str, int]]:
        """Return, by template, the places that would count once a node stands there, but not before."""
        found: dict[int, dict[str, int]] = {}
        for template in self._templates:
            mask = template.places_of(group.places)
            parts = {
                place: part & mask
                for place, part in template.domains(group.key).items()
                if part & mask and place not in known
            }
            if parts:
                found[template.index] = parts
        return found


def _strays(host: Host, foreign: Mapping[int, Mapping[str, int]]) -> list[str]:
    """Return the foreign places in which a node to be bought may come to stand."""
    if host.template is None or not host.contents:
        return []
    return [place for place, part in foreign.get(host.template.index, {}).items() if part & host.mask]
