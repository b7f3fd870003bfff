# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.core import Pod
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.cloud.aws.provider import AwsProvider
from karpenter.cloud.errors import CloudError
from karpenter.controllers.poolproblems import sentence
from karpenter.controllers.provisioning import Market, Provisioner, ProvisionerSettings
from karpenter.controllers.provisioning.nominating import nominable
from karpenter.kit.clock import FakeClock
from karpenter.kube import FencedError, ForbiddenError, Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.resources import Resources
from karpenter.model.snapshot import Snapshot
from karpenter.observe import DecisionLog, Metrics
from karpenter.scheduling import Plan, SolveOptions, solve
from karpenter.state import STORED_NODE_CLASSES, STORED_NODE_POOLS
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, pod, stored_class, stored_pool

READY = [
    {"type": kind, "status": "True", "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for kind in ("ValidationSucceeded", "NodeClassReady", "Ready")
]
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}

DISRUPTED = [{"key": names.DISRUPTED_TAINT.key, "effect": "NoSchedule"}]


def sold(name: str, cpu: str, price: float) -> InstanceType:
    """A type in two zones."""
    size = Resources.parse({"cpu": cpu, "memory": "8Gi", "pods": "29"})
    labels = {names.ARCH: "amd64", names.OS: "linux"}
    offerings = tuple(Offering(zone, "on-demand", price) for zone in ("us-west-2a", "us-west-2b"))
    return InstanceType(name, labels, size, size, offerings)


class Shop:
    """The part of a cloud that provisioning asks."""

    node_class_kind = AwsProvider.node_class_kind

    def __init__(self) -> None:
        self.types: Sequence[InstanceType] = (sold("m5.large", "2", 0.1), sold("m5.xlarge", "4", 0.19))
        self.error: Exception | None = None

    async def instance_types(self, pool: NodePool, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """Sell the same to all."""
        del pool, node_class
        if self.error is not None:
            raise self.error
        return self.types


class Scene:
    """A provisioner in a cluster with one ready pool."""

    def __init__(self, *, settings: ProvisionerSettings | None = None, **pool: Any) -> None:
        self.clock = FakeClock()
        self.client, self.cluster = paper_cluster(self.clock)
        self.shop = Shop()
        self.recorder = Recorder(self.client, clock=self.clock)
        self.decisions = DecisionLog(self.clock)
        self.pauses: dict[str, str] = {}
        self.provisioner = Provisioner(
            client=self.client,
            cluster=self.cluster,
            market=Market(self.cluster, self.shop, pause=self._pause),  # type: ignore[arg-type]
            pause=self._pause,
            solver=solve,
            recorder=self.recorder,
            decisions=self.decisions,
            metrics=Metrics(),
            clock=self.clock,
            settings=settings or ProvisionerSettings(),
        )
        self.client.store(STORED_NODE_CLASSES, stored_class())
        self.pool(**pool)

    def _pause(self, pool: str) -> str:
        return self.pauses.get(pool, "")

    def pool(self, name: str = "default", *, ready: bool = True, **spec: Any) -> None:
        """Put a pool in place."""
        made = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 3},
            "spec": {**dict(stored_pool(name).spec), **spec},
            "status": {"conditions": READY if ready else []},
        }
        self.client.store(STORED_NODE_POOLS, made)

    def pend(self, *names_: str, **parts: Any) -> None:
        """Let pods wait."""
        for name in names_:
            made = {
                "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
                "spec": {
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}],
                    **parts,
                },
                "status": UNSCHEDULABLE,
            }
            self.client.store(PODS, made)

    @property
    def claims(self) -> list[NodeClaim]:
        """The claims that were made."""
        return list(self.cluster.informers.claims)

    @property
    def told(self) -> list[tuple[str, str, str]]:
        """The events that wait to be sent: object, reason, message."""
        return [(each.subject.name, each.reason, each.message) for each in self.recorder._queue]


