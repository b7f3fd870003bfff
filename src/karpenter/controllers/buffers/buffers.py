# SPDX-License-Identifier: Apache-2.0
"""Follows the CapacityBuffers, resolves what they refer to, and gives the pods that stand for them.

A buffer names a PodTemplate or a workload of its namespace; it is looked at again when it changes, when its timetable
says so, and every half minute, because what it refers to is not watched. One that cannot be resolved keeps no room, and
its condition says why. The pods join every decision about nodes: provisioning makes room for them, removal leaves it.
What a buffer costs is the share of its pods in the nodes that hold them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.capacitybuffer import ACTIVE_CAPACITY, CapacityBuffer
from karpenter.api.conditions import CAPACITY_BUFFER, PROVISIONING, READY_FOR_PROVISIONING, ConditionSet
from karpenter.api.core import Pod
from karpenter.api.core.pods import PodTemplateSpec
from karpenter.controllers.buffers.sizing import UnreadableBufferError, costs_of_room, size_of, standing_pods
from karpenter.controllers.patches import write_status
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Change, Client, Informer, Kind, NotFoundError
from karpenter.kube.kinds import CAPACITY_BUFFERS, DEPLOYMENTS, POD_TEMPLATES, REPLICA_SETS, STATEFUL_SETS
from karpenter.model.snapshot import Snapshot
from karpenter.observe import Metrics, get_log, reporting
from karpenter.scheduling import Plan

__all__ = ["Buffers"]

_AGAIN_S: Final = 30.0
# What a buffer refers to is often created right after it.
_UNRESOLVED_AGAIN_S: Final = 5.0
_WORKLOADS: Final[Mapping[str, Kind[Any]]] = {
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
}


class _UnresolvedError(Exception):
    """What a buffer refers to is not there, or not of a kind that has pods."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A buffer's template, and how many replicas its workload has."""

    template: PodTemplateSpec
    generation: int
    scale: int | None = None


