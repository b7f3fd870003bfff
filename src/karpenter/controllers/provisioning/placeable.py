# SPDX-License-Identifier: Apache-2.0
"""Which planned pods may be put on a node that is not ready yet, past the scheduler: pure.

Whoever binds a pod answers for everything that the scheduler would have looked at. Looked at here, against the Node as
it reports itself: labels, taints, room beside the pods and DaemonSets that belong there, host ports, and who of those
that stand refuses company. What cannot be answered for is left to the scheduler: rules about other pods, volumes and
devices by claim, and every pod that it is about to serve itself.

A node that is not ready may stay so. After a while Kubernetes evicts pods from it that do not bear that, so a pod is
only put there if it bears it for long enough to see a node boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from karpenter.api.core import Node, Pod, Taint
from karpenter.api.labels import REGISTERING_TAINT, UNREGISTERED_TAINT, stable_name
from karpenter.controllers.provisioning.waiting import is_unplaced, turn
from karpenter.model.affinity import node_rules
from karpenter.model.ports import host_ports
from karpenter.model.resources import CPU, MEMORY, PODS, pod_requests, total
from karpenter.model.snapshot import NodeView
from karpenter.model.taints import forbidding_taints, merge_taints, same_taint, tolerates
from karpenter.model.topology import CountGroup, topology_rules
from karpenter.scheduling.hosts import missing_daemons
from karpenter.scheduling.templates import Daemon
from karpenter.state import Member

__all__ = ["is_booting", "is_left_to_the_scheduler", "kept_apart", "placeable", "suits"]

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_KEEPS_OFF: Final = Taint(key=_NOT_READY, effect="NoSchedule")
_THROWS_OUT: Final = Taint(key=_NOT_READY, effect="NoExecute")
_OUR_SCHEDULERS: Final = frozenset({"", "default-scheduler"})
# Kubernetes gives every pod 300 s unless it says otherwise; nodes boot in less than this. A judgement.
_LEAST_PATIENCE_S: Final = 60


def is_booting(node: Node) -> bool:
    """Tells whether the scheduler keeps off a node because it is not ready, so that nobody else fills it."""
    return any(same_taint(taint, _KEEPS_OFF) for taint in node.spec.taints)


def is_left_to_the_scheduler(pod: Pod) -> bool:
    """Tells whether a pod must not be bound by anybody else, whatever its node is like."""
    spec = pod.spec
    return (
        not is_unplaced(pod)
        or bool(spec.scheduling_gates)
        or spec.scheduler_name not in _OUR_SCHEDULERS
        or bool(spec.resource_claims)
        or any(
            each.persistent_volume_claim is not None or each.ephemeral is not None for each in spec.volumes
        )
        or any(rule.hard for rule in topology_rules(pod).spreads)
        or any(rule.hard for rule in topology_rules(pod).affinities)
        # It needs no help: the scheduler itself puts it on nodes that are not ready.
        or tolerates(spec.tolerations, _KEEPS_OFF)
        or _patience_s(pod) < _LEAST_PATIENCE_S
    )


def suits(pod: Pod, member: Member) -> bool:
    """Tells whether a pod may run on a node by labels and taints, save those that end with its boot.

    Startup taints count: who set them wants no pod there before they are gone. Until the node has registered, what its
    claim promises counts as well.
    """
    node, claim = member.node, member.claim
    taints: tuple[Taint, ...] = node.spec.taints if node is not None else ()
    if claim is not None and not member.is_registered:
        taints = merge_taints(merge_taints(taints, claim.spec.taints), claim.spec.startup_taints)
    passing = (_KEEPS_OFF, UNREGISTERED_TAINT, REGISTERING_TAINT)
    lasting = [taint for taint in taints if not any(same_taint(taint, each) for each in passing)]
    return not forbidding_taints(lasting, pod.spec.tolerations) and node_rules(pod).matches(
        member.labels, member.name
    )


def placeable(
    view: NodeView,
    promised: Iterable[Pod],
    awaited: Iterable[Pod],
    daemons: Sequence[Daemon],
    *,
    may_be: Mapping[str, bool],
) -> tuple[Pod, ...]:
    """Gives the promised pods that may be bound now, those of higher priority first.

    Every promised pod gets its room in that order, also one that is left to the scheduler: it must not find its place
    taken by a lesser one. A node that does not say what it has for pods gets none.

    Args:
        view: The node with what it reports, and the pods that are bound to it.
        promised: The pods that are promised to it.
        awaited: Other pods that the scheduler makes room for on it.
        daemons: All DaemonSets' pods.
        may_be: Whether a promised pod may be bound, by uid.
    """
    if not all(view.allocatable.get(name, 0) > 0 for name in (CPU, MEMORY, PODS)):
        return ()
    missing = missing_daemons(view, daemons)
    left = view.allocatable - total((view.census.requests, *(each.requests for each in missing)))
    ports = view.census.ports
    for daemon in missing:
        ports = ports.union(daemon.ports)
    for pod in awaited:
        left, ports = left - pod_requests(pod), ports.union(host_ports(pod))
    chosen = []
    for pod in sorted(promised, key=turn):
        wanted, asked = pod_requests(pod), host_ports(pod)
        if not wanted.fits(left) or ports.conflict(asked) is not None:
            continue
        left, ports = left - wanted, ports.union(asked)
        if may_be.get(pod.metadata.uid, False):
            chosen.append(pod)
    return tuple(chosen)


def kept_apart(member: Member, standing: Iterable[tuple[Pod, Mapping[str, str]]]) -> tuple[CountGroup, ...]:
    """Gives whom the pods that stand in the member's places refuse to have beside them.

    Args:
        member: The node.
        standing: Pods that are bound, each with the labels of its node.
    """
    found: dict[CountGroup, None] = {}
    here = _places(member.labels)
    for pod, labels in standing:
        affinity = pod.spec.affinity
        if affinity is None or affinity.pod_anti_affinity is None:
            continue
        there = _places(labels)
        for rule in topology_rules(pod).affinities:
            place = here.get(rule.group.key)
            if rule.anti and rule.hard and place is not None and place == there.get(rule.group.key):
                found[rule.group] = None
    return tuple(found)


def _places(labels: Mapping[str, str]) -> dict[str, str]:
    return {stable_name(key): value for key, value in labels.items()}


def _patience_s(pod: Pod) -> float:
    """Gives how long a pod bears a node that is not ready: the shortest of its tolerations counts, as in Kubernetes."""
    bearing = [each for each in pod.spec.tolerations if tolerates((each,), _THROWS_OUT)]
    if not bearing:
        return 0.0
    seconds = [each.toleration_seconds for each in bearing if each.toleration_seconds is not None]
    return float(max(min(seconds), 0)) if seconds else float("inf")
