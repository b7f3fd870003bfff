# SPDX-License-Identifier: Apache-2.0
"""Holds our plan against Go's: who places more pods, who pays less, and what explains it where that is Go.

Where Go places every pod by a plan that keeps the rules, we must place them too, at no higher price. An explanation is
a row of docs/reference/differences.md with a test of its own: it must hold of the very problem that it explains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from karpenter.scheduling import Plan, SolveOptions, solve
from tests.checker import ForeignOptions, PlanLike, check
from tests.e2e.peer.asking import GoAnswer
from tests.e2e.peer.wishes import kept_wishes
from tests.strategies import Problem

__all__ = ["EXPLANATIONS", "Comparison", "Tally", "compare"]

# Prices are sums of floats.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Comparison:
    """One problem, solved twice.

    Attributes:
        problem: The problem.
        ours: Our plan.
        go: Go's answer.
        broken: The rules that Go's plan breaks, in words.
    """

    problem: Problem
    ours: Plan
    go: GoAnswer
    broken: tuple[str, ...] = ()

    @property
    def their_plan(self) -> PlanLike:
        """Go's plan, where it gave one."""
        assert self.go.plan is not None
        return self.go.plan

    @property
    def refused(self) -> int:
        """How many pods we found no place for."""
        return _refused(self.ours)

    @property
    def refused_by_go(self) -> int:
        """How many pods Go found no place for."""
        return _refused(self.their_plan)

    @property
    def binds(self) -> bool:
        """Whether Go placed every pod and kept the rules: then we must do as well."""
        return self.go.plan is not None and not self.broken and not self.refused_by_go

    @property
    def is_worse(self) -> bool:
        """Whether we place fewer pods, or pay more for the same."""
        if self.refused != self.refused_by_go:
            return self.refused > self.refused_by_go
        return self.ours.price_per_hour > self.their_plan.price_per_hour + _ROUNDING

    def explanations(self) -> list[str]:
        """Give the listed kinds of difference that this one is of."""
        return [name for name, explains in EXPLANATIONS.items() if explains(self)]


def compare(problem: Problem, go: GoAnswer) -> Comparison:
    """Solve the problem our way and hold the plans against each other."""
    snapshot = problem.snapshot()
    broken = () if go.plan is None else tuple(check(snapshot, problem.pods, go.plan, ForeignOptions()))
    return Comparison(problem, solve(snapshot, problem.pods), go, broken)


def _refused(plan: PlanLike) -> int:
    return sum(len(each.pods) for each in plan.rejections) + len(plan.unfinished)


def _keeps_more_wishes(each: Comparison) -> bool:
    """Tell whether it is for the sake of wishes that we pay more.

    We keep one that Go does not keep, and would pay no more than Go if wishes did not count.
    """
    snapshot = each.problem.snapshot()
    if not kept_wishes(snapshot, each.ours) - kept_wishes(snapshot, each.their_plan):
        return False
    careless = solve(snapshot, each.problem.pods, SolveOptions(preferences="Ignore"))
    return _refused(careless) == 0 and careless.price_per_hour <= each.their_plan.price_per_hour + _ROUNDING


# By the row of docs/reference/differences.md that states the kind.
EXPLANATIONS: Mapping[str, Callable[[Comparison], bool]] = {"wishes of pods": _keeps_more_wishes}


@dataclass
class Tally:
    """What came out over many problems."""

    placed: Counter[str] = field(default_factory=Counter)
    price: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, str]] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)
    explained: list[tuple[int, str]] = field(default_factory=list)
    unexplained: list[tuple[int, str]] = field(default_factory=list)
    binding: int = 0

    def add(self, seed: int, each: Comparison) -> None:
        """Count one comparison."""
        if each.go.plan is None:
            self.errors.append((seed, each.go.error))
            return
        if each.broken:
            self.broken.append((seed, each.broken[0]))
            return
        more, same = each.refused < each.refused_by_go, each.refused == each.refused_by_go
        self.placed["more" if more else "equal" if same else "fewer"] += 1
        if same:
            gap = each.ours.price_per_hour - each.their_plan.price_per_hour
            self.price["equal" if abs(gap) <= _ROUNDING else "lower" if gap < 0 else "higher"] += 1
        if each.binds:
            self.binding += 1
            if each.is_worse:
                self._explain(seed, each)

    def _explain(self, seed: int, each: Comparison) -> None:
        ours, theirs = each.ours.price_per_hour, each.their_plan.price_per_hour
        said = (
            f"{each.refused} pods without a place, {ours:.6g} $/h; Go {each.refused_by_go}, {theirs:.6g} $/h"
        )
        reasons = each.explanations()
        (self.explained if reasons else self.unexplained).append((seed, "; ".join([said, *reasons])))

    def lines(self) -> Iterator[str]:
        """Give the table and what is to be told of single problems."""
        yield f"valid plans of Go: {sum(self.placed.values())}, with every pod placed: {self.binding}"
        for title, counts, words in (
            ("pods placed by us", self.placed, ("more", "equal", "fewer")),
            ("our price where as many are placed", self.price, ("lower", "equal", "higher")),
        ):
            yield f"{title}: " + ", ".join(f"{word} {counts[word]}" for word in words)
        for title, found in (
            ("plans of Go that break a rule", self.broken),
            ("problems that Go failed on", self.errors),
            ("worse, and explained", self.explained),
            ("worse, and not explained", self.unexplained),
        ):
            yield f"{title}: {len(found)}"
            yield from (f"  seed {seed}: {said}" for seed, said in found)
