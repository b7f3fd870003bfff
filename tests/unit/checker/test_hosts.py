# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.core import NodeSelectorRequirement, Pod, Toleration
from karpenter.api.labels import ARCH, CAPACITY_TYPE, EBS_CSI_ZONE, HOSTNAME, INSTANCE_CPU, NVIDIA_GPU, ZONE
from tests.strategies import (
    EBS_DRIVER,
    ZONES,
    container,
    daemon,
    daemon_on,
    expression,
    host_port,
    node,
    node_term,
    nodepool,
    pod,
    pods,
    requirement,
    small_catalogue,
    storage_class,
    taint,
    toleration,
    volume,
    volume_claim,
)
from tests.strategies.problems import Problem
from tests.unit.checker.handmade import buy, judge, plan_of, problem_of

A, B, _ = ZONES


def judge_new(problem: Problem, *placed: Pod, **purchase: Any) -> list[str]:
    return judge(problem, plan_of(buy(problem, *placed, **purchase)))


def judge_standing(problem: Problem, *placed: Pod) -> list[str]:
    return judge(problem, plan_of(existing={"n": placed}))


# Room.


def test_a_full_new_node_is_valid() -> None:
    both = pods(2, cpu="960m", memory="3Gi")
    problem = problem_of(*both)

    assert judge_new(problem, *both) == []


@pytest.mark.parametrize(
    ("options", "resource"),
    [({"cpu": "961m"}, "cpu"), ({"memory": "4Gi"}, "memory"), ({"requests": {NVIDIA_GPU: "1"}}, NVIDIA_GPU)],
)
def test_an_overfull_new_node_is_found(options: dict[str, Any], resource: str) -> None:
    both = pods(2, **{"cpu": "100m", **options})
    problem = problem_of(*both)

    found = judge_new(problem, *both)

    assert len(found) == 2
    assert all(f"of {resource}, its pods take" in each for each in found)


def test_too_many_pods_are_found() -> None:
    many = pods(30, cpu="1m", memory="1Mi")
    problem = problem_of(*many)

    found = judge_new(problem, *many)

    assert found[0] == "new node 0 of pool default has 29 of pods, its pods take 30"


def test_daemons_take_room_on_new_nodes() -> None:
    one = pod(cpu="1800m")

    fits = problem_of(one, daemons=(daemon(cpu="120m"),))
    overfull = problem_of(one, daemons=(daemon(cpu="121m"),))

    assert judge_new(fits, one) == []
    assert "has 1920 of cpu, its pods take 1921" in judge_new(overfull, one)[0]


@pytest.mark.parametrize(
    "absent",
    [
        daemon(cpu="1", node_selector={ARCH: "arm64"}),
        daemon(cpu="1", node_affinity=[node_term(expression(INSTANCE_CPU, "Gt", "2"))]),
    ],
)
def test_daemons_that_do_not_belong_there_take_no_room(absent: Pod) -> None:
    one = pod(cpu="1900m")
    problem = problem_of(one, daemons=(absent,))

    assert judge_new(problem, one) == []


def test_daemons_that_do_not_tolerate_the_pool_take_no_room() -> None:
    one = pod(cpu="1900m", tolerations=[toleration()])
    parts = {"nodepools": (nodepool(taints=[taint("team")]),)}

    kept_off = problem_of(one, daemons=(daemon(cpu="1"),), **parts)
    tolerant = problem_of(one, daemons=(daemon(cpu="1", tolerations=[toleration()]),), **parts)

    assert judge_new(kept_off, one) == []
    assert judge_new(tolerant, one) != []


def test_each_alternative_must_hold_the_pods() -> None:
    one = pod(memory="6Gi")
    problem = problem_of(one)

    good = judge_new(problem, one, others=[("r5.large", A, "on-demand")])
    bad = judge_new(problem, one, kind="r5.large", others=[("c5.xlarge", A, "on-demand")])
    too_small = judge_new(problem, one, others=[("c5.large", A, "on-demand")])

    assert good == []
    assert bad == []
    assert "new node 0 of pool default as c5.large on-demand in us-east-1a has" in too_small[0] + too_small[1]


def test_daemons_count_for_each_alternative_by_itself() -> None:
    one = pod(cpu="3500m")
    heavy_on_spot = daemon(cpu="1", node_selector={CAPACITY_TYPE: "spot"})
    problem = problem_of(one, daemons=(heavy_on_spot,))

    found = judge_new(problem, one, kind="m5.xlarge", others=[("r5.xlarge", A, "spot")])

    assert any(
        "as r5.xlarge spot in us-east-1a has 3920 of cpu, its pods take 4500" in each for each in found
    )
    assert not any("on-demand" in each and "of cpu" in each for each in found)


