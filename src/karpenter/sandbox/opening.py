# SPDX-License-Identifier: Apache-2.0
"""What every server of the sandbox does alike: open an address on loopback, and read a body up to a limit."""

from __future__ import annotations

import errno
from typing import Any, Final

from aiohttp import web

from karpenter.errors import KarpenterError

__all__ = ["PortTakenError", "opened", "read_body"]

_KEEP_ALIVE_S: Final = 75
_LINE_BYTES: Final = 65_536
_BACKLOG: Final = 1024


class PortTakenError(KarpenterError):
    """The port is in use by another program."""


async def opened(
    handle: Any, host: str, port: int, *, shutdown_timeout_s: float, **limits: Any
) -> web.ServerRunner:
    """Open an address and give what serves it; its port is that of ``runner.addresses``.

    Args:
        handle: Answers a request.
        host: Where to listen.
        port: Where to listen; 0 takes a free one.
        shutdown_timeout_s: How long calls that are under way may go on when it is closed.
        limits: More of aiohttp's limits.

    Raises:
        PortTakenError: Another program has the port.
    """
    server = web.Server(
        handle, access_log=None, keepalive_timeout=_KEEP_ALIVE_S, max_line_size=_LINE_BYTES, **limits
    )
    runner = web.ServerRunner(server, shutdown_timeout=shutdown_timeout_s)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=_BACKLOG)
    try:
        await site.start()
    except OSError as refused:
        await runner.cleanup()
        if refused.errno == errno.EADDRINUSE:
            raise PortTakenError(
                f"port {port} of {host} is in use",
                hint="choose another with --port, or leave --port out for a free one",
            ) from refused
        raise
    return runner


async def read_body(request: web.BaseRequest, limit: int) -> bytes | None:
    """Give the whole body of a request; None if it is longer than the limit."""
    if not request.can_read_body:
        return b""
    if (request.content_length or 0) > limit:
        return None
    chunks = bytearray()
    async for chunk in request.content.iter_any():
        chunks += chunk
        if len(chunks) > limit:
            return None
    return bytes(chunks)