async def test_pending_pods_get_one_claim_that_says_all_a_launch_needs() -> None:
    scene = Scene(limits={})
    scene.pend("a", "b", "c")

    plan = await scene.provisioner.provision()

    [claim] = scene.claims
    assert plan.price_per_hour == 0.1
    assert claim.metadata.name.startswith("default-")
    assert claim.metadata.labels[names.NODEPOOL] == "default"
    assert claim.metadata.labels[names.EC2NODECLASS] == "default"
    assert claim.metadata.finalizers == (names.TERMINATION_FINALIZER,)
    assert claim.metadata.owner_references[0].uid == "uid-default"
    assert claim.metadata.annotations[names.NODEPOOL_HASH]
    types = next(each for each in claim.spec.requirements if each.key == names.INSTANCE_TYPE)
    assert types.values == ("m5.large", "m5.xlarge")
    assert claim.spec.resources.requests["cpu"] == "1500m"
    assert claim.spec.expire_after == "720h"


async def test_pods_that_were_served_are_not_served_again() -> None:
    scene = Scene()
    scene.pend("a", "b")
    await scene.provisioner.provision()

    again = await scene.provisioner.provision()

    assert scene.provisioner.waiting() == ()
    assert again.new_nodes == ()
    assert len(scene.claims) == 1


async def test_after_a_restart_the_claim_that_was_ordered_is_counted_on() -> None:
    scene = Scene()
    scene.pend("a", "b")
    await scene.provisioner.provision()
    for uid in ("uid-a", "uid-b"):
        scene.cluster.nominations.withdraw(uid)

    plan = await scene.provisioner.provision()

    assert plan.new_nodes == ()
    assert list(plan.existing) == [scene.claims[0].metadata.name]
    assert len(scene.claims) == 1


async def test_a_promise_that_is_not_kept_leaves_the_pod_waiting_again() -> None:
    scene = Scene()
    scene.pend("a")
    await scene.provisioner.provision()

    scene.clock.tick(901)

    assert [each.metadata.name for each in scene.provisioner.waiting()] == ["a"]


async def test_a_claim_that_is_gone_leaves_its_pods_waiting_again() -> None:
    scene = Scene()
    scene.pend("a")
    await scene.provisioner.provision()
    [claim] = scene.claims
    await scene.client.edit(NODE_CLAIMS, claim.metadata.name, {"metadata": {"finalizers": []}})
    await scene.client.delete(NODE_CLAIMS, claim.metadata.name)

    await scene.provisioner.provision()

    assert [each.metadata.name for each in scene.claims] != [claim.metadata.name]
    assert len(scene.claims) == 1


async def test_a_pod_that_cannot_be_placed_is_told_why_once() -> None:
    scene = Scene()
    scene.pend("huge", containers=[{"name": "c", "resources": {"requests": {"cpu": "64"}}}])

    await scene.provisioner.provision()
    await scene.provisioner.provision()

    assert [(name, reason) for name, reason, _ in scene.told] == [("huge", "FailedScheduling")]
    assert "cpu" in scene.told[0][2]
    assert scene.claims == []
    assert [each.kind for each in scene.decisions.since()] == ["refuse"]


@pytest.mark.parametrize(
    ("values", "policy", "told"),
    [
        (["m5.large", "no-such-type"], "Strict", [" due to minValues incompatibility"]),
        (["m5.large", "no-such-type"], "BestEffort", []),
        (["no-such-type", "nor-this"], "BestEffort", [""]),
        (["m5.large", "m5.xlarge"], "Strict", []),
    ],
)
async def test_a_pool_that_has_no_type_to_offer_says_so(
    values: list[str], policy: Any, told: list[str]
) -> None:
    wish = {"key": names.INSTANCE_TYPE, "operator": "In", "values": values, "minValues": 2}
    template = dict(stored_pool("default").spec)["template"]
    scene = Scene(
        settings=ProvisionerSettings(options=SolveOptions(min_values=policy)),
        template={**template, "spec": {**template["spec"], "requirements": [wish]}},
    )
    scene.pend("waiting")

    await scene.provisioner.provision()

    sentence = "NodePool requirements filtered out all compatible available instance types"
    found = [each for each in scene.told if each[1] == "NoCompatibleInstanceTypes"]
    assert found == [("default", "NoCompatibleInstanceTypes", sentence + more) for more in told]


