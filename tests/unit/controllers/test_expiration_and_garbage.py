# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.base import to_wire
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import CloudError, NodeClaimNotFoundError
from karpenter.cloud.leaks import Owner, leaks
from karpenter.cloud.protocol import Machine
from karpenter.controllers.expiration import Expiration, expires_in
from karpenter.controllers.garbage import GarbageCollection, orphaned, owner_by_tag
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES, PODS
from karpenter.observe import DecisionLog, Metrics
from karpenter.state import STORED_NODE_POOLS, Cluster, Informers
from tests.unit.controllers.paper import PaperClient, paper_cluster
from tests.unit.state.worlds import claim, node, pod, stored_pool

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD = NOW - timedelta(minutes=5)
READY = [{"type": "Ready", "status": "True"}]


def aged(name: str, *, expire_after: str = "720h", **parts: Any) -> NodeClaim:
    """A claim of new year."""
    made = claim(name, metadata={"creationTimestamp": "2026-01-01T00:00:00Z", "uid": f"uid-{name}", **parts})
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, expire_after=expire_after))


def machine(number: int, claim_uid: str = "", **parts: Any) -> Machine:
    """A machine of five minutes ago."""
    return Machine(f"aws:///a/i-{number}", claim_uid=claim_uid, **{"created_at": OLD, **parts})


@pytest.mark.parametrize(
    ("expire_after", "left"), [("720h", 720 * 3600), ("Never", None), ("", None), ("soon", None), ("30s", 30)]
)
def test_a_claim_expires_so_long_after_its_creation(expire_after: str, left: float | None) -> None:
    assert expires_in(aged("c", expire_after=expire_after), FakeClock()) == left


def test_a_claim_without_a_birthday_does_not_expire() -> None:
    assert expires_in(claim("c"), FakeClock()) is None


