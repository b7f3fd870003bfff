# SPDX-License-Identifier: Apache-2.0
"""Writes the plan from the board: closes every node to be bought and hands the pods of each class out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from karpenter.api.base import EMPTY
from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.model.catalogue import lowest_bit
from karpenter.model.resources import Resources
from karpenter.scheduling.board import Board, Host
from karpenter.scheduling.options import SolveOptions
from karpenter.scheduling.plan import NewNode, Plan, Rejection, Relaxation, pod_name
from karpenter.scheduling.templates import Template
from karpenter.scheduling.turns import Guest

__all__ = ["write_plan"]


def write_plan(
    board: Board,
    rejections: Iterable[Rejection],
    options: SolveOptions,
    *,
    lower_bound: float = 0.0,
    unfinished: Iterable[Pod] = (),
    order: Mapping[int, Sequence[Guest]] | None = None,
) -> Plan:
    """Return the plan that the board holds.

    Args:
        board: The board.
        rejections: Who found no place.
        options: How it was decided.
        lower_bound: No set of nodes that holds the same pods costs less.
        unfinished: Pods that the deadline left untried.
        order: Where the pods of a class go, the oldest first, by the index of the class; elsewhere any order does.
    """
    handed: dict[int, int] = {}
    existing: dict[str, tuple[Pod, ...]] = {}
    new_nodes: list[NewNode] = []
    relaxed: dict[tuple[int, tuple[str, ...]], list[Pod]] = {}
    # Nearly all nodes have the same DaemonSets.
    overheads: dict[tuple[int, ...], Resources] = {}
    slack = _slack(board)
    lent: dict[str, int] = {}
    ordered = _in_turn(order or {})
    for host in board.hosts:
        if not host.contents:
            continue
        pods = _hand_out(host, handed, ordered, relaxed)
        if host.node is not None:
            existing[host.node.name] = pods
        else:
            node = _new_node(board, host, pods, options, overheads, slack)
            spare = _spare_reservations(board, host, node, lent, slack.get(node.pool, EMPTY))
            new_nodes.append(replace(node, usable=node.usable | spare))
    new_nodes.sort(key=lambda node: (node.pool, pod_name(node.pods[0])))
    return Plan(
        existing=dict(sorted(existing.items())),
        new_nodes=tuple(new_nodes),
        rejections=tuple(sorted(rejections, key=lambda each: pod_name(each.pods[0]))),
        price_per_hour=math.fsum(node.price_per_hour for node in new_nodes),
        lower_bound_per_hour=lower_bound,
        relaxed=tuple(Relaxation(_sorted(pods), wishes) for (_, wishes), pods in sorted(relaxed.items())),
        unfinished=_sorted(unfinished),
    )


def _in_turn(order: Mapping[int, Sequence[Guest]]) -> dict[Guest, list[Pod]]:
    """Give the pods of each class to their places: the older a pod, the earlier its place opens."""
    found: dict[Guest, list[Pod]] = {}
    for guests in order.values():
        for guest, pod in zip(guests, guests[0][0].pods.pods, strict=False):
            found.setdefault(guest, []).append(pod)
    return found


def _hand_out(
    host: Host,
    handed: dict[int, int],
    ordered: Mapping[Guest, list[Pod]],
    relaxed: dict[tuple[int, tuple[str, ...]], list[Pod]],
) -> tuple[Pod, ...]:
    """Give each class's next pods to the host; the oldest pods were placed first."""
    pods: list[Pod] = []
    for stance, number in host.contents.items():
        start = handed.get(stance.pods.index, 0)
        taken = ordered.get((stance, host)) or stance.pods.pods[start : start + number]
        handed[stance.pods.index] = start + number
        pods += taken
        if stance.profile.given_up:
            relaxed.setdefault((stance.pods.index, stance.profile.given_up), []).extend(taken)
    return _sorted(pods)


def _sorted(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)))


