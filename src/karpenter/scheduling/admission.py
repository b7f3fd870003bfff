# SPDX-License-Identifier: Apache-2.0
"""Which nodes suit a class by themselves, whoever stands on them: labels, taints, volumes, size.

Offerings are asked for by template, standing nodes by number. Many classes ask the same, so answers are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from karpenter.model.affinity import NodeTerm
from karpenter.model.catalogue import bits
from karpenter.model.taints import tolerates_all
from karpenter.model.volumes import VolumeDemand
from karpenter.scheduling.hosts import Host
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template
from karpenter.scheduling.vacancies import Vacancies

__all__ = ["Admission"]


class Admission:
    """What the nodes of one solve are like, asked for by class.

    Args:
        templates: What can be bought.
        standing: The nodes that stand, by number, before anybody has entered.
    """

    def __init__(self, templates: Sequence[Template], standing: Sequence[Host]) -> None:
        self._templates = templates
        self._standing = tuple(standing)
        self._vacancies = Vacancies([tuple(map(int.__sub__, host.room, host.used)) for host in standing])
        self._matches: dict[tuple[object, ...], dict[int, bool]] = {}
        self._matching: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._admitted: dict[tuple[int, int, int], int] = {}
        self._allowed: dict[tuple[object, ...], int] = {}

    def admitted(self, stance: Stance, template: Template) -> int:
        """Return the offerings of a template that the class may use, its size included."""
        key = (stance.pods.index, stance.level, template.index)
        known = self._admitted.get(key)
        if known is None:
            known = self._admitted[key] = self._admit(stance, template)
        return known

    def _admit(self, stance: Stance, template: Template) -> int:
        return self.allowed(stance, template) & template.fitting(stance.requests)

    def allowed(self, stance: Stance, template: Template) -> int:
        """Return the offerings of a template that the class may use, whatever its size.

        Classes that differ in size alone get the same set, which is how packing knows that they can share nodes.
        """
        pods = stance.pods
        key = (stance.profile, pods.tolerations, pods.volumes, pods.ports, template.index)
        known = self._allowed.get(key)
        if known is None:
            known = self._allowed[key] = self._allow(stance, template)
        return known

    def _allow(self, stance: Stance, template: Template) -> int:
        pods = stance.pods
        heeds = stance.profile.heeds_taint_wishes
        if not tolerates_all(template.pool.taints, pods.tolerations, heed_wishes=heeds):
            return 0
        mask = template.admits(stance.profile.alternatives)
        reachable = 0
        for demand in pods.volumes.alternatives:
            reachable |= template.meeting(demand)
        mask &= reachable
        if mask and pods.ports:
            mask &= template.without_port_clash(pods.ports)
        return mask

    def matches(self, stance: Stance, host: Host) -> bool:
        """Tell whether a standing node's labels and taints suit the class."""
        node = host.node
        assert node is not None
        answers = self._matches.setdefault(_conditions(stance), {})
        known = answers.get(host.index)
        if known is None:
            pods = stance.pods
            heeds = stance.profile.heeds_taint_wishes
            known = answers[host.index] = (
                tolerates_all(node.taints, pods.tolerations, heed_wishes=heeds)
                and any(term.matches(node.labels, node.name) for term in stance.profile.alternatives)
                and any(demand.allows(node.labels) for demand in pods.volumes.alternatives)
            )
        return known

    def matching(self, stance: Stance) -> tuple[int, ...]:
        """Return the numbers of all standing nodes that suit the class."""
        conditions = _conditions(stance)
        known = self._matching.get(conditions)
        if known is None:
            # Most pods ask nothing of labels and most nodes have no taints: those suit each other unseen.
            asks = stance.profile.alternatives != (NodeTerm(),) or stance.pods.volumes != VolumeDemand()
            known = self._matching[conditions] = tuple(
                [
                    host.index
                    for host in self._standing
                    if (not asks and host.node is not None and not host.node.taints)
                    or self.matches(stance, host)
                ]
            )
        return known

    def candidates(self, stance: Stance) -> Iterator[Host]:
        """Yield, in order, the standing nodes that suit the class and had room for a pod of it to begin with."""
        for index in bits(self._vacancies.holding(stance.requests)):
            if self.matches(stance, self._standing[index]):
                yield self._standing[index]

    def might_hold(self, stance: Stance) -> bool:
        """Tell whether there is any node, standing or to be bought, that the class could use if it were empty."""
        return any(self.admitted(stance, template) for template in self._templates) or bool(
            self.matching(stance)
        )

    def vacant(self, stance: Stance) -> int:
        """Return how many standing nodes had room for a pod of the class to begin with."""
        return self._vacancies.holding(stance.requests).bit_count()


def _conditions(stance: Stance) -> tuple[object, ...]:
    """Return what a class asks of the labels and taints of a node; classes that ask the same share the answers."""
    pods, profile = stance.pods, stance.profile
    return (profile.alternatives, profile.heeds_taint_wishes, pods.tolerations, pods.volumes)
