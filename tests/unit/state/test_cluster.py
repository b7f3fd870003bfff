# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import msgspec

from karpenter.api import labels as names
from karpenter.api.core import Namespace
from karpenter.kit.clock import FakeClock
from karpenter.model.resources import CPU
from tests.unit.state.worlds import (
    catalogue,
    claim,
    cluster,
    node,
    pod,
    put,
    remove,
    stored_class,
    stored_pool,
)

OURS = {names.NODEPOOL: "default", names.REGISTERED: "true", names.INITIALIZED: "true"}
STAMP = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def test_a_node_and_its_claim_are_one_member() -> None:
    world = cluster()
    put(world, claim("c1", provider_id="aws:///a/i-1"), node("n1", "aws:///a/i-1", OURS), node("foreign"))

    members = list(world.members())

    assert [(each.name, each.claim is not None) for each in members] == [("n1", True), ("foreign", False)]
    assert [each.is_managed for each in members] == [True, False]
    by_claim = world.member("c1")
    assert by_claim is not None
    assert by_claim.name == "n1"
    assert world.member("nobody") is None


def test_a_claim_without_a_node_is_a_member_and_holds_up_nobody() -> None:
    world = cluster()
    put(world, claim("stuck"), claim("c2", provider_id="aws:///a/i-2", allocatable={"cpu": "4"}), node("n1"))

    views = {view.name: view for view in world.snapshot({}).nodes}

    assert set(views) == {"stuck", "c2", "n1"}
    assert views["stuck"].allocatable[CPU] == 1500
    assert views["c2"].allocatable[CPU] == 4000
    assert views["stuck"].labels[names.CAPACITY_TYPE] == "on-demand"
    assert names.INSTANCE_TYPE not in views["stuck"].labels


def test_two_nodes_of_one_provider_id_are_not_taken_for_the_claims_own() -> None:
    world = cluster()
    put(world, claim("c1", provider_id="aws:///a/i-1"))
    put(world, node("n1", "aws:///a/i-1"), node("n2", "aws:///a/i-1"))

    member = world.member("c1")

    assert member is not None
    assert member.node is None


def test_a_snapshot_holds_bound_pods_that_are_not_over() -> None:
    world = cluster()
    put(world, node("n1"), pod("a", "n1", phase="Running"), pod("b", "n1", phase="Succeeded"), pod("c"))

    [view] = world.snapshot({}).nodes

    assert [each.metadata.name for each in view.pods] == ["a"]
    assert [each.metadata.name for each in world.unbound()] == ["c"]


def test_a_view_is_kept_until_one_of_its_objects_changes() -> None:
    world = cluster()
    put(world, node("n1"), node("n2"), pod("a", "n1"))
    before = {view.name: view for view in world.snapshot({}).nodes}
    put(world, pod("b", "n1"))

    after = {view.name: view for view in world.snapshot({}).nodes}

    assert after["n2"] is before["n2"]
    assert len(after["n1"].pods) == 2


def test_what_a_claim_learns_shows_on_its_node() -> None:
    world = cluster()
    put(world, claim("c1", provider_id="aws:///a/i-1"), node("n1", "aws:///a/i-1", allocatable={"cpu": "0"}))
    before = world.snapshot({}).nodes[0]
    put(world, claim("c1", provider_id="aws:///a/i-1", allocatable={"cpu": "2"}))

    after = world.snapshot({}).nodes[0]

    assert before.allocatable.get(CPU, 0) == 0
    assert after.allocatable[CPU] == 2000


def test_members_on_their_way_out_are_left_out_and_their_pods_displaced() -> None:
    world = cluster()
    put(world, claim("c1", provider_id="p1", metadata=STAMP), node("n1", "p1", OURS), pod("a", "n1"))
    put(world, node("n2", labels=OURS, taints=[{"key": names.DISRUPTED_TAINT.key, "effect": "NoSchedule"}]))
    put(world, claim("c3", provider_id="p3"), node("n3", "p3", OURS), pod("b", "n3"))
    world.mark_leaving(["c3"])

    assert world.snapshot({}).nodes == ()
    assert sorted(each.metadata.name for each in world.displaced()) == ["a", "b"]
    world.unmark_leaving(["c3"])
    assert [view.name for view in world.snapshot({}).nodes] == ["n3"]


