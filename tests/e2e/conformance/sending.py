# SPDX-License-Identifier: Apache-2.0
"""Sends requests to one server, one after the other, and keeps the answers."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.conformance.requests import Request

__all__ = ["Answer", "send_all"]

_REFERENCE = re.compile(r"\{(rv|uid|continue):([\w./-]+)\}")
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; ``body`` is data where it was JSON."""

    status: int
    body: Any
    warning: str = ""


def send_all(
    url: str, token: str, requests: Iterable[Request], context: ssl.SSLContext | None = None
) -> dict[str, Answer]:
    """Sends the requests in order and gives the answers by name."""
    answers: dict[str, Answer] = {}
    server = _Server(url, token, context)
    for request in requests:
        assert request.name not in answers, f"two requests are named {request.name}"
        ends = time.monotonic() + _PATIENCE_S
        while True:
            answer = server.send(request, answers)
            if not request.until or answer.status == request.until or time.monotonic() > ends:
                break
            time.sleep(0.1)
        answers[request.name] = answer
    server.close()
    return answers


class _Server:
    def __init__(self, url: str, token: str, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._token = token
        self._context = context
        self._connection: http.client.HTTPConnection | None = None

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._context is not None:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=8, context=self._context
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=8)
        return self._connection

    def send(self, request: Request, answers: dict[str, Answer]) -> Answer:
        body = (
            request.body
            if isinstance(request.body, str) or request.body is None
            else json.dumps(request.body)
        )
        headers = {
            "Accept": request.accept,
            "User-Agent": "conformance/1.0",
            "Authorization": f"Bearer {self._token}",
        }
        if body is not None:
            headers["Content-Type"] = request.content_type
        headers |= request.headers
        connection = self._connected()
        sent = _resolved(body, answers).encode() if body is not None else None
        connection.request(request.method, _resolved(request.path, answers), sent, headers)
        try:
            response = connection.getresponse()
        except TimeoutError:
            self.close()
            return Answer(0, "no answer in time")
        text = self._watched(response, request.stream_s) if request.stream_s else response.read().decode()
        return Answer(
            response.status,
            _data(text, lines=bool(request.stream_s)),
            ", ".join(response.headers.get_all("Warning") or []),
        )

    def _watched(self, response: http.client.HTTPResponse, listen_s: float) -> str:
        text = b""
        connection = self._connection
        assert connection is not None
        assert connection.sock is not None
        connection.sock.settimeout(listen_s)
        try:
            while piece := response.read1(65536):
                text += piece
        except (TimeoutError, ssl.SSLError, OSError):
            pass
        self.close()
        return text.decode()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _data(text: str, *, lines: bool) -> Any:
    try:
        if lines:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text)
    except ValueError:
        return text


def _resolved(text: str, answers: dict[str, Answer]) -> str:
    def value(match: re.Match[str]) -> str:
        body = answers[match[2]].body
        key = {"rv": "resourceVersion", "uid": "uid", "continue": "continue"}[match[1]]
        return str(body.get("metadata", {}).get(key, "0")) if isinstance(body, dict) else "0"

    return _REFERENCE.sub(value, text)
