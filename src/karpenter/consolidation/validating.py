# SPDX-License-Identifier: Apache-2.0
"""Whether a stage may still be carried out: asked again after the wait, and before the delete.

Everything is looked at anew: that its nodes may go (else it is churn), that the budgets allow it, its own nodes left
out of what uses them up, and that the solver still finds every pod a place in the same shape: what needed no
replacement needs none, no more is bought than was planned, and it still pays. What comes back is the stage as it is
now; of an empty stage the nodes that are still empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from karpenter.consolidation.drift import drift_stands, exchange, place_drifted
from karpenter.consolidation.emptiness import find_empty
from karpenter.consolidation.ground import Ground, Site
from karpenter.consolidation.method import stage_of
from karpenter.consolidation.rearranging import placed
from karpenter.consolidation.stand import Stand, Trial
from karpenter.consolidation.types import (
    Move,
    Reason,
    Refusal,
    RefusalKind,
    Situation,
    Stage,
    Verdict,
    VerdictKind,
)
from karpenter.consolidation.underuse import Judge, ineligible, quiet_stand
from karpenter.consolidation.verdicts import held
from karpenter.model.snapshot import Snapshot

__all__ = ["validate"]


def validate(
    stage: Stage,
    reason: Reason,
    snapshot: Snapshot,
    situation: Situation,
    now: float,
    launched: Collection[str] = (),
) -> Stage | Refusal:
    """Say whether a stage may still be carried out.

    Args:
        stage: The stage.
        reason: The reason of its command.
        snapshot: The cluster now. The stage's own nodes are still in it, without the taint that marks them.
        situation: Everything beside it now; the stage's own nodes may be leaving.
        now: The moment, in seconds since 1970.
        launched: Names of the nodes that were bought for the stage. Once they are there nothing more is bought.
    """
    if launched:
        stage = replace(stage, launch=(), moves=_by_name(stage.moves, tuple(launched)))
    ground = Ground(snapshot, situation, now, stage.remove)
    if reason is Reason.EMPTY:
        return _still_empty(ground, stage)
    sites = []
    for name in stage.remove:
        if name not in ground.sites:
            barred = ground.barred.get(name)
            return Refusal("churn", barred.words if barred is not None else f"{name} is gone")
        sites.append(ground.sites[name])
    over = _over_budget(ground, sites, reason)
    if over is not None:
        return over
    if reason is Reason.UNDERUTILIZED:
        found = _underused(ground, sites, stage, launched)
    else:
        found = _replaced(ground, sites, stage)
    if isinstance(found, Stage) and len(found.launch) > len(stage.launch):
        words = f"{len(found.launch)} nodes would have to be bought instead of {len(stage.launch)}"
        return Refusal("scheduling", words)
    return found


def _by_name(moves: Iterable[Move], launched: Sequence[str]) -> tuple[Move, ...]:
    """Return moves to what was bought as moves to nodes that stand."""
    return tuple(
        replace(move, target=launched[move.launch], launch=-1) if 0 <= move.launch < len(launched) else move
        for move in moves
    )


def _still_empty(ground: Ground, stage: Stage) -> Stage | Refusal:
    finding = find_empty(ground, frozenset(stage.remove))
    if finding.stages:
        return finding.stages[0]
    verdicts = [finding.verdicts[name] for name in stage.remove if name in finding.verdicts]
    if any(each.kind is VerdictKind.BUDGET for each in verdicts):
        return _refusal(verdicts[0], "budget")
    barred = [ground.barred[name] for name in stage.remove if name in ground.barred]
    first = next(iter((*verdicts, *barred)), None)
    return Refusal("churn", first.words if first is not None else "none of its nodes is empty any more")


def _over_budget(ground: Ground, sites: list[Site], reason: Reason) -> Refusal | None:
    for site in sites:
        if not ground.quota.has_room(site.pool, reason):
            return _refusal(ground.budget_verdict(site, reason), "budget")
        ground.quota.take(site.pool)
    return None


def _underused(ground: Ground, sites: list[Site], stage: Stage, launched: Collection[str]) -> Stage | Refusal:
    for site in sites:
        refusal = ineligible(ground, site)
        if refusal is not None:
            return _refusal(refusal, "churn")
    judge = Judge(ground)
    refusals: list[Refusal] = []
    stand = quiet_stand(ground, launched)
    # First where the plan has room for the pods: elsewhere they may stand in the way of what comes next.
    planned = {*launched, *stage.remove, *(move.target for move in stage.moves)}
    others = {node.name for node in stand.snapshot.nodes} - planned
    for each in (stand.closing(others), stand):
        refusals.clear()
        for number, trial in enumerate(_trials(each, stage)):
            answer = judge.judge(trial, sites, may_buy=bool(stage.launch))
            if isinstance(answer, Stage):
                return answer
            if launched and trial.problem is None and not trial.launch:
                # What was bought for it stands: it paid when it was decided, and to go back would cost more.
                return stage_of(trial, sites, ())
            # That a plan does not hold says less than why there is no other way.
            if number:
                refusals.append(_refusal(answer, "scheduling"))
    return refusals[0]


def _trials(stand: Stand, stage: Stage) -> Iterator[Trial]:
    """Yield the stage as it was planned, and, only if more is asked for, as the solver would have it now."""
    yield stand.attempt_with(stage.remove, stage.launch, stage.moves)
    yield from placed(stand, stage.remove, stage.launch)


def _replaced(ground: Ground, sites: list[Site], stage: Stage) -> Stage | Refusal:
    """Look again at nodes that go whatever it costs."""
    for site in sites:
        if not site.candidate.drifted:
            return Refusal("churn", f"{site.name} has not drifted any more")
        if site.obstacle is not None and site.candidate.termination_grace_period_s is None:
            return _refusal(held(site.name, site.obstacle, site.price), "churn")
    if all(site.is_static for site in sites):
        launch = exchange(ground, sites[0].pool) if stage.launch else None
        if stage.launch and launch is None:
            return Refusal("scheduling", f"NodePool {sites[0].pool} can buy nothing now")
        return stage_of(Trial(stage.remove), sites, (launch,) if launch is not None else ())
    trial = place_drifted(drift_stands(ground), stage.remove)
    if trial.problem is not None:
        return Refusal("scheduling", trial.words)
    return stage_of(trial, sites, trial.launch)


def _refusal(verdict: Verdict, kind: RefusalKind) -> Refusal:
    return Refusal(kind, verdict.words, passes=verdict.kind is VerdictKind.PDB)
