# SPDX-License-Identifier: Apache-2.0
"""Corners of explanations: boards in odd states, pools of several kinds of nodes, guesses that are not made."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from karpenter.api.core import Pod
from karpenter.api.labels import ARCH, HOSTNAME, INSTANCE_FAMILY, INSTANCE_TYPE, NVIDIA_GPU, ZONE
from karpenter.model.snapshot import Snapshot
from karpenter.model.topology import AffinityRule, SpreadRule, topology_rules
from karpenter.scheduling import Cause, solve
from karpenter.scheduling.board import Board
from karpenter.scheduling.classes import fold, profiles_of, read
from karpenter.scheduling.explanation import Explainer, tree
from karpenter.scheduling.explanation.aftermath import Aftermath
from karpenter.scheduling.groups import GroupTable
from karpenter.scheduling.reasons import Constraint, Explanation
from karpenter.scheduling.sequential import place_one_by_one
from karpenter.scheduling.stances import Stance, Stances
from karpenter.scheduling.templates import templates_of
from tests.strategies.clusters import node, nodepool
from tests.strategies.expressions import expression, node_term, pod_term, requirement, spread, taint
from tests.strategies.machines import ZONES, instance_type, reserved, small_catalogue
from tests.strategies.pods import daemon, pod, pods
from tests.strategies.problems import Problem
from tests.unit.scheduling.refusals import causes, holding, only_constraint, only_reason, refusal

A, B, C = ZONES


def always_works(_snapshot: Snapshot, _pod: Pod) -> bool:
    return True


def question(asked: Iterable[Pod], **cluster: Any) -> tuple[Board, list[Stance]]:
    """Give a board on which nothing was placed yet, and the classes that wait."""
    cluster.setdefault("nodepools", (nodepool(),))
    snapshot = Problem(types=small_catalogue(), **cluster).snapshot()
    compiled = read(asked, snapshot.storage).compiled
    table = GroupTable(snapshot.namespaces)
    for each in compiled:
        rules: tuple[SpreadRule | AffinityRule, ...] = (*each.topology.spreads, *each.topology.affinities)
        for rule in rules:
            table.number_of_rule(rule, each)
    for standing in snapshot.nodes:
        for held in standing.pods:
            for affinity in topology_rules(held).affinities:
                table.number(affinity.group)
    resources = ("cpu", "memory", "pods")
    templates = templates_of(snapshot.pools, (), (), resources)
    board = Board(snapshot, table, templates, (), resources)
    stances = []
    for each in fold(compiled, table.counting):
        profiles = profiles_of(each, respect_preferences=False, taint_wishes=False)
        stances.append(Stances(table, resources).take(each, 0, profiles))
    return board, stances


def explained(asked: Pod, **cluster: Any) -> Explanation:
    board, (stance,) = question([asked], **cluster)
    return Explainer(board, always_works).explain(stance)


def test_a_pod_that_was_never_tried_is_told_that_a_place_is_open() -> None:
    explanation = explained(pod(), nodes=(node(),))

    assert explanation.reasons[0].constraints == (Constraint(Cause.UNDECIDED),)
    assert explanation.standing.obstacles == ((Constraint(Cause.UNDECIDED), 1),)
    assert explanation.nearest is None


def test_a_pod_to_which_a_place_is_open_needs_no_fix() -> None:
    explanation = explained(pod(), nodepools=(nodepool(), nodepool("tainted", taints=[taint("a")])))

    assert [reason.cause for reason in explanation.reasons] == [Cause.UNDECIDED, Cause.TAINT]
    assert explanation.fixes == ()


def test_a_pod_with_rules_that_hold_is_told_that_a_place_is_open() -> None:
    asked = pod(
        labels={"app": "web"},
        affinity=[pod_term({"app": "web"}, HOSTNAME), pod_term({"app": "web"})],
        topology_spread=[spread({"app": "web"}, max_skew=2)],
        anti_affinity=[pod_term({"app": "db"}, "rack")],
    )
    there = node("n1", pods=[pod("other", labels={"app": "web"}, cpu="1m")])

    explanation = explained(asked, nodes=(there,))

    assert explanation.standing.obstacles == ((Constraint(Cause.UNDECIDED), 1),)


def test_what_the_board_has_opened_but_not_filled_is_no_node() -> None:
    board, (stance,) = question([pod(anti_affinity=[pod_term({"app": "db"})])])
    board.open(board.templates[0])

    assert Aftermath(board).around(stance).nodes == ()


def test_the_aftermath_holds_only_the_pods_that_rules_look_at_and_no_room() -> None:
    asked = pod(labels={"app": "web"}, anti_affinity=[pod_term({"app": "db"})])
    held = [
        pod("counted", labels={"app": "db"}),
        pod("keeps-away", anti_affinity=[pod_term({"app": "web"}, HOSTNAME)]),
        pod("keeps-away-from-others", anti_affinity=[pod_term({"app": "other"}, HOSTNAME)]),
        pod("indifferent"),
    ]
    board, (stance,) = question([asked], nodes=(node("n1", pods=held),))

    (there,) = Aftermath(board).around(stance).nodes

    assert [each.metadata.name for each in there.pods] == ["counted", "keeps-away"]
    assert dict(there.allocatable) == {}


def test_the_aftermath_knows_the_nodes_that_the_batch_has_bought() -> None:
    keeps_away = pod("first", cpu="2", anti_affinity=[pod_term({"app": "web"})], node_selector={ZONE: A})
    board, (first, second) = question(
        [keeps_away, pod("second", labels={"app": "web"}, node_selector={ZONE: B})]
    )
    assert place_one_by_one(board, first, 1) == place_one_by_one(board, second, 1) == 0

    nodes = Aftermath(board).around(second).nodes

    assert {each.labels[ZONE]: [held.metadata.name for held in each.pods] for each in nodes} == {
        A: ["first"],
        B: [],
    }


def test_reservations_that_pools_share_are_drawn_for_all_of_them() -> None:
    kind = instance_type("m5.large", offerings=[reserved(A, 1)])
    problem = Problem(pods=pods(2, cpu="1900m"), nodepools=(nodepool("a"), nodepool("b")), types=(kind,))

    (rejection,) = solve(problem.snapshot(), problem.pods).rejections

    assert only_constraint(rejection).cause is Cause.SOLD_OUT
    assert rejection.explanation.fixes == ()


def test_a_reservation_with_room_is_for_sale() -> None:
    kind = instance_type("m5.large", offerings=[reserved(A, 1)])

    assert only_constraint(refusal(pod(cpu="9"), types=(kind,))).cause is Cause.RESOURCES


def test_a_reservation_counts_alone_for_the_values_to_keep_open() -> None:
    types = (
        instance_type("m5.large", offerings=[reserved(A, 1)]),
        instance_type("c5.large", capacity_types=("on-demand",)),
    )
    pool = nodepool(requirements=[requirement(INSTANCE_FAMILY, "Exists", min_values=2)])

    found = only_constraint(refusal(pod(), pool, types=types))

    assert (found.wanted, found.offered) == ("2", "1")


def test_the_daemons_of_the_larger_kind_of_node_are_told() -> None:
    """The pool makes nodes of two teams, and only one of them runs the agent; neither is large enough for arm64."""
    pool = nodepool(requirements=[requirement("team", "In", "a", "b")])
    agent = daemon(cpu="500m", node_selector={"team": "b"})

    arch, cpu = only_reason(
        refusal(pod(cpu="7600m", node_selector={ARCH: "arm64"}), pool, daemons=(agent,))
    ).constraints

    assert arch.subject == ARCH
    assert (cpu.wanted, cpu.offered, cpu.facts) == ("7600m", "3920m", ())


def test_beside_values_to_keep_open_the_requirements_of_the_pool_stay() -> None:
    """A wider pool would choose a smaller, cheaper type and keep fewer values open: that would not be the reason."""
    types = (
        instance_type("t3.nano", cpu=1, memory_gib=4, price=0.01, zones=(A, B)),
        instance_type("m5.large", cpu=4, price=0.1, zones=(A, B)),
        instance_type("c5.large", cpu=4, price=0.1, zones=(A,)),
    )
    pool = nodepool(
        requirements=[requirement(INSTANCE_TYPE, "In", "m5.large", "c5.large", min_values=2)],
        limits={"cpu": "99"},
    )

    found = only_reason(refusal(pod(cpu="500m", node_selector={ZONE: B}), pool, types=types))

    assert causes(found) == [Cause.REQUIREMENT, Cause.MIN_VALUES, Cause.POOL_REQUIREMENT]


def test_a_mistyped_type_is_corrected() -> None:
    found = only_constraint(refusal(pod(node_selector={INSTANCE_TYPE: "m5.lrge"})))

    assert found.hint == 'did you mean "m5.large"?'


def test_the_nearest_type_is_shown_with_how_much_it_has() -> None:
    told = tree(refusal(pod(cpu="9")).explanation, "a/b")

    assert f"  nearest: c5.2xlarge in {A} of NodePool default fits memory, but has 7920m of cpu 9\n" in told


def test_the_nearest_type_may_be_sold_out() -> None:
    kind = small_catalogue()[0]
    gone = replace(kind, offerings=tuple(replace(each, available=False) for each in kind.offerings))

    told = tree(refusal(pod(), types=(gone,)).explanation, "a/b")

    assert f"  nearest: c5.large in {A} of NodePool default fits cpu and memory, but is sold out\n" in told


def test_a_nearest_type_that_fits_nothing_says_so() -> None:
    told = tree(refusal(pod(cpu=None, memory=None, requests={NVIDIA_GPU: "9"})).explanation, "a/b")

    assert f"g4dn.xlarge in {A} of NodePool default fits nothing, but has 1 of nvidia.com/gpu 9" in told


def test_an_empty_term_beside_a_contradiction_does_not_hide_it() -> None:
    asked = pod(node_selector={ZONE: A}, node_affinity=[node_term(), node_term(expression(ZONE, "In", B))])

    assert [each.wanted for each in only_reason(refusal(asked)).constraints] == [f"In [{A}]", f"In [{B}]"]


def test_the_fourth_of_pods_that_keep_apart_over_three_zones_cannot_help_itself() -> None:
    """It could give up its own rule, but the other three would still keep away from it."""
    alike = pods(4, cpu="1", labels={"app": "web"}, anti_affinity=[pod_term({"app": "web"})])
    problem = Problem(pods=alike, nodepools=(nodepool(),), types=small_catalogue())

    (rejection,) = solve(problem.snapshot(), problem.pods).rejections

    assert only_constraint(rejection).cause is Cause.ANTI_AFFINITY
    assert rejection.explanation.fixes == ()


def test_a_taint_beside_rules_about_other_pods_is_told_first() -> None:
    rejection = refusal(
        pod(affinity=[pod_term({"app": "db"})]),
        nodepool(taints=[taint("a")]),
        nodes=(holding("n1", A, "web"),),
    )

    assert only_constraint(rejection).cause is Cause.TAINT
    assert rejection.reasons[0].misses == 2
