# SPDX-License-Identifier: Apache-2.0
"""Small cares: pods that nobody will ever end, old events, and what every namespace is given.

Pods of nodes that are gone are removed after a while, pods that are being deleted and have no node at once. Every
namespace gets its account ``default`` and the certificate of the cluster's authority. Events end after an hour, unless
the server forgets them itself.
"""

from __future__ import annotations

from datetime import timedelta
from importlib.resources import files
from typing import Final

import msgspec

from karpenter.kit.tasks import TaskFactory
from karpenter.sandbox.apiclient import ApiError
from karpenter.sandbox.workloads.podstate import is_finished
from karpenter.sandbox.workloads.resources import (
    CONFIG_MAP,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    SERVICE_ACCOUNT,
    Resource,
    Wire,
    is_deleted,
    key_of,
    moment,
    with_condition,
)
from karpenter.sandbox.workloads.world import Controller, World

__all__ = ["Accounts", "EventExpiry", "PodCollector", "stand_in_authority"]

_ROOT_CA: Final = "kube-root-ca.crt"


def stand_in_authority() -> str:
    """Gives a certificate for pods to mount where the server has none, in PEM; it signs nothing."""
    text = files("karpenter.sandbox.workloads").joinpath("authority.crt").read_text(encoding="ascii")
    # The words before it are for people.
    return text[text.index("-----BEGIN") :]


class PodCollector:
    """Removes pods that would stay for ever."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._gone: dict[str, float] = {}

    def tasks(self) -> list[TaskFactory]:
        """Gives what runs for as long as the collector does."""
        return [self.run]

    async def run(self) -> None:
        """Looks now and then, until cancelled."""
        pause_s = self._world.settings.pod_gc_s
        while True:
            await self._world.clock.sleep(min(pause_s, 2.0))
            try:
                await self.collect()
            except ApiError as refused:
                self._world.tell(f"pod-garbage-collector: {refused}")

    async def collect(self) -> None:
        """Removes the pods that are due."""
        now = self._world.clock.monotonic()
        nodes = self._world.store(NODE)
        missing = set()
        for pod in self._world.store(POD).all():
            node = pod["spec"].get("nodeName") or ""
            if not node:
                if is_deleted(pod):
                    await self._world.delete(POD, pod, grace_s=0)
            elif nodes.get(("", node)) is None:
                missing.add(node)
                since = self._gone.setdefault(node, now)
                if now - since >= self._world.settings.gone_node_s:
                    await self._remove(pod)
        self._gone = {name: since for name, since in self._gone.items() if name in missing}

    async def _remove(self, pod: Wire) -> None:
        if not is_finished(pod):
            said = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
            }
            old = (pod.get("status") or {}).get("conditions") or ()
            status = {"phase": "Failed", "conditions": with_condition(old, said, self._world.now())}
            await self._world.patch(POD, pod, {"status": status}, "status")
        await self._world.delete(POD, pod, grace_s=0)


class Accounts(Controller):
    """Gives every namespace its default account and the authority's certificate."""

    name = "serviceaccount"
    source = "serviceaccount-controller"
    resource = NAMESPACE

    def __init__(self, world: World, authority: str) -> None:
        self._authority = authority
        super().__init__(world)

    def subscribe(self) -> None:
        """Looks at a namespace when it comes, or when what it was given is taken away."""
        super().subscribe()
        for each in (SERVICE_ACCOUNT, CONFIG_MAP):
            self.world.store(each).subscribe(self._lost)

    def _lost(self, old: Wire | None, new: Wire | None) -> None:
        if new is None and old is not None:
            self.queue.add(("", old["metadata"]["namespace"]))

    async def reconcile(self, wire: Wire) -> float | None:
        """Makes what is missing."""
        if is_deleted(wire):
            return None
        name = wire["metadata"]["name"]
        await self._make(SERVICE_ACCOUNT, name, "default", {})
        content: Wire = {
            "data": {"ca.crt": self._authority},
        }
        await self._make(CONFIG_MAP, name, _ROOT_CA, content)
        return None

    async def _make(self, resource: Resource, namespace: str, name: str, content: Wire) -> None:
        if self.world.store(resource).get((namespace, name)) is not None:
            return
        try:
            await self.world.create(resource, {"metadata": {"name": name, "namespace": namespace}, **content})
        except ApiError as refused:
            if refused.reason not in {"AlreadyExists", "NotFound", "Forbidden"}:
                raise


class EventExpiry:
    """Removes events that are older than their time to live."""

    def __init__(self, world: World) -> None:
        self._world = world

    def tasks(self) -> list[TaskFactory]:
        """Gives what runs for as long as the expiry does."""
        return [self.run]

    async def run(self) -> None:
        """Looks now and then, until cancelled."""
        while True:
            await self._world.clock.sleep(min(max(self._world.settings.event_ttl_s / 10, 1.0), 60.0))
            try:
                await self.expire()
            except ApiError as refused:
                self._world.tell(f"event-expiry: {refused}")

    async def expire(self) -> int:
        """Removes what is due and tells how many that were."""
        limit = self._world.now() - timedelta(seconds=self._world.settings.event_ttl_s)
        due = []
        async for body in self._world.api.pages(EVENT.path()):
            for event in msgspec.json.decode(body).get("items") or ():
                last = (
                    (event.get("series") or {}).get("lastObservedTime")
                    or event.get("lastTimestamp")
                    or event.get("eventTime")
                    or event["metadata"]["creationTimestamp"]
                )
                if moment(last) < limit:
                    due.append(event)
        for event in sorted(due, key=key_of):
            await self._world.delete(EVENT, event)
        return len(due)
