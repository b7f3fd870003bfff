# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from karpenter.observe import Metrics
from karpenter.operator.probes import Probes


async def _nothing() -> None:
    """Nothing is to be filled in."""


@asynccontextmanager
async def profiled(*, profiling: bool = True) -> AsyncIterator[Probes]:
    """Probes on loopback, with profiles or without."""
    probes = Probes(
        Metrics(),
        problem=lambda: "",
        before_metrics=_nothing,
        metrics_port=0,
        health_port=0,
        host="127.0.0.1",
        profiling=profiling,
    )
    async with probes:
        yield probes


async def asked(up: Probes, path: str, port: str = "metrics") -> tuple[int, str]:
    url = f"http://127.0.0.1:{up.ports[port]}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def spin(over: threading.Event) -> None:
    """Keep a thread busy where a profile can see it."""
    while not over.is_set():
        sum(range(100))


@pytest.mark.parametrize("path", ["", "profile", "heap", "stacks"])
async def test_without_the_setting_there_are_no_profiles(path: str) -> None:
    async with profiled(profiling=False) as up:
        assert (await asked(up, f"/debug/pprof/{path}"))[0] == 404


async def test_profiles_are_not_served_on_the_port_of_the_probes() -> None:
    async with profiled() as up:
        assert (await asked(up, "/debug/pprof/stacks", "health"))[0] == 404


async def test_the_index_names_every_profile() -> None:
    async with profiled() as up:
        status, text = await asked(up, "/debug/pprof/")

    assert status == 200
    assert [line.partition("?")[0].split()[0] for line in text.splitlines()] == [
        "/debug/pprof/profile",
        "/debug/pprof/heap",
        "/debug/pprof/stacks",
    ]


async def test_a_profile_shows_where_a_busy_thread_spends_its_time() -> None:
    over = threading.Event()
    busy = threading.Thread(target=spin, args=(over,), name="busy")
    busy.start()
    try:
        async with profiled() as up:
            status, text = await asked(up, "/debug/pprof/profile?seconds=0.3")
    finally:
        over.set()
        busy.join()

    assert status == 200
    stacks = dict(line.rsplit(" ", 1) for line in text.splitlines())
    assert sum(int(count) for stack, count in stacks.items() if stack.startswith("busy;")) > 3
    assert any(stack.startswith("busy;") and f"{__name__}.spin" in stack for stack in stacks)
    assert any(stack.startswith("MainThread;") for stack in stacks)


async def test_a_heap_profile_counts_what_is_allocated_meanwhile_and_stops_tracing() -> None:
    kept: list[bytearray] = []
    async with profiled() as up:
        asking = asyncio.create_task(asked(up, "/debug/pprof/heap?seconds=2"))
        await asyncio.sleep(0.2)
        assert tracemalloc.is_tracing()
        kept.append(bytearray(2_000_000))
        status, text = await asking

    assert status == 200
    assert not tracemalloc.is_tracing()
    assert text.startswith("kept ")
    [line] = [line for line in text.splitlines() if "test_profiling.py" in line and "bytes" in line][:1]
    assert int(line.split()[0]) >= 2_000_000


async def test_stacks_show_threads_and_tasks() -> None:
    async def waiting_for_nothing() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(waiting_for_nothing(), name="idle")
    async with profiled() as up:
        status, text = await asked(up, "/debug/pprof/stacks")
    task.cancel()

    assert status == 200
    assert "thread MainThread" in text
    assert "task idle" in text
    assert "waiting_for_nothing" in text


@pytest.mark.parametrize("seconds", ["0", "61", "-1", "nan", "soon"])
@pytest.mark.parametrize("kind", ["profile", "heap"])
async def test_a_time_that_is_too_long_or_no_number_is_refused(kind: str, seconds: str) -> None:
    async with profiled() as up:
        status, text = await asked(up, f"/debug/pprof/{kind}?seconds={seconds}")

    assert status == 400
    assert text == f"seconds={seconds}: must be from 0.1 to 60\n"


async def test_only_one_profile_is_taken_at_a_time_and_the_next_one_afterwards() -> None:
    async with profiled() as up:
        first, second = await asyncio.gather(
            asked(up, "/debug/pprof/profile?seconds=0.5"), asked(up, "/debug/pprof/heap?seconds=0.5")
        )
        third = await asked(up, "/debug/pprof/profile?seconds=0.1")

    assert sorted([first[0], second[0]]) == [200, 409]
    assert third[0] == 200


async def test_a_profile_that_is_under_way_does_not_hold_up_the_end_of_the_process() -> None:
    async with profiled() as up:
        asking = asyncio.create_task(asked(up, "/debug/pprof/profile?seconds=60"))
        await asyncio.sleep(0.3)
        began = time.monotonic()
    with pytest.raises(aiohttp.ClientError):
        await asking
    await asyncio.get_running_loop().shutdown_default_executor()

    assert time.monotonic() - began < 10
