# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable
from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import CAPACITY_RESERVATION_ID, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from karpenter.model.instancetypes import InstanceType
from karpenter.scheduling import Cause, Plan, SolveOptions, solve
from karpenter.scheduling.plan import pod_name
from karpenter.scheduling.solver import _Solve
from tests.strategies.clusters import EBS_DRIVER, node, nodepool, storage_class, volume, volume_claim
from tests.strategies.expressions import (
    expression,
    node_term,
    pod_term,
    preferred,
    requirement,
    spread,
    taint,
    toleration,
    weighted,
)
from tests.strategies.machines import instance_type, reserved, small_catalogue
from tests.strategies.pods import daemon, host_port, pod, pods
from tests.strategies.problems import Problem

W1_TYPES = (
    instance_type("c5.large", cpu=2, memory_gib=3.5, price=0.085, capacity_types=("on-demand",)),
    instance_type("m5.large", cpu=2, memory_gib=7.4, price=0.096, capacity_types=("on-demand",)),
    instance_type("r5.large", cpu=2, memory_gib=15.2, price=0.126, capacity_types=("on-demand",)),
    instance_type("m5.xlarge", cpu=4, memory_gib=15, price=0.192, capacity_types=("on-demand",)),
)


def plan_for(
    asked: Iterable[Pod],
    types: Iterable[InstanceType] | None = None,
    options: SolveOptions | None = None,
    **cluster: Any,
) -> Plan:
    cluster.setdefault("nodepools", (nodepool(),))
    problem = Problem(pods=tuple(asked), types=tuple(types or small_catalogue()), **cluster)
    return solve(problem.snapshot(), problem.pods, options)


def placed(plan: Plan) -> int:
    return sum(len(each.pods) for each in plan.new_nodes) + sum(map(len, plan.existing.values()))


def zones(plan: Plan) -> list[str]:
    return sorted(each.zone for each in plan.new_nodes for _ in each.pods)


def test_w1_five_pods_of_one_gibibyte_get_one_m5_large() -> None:
    plan = plan_for(pods(5, cpu=None, memory="1Gi"), W1_TYPES)

    assert [each.instance_type for each in plan.new_nodes] == ["m5.large"]
    assert plan.price_per_hour == pytest.approx(0.096)


def test_w1_the_first_node_is_kept_and_a_second_one_comes() -> None:
    standing = node("first", W1_TYPES[1], pods=pods(5, "old", cpu=None, memory="1Gi", node_name="first"))

    plan = plan_for(pods(7, cpu=None, memory="1Gi"), W1_TYPES, nodes=(standing,))

    assert len(plan.existing["first"]) == 2
    assert [each.instance_type for each in plan.new_nodes] == ["m5.large"]


def test_w3_a_team_gets_its_own_pool_and_the_heavier_pool_wins() -> None:
    wanted = pods(5, cpu="1", node_affinity=(node_term(expression("team", "In", "team1")),))
    pools = (
        nodepool("other", labels={"team": "team2"}),
        nodepool("light", labels={"team": "team1"}),
        nodepool("heavy", labels={"team": "team1"}, weight=10),
        nodepool("tainted", labels={"team": "team1"}, weight=50, taints=(taint("dedicated"),)),
    )

    plan = plan_for(wanted, nodepools=pools)

    assert {each.pool for each in plan.new_nodes} == {"heavy"}
    assert placed(plan) == 5


def test_standing_nodes_are_filled_before_anything_is_bought() -> None:
    plan = plan_for(pods(2, cpu="500m", memory="1Gi"), nodes=(node("standing"),))

    assert len(plan.existing["standing"]) == 2
    assert plan.new_nodes == ()
    assert plan.price_per_hour == 0


def test_a_taint_keeps_out_whoever_does_not_tolerate_it() -> None:
    pool = nodepool("tainted", taints=(taint("team", "data"),))

    plan = plan_for([pod("no"), pod("yes", tolerations=(toleration("team", "data"),))], nodepools=(pool,))

    assert [pod_name(each) for each in plan.new_nodes[0].pods] == ["default/yes"]
    assert plan.rejections[0].reasons[0].cause is Cause.TAINT


def test_a_taint_that_only_discourages_gives_way_and_the_plan_says_so() -> None:
    pool = nodepool("soft", taints=(taint("team", "data", "PreferNoSchedule"),))

    plan = plan_for([pod()], nodepools=(pool,))

    assert placed(plan) == 1
    assert plan.relaxed[0].wishes == ("taints of effect PreferNoSchedule",)


