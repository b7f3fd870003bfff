# SPDX-License-Identifier: Apache-2.0
"""Puts planned pods on their node while it boots, so that the kubelet starts them the moment that it can.

Off unless an operator asks for it. Left alone, a pod waits until its node is ready, the control plane has taken the
taint away that says otherwise, and the scheduler has come to the pod again. Bound early, it waits for the kubelet.

A node gets its pods when its Node object is there, registered (nobody evicts by its first taint from then on) and says
what it has for pods, and for as long as the scheduler keeps off it: then nobody else fills it. Which pods may be bound
past the scheduler is ``placeable``'s to say; the others are nominated as always. A pod that somebody else has bound
meanwhile is where it is; any other refusal is tried again. A node that is not ready after five minutes gets no more:
whoever is on it is evicted about then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from karpenter.api.core import Node, Pod
from karpenter.controllers.provisioning.placeable import (
    is_booting,
    is_left_to_the_scheduler,
    kept_apart,
    placeable,
    suits,
)
from karpenter.kit.clock import Clock
from karpenter.kit.workqueue import WorkQueue
from karpenter.kube import Allowance, Client, ConflictError, KubeError, NotFoundError, Recorder, Subject
from karpenter.kube.kinds import PODS
from karpenter.model.pods import is_terminal
from karpenter.model.resources import Resources
from karpenter.observe import DecisionKind, DecisionLog, Metrics, get_log
from karpenter.scheduling.templates import compile_daemons
from karpenter.state import Cluster, Member, node_view

__all__ = ["Placer"]

_LONGEST_BOOT: Final = timedelta(minutes=5)
_NODES_AT_ONCE: Final = 20
_BOUND_AT_ONCE: Final = 30
_EVENTS_PER_S: Final = 5.0
_EVENTS_AT_ONCE: Final = 10


class Placer:
    """Binds pods to nodes that boot; ``run`` must be kept running by a supervisor."""

    def __init__(
        self,
        *,
        client: Client,
        cluster: Cluster,
        recorder: Recorder,
        decisions: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        is_ours: Callable[[Pod], bool],
    ) -> None:
        """Makes one that has nothing to do yet.

        Args:
            client: Where bindings are written.
            cluster: What there is.
            recorder: Tells pods where they are.
            decisions: Where decisions are written down.
            metrics: Where bindings are counted.
            clock: Where its time comes from.
            is_ours: Tells whether a pod's nomination is one that we wrote.
        """
        self._client = client
        self._cluster = cluster
        self._recorder = recorder
        self._decisions = decisions
        self._metrics = metrics
        self._clock = clock
        self._is_ours = is_ours
        self._log = get_log("provisioner")
        self._events = Allowance(clock, rate_per_s=_EVENTS_PER_S, burst=_EVENTS_AT_ONCE)
        self._free = asyncio.Semaphore(_BOUND_AT_ONCE)
        self._kept: dict[str, frozenset[str]] = {}
        self._bound: dict[str, set[str]] = {}
        self._queue: WorkQueue[str] = WorkQueue(
            self.reconcile, clock, workers=_NODES_AT_ONCE, on_error=self._failed
        )

    async def run(self) -> None:
        """Works until cancelled."""
        await self._queue.run()

    def look(self, member: str) -> None:
        """Looks at a member soon, by the name of its claim: its node has changed, or pods are promised to it."""
        self._queue.add(member)

    def keeps(self, pod: Pod) -> bool:
        """Tells whether a pod is about to be bound here, so that nobody need be told of it."""
        uid = pod.metadata.uid
        return uid in self._kept.get(self._cluster.nominations.member_of(uid), ())

    async def reconcile(self, name: str) -> float | None:
        """Binds what can be bound to a member now, and says when to look again."""
        member = self._cluster.member(name)
        node = member.node if member is not None else None
        promised = self._promised(member) if member is not None else ()
        if member is None or node is None or not promised or not self._takes_pods(member, node):
            self._forget(name)
            return None
        chosen = self._chosen(member, node, promised)
        self._kept[name] = frozenset(pod.metadata.uid for pod in chosen)
        if not member.is_registered:
            return None
        bound = self._bound.setdefault(name, set())
        bound &= {pod.metadata.uid for pod in promised}
        await self._bind_all(name, node, [pod for pod in chosen if pod.metadata.uid not in bound])
        return None

    def _takes_pods(self, member: Member, node: Node) -> bool:
        """Tells whether a node is one of ours that boots, and has not done so for too long."""
        born = node.metadata.creation_timestamp
        return (
            member.claim is not None
            and not member.is_initialized
            and is_booting(node)
            and not self._cluster.is_leaving(member)
            and (born is None or self._clock.now() - born < _LONGEST_BOOT)
        )

    def _promised(self, member: Member) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._cluster.promised_to(member) if not pod.spec.node_name)

    def _chosen(self, member: Member, node: Node, promised: tuple[Pod, ...]) -> tuple[Pod, ...]:
        there = [pod for pod in self._cluster.pods_on(member.name) if not is_terminal(pod)]
        reported = Resources.parse(node.status.allocatable)
        view = replace(node_view(member, there, {}), allocatable=reported)
        known = {pod.metadata.uid for pod in promised}
        awaited = [
            pod
            for pod in self._cluster.unbound()
            if pod.status.nominated_node_name == member.name and pod.metadata.uid not in known
        ]
        refused = kept_apart(member, self._standing())
        namespaces = self._cluster.informers.namespaces
        may_be: dict[str, bool] = {}
        for pod in promised:
            space = namespaces.get(pod.metadata.namespace)
            about: Mapping[str, str] = space.metadata.labels if space is not None else {}
            may_be[pod.metadata.uid] = (
                self._is_free(pod, member.name)
                and suits(pod, member)
                and not any(
                    group.counts(pod.metadata.namespace, pod.metadata.labels, about) for group in refused
                )
            )
        daemons = compile_daemons(self._cluster.daemons())
        return placeable(view, promised, awaited, daemons, may_be=may_be)

    def _is_free(self, pod: Pod, node: str) -> bool:
        """Tells whether nobody else has plans for a pod."""
        nominated = pod.status.nominated_node_name
        return not is_left_to_the_scheduler(pod) and (nominated in {"", node} or self._is_ours(pod))

    def _standing(self) -> Iterator[tuple[Pod, Mapping[str, str]]]:
        for pod in self._cluster.informers.pods:
            if pod.spec.affinity is not None and pod.spec.node_name and not is_terminal(pod):
                node = self._cluster.informers.nodes.get(pod.spec.node_name)
                if node is not None:
                    yield pod, node.metadata.labels

    async def _bind_all(self, name: str, node: Node, pods: list[Pod]) -> None:
        answers = await asyncio.gather(
            *(self._bind(name, node.metadata.name, pod) for pod in pods), return_exceptions=True
        )
        count = sum(each is True for each in answers)
        if count:
            self._log.info(
                "placed pod(s) before their node is ready",
                NodeClaim={"name": name},
                Node={"name": node.metadata.name},
                pods=count,
            )
            self._decisions.record(
                DecisionKind.PLACE,
                f"NodeClaim/{name}",
                f"Node/{node.metadata.name}",
                reason="NotReady",
                message=f"{count} pods were bound to {node.metadata.name} before it is ready",
                pods=count,
            )
        for each in answers:
            if isinstance(each, BaseException):
                # What could be bound is; the others come back with the next try.
                raise each

    async def _bind(self, name: str, node: str, pod: Pod) -> bool:
        """Binds one pod, unless something has changed for it, and tells whether it is bound by us."""
        uid, informers = pod.metadata.uid, self._cluster.informers
        async with self._free:
            now = informers.pods.get(pod.metadata.name, pod.metadata.namespace)
            there = informers.nodes.get(node)
            if (
                now is None
                or now.metadata.uid != uid
                or self._cluster.nominations.member_of(uid) != name
                or not self._is_free(now, node)
                or there is None
                or not is_booting(there)
            ):
                return False
            try:
                await self._client.bind(now, node)
            except (ConflictError, NotFoundError):
                # Somebody was faster, or it is going: either way it needs no place.
                self._metrics.early_placements.labels("taken").inc()
                return False
            except KubeError:
                self._metrics.early_placements.labels("failed").inc()
                raise
        self._bound.setdefault(name, set()).add(uid)
        self._metrics.early_placements.labels("bound").inc()
        if self._events.take():
            self._recorder.tell(
                Subject.of(PODS, now),
                "Scheduled",
                f"Successfully assigned {now.metadata.namespace}/{now.metadata.name} to {node}, not ready yet",
            )
        return True

    def _forget(self, name: str) -> None:
        self._kept.pop(name, None)
        self._bound.pop(name, None)

    def _failed(self, name: str, error: Exception, again_s: float) -> None:
        self._metrics.reconcile_errors.labels("provisioner").inc()
        self._log.error(
            "could not place pod(s) early",
            NodeClaim={"name": name},
            error=error,
            retry_in_s=round(again_s, 1),
        )
