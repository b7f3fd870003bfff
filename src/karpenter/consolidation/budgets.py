# SPDX-License-Identifier: Apache-2.0
"""How many nodes of a pool may be on their way out at once, for each reason, at one moment.

As Karpenter: the tightest budget that is active and means the reason counts; a share is of the pool's initialised
nodes, rounded up; nodes that are not ready or already leaving use it up; a budget outside its window sets no bound.

Beyond Karpenter: a budget may name a time zone; budgets with ``window: Allow`` turn the window round, so that nodes go
only while one of them is open, as many as the most generous open one says; and a budget that names the reason Expired
bounds expiry, which is otherwise unbounded.

A budget that cannot be read allows nothing, whatever it was for, and is a ``Problem``; the others go on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from karpenter.api.nodepool import Budget
from karpenter.consolidation.types import BudgetRule, Candidate, PoolPolicy, Problem, Reason
from karpenter.errors import KarpenterError
from karpenter.kit import cron
from karpenter.kit.durations import parse_budget_duration

__all__ = ["Allowance", "Quota", "allowance", "read_budgets"]

_NODES: Final = re.compile(r"(?P<number>[0-9]{1,9})(?P<percent>%?)")
_UNNAMED: Final = frozenset({Reason.EMPTY, Reason.DRIFTED, Reason.UNDERUTILIZED})
_WINDOWS: Final = ("", "Bound", "Allow")
_PERCENT: Final = 100


def read_budgets(budgets: Iterable[Budget]) -> tuple[tuple[BudgetRule, ...], tuple[Problem, ...]]:
    """Read the budgets of a NodePool; what cannot be read allows nothing and is a problem."""
    rules, problems = [], []
    for number, budget in enumerate(budgets):
        text = _text(budget)
        try:
            rules.append(_read(budget, text))
        except _UnreadableError as error:
            known = frozenset(Reason(name) for name in budget.reasons if name in set(Reason))
            rules.append(BudgetRule(text, reasons=known, broken=True))
            path = f"disruption.budgets[{number}].{error.field}"
            ending = f"; {error.hint}" if error.hint else ""
            problems.append(Problem(path, error.value, f"{path}: {error.message}{ending}"))
    return tuple(rules), tuple(problems)


class _UnreadableError(KarpenterError):
    """A field of a budget that says nothing."""

    def __init__(self, field: str, value: str, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.value = value


def _read(budget: Budget, text: str) -> BudgetRule:
    number = _NODES.fullmatch(budget.nodes)
    if number is None or (number["percent"] and int(number["number"]) > _PERCENT):
        raise _UnreadableError(
            "nodes",
            budget.nodes,
            f'"{budget.nodes}" is neither a number of nodes nor a share of them',
            'write for example "3" or "10%"',
        )
    reasons = []
    for name in budget.reasons:
        if name not in set(Reason):
            known = ", ".join(Reason)
            raise _UnreadableError("reasons", name, f'"{name}" is no reason', f"use {known}")
        reasons.append(Reason(name))
    if budget.window not in _WINDOWS:
        raise _UnreadableError(
            "window", budget.window, f'"{budget.window}" is no window', "use Bound or Allow"
        )
    if bool(budget.schedule) != bool(budget.duration):
        raise _UnreadableError(
            "schedule", budget.schedule, "schedule and duration come together", "set both, or neither"
        )
    if not budget.schedule and (budget.window == "Allow" or budget.time_zone):
        raise _UnreadableError(
            "schedule", "", "window and timeZone need a schedule", "set schedule and duration"
        )
    rule = BudgetRule(text, int(number["number"]), bool(number["percent"]), frozenset(reasons))
    return _with_window(rule, budget) if budget.schedule else rule


def _with_window(rule: BudgetRule, budget: Budget) -> BudgetRule:
    try:
        schedule = cron.parse(budget.schedule, budget.time_zone or "UTC")
    except cron.CronError as error:
        where = "timeZone" if error.field == "time zone" else "schedule"
        value = budget.time_zone if where == "timeZone" else budget.schedule
        raise _UnreadableError(where, value, error.message, error.hint) from error
    try:
        duration = parse_budget_duration(budget.duration)
    except KarpenterError as error:
        raise _UnreadableError("duration", budget.duration, error.message, error.hint) from error
    return replace(rule, schedule=schedule, duration=duration, allows=budget.window == "Allow")


def _text(budget: Budget) -> str:
    parts = [f"nodes {budget.nodes}"]
    if budget.schedule or budget.duration:
        zone = f" {budget.time_zone}" if budget.time_zone else ""
        verb = "only in" if budget.window == "Allow" else "in"
        parts.append(f'{verb} "{budget.schedule}"{zone} for {budget.duration}')
    if budget.reasons:
        parts.append(f"for {', '.join(budget.reasons)}")
    return " ".join(parts)


class Allowance(NamedTuple):
    """How many nodes may be on their way out for a reason, and which budget says so.

    ``nodes`` is None where nothing bounds it.
    """

    nodes: int | None
    budget: str


def allowance(policy: PoolPolicy, reason: Reason, nodes: int, now: float) -> Allowance:
    """Return how many of a pool's nodes may be on their way out for a reason, those that are so included."""
    moment = datetime.fromtimestamp(now, UTC)
    tightest: Allowance = Allowance(None, "")
    widest: Allowance | None = None
    for rule in policy.budgets:
        if not _means(rule, reason):
            continue
        bound = Allowance(_nodes_of(rule, nodes), rule.text)
        if rule.allows:
            bound = bound if _is_open(rule, moment) else Allowance(0, rule.text)
            widest = bound if widest is None else max(widest, bound, key=_known)
        elif _is_open(rule, moment):
            tightest = min(tightest, bound, key=_size)
    return tightest if widest is None else min(tightest, widest, key=_size)


