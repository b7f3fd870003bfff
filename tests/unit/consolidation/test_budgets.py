# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime

import pytest

from karpenter.api.nodepool import Budget
from karpenter.consolidation import Candidate, PoolPolicy, Quota, Reason, allowance
from karpenter.consolidation.budgets import read_budgets
from karpenter.consolidation.types import Problem
from tests.unit.consolidation.world import NOW, budget

MONDAY_8_UTC = datetime(2026, 1, 5, 8, 30, tzinfo=UTC).timestamp()


def policy(*budgets: Budget) -> PoolPolicy:
    return PoolPolicy("default", budgets=read_budgets(budgets)[0])


def allowed(*budgets: Budget, nodes: int = 10, reason: Reason = Reason.EMPTY, at: float = NOW) -> int | None:
    return allowance(policy(*budgets), reason, nodes, at).nodes


def problem(one: Budget) -> Problem:
    rules, (found,) = read_budgets([one])
    assert rules[0].broken
    assert allowed(one) == 0
    return found


@pytest.mark.parametrize(
    ("nodes", "of", "expected"),
    [("10%", 10, 1), ("10%", 11, 2), ("10%", 0, 0), ("100%", 7, 7), ("0", 9, 0), ("3", 9, 3), ("0%", 9, 0)],
)
def test_a_share_is_rounded_up(nodes: str, of: int, expected: int) -> None:
    assert allowed(budget(nodes), nodes=of) == expected


def test_without_budgets_nothing_is_bounded() -> None:
    assert allowed() is None


def test_the_tightest_budget_counts_and_is_named() -> None:
    found = allowance(policy(budget("50%"), budget("2"), budget("3")), Reason.DRIFTED, 10, NOW)

    assert found == (2, "nodes 2")


def test_a_budget_with_reasons_bounds_those_alone() -> None:
    one = budget("1", reasons=("Drifted", "Empty"))

    assert allowed(one, reason=Reason.DRIFTED) == 1
    assert allowed(one, reason=Reason.UNDERUTILIZED) is None


def test_expiry_is_bounded_only_by_a_budget_that_names_it() -> None:
    assert allowed(budget("1"), reason=Reason.EXPIRED) is None
    assert allowed(budget("1", reasons=("Expired",)), reason=Reason.EXPIRED) == 1
    assert allowed(budget("1", reasons=("Expired",)), reason=Reason.EMPTY) is None


def test_a_scheduled_budget_counts_inside_its_window_alone() -> None:
    office = budget("0", schedule="0 9 * * mon-fri", duration="8h")

    assert allowed(office, at=MONDAY_8_UTC) is None
    assert allowed(office, at=MONDAY_8_UTC + 1800) == 0
    assert allowed(office, at=MONDAY_8_UTC + 1800 + 8 * 3600) is None


def test_a_schedule_may_name_its_time_zone() -> None:
    office = budget("0", schedule="0 9 * * mon-fri", duration="1h", time_zone="Europe/Berlin")

    assert allowed(office, at=MONDAY_8_UTC) == 0
    assert allowed(office, at=MONDAY_8_UTC + 3600) is None


def test_with_allow_windows_nodes_go_only_while_one_is_open() -> None:
    night = budget("20%", schedule="0 22 * * *", duration="6h", window="Allow")
    weekend = budget("50%", schedule="0 0 * * sat", duration="48h", window="Allow")
    saturday_23 = datetime(2026, 1, 3, 23, 0, tzinfo=UTC).timestamp()
    tuesday_23 = datetime(2026, 1, 6, 23, 0, tzinfo=UTC).timestamp()

    assert allowed(night, weekend, at=MONDAY_8_UTC) == 0
    assert allowed(night, weekend, at=tuesday_23) == 2
    assert allowed(night, weekend, at=saturday_23) == 5
    assert allowed(night, weekend, budget("1"), at=saturday_23) == 1


