# SPDX-License-Identifier: Apache-2.0
"""Supervised tasks: every loop of the program has a name, a keeper, and an end.

A task that raises is reported and started again after a growing delay; one that returns is done. Running
well for a while clears the count of failures. Cancelling is the only way to stop a task, and the supervisor
waits for all of them, at most for a grace period; who is still running then is reported by name, because
nothing more can be done about it. Nothing is started and forgotten: the tasks live inside ``async with``.

Failures go to a callback as values; this module neither logs nor decides whether a failure is grave.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, Self, TypeAlias

from karpenter.errors import KarpenterError
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock, within

__all__ = [
    "Supervisor",
    "SupervisorError",
    "TaskFactory",
    "TaskFailure",
    "TaskState",
    "TaskStatus",
    "supervise",
]

TaskFactory: TypeAlias = Callable[[], Awaitable[None]]

_DEFAULT_BACKOFF: Final = BackoffPolicy(base_s=1.0, cap_s=60.0, jitter=0.2)


class SupervisorError(KarpenterError):
    """A task that cannot be started: its name is taken, or its supervisor has stopped."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """One failure of a supervised task.

    Attributes:
        name: The task.
        error: What it raised; a TimeoutError if it did not stop within the grace period.
        failures: How often in a row it has failed, this time included.
        retry_in_s: The seconds until it is started again; None if it is not.
    """

    name: str
    error: BaseException
    failures: int
    retry_in_s: float | None


class TaskState(Enum):
    """What a supervised task is doing."""

    RUNNING = "running"
    BACKING_OFF = "backing off"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """What a health probe wants to know of a task; ``failures`` counts those in a row."""

    state: TaskState
    failures: int = 0
    last_error: BaseException | None = None


async def supervise(
    name: str,
    factory: TaskFactory,
    *,
    clock: Clock,
    on_failure: Callable[[TaskFailure], None],
    backoff: BackoffPolicy = _DEFAULT_BACKOFF,
    healthy_after_s: float = 300.0,
    on_status: Callable[[TaskStatus], None] = lambda _: None,
) -> None:
    """Runs what ``factory`` makes until it returns, again and again if it raises; fit for any TaskGroup.

    Cancelling it cancels the work and ends it. A CancelledError that the work raises of its own accord,
    because something it awaited was cancelled, is a failure like any other: it must not end a loop in
    silence.

    Args:
        name: The name in reports, and the key of the jitter.
        factory: Makes the work anew for each attempt.
        clock: Where delays and ages come from.
        on_failure: Is told of each failure before the delay.
        backoff: How long the delays are.
        healthy_after_s: How long an attempt must have run for earlier failures to be forgiven.
        on_status: Is told whenever the state changes.
    """
    failures = 0
    last_error: BaseException | None = None
    while True:
        on_status(TaskStatus(TaskState.RUNNING, failures, last_error))
        started_at = clock.monotonic()
        try:
            await factory()
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            last_error = error
        except Exception as error:
            last_error = error
            if _is_being_cancelled():
                # It failed while tidying up after itself: worth a report, but no reason to start it again.
                _report(on_failure, TaskFailure(name, error, failures + 1, None))
                raise asyncio.CancelledError from error
        else:
            on_status(TaskStatus(TaskState.DONE, 0, last_error))
            return
        failures = 1 if clock.monotonic() - started_at >= healthy_after_s else failures + 1
        delay_s = backoff.delay_s(failures, name)
        on_status(TaskStatus(TaskState.BACKING_OFF, failures, last_error))
        _report(on_failure, TaskFailure(name, last_error, failures, delay_s))
        await clock.sleep(delay_s)


class Supervisor:
    """Keeps a set of named tasks running for as long as its ``async with`` block lasts."""

    def __init__(
        self,
        clock: Clock,
        *,
        on_failure: Callable[[TaskFailure], None],
        backoff: BackoffPolicy = _DEFAULT_BACKOFF,
        grace_s: float = 10.0,
        healthy_after_s: float = 300.0,
    ) -> None:
        """Makes a supervisor without tasks.

        Args:
            clock: Where delays and ages come from.
            on_failure: Is told of each failure; if it raises, the event loop's exception handler gets that.
            backoff: How long the delays between attempts are.
            grace_s: How long tasks may take to stop.
            healthy_after_s: How long an attempt must have run for earlier failures to be forgiven.
        """
        self._clock = clock
        self._on_failure = on_failure
        self._backoff = backoff
        self._grace_s = grace_s
        self._healthy_after_s = healthy_after_s
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._statuses: dict[str, TaskStatus] = {}
        # The event loop holds tasks only weakly; one that is collected while running would vanish mid-step.
        self._stuck: list[asyncio.Task[None]] = []
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def start(self, name: str, factory: TaskFactory) -> None:
        """Starts a task; a name may be used again once its task is done or stopped.

        Raises:
            SupervisorError: The name belongs to a living task, or the supervisor is not open.
        """
        if not self._is_open:
            raise SupervisorError(
                f'cannot start task "{name}": the supervisor is not running',
                hint="start tasks inside its `async with` block",
            )
        if name in self._tasks and not self._tasks[name].done():
            raise SupervisorError(
                f'cannot start task "{name}": a task of that name is running',
                hint="stop it first, or choose another name",
            )
        work = supervise(
            name,
            factory,
            clock=self._clock,
            on_failure=self._on_failure,
            backoff=self._backoff,
            healthy_after_s=self._healthy_after_s,
            on_status=lambda status: self._note(name, status),
        )
        self._statuses[name] = TaskStatus(TaskState.RUNNING)
        self._tasks[name] = asyncio.create_task(work, name=name)

    async def stop(self, *names: str) -> tuple[str, ...]:
        """Stops the named tasks, or all of them for good, and gives the names of those that did not stop.

        Each of them is also reported as a failure. A stopped task leaves no status behind.
        """
        if not names:
            self._is_open = False
        chosen = {name: self._tasks[name] for name in names or tuple(self._tasks) if name in self._tasks}
        for task in chosen.values():
            task.cancel()
        living = {task for task in chosen.values() if not task.done()}
        if living:
            await self._wait_for(living)
        stuck = tuple(name for name, task in chosen.items() if not task.done())
        for name, task in chosen.items():
            if self._tasks.get(name) is not task:
                continue  # another call to stop, running beside this one, has seen to it
            del self._tasks[name]
            failures = self._statuses.pop(name).failures
            if name in stuck:
                self._stuck.append(task)
                late = TimeoutError(f'task "{name}" did not stop within {self._grace_s} s')
                _report(self._on_failure, TaskFailure(name, late, failures + 1, None))
        return stuck

    def statuses(self) -> dict[str, TaskStatus]:
        """Gives what each task is doing now, by name; those that are done included."""
        return dict(self._statuses)

    def _note(self, name: str, status: TaskStatus) -> None:
        # A task that did not stop in time may still report, but it is no longer ours.
        if name in self._tasks:
            self._statuses[name] = status

    async def _wait_for(self, tasks: set[asyncio.Task[None]]) -> None:
        with contextlib.suppress(TimeoutError):
            await within(self._clock, self._grace_s, asyncio.wait(tasks))


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _report(on_failure: Callable[[TaskFailure], None], failure: TaskFailure) -> None:
    try:
        on_failure(failure)
    except Exception as error:  # noqa: BLE001 - a broken reporter must not stop the work that it reports on
        asyncio.get_running_loop().call_exception_handler(
            {"message": f'the failure of task "{failure.name}" could not be reported', "exception": error}
        )