def test_zones_are_levelled_by_a_spread() -> None:
    plan = plan_for(pods(6, labels={"app": "web"}, topology_spread=(spread({"app": "web"}, ZONE),)))

    assert placed(plan) == 6
    assert {zones(plan).count(zone) for zone in set(zones(plan))} == {2}


def test_hosts_are_kept_apart_by_anti_affinity() -> None:
    plan = plan_for(
        pods(
            3,
            cpu="100m",
            memory="64Mi",
            labels={"app": "a"},
            anti_affinity=(pod_term({"app": "a"}, HOSTNAME),),
        )
    )

    assert [len(each.pods) for each in plan.new_nodes] == [1, 1, 1]


def test_a_follower_stands_on_the_host_of_the_one_it_follows() -> None:
    leader = pod("leader", labels={"app": "db"})
    followers = pods(3, "follower", affinity=(pod_term({"app": "db"}, HOSTNAME),))

    plan = plan_for([*followers, leader])

    assert len(plan.new_nodes) == 1
    assert placed(plan) == 4


def test_a_follower_of_nobody_is_refused() -> None:
    plan = plan_for([pod(affinity=(pod_term({"app": "nobody"}, ZONE),))])

    assert placed(plan) == 0
    assert plan.rejections[0].reasons[0].cause is Cause.AFFINITY


def test_pods_that_follow_themselves_share_one_zone() -> None:
    plan = plan_for(pods(8, labels={"app": "a"}, affinity=(pod_term({"app": "a"}, ZONE),)))

    assert placed(plan) == 8
    assert len(set(zones(plan))) == 1


def test_alternatives_of_node_affinity_all_count_from_the_start() -> None:
    terms = (
        node_term(expression(INSTANCE_TYPE, "In", "none.such")),
        node_term(expression(INSTANCE_TYPE, "In", "m5.large")),
    )

    plan = plan_for([pod(node_affinity=terms)])

    assert plan.new_nodes[0].instance_type == "m5.large"
    assert plan.relaxed == ()


def test_a_preferred_node_affinity_holds_while_it_can_and_then_gives_way() -> None:
    arm = node_term(expression("kubernetes.io/arch", "In", "arm64"))
    nowhere = node_term(expression("kubernetes.io/arch", "In", "riscv"))

    kept = plan_for([pod(preferred_node_affinity=(preferred(arm),))])
    given_up = plan_for([pod(preferred_node_affinity=(preferred(nowhere),))])
    ignored = plan_for(
        [pod(preferred_node_affinity=(preferred(arm),))], options=SolveOptions(preferences="Ignore")
    )

    assert kept.new_nodes[0].instance_type.startswith("m6g")
    assert placed(given_up) == 1
    assert len(given_up.relaxed[0].wishes) == 1
    assert ignored.relaxed == ()


def test_every_wish_is_given_up_in_its_turn() -> None:
    hard = pod(
        labels={"app": "a"},
        preferred_affinity=(weighted(pod_term({"app": "none"}, ZONE)),),
        preferred_anti_affinity=(weighted(pod_term({"app": "there"}, ZONE)),),
        topology_spread=(spread({"app": "there"}, ZONE, soft=True),),
    )
    there = tuple(
        node(f"n{i}", zone=zone, pods=(pod(f"old{i}", labels={"app": "there"}, node_name=f"n{i}"),))
        for i, zone in enumerate(("us-east-1a", "us-east-1b", "us-east-1c"))
    )

    plan = plan_for([hard], nodes=there)

    assert placed(plan) == 1
    assert [wish.split(" by ")[0] for wish in plan.relaxed[0].wishes] == [
        "preferred pod affinity",
        "preferred pod anti-affinity",
    ]


def test_limits_hold_and_the_higher_priority_goes_first() -> None:
    pool = nodepool(limits={"cpu": "4", "nodes": "1"})
    wanted = [*pods(3, "low", cpu="1500m"), *pods(2, "high", cpu="1500m", priority=1000)]

    plan = plan_for(wanted, nodepools=(pool,))

    assert [pod_name(each) for each in plan.new_nodes[0].pods] == ["default/high-0", "default/high-1"]
    assert plan.rejections[0].reasons[0].cause is Cause.LIMIT
    assert all(
        kind.capacity["cpu"] <= 4000
        for each in plan.new_nodes
        for alternative in each.alternatives
        for kind in small_catalogue()
        if kind.name == alternative.instance_type
    )


