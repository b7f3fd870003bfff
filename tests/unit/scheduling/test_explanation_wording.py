# SPDX-License-Identifier: Apache-2.0
"""What people read: the sentence, the tree, the data; word for word."""

import json
from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import (
    ARCH,
    HOSTNAME,
    INSTANCE_CATEGORY,
    INSTANCE_FAMILY,
    INSTANCE_TYPE,
    NVIDIA_GPU,
    POD_ENI,
    ZONE,
)
from karpenter.api.nodepool import NodePool
from karpenter.scheduling import Cause
from karpenter.scheduling.explanation import LONGEST_SENTENCE, as_data, sentence, tree
from karpenter.scheduling.reasons import Constraint, Explanation, Reason, Standing
from tests.strategies.clusters import EBS_DRIVER, node, nodepool, storage_class, volume, volume_claim
from tests.strategies.expressions import expression, node_term, pod_term, requirement, spread, taint
from tests.strategies.machines import ZONES, instance_type, small_catalogue
from tests.strategies.pods import daemon, host_port, pod
from tests.unit.scheduling.refusals import holding, refusal

A, B, C = ZONES


def trunking(*families: str) -> list[Any]:
    """Give the small catalogue with a c7i.2xlarge, some families of it with interfaces for pods."""
    kinds = (*small_catalogue(), instance_type("c7i.2xlarge", cpu=8, memory_gib=16))
    return [
        replace(kind, allocatable={**kind.allocatable, POD_ENI: 9})
        if kind.name.split(".")[0] in families
        else kind
        for kind in kinds
    ]


def test_w7_a_pod_that_wants_its_own_interface_is_told_in_one_sentence() -> None:
    pool = nodepool("test-nodepool", requirements=[requirement(INSTANCE_FAMILY, "In", "c7i")])

    rejection = refusal(
        pod(requests={POD_ENI: "1"}, node_selector={ZONE: A}), pool, types=trunking("m5", "r5")
    )

    assert rejection.message == (
        "no instance type in NodePool test-nodepool offers vpc.amazonaws.com/pod-eni; "
        "nearest: c7i.2xlarge fits cpu, memory and zone"
    )
    assert tree(rejection.explanation, "shop/cart") == dedent(
        f"""\
        pod shop/cart  cannot be placed
          1 pool   test-nodepool: no instance type offers vpc.amazonaws.com/pod-eni
          nearest: c7i.2xlarge in {A} of NodePool test-nodepool fits cpu, memory and zone, but has no {POD_ENI}
          smallest change: allow {INSTANCE_FAMILY} In [c7i, m5] in NodePool test-nodepool (m5.large is the cheapest), \
or drop {POD_ENI} from what the pod asks for (a SecurityGroupPolicy asks for it)
        """
    )


def test_w7_families_where_types_belong_are_told_in_one_sentence() -> None:
    types = (*small_catalogue(), instance_type("t3.large"))
    pool = nodepool(requirements=[requirement(INSTANCE_TYPE, "In", "c", "t", "m")])

    assert refusal(pod(), pool, types=types).message == (
        f"NodePool default: no EC2 type is called c, m or t; did you mean {INSTANCE_CATEGORY}? "
        f"(it asks for {INSTANCE_TYPE} In [c, m, t])"
    )


def test_a_pool_that_no_type_meets_is_told_first_to_the_pods_that_ask_for_it() -> None:
    mistaken = nodepool(
        "mine", labels={"team": "a"}, requirements=[requirement(INSTANCE_TYPE, "In", "c", "m")]
    )
    others = [nodepool(f"other-{number}", labels={"team": "b"}) for number in range(3)]

    asking = refusal(pod(node_selector={"team": "a"}), *others, mistaken)
    elsewhere = refusal(pod(node_selector={"team": "c"}), *others, mistaken)

    assert "mine: no EC2 type is called c or m" in asking.message
    assert elsewhere.message.startswith("no NodePool can take it: 3: team")


def twenty_pools() -> list[NodePool]:
    return [
        *(nodepool(f"team-{number}", taints=[taint("team", f"t{number}")]) for number in range(17)),
        *(
            nodepool(f"arm-{name}", requirements=[requirement(ARCH, "In", "arm64")])
            for name in ("batch", "spot")
        ),
        nodepool("general", limits={"cpu": "4"}),
    ]


