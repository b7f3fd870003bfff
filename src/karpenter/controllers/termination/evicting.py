# SPDX-License-Identifier: Apache-2.0
"""Asks pods to leave, one request each, and waits longer each time a budget or the server says no.

A pod is asked at most once at a time, whoever wants it gone; who is gone is forgotten. Nothing waits in line behind a
pod that cannot be evicted, whatever the reason: it is named in an event of its node and tried again later.

Some pods wait for their turn (`departures`).
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
from karpenter.observe import Metrics, get_log

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
        self._log = get_log("node.termination")
        self._failures: BackoffTable[str] = BackoffTable(clock, _BACKOFF)
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def evict(self, pods: Iterable[Pod], node: Node, reason: str) -> None:
        """Asks for the eviction of pods whose turn it is."""
        due = [
            pod for pod in pods if self._failures.is_ready(pod.metadata.uid) and self._departures.may_go(pod)
        ]
        await asyncio.gather(*(self._evict(pod, node, reason) for pod in due))

    async def force(self, pods: Iterable[tuple[Pod, int]], node: Node, reason: str) -> None:
        """Deletes pods past all waiting, each with the seconds that it still gets."""
        due = [(pod, grace_s) for pod, grace_s in pods if self._failures.is_ready(pod.metadata.uid)]
        await asyncio.gather(*(self._delete(pod, grace_s, node, reason) for pod, grace_s in due))

    async def _evict(self, pod: Pod, node: Node, reason: str) -> None:
        async with self._free:
            try:
                await self._client.evict(pod)
            except (NotFoundError, ConflictError) as error:
                self._settled(pod, error.status)
                return
            except ApiError as error:
                # A budget with nothing left, a webhook that refuses, or a right that is missing.
                self._metrics.eviction_requests.labels(str(error.status)).inc()
                self._refused(pod, node, error)
                return
        self._settled(pod, 200)
        self._metrics.pods_drained.labels(reason).inc()
        self._recorder.tell(Subject.of(PODS, pod), "Evicted", f"Evicted pod: {reason}")

    async def _delete(self, pod: Pod, grace_s: int, node: Node, reason: str) -> None:
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
            except ApiError as error:
                self._refused(pod, node, error)

    def _refused(self, pod: Pod, node: Node, error: ApiError) -> None:
        """Lets a pod wait before it is tried again, and says on its node that it holds up draining."""
        self._failures.failed(pod.metadata.uid)
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        is_news = self._recorder.tell(
            Subject.of(NODES, node),
            "FailedDraining",
            f"Failed to drain node, pod {name}: {error.message}",
            type="Warning",
            about=f"budget {pod.metadata.uid}",
        )
        if is_news and not isinstance(error, TooManyRequestsError):
            self._log.error("failed evicting pod", Node={"name": node.metadata.name}, Pod=name, error=error)

    def _settled(self, pod: Pod, code: int) -> None:
        self._failures.reset(pod.metadata.uid)
        self._metrics.eviction_requests.labels(str(code)).inc()
