# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from karpenter.cloud.aws.threads import Threads


def test_calls_run_side_by_side_in_no_more_threads_than_allowed() -> None:
    threads, gate, seen = Threads(2, "t"), threading.Barrier(2), set[str]()

    def call(number: int) -> int:
        gate.wait(5)
        seen.add(threading.current_thread().name)
        return number

    found = [threads.submit(call, number) for number in range(4)]

    assert [each.result(5) for each in found] == [0, 1, 2, 3]
    assert seen == {"t-1", "t-2"}


def test_one_thread_serves_calls_that_follow_each_other() -> None:
    threads = Threads(5, "t")

    names = []
    for _ in range(3):
        names.append(threads.submit(lambda: threading.current_thread().name).result(5))
        # The thread says that it is free after it has given its answer.
        time.sleep(0.05)

    assert set(names) == {"t-1"}


def test_what_a_call_raises_is_its_outcome_and_the_thread_lives_on() -> None:
    threads = Threads(1, "t")

    failed = threads.submit(lambda: 1 // 0)
    after = threads.submit(lambda: 7)

    assert isinstance(failed.exception(5), ZeroDivisionError)
    assert after.result(5) == 7


def test_a_shutdown_cancels_what_was_not_begun_and_refuses_more() -> None:
    threads, going, gate = Threads(1, "t"), threading.Event(), threading.Event()

    def call() -> bool:
        going.set()
        return gate.wait(5)

    begun = threads.submit(call)
    going.wait(5)
    waiting = threads.submit(lambda: 1)

    threads.shutdown(wait=False)
    gate.set()

    assert waiting.cancelled()
    assert begun.result(5)
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(lambda: 2)


def test_a_call_that_is_cancelled_before_it_begins_is_not_made() -> None:
    threads, gate, made = Threads(1, "t"), threading.Event(), list[int]()
    threads.submit(gate.wait, 5)
    late = threads.submit(made.append, 1)
    assert late.cancel()

    gate.set()

    assert threads.submit(lambda: 3).result(5) == 3
    assert made == []


def test_a_process_ends_while_a_call_is_under_way() -> None:
    program = (
        "import time; from karpenter.cloud.aws.threads import Threads; Threads(1, 't').submit(time.sleep, 60)"
    )

    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=15)

    assert ended.returncode == 0