def test_a_standing_node_is_filled_up_to_its_allocatable() -> None:
    bound = pod("bound", cpu="900m", node_name="n")
    fits, too_large = pod("fits", cpu="1020m"), pod("large", cpu="1021m")
    problem = problem_of(nodes=(node("n", pods=[bound]),), pods=(fits,))
    overfull = problem_of(nodes=(node("n", pods=[bound]),), pods=(too_large,))

    assert judge_standing(problem, fits) == []
    assert judge_standing(overfull, too_large) == ["node n has 1920 of cpu, its pods take 1921"]


def test_pods_that_are_over_take_no_room_but_leaving_ones_do() -> None:
    one = pod(cpu="1")
    over = pod("over", cpu="1900m", node_name="n", phase="Succeeded")
    leaving = pod("leaving", cpu="1900m", node_name="n", terminating=True)

    assert judge_standing(problem_of(one, nodes=(node("n", pods=[over]),)), one) == []
    assert judge_standing(problem_of(one, nodes=(node("n", pods=[leaving]),)), one) != []


def test_missing_daemons_take_room_on_standing_nodes_once() -> None:
    one = pod(cpu="1")
    agent = daemon(cpu="900m")
    running = problem_of(one, daemons=(agent,), nodes=(node("n", pods=[daemon_on(agent, "n")]),))
    missing = problem_of(one, daemons=(agent,), nodes=(node("n"),))
    crowded = problem_of(
        one, daemons=(agent,), nodes=(node("n", pods=[pod("x", cpu="100m", node_name="n")]),)
    )

    assert judge_standing(running, one) == []
    assert judge_standing(missing, one) == []
    assert judge_standing(crowded, one) == ["node n has 1920 of cpu, its pods take 2000"]


def test_a_node_that_was_overfull_before_is_no_fault_of_a_plan_that_leaves_it_alone() -> None:
    full = node("full", pods=pods(3, "bound", node_name="full"))
    one = pod()
    problem = problem_of(one, nodes=(full,))

    assert judge_new(problem, one) == []


def test_init_containers_sidecars_and_overhead_count() -> None:
    one = pod(
        cpu="500m",
        init_containers=[
            container("first", {"cpu": "1300m"}),
            container("side", {"cpu": "300m"}, sidecar=True),
            container("last", {"cpu": "1500m"}),
        ],
        overhead={"cpu": "120m"},
    )
    problem = problem_of(one)

    assert judge_new(problem, one) == []
    larger = pod(cpu="500m", init_containers=one.spec.init_containers, overhead={"cpu": "121m"})
    assert judge_new(problem_of(larger), larger) != []


# Taints.


@pytest.mark.parametrize(
    ("own", "tolerated"),
    [
        ([], False),
        ([toleration()], True),
        ([toleration("team")], True),
        ([toleration("team", "data")], True),
        ([toleration("team", "other")], False),
        ([toleration("team", "data", "NoSchedule")], True),
        ([toleration("team", "data", "NoExecute")], False),
        ([toleration("other")], False),
        ([Toleration(key="team", operator="Like", value="data")], False),
        ([Toleration(operator="Equal", value="data")], False),
    ],
)
def test_taints_of_pools_and_nodes_must_be_tolerated(own: list[Toleration], tolerated: bool) -> None:  # noqa: FBT001
    one = pod(tolerations=own)
    data = taint("team", "data")
    problem = problem_of(one, nodepools=(nodepool(taints=[data]),), nodes=(node("n", taints=[data]),))

    assert (judge_new(problem, one) == []) is tolerated
    assert (judge_standing(problem, one) == []) is tolerated


def test_no_execute_forbids_and_prefer_no_schedule_does_not() -> None:
    one = pod()
    forbidden = problem_of(one, nodepools=(nodepool(taints=[taint("x", effect="NoExecute")]),))
    discouraged = problem_of(one, nodepools=(nodepool(taints=[taint("x", effect="PreferNoSchedule")]),))

    assert "does not tolerate taint x=:NoExecute of new node 0" in judge_new(forbidden, one)[0]
    assert judge_new(discouraged, one) == []


def test_startup_taints_pass_by_themselves() -> None:
    one = pod()
    problem = problem_of(one, nodepools=(nodepool(startup_taints=[taint("booting")]),))

    assert judge_new(problem, one) == []