async def test_a_pod_that_wants_no_node_of_ours_is_not_bothered() -> None:
    scene = Scene()
    term = {"matchExpressions": [{"key": names.NODEPOOL, "operator": "DoesNotExist"}]}
    scene.pend(
        "proud",
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        },
    )

    await scene.provisioner.provision()

    assert scene.told == []


async def test_pods_with_devices_by_claim_are_left_alone() -> None:
    scene = Scene()
    scene.pend("gpu", resourceClaims=[{"name": "gpu"}])

    assert scene.provisioner.waiting() == ()


async def test_a_pod_for_which_the_scheduler_makes_room_is_left_to_it() -> None:
    scene = Scene()
    scene.client.store(NODES, node("n1"))
    for name, target in (("preempting", "n1"), ("orphan", "gone-node")):
        made = {
            "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "c"}]},
            "status": {**UNSCHEDULABLE, "nominatedNodeName": target},
        }
        scene.client.store(PODS, made)

    assert [each.metadata.name for each in scene.provisioner.waiting()] == ["orphan"]


async def test_pods_of_a_node_on_its_way_out_get_a_place_before_they_are_evicted() -> None:
    scene = Scene()
    scene.client.store(
        NODES,
        node(
            "n1",
            labels={names.NODEPOOL: "default"},
            taints=DISRUPTED,
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]},
        ),
    )
    scene.client.store(NODES, node("n2", labels={names.NODEPOOL: "default"}, taints=DISRUPTED))
    scene.client.store(PODS, pod("a", "n1", phase="Running"))
    scene.client.store(PODS, pod("of-a-node-that-may-be-kept", "n2", phase="Running"))

    await scene.provisioner.provision()
    again = await scene.provisioner.provision()

    assert len(scene.claims) == 1
    assert again.new_nodes == ()


async def test_pools_that_are_not_open_sell_nothing() -> None:
    scene = Scene(ready=False)
    scene.pool("static", replicas=1)
    scene.pend("a")

    plan = await scene.provisioner.provision()

    assert plan.new_nodes == ()
    assert len(plan.rejections) == 1


@pytest.mark.parametrize("trouble", [CloudError("no subnets"), None])
async def test_a_pool_whose_types_cannot_be_had_is_left_out(trouble: Exception | None) -> None:
    scene = Scene()
    scene.shop.error = trouble
    scene.shop.types = ()
    scene.pend("a")

    plan = await scene.provisioner.provision()

    assert plan.new_nodes == ()


async def test_a_pool_without_its_node_class_is_left_out() -> None:
    scene = Scene()
    await scene.client.delete(STORED_NODE_CLASSES, "default")
    scene.pend("a")

    assert (await scene.provisioner.provision()).new_nodes == ()


async def test_a_claim_that_the_server_refuses_leaves_its_pods_waiting_and_the_others_served() -> None:
    scene = Scene()
    scene.pend("a", "b", topologySpreadConstraints=[])
    scene.client.fail("create", "nodeclaims", ForbiddenError("nodeclaims is forbidden", status=403))

    await scene.provisioner.provision()
    waiting = len(scene.provisioner.waiting())
    await scene.provisioner.provision()

    assert waiting == 2
    assert len(scene.claims) == 1


async def test_planned_pods_are_nominated_once_their_node_is_there() -> None:
    scene = Scene()
    scene.pend("a", "b")
    await scene.provisioner.provision()
    [claim] = scene.claims
    before = scene.client.writes("patch", "pods")
    await scene.client.patch(
        NODE_CLAIMS, claim.metadata.name, {"status": {"providerID": "aws:///a/i-1"}}, subresource="status"
    )
    scene.client.store(NODES, node("ip-10-0-0-1", "aws:///a/i-1"))

    await scene.provisioner.nominator.renew()
    await scene.provisioner.nominator.renew()

    written = scene.client.writes("patch", "pods")
    assert before == ()
    assert [(each.name, each.body["status"]["nominatedNodeName"]) for each in written] == [
        ("a", "ip-10-0-0-1"),
        ("b", "ip-10-0-0-1"),
    ]


async def _with_a_node(scene: Scene) -> NodeClaim:
    """Serve what waits, and let the first claim's node join."""
    await scene.provisioner.provision()
    claim = scene.claims[0]
    await scene.client.patch(
        NODE_CLAIMS, claim.metadata.name, {"status": {"providerID": "aws:///a/i-1"}}, subresource="status"
    )
    scene.client.store(NODES, node("n1", "aws:///a/i-1", labels={names.NODEPOOL: "default"}))
    return claim


