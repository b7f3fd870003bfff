# SPDX-License-Identifier: Apache-2.0
"""A small API server over real HTTP: objects by path, lists, watches, merge patches. It schedules nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from karpenter.sandbox.apiclient import Connection


class Cluster:
    """All objects of a server, and the ways in which it can misbehave."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.troubles: dict[str, list[int]] = {}
        self.connection = Connection("")
        self._versions = itertools.count(1)
        self._history: list[tuple[int, str, str]] = []
        self._watchers: list[tuple[str, asyncio.Queue[str | None]]] = []

    def put(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Stores an object and tells the watchers."""
        known = path in self.objects
        metadata = document.setdefault("metadata", {})
        metadata.setdefault("uid", f"uid-{path}")
        metadata["resourceVersion"] = str(next(self._versions))
        self.objects[path] = document
        self._tell("MODIFIED" if known else "ADDED", path)
        return document

    def drop(self, path: str) -> None:
        """Removes an object and tells the watchers."""
        self.objects[path]["metadata"]["resourceVersion"] = str(next(self._versions))
        self._tell("DELETED", path)
        del self.objects[path]

    def end_watches(self, error: int = 0) -> None:
        """Ends all watches, with an error event if one is asked for."""
        for _, queue in self._watchers:
            if error:
                status = {"kind": "Status", "status": "Failure", "code": error, "message": "too old"}
                queue.put_nowait(json.dumps({"type": "ERROR", "object": status}))
            queue.put_nowait(None)

    def bookmark(self) -> None:
        """Tells all watchers how far they are."""
        for _, queue in self._watchers:
            version = {"metadata": {"resourceVersion": str(next(self._versions))}}
            queue.put_nowait(json.dumps({"type": "BOOKMARK", "object": version}))

    def named(self, kind: str) -> list[dict[str, Any]]:
        return [each for path, each in self.objects.items() if f"/{kind}/" in path]

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, verb = request.path, request.method
        self.calls.append(f"{verb} {path}")
        due = self.troubles.get(f"{verb} {path}")
        if due:
            code = due.pop(0)
            return web.json_response({"code": code, "reason": "Trouble", "message": "on demand"}, status=code)
        if "watch" in request.query:
            return await self._watch(request)
        body = json.loads(await request.read() or b"null")
        if verb == "GET":
            return self._get(request)
        if verb == "POST":
            return self._post(path, body)
        return self._change(verb, path, body)

    def _get(self, request: web.BaseRequest) -> web.Response:
        path = request.path
        if path in self.objects:
            return web.json_response(self.objects[path])
        if path.rpartition("/")[2] not in {"nodes", "pods", "leases", "csinodes"}:
            return web.json_response({"code": 404, "reason": "NotFound"}, status=404)
        found = [each for key, each in self.objects.items() if self._is_in(key, path)]
        start = int(request.query.get("continue", 0))
        end = start + int(request.query.get("limit", len(found)))
        metadata = {
            "resourceVersion": str(next(self._versions)),
            "continue": str(end) if end < len(found) else "",
        }
        return web.json_response({"metadata": metadata, "items": found[start:end]})

    def _post(self, path: str, body: dict[str, Any]) -> web.Response:
        key = f"{path}/{body['metadata']['name']}"
        if key in self.objects:
            return web.json_response({"code": 409, "reason": "AlreadyExists"}, status=409)
        return web.json_response(self.put(key, body), status=201)

    def _change(self, verb: str, path: str, body: Any) -> web.Response:
        key = path.removesuffix("/status")
        if key not in self.objects:
            return web.json_response({"code": 404, "reason": "NotFound"}, status=404)
        if verb == "DELETE":
            self.drop(key)
            return web.json_response({})
        return web.json_response(self.put(key, _merged(self.objects[key], body)))

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        entry = (request.path, queue)
        self._watchers.append(entry)
        since = int(request.query["resourceVersion"])
        for version, path, line in self._history:
            if version > since and self._is_in(path, request.path):
                queue.put_nowait(line)
        await response.prepare(request)
        try:
            while (event := await queue.get()) is not None:
                await response.write(event.encode() + b"\n")
        except ConnectionError:
            pass
        finally:
            self._watchers.remove(entry)
        return response

    def _tell(self, kind: str, path: str) -> None:
        line = json.dumps({"type": kind, "object": self.objects[path]})
        self._history.append((int(self.objects[path]["metadata"]["resourceVersion"]), path, line))
        for watched, queue in self._watchers:
            if self._is_in(path, watched):
                queue.put_nowait(line)

    @staticmethod
    def _is_in(path: str, collection: str) -> bool:
        return path.split("/")[-2] == collection.rpartition("/")[2]


@contextlib.asynccontextmanager
async def running_cluster() -> AsyncIterator[Cluster]:
    """Serves an empty cluster for the length of a block."""
    cluster = Cluster()
    runner = web.ServerRunner(web.Server(cluster.answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        cluster.connection = Connection(f"http://127.0.0.1:{runner.addresses[0][1]}", token="t")
        yield cluster
    finally:
        cluster.end_watches()
        await runner.cleanup()


def _merged(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    made = dict(old)
    for key, value in change.items():
        made[key] = _merged(made.get(key) or {}, value) if isinstance(value, dict) else value
    return made
