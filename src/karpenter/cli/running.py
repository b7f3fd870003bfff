# SPDX-License-Identifier: Apache-2.0
"""How commands that run until they are told to stop do so: at Ctrl-C or a request to end, without a traceback."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from karpenter.cli import output
from karpenter.errors import KarpenterError

__all__ = ["run_until_stopped", "told_to_stop", "work_until"]


def told_to_stop() -> asyncio.Event:
    """Give an event that is set when this process is interrupted or asked to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


async def work_until(work: Coroutine[Any, Any, object], stop: asyncio.Event) -> Exception | None:
    """Do work until it ends or the event is set, and give why it failed, if it did."""
    working = asyncio.create_task(work, name="work")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in (working, stopping):
        task.cancel()
    results = await asyncio.gather(working, stopping, return_exceptions=True)
    return next((each for each in results if isinstance(each, Exception)), None)


async def run_until_stopped(work: Coroutine[Any, Any, object], announcement: str) -> None:
    """Say what runs, and run it until this process is interrupted or asked to end.

    Raises:
        KarpenterError: It failed.
    """
    stop = told_to_stop()
    output.say(announcement)
    failure = await work_until(work, stop)
    if isinstance(failure, KarpenterError):
        raise failure
    output.say("stopped")
