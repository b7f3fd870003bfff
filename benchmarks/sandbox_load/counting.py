# SPDX-License-Identifier: Apache-2.0
"""How far pods, claims and nodes are, and when each pod got there, from watches of our own."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

__all__ = ["Counter"]

_PATHS = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "claims": "/apis/karpenter.sh/v1/nodeclaims",
}


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Meta(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str = ""
    deletion_timestamp: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    conditions: list[_Condition] = msgspec.field(default_factory=list)


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Object


_event = msgspec.json.Decoder(_Event)


@dataclass
class _Moments:
    """When objects got somewhere, by uid."""

    made: dict[str, float] = field(default_factory=dict)
    refused: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    gone: int = 0


class Counter:
    """Follows pods, claims and nodes."""

    def __init__(self, url: str, token: str, authority: Path) -> None:
        self._url = url
        self._trust = ssl.create_default_context(cafile=authority)
        self._headers = {"Authorization": f"Bearer {token}"}
        self.moments = {name: _Moments() for name in _PATHS}

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow for the length of a block."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._trust), headers=self._headers, timeout=timeout
        ) as session:
            tasks = [asyncio.create_task(self._follow(session, name)) for name in _PATHS]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, session: aiohttp.ClientSession, name: str) -> None:
        revision = "0"
        while True:
            query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={revision}"
            async with session.get(self._url + _PATHS[name] + query, read_bufsize=1 << 20) as answer:
                left = b""
                async for piece in answer.content.iter_any():
                    *lines, left = (left + piece).split(b"\n")
                    for line in lines:
                        if line.startswith(b'{"type":"ERROR"'):
                            revision = "0"
                            break
                        if line.startswith(b'{"type":"BOOKMARK"'):
                            continue
                        event = _event.decode(line)
                        revision = event.object.metadata.resource_version
                        self._take(name, event)
            await asyncio.sleep(0.1)

    def _take(self, name: str, event: _Event) -> None:
        now, moments, obj = time.monotonic(), self.moments[name], event.object
        uid = obj.metadata.uid
        moments.made.setdefault(uid, now)
        if event.type == "DELETED":
            moments.gone += 1
            return
        if obj.spec.node_name or obj.status.provider_id:
            moments.bound.setdefault(uid, now)
        for each in obj.status.conditions:
            if each.type == "Ready" and each.status == "True":
                moments.ready.setdefault(uid, now)
            elif each.type == "PodScheduled" and each.status == "False":
                moments.refused.setdefault(uid, now)

    def line(self) -> str:
        """How far everything is, in one line."""
        pods, nodes, claims = (self.moments[name] for name in ("pods", "nodes", "claims"))
        return (
            f"pods {len(pods.made)} made, {len(pods.bound)} bound, {len(pods.ready)} ready, {pods.gone} gone; "
            f"claims {len(claims.made)} made, {len(claims.bound)} launched; "
            f"nodes {len(nodes.made)} joined, {len(nodes.ready)} ready, {nodes.gone} gone"
        )

    def waits_s(self) -> dict[str, Any]:
        """How long pods waited from their making until they were bound, and until they were ready."""
        pods = self.moments["pods"]
        return {
            name: _shares([moment - pods.made[uid] for uid, moment in there.items()])
            for name, there in (("until_bound_s", pods.bound), ("until_ready_s", pods.ready))
        }


def _shares(values: list[float]) -> dict[str, float]:
    values.sort()
    if not values:
        return {}
    return {
        name: round(values[min(int(share * len(values)), len(values) - 1)], 2)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
    }