def test_twenty_pools_are_told_in_two_hundred_characters() -> None:
    standing = node("n1", instance_type("m5.xlarge", cpu=4), pool="general", allocatable={})

    rejection = refusal(pod(node_selector={ARCH: "amd64"}), *twenty_pools(), nodes=(standing,))

    assert rejection.message == (
        "no NodePool can take it: general: limit cpu 4 is used up (4 in use, the smallest type that fits has 2); "
        "2: kubernetes.io/arch In [arm64], the pod wants amd64; 17: taint team=… is not tolerated"
    )
    assert len(rejection.message) <= LONGEST_SENTENCE


def test_twenty_pools_are_shown_as_a_tree() -> None:
    standing = [
        node("n1", instance_type("m5.xlarge", cpu=4), pool="general", allocatable={}),
        node("n2", pool="", taints=[taint("own", "them")]),
    ]

    rejection = refusal(pod(node_selector={ARCH: "amd64"}), *twenty_pools(), nodes=tuple(standing))

    assert tree(rejection.explanation, "shop/cart-7d9f9") == dedent(
        """\
        pod shop/cart-7d9f9  cannot be placed by any of 20 NodePools
           1 pool   general: limit cpu 4 is used up (4 in use, the smallest type that fits has 2)
           2 pools  kubernetes.io/arch In [arm64], the pod wants amd64  (arm-spot, arm-batch)
          17 pools  taint team=… is not tolerated                       (team-9, team-8, team-7, … -o json for all)
          2 standing nodes: 1 without enough cpu, 1 with taint own=them
          smallest change: raise limits.cpu of NodePool general to 6, or let the pod tolerate team=t9:NoSchedule, \
or allow kubernetes.io/arch In [amd64, arm64] in NodePool arm-spot (c5.large is the cheapest)
        """
    )


def test_what_does_not_fit_into_the_sentence_is_counted() -> None:
    pools = [
        nodepool(f"pool-{number}", taints=[taint(f"example.com/reserved-for-{number}")])
        for number in range(20)
    ]

    message = refusal(pod(), *pools).message

    assert message.startswith(
        "no NodePool can take it: pool-9: taint example.com/reserved-for-9 is not tolerated; "
    )
    assert message.endswith("; 18 more for other reasons")
    assert len(message) <= LONGEST_SENTENCE


def test_a_reason_too_long_for_a_sentence_is_cut() -> None:
    long = "x" * 300

    alone = refusal(pod(), nodepool(taints=[taint(long)])).message
    first = refusal(pod(), nodepool(taints=[taint(long)]), nodepool("b", taints=[taint("y" + long)])).message

    assert len(alone) == len(first) == LONGEST_SENTENCE
    assert alone.endswith("…")
    assert first.endswith("…; 1 more for other reasons")


