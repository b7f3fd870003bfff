# SPDX-License-Identifier: Apache-2.0
"""Whether pods were turned away that would obviously have fitted somewhere.

Brute force: each rejected pod, alone, on each standing node beside what the plan put there, and on an empty new node of
every kind that its pool's remaining limits allow. Pods that own rules about other pods, or that such a rule speaks of,
are passed over, and so are reserved offerings and pools with minValues: with these nothing is obvious.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from karpenter.api.core import Pod
from karpenter.api.labels import HOSTNAME
from karpenter.model.snapshot import Snapshot
from tests.checker.hosts import host_violations
from tests.checker.matching import (
    affinity_terms,
    anti_affinity_terms,
    asked_keys,
    asks_by_name,
    hard_spreads,
    node_suits,
    repelling_taints,
    spread_counts,
)
from tests.checker.plans import PlanLike, title
from tests.checker.world import Place, PossibleNode, carried_out, possible_nodes, standing_place

__all__ = ["recheck_rejection"]


def recheck_rejection(snapshot: Snapshot, pods: Sequence[Pod], plan: PlanLike) -> list[str]:
    """Say which rejected pods would have fitted, and where; nothing where each rejection may be right."""
    rejected = [pod for rejection in plan.rejections for pod in rejection.pods]
    everybody = [*pods, *(pod for node in snapshot.nodes for pod in node.pods)]
    found = []
    for pod in rejected:
        if _is_plain(pod, everybody, snapshot):
            where = _room_on_a_standing_node(pod, snapshot, plan) or _room_on_a_new_node(pod, snapshot, plan)
            if where:
                found.append(f"{title(pod)} was rejected, but {where} would hold it")
    return found


def _is_plain(pod: Pod, everybody: Iterable[Pod], snapshot: Snapshot) -> bool:
    namespaces = snapshot.namespaces
    if affinity_terms(pod, namespaces) or anti_affinity_terms(pod, namespaces) or hard_spreads(pod):
        return False
    if HOSTNAME in asked_keys(pod) or asks_by_name(pod):
        return False
    return not any(
        any(term.counts(pod) for term in anti_affinity_terms(other, namespaces))
        or any(spread_counts(rule, other)(pod) for rule in hard_spreads(other))
        for other in everybody
    )


def _room_on_a_standing_node(pod: Pod, snapshot: Snapshot, plan: PlanLike) -> str:
    for node in snapshot.nodes:
        place = standing_place(snapshot, node, plan.existing.get(node.name, ()))
        before = set(host_violations(place, snapshot.storage))
        after = host_violations(replace(place, arriving=(*place.arriving, pod)), snapshot.storage)
        if before.issuperset(after):
            return place.title
    return ""


def _room_on_a_new_node(pod: Pod, snapshot: Snapshot, plan: PlanLike) -> str:
    for pool in carried_out(snapshot, plan).pools:
        if any(requirement.min_values is not None for requirement in pool.requirements):
            continue
        for possible in possible_nodes(pool, (pod,)):
            if possible.offering.reservation_id or not _within(possible, pool.limits):
                continue
            if not host_violations(_empty(possible, pod, snapshot), snapshot.storage):
                offering = possible.offering
                what = f"{possible.kind.name} {offering.capacity_type} in {offering.zone}"
                return f"a new node of pool {pool.name}, {what},"
    return ""


def _within(possible: PossibleNode, left: Mapping[str, int]) -> bool:
    return all(
        (1 if resource == "nodes" else possible.kind.capacity.get(resource, 0)) <= amount
        for resource, amount in left.items()
    )


def _empty(possible: PossibleNode, pod: Pod, snapshot: Snapshot) -> Place:
    taints = possible.pool.taints
    return Place(
        title="a new node",
        name="",
        labels=possible.labels,
        open_labels=frozenset(),
        taints=taints,
        room=possible.kind.allocatable,
        standing=(),
        arriving=(pod,),
        daemons=tuple(
            daemon
            for daemon in snapshot.daemons
            if node_suits(daemon, possible.labels, "") and not repelling_taints(taints, daemon)
        ),
        volume_limits={},
    )
