# SPDX-License-Identifier: Apache-2.0
"""Making room for a pod by removing less important ones, as Kubernetes' default preemption does.

On each node where removing pods could help, all less important pods are thought away; if the pod then fits, as many of
them as possible are spared, the most important first, those that a disruption budget protects before the others. Of the
nodes where that works the one that does the least harm is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from karpenter.sandbox.scheduler.cluster import Cluster, NodeInfo
from karpenter.sandbox.scheduler.filters import Attempt, Change, Verdict
from karpenter.sandbox.scheduler.matching import read_selector
from karpenter.sandbox.scheduler.pods import PodInfo

__all__ = ["Room", "ineligible", "make_room"]

_NO_VICTIMS = Verdict("DefaultPreemption", ("No preemption victims found for incoming pod",))


@dataclass(frozen=True, slots=True)
class Room:
    """A node that fits the pod once the victims are gone."""

    node: NodeInfo
    victims: tuple[PodInfo, ...]
    broken_budgets: int


def ineligible(cluster: Cluster, pod: PodInfo, verdicts: Mapping[str, Verdict]) -> str:
    """Says why a pod may not make others go at this moment; empty if it may."""
    if not pod.shape.preempts:
        return "not eligible due to preemptionPolicy=Never."
    refused = verdicts.get(pod.nominated)
    node = cluster.nodes.get(pod.nominated)
    if node is None or (refused is not None and refused.unresolvable):
        return ""
    if any(
        each.terminating and each.priority < pod.priority and _was_preempted(each)
        for each in node.pods.values()
    ):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def make_room(attempt: Attempt, verdicts: Mapping[str, Verdict]) -> tuple[Room | None, dict[str, Verdict]]:
    """Gives the node on which to make room and whom to remove; and why it cannot be any of the others."""
    cluster = attempt.cluster
    rooms: list[Room] = []
    refusals: dict[str, Verdict] = {}
    for name, verdict in verdicts.items():
        if verdict.unresolvable:
            continue
        found = _try(attempt, cluster.nodes[name])
        if isinstance(found, Room):
            rooms.append(found)
        else:
            refusals[name] = found
    return min(rooms, key=_harm, default=None), refusals


def _try(attempt: Attempt, node: NodeInfo) -> Room | Verdict:
    pod = attempt.pod
    weaker = [each for each in node.pods.values() if each.priority < pod.priority]
    if not weaker:
        return _NO_VICTIMS
    verdict = attempt.check_with(node, Change(removed=tuple(weaker)))
    if verdict is not None:
        return verdict
    weaker.sort(key=_importance)
    protected, others = _by_budget(attempt.cluster, weaker)
    gone = {each.uid: each for each in weaker}
    broken = 0
    for group in (protected, others):
        for each in group:
            del gone[each.uid]
            if attempt.check_with(node, Change(removed=tuple(gone.values()))) is not None:
                gone[each.uid] = each
                broken += group is protected
    victims = tuple(sorted(gone.values(), key=_importance))
    return Room(node, victims, broken)


def _harm(room: Room) -> tuple[int, int, int, int, tuple[int, ...]]:
    priorities = [each.priority for each in room.victims]
    # Of two equally harmful choices the one whose most important victim started later.
    first = max((each.created for each in room.victims if each.priority == max(priorities)), default="")
    return (
        room.broken_budgets,
        max(priorities, default=0),
        sum(priorities),
        len(priorities),
        tuple(-ord(letter) for letter in first),
    )


def _importance(pod: PodInfo) -> tuple[int, str]:
    return -pod.priority, pod.created


def _by_budget(cluster: Cluster, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
    left = {
        key: (wire.get("status") or {}).get("disruptionsAllowed", 0) for key, wire in cluster.budgets.items()
    }
    selectors = {key: read_selector(wire["spec"].get("selector")) for key, wire in cluster.budgets.items()}
    protected: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        breaks = False
        for key, selector in selectors.items():
            if key[0] == pod.namespace and not selector.is_empty and selector.matches(pod.labels):
                left[key] -= 1
                breaks |= left[key] < 0
        (protected if breaks else others).append(pod)
    return protected, others


def _was_preempted(pod: PodInfo) -> bool:
    return any(
        each.get("type") == "DisruptionTarget" and each.get("reason") == "PreemptionByScheduler"
        for each in (pod.wire.get("status") or {}).get("conditions") or ()
    )
