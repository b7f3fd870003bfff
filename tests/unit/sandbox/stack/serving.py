# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes API in another thread, for callers that wait for their answers."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from karpenter.sandbox.kube.serving.server import serving
from karpenter.sandbox.stack.calls import KubeApi

__all__ = ["TOKEN", "api"]

TOKEN = secrets.token_hex(8)


@contextmanager
def api() -> Iterator[tuple[str, KubeApi]]:
    """Serve an API in another thread."""
    ready, stop, found = threading.Event(), asyncio.Event(), []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving(token=TOKEN) as server:
            found.append(server.url)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(10)
    client = KubeApi(found[0], TOKEN)
    try:
        yield found[0], client
    finally:
        client.close()
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