MESSAGES: list[tuple[str, Pod, dict[str, Any], str]] = [
    (
        "sold out",
        pod(),
        {
            "types": [
                replace(kind, offerings=tuple(replace(each, available=False) for each in kind.offerings))
                for kind in small_catalogue()[:1]
            ]
        },
        "NodePool default: every offering that fits is sold out (c5.large)",
    ),
    ("no types", pod(), {"types": ()}, "no instance type in NodePool default is known for its node class"),
    (
        "too large",
        pod(cpu="7900m"),
        {"daemons": (daemon(cpu="100m"),)},
        (
            "no instance type in NodePool default has cpu 8 (100m for DaemonSets), the largest has 7920m; "
            "nearest: c5.2xlarge fits memory"
        ),
    ),
    (
        "together",
        pod(requests={NVIDIA_GPU: "1"}, node_selector={ARCH: "arm64"}),
        {},
        (
            "no instance type in NodePool default meets kubernetes.io/arch arm64 and nvidia.com/gpu 1 together; "
            "nearest: m6g.large fits cpu, memory and arch"
        ),
    ),
    (
        "megacores",
        pod(cpu="100M"),
        {},
        (
            "no instance type in NodePool default has cpu 100M, the largest has 7920m; "
            '"100M" is 100000000 cores, did you mean "100m"?'
        ),
    ),
    (
        "typo",
        pod(node_selector={"zone": A}),
        {},
        'NodePool default: no node has the label "zone"; did you mean "topology.kubernetes.io/zone"?',
    ),
    (
        "unknown label",
        pod(node_selector={"color": "blue"}),
        {},
        'NodePool default: no node has the label "color", the pod wants blue',
    ),
    (
        "wrong value",
        pod(node_selector={ARCH: "amd46"}),
        {},
        'NodePool default: the pod wants kubernetes.io/arch amd46; did you mean "amd64"?',
    ),
    (
        "host port",
        pod(ports=[host_port(80)]),
        {"daemons": (daemon(ports=[host_port(80)]),)},
        "NodePool default: host port *:80/TCP is taken by a DaemonSet",
    ),
    (
        "affinity to nobody",
        pod(affinity=[pod_term({"app": "db"})]),
        {},
        "NodePool default: no pod matches app=db, with which it must share a zone",
    ),
    (
        "affinities that exclude each other",
        pod(affinity=[pod_term({"app": "db"}), pod_term({"app": "web"})]),
        {},
        "NodePool default: its affinity by zone selects no pod at all",
    ),
    (
        "affinity to a host",
        pod(affinity=[pod_term({"app": "db"}, HOSTNAME)]),
        {"nodes": (holding("n1", A, "db"),)},
        "NodePool default: pods that match app=db are on 1 node, and none takes it",
    ),
    (
        "anti-affinity",
        pod(anti_affinity=[pod_term({"app": "db"})]),
        {"nodes": tuple(holding(zone, zone, "db") for zone in ZONES)},
        f"NodePool default: pods that match app=db stand in every zone open to it ({A}, {B} or {C})",
    ),
    (
        "anti-affinity of others",
        pod(labels={"app": "web"}),
        {"nodes": tuple(holding(z, z, "db", anti_affinity=[pod_term({"app": "web"})]) for z in ZONES)},
        f"NodePool default: pods that keep away from it stand in every zone open to it ({A}, {B} or {C})",
    ),
    (
        "a spread over nothing",
        pod(labels={"app": "web"}, topology_spread=[spread({"app": "web"}, "rack")]),
        {},
        "NodePool default: spread over rack (maxSkew 1) leaves no place",
    ),
    (
        "contradiction",
        pod(node_selector={ZONE: A}, node_affinity=[node_term(expression(ZONE, "NotIn", A))]),
        {},
        f"the pod contradicts itself: {ZONE} In [{A}] (nodeSelector) and NotIn [{A}] (node affinity)",
    ),
    (
        "empty terms",
        pod(node_affinity=[node_term()]),
        {},
        "the pod's node affinity has no term that a node can meet; an empty term matches no node",
    ),
    (
        "volume",
        pod(claims=["data"]),
        {},
        "volume data: claim default/data does not exist; create the claim, or correct its name in the pod",
    ),
    (
        "unreadable",
        pod(cpu="1 core"),
        {},
        'the pod cannot be read: cpu: "1 core" is not a quantity; write "1"',
    ),
]


@pytest.mark.parametrize(
    ("asked", "cluster", "message"), [each[1:] for each in MESSAGES], ids=[each[0] for each in MESSAGES]
)
def test_every_cause_has_its_words(asked: Pod, cluster: dict[str, Any], message: str) -> None:
    assert refusal(asked, **cluster).message == message


def test_a_spread_tells_the_counts() -> None:
    asked = pod(labels={"app": "web"}, topology_spread=[spread({"app": "web"})])
    nodes = (holding("n1", A, "web"), holding("n2", B, "db"))

    rejection = refusal(asked, nodepool(requirements=[requirement(ZONE, "In", A)]), nodes=nodes)

    assert rejection.message == (
        f"NodePool default: spread over {ZONE} (maxSkew 1) leaves no place: 1 in {A}, 0 in {B}"
    )


def test_those_to_stand_with_elsewhere_are_told_with_their_places() -> None:
    asked = pod(affinity=[pod_term({"app": "db"})])
    pool = nodepool(requirements=[requirement(ZONE, "In", C)])

    rejection = refusal(asked, pool, nodes=(holding("n1", A, "db"),))

    assert rejection.message == f"NodePool default: pods that match app=db stand only in {A}"


