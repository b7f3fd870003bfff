# SPDX-License-Identifier: Apache-2.0
"""What every way of finding nodes to take gives back, and the stands that they try things on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from karpenter.api.base import EMPTY
from karpenter.consolidation.ground import Ground, Site
from karpenter.consolidation.launches import price_of
from karpenter.consolidation.stand import Stand, Trial, prepare
from karpenter.consolidation.types import Rearrangement, Reason, Stage, Verdict
from karpenter.scheduling import NewNode

__all__ = ["Finding", "stage_of", "stand_for"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one way of looking found: stages, or none, why the nodes it looked at stay, and what is left for later."""

    reason: Reason
    stages: tuple[Stage, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default=EMPTY)
    plan: Rearrangement | None = None


def stage_of(trial: Trial, sites: Iterable[Site], launch: tuple[NewNode, ...]) -> Stage:
    """Return the stage that carries out a trial with what is really bought; unknown prices count as 0."""
    before = sum(site.price or 0.0 for site in sites)
    return Stage(
        remove=trial.remove,
        launch=launch,
        moves=trial.moves,
        saving_per_hour=before - price_of(launch),
        evictions=len(trial.moves),
    )


def stand_for(ground: Ground, closed: Iterable[str], *, for_money: bool) -> Stand:
    """Return the cluster to try things on; static pools buy nothing for pods.

    Args:
        ground: What is known.
        closed: Nodes that take no moved pods, beside those that are not ready.
        for_money: Whether it is all about money: then workloads that swing keep the room of their peak, and nothing is
            bought at a price that is not to be believed.
    """
    situation = ground.situation
    static = {name for name, policy in situation.policies.items() if policy.replicas is not None}
    pools = tuple(pool for pool in ground.snapshot.pools if pool.name not in static)
    snapshot = replace(ground.snapshot, pools=ground.prices.believable(pools) if for_money else pools)
    not_ready = {node.name for node in snapshot.nodes if not node.initialized} | ground.closed
    return prepare(
        snapshot,
        {name: site.pods for name, site in ground.sites.items()},
        not_ready | set(closed),
        (*situation.pending, *situation.virtual),
        situation.memory.ghosts(ground.now) if for_money else {},
        ground.settings.solve,
    )
