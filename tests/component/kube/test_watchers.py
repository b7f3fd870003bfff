# SPDX-License-Identifier: Apache-2.0
"""Fifty watchers, some of them too slow, while much happens: everyone sees every event once and in order."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import aiohttp
import pytest
from benchmarks.sandbox_load.watching import verdict, watch_until

from karpenter.sandbox.kube.engine.engine import Engine
from karpenter.sandbox.kube.serving.server import serving
from karpenter.sandbox.kube.storage.store import Store, Watcher

_PODS = "/api/v1/namespaces/default/pods"
_TOKEN = secrets.token_hex(8)
_OBJECTS = 24
_TURNS = 5


async def _send(session: aiohttp.ClientSession, method: str, url: str, body: Any = None) -> None:
    headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
    async with session.request(method, url, json=body, headers=headers) as answer:
        assert answer.status < 300, await answer.text()


async def _make_a_stir(session: aiohttp.ClientSession, url: str) -> None:
    """Makes pods, changes each several times and deletes every other one; large, so that slow readers fall behind."""
    blob = "x" * 60_000
    pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    for number in range(_OBJECTS):
        metadata = {"name": f"p{number}", "annotations": {"blob": blob}}
        await _send(session, "POST", url + _PODS, {**pod, "metadata": metadata})
    for turn in range(_TURNS):
        for number in range(_OBJECTS):
            change = {"metadata": {"annotations": {"turn": str(turn)}}}
            await _send(session, "PATCH", f"{url}{_PODS}/p{number}", change)
    for number in range(0, _OBJECTS, 2):
        await _send(session, "DELETE", f"{url}{_PODS}/p{number}", {"gracePeriodSeconds": 0})


@pytest.mark.timeout(120)
async def test_fast_and_slow_watchers_see_every_event_once_and_in_order() -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    engine = Engine(Store(watcher_buffer=10))
    stop = asyncio.Event()
    async with serving(engine, token=_TOKEN) as server, aiohttp.ClientSession(headers=headers) as session:
        watching = asyncio.create_task(watch_until(server.url, _TOKEN, 50, 10, stop, pause_s=30))
        while engine.store.count_watchers("/pods") < 50:  # noqa: ASYNC110 - they come in their own time
            await asyncio.sleep(0.05)
        await _make_a_stir(session, server.url)
        stop.set()
        seen = await watching

    told = verdict(seen, 10)
    assert told["mistakes"] == 0, told
    assert told["relisted"] == 0
    # Those that were cut off went on where they were; nobody missed anything or saw it twice.
    events = _OBJECTS + _TURNS * _OBJECTS + _OBJECTS // 2
    assert {each.events for each in seen} == {events}
    assert told["cut_off"] > 0


async def test_what_comes_when_time_is_up_is_not_passed_over() -> None:
    store = Store()
    watcher = store.watch("/pods")
    taking = asyncio.create_task(watcher.take(0.0))
    await asyncio.sleep(0)

    store.put("/pods", {"metadata": {"name": "a"}}, None)

    assert isinstance(watcher, Watcher)
    first = await taking
    assert [change.key for change in first or await watcher.take(0.0)] == [("", "a")]
