# SPDX-License-Identifier: Apache-2.0
"""Corners in which plans once broke a rule at the end, refused a pod that had a place, or paid too much."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from karpenter.api.labels import (
    ARCH,
    CAPACITY_RESERVATION_ID,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    PLACEMENT_GROUP_PARTITION,
    ZONE,
)
from karpenter.scheduling import Plan, SolveOptions, solve
from karpenter.scheduling.solver import _Solve
from tests.checker import check
from tests.property.scheduling.hunting import violations
from tests.strategies import (
    Problem,
    expression,
    host_port,
    instance_type,
    node,
    node_term,
    nodepool,
    offering,
    pod,
    pod_term,
    pods,
    preferred,
    random_problem,
    requirement,
    reserved,
    spread,
    storage_class,
    taint,
    toleration,
    volume_claim,
)

A, B, C = "us-east-1a", "us-east-1b", "us-east-1c"
WEB = {"app": "web"}
BIG = instance_type("r5.2xlarge", cpu=8, memory_gib=64, offerings=[offering(A, price=0.5)])


def solved(problem: Problem) -> Plan:
    """Solve a problem, and see to it that the plan keeps every rule."""
    snapshot = problem.snapshot()
    plan = solve(snapshot, problem.pods)
    assert check(snapshot, problem.pods, plan, SolveOptions()) == []
    return plan


def refused(plan: Plan) -> list[str]:
    return sorted(each.metadata.name for rejection in plan.rejections for each in rejection.pods)


def nodes(plan: Plan) -> list[tuple[str, str, list[str]]]:
    return [
        (each.instance_type, each.zone, sorted(one.metadata.name for one in each.pods))
        for each in plan.new_nodes
    ]


def test_a_zone_that_the_owners_node_affinity_excludes_counts_if_the_policy_says_so() -> None:
    even = spread(WEB, max_skew=2, node_affinity_policy="Ignore")
    elsewhere = node_term(expression(ZONE, "NotIn", B))
    asked = pods(3, "web", labels=WEB, node_affinity=[elsewhere], topology_spread=[even])
    problem = Problem(pods=asked, types=(BIG,), nodepools=(nodepool(),), nodes=(node("n", BIG, zone=B),))

    plan = solved(problem)

    assert len(refused(plan)) == 1


def test_a_node_bought_for_others_is_an_empty_place_for_who_cannot_use_it() -> None:
    kind = instance_type(
        "r5.xlarge", cpu=4, memory_gib=32, offerings=[offering(A, price=0.2), offering(C, "spot", 0.1)]
    )
    batch = taint("dedicated", "batch")
    pools = (
        nodepool("open", requirements=[requirement(CAPACITY_TYPE, "In", "on-demand")]),
        nodepool("closed", requirements=[requirement(CAPACITY_TYPE, "In", "spot")], taints=[batch]),
    )
    even = pods(3, "web", cpu="100m", labels=WEB, topology_spread=[spread(WEB, CAPACITY_TYPE)])
    other = pod(
        "batch", tolerations=[toleration("dedicated", "batch")], node_selector={CAPACITY_TYPE: "spot"}
    )

    plan = solved(Problem(pods=(*even, other), types=(kind,), nodepools=pools))

    assert len(refused(plan)) in (1, 2)


def test_pods_that_are_counted_on_some_nodes_only_do_not_spoil_the_spread_of_those_nodes_owners() -> None:
    kind = instance_type(
        "r5.2xlarge",
        cpu=8,
        memory_gib=64,
        offerings=[offering(A, price=0.5), offering(B, price=0.5), offering(B, "spot", 0.15)],
    )
    even = spread(WEB)
    asked = (
        *pods(2, "plain", cpu="250m", labels=WEB),
        pod("free", labels=WEB, topology_spread=[even]),
        pod("bound", labels=WEB, topology_spread=[even], node_selector={CAPACITY_TYPE: "on-demand"}),
    )

    plan = solved(Problem(pods=asked, types=(kind,), nodepools=(nodepool(),)))

    assert refused(plan) == []


def test_a_node_that_lacks_the_label_of_one_spread_is_no_place_for_the_other() -> None:
    kind = instance_type(
        "r5.2xlarge", cpu=8, memory_gib=64, offerings=[offering(A, price=0.5), offering(C, "spot", 0.15)]
    )
    both = [spread(WEB), spread(WEB, CAPACITY_TYPE)]
    asked = (
        *pods(2, "plain", labels=WEB),
        pod("one", labels=WEB, topology_spread=[spread(WEB, CAPACITY_TYPE)]),
        pod("both", labels=WEB, topology_spread=both),
    )
    bare = node("n", kind, zone=A, pool="")

    plan = solved(Problem(pods=asked, types=(kind,), nodepools=(nodepool(),), nodes=(bare,)))

    assert "both" not in refused(plan)


def test_who_stands_on_a_node_without_the_label_keeps_nobody_from_founding_a_group() -> None:
    racked = node("racked", BIG, labels={"rack": "r1"})
    bare = node("bare", BIG, zone=B, pods=[pod("old", labels=WEB, node_name="bare")])
    asked = pod("new", labels=WEB, affinity=[pod_term(WEB, "rack")])

    plan = solved(Problem(pods=(asked,), nodes=(racked, bare)))

    assert list(plan.existing) == ["racked"]


def test_a_group_may_be_founded_while_the_others_of_it_wait_for_the_founder() -> None:
    kind = instance_type("m5.2xlarge", cpu=8, memory_gib=32, offerings=[offering(C, "spot", 0.15)])
    db = {"app": "db"}
    leaders = pods(2, "leader", cpu="3", labels={**db, "version": "1"}, affinity=[pod_term(db, HOSTNAME)])
    first = pod_term(db, ZONE, mismatch_label_keys=["version"])
    followers = pods(
        2, "follower", cpu="250m", labels={**db, "version": "2"}, affinity=[first], ports=(host_port(9100),)
    )

    plan = solved(Problem(pods=(*leaders, *followers), types=(kind,), nodepools=(nodepool(),)))

    assert refused(plan) == []
    assert len(plan.new_nodes) == 2


def test_of_two_reservations_the_cheaper_is_drawn_on_first() -> None:
    types = (
        instance_type("m5.2xlarge", cpu=8, memory_gib=32, offerings=[reserved("cr-a", 1, price=0.0004)]),
        instance_type("m5.xlarge", cpu=4, memory_gib=16, offerings=[reserved("cr-b", 1, price=0.0002)]),
    )

    plan = solved(Problem(pods=(pod("web"),), types=tuple(types), nodepools=(nodepool(),)))

    assert nodes(plan) == [("m5.xlarge", A, ["web"])]


def test_a_node_is_bought_large_enough_for_who_must_follow_onto_it() -> None:
    types = (
        instance_type("r5.large", cpu=2, memory_gib=16, offerings=[reserved("cr-a", 1, B, 0.0001)]),
        instance_type("r5.xlarge", cpu=4, memory_gib=32, offerings=[reserved("cr-b", 1, A, 0.0002)]),
    )
    leader = pod("leader", cpu="1", labels=WEB)
    follower = pod("follower", cpu="1", affinity=[pod_term(WEB, HOSTNAME)])

    plan = solved(Problem(pods=(leader, follower), types=tuple(types), nodepools=(nodepool(),)))

    assert nodes(plan) == [("r5.xlarge", A, ["follower", "leader"])]


def test_a_node_is_bought_where_the_volume_is_of_who_must_follow_onto_it() -> None:
    kind = instance_type(
        "m5.2xlarge", cpu=8, memory_gib=32, offerings=[offering(B, "spot", 0.11), offering(C, "spot", 0.15)]
    )
    guard = pod("guard", node_name="n", anti_affinity=[pod_term({"app": "api"}, ZONE)])
    leader = pod("leader", cpu="3", labels={"app": "api"})
    follower = pod("follower", affinity=[pod_term({"app": "api"}, HOSTNAME)], claims=["data"])
    problem = Problem(
        pods=(leader, follower),
        types=(kind,),
        nodepools=(nodepool(),),
        nodes=(node("n", kind, zone=A, pods=[guard]),),
        classes=(storage_class("ebs", zones=[C]),),
        claims=(volume_claim("data"),),
    )

    plan = solved(problem)

    assert nodes(plan) == [("m5.2xlarge", C, ["follower", "leader"])]


def test_a_label_that_pods_want_absent_is_ruled_out_in_the_claim() -> None:
    pool = nodepool(requirements=[requirement("example.com/rack", "NotIn", "r1")])
    asked = pod("web", node_affinity=[node_term(expression("example.com/rack", "DoesNotExist"))])

    plan = solved(Problem(pods=(asked,), types=(BIG,), nodepools=(pool,)))

    (rack,) = (each for each in plan.new_nodes[0].requirements if each.key == "example.com/rack")
    assert rack.allows_absence()
    assert not rack.has("r2")


def test_two_small_nodes_are_bought_where_one_large_one_costs_more() -> None:
    types = (
        instance_type("m6g.2xlarge", cpu=8, memory_gib=32, arch="arm64", offerings=[offering(B, price=0.29)]),
        instance_type("r5.large", cpu=2, memory_gib=16, offerings=[offering(B, "spot", 0.07)]),
    )
    asked = (
        pod("one", cpu="1500m", labels=WEB),
        pod("two", cpu="1500m", labels=WEB, affinity=[pod_term(WEB, ZONE)]),
    )

    plan = solved(Problem(pods=asked, types=tuple(types), nodepools=(nodepool(),)))

    assert plan.price_per_hour == pytest.approx(0.14)


def test_counts_of_affinity_do_not_drive_pods_to_dearer_places() -> None:
    kind = instance_type(
        "m5.large",
        offerings=[offering(A, "spot", 0.03), offering(A, "on-demand", 0.1), offering(B, "spot", 0.03)],
    )
    leader = pod("leader", cpu="1500m", labels=WEB, anti_affinity=[pod_term({"app": "db"}, ZONE)])
    follower = pod("follower", cpu="1500m", affinity=[pod_term(WEB, CAPACITY_TYPE)])

    plan = solved(Problem(pods=(leader, follower), types=(kind,), nodepools=(nodepool(),)))

    assert plan.price_per_hour == pytest.approx(0.06)


def test_a_wish_is_kept_even_if_that_costs_a_node() -> None:
    kind = instance_type("m5.xlarge", cpu=4, memory_gib=16, offerings=[offering(C, "spot", 0.07)])
    wish = preferred(node_term(expression(ZONE, "NotIn", A)))
    asked = pod("web", preferred_node_affinity=[wish])
    standing = node("n", kind, zone=A)

    plan = solved(Problem(pods=(asked,), types=(kind,), nodepools=(nodepool(),), nodes=(standing,)))

    assert nodes(plan) == [("m5.xlarge", C, ["web"])]


@pytest.mark.parametrize(
    "seed",
    [
        *(
            897,
            1064,
            1314,
            1518,
            1838,
            2012,
            2228,
            2664,
            2820,
            2835,
            3281,
            3755,
            3865,
            4044,
            4046,
            4069,
            4439,
        ),
        *(6721, 7193, 7789, 7793, 8462, 8971, 9073, 9377, 9985, 10250, 10523, 11111, 11211, 11387, 11488),
        *(12963, 13005, 13244, 13423, 13535, 14014, 14108, 14460, 16002, 16073, 16148, 16319, 16331, 16728),
        *(17115, 17377, 17659, 18124, 19199, 19497, 19564, 116, 91, 159, 176, 735, 809, 1525, 1541),
    ],
)
def test_random_problems_that_once_went_wrong_go_well(seed: int) -> None:
    assert violations(random_problem(seed), SolveOptions()) == []


def test_what_a_pod_alone_had_taken_of_a_host_is_free_once_it_leaves() -> None:
    asked: dict[str, Any] = {"ports": (host_port(80),), "anti_affinity": [pod_term(WEB, HOSTNAME)]}
    problem = Problem(
        pods=(pod("one", labels={**WEB, ARCH: "x"}, **asked),), types=(BIG,), nodes=(node("n", BIG),)
    )
    attempt = _Solve(problem.snapshot(), problem.pods, SolveOptions())
    attempt.place("classes")
    (host,) = attempt.board.hosts
    (stance,) = host.contents

    attempt.board.leave(stance, host, 1)

    assert attempt.board.entry(stance, host) is not None
    assert host.caps == {}


def test_more_groups_than_can_found_themselves_in_every_order_all_do() -> None:
    labels = [{"app": f"app-{number}"} for number in range(45)]
    asked = tuple(
        pod(each["app"], cpu="10m", memory="1Mi", labels=each, affinity=[pod_term(each, ZONE)])
        for each in labels
    )

    plan = solved(Problem(pods=asked, types=(BIG,), nodepools=(nodepool(),)))

    assert refused(plan) == []


def test_a_board_is_again_what_it_was_however_often_it_is_restored() -> None:
    small = instance_type("m5.large", cpu=2, memory_gib=8, offerings=[offering(A, price=0.1)])
    asked = (pod("one", cpu="1", labels=WEB), pod("two", cpu="4", ports=(host_port(80),)))
    problem = Problem(pods=asked, types=(small, BIG), nodes=(node("n", small),), nodepools=(nodepool(),))
    attempt = _Solve(problem.snapshot(), problem.pods, SolveOptions())
    board = attempt.board
    beginning = board.remember()
    attempt.place("classes")
    used = board.occupied()
    end = board.remember()

    assert [host.node is None for host in used] == [False, True]
    for _ in range(2):
        board.restore(beginning)
        emptied = board.occupied()
        board.restore(end)

        assert emptied == []
        assert board.occupied() == used
        assert board.remember() == end


def test_pods_of_another_zone_than_those_that_are_spread_get_nodes_of_their_own() -> None:
    kind = instance_type("m5.large", offerings=[offering(zone, price=0.1) for zone in (A, B, C)])
    here = node_term(expression(ZONE, "In", A, B))
    even = pods(4, "web", labels=WEB, topology_spread=[spread(WEB, ZONE)], node_affinity=[here])
    other = pod("other", node_selector={ZONE: C})

    plan = solved(Problem(pods=(*even, other), types=(kind,), nodepools=(nodepool(),)))

    assert refused(plan) == []
    assert [each.zone for each in plan.new_nodes if other in each.pods] == [C]


def test_a_choice_of_types_by_zone_becomes_the_cheapest_zone() -> None:
    types = [
        instance_type(name, offerings=[offering(zone, price=price) for zone in (A, B)])
        for name, price in (("m5.large", 0.1), ("m6i.large", 0.11))
    ]
    either = [
        node_term(expression(INSTANCE_TYPE, "In", name), expression(ZONE, "In", zone))
        for name, zone in (("m5.large", A), ("m6i.large", B))
    ]

    plan = solved(Problem(pods=(pod(node_affinity=either),), types=tuple(types), nodepools=(nodepool(),)))

    (bought,) = plan.new_nodes
    assert (bought.zone, bought.instance_type) == (A, "m5.large")
    assert {each.zone for each in bought.alternatives} <= {A}


def test_a_node_that_a_pod_leaves_does_not_shrink_below_the_choice_that_its_pool_asks_for() -> None:
    types = [
        instance_type(name, cpu=cpu, memory_gib=8, offerings=[offering(A, price=price)])
        for name, cpu, price in (("m5.large", 2, 0.1), ("m5.xlarge", 4, 0.2), ("m6i.xlarge", 4, 0.21))
    ]
    choosy = nodepool(requirements=[requirement(INSTANCE_TYPE, "Exists", min_values=2)], limits={"cpu": "9"})
    asked = (pod("large", cpu="2"), pod("small", cpu="1"))
    attempt = _Solve(
        Problem(pods=asked, types=tuple(types), nodepools=(choosy,)).snapshot(), asked, SolveOptions()
    )
    attempt.place("classes")
    (host,) = attempt.board.occupied()
    before = host.mask
    large = next(each for each in host.contents if each.pods.pods[0] is asked[0])

    attempt.board.leave(large, host, 1)

    assert host.mask == before


def test_what_pods_ask_of_an_offering_is_in_the_claim() -> None:
    partitions = [
        replace(offering(zone, price=0.1), labels={PLACEMENT_GROUP_PARTITION: number})
        for zone in (A, B)
        for number in ("1", "2", "3")
    ]
    kind = instance_type("m5.large", offerings=partitions)
    asked = pod("web", node_selector={PLACEMENT_GROUP_PARTITION: "2"})

    wanted = solved(Problem(pods=(asked,), types=(kind,), nodepools=(nodepool(),))).new_nodes[0].requirements
    silent = solved(Problem(pods=(pod("web"),), types=(kind,), nodepools=(nodepool(),)))

    assert wanted[PLACEMENT_GROUP_PARTITION].values == frozenset({"2"})
    assert PLACEMENT_GROUP_PARTITION not in silent.new_nodes[0].requirements


def test_a_claim_for_reserved_capacity_names_its_reservations() -> None:
    kind = instance_type("m5.large", offerings=[reserved("cr-1", 1), offering(A, price=0.1)])
    pods = tuple(pod(f"web-{n}", cpu="1500m") for n in range(2))

    plan = solved(Problem(pods=pods, types=(kind,), nodepools=(nodepool(),)))

    named = [
        sorted(node.requirements[CAPACITY_RESERVATION_ID].values)
        for node in plan.new_nodes
        if CAPACITY_RESERVATION_ID in node.requirements
    ]
    assert len(plan.new_nodes) == 2
    assert named == [["cr-1"]]
