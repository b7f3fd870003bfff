# SPDX-License-Identifier: Apache-2.0
"""Follows the NodeOverlays, judges them, and corrects what the cloud says of its instance types.

An overlay that cannot be read, or contradicts another of its weight, does not count, and its condition says so. What
counts is worked out when somebody asks for a pool's types, and kept for as long as the types and the overlays are the
same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from karpenter.api.conditions import NODE_OVERLAY, VALIDATION_SUCCEEDED, ConditionSet
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import NODEPOOL
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.cloud.protocol import CloudProvider
from karpenter.controllers.overlays.applying import (
    Overlay,
    OverlayError,
    applied,
    conflicts,
    in_order,
    read_overlay,
)
from karpenter.controllers.patches import write_status
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, Informer
from karpenter.kube.kinds import NODE_OVERLAYS
from karpenter.model.instancetypes import InstanceType
from karpenter.observe import Metrics, get_log, reporting
from karpenter.state import Cluster

__all__ = ["Overlays"]

_ALL: Final = "all"
_AGAIN_S: Final = 6 * 3600.0
_GATHER_S: Final = 0.5


class Overlays:
    """Corrects instance types; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._clock = clock
        self._log = get_log("nodeoverlay.controller")
        self._counting: tuple[Overlay, ...] = ()
        self._known: dict[str, tuple[object, Sequence[InstanceType], Sequence[InstanceType]]] = {}
        self.informer: Informer[NodeOverlay] = Informer(client, NODE_OVERLAYS, clock=clock)
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            workers=1,
            on_error=reporting(self._log, metrics, "nodeoverlay.controller", "NodeOverlay"),
        )
        self.informer.on_change(self._overlay_changed)
        cluster.informers.pools.on_change(
            lambda change: self._again() if _is_news(change.old, change.new) else None
        )

    async def run(self) -> None:
        """Follows overlays and judges them, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.run())
            await self.informer.wait_synced()
            self._queue.add(_ALL)
            group.create_task(self._queue.run())

    def adjust(self, pool: NodePool, types: Sequence[InstanceType]) -> Sequence[InstanceType]:
        """Gives the types of a pool as overlays correct them; the same object while nothing has changed."""
        if not self._counting:
            return types
        name, labels = pool.metadata.name, _labels(pool)
        stand = (self._counting, labels)
        known = self._known.get(name)
        if known is None or known[0] != stand or known[1] is not types:
            known = (stand, types, applied(types, self._counting, labels))
            self._known[name] = known
        return known[2]

    async def reconcile(self, _: str) -> float | None:
        """Judges all overlays together, writes their conditions, and lets those that are sound count."""
        read, problems = [], {}
        overlays = {each.metadata.name: each for each in self.informer}
        for name, overlay in overlays.items():
            try:
                read.append(read_overlay(overlay))
            except OverlayError as error:
                problems[name] = ("RuntimeValidation", str(error))
        ordered = in_order(read)
        for pool in self._cluster.effective.pools.values():
            for name, first in conflicts(await self._types(pool), ordered, _labels(pool)).items():
                problems[name] = (
                    "Conflict",
                    f"it contradicts NodeOverlay {first}, which has the same weight",
                )
        counting = tuple(each for each in ordered if each.name not in problems)
        if counting != self._counting:
            self._counting = counting
            self._cluster.stamp.bump()
        for name, overlay in overlays.items():
            await self._judge(overlay, *problems.get(name, ("", "")))
        return _AGAIN_S

    async def _types(self, pool: NodePool) -> Sequence[InstanceType]:
        node_class = self._cluster.node_class(pool.spec.template.spec.node_class_ref.name)
        if node_class is None:
            return ()
        try:
            return await self._cloud.instance_types(pool, node_class)
        except KarpenterError:
            return ()

    async def _judge(self, overlay: NodeOverlay, reason: str, words: str) -> None:
        conditions = ConditionSet.of(NODE_OVERLAY, overlay.metadata, overlay.status.conditions)
        now = self._clock.now()
        if reason:
            changed = conditions.false(VALIDATION_SUCCEEDED, now, reason=reason, message=words)
        else:
            changed = conditions.true(VALIDATION_SUCCEEDED, now)
        if changed.conditions == overlay.status.conditions:
            return
        status = {"conditions": changed.to_wire()}
        if not await write_status(self._client, self.informer, overlay, status):
            self._again()
        elif reason:
            self._log.error(
                "nodeoverlay is not applied", NodeOverlay={"name": overlay.metadata.name}, error=words
            )

    def _overlay_changed(self, change: Change[NodeOverlay]) -> None:
        if _is_news(change.old, change.new):
            self._again()

    def _again(self) -> None:
        self._queue.add_after(_ALL, _GATHER_S)


def _labels(pool: NodePool) -> Mapping[str, str]:
    return {**pool.spec.template.metadata.labels, NODEPOOL: pool.metadata.name}


def _is_news(old: object, new: object) -> bool:
    """Tells whether what somebody wrote has changed, and not only what we say about it."""
    return getattr(old, "spec", None) != getattr(new, "spec", None)
