# SPDX-License-Identifier: Apache-2.0
"""Writes a rearrangement down in names: which nodes go, what is bought, and which pod goes where."""

from __future__ import annotations

from collections.abc import Sequence

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.consolidation.search.searching import Outcome
from karpenter.consolidation.search.surveying import Survey
from karpenter.consolidation.types import Move, Rearrangement
from karpenter.model.catalogue import lowest_bit
from karpenter.model.resources import Resources
from karpenter.scheduling.plan import NewNode, pod_name
from karpenter.scheduling.templates import Template

__all__ = ["written"]

# An offering that is dearer than the cheapest by more than this is no alternative to it.
_MARGIN = 2.0


def written(found: Survey, outcome: Outcome) -> Rearrangement:
    """Return the rearrangement of the world that was surveyed."""
    left = {key: list(pods) for key, pods in found.pods.items()}
    copy = outcome.copy
    moves: list[Move] = []
    launches: dict[int, int] = {}
    pods_on: dict[int, list[Pod]] = {}
    remove: list[str] = []
    steps: list[int] = []
    for step in outcome.steps:
        for host in step.launch:
            launches[host] = len(launches)
        for flow in step.flows:
            pods = left[flow.source, flow.kind]
            moving, left[flow.source, flow.kind] = pods[: flow.number], pods[flow.number :]
            pods_on.setdefault(flow.target, []).extend(moving)
            stands = flow.target < copy.standing
            moves += [
                Move(
                    uid=pod.metadata.uid,
                    pod=pod_name(pod),
                    source=found.names[flow.source],
                    target=found.names[flow.target] if stands else "",
                    launch=-1 if stands else launches[flow.target],
                )
                for pod in moving
            ]
        remove += [found.names[node] for node in step.remove]
        steps.append(len(step.remove))
    nodes = found.terrain.nodes
    gone = sum(nodes[node].price for step in outcome.steps for node in step.remove)
    bought = [_new_node(found, outcome, host, pods_on.get(host, ())) for host in launches]
    return Rearrangement(
        remove=tuple(remove),
        launch=tuple(bought),
        moves=tuple(moves),
        saving_per_hour=gone - sum(node.price_per_hour for node in bought),
        tries=outcome.tries,
        steps=tuple(steps),
    )


def _new_node(found: Survey, outcome: Outcome, host: int, pods: Sequence[Pod]) -> NewNode:
    copy = outcome.copy
    node = copy.bought[host - copy.standing]
    template = found.templates[node.source]
    resources = found.terrain.resources
    used = tuple(have - free for have, free in zip(node.room, copy.free(host), strict=True))
    mask = template.fitting(used) & template.listed
    for kind in copy.guests[host]:
        mask &= found.masks[kind]
    overhead = template.overhead_at(lowest_bit(mask))
    return NewNode(
        pool=template.pool.name,
        labels=template.labels,
        catalogue=template.catalogue,
        usable=_usable(template, mask),
        pods=tuple(sorted(pods, key=pod_name)),
        requests=Resources(
            {name: have + less for name, have, less in zip(resources, used, overhead, strict=True)}
        ),
        daemon_overhead=Resources(dict(zip(resources, overhead, strict=True))),
        pool_requirements=template.pool.requirements,
    )


def _usable(template: Template, fitting: int) -> int:
    """Return those offerings of some that a claim can name: it speaks of types, zones and capacity types apart."""
    catalogue = template.catalogue
    chosen = catalogue.offerings[lowest_bit(fitting)]
    mask = fitting & catalogue.no_dearer_than(chosen.price_per_hour * _MARGIN)
    for key, value in ((CAPACITY_TYPE, chosen.capacity_type), (ZONE, chosen.zone)):
        if template.combinations(mask, template.listed) & ~fitting:
            mask &= catalogue.values(key)[value]
    return mask
