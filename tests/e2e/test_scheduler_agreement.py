# SPDX-License-Identifier: Apache-2.0
"""Plans agree with Kubernetes' own scheduler: once the planned nodes stand, it binds every planned pod."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.e2e.agreement import Api, Nominating, Tally, agree, prepare
from tests.e2e.controlplane import ControlPlane
from tests.strategies import Problem, nodepool, pods, random_problem, small_catalogue, spread

CASES = 200
CASES_LEFT_ALONE = 40
# Plans keep every spread in the end, also against pods that it merely counts; the scheduler asks its owners alone. So
# a pod that the plan leaves to the next round may be bound at once: in how many of all cases.
SURPRISING_SHARE = 0.015
# A pod that is refused on its node for a moment takes another, and sometimes the room that was kept for a lesser pod,
# or for one whose turn was still to come. Those are planned again, as the controller does; of about 2,600 planned pods
# so many.
PLANNED_AGAIN = 10
# Pods that a hard spread merely counts are free to go elsewhere until they are told; a few too many of them in one zone
# leave the spread's owner no place that could be bought, and it waits. On a busy machine that happens in 2 of 30 runs
# of the worst case, so hardly twice in a row; a plan that cannot be kept would fail each time.
UNLUCKY_CASES = 2


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """A control plane without anybody else's pods, which would take the room of ours."""
    with ControlPlane() as plane:
        yield plane


@pytest.mark.timeout(900)
async def test_no_planned_pod_stays_pending_when_planned_pods_are_nominated(
    own_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Api(own_plane) as api:
        await prepare(api, random_problem(0).namespaces)

        nominated = await agree(api, _cases("n", CASES), Nominating.IN_TURN)
        alone = await agree(api, _cases("a", CASES_LEFT_ALONE), Nominating.NEVER)
        unlucky = [each.case for each in nominated.outcomes if each.displaced]
        retried = await agree(
            api, [(f"{case.name}-again", case.problem) for case in unlucky], Nominating.IN_TURN
        )

    _show(capsys, nominated, alone, retried)
    assert len(nominated.outcomes) == CASES
    assert nominated.stranded == []
    assert len(unlucky) <= UNLUCKY_CASES
    assert retried.stranded == []
    assert retried.displaced == []
    assert nominated.planned_again <= PLANNED_AGAIN
    assert sum(bool(each.surprising) for each in nominated.outcomes) <= SURPRISING_SHARE * CASES
    # Without nomination the scheduler goes its own way, and the last pods find no room: that is what it is for.
    assert alone.stranded != []


async def test_pods_of_a_hard_spread_are_bound_when_they_are_nominated_in_turn_but_not_at_once(
    own_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    web = pods(9, labels={"app": "web"}, topology_spread=[spread({"app": "web"})])
    problem = Problem(pods=web, nodepools=(nodepool(),), types=small_catalogue())

    async with Api(own_plane) as api:
        await prepare(api, problem.namespaces)
        in_turn = await agree(api, [("turn", problem)], Nominating.IN_TURN)
        at_once = await agree(api, [("once", problem)], Nominating.AT_ONCE)

    _show(capsys, in_turn, at_once)
    assert in_turn.stranded == []
    # Three pods on each of three nodes: the scheduler counts two that are to come on the node it looks at, and
    # none elsewhere. Once this changes, nominating all pods at once becomes the better way.
    assert len(at_once.stranded) == 9


def _cases(mark: str, count: int) -> Iterator[tuple[str, Problem]]:
    return ((f"{mark}{seed}", random_problem(seed)) for seed in range(count))


def _show(capsys: pytest.CaptureFixture[str], *tallies: Tally) -> None:
    with capsys.disabled():
        for tally in tallies:
            sys.stderr.write(f"\n{tally}\n")
            sys.stderr.writelines(
                f"  {line}\n" for line in (*tally.stranded, *tally.displaced, *tally.surprising)
            )
