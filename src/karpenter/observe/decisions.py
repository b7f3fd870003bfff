# SPDX-License-Identifier: Apache-2.0
"""The DecisionLog: every plan and every action as a value, with its reason and what it did to the bill.

One place gathers what was decided; logs, Events, metrics, `karpenter history` and the dashboard read it. The last
ones are kept in memory, bounded; listeners hear of each at once, and one that fails silences nobody else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from karpenter.kit.clock import Clock

__all__ = ["Decision", "DecisionKind", "DecisionLog"]

_KEPT: Final = 1000


class DecisionKind(StrEnum):
    """What was decided."""

    PLAN = "plan"
    REFUSE = "refuse"
    LAUNCH = "launch"
    LAUNCH_FAILED = "launch-failed"
    REGISTER = "register"
    PLACE = "place"
    INITIALIZE = "initialize"
    DELETE = "delete"
    REPLACE = "replace"
    EXPIRE = "expire"
    INTERRUPT = "interrupt"
    TERMINATE = "terminate"
    COLLECT = "collect"
    KEEP = "keep"
    ROLL_BACK = "roll-back"
    SETTLE = "settle"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision.

    Attributes:
        number: Counts up; gaps mean that older ones were forgotten.
        at: When.
        kind: What.
        subject: The objects it is about, as ``Kind/name``.
        reason: Why, in one word that programs can compare.
        message: Why, in one sentence.
        price_before: Dollars an hour of what is concerned, before; None if unknown.
        price_after: The same, after.
        details: Whatever else belongs to it, as plain data.
    """

    number: int
    at: datetime
    kind: DecisionKind
    subject: tuple[str, ...]
    reason: str
    message: str
    price_before: float | None = None
    price_after: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def saving_per_hour(self) -> float | None:
        """What it takes off the bill; negative if it adds to it."""
        if self.price_before is None or self.price_after is None:
            return None
        return self.price_before - self.price_after


class DecisionLog:
    """The last decisions, and who wants to hear of the next."""

    def __init__(self, clock: Clock, *, kept: int = _KEPT) -> None:
        self._clock = clock
        self._kept: deque[Decision] = deque(maxlen=kept)
        self._listeners: list[Callable[[Decision], None]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._kept)

    def record(
        self,
        kind: DecisionKind,
        *subject: str,
        reason: str,
        message: str,
        price_before: float | None = None,
        price_after: float | None = None,
        **details: Any,
    ) -> Decision:
        """Writes a decision down and tells the listeners."""
        self._number += 1
        decision = Decision(
            self._number,
            self._clock.now(),
            kind,
            subject,
            reason,
            message,
            price_before,
            price_after,
            details,
        )
        self._kept.append(decision)
        for listener in tuple(self._listeners):
            try:
                listener(decision)
            except Exception:  # noqa: BLE001 - a broken listener is dropped; the decision stands
                self._listeners.remove(listener)
        return decision

    def listen(self, listener: Callable[[Decision], None]) -> Callable[[], None]:
        """Adds a listener and gives the function that takes it away."""
        self._listeners.append(listener)

        def leave() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return leave

    def since(self, number: int = 0) -> tuple[Decision, ...]:
        """Gives the decisions after a number, oldest first."""
        return tuple(each for each in self._kept if each.number > number)
