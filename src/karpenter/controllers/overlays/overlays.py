# SPDX-License-Identifier: Apache-2.0
"""Validates NodeOverlays, and has those that are sound correct the cloud's instance types (``store``).

An overlay that cannot be read, or contradicts another of its weight, is not applied, and its condition says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from karpenter.api.conditions import NODE_OVERLAY, VALIDATION_SUCCEEDED, ConditionSet
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeoverlay import NodeOverlay
from karpenter.api.nodepool import NodePool
from karpenter.cloud.protocol import CloudProvider
from karpenter.controllers.overlays.applying import (
    OverlayError,
    conflicts,
    in_order,
    read_overlay,
)
from karpenter.controllers.overlays.store import OverlayStore, overlay_labels
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
    """Validates NodeOverlays; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        cloud: CloudProvider[EC2NodeClass],
        metrics: Metrics,
        clock: Clock,
        store: OverlayStore,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._cloud = cloud
        self._clock = clock
        self._log = get_log("nodeoverlay.controller")
        self._store = store
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

    async def reconcile(self, _: str) -> float | None:
        """Validate all overlays together, write their conditions, and apply those that are sound."""
        read, problems = [], {}
        overlays = {each.metadata.name: each for each in self.informer}
        for name, overlay in overlays.items():
            try:
                read.append(read_overlay(overlay))
            except OverlayError as error:
                problems[name] = ("RuntimeValidation", str(error))
        ordered = in_order(read)
        for pool in self._cluster.effective.pools.values():
            for name, first in conflicts(await self._types(pool), ordered, overlay_labels(pool)).items():
                problems[name] = (
                    "Conflict",
                    f"it contradicts NodeOverlay {first}, which has the same weight",
                )
        if self._store.update(tuple(each for each in ordered if each.name not in problems)):
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


def _is_news(old: object, new: object) -> bool:
    """Tells whether what somebody wrote has changed, and not only what we say about it."""
    return getattr(old, "spec", None) != getattr(new, "spec", None)