async def test_a_member_counts_as_told_once_its_pods_are_nominated_and_again_after_one_was_taken_back() -> (
    None
):
    scene = Scene()
    scene.pend("a", "b")
    claim = await _with_a_node(scene)
    nominations, told = scene.cluster.nominations, []
    told.append(nominations.is_told(claim.metadata.name))

    await scene.provisioner.nominator.renew()
    told.append(nominations.is_told(claim.metadata.name))
    scene.pend("a")
    told.append(nominations.is_told(claim.metadata.name))
    await scene.provisioner.nominator.renew([claim.metadata.name, "nobody"])
    told.append(nominations.is_told(claim.metadata.name))

    assert told == [False, True, False, True]
    written = [each.name for each in scene.client.writes("patch", "pods")]
    assert written == ["a", "b", "a"]


async def test_of_a_large_plan_some_pods_are_told_where_they_go_and_the_server_is_spared_the_rest() -> None:
    scene = Scene()
    scene.pend(*(f"p{number:02}" for number in range(30)))

    await scene.provisioner.provision()

    assert [reason for _, reason, _ in scene.told].count("Nominated") == 10


async def test_where_nominations_are_off_nothing_is_written_and_nobody_waits_for_it() -> None:
    scene = Scene(settings=ProvisionerSettings(nominate=False))
    scene.pend("a")
    claim = await _with_a_node(scene)

    await scene.provisioner.nominator.renew()

    assert scene.client.writes("patch", "pods") == ()
    assert scene.cluster.nominations.is_told(claim.metadata.name)


async def test_a_pod_that_its_ready_node_does_not_get_is_planned_anew() -> None:
    scene = Scene()
    scene.pend("a")
    await _with_a_node(scene)
    ready = {names.NODEPOOL: "default", names.REGISTERED: "true", names.INITIALIZED: "true"}
    scene.clock.tick(100)
    before = len(scene.provisioner.waiting())

    scene.client.store(NODES, node("n1", "aws:///a/i-1", labels=ready))
    scene.clock.tick(19)
    still = len(scene.provisioner.waiting())
    scene.clock.tick(1)

    assert (before, still) == (0, 0)
    assert [pod.metadata.name for pod in scene.provisioner.waiting()] == ["a"]
    assert scene.provisioner.follower.knows(scene.provisioner.waiting()[0])


async def test_a_pod_that_was_bound_meanwhile_is_not_nominated() -> None:
    scene = Scene()
    scene.pend("a", "b")
    await _with_a_node(scene)
    patch = scene.client.patch

    async def slowly(*arguments: Any, **options: Any) -> Any:
        scene.client.store(PODS, pod("b", "n1"))
        return await patch(*arguments, **options)

    scene.client.patch = slowly  # type: ignore[method-assign]

    await scene.provisioner.nominator.renew()

    assert [each.name for each in scene.client.writes("patch", "pods")] == ["a"]


async def test_a_nomination_whose_promise_has_ended_is_cleared() -> None:
    scene = Scene()
    scene.pend("a")
    scene.client.store(NODES, node("n1"))
    await scene.provisioner.provision()
    await scene.provisioner.nominator.renew()
    first = scene.client.raw_object(PODS, "a", "shop")
    assert first is not None
    assert first["status"]["nominatedNodeName"] == "n1"
    scene.clock.tick(21)

    await scene.provisioner.nominator.renew()

    last = scene.client.raw_object(PODS, "a", "shop")
    assert last is not None
    assert "nominatedNodeName" not in last["status"]
    assert [each.metadata.name for each in scene.provisioner.waiting()] == ["a"]


async def test_it_waits_for_a_window_and_then_serves_all_that_wait() -> None:
    scene = Scene()
    task = asyncio.ensure_future(scene.provisioner.run())
    await scene.clock.settle()
    scene.pend("a", "b")
    for _ in range(200):
        await scene.clock.advance(0.5)
        await asyncio.sleep(0.01)
        if scene.claims:
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert len(scene.claims) == 1


