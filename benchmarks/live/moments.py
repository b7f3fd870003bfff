# SPDX-License-Identifier: Apache-2.0
"""When things happened, from what was written down anyway: pure.

The API server's audit log has the moment of every request, so measuring needs no watcher that competes with what is
measured. A pod is marked when the API server has answered the scheduler's first write to its status. Pods are served
in the order in which they were marked: the k-th pod by the launch that brings the k-th place. That gives the mean wait
whatever pod goes where, asks neither side which pod it had in mind, and is the same rule for both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

__all__ = ["Launch", "Request", "marks", "node_creations", "percentile", "read_audit", "seconds_of", "waits"]

_SCHEDULER: Final = "system:kube-scheduler"


@dataclass(frozen=True, slots=True)
class Request:
    """One request that the API server has answered; times are seconds since 1970."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    agent: str
    code: int
    received_at: float
    answered_at: float


@dataclass(frozen=True, slots=True)
class Launch:
    """The call that brings a node, and the pods that the node is for."""

    at: float
    pods: int


def seconds_of(text: str) -> float:
    """Gives the seconds since 1970 of a moment as Kubernetes and the EC2 model write it."""
    return datetime.fromisoformat(text).timestamp()


def read_audit(lines: Iterable[str], *resources: str) -> list[Request]:
    """Reads the answered requests about some resources; a last line that is not yet whole is left out."""
    wanted = [f'"resource":"{each}"' for each in resources]
    found = []
    for line in lines:
        if not line.endswith("\n") or (wanted and not any(each in line for each in wanted)):
            continue
        event = json.loads(line)
        if event.get("stage") == "ResponseComplete":
            found.append(_request(event))
    return found


def _request(event: Mapping[str, Any]) -> Request:
    about = event.get("objectRef") or {}
    return Request(
        verb=event.get("verb", ""),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        user=(event.get("user") or {}).get("username", ""),
        agent=event.get("userAgent", ""),
        code=int((event.get("responseStatus") or {}).get("code", 0)),
        received_at=seconds_of(event["requestReceivedTimestamp"]),
        answered_at=seconds_of(event["stageTimestamp"]),
    )


def marks(requests: Iterable[Request]) -> dict[str, float]:
    """Gives for each pod, by name, when the scheduler first wrote that it finds no place for it."""
    found: dict[str, float] = {}
    for each in requests:
        if (
            each.user == _SCHEDULER
            and (each.resource, each.subresource, each.verb) == ("pods", "status", "patch")
            and each.code == 200
        ):
            found[each.name] = min(each.answered_at, found.get(each.name, math.inf))
    return found


def node_creations(requests: Iterable[Request]) -> dict[str, float]:
    """Gives for each node, by name, when the request to create it came in."""
    return {
        each.name: each.received_at
        for each in requests
        if (each.resource, each.subresource, each.verb, each.code) == ("nodes", "", "create", 201)
    }


def waits(marked: Iterable[float], launches: Iterable[Launch]) -> list[float]:
    """Gives the seconds that each pod waited, the first marked first.

    Pods beyond the places that were launched fit into what had been ordered for others; they count as served by the
    last launch, which is no sooner than the truth.
    """
    since = sorted(marked)
    ordered = sorted(launches, key=lambda each: each.at)
    places = [launch.at for launch in ordered for _ in range(launch.pods)]
    places += [ordered[-1].at] * (len(since) - len(places)) if ordered else []
    return [max(at - moment, 0.0) for moment, at in zip(since, places, strict=False)]


def percentile(values: Sequence[float], share: float) -> float:
    """Gives the smallest value that this share of all values does not exceed."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]