class Buffers:
    """Keeps the pods of all buffers; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []
        self._log = get_log("capacitybuffer")
        self._pods: dict[str, tuple[Pod, ...]] = {}
        self._held: frozenset[str] = frozenset()
        self._costs: dict[str, float] = {}
        self.informer: Informer[CapacityBuffer] = Informer(client, CAPACITY_BUFFERS, clock=clock)
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile,
            clock,
            workers=1,
            on_error=reporting(self._log, metrics, "capacitybuffer", "CapacityBuffer"),
        )
        self.informer.on_change(self._buffer_changed)

    async def run(self) -> None:
        """Follows buffers, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.run())
            await self.informer.wait_synced()
            group.create_task(self._queue.run())

    def on_change(self, changed: Callable[[], None]) -> None:
        """Asks to be told when the pods of some buffer are others than before."""
        self._listeners.append(changed)

    def pods(self) -> tuple[Pod, ...]:
        """Gives the pods that stand for all buffers, in a stable order."""
        return tuple(pod for key in sorted(self._pods) for pod in self._pods[key])

    def placed(self, snapshot: Snapshot, plan: Plan) -> None:
        """Takes note of where a plan keeps the room: what it costs, and whether nodes that stand have it all."""
        costs = costs_of_room(snapshot, plan)
        self._held = frozenset(pod.metadata.uid for pods in plan.existing.values() for pod in pods)
        self._costs = {
            key: sum(costs.get(pod.metadata.uid, 0.0) for pod in pods) for key, pods in self._pods.items()
        }
        self._measure()
        for key in self._pods:
            self._queue.add(key)

    async def reconcile(self, key: str) -> float | None:
        """Resolves one buffer and says when to look again."""
        namespace, _, name = key.partition("/")
        buffer = self.informer.get(name, namespace)
        if buffer is None:
            self._keep(key, ())
            return None
        if buffer.spec.provisioning_strategy != ACTIVE_CAPACITY:
            return None
        now = self._clock.now()
        again_s = _AGAIN_S
        try:
            found = await self._resolve(buffer)
            size = size_of(buffer, found.template, found.scale, now)
        except (_UnresolvedError, UnreadableBufferError) as error:
            reason = error.reason if isinstance(error, _UnresolvedError) else "ResolutionFailed"
            self._keep(key, ())
            await self._judge(buffer, reason, error.message, None, 0)
            return _UNRESOLVED_AGAIN_S
        self._keep(key, standing_pods(buffer, found.template, size.replicas))
        await self._judge(buffer, "", "", found.generation, size.replicas)
        if size.until is not None:
            again_s = min(again_s, max((size.until - now).total_seconds(), 0.1))
        return again_s

    async def _resolve(self, buffer: CapacityBuffer) -> _Resolved:
        spec, namespace = buffer.spec, buffer.metadata.namespace
        if spec.pod_template_ref is not None:
            name = spec.pod_template_ref.name
            try:
                template = await self._client.get(POD_TEMPLATES, name, namespace)
            except NotFoundError as error:
                raise _UnresolvedError(
                    "PodTemplateNotFound", f"there is no PodTemplate {namespace}/{name}"
                ) from error
            return _Resolved(template.template, template.metadata.generation)
        reference = spec.scalable_ref
        if reference is None:
            raise _UnresolvedError("ResolutionFailed", "it names neither podTemplateRef nor scalableRef")
        kind = _WORKLOADS.get(reference.kind) if reference.api_group in {"", "apps"} else None
        if kind is None:
            known = ", ".join(_WORKLOADS)
            raise _UnresolvedError(
                "ResolutionFailed", f"spec.scalableRef.kind {reference.kind} has no pod template; use {known}"
            )
        try:
            workload = await self._client.get(kind, reference.name, namespace)
        except NotFoundError as error:
            text = f"there is no {reference.kind} {namespace}/{reference.name}"
            raise _UnresolvedError("ScalableRefNotFound", text) from error
        return _Resolved(workload.spec.template, workload.metadata.generation, workload.spec.replicas)

    def _keep(self, key: str, pods: tuple[Pod, ...]) -> None:
        if pods == self._pods.get(key, ()):
            return
        if pods:
            self._pods[key] = pods
        else:
            self._pods.pop(key, None)
            self._costs.pop(key, None)
            self._measure()
        self._log.info("keeping room", CapacityBuffer=key, pods=len(pods))
        for changed in self._listeners:
            changed()

    def _measure(self) -> None:
        """Shows what the room of each buffer costs; a buffer that keeps none has no cost."""
        rows = {(key.partition("/")[0], key.partition("/")[2]): cost for key, cost in self._costs.items()}
        self._metrics.buffer_cost.replace(rows)

    async def _judge(
        self, buffer: CapacityBuffer, reason: str, words: str, generation: int | None, replicas: int
    ) -> None:
        conditions = ConditionSet.of(CAPACITY_BUFFER, buffer.metadata, buffer.status.conditions)
        now = self._clock.now()
        if reason:
            conditions = conditions.false(READY_FOR_PROVISIONING, now, reason=reason, message=words)
            conditions = conditions.false(PROVISIONING, now, reason="NotReadyForProvisioning")
        else:
            conditions = conditions.true(READY_FOR_PROVISIONING, now, reason="Resolved")
            conditions = self._provisioning(conditions, buffer, replicas)
        status: dict[str, object] = {
            "replicas": replicas,
            "provisioningStrategy": ACTIVE_CAPACITY,
            "conditions": conditions.to_wire(),
        }
        if generation is not None and buffer.spec.pod_template_ref is not None:
            status |= {
                "podTemplateRef": {"name": buffer.spec.pod_template_ref.name},
                "podTemplateGeneration": generation,
            }
        if conditions.conditions == buffer.status.conditions and buffer.status.replicas == replicas:
            return
        if not await write_status(self._client, self.informer, buffer, status):
            self._queue.add(f"{buffer.metadata.namespace}/{buffer.metadata.name}")

    def _provisioning(self, conditions: ConditionSet, buffer: CapacityBuffer, replicas: int) -> ConditionSet:
        now = self._clock.now()
        if not replicas:
            return conditions.false(PROVISIONING, now, reason="BufferEmpty")
        uids = {f"{buffer.metadata.uid}-{number}" for number in range(replicas)}
        if uids <= self._held:
            return conditions.true(PROVISIONING, now, reason="FitsExistingCapacity")
        return conditions.false(PROVISIONING, now, reason="RequiresNewCapacity")

    def _buffer_changed(self, change: Change[CapacityBuffer]) -> None:
        # What we say about it ourselves is no reason to look again.
        if getattr(change.old, "spec", None) != getattr(change.new, "spec", None):
            meta = change.object.metadata
            self._queue.add(f"{meta.namespace}/{meta.name}")
