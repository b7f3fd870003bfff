# SPDX-License-Identifier: Apache-2.0
"""Small HTTP requests to a component, for readiness and for tests that look at the bare API.

An answer of any status is a value (`Reply`), because tests ask for refusals as often as for success; only a
server that cannot be reached, or that another authority vouches for, is an error. Proxies of the
environment are not used: everything is on loopback. Watches and streams are not served.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Connection", "Reply"]


@dataclass(frozen=True)
class Reply:
    """The answer to one request."""

    status: int
    text: str

    @property
    def is_success(self) -> bool:
        """Whether the status is in the 200s."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body as data; fails on a body that is not JSON."""
        return json.loads(self.text)


class Connection:
    """A server, whom to trust about it if it speaks TLS, and who we are; each request is a connection of its own."""

    def __init__(
        self,
        url: str,
        ca_file: Path | None,
        *,
        client_files: tuple[Path, Path] | None = None,
        token: str = "",
    ) -> None:
        self.url = url
        self._token = token
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        if client_files is not None:
            context.load_cert_chain(*client_files)
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
    ) -> Reply:
        """Send one request and return the answer, whatever its status.

        Args:
            method: ``GET``, ``POST``, ``PATCH`` and so on.
            path: begins with a slash; may have a query.
            body: data to send as JSON.
            token: another bearer token than the connection's own; ``""`` sends none.
            content_type: of the body; PATCH needs ``application/merge-patch+json`` or one of its like.
            timeout_s: how long any single wait on the socket may take.

        Raises:
            OSError: the server cannot be reached or trusted.
        """
        request = urllib.request.Request(  # noqa: S310 - the URL is ours
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Accept": "application/json"},
        )
        if body is not None:
            request.add_header("Content-Type", content_type)
        bearer = self._token if token is None else token
        if bearer:
            request.add_header("Authorization", f"Bearer {bearer}")
        try:
            with self._opener.open(request, timeout=timeout_s) as response:
                return Reply(response.status, response.read().decode())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Reply(refusal.code, refusal.read().decode())
