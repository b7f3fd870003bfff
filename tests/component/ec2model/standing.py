# SPDX-License-Identifier: Apache-2.0
"""A model on a free port, with clients of the real boto3 that know it by its address alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.config import Config

from karpenter.sandbox.ec2.clock import ModelClock
from karpenter.sandbox.ec2.seeds import seeded
from karpenter.sandbox.ec2.server import Server

START = datetime(2026, 1, 1, tzinfo=UTC)
_PATIENCE_S = 10


class Model:
    """One running model as its users see it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients: list[Any] = []

    def client(self, service: str, region: str = "us-west-2", **options: Any) -> Any:
        """Gives a boto3 client that asks once and does not retry."""
        config = Config(
            retries={"total_max_attempts": 1},
            read_timeout=_PATIENCE_S,
            connect_timeout=_PATIENCE_S,
            **options,
        )
        made = boto3.client(
            service,
            endpoint_url=self.url,
            region_name=region,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=config,
        )
        self._clients.append(made)
        return made

    def get(self, path: str) -> Any:
        """Reads an admin document."""
        return self._asked(urllib.request.Request(f"{self.url}/_model/{path}"))  # noqa: S310 - our own address

    def post(self, action: str, document: Any = None) -> Any:
        """Does an admin action; a refusal comes as its document with its status."""
        body = b"" if document is None else json.dumps(document).encode()
        return self._asked(urllib.request.Request(f"{self.url}/_model/{action}", body, method="POST"))  # noqa: S310

    def close(self) -> None:
        """Closes all clients."""
        for client in self._clients:
            client.close()

    def _asked(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return json.load(refused) | {"status": refused.code}


@contextlib.contextmanager
def standing_model() -> Iterator[Model]:
    """Serves a fresh world, whose clock stands still, from a thread of its own."""
    server = Server(seeded(ModelClock.fixed(START)))
    up = threading.Event()
    ends: list[Callable[[], object]] = []

    async def serve() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(ended.set))
        await server.start()
        up.set()
        await ended.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="ec2 model", daemon=True)
    thread.start()
    assert up.wait(_PATIENCE_S)
    model = Model(server.url)
    try:
        yield model
    finally:
        model.close()
        ends[0]()
        thread.join(_PATIENCE_S)
