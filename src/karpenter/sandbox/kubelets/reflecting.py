# SPDX-License-Identifier: Apache-2.0
"""One list and watch of a kind, as a stream of what is there and what changes.

A watch that ends is taken up where it ended; a history that the server has forgotten (410) is listed anew. Errors of
the connection are the caller's, who starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from karpenter.api.core import Node
from karpenter.sandbox.apiclient import Api, ApiError
from karpenter.sandbox.kubelets.objects import PodView

__all__ = ["reflect"]

_T = TypeVar("_T", PodView, Node)


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _List(msgspec.Struct, Generic[_T]):
    metadata: _Meta
    items: list[_T]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    metadata: _Meta


async def reflect(
    api: Api,
    path: str,
    shape: type[_T],
    *,
    replace: Callable[[Sequence[_T]], None],
    change: Callable[[str, _T], None],
) -> None:
    """Tells of all objects at a path, for as long as the server can be reached.

    Args:
        api: The server.
        path: Where the objects are.
        shape: What they are.
        replace: Is told all that there is, at the beginning and whenever changes were missed.
        change: Is told of each that was ADDED, MODIFIED or DELETED.

    Raises:
        ApiError, aiohttp.ClientError, TimeoutError: It cannot, or refuses.
    """
    decoder = msgspec.json.Decoder(shape)
    while True:
        version = await _list(api, path, shape, replace)
        try:
            while True:
                async for line in api.watch(path, version):
                    event = msgspec.json.decode(line, type=_Event)
                    if event.type == "ERROR":
                        raise _expired(event.object)
                    if event.type == "BOOKMARK":
                        version = msgspec.json.decode(event.object, type=_Bookmark).metadata.resource_version
                        continue
                    found = decoder.decode(event.object)
                    version = found.metadata.resource_version
                    change(event.type, found)
        except ApiError as refused:
            if refused.status != 410:
                raise


async def _list(api: Api, path: str, shape: type[_T], tell: Callable[[Sequence[_T]], None]) -> str:
    decoder: Any = msgspec.json.Decoder(_List[shape])  # type: ignore[valid-type]
    items: list[_T] = []
    version = ""
    async for body in api.pages(path):
        page: _List[_T] = decoder.decode(body)
        items += page.items
        version = page.metadata.resource_version
    tell(items)
    return version


def _expired(status: msgspec.Raw) -> ApiError:
    said = msgspec.json.decode(status)
    return ApiError(f"the watch ended: {said.get('message', '')}", status=int(said.get("code", 500)))
