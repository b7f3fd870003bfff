# SPDX-License-Identifier: Apache-2.0
"""What metrics say of the cloud: how long each question took and how it ended, and what EC2 told on the way."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.api import CallRecord
from karpenter.cloud.aws.fleet import FleetError
from karpenter.cloud.aws.interruption import InterruptionKind
from karpenter.cloud.aws.launchtemplates import LaunchSpec
from karpenter.cloud.errors import (
    InsufficientCapacityError,
    NodeClaimNotFoundError,
    NodeClassNotReadyError,
)
from karpenter.cloud.protocol import CloudProvider, GroupKind, Machine, NodeClassReadiness, RepairPolicy
from karpenter.kit.clock import Clock
from karpenter.model.instancetypes import InstanceType
from karpenter.observe import Metrics, controller_name
from karpenter.state import Cluster

__all__ = ["AwsMetrics", "MeasuredCloud"]

# The errors that have a name in metrics; as Karpenter, all others have none.
_NAMED: Final = (InsufficientCapacityError, NodeClaimNotFoundError, NodeClassNotReadyError)
_CATEGORIES: Final[Mapping[InterruptionKind, str]] = {
    InterruptionKind.INSTANCE_STATUS: "InstanceStatus",
    InterruptionKind.SYSTEM_STATUS: "SystemStatus",
    InterruptionKind.EVENT_STATUS: "EventStatus",
}
_MIB: Final = 1024 * 1024
# Prices and what is sold out change slowly; thousands of series are not made anew for less.
_OFFERINGS_S: Final = 60.0


class MeasuredCloud:
    """A cloud whose answers are measured, by method and by the controller that asks."""

    def __init__(self, cloud: CloudProvider[EC2NodeClass], metrics: Metrics, clock: Clock) -> None:
        self._cloud = cloud
        self._metrics = metrics
        self._clock = clock

    @property
    def name(self) -> str:
        """The name of the cloud."""
        return self._cloud.name

    @property
    def node_class_kind(self) -> GroupKind:
        """The kind of its node classes."""
        return self._cloud.node_class_kind

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Launch the machine of a claim."""
        with self._measured("Create"):
            return await self._cloud.create(claim, node_class)

    async def delete(self, provider_id: str) -> None:
        """Order a machine to be terminated."""
        with self._measured("Delete"):
            await self._cloud.delete(provider_id)

    async def get(self, provider_id: str) -> Machine:
        """Return one living machine."""
        with self._measured("Get"):
            return await self._cloud.get(provider_id)

    async def list(self) -> Sequence[Machine]:
        """Return every machine of this cluster."""
        with self._measured("List"):
            return await self._cloud.list()

    async def instance_types(self, pool: NodePool, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """Return what a pool may buy."""
        with self._measured("GetInstanceTypes"):
            return await self._cloud.instance_types(pool, node_class)

    async def drift_reason(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        """Return why a machine no longer equals its node class."""
        with self._measured("IsDrifted"):
            return await self._cloud.drift_reason(claim, node_class)

    async def node_mismatch(self, provider_id: str, node: Node, node_class: EC2NodeClass | None) -> str:
        """Return why a Node that names a machine cannot be its node."""
        return await self._cloud.node_mismatch(provider_id, node, node_class)

    def readiness(self, node_class: EC2NodeClass) -> NodeClassReadiness:
        """Return whether a node class can be launched from."""
        return self._cloud.readiness(node_class)

    def repair_policies(self) -> Sequence[RepairPolicy]:
        """Return which conditions mean that a machine is to be replaced."""
        return self._cloud.repair_policies()

    @contextlib.contextmanager
    def _measured(self, method: str) -> Iterator[None]:
        controller, started = controller_name(), self._clock.monotonic()
        try:
            yield
        except Exception as error:
            known = type(error).__name__ if isinstance(error, _NAMED) else ""
            self._metrics.cloud_errors.labels(controller, method, self.name, known).inc()
            raise
        finally:
            took_s = self._clock.monotonic() - started
            self._metrics.cloud_seconds.labels(controller, method, self.name).observe(took_s)


class AwsMetrics:
    """What is counted of AWS itself; its methods are hooks of the provider."""

    def __init__(self, metrics: Metrics, cluster: Cluster) -> None:
        self._metrics = metrics
        self._cluster = cluster
        self._offered: frozenset[tuple[str, int]] | None = None
        self._offered_at_s = 0.0

    def called(self, record: CallRecord) -> None:
        """Count a request that went out."""
        self._metrics.aws_request_seconds.labels(record.service, record.operation).observe(record.seconds)
        if record.code:
            self._metrics.aws_request_errors.labels(record.service, record.operation, record.code).inc()

    def batched(self, name: str, size: int, seconds: float) -> None:
        """Measure a batch of requests."""
        self._metrics.batch_size.labels(name).observe(size)
        self._metrics.batch_seconds.labels(name).observe(seconds)

    def offerings_failed(self, errors: Sequence[FleetError], capacity_type: str) -> None:
        """Count the offerings that a launch failed for."""
        for error in errors:
            where = error.zone, zone_id_of(self._cluster, error.zone)
            self._metrics.launch_failures.labels(*where, capacity_type, error.cause.reason).inc()

    def template_created(self, _: str, spec: LaunchSpec) -> None:
        """Measure the user data of a launch template."""
        name = spec.tags.get(names.EC2NODECLASS_TAG, "")
        self._metrics.userdata_bytes.labels(name).set(len(base64.b64decode(spec.user_data)))

    def unhealthy(self, kind: InterruptionKind, instance_id: str) -> None:
        """Count an instance of ours that EC2 finds unhealthy."""
        if self._cluster.informers.claims.by("instance", instance_id):
            self._metrics.unhealthy_instances.labels(_CATEGORIES[kind]).inc()

    async def follow_offerings(self, cloud: CloudProvider[EC2NodeClass], now_s: float) -> None:
        """Show the offerings anew every minute, and at once where other pools than before can buy."""
        found = frozenset((pool.metadata.name, pool.metadata.generation) for pool, _ in self._buying(cloud))
        if found == self._offered and now_s - self._offered_at_s < _OFFERINGS_S:
            return
        await self.measure_offerings(cloud)
        self._offered, self._offered_at_s = found, now_s

    def _buying(self, cloud: CloudProvider[EC2NodeClass]) -> Iterator[tuple[NodePool, EC2NodeClass]]:
        for pool in tuple(self._cluster.effective.pools.values()):
            node_class = self._cluster.node_class(pool.spec.template.spec.node_class_ref.name)
            if node_class is not None and cloud.readiness(node_class).ready:
                yield pool, node_class

    async def measure_offerings(self, cloud: CloudProvider[EC2NodeClass]) -> None:
        """Show every offering that some pool may buy, and the size of its type."""
        available: dict[tuple[str, ...], float] = {}
        prices: dict[tuple[str, ...], float] = {}
        cores: dict[tuple[str, ...], float] = {}
        memory: dict[tuple[str, ...], float] = {}
        for pool, node_class in self._buying(cloud):
            for kind in await cloud.instance_types(pool, node_class):
                cores[kind.name,] = float(kind.labels.get(names.INSTANCE_CPU, 0))
                memory[kind.name,] = float(kind.labels.get(names.INSTANCE_MEMORY, 0)) * _MIB
                for each in kind.offerings:
                    key = kind.name, each.capacity_type, each.zone
                    available[key] = max(available.get(key, 0.0), float(each.available))
                    prices[key] = each.price_per_hour
        self._metrics.offering_available.replace(available)
        self._metrics.offering_price.replace(prices)
        self._metrics.type_cpu_cores.replace(cores)
        self._metrics.type_memory_bytes.replace(memory)


def zone_id_of(cluster: Cluster, zone: str) -> str:
    """Return the id of a zone as some node class has found it; empty if none has."""
    for node_class in cluster.effective.classes.values():
        for subnet in node_class.status.subnets:
            if subnet.zone == zone:
                return subnet.zone_id
    return ""
