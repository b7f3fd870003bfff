# SPDX-License-Identifier: Apache-2.0
"""The log of all calls: when by the model's clock, what, with which parameters, and how it ended.

Keeps the latest calls up to a limit and counts those it forgot. Dry runs of changing operations are listed as
what they are: calls that changed nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from karpenter.sandbox.ec2.behaviour.throttling import is_mutating

__all__ = ["Call", "CallLog"]

# Enough for an hour of a busy controller; a call is about a kilobyte.
_KEPT = 50_000


@dataclass(slots=True)
class Call:
    """One call; ``outcome`` is ``ok``, an error's code, or what became of a lost reply."""

    number: int
    time: datetime
    service: str
    operation: str
    parameters: Mapping[str, Any]
    access_key: str
    region: str
    request_id: str
    outcome: str = "pending"
    message: str = ""
    lost: bool = False
    took_ms: float = 0.0

    @property
    def mutating(self) -> bool:
        """Tells whether this call could have changed something: dry runs cannot."""
        return is_mutating(self.operation) and not self.parameters.get("DryRun")

    def as_dict(self) -> dict[str, Any]:
        """Gives the call as JSON shows it."""
        return {
            "number": self.number,
            "time": self.time,
            "service": self.service,
            "operation": self.operation,
            "parameters": self.parameters,
            "accessKey": self.access_key,
            "region": self.region,
            "requestId": self.request_id,
            "outcome": self.outcome,
            "message": self.message,
            "lost": self.lost,
            "mutating": self.mutating,
            "tookMs": round(self.took_ms, 3),
        }


class CallLog:
    """The latest calls, oldest first, and how many there were of each kind."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._calls: deque[Call] = deque(maxlen=kept)
        self.count = 0
        self.outcomes: Counter[tuple[str, str, str]] = Counter()

    @property
    def forgotten(self) -> int:
        """Counts the calls that are no longer kept."""
        return self.count - len(self._calls)

    def add(self, call: Call) -> None:
        """Takes a call in; its outcome may be filled in later."""
        self.count += 1
        call.number = self.count
        self._calls.append(call)

    def end(self, call: Call, outcome: str, message: str, took_ms: float) -> None:
        """Writes down how a call ended."""
        call.outcome = outcome
        call.message = message
        call.took_ms = took_ms
        self.outcomes[call.service, call.operation, outcome] += 1

    def select(
        self,
        *,
        mutating: bool | None = None,
        service: str = "*",
        operation: str = "*",
        after: int = 0,
    ) -> Iterator[Call]:
        """Gives the kept calls that match, oldest first; ``after`` is the number of the last one seen."""
        for call in self._calls:
            if (
                call.number > after
                and (mutating is None or call.mutating == mutating)
                and fnmatchcase(call.service, service)
                and fnmatchcase(call.operation, operation)
            ):
                yield call

    def clear(self) -> None:
        """Forgets all calls; numbers go on."""
        self._calls.clear()
        self.outcomes.clear()
