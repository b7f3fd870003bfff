# SPDX-License-Identifier: Apache-2.0
"""Which wishes of placed pods hold in the world to come: preferred affinities, soft spread, taints that discourage.

As with needs, the end is judged, not the moment at which a pod was placed. Written from the API objects alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from karpenter.api.core import Pod, TopologySpreadConstraint
from karpenter.model.snapshot import Snapshot
from tests.checker import PlanLike
from tests.checker.matching import (
    Counted,
    affinity_terms,
    anti_affinity_terms,
    repelling_taints,
    spread_counts,
    term_holds,
)
from tests.checker.world import Place, world_of

__all__ = ["kept_wishes"]


def kept_wishes(snapshot: Snapshot, plan: PlanLike) -> set[tuple[str, str, str]]:
    """Give the wishes of placed pods that hold: namespace and name of the pod, and the wish."""
    world = world_of(snapshot, plan)
    return {
        (pod.metadata.namespace, pod.metadata.name, wish)
        for place in world
        for pod in place.arriving
        for wish in _kept(pod, place, world, snapshot)
    }


def _kept(pod: Pod, place: Place, world: list[Place], snapshot: Snapshot) -> Iterator[str]:
    affinity = pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        for number, wish in enumerate(affinity.node_affinity.preferred):
            if term_holds(wish.preference, place.labels, place.name):
                yield f"node affinity {number}"
    yield from _kept_with_others(pod, place, world, snapshot)
    for number, rule in enumerate(pod.spec.topology_spread_constraints):
        if rule.when_unsatisfiable == "ScheduleAnyway" and _is_even(rule, pod, place, world):
            yield f"spread {number}"
    wishes = [each for each in place.taints if each.effect == "PreferNoSchedule"]
    if not repelling_taints([replace(each, effect="NoSchedule") for each in wishes], pod):
        yield "taints"


def _kept_with_others(pod: Pod, place: Place, world: list[Place], snapshot: Snapshot) -> Iterator[str]:
    wishing = _wishing(pod)

    def meets(term: Counted) -> bool:
        return any(
            term.counts(each)
            for there in world
            if term.key in place.labels and place.labels[term.key] == there.labels.get(term.key)
            for each in (*there.standing, *there.arriving)
            if each is not pod
        )

    for number, term in enumerate(affinity_terms(wishing, snapshot.namespaces)):
        if meets(term):
            yield f"affinity {number}"
    for number, term in enumerate(anti_affinity_terms(wishing, snapshot.namespaces)):
        if not meets(term):
            yield f"anti-affinity {number}"


def _is_even(rule: TopologySpreadConstraint, pod: Pod, place: Place, world: list[Place]) -> bool:
    key, counts = rule.topology_key, spread_counts(rule, pod)
    places = [there for there in world if key in there.labels]
    found = dict.fromkeys((there.labels[key] for there in places), 0)
    for there in places:
        found[there.labels[key]] += sum(map(counts, (*there.standing, *there.arriving)))
    return key in place.labels and found[place.labels[key]] - min(found.values()) <= rule.max_skew


def _wishing(pod: Pod) -> Pod:
    """Give the pod with its preferred terms about other pods in the place of the required ones."""
    affinity = pod.spec.affinity
    if affinity is None:
        return pod
    sides = {
        name: replace(side, required=tuple(wish.pod_affinity_term for wish in side.preferred))
        for name in ("pod_affinity", "pod_anti_affinity")
        if (side := getattr(affinity, name)) is not None
    }
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, **sides)))
