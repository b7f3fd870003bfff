# SPDX-License-Identifier: Apache-2.0
"""Events: what happened to which object, told to the API server in the background.

The same thing said again raises the count of the first event, as users know it. Telling is best effort: when more waits
than fits, the newest is dropped, and a server that refuses is not asked again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from karpenter.kit.clock import Clock
from karpenter.sandbox.apiclient import Api, ApiError
from karpenter.sandbox.workloads.resources import Wire, stamp

__all__ = ["Recorder"]

_MOST_WAITING: Final = 20_000
_MOST_REMEMBERED: Final = 20_000
_WORKERS: Final = 4


@dataclass(slots=True)
class _Said:
    name: str
    count: int


class Recorder:
    """Writes events."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._waiting: asyncio.Queue[tuple[Wire, tuple[str, ...]]] = asyncio.Queue(_MOST_WAITING)
        self._said: dict[tuple[str, ...], _Said] = {}

    def record(
        self, about: Mapping[str, Any], reason: str, message: str, *, source: str, kind: str = "Normal"
    ) -> None:
        """Tells that something happened to an object.

        Args:
            about: The object, with its apiVersion and kind.
            reason: One word.
            message: A sentence.
            source: Who says so.
            kind: Normal or Warning.
        """
        metadata = about["metadata"]
        now = self._clock.now()
        reference = {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if metadata.get("namespace"):
            reference["namespace"] = metadata["namespace"]
        event: Wire = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name']}.{secrets.token_hex(8)}",
                "namespace": metadata.get("namespace") or "default",
            },
            "involvedObject": reference,
            "reason": reason,
            "message": message[:1024],
            "type": kind,
            "source": {"component": source},
            "reportingComponent": source,
            "reportingInstance": "",
            "firstTimestamp": stamp(now),
            "lastTimestamp": stamp(now),
            "count": 1,
        }
        try:
            self._waiting.put_nowait((event, (metadata["uid"], source, reason, message)))
        except asyncio.QueueFull:
            return

    async def run(self) -> None:
        """Writes what waits, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._write())

    async def _write(self) -> None:
        while True:
            event, key = await self._waiting.get()
            try:
                await self._send(event, key)
            except (ApiError, aiohttp.ClientError, TimeoutError):
                self._said.pop(key, None)

    async def _send(self, event: Wire, key: tuple[str, ...]) -> None:
        root = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        said = self._said.get(key)
        if said is not None:
            said.count += 1
            change = {"count": said.count, "lastTimestamp": event["lastTimestamp"]}
            await self._api.patch_once(f"{root}/{said.name}", change)
            return
        if len(self._said) >= _MOST_REMEMBERED:
            del self._said[next(iter(self._said))]
        self._said[key] = _Said(event["metadata"]["name"], 1)
        await self._api.create(root, event)