async def test_a_claim_is_deleted_when_its_time_is_over_and_not_before() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    decisions = DecisionLog(clock)
    expiration = Expiration(
        client=client,
        cluster=cluster,
        recorder=Recorder(client, clock=clock),
        decisions=decisions,
        metrics=Metrics(),
        clock=clock,
    )
    client.store(NODE_CLAIMS, aged("c1", expire_after="2h"))
    client.store(NODE_CLAIMS, aged("eternal", expire_after="Never"))
    task = asyncio.ensure_future(expiration.run())

    await clock.advance(7199)
    before = len(cluster.informers.claims)
    await clock.advance(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert before == 2
    assert [each.metadata.name for each in cluster.informers.claims] == ["eternal"]
    assert [each.reason for each in decisions.since()] == ["Expired"]
    assert await expiration.reconcile("gone") is None


async def test_an_expired_claim_that_somebody_else_deleted_is_no_trouble() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    expiration = Expiration(
        client=client,
        cluster=cluster,
        recorder=Recorder(client, clock=clock),
        decisions=DecisionLog(clock),
        metrics=Metrics(),
        clock=clock,
    )
    cluster.informers.claims.observe(aged("ghost", expire_after="1s"))
    clock.tick(5)

    assert await expiration.reconcile("ghost") is None
    assert len(expiration._decisions) == 0


class RestlessClock(FakeClock):
    """A clock that moves whenever it is asked, as real ones do."""

    def now(self) -> datetime:
        """Give the time of day, a moment later each time."""
        self.set_time_of_day(super().now() + timedelta(microseconds=1))
        return super().now()


class SlowDeletes(PaperClient):
    """Takes a second for each deletion, and lets the watch hear of it two seconds later."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.most_leaving = 0

    async def delete(self, *arguments: Any, **options: Any) -> None:
        """Delete an object, slowly."""
        await self._clock.sleep(1)
        informers, self.informers = self.informers, None
        await super().delete(*arguments, **options)
        self.informers = informers
        stored = self._objects["nodeclaims"].values()
        self.most_leaving = max(
            self.most_leaving, sum("deletionTimestamp" in each["metadata"] for each in stored)
        )

    def catch_up(self) -> None:
        """Let the informers hear of what is stored."""
        assert self.informers is not None
        for raw in self._objects["nodeclaims"].values():
            self.informers.claims.observe(self._decoded(NODE_CLAIMS, raw))


def _fleet(client: PaperClient, cluster: Cluster, lives: Sequence[str]) -> Expiration:
    """Nodes that stand, a budget of one for expiry, and who deletes them."""
    clock = cluster.informers.claims._clock
    expiration = Expiration(
        client=client,
        cluster=cluster,
        recorder=Recorder(client, clock=clock),
        decisions=DecisionLog(clock),
        metrics=Metrics(),
        clock=clock,
    )
    budgets = [{"nodes": "1", "reasons": ["Expired"]}]
    client.store(STORED_NODE_POOLS, stored_pool(disruption={"consolidateAfter": "0s", "budgets": budgets}))
    done = [{"type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    for number, life in enumerate(lives):
        held = aged(f"c{number}", expire_after=life, finalizers=[names.TERMINATION_FINALIZER])
        status = msgspec.convert({"providerID": f"p{number}", "conditions": done}, type(held.status))
        labels = msgspec.structs.replace(held.metadata, labels={names.NODEPOOL: "default"})
        client.store(NODE_CLAIMS, msgspec.structs.replace(held, metadata=labels, status=status))
        client.store(NODES, node(f"n{number}", f"p{number}", {names.NODEPOOL: "default"}, conditions=READY))
    return expiration


async def test_of_those_that_wait_for_a_budget_the_one_that_expired_first_goes_as_soon_as_there_is_room() -> (
    None
):
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    expiration = _fleet(client, cluster, ["1h", "50m", "40m", "Never"])
    clock.tick(3601)
    order = []
    for name in ("c2", "c0", "c1"):
        await expiration.reconcile(name)
    task = asyncio.ensure_future(expiration.run())
    for _ in range(3):
        await clock.advance(1)
        [leaving] = [
            each for each in cluster.informers.claims if each.metadata.deletion_timestamp is not None
        ]
        order.append(leaving.metadata.name)
        raw = client.raw_object(NODE_CLAIMS, leaving.metadata.name)
        assert raw is not None
        client._drop(NODE_CLAIMS, raw)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert order == ["c2", "c1", "c0"]


async def test_nodes_of_one_age_go_one_at_a_time_where_a_budget_says_so() -> None:
    clock = RestlessClock()
    client = SlowDeletes(clock)
    client.informers = Informers.of(client, clock=clock)
    cluster = Cluster(client.informers, clock=clock)
    expiration = _fleet(client, cluster, ["1h"] * 8)
    task = asyncio.ensure_future(expiration.run())
    gone = []

    for _ in range(9):
        await clock.advance(3600)
        client.catch_up()
        for raw in list(client._objects["nodeclaims"].values()):
            if raw["metadata"].get("deletionTimestamp"):
                gone.append(raw["metadata"]["name"])
                client._drop(NODE_CLAIMS, raw)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert client.most_leaving == 1
    assert sorted(gone) == [f"c{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("budgets", "left"),
    [
        ([{"nodes": "1", "reasons": ["Expired"]}], 3),
        ([{"nodes": "0"}], 0),
        ([{"nodes": "100%", "reasons": ["Expired"]}], 0),
    ],
)
async def test_expiry_heeds_a_budget_that_names_it_and_no_other(budgets: list[Any], left: int) -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    recorder = Recorder(client, clock=clock)
    expiration = Expiration(
        client=client,
        cluster=cluster,
        recorder=recorder,
        decisions=DecisionLog(clock),
        metrics=Metrics(),
        clock=clock,
    )
    client.store(STORED_NODE_POOLS, stored_pool(disruption={"consolidateAfter": "0s", "budgets": budgets}))
    for number in range(4):
        done = [{"type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        made = aged(f"c{number}", expire_after="1h", finalizers=[names.TERMINATION_FINALIZER])
        status = msgspec.convert({"conditions": done, "providerID": f"p{number}"}, type(made.status))
        client.store(NODE_CLAIMS, msgspec.structs.replace(made, status=status))
        client.store(
            NODES, node(f"n{number}", f"p{number}", conditions=[{"type": "Ready", "status": "True"}])
        )
    clock.tick(3601)

    waits = [await expiration.reconcile(f"c{number}") for number in range(4)]

    living = [each for each in cluster.informers.claims if each.metadata.deletion_timestamp is None]
    assert len(living) == left
    assert waits.count(30.0) == left
    assert len(recorder._queue) == left


def test_instances_that_no_claim_knows_are_leaks_once_they_are_not_fresh() -> None:
    known = claim("c1", provider_id="aws:///a/i-1")
    pending = claim("c2", metadata={"uid": "uid-2"})
    machines = [
        machine(1),
        machine(2, "uid-2"),
        machine(3, "uid-3"),
        machine(4, created_at=NOW - timedelta(seconds=10)),
        machine(5, state="shutting-down"),
        machine(6, created_at=None),
    ]

    found = leaks(machines, [Owner.of(known), Owner.of(pending)], NOW, owner_by_tag)

    assert [each.machine.provider_id for each in found] == ["aws:///a/i-3"]


def test_claims_whose_instance_is_gone_are_orphans_unless_their_node_is_ready() -> None:
    born = {"creationTimestamp": "2025-12-31T23:00:00Z"}
    claims = [
        claim("listed", provider_id="aws:///a/i-1", metadata=born),
        claim("gone", provider_id="aws:///a/i-2", metadata=born),
        claim("ready", provider_id="aws:///a/i-3", metadata=born, nodeName="n3"),
        claim("unlaunched", metadata=born),
        claim(
            "going",
            provider_id="aws:///a/i-4",
            metadata={**born, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        ),
        claim("fresh", provider_id="aws:///a/i-5", metadata={"creationTimestamp": "2025-12-31T23:59:50Z"}),
    ]

    found = orphaned(claims, [machine(1)], ["n3"], NOW)

    assert [each.metadata.name for each in found] == ["gone"]


class Cloud:
    """A list of machines."""

    def __init__(self, *machines: Machine) -> None:
        self.machines = list(machines)
        self.unlisted: list[Machine] = []
        self.deleted: list[str] = []
        self.error: Exception | None = None

    async def list(self) -> list[Machine]:
        """All of them."""
        if self.error:
            raise self.error
        return self.machines

    async def get(self, provider_id: str) -> Machine:
        """One of them, or one that lists lack."""
        known = [*self.machines, *self.unlisted]
        found = next((each for each in known if each.provider_id == provider_id), None)
        if found is None:
            raise NodeClaimNotFoundError(provider_id)
        return found

    async def delete(self, provider_id: str) -> None:
        """Take one away."""
        self.deleted.append(provider_id)
        if provider_id.endswith("9"):
            raise NodeClaimNotFoundError(provider_id)


def collection(
    client: PaperClient, cluster: Cluster, cloud: Cloud, clock: FakeClock, **options: Any
) -> GarbageCollection:
    """Garbage collection of a paper cluster."""
    return GarbageCollection(
        client=client,
        cluster=cluster,
        cloud=cloud,  # type: ignore[arg-type]
        decisions=DecisionLog(clock),
        metrics=Metrics(),
        clock=clock,
        **options,
    )


async def test_leftovers_go_in_both_directions() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(machine(1), machine(9))
    garbage = collection(client, cluster, cloud, clock)
    client.store(NODES, node("n1", "aws:///a/i-1", {names.NODEPOOL: "default"}))
    client.store(
        NODE_CLAIMS,
        claim("gone", provider_id="aws:///a/i-7", metadata={"creationTimestamp": "2025-12-31T00:00:00Z"}),
    )

    await garbage.collect()
    cloud.machines.pop(0)
    await garbage.collect()

    assert cloud.deleted == ["aws:///a/i-1", "aws:///a/i-9"]
    assert not len(cluster.informers.nodes)
    assert not len(cluster.informers.claims)
    assert [each.reason for each in garbage._decisions.since()] == ["InstanceGone", "NoClaim"]


async def test_an_instance_whose_claim_the_informer_has_not_seen_is_spared() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(machine(1, "uid-new"))
    garbage = collection(client, cluster, cloud, clock)
    client.informers = None
    client.store(NODE_CLAIMS, claim("new", metadata={"uid": "uid-new"}))

    await garbage.collect()

    assert cloud.deleted == []


async def test_a_cloud_in_trouble_is_asked_again() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud()
    cloud.error = CloudError("no answer")
    garbage = collection(client, cluster, cloud, clock)
    task = asyncio.ensure_future(garbage.run())
    await clock.advance(5)
    cloud.error = None
    cloud.machines = [machine(1)]
    await clock.advance(10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert cloud.deleted


# The API server takes it, and Python's calendar has no year 0.
YEAR_0 = {"conditions": [{"type": "Odd", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"}]}


def unreadable_claim(name: str, **status: Any) -> dict[str, Any]:
    """A claim that does not decode."""
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {}, "status": {**YEAR_0, **status}}


async def test_nothing_is_collected_while_a_claim_cannot_be_read() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(machine(1, "uid-odd"), machine(2, "uid-gone"))
    garbage = collection(client, cluster, cloud, clock)
    client.store(NODE_CLAIMS, unreadable_claim("odd", providerID="aws:///a/i-1"))
    born = {"creationTimestamp": "2025-12-31T00:00:00Z"}
    client.store(NODE_CLAIMS, claim("lost", provider_id="aws:///a/i-7", metadata=born))

    await garbage.collect()

    assert cloud.deleted == []
    assert client.writes("delete") == ()
    assert garbage._metrics.collection_held_back.labels("unreadable")._value.get() == 1


async def test_a_claim_that_the_informer_lacks_and_that_cannot_be_read_holds_collection_back_too() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(machine(1, "uid-odd"))
    garbage = collection(client, cluster, cloud, clock)
    client.informers = None
    client.store(NODE_CLAIMS, unreadable_claim("odd", providerID="aws:///a/i-1"))

    await garbage.collect()

    assert cloud.deleted == []


async def test_nothing_is_collected_from_a_stale_copy() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(machine(1))
    garbage = collection(client, cluster, cloud, clock)
    cluster.informers.pods.heard_at = clock.monotonic()
    clock.tick(71)

    await garbage.collect()

    assert cloud.deleted == []
    assert garbage._metrics.collection_held_back.labels("stale")._value.get() == 1


@pytest.mark.parametrize(("share", "ended"), [(0.1, 3), (0.01, 1), (0.0, 0)])
async def test_one_round_ends_at_most_a_share_of_the_fleet(share: float, ended: int) -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(*(machine(number + 100, "uid-gone") for number in range(30)))
    garbage = collection(client, cluster, cloud, clock, share=share)
    for number in range(30):
        born = {"creationTimestamp": "2025-12-31T00:00:00Z"}
        client.store(NODE_CLAIMS, claim(f"c{number}", provider_id=f"aws:///a/i-{number}", metadata=born))

    await garbage.collect()

    assert len(cloud.deleted) == ended
    assert len(client.writes("delete", "nodeclaims")) == ended
    assert garbage._metrics.collection_held_back.labels("share")._value.get() == 2


@pytest.mark.parametrize("unlisted", [[machine(7)], []])
async def test_a_claim_whose_instance_only_the_list_lacks_or_whose_node_is_ready_is_kept(
    unlisted: list[Machine],
) -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud()
    cloud.unlisted = unlisted
    garbage = collection(client, cluster, cloud, clock)
    born = {"creationTimestamp": "2025-12-31T00:00:00Z"}
    client.store(NODE_CLAIMS, claim("c", provider_id="aws:///a/i-7", metadata=born, nodeName="n"))
    informers, client.informers = client.informers, None
    ready = [{"type": "Ready", "status": "False" if unlisted else "True"}]
    client.store(NODES, node("n", "aws:///a/i-7", conditions=ready))
    client.informers = informers

    await garbage.collect()

    assert client.writes("delete") == ()


@pytest.mark.parametrize("finalizers", [[], [names.TERMINATION_FINALIZER]])
async def test_an_instance_whose_node_has_pods_is_drained_and_not_ended_at_once(
    finalizers: list[str],
) -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(machine(1))
    garbage = collection(client, cluster, cloud, clock)
    client.store(NODES, node("n1", "aws:///a/i-1", metadata={"finalizers": finalizers}))
    # The informer has not heard of the pod.
    informers, client.informers = client.informers, None
    client.store(PODS, pod("web", "n1", phase="Running"))
    client.informers = informers

    await garbage.collect()
    await garbage.collect()

    found = client.raw_object(NODES, "n1")
    assert cloud.deleted == []
    assert found is not None
    assert found["metadata"]["deletionTimestamp"]
    assert found["metadata"]["finalizers"] == [names.TERMINATION_FINALIZER]
    assert len(client.writes("delete", "nodes")) == 1


def test_an_owner_is_the_same_by_its_json() -> None:
    made = claim("c", provider_id="aws:///a/i-7", metadata={"creationTimestamp": "2025-12-31T00:00:00Z"})

    assert Owner.of_json(dict(to_wire(made))) == Owner.of(made)
    assert Owner.of_json({"metadata": {"name": "c", "uid": "u"}}) == Owner("c", "u")


async def test_nothing_expires_while_the_copy_of_the_cluster_is_stale() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    expiration = Expiration(
        client=client,
        cluster=cluster,
        recorder=Recorder(client, clock=clock),
        decisions=DecisionLog(clock),
        metrics=Metrics(),
        clock=clock,
    )
    client.store(NODE_CLAIMS, aged("c1", expire_after="1m"))
    cluster.informers.pods.heard_at = clock.monotonic()
    clock.tick(71)

    assert await expiration.reconcile("c1") == 30.0
    assert client.writes("delete") == ()
