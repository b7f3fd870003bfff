# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from karpenter.api.labels import INSTANCE_TAGGED
from karpenter.api.nodeclaim import NodeClaim
from karpenter.cloud.errors import NodeClaimNotFoundError
from karpenter.controllers.tagging import Tagging
from karpenter.kit.clock import FakeClock
from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.observe import Metrics
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim

JOINED = [{"type": "Registered", "status": "True"}]


async def test_instances_are_named_once_their_nodes_are_known_one_a_second() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    tagged: list[str] = []
    failing = True

    async def tag(each: NodeClaim) -> bool:
        nonlocal failing
        if failing:
            failing = False
            raise ValueError("not now")
        tagged.append(each.metadata.name)
        return True

    tagging = Tagging(client=client, cluster=cluster, tag=tag, metrics=Metrics(), clock=clock)
    for name in ("a", "b"):
        client.store(NODE_CLAIMS, claim(name, provider_id=f"p-{name}", conditions=JOINED))
    client.store(NODE_CLAIMS, claim("unborn", provider_id="p-u"))
    task = asyncio.ensure_future(tagging.run())
    await clock.advance(0.5)
    early = list(tagged)
    await clock.advance(10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert early == ["b"]
    assert sorted(tagged) == ["a", "b"]
    for name in ("a", "b"):
        found = cluster.informers.claims.get(name)
        assert found is not None
        assert found.metadata.annotations[INSTANCE_TAGGED] == "true"
        assert found.metadata.annotations["compatibility.karpenter.k8s.aws/cluster-name-tagged"] == "true"


async def test_claims_that_are_gone_are_left_alone() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    tagged: list[str] = []

    async def tag(each: NodeClaim) -> bool:
        tagged.append(each.metadata.name)
        return False

    tagging = Tagging(client=client, cluster=cluster, tag=tag, metrics=Metrics(), clock=clock)
    cluster.informers.claims.observe(claim("ghost", provider_id="p", conditions=JOINED))

    assert await tagging.reconcile("nobody") is None
    assert await tagging.reconcile("ghost") is None
    assert tagged == ["ghost"]


async def test_a_claim_whose_instance_is_gone_is_not_marked_as_tagged() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    client.store(NODE_CLAIMS, claim("a", provider_id="p-a", conditions=JOINED))

    async def tag(each: NodeClaim) -> bool:
        raise NodeClaimNotFoundError(each.status.provider_id)

    tagging = Tagging(client=client, cluster=cluster, tag=tag, metrics=Metrics(), clock=clock)

    assert await tagging.reconcile("a") is None
    found = cluster.informers.claims.get("a")
    assert found is not None
    assert INSTANCE_TAGGED not in found.metadata.annotations


async def test_a_claim_that_an_older_karpenter_tagged_gets_the_name_of_the_cluster() -> None:
    clock = FakeClock()
    client, cluster = paper_cluster(clock)
    marked = claim(
        "a", provider_id="p-a", conditions=JOINED, metadata={"annotations": {INSTANCE_TAGGED: "true"}}
    )
    client.store(NODE_CLAIMS, marked)
    tagged: list[str] = []

    async def tag(each: NodeClaim) -> bool:
        tagged.append(each.metadata.name)
        return False

    tagging = Tagging(client=client, cluster=cluster, tag=tag, metrics=Metrics(), clock=clock)

    await tagging.reconcile("a")
    await tagging.reconcile("a")

    assert tagged == ["a"]
