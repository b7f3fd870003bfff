# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from karpenter.api import labels as names
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import CloudError, NodeClaimNotFoundError
from karpenter.cloud.leaks import leaks
from karpenter.cloud.protocol import Machine
from karpenter.controllers.expiration import Expiration, expires_in
from karpenter.controllers.garbage import GarbageCollection, orphaned, owner_by_tag
from karpenter.kit.clock import FakeClock
from karpenter.kube import Recorder
from karpenter.kube.kinds import NODE_CLAIMS, NODES
from karpenter.observe import DecisionLog, Metrics
from karpenter.state import STORED_NODE_POOLS
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim, node, stored_pool

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OLD = NOW - timedelta(minutes=5)


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

    found = leaks(machines, [known, pending], NOW, owner_by_tag)

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
        self.deleted: list[str] = []
        self.error: Exception | None = None

    async def list(self) -> list[Machine]:
        """All of them."""
        if self.error:
            raise self.error
        return self.machines

    async def delete(self, provider_id: str) -> None:
        """Take one away."""
        self.deleted.append(provider_id)
        if provider_id.endswith("9"):
            raise NodeClaimNotFoundError(provider_id)


async def test_leftovers_go_in_both_directions() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(machine(1), machine(9))
    garbage = GarbageCollection(
        client=client,
        cluster=cluster,
        cloud=cloud,  # type: ignore[arg-type]
        decisions=DecisionLog(clock),
        metrics=Metrics(),
        clock=clock,
    )
    client.store(NODES, node("n1", "aws:///a/i-1", {names.NODEPOOL: "default"}))
    client.store(
        NODE_CLAIMS,
        claim("gone", provider_id="aws:///a/i-7", metadata={"creationTimestamp": "2025-12-31T00:00:00Z"}),
    )

    await garbage.collect()

    assert cloud.deleted == ["aws:///a/i-1", "aws:///a/i-9"]
    assert not len(cluster.informers.nodes)
    assert not len(cluster.informers.claims)
    assert [each.reason for each in garbage._decisions.since()] == ["InstanceGone", "NoClaim"]


async def test_an_instance_whose_claim_the_informer_has_not_seen_is_spared() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud(machine(1, "uid-new"))
    garbage = GarbageCollection(
        client=client,
        cluster=cluster,
        cloud=cloud,  # type: ignore[arg-type]
        decisions=DecisionLog(clock),
        metrics=Metrics(),
        clock=clock,
    )
    client.informers = None
    client.store(NODE_CLAIMS, claim("new", metadata={"uid": "uid-new"}))

    await garbage.collect()

    assert cloud.deleted == []


async def test_a_cloud_in_trouble_is_asked_again() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    cloud = Cloud()
    cloud.error = CloudError("no answer")
    garbage = GarbageCollection(
        client=client,
        cluster=cluster,
        cloud=cloud,  # type: ignore[arg-type]
        decisions=DecisionLog(clock),
        metrics=Metrics(),
        clock=clock,
    )
    task = asyncio.ensure_future(garbage.run())
    await clock.advance(5)
    cloud.error = None
    cloud.machines = [machine(1)]
    await clock.advance(10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert cloud.deleted
