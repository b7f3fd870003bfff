# SPDX-License-Identifier: Apache-2.0
"""Turns what the search finds into trials that the solver agrees with, and those into parts that stand alone.

Steps are taken from the front as long as budgets allow. All of them are put to the solver at once, each pod where the
search has room for it: elsewhere it would stand in the way of what comes next. Where the solver does not agree it may
place the pods as it likes, and then those whose pods have no place are left out and it is asked again, so that a
disagreement costs a few solves and not one for each node.

What budgets leave for later rounds is kept as a plan. A new search would begin with a cluster in which half of the
plan has been carried out, and seldom finds the other half again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from karpenter.consolidation.budgets import Quota
from karpenter.consolidation.ground import Ground, Site
from karpenter.consolidation.launches import price_of
from karpenter.consolidation.payback import Scales, minimum_saving
from karpenter.consolidation.search import search
from karpenter.consolidation.stand import Stand, Trial, numbered_anew, together
from karpenter.consolidation.types import Rearrangement, Reason, Removable, World
from karpenter.scheduling import NewNode

__all__ = ["Rearranged", "chunks_of", "parts_of", "placed", "rearranged", "still_planned", "world_of"]

_HOUR_S = 3600.0
# Disagreements beyond this are left for later: nodes are tried one by one too.
_MOST_DISAGREEMENTS = 6


@dataclass(frozen=True, slots=True)
class Rearranged:
    """What is found for the whole cluster, as far as it can be done now.

    Attributes:
        parts: Trials that the solver agrees with and that stand alone.
        plan: All of it, if something is left for the rounds that follow; otherwise None. Without parts it waits for
            what was bought to get a name.
        whole_gain: What all of it gains per hour, moving the pods paid for, if something is left for later; otherwise
            nothing.
        asked: How many nodes budgets would have let go now.
    """

    parts: list[Trial]
    plan: Rearrangement | None = None
    whole_gain: float = 0.0
    asked: int = 0


def rearranged(
    ground: Ground, quota: Quota, stand: Stand, eligible: list[Site], plan: Rearrangement | None = None
) -> Rearranged:
    """Return what can be done now of a plan, or without one of what a search of the whole cluster finds."""
    world = world_of(ground, quota, stand, eligible)
    found = search(world) if plan is None else still_planned(plan, ground)
    waiting = {move.source for move in found.moves if move.launch < 0 and not move.target}
    steps = _within_budgets(ground, quota, found, world.removable.keys() - waiting)
    trial = _agreed(stand, found, steps)
    parts = [] if trial is None else parts_of(trial)
    if (trial is None and not waiting) or (trial is not None and len(trial.remove) == len(found.remove)):
        return Rearranged(parts)
    known = [world.removable[name].cost for name in found.remove if name in world.removable]
    # Nodes that may not go just now cost what the others do.
    moving = sum(known) * len(found.remove) / max(1, len(known))
    return Rearranged(parts, found, found.saving_per_hour - moving, sum(map(len, steps)))


def still_planned(plan: Rearrangement, ground: Ground) -> Rearrangement:
    """Return what is left of a plan: nodes that stand, with no pods but those that it has room for.

    Pods that follow others to what was bought for these go to it by its name. Until it has one they wait.
    """
    planned = {move.uid for move in plan.moves}
    left = [
        name
        for name in plan.remove
        if name in ground.sites and all(pod.metadata.uid in planned for pod in ground.sites[name].pods)
    ]
    staying = frozenset(left)
    known = ground.situation.bought
    bought = {
        move.launch: known[move.uid]
        for move in plan.moves
        if move.source not in staying and move.launch >= 0 and move.uid in known
    }
    moves = [move for move in plan.moves if move.source in staying]
    again = numbered_anew(move.launch for move in moves if move.launch not in bought)
    launch = tuple(plan.launch[number] for number in again)
    return Rearrangement(
        remove=tuple(left),
        launch=launch,
        moves=tuple(
            replace(move, target=bought.get(move.launch, move.target), launch=again.get(move.launch, -1))
            for move in moves
        ),
        saving_per_hour=sum(ground.sites[name].price or 0.0 for name in left) - price_of(launch),
        steps=tuple(size for step in plan.by_step() if (size := sum(name in staying for name in step))),
    )


def world_of(ground: Ground, quota: Quota, stand: Stand, eligible: list[Site]) -> World:
    """Return what the search looks at."""
    settings, memory = ground.settings, ground.situation.memory
    horizons = {site.pool: memory.horizon_h(site.pool, settings) for site in eligible}
    left = {site.pool: quota.left(site.pool, Reason.UNDERUTILIZED) for site in eligible}
    scales = Scales(ground)
    return World(
        snapshot=replace(ground.snapshot, pools=stand.snapshot.pools),
        removable={
            site.name: Removable(
                site.name,
                site.pool,
                site.price or 0.0,
                scales.cost(site),
                minimum_saving(site, ground),
            )
            for site in eligible
        },
        receivers=frozenset(node.name for node in stand.snapshot.nodes if node.allocatable),
        waiting=tuple(pod for pod in stand.guests() if pod.metadata.uid not in stand.ghosts),
        ghosts=tuple(pod for pod in stand.guests() if pod.metadata.uid in stand.ghosts),
        overlap_h=(settings.boot_s + settings.drain_s) / _HOUR_S,
        horizon_h=min(horizons.values()),
        most_removed={pool: number for pool, number in left.items() if number is not None},
        tries=settings.tries,
        stop=settings.stop,
        seed=settings.seed,
    )


def _within_budgets(
    ground: Ground, quota: Quota, found: Rearrangement, eligible: Collection[str]
) -> list[tuple[str, ...]]:
    """Return the first steps, each as the nodes that go in it, that budgets allow together."""
    steps: list[tuple[str, ...]] = []
    used: dict[str, int] = {}
    for names in found.by_step():
        wanted = dict(used)
        for name in names:
            pool = ground.sites[name].pool
            wanted[pool] = wanted.get(pool, 0) + 1
        left = {pool: quota.left(pool, Reason.UNDERUTILIZED) for pool in wanted}
        is_allowed = all(left[pool] is None or number <= (left[pool] or 0) for pool, number in wanted.items())
        if is_allowed and all(name in eligible for name in names):
            used = wanted
            steps.append(names)
    return steps


def _agreed(stand: Stand, found: Rearrangement, steps: list[tuple[str, ...]]) -> Trial | None:
    """Return the steps with which the solver agrees, at once; None if there are none.

    Nodes that are to go in a later round take no pods: who moved there would have to move again.
    """
    stand = stand.closing(frozenset(found.remove).difference(*steps))
    for _ in range(_MOST_DISAGREEMENTS):
        if not steps:
            return None
        names = tuple(name for step in steps for name in step)
        gone = frozenset(names)
        going = [move for move in found.moves if move.source in gone]
        again = numbered_anew(move.launch for move in going)
        shared = {move.launch for move in found.moves if move.source not in gone}
        launch = [replace(found.launch[number], has_followers=number in shared) for number in again]
        moves = [replace(move, launch=again.get(move.launch, -1)) for move in going]
        planned = stand.attempt_with(names, launch, moves)
        if planned.problem is None:
            return planned
        trial, other = placed(stand, names, launch)
        if trial.problem is None:
            return trial
        # Whoever has no place stays at home; half of the steps at least, or it would take for ever.
        blamed = trial.blamed & other.blamed or trial.blamed | other.blamed
        willing = [step for step in steps if not blamed.intersection(step)]
        steps = willing if 0 < len(willing) < len(steps) else steps[: len(steps) // 2]
    return None


def placed(stand: Stand, names: tuple[str, ...], launch: Sequence[NewNode]) -> list[Trial]:
    """Return what the solver would buy for the pods of some nodes, and what is named: what can be first, then cheap."""
    trials = [stand.attempt(names), stand.attempt_with(names, launch)]
    return sorted(trials, key=lambda trial: (trial.problem is not None, price_of(trial.launch)))


def parts_of(trial: Trial) -> list[Trial]:
    """Return a trial as parts that can be carried out without each other, those without launches first.

    Nodes whose pods share a launch go together; any other node goes alone. Room that one part leaves is never needed
    by another, for all of them were placed at once.
    """
    leaders = {name: name for name in trial.remove}

    def root(name: str) -> str:
        while leaders[name] != name:
            name = leaders[name]
        return name

    first: dict[int, str] = {}
    for each in trial.placed:
        if each.launch >= 0:
            known = first.setdefault(each.launch, each.source)
            leaders[root(each.source)] = root(known)
    groups: dict[str, list[str]] = {}
    for name in trial.remove:
        groups.setdefault(root(name), []).append(name)
    parts = [_part(trial, frozenset(names)) for names in groups.values()]
    return sorted(parts, key=lambda part: bool(part.launch))


def chunks_of(parts: list[Trial], most: int) -> list[Trial]:
    """Return parts put together so that there are at most so many, in order."""
    size = max(1, -(-len(parts) // max(1, most)))
    groups = [parts[start : start + size] for start in range(0, len(parts), size)]
    return [together(group) for group in groups[:most]]


def _part(trial: Trial, names: frozenset[str]) -> Trial:
    own = [each for each in trial.placed if each.source in names]
    again = numbered_anew(each.launch for each in own)
    return Trial(
        remove=tuple(name for name in trial.remove if name in names),
        launch=tuple(trial.launch[number] for number in again),
        placed=tuple(replace(each, launch=again.get(each.launch, -1)) for each in own),
    )
