# SPDX-License-Identifier: Apache-2.0
"""Judges a whole plan: who is where, each node by itself, the rules between pods, the bill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from karpenter.api.core import Pod
from karpenter.api.labels import HOSTNAME
from karpenter.model.snapshot import Snapshot
from tests.checker.hosts import host_violations
from tests.checker.plans import OptionsLike, PlanLike, title
from tests.checker.purchases import purchase_violations
from tests.checker.topology import TopologyCheck
from tests.checker.world import Place, new_place, world_of

__all__ = ["check"]


def check(snapshot: Snapshot, pods: Sequence[Pod], plan: PlanLike, options: OptionsLike) -> list[str]:
    """Say in words what is wrong with a plan, most basic things first; nothing where it is valid.

    Args:
        snapshot: The cluster that the plan was made for.
        pods: The pods that had no place.
        plan: The plan.
        options: How it was to be made.
    """
    world = world_of(snapshot, plan)
    found = [*_accounting(snapshot, pods, plan)]
    for place in world:
        found += host_violations(place, snapshot.storage)
    found += purchase_violations(snapshot, plan, options)
    topology = TopologyCheck(snapshot, pods)
    broken = topology.violations(world)
    found += broken
    found += _swapped(snapshot, plan, topology, world, set(broken))
    return list(dict.fromkeys(found))


def _accounting(snapshot: Snapshot, pods: Sequence[Pod], plan: PlanLike) -> list[str]:
    asked = Counter(map(title, pods))
    answered = Counter(
        title(pod)
        for group in (
            *plan.existing.values(),
            *(node.pods for node in plan.new_nodes),
            *(rejection.pods for rejection in plan.rejections),
            plan.unfinished,
        )
        for pod in group
    )
    found = [
        f"{name} was asked for {asked[name]} times and is answered {answered[name]} times"
        for name in sorted(asked | answered)
        if asked[name] != answered[name]
    ]
    known = {node.name for node in snapshot.nodes}
    found += [
        f"pods are put on node {name}, which does not exist" for name in plan.existing if name not in known
    ]
    originals = {title(pod): pod for pod in pods}
    found += [
        f"{title(pod)} was changed on its way into the plan"
        for pod in _placed(plan)
        if originals.get(title(pod), pod) != pod
    ]
    return found


def _placed(plan: PlanLike) -> Iterable[Pod]:
    for pods in plan.existing.values():
        yield from pods
    for node in plan.new_nodes:
        yield from node.pods


def _swapped(
    snapshot: Snapshot, plan: PlanLike, topology: TopologyCheck, world: list[Place], known: set[str]
) -> list[str]:
    """Say which rules between pods break if one new node is bought as another of its alternatives."""
    keys = sorted(topology.keys(world) - {HOSTNAME})
    found = []
    for number, node in enumerate(plan.new_nodes):
        chosen = new_place(snapshot, number, node, node)
        if chosen is None:
            continue
        tried = {tuple(chosen.labels.get(key) for key in keys)}
        for offer in node.alternatives:
            place = new_place(snapshot, number, node, offer)
            if place is None or tuple(place.labels.get(key) for key in keys) in tried:
                continue
            tried.add(tuple(place.labels.get(key) for key in keys))
            other = [place if each.title == place.title else each for each in world]
            name = (
                f"if {place.title} is bought as {offer.instance_type} {offer.capacity_type} in {offer.zone}"
            )
            found += [f"{name}: {each}" for each in topology.violations(other) if each not in known]
    return found
