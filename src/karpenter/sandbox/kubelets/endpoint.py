# SPDX-License-Identifier: Apache-2.0
"""What the kubelet of a node with processes serves to the API server: logs, and where the ports of its pods are.

====================================================  ========================================================
``/containerLogs/NAMESPACE/POD/CONTAINER``            the log, with the options of the API's own ``log``
``/ports/NAMESPACE/POD``                              the ports of loopback that stand for the pod's, as JSON
====================================================  ========================================================

404 means that the pod has no process. Callers need the token of the cluster's kubeconfig.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import parse_qsl

from aiohttp import web

from karpenter.sandbox.kubelets.processes import Process, Processes
from karpenter.sandbox.opening import opened

__all__ = ["Endpoint", "LogOptions", "log_lines"]

_FOLLOW_S: Final = 0.2
_BLOCK: Final = 64 * 1024
# Both our log and that of the Go controller have it in every line.
_TIME: Final = re.compile(rb'"time": ?"([^"]+)"')


class LogOptions:
    """Which part of a log is wanted; numbers that cannot be read were refused by the API server."""

    def __init__(self, query: dict[str, str]) -> None:
        self.previous = query.get("previous") == "true"
        self.follow = query.get("follow") == "true" and not self.previous
        self.timestamps = query.get("timestamps") == "true"
        self.tail = int(query["tailLines"]) if query.get("tailLines") else None
        self.limit = int(query["limitBytes"]) if query.get("limitBytes") else None
        self.since: datetime | None = None
        if query.get("sinceSeconds"):
            self.since = datetime.now(UTC) - timedelta(seconds=int(query["sinceSeconds"]))
        elif query.get("sinceTime"):
            self.since = datetime.fromisoformat(query["sinceTime"])


class Endpoint:
    """The server of one kubelet, on a free port of loopback."""

    def __init__(self, processes: Processes, token: str) -> None:
        self._processes = processes
        self._token = token
        self._runner: web.ServerRunner | None = None

    async def start(self) -> int:
        """Open the address and return its port."""
        self._runner = await opened(self._handle, "127.0.0.1", 0, shutdown_timeout_s=0.3)
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the address."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return web.Response(status=401, text="the token is not that of the cluster\n")
        words = request.path.strip("/").split("/")
        if words[0] == "containerLogs" and len(words) == 4:
            process = self._processes.of(*words[1:])
            if process is not None:
                options = LogOptions(dict(parse_qsl(request.query_string)))
                return await _log(request, process, options)
        if words[0] == "ports" and len(words) == 3:
            process = self._processes.of(*words[1:])
            if process is not None:
                return web.json_response({str(key): value for key, value in process.record.ports.items()})
        return web.Response(status=404, text="there is no such process\n")


async def _log(request: web.BaseRequest, process: Process, options: LogOptions) -> web.StreamResponse:
    path = Path(process.record.log)
    if options.previous:
        path = path.with_name(f"{int(path.stem) - 1}.log")
        if not path.exists():
            return web.Response(status=410, text="there was no run before\n")
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    left = options.limit
    with contextlib.suppress(ConnectionError), path.open("rb") as file:
        content = file.read()
        # A line that is being written is told when it is whole.
        end = content.rfind(b"\n") + 1 if options.follow else len(content)
        for line in log_lines(content[:end], options):
            block = line if left is None else line[:left]
            left = None if left is None else left - len(block)
            await response.write(block)
        if options.follow:
            file.seek(end)
            options.tail = None
            async for block in _following(file, process):
                for line in log_lines(block, options):
                    await response.write(line)
        await response.write_eof()
    return response


async def _following(file: BinaryIO, process: Process) -> AsyncIterator[bytes]:
    """Yield what is added to a log, in whole lines, until its process has ended."""
    rest = b""
    while True:
        is_running = process.is_running
        block = rest + file.read(_BLOCK)
        end = block.rfind(b"\n") + 1
        rest = block[end:]
        if end:
            yield block[:end]
        elif not is_running:
            if rest:
                yield rest
            return
        else:
            await asyncio.sleep(_FOLLOW_S)


def log_lines(content: bytes, options: LogOptions) -> Iterator[bytes]:
    """Yield the lines of a log that are wanted; a line without a time has that of the one before it."""
    lines = content.splitlines(keepends=True)
    moments: list[str] = []
    for line in lines:
        found = _TIME.search(line) if line.startswith(b"{") else None
        moments.append(found[1].decode() if found else moments[-1] if moments else "")
    chosen = list(zip(moments, lines, strict=True))
    if options.since is not None:
        chosen = [each for each in chosen if _moment(each[0]) >= options.since]
    if options.tail is not None:
        chosen = chosen[len(chosen) - min(options.tail, len(chosen)) :]
    for moment, line in chosen:
        yield b"%s %s" % (moment.encode(), line) if options.timestamps else line


def _moment(text: str) -> datetime:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC)
    return read if read.tzinfo else read.replace(tzinfo=UTC)
