# SPDX-License-Identifier: Apache-2.0
"""Questions about pods that several controllers ask, and how a pod is made from a template."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from karpenter.sandbox.scheduler.matching import read_selector
from karpenter.sandbox.workloads.resources import (
    POD,
    Resource,
    Wire,
    condition,
    controller_of,
    is_deleted,
    moment,
    owner_reference,
)
from karpenter.sandbox.workloads.selecting import selected
from karpenter.sandbox.workloads.world import World

__all__ = [
    "Availability",
    "availability",
    "claim_pods",
    "is_active",
    "is_finished",
    "is_ready",
    "template_hash",
    "template_pod",
    "victims_first",
]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Tells whether all containers of a pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def is_active(pod: Mapping[str, Any]) -> bool:
    """Tells whether a pod counts as a replica: it has not ended and nobody has deleted it."""
    return not is_finished(pod) and not is_deleted(pod)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Tells whether a pod is Ready."""
    found = condition(pod, "Ready")
    return found is not None and found["status"] == "True"


class Availability:
    """How many pods are ready and have been so for long enough, and when the next one will have been."""

    def __init__(self, pods: Iterable[Mapping[str, Any]], min_ready_s: int, now: datetime) -> None:
        self.ready = 0
        self.available = 0
        self.again_s: float | None = None
        for pod in pods:
            if not is_ready(pod):
                continue
            self.ready += 1
            wait_s = _until_available_s(pod, min_ready_s, now)
            if wait_s <= 0:
                self.available += 1
            else:
                self.again_s = wait_s if self.again_s is None else min(self.again_s, wait_s)


def availability(pod: Mapping[str, Any], min_ready_s: int, now: datetime) -> bool:
    """Tells whether a pod is ready and has been so for long enough."""
    return is_ready(pod) and _until_available_s(pod, min_ready_s, now) <= 0


def _until_available_s(pod: Mapping[str, Any], min_ready_s: int, now: datetime) -> float:
    found = condition(pod, "Ready") or {}
    since = found.get("lastTransitionTime")
    if min_ready_s == 0 or not since:
        return 0.0
    return (moment(since) + timedelta(seconds=min_ready_s) - now).total_seconds()


def template_hash(template: Mapping[str, Any], salt: int = 0) -> str:
    """Gives a short name for a pod template; templates that say the same have the same."""
    text = msgspec.json.encode([template, salt], order="deterministic")
    number = int.from_bytes(hashlib.blake2b(text, digest_size=6).digest())
    letters = []
    for _ in range(10):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def template_pod(
    template: Mapping[str, Any],
    owner: Mapping[str, Any],
    resource: Resource,
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Wire:
    """Writes a pod from a template, controlled by its owner; without a name the server makes one up."""
    said = template.get("metadata") or {}
    metadata: Wire = {
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(said.get("labels") or {}), **(labels or {})},
        "annotations": {**(said.get("annotations") or {}), **(annotations or {})},
        "finalizers": list(said.get("finalizers") or ()),
        "ownerReferences": [owner_reference(resource, owner)],
    }
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner['metadata']['name'][:57]}-"
    return {"metadata": metadata, "spec": msgspec.json.decode(msgspec.json.encode(template["spec"]))}


async def claim_pods(world: World, resource: Resource, owner: Wire) -> list[Wire]:
    """Gives the pods that belong to an owner, after adopting those without one that its selector selects.

    Pods that its selector no longer selects are let go.
    """
    uid = owner["metadata"]["uid"]
    selector = read_selector(owner["spec"].get("selector"))
    found = []
    for pod in world.store(POD).owned_by(uid):
        if selector.matches(pod["metadata"].get("labels") or {}) or is_deleted(pod):
            found.append(pod)
        elif not is_deleted(owner):
            await world.patch(POD, pod, _without_owner(pod, uid))
    if is_deleted(owner) or selector.is_empty:
        return found
    for pod in selected(world.store(POD), owner["metadata"]["namespace"], selector):
        if controller_of(pod) is None and is_active(pod):
            others = pod["metadata"].get("ownerReferences") or []
            change = {
                "metadata": {
                    "uid": pod["metadata"]["uid"],
                    "ownerReferences": [*others, owner_reference(resource, owner)],
                }
            }
            adopted = await world.patch(POD, pod, change)
            if adopted is not None:
                found.append(adopted)
    return found


def victims_first(related: Mapping[str, int]) -> Callable[[Wire], tuple[Any, ...]]:
    """Gives the order in which a ReplicaSet deletes pods: the least useful first.

    Args:
        related: How many pods of the same kind stand on each node.
    """

    def order(pod: Wire) -> tuple[Any, ...]:
        node = pod["spec"].get("nodeName") or ""
        phase = (pod.get("status") or {}).get("phase")
        cost = (pod["metadata"].get("annotations") or {}).get(_DELETION_COST, "0")
        ready = condition(pod, "Ready") or {}
        # Newer ones go first: later times sort before earlier ones.
        since = ready.get("lastTransitionTime") or "" if is_ready(pod) else ""
        return (
            bool(node),
            {"Pending": 0, "Unknown": 1}.get(phase or "Pending", 2),
            is_ready(pod),
            int(cost) if cost.lstrip("-").isdigit() else 0,
            -related.get(node, 0),
            _descending(since),
            _descending(pod["metadata"].get("creationTimestamp") or ""),
        )

    return order


def _without_owner(pod: Wire, uid: str) -> Wire:
    kept = [each for each in pod["metadata"]["ownerReferences"] if each["uid"] != uid]
    return {"metadata": {"uid": pod["metadata"]["uid"], "ownerReferences": kept}}


def _descending(written: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in written)
