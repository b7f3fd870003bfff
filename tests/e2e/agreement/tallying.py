# SPDX-License-Identifier: Apache-2.0
"""Many cases one after the other, and what came of them in figures and in words.

Cases do not share the control plane in time: spread and affinity see every node there is, so that two cases side by
side would be another problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from karpenter.scheduling import solve
from tests.e2e.agreement.client import Api
from tests.e2e.agreement.nominating import Nominating
from tests.e2e.agreement.running import Outcome, run_case
from tests.e2e.agreement.translation import translate
from tests.strategies import Problem

__all__ = ["Tally", "agree"]


@dataclass
class Tally:
    """The outcomes of many cases that were nominated in the same way."""

    how: Nominating
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def stranded(self) -> list[str]:
        """Each planned pod that stayed pending, where it should have gone, and the scheduler's words."""
        return [
            f"{'/'.join(key)}, planned for {outcome.case.planned[key]}: {words}"
            for outcome in self.outcomes
            for key, words in outcome.stranded.items()
        ]

    @property
    def displaced(self) -> list[str]:
        """Each planned pod whose place is gone, since others went elsewhere than planned."""
        return [
            f"{'/'.join(key)}, planned for {outcome.case.planned[key]}, lost its place: {outcome.pending.get(key)}"
            for outcome in self.outcomes
            for key in sorted(outcome.displaced)
        ]

    @property
    def planned_again(self) -> int:
        """How many pods were planned again, each counted once a round."""
        return sum(len(again.pending) for each in self.outcomes for again in each.again)

    @property
    def nodes_added(self) -> int:
        """How many nodes the later plans bought."""
        return sum(len(again.nodes) for each in self.outcomes for again in each.again)

    @property
    def surprising(self) -> list[str]:
        """Each rejected pod that was bound all the same, and where."""
        return [
            f"{'/'.join(key)}, rejected, is bound to {node}"
            for outcome in self.outcomes
            for key, node in outcome.surprising.items()
        ]

    def __str__(self) -> str:
        planned = sum(len(each.case.planned) for each in self.outcomes)
        incomplete = sum(bool(each.stranded) for each in self.outcomes)
        elsewhere = sum(len(each.elsewhere) for each in self.outcomes)
        return (
            f"nominated {self.how}: {len(self.outcomes)} cases, {planned} planned pods, "
            f"{planned - len(self.stranded) - len(self.displaced)} bound ({elsewhere} elsewhere, "
            f"{sum(len(each.asked_again & each.placed.keys()) for each in self.outcomes)} after asking again), "
            f"{len(self.stranded)} pending in {incomplete} cases; {self.planned_again} planned again on "
            f"{self.nodes_added} more nodes, {len(self.displaced)} of them in vain; "
            f"{sum(len(each.case.rejected) for each in self.outcomes)} rejected pods, "
            f"{len(self.surprising)} bound all the same; {sum(each.seconds for each in self.outcomes):.0f} s"
        )


async def agree(
    api: Api, problems: Iterable[tuple[str, Problem]], how: Nominating, *, crowd: bool = False
) -> Tally:
    """Solve problems and carry their plans out, one after the other.

    Args:
        api: An API server that was prepared.
        problems: The problems, each with a name of its own.
        how: How planned pods are nominated.
        crowd: Whether rejected pods are let go together with the planned ones.
    """
    tally = Tally(how)
    for name, problem in problems:
        case = translate(name, problem, solve(problem.snapshot(), problem.pods))
        tally.outcomes.append(await run_case(api, case, how=how, crowd=crowd))
    return tally
