# SPDX-License-Identifier: Apache-2.0
"""The sandbox's client, and what controllers need beyond it: replacing a part of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from karpenter.sandbox.apiclient import Api

__all__ = ["Client"]


class Client(Api):
    """An API server, for the length of an ``async with`` block."""

    async def put(self, path: str, document: Mapping[str, Any]) -> bytes:
        """Replaces an object or a part of one; trouble that passes is waited out.

        Raises:
            ApiError: The server refused for good.
        """
        return await self._patiently("PUT", path, document, "application/json")