def _spreading(name: str, app: str, *, owns: bool, priority: int = 0) -> Pod:
    """A pod, perhaps with a hard spread over zones of the pods of app=web."""
    spread = {
        "maxSkew": 1,
        "topologyKey": names.ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
            "spec": {"topologySpreadConstraints": [spread] if owns else [], "priority": priority},
        },
        Pod,
    )


def test_pods_of_a_hard_spread_are_nominated_in_turn() -> None:
    made = [
        _spreading("a", "web", owns=True),
        _spreading("b", "web", owns=True),
        _spreading("c", "db", owns=False),
        _spreading("d", "db", owns=False),
    ]

    assert [each.metadata.name for each in nominable(made)] == ["a", "c", "d"]
    assert [each.metadata.name for each in nominable(made[1:])] == ["b", "c", "d"]


async def test_a_solve_is_given_up_when_its_controller_is_stopped() -> None:
    scene = Scene()
    scene.pend("a")
    begun, ended = threading.Event(), threading.Event()

    def endless(_snapshot: Snapshot, _pods: tuple[Pod, ...], options: SolveOptions) -> Plan:
        begun.set()
        while not options.expired():
            time.sleep(0.01)
        ended.set()
        return Plan()

    scene.provisioner._solver = endless
    task = asyncio.ensure_future(scene.provisioner.provision())
    await asyncio.to_thread(begun.wait, 5)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert await asyncio.to_thread(ended.wait, 5)


