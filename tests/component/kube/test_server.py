# SPDX-License-Identifier: Apache-2.0
"""The API over HTTP: watches, tokens, the audit log, our own client."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from karpenter.kube.client import Client
from karpenter.kube.config import read_kubeconfig
from karpenter.kube.errors import ApiError
from karpenter.kube.kinds import NODES, PODS
from karpenter.sandbox.kube.engine.engine import Engine
from karpenter.sandbox.kube.kubeconfig import write_kubeconfig
from karpenter.sandbox.kube.serving.server import ADMIN, PortTakenError, Server, serving
from karpenter.sandbox.kube.storage.store import Store

_MAPS = "/api/v1/namespaces/default/configmaps"
_TOKEN = secrets.token_hex(8)


def _map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


class Http:
    def __init__(self, server: Server, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with self.session.request(method, self.server.url + path, json=body) as answer:
            return answer.status, await answer.json(content_type=None)

    async def lines(self, path: str, count: int) -> list[dict[str, Any]]:
        async with self.session.get(self.server.url + path) as answer:
            return [json.loads(await answer.content.readline()) for _ in range(count)]


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    async with serving(token=_TOKEN) as server, aiohttp.ClientSession(headers=headers) as session:
        yield Http(server, session)


async def test_a_watch_tells_what_is_there_and_then_what_happens(http: Http) -> None:
    await http.send("POST", _MAPS, _map("a"))
    watched = asyncio.create_task(http.lines(f"{_MAPS}?watch=true", 3))
    await asyncio.sleep(0.05)

    await http.send("POST", _MAPS, _map("b"))
    await http.send("DELETE", f"{_MAPS}/a")
    events = await watched

    assert [(each["type"], each["object"]["metadata"]["name"]) for each in events] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


async def test_a_watch_begins_in_the_past_and_fails_where_that_is_forgotten(http: Http) -> None:
    _, first = await http.send("POST", _MAPS, _map("a"))
    await http.send("POST", _MAPS, _map("b"))
    version = first["metadata"]["resourceVersion"]

    [event] = await http.lines(f"{_MAPS}?watch=true&resourceVersion={version}", 1)
    http.server.engine.store.compact(http.server.engine.store.revision)
    [error] = await http.lines(f"{_MAPS}?watch=true&resourceVersion={version}", 1)

    assert event["object"]["metadata"]["name"] == "b"
    assert (error["type"], error["object"]["code"]) == ("ERROR", 410)


async def test_a_watch_with_a_selector_sees_objects_come_and_go(http: Http) -> None:
    watched = asyncio.create_task(http.lines(f"{_MAPS}?watch=true&labelSelector=colour%3Dred", 2))
    await asyncio.sleep(0.05)

    await http.send("POST", _MAPS, _map("a", colour="red"))
    await http.send("PUT", f"{_MAPS}/a", _map("a", colour="blue"))
    events = await watched

    assert [each["type"] for each in events] == ["ADDED", "DELETED"]


async def test_the_first_events_end_with_a_bookmark_if_asked_for(http: Http) -> None:
    await http.send("POST", _MAPS, _map("a"))

    events = await http.lines(
        f"{_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        2,
    )

    assert [each["type"] for each in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_fifty_watchers_see_every_event_once_and_in_order(http: Http) -> None:
    count = 100
    watchers = [asyncio.create_task(http.lines(f"{_MAPS}?watch=true", count)) for _ in range(50)]
    await asyncio.sleep(0.3)

    for number in range(count):
        await http.send("POST", _MAPS, _map(f"m{number:03}"))
    seen = await asyncio.gather(*watchers)

    wanted = [f"m{number:03}" for number in range(count)]
    assert all([each["object"]["metadata"]["name"] for each in events] == wanted for events in seen)


async def test_a_client_that_does_not_read_is_cut_off_and_nobody_waits_for_it() -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    engine = Engine(Store(watcher_buffer=20))
    async with serving(engine, token=_TOKEN) as server, aiohttp.ClientSession(headers=headers) as session:
        http = Http(server, session)
        slow = await session.get(f"{server.url}{_MAPS}?watch=true", read_bufsize=1024)
        big = {**_map("x"), "data": {"big": "x" * 200_000}}

        async with asyncio.timeout(15):
            for number in range(60):
                await http.send("POST", _MAPS, {**big, "metadata": {"name": f"m{number}"}})
            # The server can only end the stream once what it sent is read.
            lines = [line async for line in slow.content.iter_chunked(1 << 20)]

        assert sum(len(line) for line in lines) < 60 * 200_000


async def test_nobody_is_let_in_without_a_token(http: Http) -> None:
    async with aiohttp.ClientSession() as stranger:
        refused = await stranger.get(f"{http.server.url}/api/v1/namespaces")
        wrong = await stranger.get(
            f"{http.server.url}/api/v1/namespaces", headers={"Authorization": "Bearer nobody"}
        )
        password = base64.b64encode(f"sandbox:{_TOKEN}".encode()).decode()
        basic = await stranger.get(
            f"{http.server.url}/api/v1/namespaces", headers={"Authorization": f"Basic {password}"}
        )
        ready = await stranger.get(f"{http.server.url}/readyz")

    assert (refused.status, wrong.status, basic.status, ready.status) == (401, 401, 401, 200)


async def test_every_request_leaves_a_line(tmp_path: Path) -> None:
    server = Server(users={_TOKEN: ADMIN}, audit_log=tmp_path / "audit")
    await server.start()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {_TOKEN}"}) as session:
        await session.get(f"{server.url}{_MAPS}/none")
    await server.stop()

    [line] = (tmp_path / "audit").read_text(encoding="utf-8").splitlines()
    told = json.loads(line)
    assert (told["user"], told["verb"], told["resource"], told["code"]) == (
        "sandbox-admin",
        "GET",
        "configmaps",
        404,
    )


async def test_a_port_that_is_taken_is_refused_with_a_hint(http: Http) -> None:
    second = Server(port=http.server.port)

    with pytest.raises(PortTakenError) as refused:
        await second.start()

    assert "--port" in refused.value.hint


async def test_a_body_that_is_too_large_is_refused(http: Http) -> None:
    async with http.session.post(http.server.url + _MAPS, data=io.BytesIO(b"x" * 4_000_000)) as answer:
        body = await answer.json()

    assert (answer.status, body["reason"]) == (413, "RequestEntityTooLarge")


async def test_our_own_client_works_with_it(http: Http, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, http.server.url, _TOKEN)
    manifest = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
    }

    async with Client(read_kubeconfig([path])) as client:
        await client.create(NODES, {"metadata": {"name": "n"}})
        made = await client.create(PODS, manifest, "default")
        listed = await client.list(PODS)
        await client.evict(made)
        with pytest.raises(ApiError):
            await client.get(PODS, "none", "default")

    assert [each.metadata.name for each in listed.items] == ["p"]
    assert path.stat().st_mode & 0o077 == 0


async def test_a_watch_that_runs_out_of_time_ends_with_a_bookmark(http: Http) -> None:
    path = f"{_MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=1"

    async with http.session.get(http.server.url + path) as answer:
        lines = [json.loads(line) async for line in answer.content]

    assert [each["type"] for each in lines] == ["BOOKMARK"]
    assert lines[0]["object"]["kind"] == "ConfigMap"


async def test_a_watch_may_be_asked_for_as_a_table_or_for_metadata_alone(http: Http) -> None:
    await http.send("POST", _MAPS, _map("a"))
    forms = {}
    for word in ("Table", "PartialObjectMetadata"):
        accept = {"Accept": f"application/json;as={word};g=meta.k8s.io;v=v1"}
        query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
        async with http.session.get(f"{http.server.url}{_MAPS}?{query}", headers=accept) as answer:
            forms[word] = [json.loads(await answer.content.readline())["object"] for _ in range(2)]

    assert forms["Table"][0]["rows"][0]["cells"][0] == "a"
    assert forms["Table"][1]["columnDefinitions"] is None
    assert [each["kind"] for each in forms["PartialObjectMetadata"]] == ["PartialObjectMetadata"] * 2


async def test_a_watch_from_the_future_is_told_so(http: Http) -> None:
    [error] = await http.lines(f"{_MAPS}?watch=true&resourceVersion=99999", 1)

    assert (error["type"], error["object"]["code"]) == ("ERROR", 504)


async def test_a_web_page_of_another_origin_is_refused_even_with_the_token() -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    async with serving(token=_TOKEN) as server, aiohttp.ClientSession(headers=headers) as session:
        pods = f"{server.url}/api/v1/namespaces/default/pods"
        for page in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            async with session.get(pods, headers=page) as answer:
                assert answer.status == 403
                assert "hint: call the sandbox by its own address" in await answer.text()
        async with session.get(pods, headers={"Origin": server.url}) as answer:
            assert answer.status == 200
