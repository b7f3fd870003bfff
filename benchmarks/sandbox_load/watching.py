# SPDX-License-Identifier: Apache-2.0
"""Many watchers of pods, some of them slow, each of which must see every event once and in order.

A watcher begins with a list and follows from its revision. One that is cut off, because it was too slow, goes on from
the last revision that it saw, as clients do; one that is told that this is too long ago lists again, which is counted.
In the end everyone must know the same objects at the same revisions, and must have been told of them in the order of
their revisions, none twice. Runs as a program of its own, so that reading does not slow down what is measured:
``python -m benchmarks.sandbox_load.watching URL TOKEN CA COUNT SLOW``; a line on stdin ends it, JSON comes out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import sys
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

__all__ = ["Seen", "Watcher", "verdict", "watch_until"]

_PODS = "/api/v1/pods"
_SLOW_S = 0.4


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta
    code: int = 0


class _Event(msgspec.Struct):
    type: str
    object: _Object


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[_Object]


_event = msgspec.json.Decoder(_Event)
_list = msgspec.json.Decoder(_List)


@dataclass
class Seen:
    """What one watcher was told."""

    events: int = 0
    cut_off: int = 0
    relisted: int = 0
    mistakes: list[str] = field(default_factory=list)
    # The revision of each object that is there, by uid.
    objects: dict[str, int] = field(default_factory=dict)
    revision: int = 0

    def take_line(self, line: bytes) -> int:
        """Note one event, and what is wrong with it; give the code of an error, or 0."""
        event = _event.decode(line)
        if event.type == "ERROR":
            return event.object.code
        metadata = event.object.metadata
        uid, revision = metadata.uid, int(metadata.resource_version)
        if event.type == "BOOKMARK":
            self.revision = max(self.revision, revision)
            return 0
        self.events += 1
        if revision <= self.revision:
            self.mistakes.append(f"{event.type} of {uid} at {revision} came after {self.revision}")
        known = uid in self.objects
        if (event.type == "ADDED") is known:
            self.mistakes.append(f"{event.type} of {uid}, which is {'known' if known else 'not known'}")
        if event.type == "DELETED":
            self.objects.pop(uid, None)
        else:
            self.objects[uid] = revision
        self.revision = revision
        return 0


class Watcher:
    """One client that follows all pods.

    Args:
        session: To the server.
        url: The server's address.
        stop: From then on nobody is slow any more.
        pause_s: How long a slow client does nothing after each piece that it has read; 0 for one that is not.
    """

    def __init__(
        self, session: aiohttp.ClientSession, url: str, stop: asyncio.Event, pause_s: float = 0.0
    ) -> None:
        self._session = session
        self._url = url
        self._stop = stop
        self._pause_s = pause_s
        self.seen = Seen()

    async def run(self) -> None:
        """Follow until cancelled."""
        await self.relist()
        while True:
            query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={self.seen.revision}"
            # A slow client reads little at a time and leaves the rest in the sockets.
            size = 4096 if self._pause_s else 1 << 18
            async with self._session.get(self._url + _PODS + query, read_bufsize=size) as answer:
                if not await self._follow(answer):
                    await self.relist()
                    self.seen.relisted += 1
            self.seen.cut_off += 1

    async def relist(self) -> None:
        """Forget everything and list."""
        async with self._session.get(self._url + _PODS) as answer:
            found = _list.decode(await answer.read())
        self.seen.revision = int(found.metadata.resource_version)
        self.seen.objects = {each.metadata.uid: int(each.metadata.resource_version) for each in found.items}

    async def _follow(self, answer: aiohttp.ClientResponse) -> bool:
        """Take events until the stream ends; tell whether it may be taken up where it ended."""
        left = b""
        async for piece in answer.content.iter_any():
            *lines, left = (left + piece).split(b"\n")
            for line in lines:
                code = self.seen.take_line(line)
                if code:
                    return code != 410
            if self._pause_s:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), self._pause_s)
        return True


def _narrow(address: Any) -> socket.socket:
    """Opens a socket that holds little, so that who reads slowly is soon felt at the other end."""
    opened = socket.socket(address[0], address[1], address[2])
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
    return opened


def _session(token: str, trust: ssl.SSLContext | None, opens: Any = None) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(limit=0, ssl=trust or True, socket_factory=opens),
        timeout=aiohttp.ClientTimeout(total=None),
    )


async def watch_until(
    url: str,
    token: str,
    count: int,
    slow: int,
    stop: asyncio.Event,
    *,
    pause_s: float = _SLOW_S,
    trust: ssl.SSLContext | None = None,
) -> list[Seen]:
    """Watch with many until told to stop and everyone has caught up, as far as they do in a minute."""
    async with _session(token, trust) as session, _session(token, trust, _narrow) as narrow:
        watchers = [Watcher(narrow, url, stop, pause_s) for _ in range(slow)]
        watchers += [Watcher(session, url, stop) for _ in range(count - slow)]
        tasks = [asyncio.create_task(each.run()) for each in watchers]
        await stop.wait()
        last = Watcher(session, url, stop)
        await last.relist()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                while any(each.seen.objects != last.seen.objects for each in watchers):
                    if any(task.done() for task in tasks):
                        break
                    await asyncio.sleep(0.2)
                    await last.relist()
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for watcher, end in zip(watchers, ended, strict=True):
            if isinstance(end, Exception):
                watcher.seen.mistakes.append(f"ended with {type(end).__name__}: {end}")
            if watcher.seen.objects != last.seen.objects:
                missing = last.seen.objects.items() ^ watcher.seen.objects.items()
                watcher.seen.mistakes.append(f"knows {len(missing)} things otherwise than the last list")
    return [each.seen for each in watchers]


def verdict(seen: list[Seen], slow: int) -> dict[str, Any]:
    """Sum up what many watchers saw."""
    return {
        "watchers": len(seen),
        "slow": slow,
        "events": sum(each.events for each in seen),
        "cut_off": sum(each.cut_off for each in seen),
        "relisted": sum(each.relisted for each in seen),
        "mistakes": sum(len(each.mistakes) for each in seen),
        "first_mistakes": [line for each in seen for line in each.mistakes[:2]][:5],
    }


async def _main(url: str, token: str, authority: str, count: int, slow: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, stop.set)
    trust = ssl.create_default_context(cafile=authority)
    seen = await watch_until(url, token, count, slow, stop, trust=trust)
    print(json.dumps(verdict(seen, slow)))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