def _means(rule: BudgetRule, reason: Reason) -> bool:
    return reason in (rule.reasons or _UNNAMED)


def _is_open(rule: BudgetRule, moment: datetime) -> bool:
    if rule.schedule is None or rule.duration is None:
        return True
    return rule.schedule.is_active(moment, rule.duration)


def _nodes_of(rule: BudgetRule, nodes: int) -> int:
    return -(-nodes * rule.nodes // _PERCENT) if rule.is_percent else rule.nodes


def _known(bound: Allowance) -> int:
    return bound.nodes or 0


def _size(bound: Allowance) -> float:
    return float("inf") if bound.nodes is None else bound.nodes


class Quota:
    """What is left of the budgets while a decision is being made.

    Args:
        candidates: Every member of ours.
        policies: By pool.
        now: The moment.
        exempt: Names of nodes that do not use anything up although they are leaving: those that are asked about.
    """

    def __init__(
        self,
        candidates: Iterable[Candidate],
        policies: Mapping[str, PoolPolicy],
        now: float,
        exempt: Iterable[str] = (),
    ) -> None:
        self._policies = policies
        self._now = now
        self._nodes: dict[str, int] = {}
        self._used: dict[str, int] = {}
        spared = frozenset(exempt)
        for each in candidates:
            if each.initialized_at is None or each.gone:
                continue
            self._nodes[each.pool] = self._nodes.get(each.pool, 0) + 1
            if (each.leaving or each.not_ready) and each.name not in spared:
                self._used[each.pool] = self._used.get(each.pool, 0) + 1

    def copy(self) -> Quota:
        """Return the same, to be used up apart from this one."""
        other = Quota((), self._policies, self._now)
        other._nodes, other._used = dict(self._nodes), dict(self._used)
        return other

    def allowance(self, pool: str, reason: Reason) -> Allowance:
        """Return how many nodes of the pool may be on their way out for a reason."""
        return allowance(self._policies[pool], reason, self._nodes.get(pool, 0), self._now)

    def left(self, pool: str, reason: Reason) -> int | None:
        """Return how many more nodes of the pool may go for a reason; None where nothing bounds it."""
        allowed = self.allowance(pool, reason).nodes
        return None if allowed is None else max(0, allowed - self._used.get(pool, 0))

    def has_room(self, pool: str, reason: Reason) -> bool:
        """Tell whether one more node of the pool may go for a reason."""
        left = self.left(pool, reason)
        return left is None or left > 0

    def take(self, pool: str) -> None:
        """Count one more node of the pool as on its way out, for whatever reason."""
        self._used[pool] = self._used.get(pool, 0) + 1
