# SPDX-License-Identifier: Apache-2.0
"""Empty nodes: all that are quiet and within budget go in one stage, whatever the pool's policy.

As Karpenter: a node is empty if nothing on it has an eviction cost, and stays while pods that wait, or those that
stand for capacity buffers, need it. Room is looked for on other nodes first, so that a buffer holds as few empty nodes
as will do. Static pools keep their nodes.
"""

from __future__ import annotations

from collections.abc import Collection

from karpenter.consolidation.ground import Ground, Site
from karpenter.consolidation.method import Finding, stage_of
from karpenter.consolidation.stand import Trial
from karpenter.consolidation.types import Reason, Verdict, VerdictKind
from karpenter.consolidation.verdicts import held
from karpenter.scheduling import solve

__all__ = ["find_empty"]


def find_empty(ground: Ground, asked_about: Collection[str] | None = None) -> Finding:
    """Return the stage that takes the empty nodes, or those asked about, and why other empty ones stay."""
    verdicts: dict[str, Verdict] = {}
    free: list[Site] = []
    needed = _needed(ground)
    for site in ground.sites.values():
        if not site.is_empty or site.is_static or (asked_about is not None and site.name not in asked_about):
            continue
        refusal = ground.unquiet_verdict(site)
        if refusal is None and site.obstacle is not None:
            refusal = held(site.name, site.obstacle, site.price)
        if refusal is None and site.name in needed:
            words = f"it is empty, but {needed[site.name]} needs its room"
            refusal = site.says(VerdictKind.BUFFER, words, pod=needed[site.name])
        if refusal is None and not ground.quota.has_room(site.pool, Reason.EMPTY):
            refusal = ground.budget_verdict(site, Reason.EMPTY)
        if refusal is None:
            ground.quota.take(site.pool)
            free.append(site)
        else:
            verdicts[site.name] = refusal
    if not free:
        return Finding(Reason.EMPTY, (), verdicts)
    for site in free:
        verdicts[site.name] = site.says(VerdictKind.GOES, "it is empty")
    stage = stage_of(Trial(tuple(site.name for site in free)), free, ())
    return Finding(Reason.EMPTY, (stage,), verdicts)


def _needed(ground: Ground) -> dict[str, str]:
    """Return the empty nodes that pods without a place need, each with the first of those pods."""
    situation = ground.situation
    here = {pod.metadata.uid for node in ground.snapshot.nodes for pod in node.pods}
    waiting = [pod for pod in (*situation.pending, *situation.virtual) if pod.metadata.uid not in here]
    empty = [site.name for site in ground.sites.values() if site.is_empty]
    if not waiting or not empty:
        return {}
    options = ground.settings.solve
    elsewhere = solve(ground.snapshot.without(empty), waiting, options)
    placed = {pod.metadata.uid for pods in elsewhere.existing.values() for pod in pods}
    plan = solve(ground.snapshot, [pod for pod in waiting if pod.metadata.uid not in placed], options)
    needed = {}
    for name, pods in plan.existing.items():
        first = pods[0].metadata
        needed[name] = f"{first.namespace}/{first.name}"
    return needed