class Standing:
    """Keeps room for one pod that does not exist."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []

    def pods(self) -> tuple[Pod, ...]:
        spare = pod("spare", cpu="1")
        meta = msgspec.structs.replace(spare.metadata, annotations={names.CAPACITY_BUFFER_FAKE_POD: "true"})
        return (msgspec.structs.replace(spare, metadata=meta),)

    def placed(self, snapshot: Snapshot, plan: Plan) -> None:
        del snapshot
        self.plans.append(plan)


async def test_room_for_pods_that_do_not_exist_is_ordered_and_nobody_is_told_of_them() -> None:
    scene = Scene()
    room = Standing()
    scene.provisioner._room = room

    first = await scene.provisioner.provision()
    second = await scene.provisioner.provision()

    assert len(first.new_nodes) == 1
    assert not second.new_nodes
    assert room.plans == [first, second]
    assert not scene.cluster.nominations.member_of("uid-spare")
    scene.provisioner.look()


def test_pods_that_a_hard_spread_merely_counts_are_nominated_after_its_owner() -> None:
    counted = [_spreading(name, "web", owns=False) for name in ("a", "b")]
    owner = _spreading("c", "web", owns=True)

    assert [each.metadata.name for each in nominable([*counted, owner])] == ["c"]
    assert [each.metadata.name for each in nominable(counted)] == ["a", "b"]


def test_pods_of_lesser_priority_do_not_wait_for_the_owner_of_a_spread() -> None:
    lesser = [_spreading(name, "web", owns=False, priority=-10) for name in ("a", "b")]
    owner = _spreading("c", "web", owns=True)

    assert [each.metadata.name for each in nominable([*lesser, owner])] == ["c", "a", "b"]


X86 = {
    "type": "ValidationSucceeded",
    "status": "False",
    "reason": "NoCompatibleInstanceTypes",
    "message": "no instance type meets kubernetes.io/arch In [x86_64]; did you mean amd64?",
    "observedGeneration": 3,
}


async def test_a_pod_whose_only_pool_is_not_ready_hears_which_one_and_why() -> None:
    scene = Scene(ready=False)
    raw = scene.client.raw_object(STORED_NODE_POOLS, "default")
    assert raw is not None
    scene.client.store(STORED_NODE_POOLS, {**raw, "status": {"conditions": [X86]}})
    scene.pool("new", ready=False)
    scene.pend("web")
    scene.pend("elsewhere", nodeSelector={"team": "b"})

    await scene.provisioner.provision()

    told = {name: message for name, reason, message in scene.told if reason == "FailedScheduling"}
    assert told["web"] == (
        "there is no NodePool that is ready; NodePool default makes no node: no instance type meets"
        " kubernetes.io/arch In [x86_64]; did you mean amd64?; NodePool new makes no node: it is not Ready: see"
        " its conditions"
    )
    assert told["elsewhere"] == "there is no NodePool that is ready"


async def test_a_pod_hears_of_a_pause_of_types_that_cannot_be_had_and_of_a_pool_that_goes() -> None:
    scene = Scene()
    scene.shop.error = CloudError("EC2 does not answer", hint="see the AWS Health Dashboard")
    raw = scene.client.raw_object(STORED_NODE_POOLS, "default")
    assert raw is not None
    going = {**raw["metadata"], "name": "going", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    scene.client.store(STORED_NODE_POOLS, {**raw, "metadata": going})
    scene.pool("paused")
    scene.pool("static", replicas=1)
    scene.pauses["paused"] = "nodes fail in a row"
    scene.pend("web")

    await scene.provisioner.provision()

    [(_, _, message)] = scene.told
    assert message == (
        "there is no NodePool that is ready; NodePool default makes no node: its instance types are not known:"
        " EC2 does not answer; see the AWS Health Dashboard; NodePool going makes no node: it is being deleted;"
        " NodePool paused makes no node: nodes fail in a row"
    )


async def test_a_claim_that_a_webhook_refuses_is_told_on_the_pool_and_on_the_pod() -> None:
    scene = Scene(limits={})
    refused = ForbiddenError('admission webhook "x" denied it', status=403)
    scene.client.fail("create", "nodeclaims", refused, FencedError("not ours to write"))
    scene.pend("web")

    await scene.provisioner.provision()

    words = f"the API server does not take its NodeClaim: {sentence(refused)}"
    assert ("default", "NodeClaimNotCreated", words) in scene.told
    assert ("web", "FailedScheduling", f"NodePool default makes no node: {words}") in scene.told
    await scene.provisioner.provision()
    assert scene.provisioner._problems.about("default") == (words,)
    await scene.provisioner.provision()
    assert scene.provisioner._problems.about("default") == ()


async def test_a_pod_that_does_not_fit_hears_what_is_wrong_with_its_pools_too() -> None:
    scene = Scene(limits={})
    scene.pool("paused")
    scene.pauses["paused"] = "nodes fail in a row"
    refused = {
        "type": "InstanceTerminating",
        "status": "False",
        "message": "ec2:TerminateInstances is denied",
    }
    for name in ("default", "paused"):
        scene.client.store(NODE_CLAIMS, claim(f"{name}-1", name, f"p-{name}", conditions=[refused]))
    scene.pend("huge", containers=[{"name": "c", "resources": {"requests": {"cpu": "999"}}}])

    await scene.provisioner.provision()

    [message] = [words for name, _, words in scene.told if name == "huge"]
    assert "; NodePool default cannot end NodeClaim default-1: ec2:TerminateInstances is denied" in message
    assert (
        "; NodePool paused makes no node: nodes fail in a row; cannot end NodeClaim paused-1: ec2" in message
    )


async def test_only_some_of_many_pools_that_make_no_node_are_named() -> None:
    scene = Scene(ready=False)
    for number in range(9):
        scene.pool(f"p{number}", ready=False)
    scene.pend("web")

    await scene.provisioner.provision()

    [(_, _, message)] = scene.told
    assert message.count("makes no node") == 3


async def test_nothing_is_ordered_from_a_pool_that_the_count_of_empty_nodes_has_just_paused() -> None:
    scene = Scene(limits={})
    counted: list[str] = []

    def count(uids: Iterable[str]) -> None:
        counted.extend(uids)
        scene.pauses["default"] = "nodes stand empty"

    scene.provisioner._before_order = count
    scene.pend("web")

    await scene.provisioner.provision()

    assert counted == ["uid-web"]
    assert scene.claims == []
    assert scene.told == [("web", "FailedScheduling", "NodePool default makes no node: nodes stand empty")]


async def test_a_pool_of_another_controller_is_not_used_and_not_spoken_of() -> None:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    scene = Scene(template={"spec": {"requirements": [], "nodeClassRef": reference}})
    scene.pend("web")

    await scene.provisioner.provision()

    assert scene.claims == []
    assert [message for _, _, message in scene.told] == ["there is no NodePool that is ready"]
