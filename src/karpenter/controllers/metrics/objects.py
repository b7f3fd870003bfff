# SPDX-License-Identifier: Apache-2.0
"""What pods, nodes and pools are now, as metrics: read for each scrape, so that no series outlives its object.

Only the replica that leads has them: two would be added up. What counters and histograms have of a pool or node class
that is gone is removed here too (see ``Lifetimes``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from karpenter.api import labels as names
from karpenter.api.conditions import READY, is_true
from karpenter.api.core import Node, Pod
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.controllers.metrics.podtimes import PodTimes, Times
from karpenter.errors import KarpenterError
from karpenter.kit.clock import Clock
from karpenter.kube import Change
from karpenter.model.resources import CPU, Resources
from karpenter.observe import Detail, Lifetimes, Metrics, resource_type
from karpenter.observe.catalogue import NODE_LABELS
from karpenter.observe.declaring import Readings
from karpenter.state import Cluster, Load

__all__ = ["ObjectMetrics", "amount"]

_SWEEP_S: Final = 20.0
# So many objects are read before others on the event loop have their turn.
_AT_ONCE: Final = 200
_NODES: Final = "nodes"

Rows = dict[tuple[str, ...], float]


class ObjectMetrics:
    """Reads the cluster into metrics; ``run`` must be kept running by a supervisor.

    Args:
        cluster: What is read.
        metrics: Where to.
        clock: Counts ages.
        is_leading: Tells whether this replica leads.
    """

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        clock: Clock,
        *,
        is_leading: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._clock = clock
        self._is_leading = is_leading
        self.times = PodTimes(metrics, clock, is_leading)
        self._pools = Lifetimes(metrics, "nodepool")
        self._classes = Lifetimes(metrics, "nodeclass")
        self._was_leading = False
        informers = cluster.informers
        informers.pods.on_change(self.times.changed)
        informers.pools.on_change(lambda change: self._pools.seen(change.object.metadata.name))
        informers.classes.on_change(lambda change: self._classes.seen(change.object.metadata.name))
        informers.claims.on_change(lambda change: self._pools.seen(_pool_of(change)))
        informers.nodes.on_change(lambda change: self._pools.seen(_pool_of(change)))

    async def run(self) -> None:
        """Removes the series of what is gone, until cancelled."""
        while True:
            self.sweep()
            await self._clock.sleep(_SWEEP_S)

    def sweep(self) -> None:
        """Removes the series of what has been gone for long enough."""
        informers, now = self._cluster.informers, self._clock.monotonic()
        pools = {each.metadata.name for each in informers.pools}
        for members in (informers.claims, informers.nodes):
            pools.update(each.metadata.labels.get(names.NODEPOOL, "") for each in members)
        self._pools.sweep(pools, now)
        self._classes.sweep({each.metadata.name for each in informers.classes}, now)

    async def measure(self) -> None:
        """Reads everything that is switched on."""
        if not self._is_leading():
            if self._was_leading:
                self._clear()
            self._was_leading = False
            return
        self._was_leading = True
        self._measure_pools()
        await self._measure_nodes()
        if Detail.PODS in self._metrics.details:
            await self._measure_pods()

    def _clear(self) -> None:
        for made in self._metrics.made.values():
            if isinstance(made, Readings):
                made.replace({})

    def _measure_pools(self) -> None:
        usage: Rows = {}
        limits: Rows = {}
        for name in self._cluster.effective.pools:
            usage[_NODES, name] = 0.0
        for member in self._cluster.members():
            if self._cluster.pool(member.pool) is not None:
                for resource, number in {**self._cluster.size_of(member), _NODES: 1}.items():
                    key = resource_type(resource), member.pool
                    usage[key] = usage.get(key, 0.0) + amount(resource, number)
        for pool in self._cluster.effective.pools.values():
            limits.update(_limits(pool))
        self._metrics.pool_usage.replace(usage)
        self._metrics.pool_limit.replace(limits)

    async def _measure_nodes(self) -> None:
        now = self._clock.now()
        has: dict[str, int] = {}
        asked: dict[str, int] = {}
        rows: dict[Readings, Rows] = {each: {} for each in self._per_node()}
        for position, node in enumerate(tuple(self._cluster.informers.nodes)):
            if position % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            load = self._cluster.load_on(node.metadata.name)
            allocatable = _parsed(node.status.allocatable)
            for total, amounts in ((has, allocatable), (asked, load.requests)):
                for resource, number in amounts.items():
                    total[resource] = total.get(resource, 0) + number
            if rows:
                self._read(node, allocatable, load, rows, now)
        for readings, found in rows.items():
            readings.replace(found)
        shares = {(resource_type(name),): 100 * asked.get(name, 0) / has[name] for name in has}
        self._metrics.utilization.replace(shares)

    def _per_node(self) -> tuple[Readings, ...]:
        metrics = self._metrics
        if Detail.NODES not in metrics.details:
            return ()
        return (
            metrics.node_overhead,
            metrics.node_pod_requests,
            metrics.node_pod_limits,
            metrics.node_daemon_requests,
            metrics.node_daemon_limits,
            metrics.node_allocatable,
            metrics.node_age_seconds,
        )

    def _read(
        self, node: Node, allocatable: Resources, load: Load, rows: Mapping[Readings, Rows], now: datetime
    ) -> None:
        metrics, labels = self._metrics, _node_labels(node)
        pods = {"pods": 0}
        for readings, amounts in (
            (metrics.node_overhead, _parsed(node.status.capacity) - allocatable),
            (metrics.node_pod_requests, {**pods, **load.requests}),
            (metrics.node_pod_limits, {**pods, **load.limits}),
            (metrics.node_daemon_requests, {**pods, **load.daemon_requests}),
            (metrics.node_daemon_limits, {**pods, **load.daemon_limits}),
            (metrics.node_allocatable, allocatable),
        ):
            for resource, number in amounts.items():
                rows[readings][*labels, resource_type(resource)] = amount(resource, number)
        born = node.metadata.creation_timestamp
        if born is not None:
            rows[metrics.node_age_seconds][labels] = (now - born).total_seconds()

    async def _measure_pods(self) -> None:
        states: Rows = {}
        for position, pod in enumerate(tuple(self._cluster.informers.pods)):
            if position % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            states[_pod_labels(pod, self._cluster.informers.nodes.get(pod.spec.node_name))] = 1.0
        self._metrics.pod_state.replace(states)
        now, waiting = self._clock.now(), tuple(self.times)
        unbound = [each for each in waiting if not each.is_bound]
        undecided = [each for each in unbound if each.decided_at is None]
        metrics = self._metrics
        metrics.pod_unstarted_seconds.replace(_ages(waiting, _born, now))
        metrics.pod_unbound_seconds.replace(_ages(unbound, _born, now))
        metrics.pod_planned_unstarted_seconds.replace(_ages(waiting, _planned, now))
        metrics.pod_planned_unbound_seconds.replace(_ages(unbound, _planned, now))
        metrics.pod_undecided_seconds.replace(_ages(undecided, lambda each: each.seen_at, now))


def amount(resource: str, number: int) -> float:
    """Gives an amount in Karpenter's unit: cores of cpu, bytes or pieces of everything else."""
    return number / 1000 if resource == CPU else float(number)


