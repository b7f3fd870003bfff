# SPDX-License-Identifier: Apache-2.0
"""Says why none of the standing nodes took a pod: for each node the first constraint it fails, then counted.

The order is that of a person who looks: taints, labels, volumes, room, ports, attachments, other pods. At most
``MOST_NODES`` nodes are looked at; the summary says how many of how many.
"""

from __future__ import annotations

from karpenter.api.labels import HOSTNAME
from karpenter.model.snapshot import NodeView
from karpenter.model.taints import forbidding_taints
from karpenter.scheduling.board import Board, Host
from karpenter.scheduling.reasons import Cause, Constraint, Standing
from karpenter.scheduling.stances import Stance

__all__ = ["MOST_NODES", "why_not_standing"]

MOST_NODES = 500

_CAUSES = {"spread": Cause.SPREAD, "together": Cause.AFFINITY, "apart": Cause.ANTI_AFFINITY}


def why_not_standing(board: Board, stance: Stance) -> Standing:
    """Return why the standing nodes, as they are filled now, do not take one more pod of a class."""
    standing = [(host, host.node) for host in board.hosts if host.node is not None]
    counted: dict[Constraint, int] = {}
    asked = standing[:MOST_NODES]
    for host, node in asked:
        obstacle = (
            _of_labels(stance, node)
            or _of_room(board, stance, host)
            or _of_devices(stance, host, node)
            or _of_its_host(board, stance, host)
            or _of_its_places(board, stance, node)
            or Constraint(Cause.UNDECIDED)
        )
        counted[obstacle] = counted.get(obstacle, 0) + 1
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0].cause, each[0].subject))
    return Standing(len(standing), len(asked), tuple(ordered))


def _of_labels(stance: Stance, node: NodeView) -> Constraint | None:
    for taint in forbidding_taints(node.taints, stance.pods.tolerations):
        value = f"={taint.value}" if taint.value else ""
        return Constraint(Cause.TAINT, f"{taint.key}{value}:{taint.effect}")
    alternatives = stance.profile.alternatives
    if not any(term.matches(node.labels, node.name) for term in alternatives):
        for term in alternatives[:1]:
            for requirement in term.written:
                if not requirement.allows(node.labels.get(requirement.key)):
                    return Constraint(Cause.REQUIREMENT, requirement.key)
        return Constraint(Cause.REQUIREMENT, "metadata.name")
    if not any(demand.allows(node.labels) for demand in stance.pods.volumes.alternatives):
        return Constraint(Cause.VOLUME_REACH)
    return None


def _of_room(board: Board, stance: Stance, host: Host) -> Constraint | None:
    for resource, have, used, asked in zip(
        board.resources, host.room, host.used, stance.requests, strict=True
    ):
        if used + asked > have:
            return Constraint(Cause.RESOURCES, resource)
    return None


def _of_devices(stance: Stance, host: Host, node: NodeView) -> Constraint | None:
    conflict = host.ports.conflict(stance.pods.ports)
    if conflict is not None:
        return Constraint(Cause.HOST_PORT, str(conflict.wanted))
    exceeded = host.attached.union(stance.pods.volumes.attachments).exceeded(node.volume_limits)
    if stance.pods.volumes.attachments.claims and exceeded is not None:
        return Constraint(Cause.ATTACH_LIMIT, exceeded.driver)
    return None


def _of_its_host(board: Board, stance: Stance, host: Host) -> Constraint | None:
    for rule in stance.near:
        if not host.counts.get(rule.group, 0) and not board.may_found(rule, stance):
            return Constraint(Cause.AFFINITY, HOSTNAME)
    full = any(host.counts.get(group, 0) + (stance.counted >> group & 1) > cap for group, cap in stance.caps)
    if full or any(
        stance.counted >> group & 1 and host.counts.get(group, 0) >= cap for group, cap in host.caps.items()
    ):
        return Constraint(Cause.ANTI_AFFINITY, HOSTNAME)
    return None


def _of_its_places(board: Board, stance: Stance, node: NodeView) -> Constraint | None:
    for key in stance.keys:
        place = node.labels.get(key)
        for rule in stance.places.get(key, ()):
            holds = rule.kind == "apart" if place is None else board.rule_holds(rule, stance, place)
            if not holds:
                return Constraint(_CAUSES[rule.kind], key)
        groups = stance.counted_by.get(key, ())
        if place is not None and any(board.kept_apart[group].get(place) for group in groups):
            return Constraint(Cause.ANTI_AFFINITY, key)
    return None
