# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: one address on loopback, bearer tokens, an audit line a request, watches as streams.

Stopping ends all watches at once. Bodies are read whole, up to the limit that a real API server has.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO, Final
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from karpenter.sandbox.kube.engine.calls import Call, User
from karpenter.sandbox.kube.engine.definitions import Definitions
from karpenter.sandbox.kube.engine.engine import Engine
from karpenter.sandbox.kube.engine.protection import Protection
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.serving.dispatch import Answer, Dispatcher
from karpenter.sandbox.kube.serving.forms import encode
from karpenter.sandbox.kube.serving.relays import Relays
from karpenter.sandbox.kube.storage.seeds import seed
from karpenter.sandbox.opening import PortTakenError, opened, read_body

__all__ = ["PortTakenError", "Server", "serving"]

_BODY_LIMIT: Final = 3 * 1024 * 1024
_FOR_KUBELETS: Final = re.compile(r"/pods/[^/]+/(log|proxy|portforward)(/|$)")
# A log that can be told without a kubelet, and what cannot be: the ports of a pod.
_OPEN: Final = frozenset({200, 404, 501})
ADMIN: Final = User("sandbox-admin", ("system:masters", "system:authenticated"))


class Server:
    """The API behind one address.

    Args:
        engine: The objects; a new cluster's if not given.
        users: Who a token stands for.
        host: Where to listen.
        port: Where to listen; 0 takes a free one.
        tls: The certificate to serve with; None serves plain HTTP.
        version: The Kubernetes version to announce, such as 1.32; empty for the one whose behaviour is modelled.
        audit_log: A file that gets a line a request.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        users: Mapping[str, User] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        version: str = "",
        audit_log: Path | None = None,
    ) -> None:
        self.engine = engine or Engine()
        self.users = dict(users) if users is not None else {"sandbox": ADMIN}
        self.host = host
        self.port = port
        self._tls = tls
        self._audit_log = audit_log
        self._audit: IO[str] | None = None
        self._definitions = Definitions(self.engine)
        self._protection = Protection(self.engine)
        seed(self.engine)
        self._dispatcher = Dispatcher(self.engine, self.users, version)
        self._relays = Relays(
            self.engine, next((token for token, user in self.users.items() if user == ADMIN), "")
        )
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        """Gives the address."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self.host}:{self.port}"

    async def start(self) -> None:
        """Opens the address.

        Raises:
            PortTakenError: Another program has the port.
        """
        runner = await opened(
            self._handle,
            self.host,
            self.port,
            shutdown_timeout_s=0.3,
            tls=self._tls,
            max_field_size=65_536,
        )
        self.port = int(runner.addresses[0][1])
        self._runner = runner
        if self._audit_log is not None:
            self._audit = self._audit_log.open("a", encoding="utf-8")

    async def stop(self) -> None:
        """Ends all watches and closes the address."""
        self.engine.store.end_watches()
        await self._relays.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._audit is not None:
            self._audit.close()
            self._audit = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        begun = time.monotonic()
        path, _, query = request.raw_path.partition("?")
        call = Call(
            request.method,
            unquote(path),
            dict(parse_qsl(query, keep_blank_values=True)),
            request.headers,
            b"",
            User(""),
        )
        try:
            call.user = self._dispatcher.user(request.headers, call.path)
        except ApiError as error:
            answer = Answer(error.code, encode(error.body()))
        else:
            body = await read_body(request, _BODY_LIMIT)
            if body is None:
                limit = ApiError(
                    413, "RequestEntityTooLarge", f"Request entity too large: limit is {_BODY_LIMIT}"
                )
                answer = Answer(413, encode(limit.body()))
            else:
                call.body = body
                answer = self._answer(call)
                relayed = await self._relayed(request, call, answer, begun)
                if isinstance(relayed, web.StreamResponse):
                    return relayed
                answer = relayed
        if answer.watch is not None:
            self._write_audit(call, 200, begun)
            return await self._stream(request, answer)
        self._write_audit(call, answer.status, begun)
        headers = {
            "Content-Type": answer.content_type,
            "Cache-Control": "no-cache, private",
            **answer.headers,
        }
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    async def _relayed(
        self, request: web.BaseRequest, call: Call, answer: Answer, begun: float
    ) -> web.StreamResponse | Answer:
        """Return what a kubelet answers, where one is asked; else the answer that was found without one."""
        if answer.status not in _OPEN or not _FOR_KUBELETS.search(call.path):
            return answer
        try:
            response = await self._relays.answer(request, call)
        except ApiError as error:
            return Answer(error.code, encode(error.body()))
        if response is None:
            return answer
        self._write_audit(call, response.status, begun)
        return response

    def _answer(self, call: Call) -> Answer:
        try:
            return self._dispatcher.answer(call)
        except Exception as error:  # noqa: BLE001 - the last line: one bad request ends nobody else's
            told = f"Internal error occurred: {type(error).__name__}: {error}"
            failed = ApiError(500, "InternalError", told, details={"causes": [{"message": told}]})
            return Answer(500, encode(failed.body()))

    async def _stream(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        assert answer.watch is not None  # noqa: S101 - the caller looked
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        lines = answer.watch.lines()
        with contextlib.suppress(ConnectionError):
            async with contextlib.aclosing(lines):  # type: ignore[type-var]
                async for block in lines:
                    await response.write(block)
            await response.write_eof()
        return response

    def _write_audit(self, call: Call, code: int, begun: float) -> None:
        if self._audit is None:
            return
        target = call.target
        line = {
            "time": self.engine.now(),
            "user": call.user.name,
            "verb": call.method,
            "path": call.path,
            "resource": f"{target.plural}.{target.group}"
            if target and target.group
            else target.plural
            if target
            else "",
            "code": code,
            "ms": round((time.monotonic() - begun) * 1000, 3),
            "userAgent": call.headers.get("User-Agent", ""),
        }
        self._audit.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._audit.flush()


@contextlib.asynccontextmanager
async def serving(engine: Engine | None = None, *, token: str, port: int = 0) -> AsyncIterator[Server]:
    """Serves an API for the length of a block."""
    server = Server(engine, users={token: ADMIN}, port=port)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
