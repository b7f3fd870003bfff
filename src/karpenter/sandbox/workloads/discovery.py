# SPDX-License-Identifier: Apache-2.0
"""Which resources an API server serves at this moment, as far as they can be listed, watched and deleted."""

from __future__ import annotations

from typing import Final

import aiohttp
import msgspec

from karpenter.sandbox.kubelets.client import Api, ApiError
from karpenter.sandbox.workloads.resources import Resource

__all__ = ["discover"]

_NEEDED: Final = frozenset({"list", "watch", "delete"})


async def discover(api: Api) -> list[Resource]:
    """Gives the resources in their preferred versions; groups that do not answer are left out.

    Raises:
        ApiError, aiohttp.ClientError, TimeoutError: The server does not answer at all.
    """
    groups = msgspec.json.decode(await api.get("/apis")).get("groups") or ()
    paths = ["/api/v1", *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in groups)]
    found: list[Resource] = []
    for path in paths:
        try:
            said = msgspec.json.decode(await api.get(path))
        except (ApiError, aiohttp.ClientError, TimeoutError):
            continue
        group, _, version = said["groupVersion"].rpartition("/")
        found += [
            Resource(group, version, each["name"], each["kind"], bool(each.get("namespaced")))
            for each in said.get("resources") or ()
            if "/" not in each["name"] and set(each.get("verbs") or ()) >= _NEEDED
        ]
    return found
