# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from karpenter.api import labels as names
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.cloud.errors import CloudError
from karpenter.cloud.protocol import NodeClassReadiness
from karpenter.controllers.nodepool import NodePools
from karpenter.controllers.registrationhealth import LaunchBreaker
from karpenter.kit.clock import FakeClock
from karpenter.kube import ConflictError, NotFoundError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.model.hashes import POOL_HASH_VERSION, pool_hash
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources
from karpenter.observe import Metrics
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, stored_class, stored_pool

REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def sold(name: str, category: str) -> InstanceType:
    """A type that is sold on demand in one zone."""
    size = Resources.parse({"cpu": "2"})
    labels = {names.INSTANCE_CATEGORY: category, names.ARCH: "amd64"}
    offering = Offering("us-west-2a", "on-demand", 0.1, labels={names.ZONE_ID: "usw2-az1"})
    return InstanceType(name, labels, size, size, (offering,))


class Cloud:
    """Sells two types."""

    node_class_kind = AwsProvider.node_class_kind

    def __init__(self) -> None:
        self.error: Exception | None = None

    def readiness(self, node_class: EC2NodeClass) -> NodeClassReadiness:
        """Ready by its condition."""
        return NodeClassReadiness(any(each.status == "True" for each in node_class.status.conditions))

    async def instance_types(self, pool: NodePool, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """Sell the same to all."""
        del pool, node_class
        if self.error:
            raise self.error
        return (sold("c5.large", "c"), sold("m5.large", "m"))


class Scene:
    """One pool and who looks after it."""

    def __init__(self, *, ready: str = "True", requirements: Sequence[Any] = (), **spec: Any) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.cloud = Cloud()
        self.recorder = Recorder(self.client, clock=self.clock)
        self.breaker = LaunchBreaker(self.clock)
        self.pools = NodePools(
            client=self.client,
            cluster=self.cluster,
            cloud=self.cloud,  # type: ignore[arg-type]
            recorder=self.recorder,
            metrics=Metrics(),
            clock=self.clock,
            breaker=self.breaker,
        )
        status = {
            "conditions": [
                {"type": "Ready", "status": ready, "reason": "SubnetsNotFound", "message": "no subnets"}
            ]
        }
        raw = {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default", "uid": "c"},
        }
        self.client.store(
            STORED_NODE_CLASSES, {**raw, "spec": dict(stored_class().spec), "status": status if ready else {}}
        )
        template = {
            "spec": {
                "requirements": list(requirements),
                "nodeClassRef": REFERENCE,
                **spec.pop("template", {}),
            }
        }
        self.client.store(STORED_NODE_POOLS, stored_pool(template=template, **spec))

    def serve(self, answers: dict[str, Any]) -> None:
        """Let the API server say which kinds it has."""

        async def raw(method: str, path: str, body: object = None) -> bytes:
            del method, body
            if path not in answers:
                raise NotFoundError("not found", status=404)
            return json.dumps(answers[path]).encode()

        self.client.raw = raw  # type: ignore[method-assign]

    def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and words of a condition."""
        raw = self.client.raw_object(STORED_NODE_POOLS, "default")
        assert raw is not None
        found: dict[str, str] = next(
            (each for each in raw["status"].get("conditions", ()) if each["type"] == kind), {}
        )
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")


async def test_a_pool_whose_class_is_ready_is_ready() -> None:
    scene = Scene()

    await scene.pools.reconcile("default")

    assert scene.condition("Ready")[0] == "True"
    assert scene.condition("InstanceTypesFound")[0] == "True"


async def test_what_its_nodes_add_up_to_is_counted_and_what_is_gone_is_taken_out() -> None:
    scene = Scene()
    scene.client.store(
        NODE_CLAIMS, claim("c1", provider_id="p1", capacity={"cpu": "2", "nvidia.com/gpu": "1"})
    )
    scene.client.store(NODE_CLAIMS, claim("c2", provider_id="p2", capacity={"cpu": "4"}))
    await scene.pools.reconcile("default")
    first = scene.client.raw_object(STORED_NODE_POOLS, "default")
    assert first is not None
    before = dict(first["status"]["resources"])
    await scene.client.delete(NODE_CLAIMS, "c1")

    await scene.pools.reconcile("default")
    await scene.pools.reconcile("default")

    last = scene.client.raw_object(STORED_NODE_POOLS, "default")
    assert last is not None
    assert before == {"cpu": "6", "nvidia.com/gpu": "1", "nodes": "2"}
    assert last["status"]["resources"] == {"cpu": "4", "nodes": "1"}
    assert last["status"]["nodes"] == 1


async def test_nothing_is_written_when_nothing_has_changed() -> None:
    scene = Scene()
    await scene.pools.reconcile("default")
    before = len(scene.client.calls)

    await scene.pools.reconcile("default")

    assert len(scene.client.calls) == before


@pytest.mark.parametrize(
    ("ready", "status", "reason"),
    [
        ("False", "False", "SubnetsNotFound"),
        ("Unknown", "Unknown", "NodeClassReadinessUnknown"),
        ("", "Unknown", "NodeClassReadinessUnknown"),
    ],
)
async def test_a_class_that_is_not_ready_is_the_pools_reason(ready: str, status: str, reason: str) -> None:
    scene = Scene(ready=ready)

    await scene.pools.reconcile("default")

    assert scene.condition("NodeClassReady")[:2] == (status, reason)
    assert scene.condition("Ready")[0] == status


async def test_a_class_that_is_missing_or_going_is_named() -> None:
    missing, going = Scene(), Scene()
    await missing.client.delete(STORED_NODE_CLASSES, "default")
    raw = going.client.raw_object(STORED_NODE_CLASSES, "default")
    assert raw is not None
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    going.client.store(STORED_NODE_CLASSES, raw)

    await missing.pools.reconcile("default")
    await going.pools.reconcile("default")

    assert missing.condition("NodeClassReady")[1] == "NodeClassNotFound"
    assert "EC2NodeClass default" in missing.condition("NodeClassReady")[2]
    assert going.condition("NodeClassReady")[1] == "NodeClassTerminating"
    assert [each.reason for each in missing.recorder._queue] == ["NodeClassNotFound"]
    assert [each.reason for each in going.recorder._queue] == ["NodeClassTerminating"]


async def test_annotations_that_no_claim_could_carry_are_refused_with_their_size() -> None:
    scene = Scene()
    template = {
        "metadata": {"annotations": {"a/b": "x" * 260_000}},
        "spec": {"requirements": [], "nodeClassRef": REFERENCE},
    }
    scene.client.store(STORED_NODE_POOLS, stored_pool(template=template))

    await scene.pools.reconcile("default")

    status, reason, message = scene.condition("ValidationSucceeded")
    assert (status, reason) == ("False", "NodePoolValidationFailed")
    assert message.startswith("spec.template.metadata.annotations: 260003 bytes")
    assert [each.message for each in scene.recorder._queue] == [message]


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        (
            [{"key": names.INSTANCE_TYPE, "operator": "In", "values": ["c", "m", "t"]}],
            "did you mean karpenter.k8s.aws/instance-category",
        ),
        ([{"key": names.INSTANCE_TYPE, "operator": "In", "values": ["x9.huge"]}], "is called x9.huge"),
        ([{"key": names.ARCH, "operator": "In", "values": ["arm64"]}], "kubernetes.io/arch"),
        ([{"key": names.ZONE, "operator": "In", "values": ["eu-west-1a"]}], "zone"),
        ([{"key": names.ZONE_ID, "operator": "In", "values": ["usw2-az9"]}], "zone-id"),
        ([{"key": names.INSTANCE_GPU_NAME, "operator": "Exists"}], "gpu-name"),
        (
            [
                {"key": names.ARCH, "operator": "In", "values": ["arm64"]},
                {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
            ],
            "no instance type meets karpenter.sh/capacity-type In [spot]; the node class offers on-demand",
        ),
        ([{"key": names.ARCH, "operator": "In", "values": ["x86_64"]}], "did you mean amd64?"),
        ([{"key": names.ARCH, "operator": "In", "values": ["sparc"]}], "the node class offers amd64"),
        ([{"key": names.ARCH, "operator": "NotIn", "values": ["amd64"]}], "NotIn [amd64]"),
        ([{"key": names.ZONE, "operator": "In", "values": ["usw2-az1"]}], f"did you mean {names.ZONE_ID}"),
        ([{"key": names.ZONE, "operator": "In", "values": ["eu-west-1a"]}], "subnets in us-west-2a"),
        ([{"key": names.ARCH, "operator": "In", "values": ["amd46"]}], "did you mean amd64?"),
        (
            [
                {"key": names.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]},
                {"key": names.INSTANCE_CATEGORY, "operator": "In", "values": ["c"]},
            ],
            "together with the other requirements",
        ),
        (
            [{"key": names.ARCH, "operator": "In", "values": [f"arm{n}" for n in range(13)]}],
            "offers amd64",
        ),
        (
            [{"key": names.INSTANCE_CPU, "operator": "In", "values": ["9999"]}],
            "no instance type meets karpenter.k8s.aws/instance-cpu In [9999]",
        ),
    ],
)
async def test_a_pool_whose_requirements_leave_no_type_is_not_ready_and_says_what_was_meant(
    requirements: list[Any], words: str
) -> None:
    scene = Scene(requirements=requirements)

    await scene.pools.reconcile("default")

    status, reason, message = scene.condition("InstanceTypesFound")
    assert (status, reason) == ("False", "NoCompatibleInstanceTypes")
    assert words in message
    assert [each.reason for each in scene.recorder._queue] == ["NoCompatibleInstanceTypes"]
    assert scene.condition("ValidationSucceeded") == (status, reason, message)
    assert scene.condition("Ready")[0] == "False"


async def test_a_pool_for_reservations_that_are_not_there_stays_ready_and_says_so() -> None:
    scene = Scene(
        requirements=[
            {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["reserved"]},
            {"key": names.CAPACITY_RESERVATION_ID, "operator": "In", "values": ["cr-1"]},
        ]
    )

    await scene.pools.reconcile("default")

    assert scene.condition("InstanceTypesFound")[0] == "False"
    assert scene.condition("Ready")[0] == "True"


async def test_a_pool_stays_unready_while_its_types_cannot_be_asked_for_again() -> None:
    scene = Scene(requirements=[{"key": names.ARCH, "operator": "In", "values": ["x86_64"]}])
    assert await scene.pools.reconcile("default") == 30
    scene.cloud.error = CloudError("EC2 does not answer")

    await scene.pools.reconcile("default")
    assert scene.condition("ValidationSucceeded")[1] == "NoCompatibleInstanceTypes"

    raw = scene.client.raw_object(STORED_NODE_POOLS, "default")
    assert raw is not None
    raw["metadata"]["generation"] = 9
    scene.client.store(STORED_NODE_POOLS, raw)
    await scene.pools.reconcile("default")
    assert scene.condition("ValidationSucceeded")[0] == "True"


async def test_a_pool_is_unready_while_its_launches_are_paused_and_ready_when_they_go_on() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.pools.run())
    for _ in range(3):
        scene.breaker.failed("default", "InstanceDied", "the key is disabled")
    await scene.clock.advance(1)
    status, reason, message = scene.condition("ValidationSucceeded")
    assert (status, reason) == ("False", "LaunchesPaused")
    assert "(InstanceDied): the key is disabled; none is made until" in message
    assert scene.condition("Ready")[0] == "False"

    await scene.clock.advance(301)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert scene.condition("Ready")[0] == "True"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"cpu": "-5"}, "spec.limits[cpu]: -5 is negative, so no node could be made; 0 is the least"),
        ({"cpu": "many"}, "spec.limits[cpu]: "),
        ({"cpu": "0"}, ""),
    ],
)
async def test_a_limit_that_is_negative_or_no_quantity_is_named(limits: dict[str, str], words: str) -> None:
    scene = Scene(limits=limits)

    await scene.pools.reconcile("default")

    status, reason, message = scene.condition("ValidationSucceeded")
    assert message.startswith(words)
    assert (status, reason) == (
        ("False", "NodePoolValidationFailed") if words else ("True", "ValidationSucceeded")
    )


KWOK = {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}


@pytest.mark.parametrize(
    "served",
    [
        {},
        {"/apis/karpenter.kwok.sh": {"versions": [{"groupVersion": "karpenter.kwok.sh/v1"}]}},
    ],
)
async def test_a_node_class_of_a_kind_that_does_not_exist_is_named(served: dict[str, Any]) -> None:
    scene = Scene(template=KWOK)
    scene.serve({**served, "/apis/karpenter.kwok.sh/v1": {"resources": [{"kind": "Other"}]}})

    await scene.pools.reconcile("default")

    status, reason, message = scene.condition("NodeClassReady")
    assert (status, reason) == ("False", "NodeClassNotFound")
    assert message == (
        "nodeClassRef names KWOKNodeClass.karpenter.kwok.sh, which is no node class here;"
        " did you mean EC2NodeClass.karpenter.k8s.aws?"
    )
    assert scene.condition("Ready")[0] == "False"


async def test_a_pool_of_another_controller_is_left_alone() -> None:
    scene = Scene(template=KWOK)
    scene.serve(
        {
            "/apis/karpenter.kwok.sh": {"versions": [{"groupVersion": "karpenter.kwok.sh/v1"}]},
            "/apis/karpenter.kwok.sh/v1": {"resources": [{"kind": "KWOKNodeClass"}]},
        }
    )

    await scene.pools.reconcile("default")

    assert scene.client.calls == []


async def test_labels_of_the_pools_own_exclude_no_type() -> None:
    scene = Scene(requirements=[{"key": "team", "operator": "In", "values": ["a"]}])

    await scene.pools.reconcile("default")

    assert scene.condition("InstanceTypesFound")[0] == "True"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"requirements": [{"key": "a", "operator": "Sometimes"}]}, "requirements[0]"),
        (
            {"requirements": [{"key": names.CAPACITY_TYPE, "operator": "In", "values": ["cheap"]}]},
            "none of cheap",
        ),
        (
            {
                "requirements": [
                    {
                        "key": names.CAPACITY_TYPE,
                        "operator": "In",
                        "values": ["spot", "cheap"],
                        "minValues": 2,
                    }
                ]
            },
            "minValues",
        ),
        (
            {
                "template": {
                    "taints": [{"key": "a", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "a", "effect": "NoSchedule", "value": "x"}],
                }
            },
            "taint a:NoSchedule is there twice",
        ),
    ],
)
async def test_words_that_make_no_sense_are_named_with_their_field(parts: dict[str, Any], words: str) -> None:
    scene = Scene(**parts)

    await scene.pools.reconcile("default")

    status, _, message = scene.condition("ValidationSucceeded")
    assert status == "False"
    assert words in message
    assert scene.condition("Ready")[0] == "False"


@pytest.mark.parametrize(
    ("disruption", "words"),
    [
        ({"budgets": [{"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}]}, "budgets[0].schedule"),
        ({"budgets": [{"nodes": "many"}]}, "budgets[0].nodes"),
        ({"consolidateAfter": "soon"}, "consolidateAfter"),
    ],
)
async def test_a_disruption_part_that_cannot_be_read_is_said_and_stops_nothing_else(
    disruption: dict[str, Any], words: str
) -> None:
    scene = Scene(disruption=disruption)

    await scene.pools.reconcile("default")

    status, _, message = scene.condition("DisruptionValid")
    assert status == "False"
    assert words in message
    assert scene.condition("ValidationSucceeded")[0] == "True"


async def test_a_cloud_that_cannot_tell_says_nothing_about_types() -> None:
    scene = Scene()
    scene.cloud.error = CloudError("no subnets")

    await scene.pools.reconcile("default")

    assert scene.condition("InstanceTypesFound")[0] == ""


async def test_a_pool_that_cannot_be_understood_says_why() -> None:
    scene = Scene()
    scene.client.store(
        STORED_NODE_POOLS, stored_pool(template={"spec": {"requirements": 5, "nodeClassRef": {"group": "g"}}})
    )

    await scene.pools.reconcile("default")
    await scene.pools.reconcile("default")
    await scene.pools.reconcile("nobody")

    assert scene.condition("ValidationSucceeded")[0] == "False"
    assert [each.reason for each in scene.recorder._queue] == ["NodePoolValidationFailed"]
    assert len(scene.client.writes("patch", "nodepools")) == 1


async def test_the_fingerprint_is_written_and_those_of_another_reckoning_are_replaced() -> None:
    scene = Scene()
    old = {"annotations": {names.NODEPOOL_HASH: "2", names.NODEPOOL_HASH_VERSION: "v2"}}
    scene.client.store(NODE_CLAIMS, claim("old", metadata=old))
    drifted = [{"type": "Drifted", "status": "True"}]
    scene.client.store(NODE_CLAIMS, claim("drifted", metadata=old, conditions=drifted))
    ours = {names.NODEPOOL_HASH: "1", names.NODEPOOL_HASH_VERSION: POOL_HASH_VERSION}
    scene.client.store(NODE_CLAIMS, claim("ours", metadata={"annotations": ours}))

    await scene.pools.reconcile("default")

    pool = scene.cluster.pool("default")
    found = {each.metadata.name: each.metadata.annotations for each in scene.cluster.informers.claims}
    assert pool is not None
    assert pool.metadata.annotations[names.NODEPOOL_HASH] == pool_hash(pool)
    stamps = [found[name][names.NODEPOOL_HASH] for name in ("old", "drifted", "ours")]
    assert stamps == [pool_hash(pool), "2", "1"]
    assert {each[names.NODEPOOL_HASH_VERSION] for each in found.values()} == {POOL_HASH_VERSION}


def test_a_fingerprint_follows_the_template_and_not_requirements_or_the_order_of_taints() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    requirements = [{"key": "x", "operator": "Exists"}]

    def of(**parts: Any) -> str:
        pool = Scene(**parts).cluster.pool("default")
        assert pool is not None
        return pool_hash(pool)

    assert of(template={"taints": taints}) == of(template={"taints": taints[::-1]}, requirements=requirements)
    assert of() != of(template={"taints": taints})
    assert of() == of(weight=5, limits={})


async def test_it_works_by_itself_and_counts_nodes_that_come() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.pools.run())
    await scene.clock.settle()
    scene.client.store(NODE_CLAIMS, claim("c1", provider_id="p1", capacity={"cpu": "2"}))
    await scene.clock.advance(2)
    raw = scene.client.raw_object(STORED_NODE_CLASSES, "default")
    assert raw is not None
    scene.client.store(STORED_NODE_CLASSES, raw)
    await scene.clock.advance(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    stored = scene.client.raw_object(STORED_NODE_POOLS, "default")
    assert stored is not None
    assert stored["status"]["nodes"] == 1


async def test_what_a_heartbeat_writes_is_no_reason_to_count_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    looked = []
    instance_types = scene.cloud.instance_types

    async def seen(*arguments: Any) -> Any:
        looked.append(arguments)
        return await instance_types(*arguments)

    monkeypatch.setattr(scene.cloud, "instance_types", seen)

    def stored(cpu: str, **annotations: str) -> NodeClaim:
        known = {names.NODEPOOL_HASH_VERSION: POOL_HASH_VERSION, **annotations}
        return claim("c1", provider_id="p1", capacity={"cpu": cpu}, metadata={"annotations": known})

    scene.client.store(NODE_CLAIMS, stored("2"))
    task = asyncio.ensure_future(scene.pools.run())
    await scene.clock.advance(2)
    settled = len(looked)

    scene.client.store(NODE_CLAIMS, stored("2", tagged="true"))
    await scene.clock.advance(2)
    quiet = len(looked)
    scene.client.store(NODE_CLAIMS, stored("4"))
    await scene.clock.advance(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert 0 < settled == quiet < len(looked)


async def test_a_pool_that_another_writes_to_meanwhile_is_decided_anew() -> None:
    scene = Scene()
    odd = stored_pool(template={"spec": {"requirements": 5, "nodeClassRef": {"group": "g"}}})
    scene.client.store(STORED_NODE_POOLS, odd)
    scene.client.fail("patch", "nodepools", ConflictError("modified", status=409))
    await scene.pools.reconcile("default")
    before = scene.condition("ValidationSucceeded")[0]

    await scene.pools.reconcile("default")

    assert before == ""
    assert scene.condition("ValidationSucceeded")[0] == "False"
