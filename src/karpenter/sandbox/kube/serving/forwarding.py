# SPDX-License-Identifier: Apache-2.0
"""``kubectl port-forward`` to a pod that has a process: connections of the client, over SPDY, to ports of loopback.

For each connection the client opens a stream for errors and one for bytes, both with the pod's port in their headers.
Clients that would rather speak over a WebSocket are refused that, and then speak SPDY.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from karpenter.sandbox.kube.serving.spdy import Data, Framing, Opened, Ping, Reset

__all__ = ["PROTOCOL", "forward", "wants_spdy"]

PROTOCOL: Final = "portforward.k8s.io"
_UPGRADE: Final = "SPDY/3.1"
_BLOCK: Final = 64 * 1024


def wants_spdy(headers: Mapping[str, str]) -> bool:
    """Return whether a request wants its connection to become one of SPDY."""
    return headers.get("Upgrade", "").lower() == _UPGRADE.lower()


async def forward(request: web.BaseRequest, ports: Mapping[str, int]) -> web.StreamResponse:
    """Forward connections until the client goes.

    Args:
        request: The request; its connection is SPDY's from now on.
        ports: The ports of loopback that stand for those of the pod.
    """
    transport, server = request.transport, request.protocol
    if transport is None:
        return web.Response()
    head = ("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {_UPGRADE}")
    told = (*head, f"X-Stream-Protocol-Version: {PROTOCOL}")
    connection = _Connection(transport, ports)
    # The client is silent until it has this answer, so nothing is lost between the two protocols.
    transport.set_protocol(connection)
    transport.write("".join(f"{line}\r\n" for line in (*told, "")).encode())
    try:
        await connection.ended.wait()
    finally:
        await connection.close()
        server.connection_lost(None)
    return web.Response()


class _Connection(asyncio.Protocol):
    """One client, with all connections that it forwards."""

    def __init__(self, transport: asyncio.Transport, ports: Mapping[str, int]) -> None:
        self.ended = asyncio.Event()
        self._transport = transport
        self._ports = ports
        self._framing = Framing()
        self._errors: dict[str, int] = {}
        self._queues: dict[int, asyncio.Queue[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        """Take what the client sends."""
        for event in self._framing.feed(data):
            if isinstance(event, Opened):
                self._open(event)
            elif isinstance(event, Data) and event.stream in self._queues:
                # No bytes at all are the sign of the end.
                if event.content:
                    self._queues[event.stream].put_nowait(event.content)
                if event.is_last:
                    self._queues[event.stream].put_nowait(b"")
            elif isinstance(event, Reset) and event.stream in self._queues:
                self._queues[event.stream].put_nowait(b"")
            elif isinstance(event, Ping):
                self._transport.write(self._framing.pong(event))

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that the client has gone."""
        del exc
        self.ended.set()

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._transport.close()

    def _open(self, opened: Opened) -> None:
        self._transport.write(self._framing.reply(opened.stream))
        number, port = opened.headers.get("requestid", ""), opened.headers.get("port", "")
        if opened.headers.get("streamtype") == "error":
            self._errors[number] = opened.stream
            return
        self._queues[opened.stream] = asyncio.Queue()
        task = asyncio.create_task(self._serve(opened.stream, self._errors.pop(number, 0), port))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, stream: int, error: int, port: str) -> None:
        """Carry bytes between a stream and a port of the pod until one side ends."""
        told = b""
        try:
            if port not in self._ports:
                raise ConnectionRefusedError(f"nothing listens on port {port} of the pod")
            reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[port])
            with contextlib.closing(writer):
                sending = asyncio.create_task(self._send(stream, writer))
                try:
                    while block := await reader.read(_BLOCK):
                        self._transport.write(self._framing.data(stream, block))
                finally:
                    sending.cancel()
        except OSError as refused:
            told = f"error forwarding port {port} to pod: {refused}".encode()
        finally:
            self._queues.pop(stream, None)
        self._transport.write(self._framing.data(stream, b"", is_last=True))
        if error:
            self._transport.write(self._framing.data(error, told, is_last=True))

    async def _send(self, stream: int, writer: asyncio.StreamWriter) -> None:
        queue = self._queues[stream]
        with contextlib.suppress(OSError):
            while block := await queue.get():
                writer.write(block)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
