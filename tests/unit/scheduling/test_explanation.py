# SPDX-License-Identifier: Apache-2.0
"""Each cause of a refusal, alone and with others."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_fields

from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_CATEGORY,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    NODEPOOL,
    NVIDIA_GPU,
    ZONE,
)
from karpenter.scheduling import Cause, SolveOptions, solve
from karpenter.scheduling.reasons import Constraint
from tests.strategies.clusters import node, nodepool, storage_class, volume, volume_claim
from tests.strategies.expressions import (
    expression,
    node_term,
    pod_term,
    requirement,
    selector,
    spread,
    taint,
    toleration,
)
from tests.strategies.machines import ZONES, instance_type, reserved, small_catalogue
from tests.strategies.pods import daemon, host_port, pod, pods
from tests.strategies.problems import Problem
from tests.unit.scheduling.refusals import causes, holding, only_constraint, only_reason, plan_of, refusal

A, B, C = ZONES


def test_a_taint_that_is_not_tolerated_is_named() -> None:
    found = only_reason(refusal(pod(), nodepool(taints=[taint("team", "a")])))

    assert found.constraints == (Constraint(Cause.TAINT, "team=a:NoSchedule"),)
    assert found.pools == ("default",)


def test_a_taint_without_a_value_is_named_by_its_key() -> None:
    found = only_constraint(refusal(pod(), nodepool(taints=[taint("gpu", effect="NoExecute")])))

    assert found.subject == "gpu:NoExecute"


def test_one_taint_is_blamed_where_another_is_tolerated() -> None:
    pool = nodepool(taints=[taint("a", "x"), taint("b", "y")])

    found = only_constraint(refusal(pod(tolerations=[toleration("a", "x")]), pool))

    assert found.subject == "b=y:NoSchedule"


def test_a_label_that_the_pool_sets_otherwise_is_shown_with_both_sides() -> None:
    pool = nodepool(requirements=[requirement(ARCH, "In", "arm64")])

    found = only_reason(refusal(pod(node_selector={ARCH: "amd64"}), pool))

    assert found.constraints[0] == Constraint(Cause.REQUIREMENT, ARCH, "amd64", "In [arm64]")
    assert found.constraints[1] == Constraint(Cause.POOL_REQUIREMENT, ARCH, offered="In [arm64]")
    assert (found.cause, found.subject, found.wanted, found.offered, found.hint) == (
        Cause.REQUIREMENT,
        ARCH,
        "amd64",
        "In [arm64]",
        "",
    )


def test_a_label_that_follows_from_another_requirement_of_the_pool_is_shown_with_that_one() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_FAMILY, "In", "m5"), requirement(ZONE, "In", A, B)])

    found = only_reason(refusal(pod(node_selector={ARCH: "arm64"}), pool))

    assert [(each.cause, each.subject) for each in found.constraints] == [
        (Cause.REQUIREMENT, ARCH),
        (Cause.POOL_REQUIREMENT, INSTANCE_FAMILY),
    ]
    assert found.offered == "is amd64"


def test_a_label_of_the_pool_itself_can_be_the_obstacle() -> None:
    found = only_constraint(refusal(pod(node_selector={"team": "b"}), nodepool(labels={"team": "a"})))

    assert found == Constraint(Cause.REQUIREMENT, "team", "b", "In [a]")


def test_a_label_that_only_some_nodes_of_the_pool_have_is_no_typo() -> None:
    pool = nodepool(requirements=[requirement("team", "NotIn", "b")])

    found = only_constraint(refusal(pod(node_selector={"team": "b"}), pool))

    assert found.cause is Cause.UNDEFINED_LABEL
    assert found.hint == ""


def test_a_label_of_which_only_another_value_was_asked_for_is_told_as_it_is() -> None:
    pool = nodepool(requirements=[requirement("team", "In", "a", "b")])
    asked = pod(node_affinity=[node_term(expression("team", "NotIn", "a"), expression("team", "NotIn", "b"))])

    found = only_constraint(refusal(asked, pool))

    assert (found.wanted, found.offered) == ("NotIn [a, b]", "In [a, b]")


def test_a_label_that_no_offering_has_is_not_set() -> None:
    asked = pod(node_affinity=[node_term(expression("karpenter.k8s.aws/instance-gpu-name", "Exists"))])
    pool = nodepool(requirements=[requirement(INSTANCE_FAMILY, "In", "m5")])

    found = only_reason(refusal(asked, pool))

    assert (found.wanted, found.offered) == ("Exists", "is not set")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("zone", ZONE), ("kubernetes.io/archh", ARCH), ("topology.kubernetes.io/zne", ZONE)],
)
def test_a_mistyped_label_is_pointed_out(written: str, meant: str) -> None:
    found = only_constraint(refusal(pod(node_selector={written: "x"})))

    assert found == Constraint(Cause.UNDEFINED_LABEL, written, "x", hint=f'did you mean "{meant}"?')


def test_a_label_like_no_other_gets_no_guess() -> None:
    assert only_constraint(refusal(pod(node_selector={"color": "blue"}))).hint == ""


def test_a_mistyped_value_is_pointed_out() -> None:
    found = only_constraint(refusal(pod(node_selector={ARCH: "amd46"})))

    assert found.hint == 'did you mean "amd64"?'


def test_a_value_between_two_others_gets_no_guess() -> None:
    found = only_constraint(refusal(pod(node_selector={ZONE: "us-east-1z"})))

    assert found == Constraint(Cause.REQUIREMENT, ZONE, "us-east-1z", f"is {A}, {B} or {C}")


def test_a_value_too_long_to_be_one_gets_no_guess() -> None:
    assert only_constraint(refusal(pod(node_selector={ARCH: "amd64" * 100}))).hint == ""


def test_many_values_get_no_guess() -> None:
    asked = pod(node_affinity=[node_term(expression(ARCH, "In", *(f"amd{n}6" for n in range(9))))])

    assert only_constraint(refusal(asked)).hint == ""


@pytest.mark.parametrize(
    ("values", "meant"),
    [(("c", "m"), INSTANCE_CATEGORY), (("m5",), INSTANCE_FAMILY), (("large",), INSTANCE_SIZE)],
)
def test_a_family_where_a_type_belongs_is_pointed_out(values: tuple[str, ...], meant: str) -> None:
    asked = pod(node_affinity=[node_term(expression(INSTANCE_TYPE, "In", *values))])

    found = only_constraint(refusal(asked))

    assert found.hint == f"no EC2 type is called {' or '.join(values)}; did you mean {meant}?"


def test_a_pool_that_names_families_where_types_belong_is_blamed_without_the_pod() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_TYPE, "In", "c", "g", "m")])

    found = only_constraint(refusal(pod(cpu="99"), pool))

    assert found.cause is Cause.POOL_REQUIREMENT
    assert found.hint == f"no EC2 type is called c, g or m; did you mean {INSTANCE_CATEGORY}?"


def test_a_pool_whose_requirements_exclude_each_other_is_blamed_with_the_fewest_of_them() -> None:
    pool = nodepool(
        requirements=[
            requirement(ARCH, "In", "arm64"),
            requirement(INSTANCE_FAMILY, "In", "m5", "c5"),
            requirement(CAPACITY_TYPE, "In", "spot"),
        ]
    )

    found = only_reason(refusal(pod(), pool))

    assert {each.subject for each in found.constraints} == {ARCH, INSTANCE_FAMILY}
    assert set(causes(found)) == {Cause.POOL_REQUIREMENT}


def test_a_mistyped_pool_is_pointed_out() -> None:
    rejection = refusal(pod(node_selector={NODEPOOL: "defualt"}), nodepool(), nodepool("other"))

    assert {reason.hint for reason in rejection.reasons} == {'did you mean "default"?'}


def test_a_node_by_name_can_only_be_a_standing_one() -> None:
    asked = pod(node_affinity=[node_term(name=("In", "node-1"))])

    found = only_constraint(refusal(asked))

    assert (found.subject, found.wanted) == ("metadata.name", "node-1")


def test_too_large_a_pod_is_shown_with_its_daemons_and_the_largest_type() -> None:
    found = only_constraint(refusal(pod(cpu="7900m"), daemons=(daemon(cpu="100m"),)))

    assert found == Constraint(Cause.RESOURCES, "cpu", "8", "7920m", (("daemons", "100m"),))


def test_daemons_alone_can_be_too_large() -> None:
    found = only_constraint(refusal(pod(), daemons=(daemon(requests={NVIDIA_GPU: "9"}),)))

    assert found == Constraint(Cause.RESOURCES, NVIDIA_GPU, "9", "1", (("daemons", "9"),))


def test_the_largest_type_is_that_of_the_pool() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_SIZE, "In", "large")])

    found = only_reason(refusal(pod(cpu="3"), pool))

    assert (found.wanted, found.offered) == ("3", "1920m")
    assert causes(found) == [Cause.RESOURCES, Cause.POOL_REQUIREMENT]


def test_a_resource_that_nobody_offers_is_offered_by_nobody() -> None:
    found = only_constraint(refusal(pod(requests={"example.com/fpga": "2"})))

    assert found == Constraint(Cause.RESOURCES, "example.com/fpga", "2", "")


def test_megacores_are_pointed_out() -> None:
    found = only_constraint(refusal(pod(cpu="100M")))

    assert found.hint == '"100M" is 100000000 cores, did you mean "100m"?'


def test_what_only_together_is_too_much_is_named_together() -> None:
    found = only_reason(refusal(pod(requests={NVIDIA_GPU: "1"}, node_selector={ARCH: "arm64"})))

    assert [(each.subject, each.wanted, each.offered) for each in found.constraints] == [
        (ARCH, "arm64", "is amd64"),
        (NVIDIA_GPU, "1", ""),
    ]


def test_three_constraints_that_only_together_are_too_much_are_all_named() -> None:
    types = (
        instance_type("a1.large", cpu=8, memory_gib=64, zones=(A,)),
        instance_type("b1.large", cpu=8, memory_gib=4, zones=(B,)),
        instance_type("c1.large", cpu=2, memory_gib=64, zones=(B,)),
    )

    found = only_reason(refusal(pod(cpu="4", memory="32Gi", node_selector={ZONE: B}), types=types))

    assert [each.subject for each in found.constraints] == [ZONE, "cpu", "memory"]


def test_the_zone_of_a_volume_is_shown_beside_the_zones_of_the_pool() -> None:
    pool = nodepool(requirements=[requirement(ZONE, "In", B, C)])

    found = only_reason(
        refusal(
            pod(claims=["data"]),
            pool,
            claims=(volume_claim("data", volume_name="v"),),
            volumes=(volume("v", zones=[A]),),
        )
    )

    assert found.constraints[0] == Constraint(Cause.VOLUME_REACH, ZONE, A, f"{B} or {C}")


def test_volumes_with_conditions_on_several_labels_are_shown_as_written() -> None:
    terms = [node_term(expression(ZONE, "In", A), expression(ARCH, "In", "riscv"))]

    found = only_constraint(
        refusal(
            pod(claims=["data"]),
            claims=(volume_claim("data", volume_name="v"),),
            volumes=(volume("v", terms=terms),),
        )
    )

    assert found.subject == f"{ARCH} or {ZONE}"


def test_a_volume_that_is_not_there_is_the_only_reason() -> None:
    found = only_reason(refusal(pod(claims=["data"]), nodepool(taints=[taint("a")])))

    assert (found.cause, found.pools) == (Cause.VOLUME, ())
    assert "does not exist" in found.wanted


def test_every_bad_volume_is_told() -> None:
    rejection = refusal(
        pod(claims=["one", "two"]),
        claims=(volume_claim("two", storage_class_name="slow"),),
        classes=(storage_class("fast"),),
    )

    assert [reason.subject for reason in rejection.reasons] == ["one", "two"]
    assert len(rejection.message) <= 200


def test_a_host_port_that_a_daemon_takes_is_named() -> None:
    found = only_constraint(refusal(pod(ports=[host_port(80)]), daemons=(daemon(ports=[host_port(80)]),)))

    assert found == Constraint(Cause.HOST_PORT, "*:80/TCP")


def test_what_is_sold_out_is_told_with_the_types() -> None:
    sold_out = [
        replace(kind, offerings=tuple(replace(each, available=False) for each in kind.offerings))
        for kind in small_catalogue()[:2]
    ]

    found = only_constraint(refusal(pod(), types=sold_out))

    assert found == Constraint(Cause.SOLD_OUT, wanted="c5.large or c5.xlarge")


def test_a_reservation_that_the_batch_has_used_up_is_sold_out() -> None:
    kind = instance_type("m5.large", offerings=[reserved(A, 1)])
    problem = Problem(pods=pods(2, cpu="1900m"), nodepools=(nodepool(),), types=(kind,))

    plan = solve(problem.snapshot(), problem.pods)

    assert len(plan.new_nodes) == 1
    assert only_constraint(plan.rejections[0]).cause is Cause.SOLD_OUT


def test_a_limit_is_shown_with_what_is_used_left_and_needed() -> None:
    standing = node("n", pool="default", allocatable={})

    small, limit = only_reason(
        refusal(pod(cpu="3"), nodepool(limits={"cpu": "5"}), nodes=(standing,))
    ).constraints

    assert (small.cause, small.subject, small.wanted, small.offered) == (Cause.RESOURCES, "cpu", "3", "1920m")
    assert (limit.cause, limit.subject) == (Cause.LIMIT, "cpu")
    assert dict(limit.facts) == {"limit": "5", "in use": "2", "left": "3", "needed": "4"}


def test_a_limit_that_the_batch_has_used_up_counts_the_batch() -> None:
    problem = Problem(
        pods=pods(2, cpu="1900m"), nodepools=(nodepool(limits={"nodes": "1"}),), types=small_catalogue()[:1]
    )

    plan = solve(problem.snapshot(), problem.pods)

    found = only_constraint(plan.rejections[0])
    assert dict(found.facts) == {"limit": "1", "in use": "1", "left": "0", "needed": "1"}
    assert found.fact("absent") == ""


def test_too_few_values_to_keep_open_are_counted() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_FAMILY, "In", "m5", "c5", min_values=3)])

    found = only_reason(refusal(pod(), pool))

    assert found.constraints[0] == Constraint(Cause.MIN_VALUES, INSTANCE_FAMILY, "3", "2")
    assert causes(found) == [Cause.MIN_VALUES, Cause.POOL_REQUIREMENT]


def test_values_are_kept_open_within_one_place() -> None:
    """Five families fit, but a pod that is spread over architectures is launched in one of them."""
    pool = nodepool(labels={"team": "a"}, requirements=[requirement(INSTANCE_FAMILY, "Exists", min_values=5)])
    asked = pod(
        labels={"app": "web"}, topology_spread=[spread({"app": "web"}, ARCH), spread({"app": "web"}, "team")]
    )

    found = only_constraint(refusal(asked, pool))

    assert found == Constraint(Cause.MIN_VALUES, INSTANCE_FAMILY, "5", "4")


def test_where_values_need_not_be_kept_open_they_are_no_obstacle() -> None:
    pool = nodepool(
        requirements=[requirement(INSTANCE_FAMILY, "In", "m5", "c5", min_values=3)], taints=[taint("a")]
    )

    found = only_constraint(refusal(pod(), pool, options=SolveOptions(min_values="BestEffort")))

    assert found.cause is Cause.TAINT


def test_a_spread_that_is_full_shows_the_counts() -> None:
    asked = pod(labels={"app": "web"}, topology_spread=[spread({"app": "web"})])
    pool = nodepool(requirements=[requirement(ZONE, "In", A)])

    found = only_reason(refusal(asked, pool, nodes=(holding("n1", A, "web"), holding("n2", B, "db"))))

    assert found.constraints[0] == Constraint(Cause.SPREAD, ZONE, "maxSkew 1", A, ((A, "1"), (B, "0")))


def test_a_spread_over_a_label_that_no_node_has_leaves_no_place() -> None:
    asked = pod(labels={"app": "web"}, topology_spread=[spread({"app": "web"}, "rack")])

    found = only_constraint(refusal(asked))

    assert found == Constraint(Cause.SPREAD, "rack", "maxSkew 1")


def test_a_spread_over_hosts_that_allows_none_is_named() -> None:
    asked = pod(labels={"app": "web"}, topology_spread=[spread({"app": "web"}, HOSTNAME, max_skew=0)])

    found = only_constraint(refusal(asked))

    assert found == Constraint(Cause.SPREAD, HOSTNAME, "maxSkew 0")


def test_nobody_to_stand_with_is_told() -> None:
    found = only_constraint(refusal(pod(affinity=[pod_term({"app": "db"})])))

    assert found == Constraint(Cause.AFFINITY, ZONE, "app=db")


def test_those_to_stand_with_may_be_where_the_pool_is_not() -> None:
    pool = nodepool(requirements=[requirement(ZONE, "In", C)])
    asked = pod(affinity=[pod_term({"app": "db"})])

    found = only_reason(refusal(asked, pool, nodes=(holding("n1", A, "db"), holding("n2", B, "db"))))

    assert found.constraints[0] == Constraint(
        Cause.AFFINITY, ZONE, "app=db", f"{A} or {B}", ((A, "1"), (B, "1"))
    )


def test_those_to_stand_with_may_be_nowhere_as_the_key_has_it() -> None:
    asked = pod(affinity=[pod_term({"app": "db"}, "rack")])

    rejection = refusal(asked, nodes=(holding("n1", A, "db"),))

    assert only_constraint(rejection) == Constraint(
        Cause.AFFINITY, "rack", "app=db", facts=(("elsewhere", "1"),)
    )
    assert (
        rejection.message
        == "NodePool default: pods that match app=db are only on nodes without the label rack"
    )


def test_those_to_share_a_host_with_are_counted() -> None:
    asked = pod(affinity=[pod_term({"app": "db"}, HOSTNAME)])

    found = only_constraint(refusal(asked, nodes=(holding("n1", A, "db"), holding("n2", B, "db"))))

    assert found == Constraint(Cause.AFFINITY, HOSTNAME, "app=db", "2 nodes")


def test_nobody_to_share_a_host_with_is_told() -> None:
    found = only_constraint(refusal(pod(affinity=[pod_term({"app": "db"}, HOSTNAME)])))

    assert found == Constraint(Cause.AFFINITY, HOSTNAME, "app=db")


def test_places_taken_by_those_to_stand_apart_from_are_listed() -> None:
    asked = pod(anti_affinity=[pod_term({"app": "db"})])
    nodes = tuple(holding(f"n{zone}", zone, "db") for zone in ZONES)

    found = only_constraint(refusal(asked, nodes=nodes))

    assert (found.cause, found.wanted, found.offered) == (
        Cause.ANTI_AFFINITY,
        "app=db",
        f"{A}, {B} or {C}",
    )


def test_places_taken_by_those_that_keep_away_from_the_pod_are_listed() -> None:
    asked = pod(labels={"app": "web"})
    nodes = tuple(holding(f"n{zone}", zone, "db", anti_affinity=[pod_term({"app": "web"})]) for zone in ZONES)

    found = only_constraint(refusal(asked, nodes=nodes))

    assert found == Constraint(Cause.ANTI_AFFINITY, ZONE, offered=f"{A}, {B} or {C}")


def test_a_label_of_the_pool_can_be_the_place() -> None:
    pool = nodepool(labels={"rack": "r1"})
    asked = pod(affinity=[pod_term({"app": "db"}, "rack")])
    standing = replace(holding("n1", A, "db"), labels={"rack": "r2", HOSTNAME: "n1"})

    found = only_constraint(refusal(asked, pool, nodes=(standing,)))

    assert (found.subject, found.offered) == ("rack", "r2")


def test_a_selector_of_nothing_and_one_that_is_no_plain_pair_are_shown_as_written() -> None:
    nobody = replace_fields(pod_term({}), label_selector=None)
    others = pod_term(selector({"tier": "y"}, ("app", "NotIn", ("web",))))

    of_nobody = only_constraint(refusal(pod(affinity=[nobody])))
    of_others = only_constraint(refusal(pod(affinity=[others])))

    assert of_nobody.wanted == "nothing"
    assert of_others.wanted == "app NotIn [web], tier=y"


def test_without_pools_that_is_the_reason() -> None:
    plan = solve(Problem(pods=(pod(),)).snapshot(), [pod()])

    assert only_constraint(plan.rejections[0]) == Constraint(Cause.NO_POOLS)


def test_a_pool_without_any_type_is_told_so() -> None:
    assert only_constraint(refusal(pod(), types=())) == Constraint(Cause.NO_TYPES)


def test_a_quantity_that_cannot_be_read_is_quoted() -> None:
    found = only_constraint(refusal(pod(cpu="lots")))

    assert found.cause is Cause.UNREADABLE
    assert '"lots" is not a quantity' in found.wanted
    assert found.hint


def test_equal_reasons_of_pools_are_one() -> None:
    pools = [nodepool(name, taints=[taint("team", "a")]) for name in ("one", "two")]

    found = only_reason(refusal(pod(), *pools))

    assert found.pools == ("two", "one")


def test_the_nearest_pools_come_first() -> None:
    rejection = refusal(
        pod(cpu="1"),
        nodepool("far", taints=[taint("b"), taint("c")]),
        nodepool("near", taints=[taint("a")]),
        nodepool("nearest", limits={"cpu": "1"}),
    )

    assert [(reason.pools, reason.misses) for reason in rejection.reasons] == [
        (("nearest",), 1),
        (("near",), 1),
        (("far",), 2),
    ]


def test_a_pod_that_fits_is_not_explained() -> None:
    assert plan_of(pod()).rejections == ()