def test_volumes_elsewhere_are_told_with_the_zones_of_both() -> None:
    rejection = refusal(
        pod(claims=["data"]),
        nodepool(requirements=[requirement(ZONE, "In", B)]),
        claims=(volume_claim("data", volume_name="v"),),
        volumes=(volume("v", zones=[A]),),
    )

    assert rejection.message == f"NodePool default: the pod's volumes are in {A}, its nodes are in {B}"
    assert f"nearest: m6g.large in {B} of NodePool default fits cpu and memory" in tree(
        rejection.explanation, "x/y"
    )


def test_a_pool_whose_own_requirements_exclude_everything_is_told_so() -> None:
    rejection = refusal(pod(), nodepool(requirements=[requirement(ARCH, "In", "s390x")]))

    assert rejection.message == (
        f"no instance type in NodePool default meets the NodePool's own {ARCH} In [s390x]"
    )


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"cpu": "1"}, "limit cpu 1 is too low, the smallest type that fits has 2"),
        ({"nodes": "0"}, "limit nodes 0 is too low"),
    ],
)
def test_a_limit_that_was_too_low_from_the_start_is_told_so(limits: dict[str, str], words: str) -> None:
    assert refusal(pod(), nodepool(limits=limits)).message == f"NodePool default: {words}"


def test_a_limit_of_nodes_that_is_used_up_is_told_without_types() -> None:
    pool = nodepool(limits={"nodes": "1"})

    message = refusal(pod(), pool, nodes=(node("n1", allocatable={}),)).message

    assert message == "NodePool default: limit nodes 1 is used up (1 in use)"


def test_values_to_keep_open_are_told() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_FAMILY, "Exists", min_values=9)])

    assert refusal(pod(), pool).message == (
        f"NodePool default: minValues 9 of {INSTANCE_FAMILY} cannot be kept, 5 fit"
    )


def test_a_requirement_of_two_pools_is_told_of_both() -> None:
    pools = [nodepool(name, requirements=[requirement(ARCH, "In", "arm64")]) for name in ("a", "b")]

    assert refusal(pod(node_selector={ARCH: "amd64"}), *pools).message == (
        "both NodePools: kubernetes.io/arch In [arm64], the pod wants amd64"
    )


def test_a_requirement_that_pools_break_in_different_ways_is_told_without_their_side() -> None:
    pools = [
        nodepool(name, requirements=[requirement(ZONE, "In", zone)])
        for name, zone in (("a", A), ("b", B), ("c", A))
    ]

    assert refusal(pod(node_selector={ZONE: C}), *pools).message == (
        f"all 3 NodePools: {ZONE} does not match, the pod wants {C}"
    )


def test_limits_of_several_pools_are_told_without_their_figures() -> None:
    pools = [nodepool(f"pool-{cpu}", limits={"cpu": cpu}) for cpu in ("0", "1")]

    assert refusal(pod(), *pools).message == "both NodePools: limit cpu is used up"


def test_the_largest_type_of_several_pools_is_told() -> None:
    pools = [
        nodepool(size, requirements=[requirement(INSTANCE_TYPE, "In", f"m5.{size}")])
        for size in ("large", "xlarge")
    ]

    assert refusal(pod(cpu="9"), *pools).message == (
        "no instance type in any of 2 NodePools has cpu 9, the largest has 3920m; nearest: m5.xlarge fits memory"
    )


def test_what_pools_want_differently_is_left_out() -> None:
    reasons = tuple(
        Reason((Constraint(Cause.MIN_VALUES, INSTANCE_FAMILY, wanted, "2"),), (pool,))
        for pool, wanted in (("a", "3"), ("b", "4"))
    )

    assert sentence(Explanation(reasons, pools=2)) == (
        f"both NodePools: minValues of {INSTANCE_FAMILY} cannot be kept"
    )


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Constraint(Cause.VOLUME_REACH, ZONE, A), f"its volumes' {A}"),
        (Constraint(Cause.HOST_PORT, "*:80/TCP"), "a free host port *:80/TCP"),
        (Constraint(Cause.SPREAD, ZONE), f"its spread over {ZONE}"),
        (Constraint(Cause.AFFINITY, ZONE, "app=db"), "its affinity to app=db"),
        (Constraint(Cause.ANTI_AFFINITY, ZONE, "app=db"), "its anti-affinity to app=db"),
        (Constraint(Cause.ANTI_AFFINITY, ZONE), "the anti-affinity of others"),
        (Constraint(Cause.TOPOLOGY, "99 rules about other pods"), "99 rules about other pods"),
    ],
)
def test_every_cause_can_be_one_of_several(constraint: Constraint, words: str) -> None:
    reason = Reason((Constraint(Cause.RESOURCES, "cpu", "9", "8"), constraint), ("default",))

    assert sentence(Explanation((reason,), pools=1)) == (
        f"no instance type in NodePool default meets cpu 9 and {words} together"
    )