def test_limits_count_what_stands_and_the_largest_that_is_ordered() -> None:
    world = cluster()
    put(world, stored_pool(), stored_class())
    put(world, claim("ordered"), claim("c2", provider_id="p2", capacity={"cpu": "2"}), node("foreign"))
    put(world, claim("elsewhere", pool="other"))

    used = world.used({"default": catalogue()})
    [pool] = world.snapshot({"default": catalogue(), "gone": catalogue()}).pools

    assert used["default"][CPU] == 6000
    assert used["default"]["nodes"] == 2
    assert used["other"] == {"nodes": 1}
    assert pool.limits[CPU] == 4000


def test_a_pool_with_a_requirement_that_says_nothing_is_left_out_alone() -> None:
    world = cluster()
    broken = [{"key": "a", "operator": "Sometimes", "values": []}]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    put(world, stored_pool("broken", template={"spec": {"requirements": broken, "nodeClassRef": reference}}))
    put(world, stored_pool("fine"))

    pools = world.snapshot({"broken": catalogue(), "fine": catalogue()}).pools

    assert [pool.name for pool in pools] == ["fine"]


def test_a_promised_pod_counts_on_its_member_until_the_promise_ends() -> None:
    clock = FakeClock()
    world = cluster(clock)
    waiting = pod("a")
    put(world, claim("c1", provider_id="p1", allocatable={"cpu": "4"}), waiting)
    world.nominations.promise(["uid-a"], "c1", 20)

    promised = world.snapshot({}).nodes[0].pods
    clock.tick(21)
    later = world.snapshot({}).nodes[0].pods

    assert [each.metadata.name for each in promised] == ["a"]
    assert later == ()


def test_a_promise_ends_when_its_pod_is_bound_or_its_claim_is_gone() -> None:
    world = cluster()
    put(world, pod("a"), pod("b"), claim("c1"))
    world.nominations.promise(["uid-a", "uid-b"], "c1", 20)
    put(world, pod("a", "n1"))

    bound = world.nominations.member_of("uid-a")
    gone = claim("c1")
    remove(world, gone)

    assert bound == ""
    assert world.nominations.member_of("uid-b") == ""
    assert len(world.nominations) == 0


def test_a_pod_that_is_deleted_takes_its_promise_along() -> None:
    world = cluster()
    put(world, pod("a"))
    world.nominations.promise(["uid-a"], "c1", 20)

    remove(world, pod("a"))

    assert len(world.nominations) == 0


def test_pools_and_classes_are_read_again_when_they_change() -> None:
    world = cluster()
    put(world, stored_pool(weight=1), stored_class())
    first = world.pool("default")
    put(world, stored_pool(weight=7))

    second = world.pool("default")

    assert first is not None
    assert second is not None
    assert (first.spec.weight, second.spec.weight) == (1, 7)
    assert world.node_class("default") is not None
    assert world.pool("absent") is None


def test_namespaces_and_daemons_are_in_the_snapshot() -> None:
    world = cluster()
    shop = msgspec.convert({"metadata": {"name": "shop", "labels": {"team": "a"}}}, Namespace)
    put(world, shop)

    snapshot = world.snapshot({})

    assert snapshot.namespaces == {"shop": {"team": "a"}}
    assert snapshot.daemons == ()


async def test_all_informers_must_have_listed_before_the_cluster_is_known() -> None:
    world = cluster()
    waiting = asyncio.ensure_future(world.informers.wait_synced())
    await asyncio.sleep(0)
    early = world.informers.is_synced
    for informer in world.informers.all:
        informer._synced.set()
    await asyncio.wait_for(waiting, 5)

    assert not early
    assert world.informers.is_synced
    assert len(world.informers.all) == 15


def test_limits_count_what_is_on_its_way_out_until_it_is_gone() -> None:
    world = cluster()
    put(world, stored_pool(), stored_class())
    put(world, claim("going", provider_id="p1", capacity={"cpu": "2"}, metadata=STAMP))
    put(world, claim("marked", provider_id="p2", capacity={"cpu": "2"}))
    put(world, claim("chosen", provider_id="p3", capacity={"cpu": "2"}))
    put(world, claim("tainted", provider_id="p4", capacity={"cpu": "2"}))
    taint = {"key": names.DISRUPTED_TAINT.key, "effect": "NoSchedule"}
    put(world, node("n4", "p4", OURS, taints=[taint]))
    world.mark_leaving(["marked"])
    world.removals.reserve(["chosen"])

    used = world.used({"default": catalogue()})["default"]

    assert used["nodes"] == 4
    assert used[CPU] == 2000 * 3 + 4000
