# SPDX-License-Identifier: Apache-2.0
"""One request of the comparison.

A path or body may say ``{rv:NAME}`` or ``{uid:NAME}``: the resource version or uid in the answer to an earlier
request, which differ from server to server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["APPLY", "JSON_PATCH", "MERGE", "STRATEGIC", "TABLE", "Request"]

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent.

    Attributes:
        name: Tells it from the others; a difference is known by this name.
        method: The verb.
        path: With the query.
        body: Sent as JSON; text is sent as it is.
        content_type: Of the body.
        accept: What the answer may be.
        until: The status to wait for, where a server needs a moment.
        compared: Whether the answer matters.
        stream_s: For a watch: how long to listen.
    """

    name: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    until: int = 0
    compared: bool = True
    stream_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