def _limits(pool: NodePool) -> Rows:
    found: Rows = {}
    for resource, limit in pool.spec.limits.items():
        try:
            number = Resources.parse({resource: limit}).get(resource, 0)
        except KarpenterError:
            # The pool's own condition says so.
            continue
        found[resource_type(resource), pool.metadata.name] = amount(resource, number)
    return found


def _parsed(quantities: Mapping[str, str | int | float]) -> Resources:
    try:
        return Resources.parse(quantities)
    except KarpenterError:
        return Resources()


def _pool_of(change: Change[Node] | Change[NodeClaim]) -> str:
    return change.object.metadata.labels.get(names.NODEPOOL, "")


def _node_labels(node: Node) -> tuple[str, ...]:
    labels = node.metadata.labels
    managed = "true" if names.NODEPOOL in labels else "false"
    # Kubernetes has long stopped to write a node's phase.
    return *(labels.get(key, "") for key in NODE_LABELS.values()), node.metadata.name, "", managed


def _pod_labels(pod: Pod, node: Node | None) -> tuple[str, ...]:
    labels = node.metadata.labels if node is not None else {}
    meta, owner = pod.metadata, next(iter(pod.metadata.owner_references), None)
    return (
        meta.name,
        meta.namespace,
        f"/apis/{owner.api_version}/namespaces/{meta.namespace}/{owner.kind.lower()}s/{owner.name}"
        if owner is not None
        else "",
        pod.spec.node_name,
        str(bool(pod.spec.node_name)).lower(),
        labels.get(names.NODEPOOL, ""),
        labels.get(names.ZONE, ""),
        labels.get(names.ARCH, ""),
        labels.get(names.CAPACITY_TYPE, ""),
        labels.get(names.INSTANCE_TYPE, ""),
        pod.status.phase,
        str(is_true(pod.status.conditions, READY)).lower(),
        str(names.NODEPOOL in labels).lower(),
    )


def _ages(times: Iterable[Times], since: Callable[[Times], datetime | None], now: datetime) -> Rows:
    return {
        (each.pod.metadata.name, each.pod.metadata.namespace): max((now - at).total_seconds(), 0.0)
        for each in times
        if (at := since(each)) is not None
    }


def _born(times: Times) -> datetime | None:
    return times.pod.metadata.creation_timestamp


def _planned(times: Times) -> datetime | None:
    return times.planned_at