# Node affinity.


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        (expression(ZONE, "In", A, B), True),
        (expression(ZONE, "In", B), False),
        (expression(ZONE, "In"), False),
        (expression(ZONE, "NotIn", B), True),
        (expression(ZONE, "NotIn", A), False),
        (expression("missing", "NotIn", "x"), True),
        (expression("missing", "In", "x"), False),
        (expression(ARCH, "Exists"), True),
        (expression("missing", "Exists"), False),
        (expression("missing", "DoesNotExist"), True),
        (expression(ARCH, "DoesNotExist"), False),
        (expression(INSTANCE_CPU, "Gt", "1"), True),
        (expression(INSTANCE_CPU, "Gt", "2"), False),
        (expression(INSTANCE_CPU, "Lt", "3"), True),
        (expression(INSTANCE_CPU, "Lt", "2"), False),
        (expression(INSTANCE_CPU, "Lt", "many"), False),
        (expression(ARCH, "Gt", "1"), False),
        (expression("missing", "Gt", "1"), False),
        (expression(ARCH, "Like", "a"), False),
    ],
)
def test_every_operator_of_node_affinity_is_judged(wanted: NodeSelectorRequirement, met: bool) -> None:  # noqa: FBT001
    one = pod(node_affinity=[node_term(wanted)])
    problem = problem_of(one, nodes=(node("n"),))

    assert (judge_new(problem, one) == []) is met
    assert (judge_standing(problem, one) == []) is met


def test_one_of_several_terms_is_enough_and_an_empty_one_is_never_met() -> None:
    elsewhere, here = node_term(expression(ZONE, "In", B)), node_term(expression(ZONE, "In", A))
    either = pod(node_affinity=[elsewhere, here])
    neither = pod(node_affinity=[elsewhere, node_term()])

    assert judge_new(problem_of(either), either) == []
    assert judge_new(problem_of(neither), neither) != []


def test_the_node_selector_holds_beside_the_terms() -> None:
    good = pod(node_selector={ARCH: "amd64"}, node_affinity=[node_term(expression(ZONE, "In", A))])
    bad = pod(node_selector={ARCH: "arm64"}, node_affinity=[node_term(expression(ZONE, "In", A))])

    assert judge_new(problem_of(good), good) == []
    assert "does not meet the node affinity of pod default/pod" in judge_new(problem_of(bad), bad)[0]


def test_old_names_of_labels_are_on_nodes_too() -> None:
    one = pod(node_selector={"beta.kubernetes.io/arch": "amd64", "failure-domain.beta.kubernetes.io/zone": A})

    assert judge_new(problem_of(one), one) == []
    assert judge_new(problem_of(one), one, zone=B) != []


@pytest.mark.parametrize(
    ("name", "met"),
    [(("In", "n"), True), (("In", "m"), False), (("NotIn", "m"), True), (("NotIn", "n"), False)],
)
def test_a_node_is_chosen_by_its_name(name: tuple[str, str], met: bool) -> None:  # noqa: FBT001
    one = pod(node_affinity=[node_term(name=name)])
    problem = problem_of(one, nodes=(node("n"),))

    assert (judge_standing(problem, one) == []) is met


def test_no_new_node_has_a_name_that_is_known() -> None:
    one = pod(node_affinity=[node_term(name=("In", "n"))])

    assert judge_new(problem_of(one), one) != []


def test_each_alternative_must_meet_the_node_affinity() -> None:
    one = pod(node_selector={CAPACITY_TYPE: "on-demand"})
    problem = problem_of(one)

    good = judge_new(problem, one, others=[("m5.large", B, "on-demand")])
    bad = judge_new(problem, one, others=[("m5.xlarge", A, "spot")])

    assert good == []
    assert any("as m5.xlarge spot in us-east-1a does not meet the node affinity" in each for each in bad)


def test_labels_of_the_template_are_on_its_nodes() -> None:
    one = pod(node_selector={"team": "a"})

    assert judge_new(problem_of(one, nodepools=(nodepool(labels={"team": "a"}),)), one) == []
    assert judge_new(problem_of(one, nodepools=(nodepool(labels={"team": "b"}),)), one) != []
    assert judge_new(problem_of(one), one) != []


def test_a_label_that_is_left_open_is_nothing_to_count_on() -> None:
    one = pod(node_selector={"team": "a"})
    problem = problem_of(one, nodepools=(nodepool(requirements=[requirement("team", "In", "a", "b")]),))

    assert judge_new(problem, one, settled={"team": "a"}) == []
    assert "asks for label team, which new node 0 of pool default leaves open" in judge_new(problem, one)[0]
    assert judge_new(problem, one, settled={"team": "b"}) != []


def test_devices_are_placed_by_nobody() -> None:
    one = pod(devices=["gpu"])

    assert "uses resource claims" in judge_new(problem_of(one), one)[0]


def test_a_host_name_of_a_new_node_cannot_be_asked_for() -> None:
    one = pod(node_selector={HOSTNAME: "n"})
    problem = problem_of(one, nodes=(node("n"),))

    assert judge_standing(problem, one) == []
    assert judge_new(problem, one) != []


# Host ports.