def test_a_pool_out_of_nodes_leaves_the_rest_to_the_next_pool() -> None:
    pools = (nodepool("first", weight=5, limits={"nodes": "0"}), nodepool("second"))

    plan = plan_for(pods(2), nodepools=pools)

    assert {each.pool for each in plan.new_nodes} == {"second"}


def test_daemonsets_have_their_room_where_they_run() -> None:
    everywhere = daemon("logs", cpu="1", memory="1Gi", tolerations=(toleration(),))
    elsewhere = daemon(
        "gpu", cpu="1", node_affinity=(node_term(expression("kubernetes.io/arch", "In", "arm64")),)
    )
    types = (instance_type("m5.large", cpu=2), instance_type("m5.xlarge", cpu=4))

    plan = plan_for([pod(cpu="1")], types, daemons=(everywhere, elsewhere))

    assert plan.new_nodes[0].instance_type == "m5.xlarge"
    assert plan.new_nodes[0].daemon_overhead["cpu"] == 1000
    assert plan.new_nodes[0].requests["cpu"] == 2000


def test_a_daemon_still_to_come_keeps_its_room_on_a_standing_node() -> None:
    logs = daemon("logs", cpu="1900m", tolerations=(toleration(),))

    plan = plan_for([pod(cpu="500m")], nodes=(node("standing"),), daemons=(logs,))

    assert plan.existing == {}
    assert placed(plan) == 1


def test_host_ports_part_pods_and_daemons() -> None:
    plan = plan_for(pods(2, ports=(host_port(80),)))
    clash = plan_for([pod(ports=(host_port(80),))], daemons=(daemon("web", ports=(host_port(80),)),))

    assert len(plan.new_nodes) == 2
    assert placed(clash) == 0


def test_a_bound_volume_draws_its_pod_to_its_zone() -> None:
    plan = plan_for(
        [pod(claims=("data",))],
        claims=(volume_claim("data", volume_name="disk"),),
        volumes=(volume("disk", zones=("us-east-1b",)),),
        classes=(storage_class(),),
    )

    assert plan.new_nodes[0].zone == "us-east-1b"


def test_a_missing_claim_is_said() -> None:
    plan = plan_for([pod(claims=("gone",))])

    assert plan.rejections[0].reasons[0].cause is Cause.VOLUME


def test_a_standing_node_takes_no_more_volumes_than_it_can_attach() -> None:
    claims = tuple(volume_claim(f"data-{i}", volume_name=f"disk-{i}") for i in range(2))
    disks = tuple(volume(f"disk-{i}", zones=("us-east-1a",)) for i in range(2))
    standing = node("standing", volume_limits={EBS_DRIVER: 1})

    plan = plan_for(
        [pod(f"p{i}", cpu="100m", claims=(f"data-{i}",)) for i in range(2)],
        nodes=(standing,),
        claims=claims,
        volumes=disks,
        classes=(storage_class(),),
    )

    assert len(plan.existing["standing"]) == 1
    assert len(plan.new_nodes) == 1


def test_min_values_strict_refuses_and_best_effort_takes_what_there_is() -> None:
    pool = nodepool(requirements=(requirement(INSTANCE_TYPE, "In", "m5.large", "m5.xlarge", min_values=2),))
    large = pod(cpu="3")

    strict = plan_for([large], nodepools=(pool,))
    best_effort = plan_for([large], nodepools=(pool,), options=SolveOptions(min_values="BestEffort"))
    enough = plan_for([pod(cpu="1")], nodepools=(pool,))

    assert placed(strict) == 0
    assert best_effort.new_nodes[0].min_values_relaxed
    assert not enough.new_nodes[0].min_values_relaxed


def test_a_claim_with_relaxed_min_values_asks_for_as_many_as_there_are() -> None:
    pool = nodepool(
        requirements=(
            requirement(INSTANCE_TYPE, "In", "m5.large", "no-such-type", "nor-this", min_values=3),
            requirement("team", "Exists", min_values=2),
        )
    )

    plan = plan_for([pod(cpu="1")], nodepools=(pool,), options=SolveOptions(min_values="BestEffort"))

    wanted = plan.new_nodes[0].requirements
    assert wanted[INSTANCE_TYPE].values == {"m5.large"}
    assert wanted[INSTANCE_TYPE].min_values == 1
    assert wanted["team"].min_values == 1


