# SPDX-License-Identifier: Apache-2.0
"""A proxy before an API server that can hold the watches of one kind: nothing comes through, nothing is closed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
import yaml
from aiohttp import web

__all__ = ["StallingProxy"]

_HOPS: Final = frozenset({"Host", "Transfer-Encoding", "Content-Length", "Content-Encoding", "Connection"})
_TICK_S: Final = 0.05


class StallingProxy:
    """Forwards to an API server over plain HTTP, in a thread of its own; up inside a ``with`` block.

    Args:
        server: The address of the API server.
        authority: The certificate that it is known by.
        path: The list whose watches can be held, e.g. ``/api/v1/pods``.
    """

    def __init__(self, server: str, authority: Path, path: str) -> None:
        self._server = server
        self._authority = authority
        self._path = path
        self._stalled = threading.Event()
        self._over = threading.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(10)

    def stall(self) -> None:
        """Hold the watches from now on, also those that begin later."""
        self._stalled.set()

    def release(self) -> None:
        """Let through what was held."""
        self._stalled.clear()

    def kubeconfig(self, original: Path, copy: Path) -> Path:
        """Write a kubeconfig with the same user that leads through the proxy, over plain HTTP."""
        config = yaml.safe_load(original.read_text(encoding="utf-8"))
        [entry] = config["clusters"]
        assert entry["cluster"]["server"] == self._server, f"{original} does not name {self._server}"
        entry["cluster"] = {"server": self.url}
        copy.write_text(yaml.safe_dump(config), encoding="utf-8")
        return copy

    async def _serve(self) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{tail:.*}", self._forward)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        trusted = ssl.create_default_context(cafile=self._authority)
        connector = aiohttp.TCPConnector(limit=0, ssl=trusted)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=True) as self._session:
            self._up.set()
            while not self._over.is_set():  # noqa: ASYNC110 - another thread says so
                await asyncio.sleep(_TICK_S)
        await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        is_held = request.path == self._path and "watch" in request.query
        headers = {key: value for key, value in request.headers.items() if key not in _HOPS}
        async with self._session.request(
            request.method,
            self._server + request.path_qs,
            headers=headers,
            data=await request.read(),
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            kept = {key: value for key, value in answer.headers.items() if key not in _HOPS}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            # A client that has given up on a watch that was held is no trouble.
            with contextlib.suppress(aiohttp.ClientConnectionResetError):
                async for chunk in answer.content.iter_any():
                    await self._hold(is_held=is_held)
                    await response.write(chunk)
                await self._hold(is_held=is_held)
            return response

    async def _hold(self, *, is_held: bool) -> None:
        while is_held and self._stalled.is_set():  # noqa: ASYNC110 - another thread says so
            await asyncio.sleep(_TICK_S)
