# SPDX-License-Identifier: Apache-2.0
"""What every server of the sandbox does alike: open an address on loopback, keep web pages out, read a body.

Loopback is open to every page that a browser on this machine shows: a page may send requests there, and one whose
name is made to stand for 127.0.0.1 (DNS rebinding) may read the answers too. So a request that a browser sends for a
page of another origin, or that is meant for a host which is not this machine, is refused before anything looks at it.
"""

from __future__ import annotations

import errno
import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from karpenter.errors import KarpenterError

__all__ = ["Handle", "PortTakenError", "foreign", "opened", "read_body"]

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_KEEP_ALIVE_S: Final = 75
_LINE_BYTES: Final = 65_536
_BACKLOG: Final = 1024


class PortTakenError(KarpenterError):
    """The port is in use by another program."""


async def opened(
    handle: Handle,
    host: str,
    port: int,
    *,
    shutdown_timeout_s: float,
    tls: ssl.SSLContext | None = None,
    **limits: Any,
) -> web.ServerRunner:
    """Open an address and give what serves it; its port is that of ``runner.addresses``.

    Args:
        handle: Answers a request; those of foreign web pages do not come to it.
        host: Where to listen.
        port: Where to listen; 0 takes a free one.
        shutdown_timeout_s: How long calls that are under way may go on when it is closed.
        tls: The certificate to serve with; None serves plain HTTP.
        limits: More of aiohttp's limits.

    Raises:
        PortTakenError: Another program has the port.
    """
    server = web.Server(
        _guarded(handle, host),
        access_log=None,
        keepalive_timeout=_KEEP_ALIVE_S,
        max_line_size=_LINE_BYTES,
        **limits,
    )
    runner = web.ServerRunner(server, shutdown_timeout=shutdown_timeout_s)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=_BACKLOG, ssl_context=tls)
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


def foreign(headers: Mapping[str, str], host: str = "127.0.0.1") -> str:
    """Return what shows that a request is a foreign web page's; nothing for those that may be answered.

    Args:
        headers: The headers of the request.
        host: The name or address that the server was told to listen on, which is its own besides loopback.
    """
    target = headers.get("Host", "")
    if target and not _is_own(target, host):
        return f"it is meant for the host {target}, which is not this machine"
    origin = headers.get("Origin")
    if origin is not None and origin not in {f"http://{target}", f"https://{target}"}:
        return f"it comes from a web page of {origin}"
    # Images, forms and links send no Origin with GET; browsers tell with this header where they come from.
    if headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
        return "it comes from a web page of another origin"
    return ""


def _guarded(handle: Handle, host: str) -> Handle:
    async def guarded(request: web.BaseRequest) -> web.StreamResponse:
        why = foreign(request.headers, host)
        if not why:
            return await handle(request)
        return web.Response(
            status=403,
            text=f"the request is refused: {why}\n"
            "hint: call the sandbox by its own address (127.0.0.1 or localhost), from a program and not from a "
            "web page\n",
        )

    return guarded


def _is_own(target: str, host: str) -> bool:
    try:
        name = urlsplit(f"//{target}").hostname or ""
    except ValueError:
        return False
    if name in {"localhost", host.lower()}:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


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
