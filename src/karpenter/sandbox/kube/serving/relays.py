# SPDX-License-Identifier: Apache-2.0
"""Requests that the API server passes on to a kubelet: logs and ports of pods that have a process.

A Node whose kubelet serves says so by its port, which is not that of the kubelets that serve nothing (10250); all of
them are on loopback. What has no process is answered as ``engine.streams`` says.

====================  ========================================================================================
``pods/log``          the log of a container, also while it is being written
``pods/proxy``        a request to one of a pod's ports, by number or by name
``pods/portforward``  connections to a pod's ports, see ``forwarding``
====================  ========================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import aiohttp
from aiohttp import web

from karpenter.sandbox.kube.engine.calls import Call, Target, parse_target
from karpenter.sandbox.kube.engine.engine import Engine
from karpenter.sandbox.kube.errors import ApiError
from karpenter.sandbox.kube.serving.forwarding import forward, wants_spdy

__all__ = ["Relays"]

Object = dict[str, Any]
_NOTHING_SERVED: Final = 10250
_PROXY: Final = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/proxy(/.*)?")
_NAMED: Final = re.compile(r"(?:(https?):)?([^:]+)(?::([^:]*))?")
# What belongs to one connection and not to what is sent over it.
_HOP_BY_HOP: Final = frozenset(
    {
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_CONNECT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Served:
    """A pod whose kubelet serves, and that kubelet's address."""

    pod: Object
    url: str

    @property
    def path(self) -> str:
        metadata = self.pod["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"


class Relays:
    """Passes requests on to kubelets.

    Args:
        engine: The objects.
        token: Who we are to kubelets.
    """

    def __init__(self, engine: Engine, token: str) -> None:
        self._engine = engine
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """End what is being passed on."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def answer(self, request: web.BaseRequest, call: Call) -> web.StreamResponse | None:
        """Pass a request on and return the answer; None where that is not for a kubelet to answer.

        Raises:
            ApiError: The kubelet does not answer, or the pod has no such port.
        """
        # The path as it was sent, so that what the pod gets is what was meant for it.
        proxied = _PROXY.fullmatch(request.raw_path.partition("?")[0])
        if proxied is not None:
            return await self._proxy(request, call, *proxied.groups(""))
        target = parse_target(call.path)
        if target is None or (target.group, target.plural) != ("", "pods"):
            return None
        served = self._served(target.namespace, target.name)
        if served is not None and (target.subresource, call.method) == ("log", "GET"):
            return await self._log(request, call, served)
        if served is not None and target.subresource == "portforward" and wants_spdy(request.headers):
            ports = await self._ports(served)
            return await forward(request, ports) if ports else None
        return None

    async def _log(self, request: web.BaseRequest, call: Call, served: _Served) -> web.StreamResponse | None:
        container = call.query.get("container") or served.pod["spec"]["containers"][0]["name"]
        url = f"{served.url}/containerLogs/{served.path}/{container}"
        return await self._pass(request, "GET", url, headers=self._own(), params=call.query, only=200)

    async def _proxy(
        self, request: web.BaseRequest, call: Call, namespace: str, name: str, path: str
    ) -> web.StreamResponse | None:
        named = _NAMED.fullmatch(unquote(name))
        served = self._served(namespace, named[2]) if named is not None else None
        if served is None or named is None:
            return None
        port = await self._port(served, named[3] or "")
        query = request.raw_path.partition("?")[2]
        url = f"http://127.0.0.1:{port}{path or '/'}{f'?{query}' if query else ''}"
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        return await self._pass(request, request.method, url, headers=headers, body=call.body)

    async def _port(self, served: _Served, wanted: str) -> int:
        """Return the port of loopback that stands for one of a pod's ports."""
        ports = [each for item in served.pod["spec"]["containers"] for each in item.get("ports") or ()]
        numbers = {each.get("name", ""): each["containerPort"] for each in reversed(ports)}
        number = int(wanted) if wanted.isdecimal() else numbers.get(wanted)
        if not wanted and ports:
            number = ports[0]["containerPort"]
        found = await self._ports(served)
        if number is None or str(number) not in found:
            raise ApiError(
                503,
                "ServiceUnavailable",
                f"error trying to reach service: pod {served.path} has no port {wanted or '80'}",
            )
        return found[str(number)]

    async def _ports(self, served: _Served) -> Mapping[str, int]:
        """Return the ports of loopback that stand for those of a pod; none where it has no process."""
        try:
            async with self._http().get(f"{served.url}/ports/{served.path}", headers=self._own()) as answer:
                return dict(await answer.json()) if answer.status == 200 else {}
        except (OSError, TimeoutError, aiohttp.ClientError) as trouble:
            raise _unreachable(trouble) from trouble

    async def _pass(
        self,
        request: web.BaseRequest,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None = None,
        body: bytes = b"",
        only: int = 0,
    ) -> web.StreamResponse | None:
        """Send a request and return its answer as it comes; None where only one status is wanted and it has another."""
        try:
            async with self._http().request(
                method, url, headers=headers, params=params, data=body or None, allow_redirects=False
            ) as answer:
                if only and answer.status != only:
                    return None
                kept = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for block in answer.content.iter_any():
                    await response.write(block)
                await response.write_eof()
                return response
        except ConnectionResetError:
            # Who asked has gone, which is how following a log ends.
            return web.Response()
        except (OSError, TimeoutError, aiohttp.ClientError) as trouble:
            raise _unreachable(trouble) from trouble

    def _served(self, namespace: str, name: str) -> _Served | None:
        pods = self._engine.catalogue.find("", "v1", "pods")
        nodes = self._engine.catalogue.find("", "v1", "nodes")
        assert pods is not None and nodes is not None  # noqa: S101, PT018 - every API server has them
        try:
            pod = self._engine.stored(pods, Target("", "v1", "pods", namespace, name)).obj
            node = self._engine.stored(
                nodes, Target("", "v1", "nodes", "", str(pod["spec"].get("nodeName") or "-"))
            ).obj
        except ApiError:
            return None
        endpoint = ((node.get("status") or {}).get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        port = int(endpoint.get("Port") or _NOTHING_SERVED)
        return None if port == _NOTHING_SERVED else _Served(pod, f"http://127.0.0.1:{port}")

    def _own(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
            self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=False)
        return self._session


def _unreachable(trouble: Exception) -> ApiError:
    said = str(trouble) or type(trouble).__name__
    return ApiError(503, "ServiceUnavailable", f"error trying to reach service: {said}")
