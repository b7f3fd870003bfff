# SPDX-License-Identifier: Apache-2.0
"""Which resources an API server serves at this moment, as far as they can be listed, watched and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import aiohttp
import msgspec

from karpenter.sandbox.apiclient import Api, ApiError
from karpenter.sandbox.workloads.resources import Resource

__all__ = ["discover"]

_NEEDED: Final = frozenset({"list", "watch", "delete"})


async def discover(api: Api) -> list[Resource]:
    """Gives each resource once, in the preferred version of its group if that has it; what does not answer is left out.

    Raises:
        ApiError, aiohttp.ClientError, TimeoutError: The server does not answer at all.
    """
    groups = msgspec.json.decode(await api.get("/apis")).get("groups") or ()
    versions = (
        dict.fromkeys((group["preferredVersion"]["groupVersion"], *_names(group.get("versions") or ())))
        for group in groups
    )
    found: dict[tuple[str, str], Resource] = {}
    for path in ("/api/v1", *(f"/apis/{each}" for several in versions for each in several)):
        try:
            said = msgspec.json.decode(await api.get(path))
        except (ApiError, aiohttp.ClientError, TimeoutError):
            continue
        group, _, version = said["groupVersion"].rpartition("/")
        for each in said.get("resources") or ():
            if "/" not in each["name"] and set(each.get("verbs") or ()) >= _NEEDED:
                resource = Resource(group, version, each["name"], each["kind"], bool(each.get("namespaced")))
                found.setdefault((group, resource.plural), resource)
    return list(found.values())


def _names(versions: Iterable[Mapping[str, str]]) -> Iterator[str]:
    return (each["groupVersion"] for each in versions)
