# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

from karpenter.kube.kinds import NODE_CLAIMS
from karpenter.state.reservations import Launches, Removals
from tests.unit.controllers.paper import paper_cluster
from tests.unit.state.worlds import claim

LIMITS = {"cpu": 10, "nodes": 3}


def _nothing() -> Mapping[str, int]:
    return {}


def test_orders_on_their_way_count_until_they_are_settled() -> None:
    launches = Launches()
    large = {"cpu": 6, "nodes": 1}

    with launches.reserve("p", large, LIMITS, _nothing) as first:
        with launches.reserve("p", large, LIMITS, _nothing) as second:
            assert second.exceeded == "cpu"
        with launches.reserve("q", large, LIMITS, _nothing) as other:
            assert not other.exceeded
        assert launches.used("p", {}) == large
        assert launches.used("q", {"cpu": 1}) == {"cpu": 1}
    with launches.reserve("p", large, LIMITS, _nothing) as third:
        assert not third.exceeded

    assert not first.exceeded
    assert launches.pools() == ()


def test_an_order_that_failed_leaves_its_room_to_the_next_and_one_that_was_created_keeps_it() -> None:
    launches = Launches()
    large = {"cpu": 6, "nodes": 1}

    with launches.reserve("p", {"cpu": 1, "nodes": 1}, LIMITS, _nothing) as slow:
        with launches.reserve("p", large, LIMITS, _nothing):
            pass
        with launches.reserve("p", large, LIMITS, _nothing) as again:
            again.is_created = True
        # The watch may show it by now, and its members are not counted anew while an order is on its way.
        with launches.reserve("p", {"cpu": 3, "nodes": 1}, LIMITS, lambda: {"cpu": 99}) as fits:
            assert not fits.exceeded
        with launches.reserve("p", large, LIMITS, _nothing) as refused:
            assert refused.exceeded == "cpu"

    assert not slow.exceeded


def test_a_limit_that_was_passed_long_ago_does_not_keep_nodes_that_take_none_of_it() -> None:
    with Launches().reserve("p", {"cpu": 1, "nodes": 1}, {"gpu": 1}, lambda: {"gpu": 5}) as order:
        assert not order.exceeded


def test_a_removal_is_reserved_until_it_is_released() -> None:
    removals = Removals()
    removals.reserve(["a", "b"])

    removals.release(["a"])

    assert "a" not in removals
    assert "b" in removals


async def test_a_member_whose_removal_is_reserved_is_leaving_but_its_end_is_not_settled() -> None:
    client, cluster = paper_cluster()
    client.store(NODE_CLAIMS, claim("c1"))
    cluster.removals.reserve(["c1"])
    member = cluster.member("c1")
    assert member is not None
    leaving, going = cluster.is_leaving(member), cluster.is_going(member)

    await client.delete(NODE_CLAIMS, "c1")

    assert leaving
    assert not going
    assert "c1" not in cluster.removals


def test_nodes_that_are_being_ordered_count_against_limits() -> None:
    _, cluster = paper_cluster()

    with cluster.launches.reserve("default", {"cpu": 2, "nodes": 1}, LIMITS, _nothing):
        used = cluster.used({})

    assert used == {"default": {"cpu": 2, "nodes": 1}}
    assert cluster.used({}) == {}
