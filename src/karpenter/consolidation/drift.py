# SPDX-License-Identifier: Apache-2.0
"""Nodes that are no longer what their pool asks for: replaced, whatever that costs.

Empty ones go first and all at once, then the one that drifted longest. One that cannot go now does not hold up
younger ones. Its pods are first looked for room on nodes that have not drifted, so that they move once, and on any
node only if that fails. A node of a static pool is exchanged one for one, within ``limits.nodes``, while the pool has
no more nodes than it is to keep.

As Karpenter, pods that may not be disturbed hold a drifted node only if its claim has no terminationGracePeriod.
"""

from __future__ import annotations

from dataclasses import replace

from karpenter.api.core import Pod, PodSpec, Toleration
from karpenter.api.labels import NODEPOOL
from karpenter.api.meta import ObjectMeta
from karpenter.consolidation.ground import Ground, Site
from karpenter.consolidation.method import Finding, stage_of, stand_for
from karpenter.consolidation.stand import Stand, Trial
from karpenter.consolidation.types import Reason, Stage, Verdict, VerdictKind
from karpenter.consolidation.verdicts import held
from karpenter.scheduling import NewNode, solve

__all__ = ["drift_stands", "exchange", "find_drifted", "find_drifted_static", "place_drifted"]


def find_drifted(ground: Ground) -> Finding:
    """Return the stage that replaces the next drifted node, and why other drifted ones stay."""
    verdicts: dict[str, Verdict] = {}
    ready = [site for site in _oldest_first(ground) if not site.is_static and _may_go(site, verdicts)]
    if not ready:
        return Finding(Reason.DRIFTED, (), verdicts)
    stands = drift_stands(ground)
    free = [site for site in ready if site.is_empty and not stands[0].shadows.get(site.name)]
    taken = _within_budget(ground, free, verdicts)
    if taken:
        for site in taken:
            verdicts[site.name] = _goes(site, "it is empty")
        stage = stage_of(Trial(tuple(site.name for site in taken)), taken, ())
        return Finding(Reason.DRIFTED, (stage,), verdicts)
    for site in ready:
        if site in free or not _within_budget(ground, [site], verdicts):
            continue
        trial = place_drifted(stands, (site.name,))
        if trial.problem is None:
            verdicts[site.name] = _goes(site, "its pods have room elsewhere")
            return Finding(Reason.DRIFTED, (stage_of(trial, [site], trial.launch),), verdicts)
        verdicts[site.name] = site.says(trial.problem, f"it has drifted, but {trial.words}")
    return Finding(Reason.DRIFTED, (), verdicts)


def place_drifted(stands: tuple[Stand, Stand], names: tuple[str, ...]) -> Trial:
    """Return where the pods of drifted nodes go, on the second stand only if the first has no place for them."""
    trial = stands[0].attempt(names)
    return trial if trial.problem is None else stands[1].attempt(names)


def drift_stands(ground: Ground) -> tuple[Stand, Stand]:
    """Return the cluster to place pods of drifted nodes on: without room on drifted nodes, and with it."""
    drifted = [site.name for site in ground.sites.values() if site.candidate.drifted]
    return stand_for(ground, drifted, for_money=False), stand_for(ground, (), for_money=False)


def find_drifted_static(ground: Ground) -> Finding:
    """Return stages that exchange drifted nodes of static pools one for one."""
    verdicts: dict[str, Verdict] = {}
    stages: list[Stage] = []
    room: dict[str, int | None] = {}
    for site in _oldest_first(ground):
        if not site.is_static or not _may_go(site, verdicts):
            continue
        if site.pool not in room:
            room[site.pool] = _room(ground, site)
        left = room[site.pool]
        launch = exchange(ground, site.pool)
        if launch is None:
            verdicts[site.name] = site.says(
                VerdictKind.NO_ROOM, f"it has drifted, but NodePool {site.pool} can buy nothing now"
            )
        elif left is not None and left <= 0:
            words = f"it has drifted, but NodePool {site.pool} has no room for its replacement"
            verdicts[site.name] = site.says(VerdictKind.LIMITS, words)
        elif _within_budget(ground, [site], verdicts):
            room[site.pool] = None if left is None else left - 1
            verdicts[site.name] = _goes(site, "its static pool gets another one for it")
            stages.append(stage_of(Trial((site.name,)), [site], (launch,)))
    return Finding(Reason.DRIFTED, tuple(stages), verdicts)


def _room(ground: Ground, site: Site) -> int | None:
    """Return how many nodes a static pool may have for a while above what it keeps; None for as many as it likes."""
    members = [each for each in ground.situation.candidates if each.pool == site.pool and not each.gone]
    if len(members) > (site.policy.replicas or 0):
        return 0
    return None if site.policy.node_limit is None else site.policy.node_limit - len(members)


def exchange(ground: Ground, name: str) -> NewNode | None:
    """Return a node that the pool would buy for nobody in particular; None if it can buy nothing."""
    pools = tuple(pool for pool in ground.snapshot.pools if pool.name == name)
    anybody = Pod(
        metadata=ObjectMeta(name="anybody", namespace="default", uid="anybody"),
        spec=PodSpec(node_selector={NODEPOOL: name}, tolerations=(Toleration(operator="Exists"),)),
    )
    plan = solve(replace(ground.snapshot, pools=pools, nodes=()), [anybody], ground.settings.solve)
    return replace(plan.new_nodes[0], pods=()) if plan.new_nodes else None


def _oldest_first(ground: Ground) -> list[Site]:
    drifted = [site for site in ground.sites.values() if site.candidate.drifted]
    return sorted(drifted, key=lambda site: (site.candidate.drifted_at or 0.0, site.name))


def _may_go(site: Site, verdicts: dict[str, Verdict]) -> bool:
    """Tell whether nothing but budgets and room holds a drifted node."""
    if site.obstacle is not None and site.candidate.termination_grace_period_s is None:
        verdicts[site.name] = held(site.name, site.obstacle, site.price)
        return False
    return True


def _within_budget(ground: Ground, sites: list[Site], verdicts: dict[str, Verdict]) -> list[Site]:
    """Return as many of the nodes as may go now, and take them from the budgets."""
    taken = []
    for site in sites:
        if ground.quota.has_room(site.pool, Reason.DRIFTED):
            ground.quota.take(site.pool)
            taken.append(site)
        else:
            verdicts[site.name] = ground.budget_verdict(site, Reason.DRIFTED)
    return taken


def _goes(site: Site, words: str) -> Verdict:
    return site.says(VerdictKind.GOES, f"it has drifted ({site.candidate.drifted}) and {words}")