def test_two_limits_that_only_together_are_too_low_are_told_together() -> None:
    limits = tuple(Constraint(Cause.LIMIT, name, "4", "1") for name in ("cpu", "memory"))

    assert sentence(Explanation((Reason(limits, ("default",)),), pools=1)) == (
        "no instance type in NodePool default meets limit cpu (1 left) and limit memory (1 left) together"
    )


def test_what_is_sold_out_beside_a_size_is_told_as_sold_out() -> None:
    reason = Reason((Constraint(Cause.RESOURCES, "cpu", "9", "8"), Constraint(Cause.SOLD_OUT)), ("default",))

    assert (
        sentence(Explanation((reason,), pools=1)) == "NodePool default: every offering that fits is sold out"
    )


def test_a_place_that_is_open_after_all_is_told_so() -> None:
    reason = Reason((Constraint(Cause.UNDECIDED),), ("default",))

    assert sentence(Explanation((reason,), pools=1)) == (
        "NodePool default: a place is open, it is tried again next time"
    )


def test_standing_nodes_are_told_by_what_they_lack() -> None:
    lacks = [
        (Constraint(Cause.TAINT, "own:NoSchedule"), "with taint own"),
        (Constraint(Cause.REQUIREMENT, ARCH), f"without the {ARCH} it wants"),
        (Constraint(Cause.VOLUME_REACH), "out of reach of its volumes"),
        (Constraint(Cause.RESOURCES, "cpu"), "without enough cpu"),
        (Constraint(Cause.HOST_PORT, "*:80/TCP"), "with host port *:80/TCP taken"),
        (Constraint(Cause.ATTACH_LIMIT, EBS_DRIVER), f"with no more volumes of {EBS_DRIVER}"),
        (Constraint(Cause.SPREAD, ZONE), "in a zone full for its spread"),
        (Constraint(Cause.AFFINITY, HOSTNAME), "in a hostname without the pods it must stand with"),
        (Constraint(Cause.ANTI_AFFINITY, ZONE), "in a zone with pods it must stand apart from"),
        (Constraint(Cause.UNDECIDED), "with room left"),
    ]
    standing = Standing(20, 10, tuple((constraint, 1) for constraint, _ in lacks))

    told = tree(Explanation((Reason((Constraint(Cause.NO_POOLS),)),), standing=standing), "a/b")

    words = ", ".join(f"1 {each}" for _, each in lacks)
    assert told == dedent(
        f"""\
        pod a/b  cannot be placed
          there is no NodePool that is ready
          20 standing nodes (the first 10 looked at): {words}
        """
    )


def test_one_standing_node_is_one() -> None:
    rejection = refusal(pod(cpu="9"), nodes=(node("n1"),))

    assert "\n  1 standing node: 1 without enough cpu\n" in tree(rejection.explanation, "a/b")


def test_the_data_says_everything_and_is_json() -> None:
    data = as_data(refusal(pod(node_selector={"zone": A})).explanation)

    assert json.loads(json.dumps(data))["pools"] == 1
    assert data["sentence"].startswith("NodePool default")
    assert data["reasons"][0]["constraints"][0]["cause"] == "undefined-label"
    change = data["fixes"][0]["changes"][0]
    assert (change["object"], change["field"], change["value"]) == ("Pod", "spec.nodeSelector", {ZONE: A})
    assert data["fixes"][0]["words"].startswith("write ")


def test_the_classes_of_storage_are_no_part_of_the_words() -> None:
    rejection = refusal(
        pod(claims=["data"]),
        nodepool(requirements=[requirement(ZONE, "In", B)]),
        claims=(volume_claim("data", storage_class_name="ebs"),),
        classes=(storage_class("ebs", zones=[A, C]),),
    )

    assert rejection.message == f"NodePool default: the pod's volumes are in {A} or {C}, its nodes are in {B}"
