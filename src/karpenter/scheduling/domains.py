# SPDX-License-Identifier: Apache-2.0
"""The places of a spread rule: where its emptiest place is looked for.

Places are the nodes that stand and that the rule's policies let count, and what could be bought where the owner could
go. A node that is bought for others may become a place that the owner itself cannot use: a stray.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from karpenter.model.taints import tolerates_all
from karpenter.scheduling.groups import Group
from karpenter.scheduling.hosts import Host
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template

__all__ = ["Domains"]


class Domains:
    """The places of all groups on one board, worked out once for each class that asks."""

    def __init__(self, templates: Sequence[Template], groups: Sequence[Group], hosts: Sequence[Host]) -> None:
        self._templates = templates
        self._groups = groups
        # The board's own list: nodes are added to it.
        self._hosts = hosts
        # By group and class: the places, and by template those that would become places.
        self._known: dict[tuple[int, int], tuple[str, ...]] = {}
        self._foreign: dict[tuple[int, int], dict[int, dict[str, int]]] = {}

    def of(self, group: int, stance: Stance) -> tuple[str, ...]:
        """Return the places of a group for a class, strays included."""
        key = (group, stance.pods.index)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._settled(self._groups[group], stance)
            self._foreign[key] = self._foreign_places(self._groups[group], known)
        foreign = self._foreign[key]
        if not foreign:
            return known
        strays = (place for host in self._hosts for place in _strays(host, foreign))
        return tuple(sorted({*known, *strays}))

    def _settled(self, group: Group, stance: Stance) -> tuple[str, ...]:
        """Return the places that count from the start."""
        pods = stance.pods
        found: set[str] = set()
        for template in self._templates:
            if tolerates_all(template.pool.taints, pods.tolerations):
                mask = template.admits(pods.node.alternatives) & template.having(group.places.keys)
                found.update(place for place, part in template.domains(group.key).items() if part & mask)
        for host in self._hosts:
            node = host.node
            if (
                node is not None
                and group.key in node.labels
                and group.places.admits(node.labels, node.taints, node.name)
            ):
                found.add(node.labels[group.key])
        return tuple(sorted(found))

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
