# SPDX-License-Identifier: Apache-2.0
"""A paper API server: real HTTP on loopback, answers written by the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from karpenter.kit.clock import FakeClock
from karpenter.kube import Client, ClusterConfig
from tests.patience import patient

Answer = Callable[["Seen"], Awaitable[web.StreamResponse] | web.StreamResponse]


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    request: web.Request


@dataclass
class Paper:
    """The server: a queue of answers, or one function for all requests."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    always: Answer | None = None

    def next(self, *answers: Answer) -> None:
        """Queue answers."""
        self.answers.extend(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Record a request and answer it."""
        text = await request.text()
        seen = Seen(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            json.loads(text) if text else None,
            request,
        )
        self.seen.append(seen)
        answer = self.answers.pop(0) if self.answers else self.always
        if answer is None:
            return web.json_response({"message": "the test has no answer left"}, status=418)
        made = answer(seen)
        return made if isinstance(made, web.StreamResponse) else await made


def says(body: Any, status: int = 200, **headers: str) -> Answer:
    """Answer with JSON."""
    return lambda _: web.json_response(
        body, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


def refuses(status: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    """Answer with a Status."""
    return says({"kind": "Status", "code": status, "reason": reason, "message": message}, status, **headers)


def breaks_off(seen: Seen) -> web.StreamResponse:
    """Cut the connection without an answer."""
    transport = seen.request.transport
    assert transport is not None
    transport.close()
    return web.Response()


def streams(*events: Any, hold: asyncio.Event | None = None) -> Answer:
    """Answer a watch with events, then end it, or keep it open until told."""

    async def answer(seen: Seen) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(seen.request)
        for event in events:
            await response.write(json.dumps(event).encode() + b"\n")
        if hold is not None:
            await hold.wait()
        return response

    return answer


@asynccontextmanager
async def paper_server() -> AsyncIterator[Paper]:
    """Serve on a free loopback port."""
    paper = Paper()
    app = web.Application(client_max_size=16 * 2**20)
    app.router.add_route("*", "/{tail:.*}", paper.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    paper.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield paper
    finally:
        await runner.cleanup()


class HastyClock(FakeClock):
    """A clock whose sleeps end at once and are written down."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Jump ahead instead of waiting."""
        self.slept.append(seconds)
        self.tick(max(seconds, 0))
        await asyncio.sleep(0)


@asynccontextmanager
async def client_for(paper: Paper, **options: Any) -> AsyncIterator[Client]:
    """A client of the paper server, by default with a clock that does not wait."""
    options.setdefault("clock", HastyClock())
    async with Client(ClusterConfig(server=paper.url, source="the test"), **options) as client:
        yield client


async def until(condition: Callable[[], object]) -> None:
    """Wait until something holds, for a bounded time."""
    async with asyncio.timeout(patient(5)):
        while not condition():  # noqa: ASYNC110 - what is waited for happens on the other side of a socket
            await asyncio.sleep(0.005)
