# SPDX-License-Identifier: Apache-2.0
"""Explains, for one board, why classes of pods got no place.

What is wrong with the pod itself comes first and is blamed on nobody else: a volume that cannot be had, conditions that
contradict each other. Then every pool is asked for its smallest excluding set, and equal answers are put together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from karpenter.errors import KarpenterError
from karpenter.scheduling.board import Board
from karpenter.scheduling.explanation.aftermath import Aftermath
from karpenter.scheduling.explanation.contradictions import contradiction_candidates, find_contradiction
from karpenter.scheduling.explanation.description import Describer
from karpenter.scheduling.explanation.fixes import Trial, find_fixes, try_out
from karpenter.scheduling.explanation.nearest import describe_nearest
from karpenter.scheduling.explanation.obstacles import PoolLayout, Surveyor, widened_templates
from karpenter.scheduling.explanation.proposals import Proposer
from karpenter.scheduling.explanation.search import Miss, nearest_miss, smallest_excluding
from karpenter.scheduling.explanation.spelling import Speller
from karpenter.scheduling.explanation.standing import why_not_standing
from karpenter.scheduling.reasons import Cause, Constraint, Explanation, Fix, Reason
from karpenter.scheduling.stances import Stance
from karpenter.scheduling.templates import Template, compile_daemons

__all__ = ["Explainer", "unreadable"]

# Fixes are tried for so many classes of one solve; more people do not read at once, and each costs milliseconds.
_MOST_FIXED = 100
# Around more nodes than this, fixes for pods with rules about other pods are not tried.
_MOST_HOSTS = 1000


def unreadable(trouble: Exception) -> Explanation:
    """Return the explanation of a pod that could not even be read."""
    hint = trouble.hint if isinstance(trouble, KarpenterError) else ""
    return Explanation((Reason((Constraint(Cause.UNREADABLE, "pod", str(trouble), hint=hint),)),))


class Explainer:
    """Explains refusals on one board, as it stands when it is asked."""

    def __init__(self, board: Board, trial: Trial) -> None:
        self._board = board
        self._trial = trial
        self._aftermath = Aftermath(board)
        self._fixed = 0
        daemons = compile_daemons(board.snapshot.daemons)
        self._templates: dict[str, list[Template]] = {}
        for template in widened_templates(board.templates, daemons):
            self._templates.setdefault(template.pool.name, []).append(template)
        # Widened templates have lost what their pools ask of the instance type.
        self._pools = {template.pool.name: template.pool for template in board.templates}
        self._speller = Speller(
            self._pools, (each.key for pool in self._pools.values() for each in pool.requirements)
        )

    def explain(self, stance: Stance) -> Explanation:
        """Return why pods of a class, having given up every wish, got no place."""
        pods = stance.pods
        if pods.volumes.problems:
            return Explanation(
                tuple(
                    Reason((Constraint(Cause.VOLUME, each.name, str(each), hint=each.hint),))
                    for each in pods.volumes.problems
                )
            )
        contradiction = find_contradiction(stance)
        if contradiction:
            return self._contradictory(stance, contradiction)
        standing = why_not_standing(self._board, stance)
        if not self._pools:
            return Explanation((Reason((Constraint(Cause.NO_POOLS),)),), standing=standing)
        surveyor = Surveyor(self._board, stance)
        layouts = [surveyor.lay_out(pool, self._templates[name]) for name, pool in self._pools.items()]
        describer = Describer(self._board, stance, self._speller)
        misses = [nearest_miss(each, within_pool=True) for each in layouts]
        best = min((miss for miss in misses if miss is not None), key=Miss.rank, default=None)
        return Explanation(
            reasons=_grouped(describer, zip(layouts, misses, strict=True)),
            pools=len(self._pools),
            standing=standing,
            nearest=describe_nearest(describer, best) if best is not None and best.failed else None,
            fixes=self._fixes(describer, layouts, misses),
        )

    def _contradictory(self, stance: Stance, conditions: tuple[Constraint, ...]) -> Explanation:
        fixes: tuple[Fix, ...] = ()
        if self._may_fix(stance):
            pod = stance.pods.pods[0]
            candidates = contradiction_candidates(pod, conditions[0].subject)
            fixes = try_out(candidates, self._aftermath.around(stance), pod, self._trial)
        return Explanation((Reason(conditions),), pools=len(self._pools), fixes=fixes)

    def _fixes(
        self, describer: Describer, layouts: list[PoolLayout], misses: list[Miss | None]
    ) -> tuple[Fix, ...]:
        stance = describer.stance
        needs_none = any(not each.excludes(each.all) for each in layouts)
        if needs_none or not self._may_fix(stance):
            return ()
        pod = stance.pods.pods[0]
        nearest_first = sorted(range(len(layouts)), key=lambda index: _rank(misses[index]))
        return find_fixes(
            [layouts[index] for index in nearest_first],
            Proposer(describer, pod),
            self._aftermath.around(stance),
            pod,
            self._trial,
        )

    def _may_fix(self, stance: Stance) -> bool:
        """Tell whether fixes are looked for, and count it."""
        depends_on_others = bool(stance.near or stance.caps or stance.places or stance.counted)
        if self._fixed == _MOST_FIXED or (depends_on_others and len(self._board.hosts) > _MOST_HOSTS):
            return False
        self._fixed += 1
        return True


def _rank(miss: Miss | None) -> tuple[float, tuple[int, ...], float, float]:
    """Order pools by their nearest offering; those of which none is near come last."""
    return (math.inf, (), 0.0, 0.0) if miss is None else miss.rank()


def _nearness(layout: PoolLayout, miss: Miss | None) -> tuple[float, tuple[int, ...], float, float]:
    """Order pools as `_rank` does; one whose own requirements leave nothing is as near as it would be without them."""
    return _rank(nearest_miss(layout, within_pool=False) if miss is None else miss)


def _constraints(describer: Describer, layout: PoolLayout) -> tuple[Constraint, ...]:
    kept = smallest_excluding(layout)
    if kept is None:
        return (Constraint(Cause.UNDECIDED),)
    # Where nothing needs to be kept, there was nothing in the first place.
    return describer.describe(layout, kept) if kept else (Constraint(Cause.NO_TYPES),)


def _grouped(describer: Describer, asked: Iterable[tuple[PoolLayout, Miss | None]]) -> tuple[Reason, ...]:
    """Return the reasons of all pools, equal ones together, the nearest first."""
    found: dict[tuple[Constraint, ...], list[tuple[PoolLayout, Miss | None]]] = {}
    for layout, miss in asked:
        constraints = _constraints(describer, layout)
        found.setdefault(constraints, []).append((layout, miss))
    ordered = sorted(found.items(), key=lambda each: min(_nearness(*asked) for asked in each[1]))
    return tuple(
        Reason(
            constraints,
            tuple(layout.pool.name for layout, _ in alike),
            min(
                len(layout.obstacles) if miss is None else max(1, len(miss.failed)) for layout, miss in alike
            ),
        )
        for constraints, alike in ordered
    )
