# SPDX-License-Identifier: Apache-2.0
"""Empty nodes: all that are quiet and within budget go in one stage, whatever the pool's policy.

As Karpenter: a node is empty if nothing on it has an eviction cost, and stays while pods that wait, or those that
stand for capacity buffers, need it. Room is looked for on other nodes first, so that a buffer holds as few empty nodes
as will do. Static pools keep their nodes. Beyond Karpenter, a workload that swings keeps the room of its recent peak.
"""

from __future__ import annotations

from collections.abc import Collection

from karpenter.consolidation.ground import Ground, Site
from karpenter.consolidation.method import Finding, stage_of
from karpenter.consolidation.stand import Trial, bound, phantoms
from karpenter.consolidation.types import Reason, Verdict, VerdictKind
from karpenter.consolidation.verdicts import held
from karpenter.scheduling import solve
from karpenter.scheduling.plan import pod_name

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
            kind, pod = needed[site.name]
            words = f"it is empty, but {pod} needs its room"
            if kind is VerdictKind.PEAK:
                words = "it is empty, but a workload that swings had more replicas a short while ago"
            refusal = site.says(kind, words, pod=pod)
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


def _needed(ground: Ground) -> dict[str, tuple[VerdictKind, str]]:
    """Return the empty nodes that are needed all the same, each with the first pod that needs it and what it is."""
    situation, options = ground.situation, ground.settings.solve
    here = {pod.metadata.uid for node in ground.snapshot.nodes for pod in node.pods}
    waiting = [pod for pod in (*situation.pending, *situation.virtual) if pod.metadata.uid not in here]
    missing = phantoms(ground.snapshot, situation.memory.ghosts(ground.now))
    free = {site.name for site in ground.sites.values() if site.is_empty}
    needed: dict[str, tuple[VerdictKind, str]] = {}
    snapshot = ground.snapshot
    for kind, asked in ((VerdictKind.BUFFER, waiting), (VerdictKind.PEAK, missing)):
        # Elsewhere first, so that as few empty nodes as will do are held.
        for closed in (frozenset(free), frozenset[str]()):
            here = {pod.metadata.uid for node in snapshot.nodes for pod in node.pods}
            left = [pod for pod in asked if pod.metadata.uid not in here]
            if left and free:
                plan = solve(snapshot.without(closed), left, options)
                snapshot = snapshot.plus(
                    bound(pod, name) for name, pods in plan.existing.items() for pod in pods
                )
                needed |= {
                    name: (kind, pod_name(pods[0])) for name, pods in plan.existing.items() if name in free
                }
        free -= needed.keys()
    return needed
