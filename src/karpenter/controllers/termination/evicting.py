# SPDX-License-Identifier: Apache-2.0
"""Asks pods to leave, one request each, and waits longer each time a budget says no.

A pod is asked at most once at a time, whoever wants it gone; who is gone is forgotten. Nothing waits in line behind a
pod whose budget has nothing left. Some pods wait for their turn (`departures`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from karpenter.api.core import Node, Pod
from karpenter.controllers.departures import Departures
from karpenter.kit.backoff import BackoffPolicy, BackoffTable
from karpenter.kit.clock import Clock
from karpenter.kube import (
    ApiError,
    Client,
    ConflictError,
    NotFoundError,
    Recorder,
    Subject,
    TooManyRequestsError,
)
from karpenter.kube.kinds import NODES, PODS
from karpenter.observe import Metrics

__all__ = ["Evictions"]

_BACKOFF: Final = BackoffPolicy(base_s=0.1, cap_s=10.0, jitter=0.2)
_AT_ONCE: Final = 100


class Evictions:
    """Evicts and deletes pods, each at its own pace."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        metrics: Metrics,
        clock: Clock,
        departures: Departures,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._departures = departures
        self._failures: BackoffTable[str] = BackoffTable(clock, _BACKOFF)
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def evict(self, pods: Iterable[Pod], node: Node, reason: str) -> None:
        """Asks for the eviction of pods whose turn it is."""
        due = [
            pod for pod in pods if self._failures.is_ready(pod.metadata.uid) and self._departures.may_go(pod)
        ]
        await asyncio.gather(*(self._evict(pod, node, reason) for pod in due))

    async def force(self, pods: Iterable[tuple[Pod, int]], reason: str) -> None:
        """Deletes pods past all waiting, each with the seconds that it still gets."""
        await asyncio.gather(*(self._delete(pod, grace_s, reason) for pod, grace_s in pods))

    async def _evict(self, pod: Pod, node: Node, reason: str) -> None:
        async with self._free:
            try:
                await self._client.evict(pod)
            except (NotFoundError, ConflictError) as error:
                self._settled(pod, error.status)
                return
            except ApiError as error:
                self._metrics.eviction_requests.labels(str(error.status)).inc()
                if not isinstance(error, TooManyRequestsError) and error.status != 500:
                    raise
                # A budget with nothing left, or two budgets on one pod, which the server calls an error of its own.
                self._failures.failed(pod.metadata.uid)
                self._recorder.tell(
                    Subject.of(NODES, node),
                    "FailedDraining",
                    f"Failed to drain node, pod {pod.metadata.namespace}/{pod.metadata.name}: {error.message}",
                    type="Warning",
                    about=f"budget {pod.metadata.uid}",
                )
                return
        self._settled(pod, 200)
        self._metrics.pods_drained.labels(reason).inc()
        self._recorder.tell(Subject.of(PODS, pod), "Evicted", f"Evicted pod: {reason}")

    async def _delete(self, pod: Pod, grace_s: int, reason: str) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        self._recorder.tell(
            Subject.of(PODS, pod),
            "Disrupted",
            f"Deleting the pod to keep the node's terminationGracePeriod, {grace_s} s are left ({reason})",
            type="Warning",
        )
        async with self._free:
            try:
                await self._client.delete(PODS, name, namespace, uid=pod.metadata.uid, grace_period_s=grace_s)
            except (NotFoundError, ConflictError):
                return

    def _settled(self, pod: Pod, code: int) -> None:
        self._failures.reset(pod.metadata.uid)
        self._metrics.eviction_requests.labels(str(code)).inc()
