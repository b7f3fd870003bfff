# SPDX-License-Identifier: Apache-2.0
"""Starts both servers, sends everything to each, and gives the answers.

The real one runs without its controllers and scheduler, which would change objects between two requests.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from karpenter.sandbox.kube.serving.server import ADMIN, Server
from tests.e2e.conformance.requests import Request
from tests.e2e.conformance.sending import Answer, send_all
from tests.e2e.controlplane import ControlPlane

__all__ = ["answers_of_both", "answers_of_real", "answers_of_sandbox", "sandbox"]

_TOKEN = secrets.token_hex(8)
_CONTROLLERS = ("kube-controller-manager", "kube-scheduler")


@contextmanager
def sandbox(token: str = _TOKEN, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serves the sandbox's API from a thread; gives its address."""
    ready = threading.Event()
    addresses: list[str] = []
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        server = Server(users={token: ADMIN}, tls=tls)
        await server.start()
        ended = asyncio.Event()
        addresses.append(server.url)
        loops.append((asyncio.get_running_loop(), ended))
        ready.set()
        await ended.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="sandbox api")
    thread.start()
    assert ready.wait(20), "the sandbox did not start"
    try:
        yield addresses[0]
    finally:
        loop, ended = loops[0]
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)


def answers_of_sandbox(requests: list[Request]) -> dict[str, Answer]:
    """Sends everything to the sandbox."""
    with sandbox() as url:
        return send_all(url, _TOKEN, requests)


def answers_of_real(requests: list[Request], plane: ControlPlane) -> dict[str, Answer]:
    """Sends everything to a real API server, whose controllers are stopped for good."""
    for name in _CONTROLLERS:
        plane.processes[name].stop(5.0)
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    return send_all(plane.url, plane.token, requests, context)


def answers_of_both(requests: list[Request]) -> tuple[dict[str, Answer], dict[str, Answer]]:
    """Sends everything to both; the real one is started for it."""
    with ControlPlane() as plane:
        real = answers_of_real(requests, plane)
    return real, answers_of_sandbox(requests)
