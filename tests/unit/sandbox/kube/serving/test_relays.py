# SPDX-License-Identifier: Apache-2.0
"""Requests about pods with a process, passed on to their kubelet, over real HTTP."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from karpenter.sandbox.kube.serving import spdy
from karpenter.sandbox.kube.serving.server import serving
from tests.unit.sandbox.kube.api import container, pod

pytestmark = pytest.mark.timeout(60)

_PODS = "/api/v1/namespaces/default/pods"
_PORTS = [{"name": "http", "containerPort": 80}]


class Kubelet:
    """A kubelet that remembers what it was asked, and a pod's program behind it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens: list[str] = []
        self.program = 0
        self.port = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.raw_path)
        self.tokens.append(request.headers.get("Authorization", ""))
        if request.path == "/containerLogs/default/p/main":
            return web.Response(text="real words\n")
        if request.path == "/ports/default/p":
            return web.json_response({"80": self.program})
        return web.Response(status=404)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = (await request.read()).decode()
        return web.Response(status=202, text=f"{request.method} {request.raw_path} {body}")


@pytest.fixture
async def kubelet() -> AsyncIterator[Kubelet]:
    made = Kubelet()
    runners = []
    for handle in (made.handle, made.answer):
        runner = web.ServerRunner(web.Server(handle))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        runners.append(runner)
    made.port, made.program = (each.addresses[0][1] for each in runners)
    yield made
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def api(kubelet: Kubelet) -> AsyncIterator[aiohttp.ClientSession]:
    """The API with a pod ``p`` on a node whose kubelet serves, and ``q`` on one whose does not."""
    async with (
        serving(token="secret") as server,
        aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer secret"}) as session,
    ):
        for name, port, node in (("p", kubelet.port, "one"), ("q", 10250, "two")):
            status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
            await _send(session, "/api/v1/nodes", {"kind": "Node", "metadata": {"name": node}})
            await _send(session, f"/api/v1/nodes/{node}/status", {"status": status}, method="PATCH")
            made = pod(name, nodeName=node, containers=[container(ports=_PORTS)])
            await _send(session, _PODS, made)
            running = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
            more = {"ready": True, "restartCount": 0, "image": "i", "imageID": ""}
            change = {"status": {"phase": "Running", "containerStatuses": [{**running, **more}]}}
            await _send(session, f"{_PODS}/{name}/status", change, method="PATCH")
        yield session


async def _send(
    session: aiohttp.ClientSession, path: str, document: Mapping[str, Any], method: str = "POST"
) -> None:
    kind = "application/json" if method == "POST" else "application/merge-patch+json"
    async with session.request(method, path, json=document, headers={"Content-Type": kind}) as answer:
        assert answer.status < 300, await answer.text()


async def _get(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as answer:
        return answer.status, await answer.text()


async def test_a_log_comes_from_the_kubelet_with_the_options_of_the_request(
    api: aiohttp.ClientSession, kubelet: Kubelet
) -> None:
    assert await _get(api, f"{_PODS}/p/log?tailLines=5&follow=true") == (200, "real words\n")
    assert kubelet.asked == ["/containerLogs/default/p/main?tailLines=5&follow=true"]
    assert kubelet.tokens == ["Bearer secret"]


async def test_a_pod_without_a_process_has_a_log_that_says_so(
    api: aiohttp.ClientSession, kubelet: Kubelet
) -> None:
    status, text = await _get(api, f"{_PODS}/q/log")

    assert status == 200
    assert "containers are not run in the sandbox" in text
    assert kubelet.asked == []


async def test_an_option_that_makes_no_sense_is_refused_before_a_kubelet_is_asked(
    api: aiohttp.ClientSession, kubelet: Kubelet
) -> None:
    assert (await _get(api, f"{_PODS}/p/log?tailLines=many"))[0] == 400
    assert kubelet.asked == []


@pytest.mark.parametrize("name", ["p:80", "http:p:80", "p:http", "p"])
async def test_a_request_reaches_the_port_of_a_pod(api: aiohttp.ClientSession, name: str) -> None:
    found = await _get(api, f"{_PODS}/{name}/proxy/metrics/x%20y?a=b")

    assert found == (202, "GET /metrics/x%20y?a=b ")


async def test_a_body_reaches_the_port_of_a_pod(api: aiohttp.ClientSession) -> None:
    async with api.post(f"{_PODS}/p:80/proxy/", data="words") as answer:
        assert await answer.text() == "POST / words"


async def test_a_port_that_a_pod_does_not_have_is_told(api: aiohttp.ClientSession) -> None:
    status, text = await _get(api, f"{_PODS}/p:81/proxy/")

    assert status == 503
    assert "has no port 81" in text


@pytest.mark.parametrize("what", ["proxy", "portforward"])
async def test_ports_of_a_pod_without_a_process_are_refused(api: aiohttp.ClientSession, what: str) -> None:
    status, text = await _get(api, f"{_PODS}/q/{what}")

    assert status == 501
    assert "containers are not run in the sandbox" in text


async def test_a_kubelet_that_does_not_answer_is_told(api: aiohttp.ClientSession, kubelet: Kubelet) -> None:
    status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}
    await _send(api, "/api/v1/nodes/one/status", {"status": status}, method="PATCH")

    assert (await _get(api, f"{_PODS}/p/log"))[0] == 503
    assert (await _get(api, f"{_PODS}/p:80/proxy/"))[0] == 503
    assert kubelet.asked == []