def _new_node(
    board: Board,
    host: Host,
    pods: tuple[Pod, ...],
    options: SolveOptions,
    overheads: dict[tuple[int, ...], Resources],
    slack: Mapping[str, Mapping[str, int]],
) -> NewNode:
    template = host.template
    assert template is not None
    position = lowest_bit(host.mask)
    overhead = template.overhead_at(position)
    daemons = overheads.get(overhead)
    if daemons is None:
        daemons = overheads[overhead] = _amounts(board, overhead)
    return NewNode(
        pool=template.pool.name,
        labels=template.labels,
        catalogue=template.catalogue,
        usable=_usable(host, template, options, slack.get(template.pool.name, EMPTY)),
        pods=pods,
        requests=_amounts(board, tuple(map(int.__add__, host.used, overhead))),
        daemon_overhead=daemons,
        pool_requirements=template.pool.requirements,
        min_values_relaxed=not board.has_min_values(template, host.mask),
    )


def _slack(board: Board) -> dict[str, dict[str, int]]:
    """Return how much larger than planned each new node of a pool may turn out, so that all of them may.

    What the plan leaves of the limits is shared equally: a limit holds whichever offerings are bought in the end, and a
    pool far from its limits keeps every alternative.
    """
    bought: dict[str, int] = {}
    templates: dict[str, Template] = {}
    for host in board.hosts:
        if host.template is not None and host.contents:
            name = host.template.pool.name
            bought[name] = bought.get(name, 0) + 1
            templates[name] = host.template
    return {
        name: {
            resource: max(left, 0) // bought[name]
            for resource, left in board.left_of_limits(template).items()
        }
        for name, template in templates.items()
    }


def _usable(host: Host, template: Template, options: SolveOptions, slack: Mapping[str, int]) -> int:
    """Return the offerings that the node may be bought as: holding the pods, within limits and not much dearer.

    A NodeClaim names types, zones and capacity types apart from each other, so every combination of those named
    must do; where that fails, the choice of capacity type and then of zone is given up.
    """
    catalogue = template.catalogue
    mask = template.as_small_as_cheapest(host.mask, slack)
    if not template.min_values:
        cheapest = catalogue.prices[lowest_bit(mask)]
        mask &= catalogue.no_dearer_than(cheapest * (1 + options.alternatives_margin))
    if not _may_be_uneven(host, template):
        return mask
    chosen = catalogue.offerings[lowest_bit(mask)]
    for key, value in ((CAPACITY_TYPE, chosen.capacity_type), (ZONE, chosen.zone)):
        if not template.combinations(mask, template.listed | mask) & ~host.mask:
            break
        mask &= catalogue.values(key)[value]
    return mask


def _spare_reservations(
    board: Board, host: Host, node: NewNode, lent: dict[str, int], slack: Mapping[str, int]
) -> int:
    """Return the offerings of reservations on which a node in a reservation may draw instead, as no other node does.

    They are paid for already, so the launch takes whichever is best then: the choice of the plan stays the first.

    Args:
        board: The board.
        host: The node.
        node: The same in the plan.
        lent: How many nodes each reservation was named for so far, beyond those that the board has draw on it.
        slack: How much larger than planned the node may turn out within the limits, by resource.
    """
    template = host.template
    assert template is not None
    found = 0
    if not any(mask & node.usable for mask in template.reserved.values()):
        return found
    after = ~((1 << lowest_bit(node.usable)) - 1)
    affordable = template.as_small_as_cheapest(node.usable | template.mask & after, slack)
    for reservation, mask in template.reserved.items():
        left = board.left_of_reservation(reservation, template) - lent.get(reservation, 0)
        if left > 0 and not mask & node.usable:
            spare = board.within_reach(host, template, mask & after & affordable)
            if spare:
                lent[reservation] = lent.get(reservation, 0) + 1
                found |= spare
    return found


def _may_be_uneven(host: Host, template: Template) -> bool:
    """Tell whether the offerings left may be other than all combinations of some types, zones and capacity types."""
    return len(template.overheads) > 1 or any(
        len(stance.profile.alternatives) > 1 or len(stance.pods.volumes.alternatives) > 1 or stance.ambiguous
        for stance in host.contents
    )


def _amounts(board: Board, vector: tuple[int, ...]) -> Resources:
    return Resources(dict(zip(board.resources, vector, strict=True)))