def test_what_is_reserved_is_used_first_and_only_as_far_as_it_goes() -> None:
    kind = instance_type("m5.large", capacity_types=("on-demand",))
    offerings = (*kind.offerings, reserved("cr-1", 1))
    types = (instance_type("m5.large", offerings=offerings),)

    plan = plan_for(pods(2, cpu="1500m"), types)
    one_by_one = plan_for([pod(f"p{i}", cpu="1500m", ports=(host_port(80),)) for i in range(2)], types)

    assert sorted(each.capacity_type for each in plan.new_nodes) == ["on-demand", "reserved"]
    assert sorted(each.capacity_type for each in one_by_one.new_nodes) == ["on-demand", "reserved"]


def test_a_node_in_a_reservation_names_the_others_that_no_node_draws_on() -> None:
    small = instance_type(
        "m5.large", offerings=(reserved("cr-1", 1), reserved("cr-2", 1), reserved("cr-0", 1, price=0.0005))
    )
    large = instance_type("m5.xlarge", cpu=4, offerings=(reserved("cr-3", 1, price=0.002),))
    types = (small, large, instance_type("m5.2xlarge", cpu=8, capacity_types=("on-demand",)))
    limited = nodepool(limits={"cpu": "3"})

    def ids(plan: Plan) -> list[list[str]]:
        return [sorted(each.requirements[CAPACITY_RESERVATION_ID].values) for each in plan.new_nodes]

    one = plan_for([pod()], types)
    two = plan_for([pod(f"p{i}", cpu="1500m", ports=(host_port(80),)) for i in range(2)], types)
    held_back = plan_for([pod()], types, nodepools=(limited,))
    not_held_back = plan_for([pod()], types, nodepools=(nodepool(limits={"cpu": "4"}),))
    elsewhere = plan_for([pod(cpu="3")], types)

    assert ids(one) == [["cr-0", "cr-1", "cr-2", "cr-3"]]
    assert one.new_nodes[0].price_per_hour == 0.0005
    assert sorted(each for found in ids(two) for each in found) == ["cr-0", "cr-1", "cr-2", "cr-3"]
    assert ids(held_back) == [["cr-0", "cr-1", "cr-2"]]
    assert ids(not_held_back) == ids(one)
    assert ids(elsewhere) == [["cr-3"]]


def test_what_is_sold_out_is_not_bought() -> None:
    kind = instance_type("m5.large", capacity_types=("on-demand",))
    sold_out = tuple(
        type(each)(each.zone, each.capacity_type, each.price_per_hour, available=False)
        for each in kind.offerings
    )

    plan = plan_for([pod()], (instance_type("m5.large", offerings=sold_out),))

    assert plan.rejections[0].reasons[0].cause is Cause.SOLD_OUT


def test_an_open_label_of_a_pool_is_settled_as_the_pods_ask() -> None:
    pool = nodepool(requirements=(requirement("team", "In", "a", "b"), requirement("tier", "Exists")))

    plan = plan_for(
        [pod("one", node_selector={"team": "a"}), pod("two", node_selector={"team": "b", "tier": "gold"})],
        nodepools=(pool,),
    )

    labels = [dict(each.labels) for each in plan.new_nodes]
    assert sorted(each["team"] for each in labels) == ["a", "b"]
    assert any(each["tier"] == "gold" for each in labels)


def test_capacity_types_can_be_spread_like_zones() -> None:
    plan = plan_for(pods(4, labels={"app": "a"}, topology_spread=(spread({"app": "a"}, CAPACITY_TYPE),)))

    kinds = sorted(each.capacity_type for each in plan.new_nodes for _ in each.pods)
    assert kinds == ["on-demand", "on-demand", "spot", "spot"]


def test_an_unreadable_pod_is_refused_alone() -> None:
    broken = pod("broken", requests={"cpu": "lots"})

    plan = plan_for([broken, pod("fine")])

    assert placed(plan) == 1
    assert plan.rejections[0].reasons[0].cause is Cause.UNREADABLE
    assert "lots" in plan.rejections[0].message


def test_without_a_pool_everybody_is_refused_with_that_reason() -> None:
    plan = plan_for([pod()], nodepools=())

    assert plan.rejections[0].reasons[0].cause is Cause.NO_POOLS


