# SPDX-License-Identifier: Apache-2.0
"""What metrics say of work: the rounds of each controller, what waits in its queues, and the solves that run."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Awaitable, Callable, Iterator

from karpenter.kit.clock import Clock
from karpenter.kit.rounds import LISTENER, Outcome
from karpenter.observe.metrics import Metrics

__all__ = ["ControllerRounds", "controller_name", "measured", "solving"]


class ControllerRounds:
    """Counts and measures the rounds of one controller."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self.name = name
        self._metrics = metrics
        self._depths: list[Callable[[], int]] = []
        # A controller that has had no failure is listed with none: boards offer the controllers that they find there.
        metrics.reconcile_failures.labels(name)
        metrics.workqueue_depth.labels(name, name).set_function(lambda: sum(each() for each in self._depths))
        for outcome in Outcome:
            metrics.reconciles.labels(name, str(outcome))

    def ended(self, seconds: float, outcome: Outcome) -> None:
        """Counts a round."""
        self._metrics.reconciles.labels(self.name, str(outcome)).inc()
        self._metrics.reconcile_seconds.labels(self.name).observe(seconds)
        if outcome is Outcome.ERROR:
            self._metrics.reconcile_failures.labels(self.name).inc()

    def has_queue(self, depth: Callable[[], int]) -> Callable[[], None]:
        """Adds a queue to what waits, until what is given back is called."""
        self._depths.append(depth)
        return lambda: self._depths.remove(depth)


def measured(
    metrics: Metrics, name: str, run: Callable[[], Awaitable[None]]
) -> Callable[[], Awaitable[None]]:
    """Gives what runs a controller in a task of its own, its rounds measured under its name."""
    rounds = ControllerRounds(metrics, name)

    async def started() -> None:
        LISTENER.set(rounds)
        await run()

    return started


def controller_name() -> str:
    """Gives the name of the controller that the current task belongs to; empty if it belongs to none."""
    listener = LISTENER.get()
    return listener.name if listener is not None else ""


@contextlib.contextmanager
def solving(metrics: Metrics, clock: Clock, controller: str, pods: int) -> Iterator[None]:
    """Shows that a solve runs while the block does, and how long it took."""
    labels = controller, str(uuid.uuid4())
    started = clock.monotonic()
    metrics.queue_depth.labels(*labels).set(pods)
    metrics.unfinished_work_seconds.labels(*labels).set_function(lambda: clock.monotonic() - started)
    try:
        yield
    finally:
        metrics.queue_depth.remove(*labels)
        metrics.unfinished_work_seconds.remove(*labels)
        metrics.solve_seconds.labels(controller).observe(clock.monotonic() - started)