@pytest.mark.parametrize(
    ("bad", "field", "words"),
    [
        (budget("110%"), "nodes", "neither a number of nodes"),
        (budget("ten"), "nodes", "neither a number of nodes"),
        (budget("1", reasons=("Bored",)), "reasons", "is no reason"),
        (budget("1", window="Open"), "window", "use Bound or Allow"),
        (budget("1", schedule="0 9 * * *"), "schedule", "come together"),
        (budget("1", duration="8h"), "schedule", "come together"),
        (budget("1", window="Allow"), "schedule", "need a schedule"),
        (budget("1", time_zone="UTC"), "schedule", "need a schedule"),
        (budget("1", schedule="0 25 * * *", duration="8h"), "schedule", "hour"),
        (budget("1", schedule="0 9 * * *", duration="8h", time_zone="Mars/Base"), "timeZone", "Mars/Base"),
        (budget("1", schedule="0 9 * * *", duration="8 hours"), "duration", "duration"),
        (budget("1", schedule="0 9 * * *", duration="30s"), "duration", "whole hours and minutes"),
    ],
)
def test_a_budget_that_cannot_be_read_allows_nothing_and_says_why(
    bad: Budget, field: str, words: str
) -> None:
    found = problem(bad)

    assert found.field == f"disruption.budgets[0].{field}"
    assert words in found.words


def test_a_broken_budget_leaves_reasons_alone_that_it_does_not_mean() -> None:
    bad = budget("many", reasons=("Drifted",))

    assert allowed(bad, reason=Reason.DRIFTED) == 0
    assert allowed(bad, reason=Reason.EMPTY) is None


def test_a_budget_is_told_as_it_was_written() -> None:
    rules, _ = read_budgets(
        [
            budget(
                "10%",
                schedule="0 9 * * *",
                duration="8h",
                time_zone="Asia/Seoul",
                reasons=("Empty", "Drifted"),
            ),
            budget("1", schedule="@daily", duration="1h", window="Allow"),
        ]
    )

    assert [rule.text for rule in rules] == [
        'nodes 10% in "0 9 * * *" Asia/Seoul for 8h for Empty, Drifted',
        'nodes 1 only in "@daily" for 1h',
    ]


def members(number: int, **more: object) -> list[Candidate]:
    return [
        Candidate(name=f"{'-'.join(map(str, more.values()))}-{index}", claim="", pool="default", **more)  # type: ignore[arg-type]
        for index in range(number)
    ]


def test_nodes_that_are_leaving_or_not_ready_use_a_budget_up() -> None:
    candidates = [*members(7), *members(1, leaving=True), *members(1, not_ready=True)]
    quota = Quota(candidates, {"default": policy(budget("50%"))}, NOW)

    assert quota.left("default", Reason.EMPTY) == 3
    quota.take("default")
    assert quota.left("default", Reason.EMPTY) == 2
    assert quota.has_room("default", Reason.EMPTY)


def test_nodes_that_do_not_work_yet_or_are_gone_do_not_count() -> None:
    candidates = [*members(2), *members(5, initialized_at=None), *members(5, gone=True, leaving=True)]
    quota = Quota(candidates, {"default": policy(budget("50%"))}, NOW)

    assert quota.left("default", Reason.EMPTY) == 1


def test_a_node_that_is_asked_about_does_not_use_its_own_budget_up() -> None:
    candidates = members(1, leaving=True)

    assert Quota(candidates, {"default": policy(budget("1"))}, NOW).left("default", Reason.EMPTY) == 0
    spared = Quota(candidates, {"default": policy(budget("1"))}, NOW, [candidates[0].name])
    assert spared.left("default", Reason.EMPTY) == 1


def test_a_copy_is_used_up_apart() -> None:
    quota = Quota(members(3), {"default": policy(budget("1"))}, NOW)
    other = quota.copy()

    other.take("default")

    assert not other.has_room("default", Reason.EMPTY)
    assert quota.has_room("default", Reason.EMPTY)
    assert quota.left("default", Reason.EXPIRED) is None
