# SPDX-License-Identifier: Apache-2.0
"""Holds our plan against Go's: who places more pods, who pays less, and what explains it where that is Go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from karpenter.scheduling import Plan, solve
from tests.checker import ForeignOptions, check
from tests.e2e.peer.asking import GoAnswer
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
    def rejected(self) -> int:
        """How many pods we found no place for."""
        return sum(len(each.pods) for each in self.ours.rejections) + len(self.ours.unfinished)

    @property
    def is_comparable(self) -> bool:
        """Whether Go gave a plan that keeps the rules."""
        return self.go.plan is not None and not self.broken

    @property
    def fewer(self) -> bool:
        """Whether Go places more pods than we do."""
        return self.rejected > self.go.rejected

    @property
    def dearer(self) -> bool:
        """Whether we pay more for the same pods: where both refuse some, these must be the same."""
        assert self.go.plan is not None
        return (
            self._refused_by_us() == self._refused_by_go()
            and self.ours.price_per_hour > self.go.plan.price_per_hour + _ROUNDING
        )

    def _refused_by_us(self) -> set[tuple[str, str]]:
        return {
            (pod.metadata.namespace, pod.metadata.name)
            for rejection in self.ours.rejections
            for pod in rejection.pods
        }

    def _refused_by_go(self) -> set[tuple[str, str]]:
        assert self.go.plan is not None
        return {
            (pod.metadata.namespace, pod.metadata.name)
            for refusal in self.go.plan.rejections
            for pod in refusal.pods
        }

    def explanations(self) -> list[str]:
        """Give the listed kinds of difference that this one is of."""
        return [name for name, explains in EXPLANATIONS.items() if explains(self)]


def compare(problem: Problem, go: GoAnswer) -> Comparison:
    """Solve the problem our way and hold the plans against each other."""
    snapshot = problem.snapshot()
    broken = () if go.plan is None else tuple(check(snapshot, problem.pods, go.plan, ForeignOptions()))
    return Comparison(problem, solve(snapshot, problem.pods), go, broken)


EXPLANATIONS: Mapping[str, Callable[[Comparison], bool]] = {}


@dataclass
class Tally:
    """What came out over many problems."""

    counts: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    broken: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, each: Comparison) -> None:
        """Count one comparison."""
        raise NotImplementedError
