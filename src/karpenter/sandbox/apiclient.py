# SPDX-License-Identifier: Apache-2.0
"""A small client of an API server for the kubelets and the workload controllers: list, watch, create, patch, delete.

It stands apart from the product's client, so that a mistake there is not made here too. A kubeconfig's current
context says where and as whom: client certificate or token, in the file or beside it; exec plugins are refused. Writes
are bounded in number; one that meets an outage or a refusal for a while (429, 5xx) is tried again until it succeeds
or the caller is cancelled, unless it is of a kind that will come again anyway.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import msgspec
import yaml

from karpenter.errors import KarpenterError

__all__ = ["Api", "ApiError", "Connection", "KubeconfigError", "read_kubeconfig"]

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
_PAGE: Final = 500
_WATCH_S: Final = 240
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 5.0


class KubeconfigError(KarpenterError):
    """A kubeconfig that does not say where the API server is, or in a way that cannot be followed here."""


class ApiError(KarpenterError):
    """The API server refused; ``status`` is HTTP's, ``reason`` Kubernetes' word for it."""

    def __init__(self, message: str, *, status: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the API server is, and who calls."""

    url: str
    tls: ssl.SSLContext | None = None
    token: str = ""
    authority: str = ""
    """The certificate by which the server is known, in PEM; empty where the kubeconfig has none."""


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0


def read_kubeconfig(path: Path) -> Connection:
    """Reads the current context of a kubeconfig.

    Raises:
        KubeconfigError: It cannot be read or followed.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        current = document["current-context"]
        context = _named(document, "contexts", current)["context"]
        cluster = _named(document, "clusters", context["cluster"])["cluster"]
        user = _named(document, "users", context["user"])["user"] or {}
        url = cluster["server"].rstrip("/")
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError) as broken:
        raise KubeconfigError(
            f"cannot read the kubeconfig {path}: {broken}", hint="give another with --kubeconfig"
        ) from broken
    if "exec" in user or "auth-provider" in user:
        raise KubeconfigError(
            f"the kubeconfig {path} gets its credentials from a plugin, which kubelets here do not start",
            hint="use one with a client certificate or a token",
        )
    token = user.get("token") or _beside(path, user.get("tokenFile")).decode().strip()
    tls = _tls(path, cluster, user) if url.startswith("https") else None
    return Connection(url, tls, token, _data(path, cluster, "certificate-authority").decode())


def _named(document: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    found: dict[str, Mapping[str, Any]] = {each["name"]: each for each in document[kind]}
    return found[name]


def _beside(path: Path, name: str | None) -> bytes:
    return (path.parent / name).read_bytes() if name else b""


def _data(path: Path, holder: Mapping[str, Any], field: str) -> bytes:
    inline = holder.get(f"{field}-data")
    return base64.b64decode(inline) if inline else _beside(path, holder.get(field))


def _tls(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _data(path, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _data(path, user, "client-certificate"), _data(path, user, "client-key")
    if certificate and key:
        # Python reads client certificates from files alone.
        with tempfile.NamedTemporaryFile() as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


class Api:
    """An API server, for the length of an ``async with`` block."""

    def __init__(self, connection: Connection, *, writes_at_once: int = 32) -> None:
        self._connection = connection
        self._writing = asyncio.Semaphore(writes_at_once)
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession | None = None
        self.calls: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        headers = {"Accept": "application/json", "User-Agent": "karpenter-sandbox-kubelets"}
        if self._connection.token:
            headers["Authorization"] = f"Bearer {self._connection.token}"
        self._session = await self._stack.enter_async_context(
            aiohttp.ClientSession(
                base_url=self._connection.url,
                headers=headers,
                connector=aiohttp.TCPConnector(limit=0, ssl=self._connection.tls or True),
                timeout=aiohttp.ClientTimeout(total=30),
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Gives the answer to a GET.

        Raises:
            ApiError: The server refused.
            aiohttp.ClientError, TimeoutError: It cannot be reached.
        """
        return await self._call("GET", path, query=query)

    async def pages(self, path: str) -> AsyncIterator[bytes]:
        """Gives a list, page by page; raises as ``get``."""
        query = {"limit": str(_PAGE)}
        while True:
            body = await self.get(path, query)
            yield body
            more = msgspec.json.decode(body, type=_Page).metadata.continue_
            if not more:
                return
            query["continue"] = more

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[bytes]:
        """Gives the events after a version as lines, until the server ends the watch; raises as ``get``."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(_WATCH_S),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_WATCH_S + 30)
        assert self._session is not None  # noqa: S101 - used inside the block
        async with self._session.get(path, params=query, timeout=timeout) as answer:
            if answer.status != 200:
                raise _refusal("GET", path, answer.status, await answer.read())
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield line

    async def create(self, path: str, document: Mapping[str, Any]) -> bytes:
        """Creates an object and gives it; trouble that passes is waited out.

        Raises:
            ApiError: The server refused for good.
        """
        return await self._patiently("POST", path, document, "application/json")

    async def patch(self, path: str, change: Mapping[str, Any], *, kind: str = STRATEGIC) -> bytes:
        """Patches an object and gives it; trouble that passes is waited out.

        Raises:
            ApiError: The server refused for good.
        """
        return await self._patiently("PATCH", path, change, kind)

    async def patch_once(self, path: str, change: Mapping[str, Any]) -> bytes:
        """Patches an object by merging, at once, and does not try again; raises as ``get``.

        For leases: behind a queue of other writes they would come too late.
        """
        return await self._call("PATCH", path, change, MERGE)

    async def delete(self, path: str, options: Mapping[str, Any]) -> bytes:
        """Deletes an object; trouble that passes is waited out.

        Raises:
            ApiError: The server refused for good.
        """
        return await self._patiently("DELETE", path, options, "application/json")

    async def _patiently(self, method: str, path: str, body: Any, content_type: str) -> bytes:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                async with self._writing:
                    return await self._call(method, path, body, content_type)
            except ApiError as refused:
                if refused.status != 429 and refused.status < 500:
                    raise
            except (TimeoutError, aiohttp.ClientError):
                pass
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "",
        *,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        assert self._session is not None  # noqa: S101 - used inside the block
        self.calls[method] = self.calls.get(method, 0) + 1
        async with self._session.request(
            method,
            path,
            params=query,
            data=None if body is None else msgspec.json.encode(body),
            headers={"Content-Type": content_type} if body is not None else None,
        ) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise _refusal(method, path, answer.status, content)
            return content


class _ListMeta(msgspec.Struct, rename={"continue_": "continue"}):
    continue_: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


def _refusal(method: str, path: str, status: int, body: bytes) -> ApiError:
    try:
        said = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        said = _Status(message=body[:200].decode("utf-8", "replace"))
    return ApiError(f"{method} {path}: {said.message or status}", status=status, reason=said.reason)