def test_what_the_deadline_leaves_untried_is_unfinished_not_refused() -> None:
    plan = plan_for([pod(ports=(host_port(80),))], options=SolveOptions(expired=lambda: True))

    assert [pod_name(each) for each in plan.unfinished] == ["default/pod"]
    assert plan.rejections == ()


def test_nobody_asks_and_nothing_is_decided() -> None:
    assert plan_for([]) == Plan()


def test_the_order_of_the_input_changes_nothing() -> None:
    wanted = [
        *pods(4, "a", labels={"app": "a"}, topology_spread=(spread({"app": "a"}, ZONE),)),
        *pods(3, "b", cpu="500m", labels={"app": "b"}, anti_affinity=(pod_term({"app": "b"}, HOSTNAME),)),
        *pods(5, "c", memory="3Gi"),
    ]

    forward, backward = plan_for(wanted), plan_for(reversed(wanted))

    assert [(each.instance_type, each.zone, each.pods) for each in forward.new_nodes] == [
        (each.instance_type, each.zone, each.pods) for each in backward.new_nodes
    ]


def test_the_order_in_which_rules_are_met_changes_nothing() -> None:
    letters = "abcdefg"
    wanted = [
        pod(
            f"{own}-{other}-{cpu}",
            cpu=f"{cpu}m",
            memory=f"{memory}Mi",
            labels={"own": own},
            topology_spread=(spread({"own": other}, HOSTNAME),),
        )
        for own, other in zip(letters * 7, sorted(letters * 7), strict=True)
        for cpu, memory in ((100, 2048), (250, 512), (1000, 256), (500, 4096))
    ]

    forward, backward = plan_for(wanted), plan_for(reversed(wanted))

    assert [(each.instance_type, each.zone, each.pods) for each in forward.new_nodes] == [
        (each.instance_type, each.zone, each.pods) for each in backward.new_nodes
    ]


def test_a_pod_that_asks_for_a_node_by_name_gets_no_new_one() -> None:
    by_field = pod("field", node_affinity=(node_term(name=("In", "standing")),))
    by_label = pod("label", node_selector={HOSTNAME: "elsewhere"})
    by_refusal = pod("refusal", node_affinity=(node_term(name=("NotIn", "standing")),))

    plan = plan_for(
        [by_field, by_label, by_refusal], nodes=(node("standing", allocatable={"cpu": 1, "pods": 1}),)
    )

    assert [pod_name(each) for each in plan.new_nodes[0].pods] == ["default/refusal"]
    assert sorted(pod_name(each.pods[0]) for each in plan.rejections) == ["default/field", "default/label"]


def test_many_pods_are_placed_in_bulk_at_a_price_near_the_bound() -> None:
    plan = plan_for([*pods(300, "a", cpu="300m", memory="700Mi"), *pods(100, "b", cpu="1", memory="3Gi")])

    assert placed(plan) == 400
    assert plan.lower_bound_per_hour <= plan.price_per_hour <= 1.05 * plan.lower_bound_per_hour


def test_a_reservation_is_given_back_by_a_node_that_is_not_needed_after_all() -> None:
    kind = instance_type("m5.large", capacity_types=("on-demand",))
    types = (instance_type("m5.large", offerings=(*kind.offerings, reserved("cr-1", 1))),)
    problem = Problem(pods=(pod(ports=(host_port(80),)),), types=types, nodepools=(nodepool(),))
    attempt = _Solve(problem.snapshot(), problem.pods, SolveOptions())
    attempt.place("classes")
    (host,) = attempt.board.hosts
    (stance,) = host.contents

    attempt.board.leave(stance, host, 1)

    assert attempt.board.drawn == {"cr-1": 0}
    assert host.mask == 0


def test_a_pool_far_from_its_limits_keeps_larger_alternatives_and_one_near_them_does_not() -> None:
    types = (
        instance_type("a.small", cpu=2, price=0.10, capacity_types=("on-demand",)),
        instance_type("b.large", cpu=4, price=0.19, capacity_types=("on-demand",)),
    )

    def kept(limit: str) -> list[list[str]]:
        plan = plan_for([pod("web", cpu="1500m")], types, nodepools=(nodepool(limits={"cpu": limit}),))
        return [sorted({each.instance_type for each in node.alternatives}) for node in plan.new_nodes]

    assert kept("100") == [["a.small", "b.large"]]
    assert kept("3") == [["a.small"]]
