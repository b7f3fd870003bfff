# SPDX-License-Identifier: Apache-2.0
"""What would place a pod: every fix that is offered is carried out here, and must work."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_fields

from karpenter.api.core import Pod, ResourceRequirements
from karpenter.api.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_GPU_NAME,
    INSTANCE_TYPE,
    NODEPOOL,
    NVIDIA_GPU,
    POD_ENI,
    ZONE,
)
from karpenter.scheduling import solve
from karpenter.scheduling.explanation import apply, describe_fix
from karpenter.scheduling.reasons import Change, ChangeKind, Fix
from tests.strategies.clusters import node, nodepool, volume, volume_claim
from tests.strategies.expressions import (
    expression,
    node_term,
    pod_term,
    requirement,
    spread,
    taint,
    toleration,
)
from tests.strategies.machines import ZONES, instance_type, reserved, small_catalogue
from tests.strategies.pods import container, daemon, host_port, pod, pods
from tests.strategies.problems import Problem
from tests.unit.scheduling.refusals import holding, refusal, words_of_working_fixes

A, B, C = ZONES


def test_a_taint_is_to_be_tolerated() -> None:
    fixes = words_of_working_fixes(
        pod(tolerations=[toleration("other", "x")]), nodepool(taints=[taint("team", "a")])
    )

    assert fixes == ["let the pod tolerate team=a:NoSchedule"]


def test_two_taints_are_to_be_tolerated_together() -> None:
    fixes = words_of_working_fixes(pod(), nodepool(taints=[taint("team", "a"), taint("gpu")]))

    assert fixes == ["let the pod tolerate gpu:NoSchedule and let the pod tolerate team=a:NoSchedule"]


def test_a_change_is_a_value_with_the_field_and_both_sides() -> None:
    (fix,) = refusal(pod(cpu="9")).explanation.fixes

    (change,) = fix.changes
    assert (change.kind, change.object, change.before, change.after) == (
        ChangeKind.LOWER_REQUEST,
        "Pod",
        "9",
        "7920m",
    )
    assert change.field == "spec.containers[0].resources.requests.cpu"


def test_a_mistyped_label_is_to_be_renamed_first() -> None:
    fixes = words_of_working_fixes(pod(node_selector={"zone": A}))

    assert fixes == [f"write {ZONE}={A} instead of zone={A} in the pod", f"drop zone={A} from the pod"]


def test_a_mistyped_label_of_node_affinity_is_to_be_renamed_there() -> None:
    asked = pod(
        node_affinity=[node_term(expression("zone", "In", A, B)), node_term(expression("zone", "In", C))]
    )

    fixes = words_of_working_fixes(asked)

    assert (
        fixes[0]
        == f"write {ZONE} In [{A}, {B}], {ZONE} In [{C}] instead of zone In [{A}, {B}], zone In [{C}] in the pod"
    )


def test_a_mistyped_label_of_a_pod_that_is_spread_is_found_too() -> None:
    asked = pod(node_selector={"zone": A}, labels={"app": "web"}, topology_spread=[spread({"app": "web"})])

    fixes = words_of_working_fixes(asked, nodes=(holding("n1", A, "db"), holding("n2", B, "web")))

    assert fixes[0] == f"write {ZONE}={A} instead of zone={A} in the pod"


def test_a_mistyped_value_is_to_be_corrected_first() -> None:
    fixes = words_of_working_fixes(pod(node_selector={ARCH: "amd46"}))

    assert fixes[0] == f"write {ARCH}=amd64 instead of {ARCH}=amd46 in the pod"


def test_a_mistyped_pool_is_to_be_corrected_whichever_pool_is_near() -> None:
    pools = [nodepool(f"pool-{number}") for number in range(20)]

    fixes = words_of_working_fixes(pod(node_selector={NODEPOOL: "genral"}), *pools, nodepool("general"))

    assert fixes[0] == f"write {NODEPOOL}=general instead of {NODEPOOL}=genral in the pod"


def test_a_family_where_a_type_belongs_is_to_be_put_where_it_belongs() -> None:
    fixes = words_of_working_fixes(pod(node_selector={INSTANCE_TYPE: "m"}))

    assert fixes[0] == f"write {INSTANCE_CATEGORY}=m instead of {INSTANCE_TYPE}=m in the pod"


def test_the_same_in_a_pool_is_to_be_corrected_in_the_pool() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_TYPE, "In", "c", "m")])

    fixes = words_of_working_fixes(pod(), pool)

    assert fixes[0] == (
        f"write {INSTANCE_CATEGORY} In [c, m] instead of {INSTANCE_TYPE} In [c, m] in NodePool default"
    )


def test_a_mistyped_value_in_a_pool_is_to_be_corrected_in_the_pool() -> None:
    pool = nodepool(requirements=[requirement(ARCH, "In", "amd46")])

    fixes = words_of_working_fixes(pod(), pool)

    assert fixes[0] == f"write {ARCH} In [amd64] instead of {ARCH} In [amd46] in NodePool default"


def test_megacores_are_to_be_millicores() -> None:
    fixes = words_of_working_fixes(pod(cpu="100M"))

    assert fixes[0] == 'write cpu "100m" instead of "100M"'


def test_megacores_are_found_in_every_container() -> None:
    asked = pod(
        cpu="100M", init_containers=[container("init", {"cpu": "200M"}), container("late", {"cpu": "1"})]
    )

    fixes = words_of_working_fixes(asked)

    assert fixes == ['write cpu "100m" instead of "100M" and write cpu "200m" instead of "200M"']


def test_a_limit_is_to_be_raised_to_whole_cores() -> None:
    standing = node("n", instance_type("m5.large", cpu=2), pool="default", allocatable={})

    fixes = words_of_working_fixes(pod(cpu="3"), nodepool(limits={"cpu": "5500m"}), nodes=(standing,))

    assert fixes[0] == "raise limits.cpu of NodePool default to 6"


def test_two_limits_are_to_be_raised_together() -> None:
    fixes = words_of_working_fixes(pod(), nodepool(limits={"memory": "1Gi", "nodes": "0"}))

    assert fixes == [
        "raise limits.memory of NodePool default to 8Gi and raise limits.nodes of NodePool default to 1"
    ]


def test_raising_a_limit_comes_before_tolerating_the_taints_of_others() -> None:
    teams = [nodepool(f"team-{number}", taints=[taint("team", str(number))]) for number in range(17)]

    fixes = words_of_working_fixes(pod(cpu="1"), *teams, nodepool("general", limits={"cpu": "1"}))

    assert fixes[0] == "raise limits.cpu of NodePool general to 2"
    assert len(fixes) == 2


@pytest.mark.parametrize(
    ("asked", "pools_own", "change"),
    [
        (pod(node_selector={ARCH: "arm64"}), (ARCH, "In", "amd64"), f"{ARCH} In [amd64, arm64]"),
        (pod(node_selector={ARCH: "arm64"}), (ARCH, "NotIn", "arm64"), f"{ARCH} anything"),
        (pod(cpu="3"), (INSTANCE_CPU, "Lt", "4"), f"{INSTANCE_CPU} <= 4"),
        (pod(node_selector={INSTANCE_TYPE: "c5.large"}), (INSTANCE_CPU, "Gt", "2"), f"{INSTANCE_CPU} >= 2"),
        (
            pod(requests={NVIDIA_GPU: "1"}),
            (INSTANCE_GPU_NAME, "DoesNotExist"),
            f"{INSTANCE_GPU_NAME} In [t4]",
        ),
    ],
)
def test_a_requirement_of_the_pool_is_to_be_widened(
    asked: Pod, pools_own: tuple[str, ...], change: str
) -> None:
    fixes = words_of_working_fixes(asked, nodepool(requirements=[requirement(*pools_own)]))

    assert fixes[0].startswith(f"allow {change} in NodePool default (")


def test_a_label_that_the_offering_lacks_is_no_longer_to_be_asked_for() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_GPU_NAME, "Exists")])

    fixes = words_of_working_fixes(pod(node_selector={ARCH: "arm64"}), pool)

    assert f"drop {INSTANCE_GPU_NAME} Exists from NodePool default (m6g.large is the cheapest)" in fixes


def test_a_bound_on_words_is_no_longer_to_be_asked_for() -> None:
    odd = instance_type("odd.large", labels={INSTANCE_GENERATION: "old", "color": "blue"})
    pool = nodepool(requirements=[requirement(INSTANCE_GENERATION, "Gt", "4")])

    fixes = words_of_working_fixes(
        pod(node_selector={"color": "blue"}), pool, types=(odd, *small_catalogue())
    )

    assert f"drop {INSTANCE_GENERATION} >= 5 from NodePool default (odd.large is the cheapest)" in fixes


def test_fewer_values_are_to_be_kept_open() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_FAMILY, "Exists", min_values=9)])

    fixes = words_of_working_fixes(pod(), pool)

    assert fixes == [f"lower minValues of {INSTANCE_FAMILY} in NodePool default to 5"]


def test_no_values_are_to_be_kept_open_of_a_label_that_nothing_has() -> None:
    pool = nodepool(requirements=[requirement("rack", "NotIn", "r1", min_values=2)])

    fixes = words_of_working_fixes(pod(), pool)

    assert fixes == ["lower minValues of rack in NodePool default to 0"]


def test_the_largest_request_is_to_be_lowered_by_what_is_too_much() -> None:
    asked = pod(cpu="6", memory="9Gi", init_containers=[container("side", {"cpu": "4"}, sidecar=True)])

    fixes = words_of_working_fixes(asked, daemons=(daemon(cpu="100m"),))

    assert fixes == ["lower the pod's cpu request from 6 to 3820m"]


def test_memory_is_to_be_lowered_to_whole_mebibytes() -> None:
    fixes = words_of_working_fixes(pod(memory="900Gi"), daemons=(daemon(memory="1000k"),))

    assert fixes == ["lower the pod's memory request from 900Gi to 62258Mi"]


def test_the_request_of_the_whole_pod_is_what_counts() -> None:
    asked = pod(cpu="1")
    spec = replace_fields(asked.spec, resources=ResourceRequirements(requests={"cpu": "9"}))

    fixes = words_of_working_fixes(replace_fields(asked, spec=spec))

    assert fixes == ["lower the pod's cpu request from 9 to 7920m"]


def test_overhead_that_is_too_much_cannot_be_lowered() -> None:
    assert words_of_working_fixes(pod(cpu="1", overhead={"cpu": "9"})) == []


def test_requests_that_nobody_states_cannot_be_lowered() -> None:
    full = instance_type("m5.large", pods=0)

    assert words_of_working_fixes(pod(), types=(full,)) == []


def test_a_resource_that_nobody_has_is_to_be_dropped_from_requests_and_limits() -> None:
    asked = pod()
    gone = {"example.com/fpga": "1"}
    spec = replace_fields(
        asked.spec,
        containers=(
            replace_fields(
                asked.spec.containers[0], resources=ResourceRequirements(requests=gone, limits=gone)
            ),
        ),
    )

    fixes = words_of_working_fixes(replace_fields(asked, spec=spec))

    assert fixes == ["drop example.com/fpga from what the pod asks for"]


def test_a_security_group_is_named_as_the_origin_of_its_resource() -> None:
    fixes = words_of_working_fixes(pod(requests={POD_ENI: "1"}))

    assert fixes == [f"drop {POD_ENI} from what the pod asks for (a SecurityGroupPolicy asks for it)"]


def test_a_host_port_that_a_daemon_takes_is_to_be_dropped_and_others_stay() -> None:
    asked = pod(ports=[host_port(80), host_port(81), host_port(0)])

    fixes = words_of_working_fixes(asked, daemons=(daemon(ports=[host_port(80)]),))

    assert fixes == ["drop host port 80 from the pod"]


def test_ports_of_the_hosts_network_cannot_be_dropped() -> None:
    asked = pod(ports=[replace_fields(host_port(80), host_port=0)], host_network=True)

    assert words_of_working_fixes(asked, daemons=(daemon(ports=[host_port(80)]),)) == []


def test_only_daemons_that_run_where_the_pod_could_take_its_ports() -> None:
    agents = (
        daemon("amd", ports=[host_port(80)], node_selector={ARCH: "amd64"}),
        daemon("arm", ports=[host_port(81)], node_selector={ARCH: "arm64"}),
    )
    asked = pod(ports=[host_port(80), host_port(81)], node_selector={ARCH: "amd64"})

    fixes = words_of_working_fixes(asked, daemons=agents)

    assert fixes[0] == "drop host port 80 from the pod"


def test_a_spread_is_to_be_allowed_the_skew_it_needs() -> None:
    asked = pod(
        labels={"app": "web"},
        topology_spread=[spread({"app": "x"}, soft=True), spread({"app": "web"})],
    )
    pool = nodepool(requirements=[requirement(ZONE, "In", A)])
    nodes = (holding("n1", A, "web"), holding("n2", A, "web"), holding("n3", B, "db"))

    fixes = words_of_working_fixes(asked, pool, nodes=nodes)

    assert "raise spec.topologySpreadConstraints[1].maxSkew of the pod to 3" in fixes


def test_a_spread_over_a_label_that_no_node_has_is_to_be_a_wish() -> None:
    asked = pod(labels={"app": "web"}, topology_spread=[spread({"app": "web"}, "rack")])

    fixes = words_of_working_fixes(asked)

    assert fixes == ["set spec.topologySpreadConstraints[0].whenUnsatisfiable of the pod to ScheduleAnyway"]


def test_a_spread_over_hosts_that_allows_none_is_to_allow_one() -> None:
    asked = pod(labels={"app": "web"}, topology_spread=[spread({"app": "web"}, HOSTNAME, max_skew=0)])

    assert words_of_working_fixes(asked) == [
        "raise spec.topologySpreadConstraints[0].maxSkew of the pod to 1"
    ]


@pytest.mark.parametrize("key", [ZONE, HOSTNAME])
def test_affinity_to_nobody_is_to_be_a_wish(key: str) -> None:
    fixes = words_of_working_fixes(pod(affinity=[pod_term({"app": "db"}, key)]))

    assert fixes == [f"make the pod's podAffinity a preference (app=db by {key})"]


def test_two_affinities_to_nobody_are_to_be_wishes() -> None:
    asked = pod(affinity=[pod_term({"app": "db"}), pod_term({"app": "web"}, HOSTNAME)])

    fixes = words_of_working_fixes(asked)

    assert fixes == [f"make the pod's podAffinity a preference (app=db by {ZONE}, app=web by {HOSTNAME})"]


def test_two_spreads_over_labels_that_no_node_has_are_to_be_wishes() -> None:
    asked = pod(labels={"a": "b"}, topology_spread=[spread({"a": "b"}, "rack"), spread({"a": "b"}, "row")])

    (fix,) = words_of_working_fixes(asked)

    assert "topologySpreadConstraints[0]" in fix
    assert "topologySpreadConstraints[1]" in fix


def test_anti_affinity_that_leaves_no_zone_is_to_be_a_wish() -> None:
    nodes = tuple(holding(f"n{zone}", zone, "db") for zone in ZONES)

    fixes = words_of_working_fixes(pod(anti_affinity=[pod_term({"app": "db"})]), nodes=nodes)

    assert fixes == [f"make the pod's podAntiAffinity a preference (app=db by {ZONE})"]


def test_for_the_anti_affinity_of_others_there_is_no_fix() -> None:
    nodes = tuple(holding(f"n{zone}", zone, "db", anti_affinity=[pod_term({"app": "web"})]) for zone in ZONES)

    assert words_of_working_fixes(pod(labels={"app": "web"}), nodes=nodes) == []


def test_for_what_is_sold_out_there_is_no_fix() -> None:
    kind = small_catalogue()[0]
    gone = replace(kind, offerings=tuple(replace(each, available=False) for each in kind.offerings))

    assert words_of_working_fixes(pod(), types=(gone,)) == []


def test_the_zone_of_a_volume_is_to_be_allowed_in_the_pool() -> None:
    fixes = words_of_working_fixes(
        pod(claims=["data"]),
        nodepool(requirements=[requirement(ZONE, "In", B)]),
        claims=(volume_claim("data", volume_name="v"),),
        volumes=(volume("v", zones=[A]),),
    )

    assert fixes == [f"allow {ZONE} In [{A}, {B}] in NodePool default (m6g.large is the cheapest)"]


def test_one_of_the_conditions_that_contradict_each_other_is_to_go() -> None:
    asked = pod(
        node_selector={ZONE: A, ARCH: "amd64"},
        node_affinity=[node_term(expression(ZONE, "In", B), expression(CAPACITY_TYPE, "In", "spot"))],
    )

    assert words_of_working_fixes(asked) == [f"drop {ZONE}={A} from the pod"]


def test_of_conditions_in_one_term_one_is_to_go() -> None:
    asked = pod(
        node_affinity=[
            node_term(expression(ZONE, "In", "mars"), expression(ZONE, "In", B), expression(ZONE, "Exists"))
        ]
    )

    assert words_of_working_fixes(asked) == [f"drop {ZONE} In [mars] from the pod"]


def test_a_node_by_name_is_no_longer_to_be_asked_for() -> None:
    asked = pod(node_affinity=[node_term(expression(ARCH, "In", "amd64"), name=("In", "gone"))])

    assert words_of_working_fixes(asked) == ["drop metadata.name In [gone] from the pod"]


def test_everything_that_the_nearest_offering_fails_is_to_be_changed() -> None:
    pool = nodepool(taints=[taint("team", "a")], requirements=[requirement(ARCH, "In", "s390x")])

    fixes = words_of_working_fixes(pod(), pool)

    tolerate = "let the pod tolerate team=a:NoSchedule"
    allow = f"allow {ARCH} In [arm64, s390x] in NodePool default (m6g.large is the cheapest)"
    assert fixes == [f"{tolerate} and {allow}"]


def test_a_fix_counts_what_the_batch_has_used() -> None:
    kinds = (
        instance_type("m5.large", offerings=[reserved(A, 1)]),
        instance_type("m5.xlarge", cpu=4, capacity_types=("on-demand",)),
    )
    problem = Problem(
        pods=pods(3, cpu="1900m", labels={"app": "web"}, anti_affinity=[pod_term({"app": "web"}, HOSTNAME)]),
        nodepools=(nodepool(limits={"cpu": "6"}),),
        types=kinds,
    )
    snapshot = problem.snapshot()

    (rejection,) = solve(snapshot, problem.pods).rejections

    words = [describe_fix(fix) for fix in rejection.explanation.fixes]
    assert words[0] == "raise limits.cpu of NodePool default to 10"


def test_a_fix_for_a_pool_that_is_not_there_changes_nothing() -> None:
    snapshot = Problem(nodepools=(nodepool(),)).snapshot()
    change = Change(ChangeKind.RAISE_LIMIT, "NodePool gone", ("spec", "limits", "cpu"), value="1")

    assert apply(snapshot, pod(), Fix((change,))) == (snapshot, pod())
