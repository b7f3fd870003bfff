# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: one address on loopback for all services and for ``/_model``.

Every request body is read whole, up to a limit far above AWS's own. A ticker settles the world a few times a second,
so that events go out on time while nobody calls. Stopping cuts long polls at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from karpenter.sandbox.ec2.admin import Admin
from karpenter.sandbox.ec2.dispatch import Dispatcher
from karpenter.sandbox.ec2.front.routing import Arrived
from karpenter.sandbox.ec2.journal import Journal
from karpenter.sandbox.ec2.seeds import seeded
from karpenter.sandbox.ec2.world import World
from karpenter.sandbox.opening import PortTakenError, opened, read_body

__all__ = ["PortTakenError", "Server", "serving"]

_log = logging.getLogger(__name__)

_TICK_S = 0.1
_BODY_LIMIT = 8 * 1024 * 1024


class Server:
    """One world behind one address."""

    def __init__(
        self,
        world: World,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        fresh: Callable[[World], World] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.world = world
        self.journal = journal
        self._fresh = fresh or (lambda old: seeded(old.clock.restarted(), old.options))
        self.host = host
        self.port = port
        self._dispatcher = Dispatcher(world, journal=journal)
        self._admin = Admin(self)
        self._runner: web.ServerRunner | None = None
        self._ticker: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Gives the address to set AWS_ENDPOINT_URL to."""
        return f"http://{self.host}:{self.port}"

    def reset(self) -> None:
        """Serves a fresh world from now on; calls under way end in the old one."""
        world = self._fresh(self.world)
        world.endpoint = self.url
        self.world = world
        self._dispatcher = Dispatcher(world, journal=self.journal)
        if self.journal is not None:
            self.journal.begin(world)

    async def start(self) -> None:
        """Opens the address.

        Raises:
            PortTakenError: Another program has the port.
        """
        runner = await opened(self._handle, self.host, self.port, shutdown_timeout_s=0.2)
        self.port = int(runner.addresses[0][1])
        self.world.endpoint = self.url
        self._runner = runner
        self._ticker = asyncio.create_task(self._tick(), name="ec2 model ticker")

    async def stop(self) -> None:
        """Closes the address and cuts what is still connected."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        if self._runner is not None:
            await self._runner.cleanup()
        if self.journal is not None:
            self.journal.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                self.world.settle()
            except Exception:  # noqa: BLE001 - one failed step must not end all others
                # The next tick tries again: a model that has stopped telling what happens is of no use to anybody.
                _log.exception("settling the world failed")

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await read_body(request, _BODY_LIMIT)
        if body is None:
            return web.Response(status=413, text=f"the body is longer than {_BODY_LIMIT} bytes\n")
        transport = request.transport
        arrived = Arrived(
            request.method,
            request.raw_path,
            request.headers,
            body,
            gone=lambda: transport is None or transport.is_closing(),
        )
        if arrived.path.startswith("/_model"):
            return self._admin.answer(arrived)
        answer = await self._dispatcher.answer(arrived)
        if answer is None:
            if transport is not None:
                transport.abort()
            # Nobody is left to read this; aiohttp wants an answer to drop.
            return web.Response(status=500)
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


@contextlib.asynccontextmanager
async def serving(world: World, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Server]:
    """Serves a world for the length of a block."""
    server = Server(world, host=host, port=port)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