class Client:
    """A client of SPDY, as ``kubectl port-forward`` is one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._framing = spdy.Framing()
        self._deflate = zlib.compressobj(zdict=spdy.DICTIONARY)
        self.got: dict[int, bytes] = {}
        self.over: set[int] = set()
        self.pongs: list[int] = []

    def open(self, stream: int, **headers: str) -> None:
        pairs = [each.encode() for pair in headers.items() for each in pair]
        raw = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(x)) + x for x in pairs)
        block = self._deflate.compress(raw) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIBB", stream, 0, 0, 0) + block
        self._writer.write(struct.pack(">II", 0x80030001, len(body)) + body)

    def send(self, stream: int, content: bytes, *, is_last: bool = False) -> None:
        self._writer.write(self._framing.data(stream, content, is_last=is_last))

    def ping(self, number: int) -> None:
        self._writer.write(self._framing.pong(spdy.Ping(number)))

    async def until_over(self, *streams: int) -> None:
        while not set(streams) <= self.over:
            content = await self._reader.read(65536)
            assert content, "the connection has ended"
            for event in self._framing.feed(content):
                if isinstance(event, spdy.Data):
                    self.got[event.stream] = self.got.get(event.stream, b"") + event.content
                    self.over |= {event.stream} if event.is_last else set()
                elif isinstance(event, spdy.Ping):
                    self.pongs.append(event.number)

    def close(self) -> None:
        self._writer.close()


async def _forwarding(api: aiohttp.ClientSession) -> Client:
    url = api._base_url
    assert url is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", url.port)
    head = (
        f"POST {_PODS}/p/portforward HTTP/1.1",
        f"Host: 127.0.0.1:{url.port}",
        "Authorization: Bearer secret",
        "Connection: Upgrade",
        "Upgrade: SPDY/3.1",
        "X-Stream-Protocol-Version: portforward.k8s.io",
        "Content-Length: 0",
    )
    writer.write("".join(f"{line}\r\n" for line in (*head, "")).encode())
    told = await reader.readuntil(b"\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 101 ")
    assert b"X-Stream-Protocol-Version: portforward.k8s.io" in told
    return Client(reader, writer)


async def test_connections_are_forwarded_to_the_port_of_a_pod_several_over_one(
    api: aiohttp.ClientSession,
) -> None:
    client = await _forwarding(api)
    for number, (errors, data) in enumerate(((1, 3), (5, 7))):
        client.open(errors, streamtype="error", port="80", requestid=str(number))
        client.send(errors, b"", is_last=True)
        client.open(data, streamtype="data", port="80", requestid=str(number))
    client.ping(1)
    for data in (3, 7):
        request = f"GET /{data} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        client.send(data, request[:20])
        client.send(data, request[20:])

    await client.until_over(1, 3, 5, 7)

    assert client.got[3].endswith(b"GET /3 ")
    assert client.got[7].endswith(b"GET /7 ")
    assert client.got[1] == client.got[5] == b""
    assert client.pongs == [1]
    client.close()


async def test_a_port_without_a_listener_is_told_on_the_stream_of_errors(api: aiohttp.ClientSession) -> None:
    client = await _forwarding(api)
    client.open(1, streamtype="error", port="99", requestid="0")
    client.open(3, streamtype="data", port="99", requestid="0")

    await client.until_over(1, 3)

    assert b"nothing listens on port 99" in client.got[1]
    client.close()
    # The server goes on for others.
    assert (await _get(api, f"{_PODS}/p/log"))[0] == 200


def test_headers_are_compressed_with_the_dictionary_of_the_protocol() -> None:
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


def test_frames_that_come_in_pieces_are_told_when_they_are_whole() -> None:
    framing = spdy.Framing()
    sent = framing.data(1, b"words") + framing.reset(3)

    found = [event for byte in sent for event in framing.feed(bytes([byte]))]

    assert found == [spdy.Data(1, b"words", is_last=False), spdy.Reset(3)]