@pytest.mark.parametrize(
    ("other", "clash"),
    [
        (host_port(80), True),
        (host_port(81), False),
        (host_port(80, protocol="UDP"), False),
        (host_port(80, ip="10.0.0.1"), True),
    ],
)
def test_two_pods_cannot_have_one_port_of_a_node(other: Any, clash: bool) -> None:  # noqa: FBT001
    one, two = pod("one", cpu="100m", ports=[host_port(80)]), pod("two", cpu="100m", ports=[other])
    problem = problem_of(one, two)

    assert (judge_new(problem, one, two) != []) is clash


def test_ports_of_different_addresses_do_not_clash() -> None:
    one = pod("one", cpu="100m", ports=[host_port(80, ip="10.0.0.1")])
    two = pod("two", cpu="100m", ports=[host_port(80, ip="10.0.0.2")])

    assert judge_new(problem_of(one, two), one, two) == []


def test_ports_clash_with_bound_pods_and_daemons() -> None:
    one = pod(cpu="100m", ports=[host_port(80)])
    bound = pod("bound", cpu="100m", ports=[host_port(80)], node_name="n")
    agent = daemon(ports=[host_port(80)])

    assert judge_standing(problem_of(one, nodes=(node("n", pods=[bound]),)), one) == [
        "pod default/pod and pod default/bound both want host port TCP 80 of node n"
    ]
    assert judge_new(problem_of(one, daemons=(agent,)), one) != []


def test_the_host_network_takes_container_ports() -> None:
    port = host_port(80)
    one = pod("one", cpu="100m", ports=[type(port)(container_port=80)], host_network=True)
    two = pod("two", cpu="100m", ports=[port])

    assert judge_new(problem_of(one, two), one, two) != []


# Volumes.


def test_a_bound_volume_keeps_the_pod_in_its_zone() -> None:
    one = pod(claims=["data"])
    parts = {
        "claims": (volume_claim("data", volume_name="v"),),
        "volumes": (volume("v", zones=[A], zone_key=EBS_CSI_ZONE),),
    }
    problem = problem_of(one, **parts)

    assert judge_new(problem, one) == []
    assert any(
        "does not reach the volume of claim default/data" in each for each in judge_new(problem, one, zone=B)
    )


def test_a_class_keeps_new_volumes_in_its_zones() -> None:
    one = pod(claims=["data"])
    problem = problem_of(one, claims=(volume_claim("data"),), classes=(storage_class("ebs", zones=[A, B]),))

    assert judge_new(problem, one, zone=B) == []
    assert judge_new(problem, one, zone=ZONES[2]) != []


def test_each_alternative_must_reach_the_volumes() -> None:
    one = pod(claims=["data"])
    problem = problem_of(
        one, claims=(volume_claim("data", volume_name="v"),), volumes=(volume("v", zones=[A]),)
    )

    found = judge_new(problem, one, others=[("m5.large", B, "on-demand")])

    assert any("as m5.large on-demand in us-east-1b does not reach" in each for each in found)


@pytest.mark.parametrize(
    "claims",
    [
        (),
        (volume_claim("data", phase="Lost"),),
        (volume_claim("data", storage_class_name="unknown"),),
        (volume_claim("data", volume_name="gone"),),
        (volume_claim("data", storage_class_name="slow"),),
        (volume_claim("data", volume_name="v", bound=False),),
    ],
)
def test_a_pod_whose_claim_is_broken_must_not_be_placed(claims: tuple[Any, ...]) -> None:
    one = pod(claims=["data"])
    problem = problem_of(
        one, claims=claims, volumes=(volume("v"),), classes=(storage_class("slow", immediate=True),)
    )

    assert "is placed, though claim default/data" in judge_new(problem, one)[0]


def test_a_standing_node_attaches_only_so_many_volumes() -> None:
    parts = {
        "claims": tuple(volume_claim(f"c{number}", volume_name=f"v{number}") for number in range(3)),
        "volumes": tuple(volume(f"v{number}", in_tree=number == 2) for number in range(3)),
    }
    bound = pod("bound", cpu="1m", claims=["c0"], node_name="n")
    nodes = (node("n", pods=[bound], volume_limits={EBS_DRIVER: 2}),)
    shared = pod("shared", cpu="1m", claims=["c0", "c1"])
    third = pod("third", cpu="1m", claims=["c2"])

    assert judge_standing(problem_of(shared, nodes=nodes, **parts), shared) == []
    assert judge_standing(problem_of(shared, third, nodes=nodes, **parts), shared, third) == [
        "node n can hold 2 volumes of ebs.csi.aws.com, its pods attach 3"
    ]


def test_small_catalogue_is_what_these_tests_think() -> None:
    (large,) = (kind for kind in small_catalogue() if kind.name == "m5.large")

    assert large.allocatable["cpu"] == 1920
    assert large.allocatable["pods"] == 29
