# SPDX-License-Identifier: Apache-2.0
"""Threads for calls that block, which never keep the process from ending.

The pools of the standard library are waited for when the interpreter ends, up to the twenty seconds that a poll of a
queue lasts. A call that is given up here may still reach AWS; whoever makes changing calls has written them down
before (docs/adr/0007-exactly-once.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

__all__ = ["Threads"]

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Executor):
    """Runs calls in at most so many threads, which are started as they are needed.

    Args:
        most: How many.
        name: What the threads are called.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._idle = 0
        self._waiting = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a call made; its outcome is in the future.

        Raises:
            RuntimeError: It was shut down.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the threads {self._name} are shut down")
            self._work.put((future, lambda: fn(*args, **kwargs)))
            self._waiting += 1
            if self._waiting > self._idle and self._started < self._most:
                self._started += 1
                self._idle += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as the base has it
        """Take no more calls; nobody is waited for, and what was not begun is cancelled."""
        del wait, cancel_futures
        with self._lock:
            self._closed = True
            while not self._work.empty():
                job = self._work.get()
                if job is not None:
                    job[0].cancel()
            for _ in range(self._started):
                self._work.put(None)

    def _run(self) -> None:
        while True:
            job = self._work.get()
            with self._lock:
                self._idle -= 1
                self._waiting -= 1
            if job is None:
                return
            _make(*job)
            # What was called, and its answer, must not live on until the next call.
            del job
            with self._lock:
                self._idle += 1


def _make(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        answer = call()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the caller hears of it
        future.set_exception(error)
    else:
        future.set_result(answer)
