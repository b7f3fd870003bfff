# SPDX-License-Identifier: Apache-2.0
"""Who hears of each round of work: how long it took and how it ended, and how much waits.

The listener belongs to the context of a task: what starts a controller sets it, and every task that the controller
starts has it too. Work without a listener is done all the same, unheard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from enum import StrEnum
from typing import Final, Protocol

from karpenter.kit.clock import Clock

__all__ = ["LISTENER", "Outcome", "RoundListener", "ended", "one_round", "queue_known"]


class Outcome(StrEnum):
    """How a round ended."""

    SUCCESS = "success"
    REQUEUE_AFTER = "requeue_after"
    ERROR = "error"


class RoundListener(Protocol):
    """Who hears of the rounds of one controller."""

    @property
    def name(self) -> str:
        """The controller's name."""
        ...

    def ended(self, seconds: float, outcome: Outcome) -> None:
        """Hears that a round ended."""
        ...

    def has_queue(self, depth: Callable[[], int]) -> Callable[[], None]:
        """Hears of a queue, and gives what is called when it is no longer served."""
        ...


LISTENER: Final[ContextVar[RoundListener | None]] = ContextVar("round_listener", default=None)


def ended(seconds: float, outcome: Outcome) -> None:
    """Tells the listener of a round that ended."""
    listener = LISTENER.get()
    if listener is not None:
        listener.ended(seconds, outcome)


@contextlib.contextmanager
def one_round(clock: Clock) -> Iterator[None]:
    """Measures what is done inside as one round."""
    started = clock.monotonic()
    try:
        yield
    except Exception:
        ended(clock.monotonic() - started, Outcome.ERROR)
        raise
    ended(clock.monotonic() - started, Outcome.SUCCESS)


@contextlib.contextmanager
def queue_known(depth: Callable[[], int]) -> Iterator[None]:
    """Has the listener know of a queue for as long as it is served."""
    listener = LISTENER.get()
    if listener is None:
        yield
        return
    leave = listener.has_queue(depth)
    try:
        yield
    finally:
        leave()
