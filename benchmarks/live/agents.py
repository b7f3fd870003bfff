# SPDX-License-Identifier: Apache-2.0
"""What keeps nodes and pods alive that exist only in the API, and writes down what becomes of them.

One kubelet for all: a new node is Ready after its boot time and renews its lease; a pod that is bound runs a moment
later; a pod that is deleted is gone a moment later, and so are the pods of a node that is gone. It works the same for
whoever takes the nodes away, and everything that is counted is counted here, from what the API server shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from karpenter.api import labels as names
from karpenter.api.conditions import READY, is_true
from karpenter.api.core import Node, Pod
from karpenter.api.nodeclaim import NodeClaim
from karpenter.kube import AlreadyExistsError, Change, Client, Informer, KubeError
from karpenter.kube.kinds import LEASES, NODE_CLAIMS, NODES, PODS

__all__ = ["Agents", "Pace", "Tally"]

_LEASES: Final = "kube-node-lease"
_LEASE_S: Final = 40
_AT_ONCE: Final = 32
_OWNER: Final = "ReplicaSet"


@dataclass(frozen=True)
class Pace:
    """How long nodes and pods take.

    Attributes:
        boot_s: From the creation of a node until it is Ready.
        start_s: From the binding of a pod until it is Ready.
        stop_s: From the deletion of a pod until it is gone.
        renew_s: From one renewal of a node's lease to the next.
    """

    boot_s: float = 20.0
    start_s: float = 1.0
    stop_s: float = 1.0
    renew_s: float = 15.0


@dataclass
class Tally:
    """What has happened since it was begun.

    Attributes:
        begun: When, by the monotonic clock.
        evictions: Pods of workloads that were told to go.
        landed: Pods of workloads that were bound.
        created: Claims that came.
        deleted: Claims that were told to go.
        last_change_s: When the last of all these, or a node's coming or going, happened, in seconds from the start.
    """

    begun: float = field(default_factory=time.monotonic)
    evictions: int = 0
    landed: int = 0
    created: int = 0
    deleted: int = 0
    last_change_s: float = 0.0

    def happened(self) -> None:
        """Notes that something has changed just now."""
        self.last_change_s = self.now_s

    @property
    def now_s(self) -> float:
        """Seconds since it was begun."""
        return time.monotonic() - self.begun


class Agents:
    """Follows nodes, claims and pods; `run` must be running."""

    def __init__(
        self, client: Client, prices: Mapping[tuple[str, str, str], float], pace: Pace | None = None
    ) -> None:
        self._client = client
        self._prices = prices
        self._pace = pace or Pace()
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self.tally = Tally()
        self.nodes: Informer[Node] = Informer(client, NODES)
        self.claims: Informer[NodeClaim] = Informer(client, NODE_CLAIMS)
        self.pods: Informer[Pod] = Informer(client, PODS, indexes={"node": lambda pod: (pod.spec.node_name,)})
        self.nodes.on_change(self._node_changed)
        self.claims.on_change(self._claim_changed)
        self.pods.on_change(self._pod_changed)

    async def run(self) -> None:
        """Works until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for informer in (self.nodes, self.claims, self.pods):
                    group.create_task(informer.run())
                group.create_task(self._renew())
        finally:
            for task in self._tasks:
                task.cancel()

    def start_over(self) -> None:
        """Begins to count anew."""
        self.tally = Tally()

    def price(self) -> float:
        """Gives what all nodes cost an hour."""
        total = 0.0
        for node in self.nodes:
            labels = node.metadata.labels
            key = (
                labels.get(names.INSTANCE_TYPE, ""),
                labels.get(names.ZONE, ""),
                labels.get(names.CAPACITY_TYPE, ""),
            )
            total += self._prices.get(key, 0.0)
        return total

    def running(self) -> int:
        """Gives how many pods of workloads run."""
        return sum(_is_owned(pod) and pod.status.phase == "Running" for pod in self.pods)

    def waiting(self) -> int:
        """Gives how many pods of workloads have no node."""
        return sum(_is_owned(pod) and not pod.spec.node_name for pod in self.pods)

    def _node_changed(self, change: Change[Node]) -> None:
        if change.old is None and change.new is not None:
            self.tally.happened()
            self._spawn(self._boot(change.new.metadata.name))
        elif change.new is None:
            self.tally.happened()
            for pod in self.pods.by("node", change.object.metadata.name):
                self._spawn(self._end(pod, 0.0))

    def _claim_changed(self, change: Change[NodeClaim]) -> None:
        old, new = change.old, change.new
        if old is None:
            self.tally.created += 1
            self.tally.happened()
        is_told = new is not None and new.metadata.deletion_timestamp is not None
        was_told = old is not None and old.metadata.deletion_timestamp is not None
        if (is_told or new is None) and not was_told:
            self.tally.deleted += 1
            self.tally.happened()

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        was_told = old is not None and old.metadata.deletion_timestamp is not None
        if new is None:
            if not was_told and _is_owned(change.object):
                self.tally.evictions += 1
                self.tally.happened()
            return
        if new.metadata.deletion_timestamp is not None:
            if not was_told:
                if _is_owned(new):
                    self.tally.evictions += 1
                    self.tally.happened()
                self._spawn(self._end(new, self._pace.stop_s))
            return
        if new.spec.node_name and (old is None or not old.spec.node_name):
            if _is_owned(new):
                self.tally.landed += 1
                self.tally.happened()
            if new.status.phase != "Running":
                self._spawn(self._start(new))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._do(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except KubeError:
            # What it was about is gone, or the server is being stopped.
            return

    async def _boot(self, name: str) -> None:
        await asyncio.sleep(self._pace.boot_s)
        lease = {"metadata": {"name": name}, "spec": self._lease(name)}
        with contextlib.suppress(AlreadyExistsError):
            await self._client.create(LEASES, lease, _LEASES)
        condition = {
            "type": READY,
            "status": "True",
            "reason": "KubeletReady",
            "message": "",
            "lastHeartbeatTime": _now(),
            "lastTransitionTime": _now(),
        }
        await self._client.patch(NODES, name, {"status": {"conditions": [condition]}}, subresource="status")

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._pace.renew_s)
            alive = [node.metadata.name for node in self.nodes if is_true(node.status.conditions, READY)]
            await asyncio.gather(*(self._do(self._renew_one(name)) for name in alive))

    async def _renew_one(self, name: str) -> None:
        async with self._free:
            await self._client.patch(LEASES, name, {"spec": self._lease(name)}, _LEASES)

    def _lease(self, name: str) -> dict[str, Any]:
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"holderIdentity": name, "leaseDurationSeconds": _LEASE_S, "renewTime": moment}

    async def _start(self, pod: Pod) -> None:
        await asyncio.sleep(self._pace.start_s)
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": _now()}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", READY)
        ]
        status = {
            "phase": "Running",
            "startTime": _now(),
            "conditions": conditions,
            "containerStatuses": [
                {
                    "name": "main",
                    "image": "pause",
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": _now()}},
                }
            ],
        }
        change = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        async with self._free:
            await self._client.patch(
                PODS, pod.metadata.name, change, pod.metadata.namespace, subresource="status"
            )

    async def _end(self, pod: Pod, after_s: float) -> None:
        await asyncio.sleep(after_s)
        async with self._free:
            await self._client.delete(
                PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_period_s=0
            )


def _is_owned(pod: Pod) -> bool:
    return any(each.kind == _OWNER for each in pod.metadata.owner_references)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
