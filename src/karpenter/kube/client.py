# SPDX-License-Identifier: Apache-2.0
"""Requests to the API server: typed reads, writes built from the change alone, and watches.

Reads are tried again after a lost connection, a 5xx or a 429; writes only when the server said that it did not
act (429 for load) or the connection was refused, so that nothing is done twice by us. What is sent is never a
decoded object: those are trimmed. All requests pass the client's own rate limit, watches too; every write first
asks ``before_write``, which raises when this replica may no longer act.

An object that does not decode takes nothing else with it; lists and watches name it (`decoding`).
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec

from karpenter.api.base import Frozen
from karpenter.api.core import Pod
from karpenter.kit.backoff import BackoffPolicy
from karpenter.kit.clock import Clock, SystemClock
from karpenter.kube.config import ClusterConfig
from karpenter.kube.credentials import Credentials
from karpenter.kube.decoding import Listing, Undecodable, Watched, decode_answer, decode_event, decode_page
from karpenter.kube.errors import (
    ApiError,
    GoneError,
    KubeError,
    ServerError,
    SilentWatchError,
    TooManyRequestsError,
    UnreachableError,
    api_error,
)
from karpenter.kube.kinds import PODS, Kind
from karpenter.kube.limits import TokenBucket

__all__ = ["APPLY", "JSON_PATCH", "MERGE_PATCH", "Client"]

T = TypeVar("T", bound=Frozen)

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
# The server takes YAML here, and JSON is YAML.
APPLY: Final = "application/apply-patch+yaml"

_JSON: Final = "application/json"
_PAGE: Final = 500
# Requests under way besides watches. Each has a connection, which holds a quarter of a megabyte for TLS; an API server
# that takes a tenth of a second for each still answers three times the default rate.
_AT_ONCE: Final = 64
_ATTEMPTS: Final = 5
_LIST_RESTARTS: Final = 3
_RETRIES: Final = BackoffPolicy(base_s=0.25, cap_s=8.0, jitter=0.3)
# The longest Retry-After that a call sleeps through; a longer one is the caller's to plan around.
_LONGEST_WAIT_S: Final = 30.0
# The server is asked to end a watch after so long, and we reopen it where it ended. An idle kind gets no bookmarks from
# an API server whose etcd sends no progress notifications, so that only the end of a watch proves that it lived.
_WATCH_S: Final = 55
# A watch that is silent for longer hangs on a dead connection, or on something in between that holds it.
_WATCH_SILENCE_S: Final = 62.0


class Client:
    """Speaks to one API server; use it inside ``async with``."""

    def __init__(  # noqa: PLR0913 - each is a separate decision of the composition root
        self,
        config: ClusterConfig,
        *,
        clock: Clock | None = None,
        qps: float = 200,
        burst: float = 300,
        timeout_s: float = 30.0,
        user_agent: str = "karpenter",
        before_write: Callable[[], None] | None = None,
        on_undecodable: Callable[[Undecodable], None] | None = None,
    ) -> None:
        self.config = config
        self._clock = clock or SystemClock()
        self._credentials = Credentials(config, self._clock)
        self._bucket = TokenBucket(self._clock, rate_per_s=qps, burst=burst)
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._timeout_s = timeout_s
        self._user_agent = user_agent
        self._before_write = before_write
        self._on_undecodable = on_undecodable
        self._session: aiohttp.ClientSession | None = None
        # Asked once: aiohttp's own look, at every request, takes two turns of a thread, which decisions may hold.
        self._proxy = config.proxy or _environment_proxy(config.server)
        # Requests sent so far by verb and plural, for "how many calls did that cost".
        self.sent: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        context = await self._tls()
        connector = aiohttp.TCPConnector(ssl=context, limit=0, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent, "Accept": _JSON},
            auto_decompress=True,
            trace_configs=[self._last_look()],
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Reads one object as it is now."""
        path = kind.path(namespace, name)
        return decode_answer(await self._read(path), kind, f"GET {path}")

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        page: int = _PAGE,
    ) -> Listing[T]:
        """Reads all objects of a kind, in pages; a list that went stale between pages is begun again."""
        items: list[T] = []
        unreadable: list[Undecodable] = []
        token = ""
        restarts = 0
        while True:
            query = _query(labelSelector=labels, fieldSelector=fields, limit=str(page), **{"continue": token})
            try:
                body = await self._read(kind.path(namespace), query)
            except GoneError:
                restarts += 1
                if not token or restarts > _LIST_RESTARTS:
                    raise
                items, unreadable, token = [], [], ""
                continue
            found = decode_page(body, kind)
            items.extend(found.items)
            unreadable.extend(found.unreadable)
            token = found.metadata.continue_
            if not token:
                self._report(unreadable)
                return Listing(tuple(items), found.metadata.resource_version, tuple(unreadable))

    async def create(self, kind: Kind[T], manifest: Mapping[str, Any], namespace: str = "") -> T:
        """Creates an object from a manifest; apiVersion and kind are filled in."""
        whole = {"apiVersion": kind.api_version, "kind": kind.name, **manifest}
        path = kind.path(namespace)
        return decode_answer(await self._write("POST", path, whole), kind, f"POST {path}")

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        change: object,
        namespace: str = "",
        *,
        subresource: str = "",
        how: str = MERGE_PATCH,
    ) -> T:
        """Changes an object by a merge patch, or by a JSON patch if ``how`` says so."""
        path = kind.path(namespace, name, subresource)
        return decode_answer(
            await self._write("PATCH", path, change, content_type=how), kind, f"PATCH {path}"
        )

    async def apply(
        self,
        kind: Kind[T],
        name: str,
        manifest: Mapping[str, Any],
        namespace: str = "",
        *,
        manager: str,
        subresource: str = "",
    ) -> T:
        """Applies a manifest on the server's side: the fields named become ours, whoever had them before."""
        metadata = {**manifest.get("metadata", {}), "name": name}
        whole = {**manifest, "apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
        query = {"fieldManager": manager, "force": "true"}
        path = kind.path(namespace, name, subresource)
        return decode_answer(await self._write("PATCH", path, whole, query, APPLY), kind, f"PATCH {path}")

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
        propagation: str = "",
    ) -> None:
        """Deletes an object, only if it still is the one with that uid when one is given."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        if propagation:
            options["propagationPolicy"] = propagation
        await self._write("DELETE", kind.path(namespace, name), options)

    async def evict(self, pod: Pod, *, grace_period_s: int | None = None) -> None:
        """Asks the server to evict a pod.

        Raises:
            TooManyRequestsError: A PodDisruptionBudget forbids it now (``is_budget``).
            NotFoundError: The pod is gone.
            ConflictError: Another pod has its name by now.
        """
        options: dict[str, Any] = {"preconditions": {"uid": pod.metadata.uid}}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
            "deleteOptions": options,
        }
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/eviction"
        await self._write("POST", path, body)

    async def bind(self, pod: Pod, node: str) -> None:
        """Puts a pod on a node, as the scheduler does.

        Raises:
            ConflictError: It has a node already, is being deleted, or another pod has its name by now.
            NotFoundError: The pod is gone.
        """
        namespace, name = pod.metadata.namespace, pod.metadata.name
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._write("POST", PODS.path(namespace, name, "binding"), body)

    async def watch(
        self,
        kind: Kind[T],
        resource_version: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        timeout_s: int = _WATCH_S,
    ) -> AsyncIterator[Watched[T]]:
        """Yields what happens from a resource version on, until the server ends the watch.

        Raises:
            GoneError: The server no longer remembers that far back: list again.
            SilentWatchError: Nothing came for a minute, not even the end that was asked for.
            UnreachableError: The connection broke.
        """
        query = _query(
            watch="1",
            resourceVersion=resource_version,
            allowWatchBookmarks="true",
            timeoutSeconds=str(timeout_s),
            labelSelector=labels,
            fieldSelector=fields,
        )
        path = kind.path(namespace)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_s, sock_read=_WATCH_SILENCE_S)
        await self._bucket.take()
        self._count("WATCH", path)
        try:
            async with self._request(
                "GET", path, query, timeout=timeout, headers=await self._auth()
            ) as answer:
                if answer.status != 200:
                    raise _refusal(answer, await answer.read(), f"watch {kind.plural}")
                try:
                    async for line in _lines(answer):
                        event = decode_event(line, kind)
                        if event.unreadable is not None:
                            self._report([event.unreadable])
                        yield event
                finally:
                    _hang_up(answer)
        except aiohttp.SocketTimeoutError as error:
            raise SilentWatchError(
                f"the watch of {kind.plural} was silent for {_WATCH_SILENCE_S:g} s",
                hint="a load balancer or proxy before the API server may hold or drop long requests",
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self.config, f"watch {kind.plural}", error) from error

    async def raw(self, method: str, path: str, body: object = None) -> bytes:
        """Sends a request that has no kind, e.g. for discovery, and gives the body of the answer."""
        return await (self._read(path) if method == "GET" else self._write(method, path, body))

    async def _read(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        return await self._send("GET", path, query or {}, None, "")

    async def _write(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
    ) -> bytes:
        return await self._send(method, path, query or {}, msgspec.json.encode(body), content_type)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, content_type: str
    ) -> bytes:
        request = f"{method} {path}"
        attempt = 0
        while True:
            attempt += 1
            await self._bucket.take()
            async with self._free:
                if method != "GET" and self._before_write is not None:
                    self._before_write()
                try:
                    return await self._once(method, path, query, body, content_type)
                except KubeError as error:
                    wait_s = self._wait_before_retry(error, method, request, attempt)
                    if wait_s is None:
                        raise
            await self._clock.sleep(wait_s)

    def _wait_before_retry(self, error: KubeError, method: str, request: str, attempt: int) -> float | None:
        """Gives the seconds to wait before another attempt; None if the error is final."""
        if attempt >= _ATTEMPTS:
            return None
        wait_s = _RETRIES.delay_s(attempt, request)
        if isinstance(error, ApiError):
            if error.status == 401 and attempt == 1 and self._credentials.expire():
                return 0.0
            held_back = isinstance(error, TooManyRequestsError) and not error.is_budget
            failed = isinstance(error, ServerError) and method == "GET"
            if not (held_back or failed):
                return None
            asked_s = error.retry_after_s or 0.0
            return max(wait_s, asked_s) if asked_s <= _LONGEST_WAIT_S else None
        if isinstance(error, UnreachableError):
            refused = isinstance(error.__cause__, aiohttp.ClientConnectorError)
            return wait_s if method == "GET" or refused else None
        return None

    async def _once(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, content_type: str
    ) -> bytes:
        headers = dict(await self._auth())
        if body is not None:
            headers["Content-Type"] = content_type
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        self._count(method, path)
        try:
            async with self._request(
                method, path, query, timeout=timeout, headers=headers, data=body
            ) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self.config, f"{method} {path}", error) from error
        if answer.status >= 300:
            raise _refusal(answer, content, f"{method} {path}")
        return content

    def _last_look(self) -> aiohttp.TraceConfig:
        """Asks ``before_write`` once more when the connection is there and not a byte has gone out.

        A process may be stopped while it waits for a connection and go on long after somebody else has taken over.
        """

        async def ask(
            _session: aiohttp.ClientSession, _context: object, about: aiohttp.TraceRequestHeadersSentParams
        ) -> None:
            if about.method != "GET" and self._before_write is not None:
                self._before_write()

        trace = aiohttp.TraceConfig()
        # Despite its name aiohttp calls it before it writes the headers.
        trace.on_request_headers_sent.append(ask)
        return trace

    def _request(
        self, method: str, path: str, query: Mapping[str, str], **options: Any
    ) -> aiohttp.client._RequestContextManager:
        if self._session is None:
            raise RuntimeError("the client is used outside of its `async with` block")
        if self.config.tls_server_name:
            options["server_hostname"] = self.config.tls_server_name
        return self._session.request(
            method, self.config.server + path, params=query, proxy=self._proxy or None, **options
        )

    async def _auth(self) -> Mapping[str, str]:
        return await self._credentials.headers()

    def _count(self, verb: str, path: str) -> None:
        key = f"{verb} {_plural(path)}"
        self.sent[key] = self.sent.get(key, 0) + 1

    async def _tls(self) -> ssl.SSLContext | bool:
        config = self.config
        if config.server.startswith("http://"):
            return True
        context = ssl.create_default_context(cadata=config.ca.decode() or None)
        if not config.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = await self._credentials.certificate()
        if certificate:
            await asyncio.to_thread(_load_certificate, context, certificate, key)
        return context

    def _report(self, unreadable: Sequence[Undecodable]) -> None:
        if self._on_undecodable is not None:
            for each in unreadable:
                self._on_undecodable(each)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Cuts a stream into lines of any length; aiohttp's own reader refuses long ones."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line


def _hang_up(answer: aiohttp.ClientResponse) -> None:
    """Ends a stream that is left before its end; one that has come to its end has given its connection back.

    Closed in TLS's own way the connection would wait for the server's goodbye, which may outlive the client.
    """
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


def _refusal(answer: aiohttp.ClientResponse, content: bytes, request: str) -> ApiError:
    try:
        status = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.DecodeError:
        status = {"message": content[:300].decode(errors="replace").strip()}
    after = answer.headers.get("Retry-After", "")
    return api_error(answer.status, status, request, float(after) if after.isdigit() else None)


def _unreachable(config: ClusterConfig, request: str, error: BaseException) -> UnreachableError:
    why = str(error) or type(error).__name__
    return UnreachableError(
        f"{config.server} gave no answer to {request}: {why}",
        hint=f"the address comes from {config.source or 'the configuration'}",
    )


def _environment_proxy(server: str) -> str:
    """Gives the proxy that the environment names for a server, or nothing."""
    address = urlsplit(server)
    found = "" if proxy_bypass(address.netloc) else getproxies().get(address.scheme, "")
    return found if "://" in found or not found else f"http://{found}"


def _query(**parameters: str) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if value}


def _plural(path: str) -> str:
    """Gives what a path is about: the plural and the subresource, without names."""
    parts = [each for each in path.split("/") if each]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return "/".join(parts[::2]) or path


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL takes a client certificate only from files.
    with tempfile.TemporaryDirectory() as directory:
        pair = Path(directory) / "client.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(pair)
