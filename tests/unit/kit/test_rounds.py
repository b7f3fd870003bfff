# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest

from karpenter.kit.clock import FakeClock
from karpenter.kit.rounds import LISTENER, Outcome, ended, one_round, queue_known
from karpenter.kit.workqueue import WorkQueue


class _Heard:
    name = "c"

    def __init__(self) -> None:
        self.rounds: list[tuple[float, str]] = []
        self.depths: list[Callable[[], int]] = []

    def ended(self, seconds: float, outcome: Outcome) -> None:
        self.rounds.append((seconds, str(outcome)))

    def has_queue(self, depth: Callable[[], int]) -> Callable[[], None]:
        self.depths.append(depth)
        return lambda: self.depths.remove(depth)


@pytest.fixture
def heard() -> Iterator[_Heard]:
    listener = _Heard()
    token = LISTENER.set(listener)
    yield listener
    LISTENER.reset(token)


def test_work_without_a_listener_is_done_unheard() -> None:
    ended(1.0, Outcome.SUCCESS)
    with queue_known(lambda: 1), one_round(FakeClock()):
        pass


def test_a_round_is_measured_and_its_failure_is_told_and_passed_on(heard: _Heard) -> None:
    clock = FakeClock()
    with one_round(clock):
        clock.tick(2.0)
    with pytest.raises(ValueError, match="no"), one_round(clock):
        raise ValueError("no")

    assert heard.rounds == [(2.0, "success"), (0.0, "error")]


async def test_a_queue_tells_how_each_key_ended_and_how_many_wait_while_it_is_served(heard: _Heard) -> None:
    async def work(key: str) -> float | None:
        if key == "bad":
            raise ValueError
        return 60.0 if key == "later" else None

    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(work, clock, workers=1)
    for key in ("done", "later", "bad"):
        queue.add(key)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    depth = heard.depths[0]
    await clock.settle()

    assert [outcome for _, outcome in heard.rounds] == ["success", "requeue_after", "error"]
    assert depth() == 0
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert heard.depths == []
