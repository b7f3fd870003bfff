# SPDX-License-Identifier: Apache-2.0
"""Profiles of the running controller, served beside the metrics where ``--enable-profiling`` is on.

Addresses are Karpenter's: ``/debug/pprof/profile`` samples the stacks of all threads, ``/debug/pprof/heap`` counts the
memory that is allocated meanwhile, and ``/debug/pprof/stacks`` shows threads and tasks as they are now. Python has no
pprof format: stacks come folded, one line for each with its count, as flame graph tools read them. Every profile is
bounded in time and in size, and only one is taken at a time, so that asking for them cannot stop the controller.
Profiles name modules, functions and lines, never values.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final

from aiohttp import web

__all__ = ["MOST_S", "Profiles"]

MOST_S: Final = 60.0

_USUAL_S: Final = 10.0
_LEAST_S: Final = 0.1
_EVERY_S: Final = 0.01
_DEEPEST: Final = 100
_MOST_LINES: Final = 200
# Frames of an allocation that are kept; each costs memory while the profile is taken.
_ALLOCATION_FRAMES: Final = 1
_INDEX: Final = f"""\
/debug/pprof/profile?seconds=10   stacks of all threads, folded, sampled 100 times a second (at most {MOST_S:g} s)
/debug/pprof/heap?seconds=10      memory that is allocated meanwhile and kept, by line of code (at most {MOST_S:g} s)
/debug/pprof/stacks               threads and tasks as they are now
"""


class Profiles:
    """Takes profiles of this process, one at a time."""

    def __init__(self) -> None:
        self._is_taken = False

    def serve(self, app: web.Application) -> None:
        """Add the addresses to a server."""
        app.router.add_get("/debug/pprof/", self._index)
        app.router.add_get("/debug/pprof/profile", self._profile)
        app.router.add_get("/debug/pprof/heap", self._heap)
        app.router.add_get("/debug/pprof/stacks", self._stacks)

    async def _index(self, _: web.Request) -> web.Response:
        return web.Response(text=_INDEX)

    async def _stacks(self, _: web.Request) -> web.Response:
        # Lines of code are read from files, so not on the loop.
        return web.Response(text=await asyncio.to_thread(_stacks, asyncio.all_tasks()))

    async def _profile(self, request: web.Request) -> web.Response:
        seconds = _seconds(request)
        self._begin()
        over = threading.Event()
        try:
            # In a thread of its own: a loop that hangs is what one wants to see.
            found = await asyncio.to_thread(_sample, seconds, over)
        finally:
            # A request that is given up, at the end of the process too, ends its thread.
            over.set()
            self._is_taken = False
        return web.Response(text="".join(f"{stack} {count}\n" for stack, count in found.most_common()))

    async def _heap(self, request: web.Request) -> web.Response:
        seconds = _seconds(request)
        self._begin()
        tracemalloc.start(_ALLOCATION_FRAMES)
        try:
            await asyncio.sleep(seconds)
            text = await asyncio.to_thread(_allocations)
        finally:
            tracemalloc.stop()
            self._is_taken = False
        return web.Response(text=text)

    def _begin(self) -> None:
        if self._is_taken:
            raise web.HTTPConflict(text="another profile is being taken; try again when it is done\n")
        self._is_taken = True


def _seconds(request: web.Request) -> float:
    text = request.query.get("seconds", "")
    try:
        wanted = float(text) if text else _USUAL_S
    except ValueError:
        wanted = -1.0
    if not _LEAST_S <= wanted <= MOST_S:
        raise web.HTTPBadRequest(text=f"seconds={text}: must be from {_LEAST_S:g} to {MOST_S:g}\n")
    return wanted


def _sample(seconds: float, over: threading.Event) -> Counter[str]:
    """Count the stacks of all threads but this one until the time is up."""
    found: Counter[str] = Counter()
    own, end = threading.get_ident(), time.monotonic() + seconds
    while time.monotonic() < end and not over.wait(_EVERY_S):
        names = {each.ident: each.name for each in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to see all threads
            if ident != own:
                found[";".join((names.get(ident, "unknown"), *_frames(frame)))] += 1
    return found


def _frames(frame: FrameType | None) -> list[str]:
    names: list[str] = []
    while frame is not None and len(names) < _DEEPEST:
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


def _allocations() -> str:
    current, peak = tracemalloc.get_traced_memory()
    lines = tracemalloc.take_snapshot().statistics("lineno")[:_MOST_LINES]
    head = f"kept {current} bytes, at most {peak} bytes since the profile began\n"
    return head + "".join(
        f"{each.size:>12} bytes {each.count:>8} blocks  "
        f"{each.traceback[0].filename}:{each.traceback[0].lineno}\n"
        for each in lines
    )


def _stacks(tasks: Iterable[asyncio.Task[Any]]) -> str:
    out = io.StringIO()
    names = {each.ident: each.name for each in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the documented way to see all threads
        out.write(f"thread {names.get(ident, 'unknown')}\n")
        traceback.print_stack(frame, _DEEPEST, out)
        out.write("\n")
    for task in sorted(tasks, key=lambda each: each.get_name()):
        out.write(f"task {task.get_name()}\n")
        task.print_stack(limit=_DEEPEST, file=out)
        out.write("\n")
    return out.getvalue()
