# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.core import Node
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.meta import ObjectMeta
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.api import CallRecord
from karpenter.cloud.aws.codes import classify
from karpenter.cloud.aws.fleet import FleetError
from karpenter.cloud.aws.interruption import InterruptionKind
from karpenter.cloud.aws.launchtemplates import LaunchSpec
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.cloud.errors import InsufficientCapacityError, NodeClaimNotFoundError
from karpenter.cloud.protocol import CloudProvider, Machine, NodeClassReadiness, RepairPolicy
from karpenter.kit.clock import FakeClock
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.observe import Detail, Metrics, measured
from karpenter.operator.measuring import AwsMetrics, MeasuredCloud
from karpenter.state import Cluster
from tests.unit.state.worlds import claim, cluster, put, stored_class, stored_pool

PROVIDER_ID = "aws:///us-west-2a/i-1"


class Cloud:
    """A cloud that takes two seconds for each answer, or fails."""

    name = "aws"
    node_class_kind = AwsProvider.node_class_kind

    def __init__(self, clock: FakeClock, error: Exception | None = None) -> None:
        self.clock = clock
        self.error = error
        self.is_ready = True

    def _answer(self) -> None:
        self.clock.tick(2)
        if self.error is not None:
            raise self.error

    async def create(self, claim: NodeClaim, node_class: EC2NodeClass) -> Machine:
        """Launch."""
        del claim, node_class
        self._answer()
        return Machine(PROVIDER_ID)

    async def delete(self, provider_id: str) -> None:
        """Terminate."""
        del provider_id
        self._answer()

    async def get(self, provider_id: str) -> Machine:
        """Give one."""
        self._answer()
        return Machine(provider_id)

    async def list(self) -> Sequence[Machine]:
        """Give all."""
        self._answer()
        return ()

    async def node_mismatch(self, provider_id: str, node: Node, node_class: EC2NodeClass | None) -> str:
        """Say that the node may be another machine's."""
        del node_class
        return f"{node.metadata.name} is not {provider_id}"

    async def instance_types(self, pool: NodePool, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """Sell one type, the second pool's sold out."""
        del node_class
        self._answer()
        sold = pool.metadata.name == "default"
        labels = {names.INSTANCE_CPU: "2", names.INSTANCE_MEMORY: "4096"}
        return (InstanceType("m5.large", labels, {}, {}, (Offering("us-west-2a", "spot", 0.04, sold),)),)

    async def drift_reason(self, claim: NodeClaim, node_class: EC2NodeClass) -> str:
        """Nothing drifts."""
        del claim, node_class
        self._answer()
        return ""

    def readiness(self, node_class: EC2NodeClass) -> NodeClassReadiness:
        """As told."""
        del node_class
        return NodeClassReadiness(self.is_ready)

    def repair_policies(self) -> Sequence[RepairPolicy]:
        """One."""
        return (RepairPolicy("Ready", "False", 60.0),)


class Scene:
    """A cloud that is measured."""

    def __init__(self, error: Exception | None = None) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics(details=tuple(Detail))
        self.world: Cluster = cluster(self.clock)
        subnets = [{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az1"}]
        of_class = msgspec.structs.replace(stored_class(), status={"subnets": subnets})
        put(self.world, of_class, stored_pool(), stored_pool("other"))
        self.inner = Cloud(self.clock, error)
        self.cloud = MeasuredCloud(self.inner, self.metrics, self.clock)
        self.aws = AwsMetrics(self.metrics, self.world)
        self.value = self.metrics.registry.get_sample_value

    def took(self, method: str, controller: str = "") -> float | None:
        """The seconds that a method took."""
        labels = {"controller": controller, "method": method, "provider": "aws"}
        return self.value("karpenter_cloudprovider_duration_seconds_sum", labels)


async def test_every_question_is_measured_under_karpenters_name_for_it() -> None:
    scene = Scene()
    of_class: Any = scene.world.node_class("default")
    pool: Any = scene.world.pool("default")
    await scene.cloud.create(claim("c"), of_class)
    await scene.cloud.delete(PROVIDER_ID)
    await scene.cloud.get(PROVIDER_ID)
    await scene.cloud.list()
    await scene.cloud.instance_types(pool, of_class)
    await scene.cloud.drift_reason(claim("c"), of_class)

    methods = ("Create", "Delete", "Get", "List", "GetInstanceTypes", "IsDrifted")
    assert [scene.took(each) for each in methods] == [2.0] * 6
    assert scene.cloud.name == "aws"
    assert scene.cloud.readiness(of_class).ready
    assert len(scene.cloud.repair_policies()) == 1
    assert str(scene.cloud.node_class_kind) == "EC2NodeClass.karpenter.k8s.aws"
    node = Node(metadata=ObjectMeta(name="n"))
    assert await scene.cloud.node_mismatch(PROVIDER_ID, node, of_class) == f"n is not {PROVIDER_ID}"


async def test_the_controller_that_asks_is_named() -> None:
    scene = Scene()

    async def run() -> None:
        await scene.cloud.list()

    await measured(scene.metrics, "nodeclaim.garbagecollection", run)()

    assert scene.took("List", "nodeclaim.garbagecollection") == 2.0


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (NodeClaimNotFoundError(PROVIDER_ID), "NodeClaimNotFoundError"),
        (InsufficientCapacityError("sold out"), "InsufficientCapacityError"),
        (ValueError("AWS says no"), ""),
    ],
)
async def test_failures_are_counted_by_kind(error: Exception, word: str) -> None:
    scene = Scene(error)

    with pytest.raises(type(error)):
        await scene.cloud.delete(PROVIDER_ID)

    labels = {"controller": "", "method": "Delete", "provider": "aws", "error": word}
    assert scene.value("karpenter_cloudprovider_errors_total", labels) == 1
    assert scene.took("Delete") == 2.0


async def test_offerings_and_sizes_are_shown_and_a_class_that_is_not_ready_has_none() -> None:
    scene = Scene()
    await scene.aws.measure_offerings(scene.inner)
    of = {"instance_type": "m5.large"}
    offering = {**of, "capacity_type": "spot", "zone": "us-west-2a"}
    name = "karpenter_cloudprovider_instance_type"
    # Sold out for the other pool, not for the first.
    assert scene.value(f"{name}_offering_available", offering) == 1
    assert scene.value(f"{name}_offering_price_estimate", offering) == 0.04
    assert scene.value(f"{name}_cpu_cores", of) == 2
    assert scene.value(f"{name}_memory_bytes", of) == 4 * 2**30
    scene.inner.is_ready = False
    await scene.aws.measure_offerings(scene.inner)
    assert scene.value(f"{name}_cpu_cores", of) is None


async def test_offerings_are_shown_anew_every_minute_and_at_once_where_other_pools_can_buy() -> None:
    scene = Scene()
    shown: list[None] = []
    measure = scene.aws.measure_offerings

    async def counted(cloud: CloudProvider[EC2NodeClass]) -> None:
        shown.append(None)
        await measure(cloud)

    scene.aws.measure_offerings = counted  # type: ignore[method-assign]
    counts = []
    for now_s, is_ready in (
        (0.0, True),
        (5.0, True),
        (10.0, False),
        (15.0, True),
        (70.0, True),
        (75.0, True),
    ):
        scene.inner.is_ready = is_ready
        await scene.aws.follow_offerings(scene.inner, now_s)
        counts.append(len(shown))

    assert counts == [1, 1, 2, 3, 3, 4]


def test_what_aws_tells_on_the_way_is_counted() -> None:
    scene = Scene()
    put(scene.world, claim("c", provider_id=PROVIDER_ID))
    scene.aws.called(CallRecord("ec2", "CreateFleet", 1.5, "", 1))
    scene.aws.called(CallRecord("ec2", "CreateFleet", 0.5, "Throttling", 2))
    scene.aws.batched("create_fleet", 3, 0.25)
    cause = classify("InsufficientInstanceCapacity", "")
    errors = [
        FleetError(cause, "", "m5.large", zone, subnet)
        for zone, subnet in (("us-west-2a", "subnet-1"), ("us-west-2z", ""))
    ]
    scene.aws.offerings_failed(errors, "spot")
    data = base64.b64encode(b"x" * 100).decode()
    spec = LaunchSpec("ami-1", data, (), tags={names.EC2NODECLASS_TAG: "default"})
    scene.aws.template_created("t", spec)
    scene.aws.unhealthy(InterruptionKind.SYSTEM_STATUS, "i-1")
    scene.aws.unhealthy(InterruptionKind.SYSTEM_STATUS, "i-of-somebody-else")

    call = {"service": "ec2", "operation": "CreateFleet"}
    assert scene.value("karpenter_aws_request_duration_seconds_sum", call) == 2.0
    assert scene.value("karpenter_aws_request_errors_total", {**call, "code": "Throttling"}) == 1
    batch = {"batcher": "create_fleet"}
    assert scene.value("karpenter_cloudprovider_batcher_batch_size_sum", batch) == 3
    assert scene.value("karpenter_cloudprovider_batcher_batch_time_seconds_sum", batch) == 0.25
    failed = "karpenter_cloudprovider_instance_launch_failures_total"
    why = {"capacity_type": "spot", "reason": cause.reason}
    assert scene.value(failed, {"zone": "us-west-2a", "zone_id": "usw2-az1", **why}) == 1
    assert scene.value(failed, {"zone": "us-west-2z", "zone_id": "", **why}) == 1
    assert scene.value("karpenter_ec2nodeclasses_userdata_bytes", {"nodeclass": "default"}) == 100
    unhealthy = "karpenter_interruption_instance_status_unhealthy_total"
    assert scene.value(unhealthy, {"category": "SystemStatus"}) == 1
