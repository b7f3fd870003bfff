# SPDX-License-Identifier: Apache-2.0
"""Many small requests to an API server at once, over connections that stay open.

A refused request is an error that names the request and the server's words: whoever asks here expects to be served.
Only what is gone already may be missing, where the caller says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.e2e.controlplane import ControlPlane

__all__ = ["Api", "Wire", "together"]

Wire = dict[str, Any]

_CONNECTIONS = 12
_PLURALS = {
    "StorageClass": "storageclasses",
    "PriorityClass": "priorityclasses",
    "RuntimeClass": "runtimeclasses",
}


class Api:
    """The API server of a control plane, for the length of an ``async with`` block."""

    def __init__(self, plane: ControlPlane) -> None:
        self._url = plane.url
        self._token = plane.token
        self._trust = ssl.create_default_context(cafile=str(plane.ca_file))
        self._session: aiohttp.ClientSession | None = None
        self._scheduler = plane.processes["kube-scheduler"]

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._trust, limit=_CONNECTIONS),
            headers={"Authorization": f"Bearer {self._token}", "Accept": "application/json"},
            timeout=aiohttp.ClientTimeout(total=30),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(self, method: str, path: str, body: Any = None, *, may_miss: bool = False) -> Wire:
        """Send one request and return the answer; an empty one where ``may_miss`` is set and nothing is there.

        Raises:
            AssertionError: The server refused it.
        """
        assert self._session is not None, "the client is used outside of its block"
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(
            method, self._url + path, json=body, headers={"Content-Type": kind}
        ) as reply:
            if reply.status == 404 and may_miss:
                return {}
            assert reply.status < 300, f"{method} {path}: {reply.status} {await reply.text()}"
            answer: Wire = await reply.json()
            return answer

    @contextmanager
    def scheduler_paused(self) -> Iterator[None]:
        """Stop the scheduler's process, so that it sees everything that happens meanwhile at one moment."""
        os.kill(self._scheduler.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._scheduler.pid, signal.SIGCONT)

    async def create(self, value: Wire) -> Wire:
        """Create an object."""
        return await self.request("POST", path_of(value, named=False), value)

    async def patch(self, value: Wire, change: Wire, *, part: str = "") -> Wire:
        """Change an object by a merge patch, or the part of it that is named: ``status``."""
        return await self.request("PATCH", path_of(value) + (f"/{part}" if part else ""), change)

    async def delete(self, value: Wire) -> None:
        """Delete an object at once; one that is gone already is fine."""
        await self.request("DELETE", path_of(value), {"gracePeriodSeconds": 0}, may_miss=True)

    async def items(self, path: str) -> list[Wire]:
        """List the objects below a path."""
        found: list[Wire] = (await self.request("GET", path))["items"]
        return found


def path_of(value: Wire, *, named: bool = True) -> str:
    """Give the path of an object, or of the list that it belongs to."""
    version, metadata = value["apiVersion"], value["metadata"]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    space = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    plural = _PLURALS.get(value["kind"], value["kind"].lower() + "s")
    return f"{root}{space}/{plural}" + (f"/{metadata['name']}" if named else "")


async def together(work: Iterable[Awaitable[Any]]) -> None:
    """Do many things at once and wait for all of them; the first error ends the wait."""
    await asyncio.gather(*work)
