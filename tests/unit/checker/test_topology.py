# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.core import Pod
from karpenter.api.labels import ARCH, CAPACITY_TYPE, HOSTNAME, ZONE
from tests.strategies import (
    ZONES,
    expression,
    namespaces,
    node,
    node_term,
    nodepool,
    pod,
    pod_term,
    requirement,
    selector,
    spread,
    taint,
    toleration,
)
from tests.strategies.problems import Problem
from tests.unit.checker.handmade import buy, judge, plan_of, problem_of

A, B, C = ZONES
WEB = {"app": "web"}


def web(name: str, **options: Any) -> Pod:
    return pod(name, **{"cpu": "100m", "labels": WEB, **options})


def spread_over(problem: Problem, **by_zone: tuple[Pod, ...]) -> list[str]:
    """Judge a plan with one new node for each zone, by its letter."""
    zones = {"a": A, "b": B, "c": C}
    return judge(
        problem, plan_of(*(buy(problem, *placed, zone=zones[key]) for key, placed in by_zone.items()))
    )


# Anti-affinity.


@pytest.mark.parametrize(("key", "same_zone_is_fine"), [(ZONE, False), (HOSTNAME, True), (ARCH, False)])
def test_anti_affinity_keeps_pods_in_different_places(key: str, same_zone_is_fine: bool) -> None:  # noqa: FBT001
    one, two = (web(name, anti_affinity=[pod_term(WEB, key)]) for name in ("one", "two"))
    problem = problem_of(one, two)

    together = judge(problem, plan_of(buy(problem, one, two)))
    same_zone = judge(problem, plan_of(buy(problem, one), buy(problem, two)))

    assert len(together) == 2
    assert "has anti-affinity by" in together[0]
    assert (same_zone == []) is same_zone_is_fine


def test_anti_affinity_binds_those_it_names_too() -> None:
    owner = pod("owner", cpu="100m", anti_affinity=[pod_term(WEB)])
    other = web("other")
    problem = problem_of(owner, other)

    assert spread_over(problem, a=(owner,), b=(other,)) == []
    assert len(spread_over(problem, a=(owner, other))) == 1


def test_anti_affinity_of_bound_pods_holds() -> None:
    owner = pod("owner", cpu="100m", node_name="n", anti_affinity=[pod_term(WEB)])
    other = web("other")
    problem = problem_of(other, nodes=(node("n", pods=[owner], zone=A),))

    assert spread_over(problem, b=(other,)) == []
    assert "pod default/owner has anti-affinity by" in spread_over(problem, a=(other,))[0]


def test_anti_affinity_to_bound_pods_holds() -> None:
    owner = pod("owner", cpu="100m", anti_affinity=[pod_term(WEB)])
    problem = problem_of(owner, nodes=(node("n", pods=[web("bound", node_name="n")], zone=A),))

    assert spread_over(problem, b=(owner,)) == []
    assert spread_over(problem, a=(owner,)) != []


def test_bound_pods_that_break_their_own_rules_are_no_fault_of_the_plan() -> None:
    rivals = [
        web(name, node_name="n", anti_affinity=[pod_term(WEB)], namespace="other") for name in ("x", "y")
    ]
    one = pod()
    problem = problem_of(one, nodes=(node("n", pods=rivals, zone=A),))

    assert spread_over(problem, a=(one,)) == []


def test_pods_on_their_way_out_keep_nobody_away() -> None:
    leaving = web("leaving", node_name="n", anti_affinity=[pod_term(WEB)], terminating=True)
    one = web("one", anti_affinity=[pod_term(WEB)])
    problem = problem_of(one, nodes=(node("n", pods=[leaving], zone=A),))

    assert spread_over(problem, a=(one,)) == []


@pytest.mark.parametrize(
    ("details", "counted"),
    [
        ({}, False),
        ({"namespaces": ["shop"]}, True),
        ({"namespaces": ["lab"]}, False),
        ({"namespace_selector": selector()}, True),
        ({"namespace_selector": selector({"team": "a"})}, True),
        ({"namespace_selector": selector({"team": "b"})}, False),
        ({"namespace_selector": selector({"team": "b"}), "namespaces": ["shop"]}, True),
    ],
)
def test_terms_count_in_the_namespaces_they_name(details: dict[str, Any], counted: bool) -> None:  # noqa: FBT001
    owner = pod("owner", cpu="100m", anti_affinity=[pod_term(WEB, **details)])
    other = web("other", namespace="shop")
    problem = problem_of(
        owner, other, namespaces=namespaces("default", shop={"team": "a"}, lab={"team": "b"})
    )

    assert (spread_over(problem, a=(owner, other)) != []) is counted


@pytest.mark.parametrize(
    ("expressions", "counted"),
    [
        ([("app", "In", ("web", "db"))], True),
        ([("app", "NotIn", ("web",))], False),
        ([("missing", "NotIn", ("web",))], True),
        ([("app", "Exists", ())], True),
        ([("app", "DoesNotExist", ())], False),
        ([("app", "Like", ("w",))], False),
        ([("app", "In", ("web",)), ("tier", "Exists", ())], False),
    ],
)
def test_every_operator_of_selectors_is_judged(expressions: list[Any], counted: bool) -> None:  # noqa: FBT001
    owner = pod("owner", cpu="100m", anti_affinity=[pod_term(selector(None, *expressions))])
    other = web("other")
    problem = problem_of(owner, other)

    assert (spread_over(problem, a=(owner, other)) != []) is counted


@pytest.mark.parametrize(
    ("details", "same", "different"),
    [({"match_label_keys": ["v"]}, True, False), ({"mismatch_label_keys": ["v"]}, False, True)],
)
def test_label_keys_compare_with_the_owner(details: dict[str, Any], same: bool, different: bool) -> None:  # noqa: FBT001
    owner = pod("owner", cpu="100m", labels={"v": "1"}, anti_affinity=[pod_term(WEB, **details)])

    for version, counted in (("1", same), ("2", different)):
        other = web("other", labels={**WEB, "v": version})
        problem = problem_of(owner, other)
        assert (spread_over(problem, a=(owner, other)) != []) is counted


def test_an_absent_selector_selects_nobody() -> None:
    term = pod_term(WEB)
    owner = pod("owner", cpu="100m", anti_affinity=[type(term)(topology_key=ZONE)])
    other = web("other")
    problem = problem_of(owner, other)

    assert spread_over(problem, a=(owner, other)) == []


# Affinity.


def test_affinity_puts_the_owner_beside_its_target() -> None:
    owner, target = pod("owner", cpu="100m", affinity=[pod_term(WEB)]), web("target")
    problem = problem_of(owner, target)

    together = judge(problem, plan_of(buy(problem, owner), buy(problem, target)))

    assert together == []
    assert "it has no target there, but elsewhere" in spread_over(problem, a=(owner,), b=(target,))[0]


def test_affinity_to_a_bound_pod_holds() -> None:
    owner = pod("owner", cpu="100m", affinity=[pod_term(WEB)])
    problem = problem_of(owner, nodes=(node("n", pods=[web("bound", node_name="n")], zone=A),))

    assert spread_over(problem, a=(owner,)) == []
    assert spread_over(problem, b=(owner,)) != []


def test_affinity_without_any_target_is_found() -> None:
    owner = pod("owner", cpu="100m", affinity=[pod_term(WEB)])
    problem = problem_of(owner)

    assert spread_over(problem, a=(owner,)) != []


def test_a_group_starts_itself_in_one_place_only() -> None:
    group = tuple(web(f"web-{number}", affinity=[pod_term(WEB)]) for number in range(4))
    problem = problem_of(*group)

    assert spread_over(problem, a=group) == []
    found = spread_over(problem, a=group[:2], b=group[2:])
    assert len(found) == 2
    assert "its targets there need it, or each other, to be bound first" in found[0]


def test_a_group_does_not_start_where_somebody_it_counts_stands_elsewhere() -> None:
    owner, free = web("owner", affinity=[pod_term(WEB)]), web("free")
    problem = problem_of(owner, free)

    assert spread_over(problem, a=(owner, free)) == []
    assert spread_over(problem, a=(owner,), b=(free,)) != []


def test_a_target_on_a_node_without_the_label_stands_nowhere() -> None:
    owner = web("owner", affinity=[pod_term(WEB, "rack")], node_selector={"rack": "r1"})
    problem = problem_of(
        owner,
        nodepools=(nodepool(labels={"rack": "r1"}),),
        nodes=(node("n", pods=[web("bound", node_name="n")]),),
    )

    assert judge(problem, plan_of(buy(problem, owner))) == []


def test_an_owner_on_a_node_without_the_label_is_found() -> None:
    owner = web("owner", affinity=[pod_term(WEB, "rack")])
    problem = problem_of(owner)

    assert judge(problem, plan_of(buy(problem, owner))) != []


def test_chains_of_affinity_are_followed() -> None:
    first = pod("first", cpu="100m", labels={"app": "one"})
    second = pod("second", cpu="100m", labels={"app": "two"}, affinity=[pod_term({"app": "one"}, HOSTNAME)])
    third = pod("third", cpu="100m", affinity=[pod_term({"app": "two"}, HOSTNAME)])
    problem = problem_of(first, second, third)

    assert judge(problem, plan_of(buy(problem, third, second, first))) == []
    assert len(judge(problem, plan_of(buy(problem, first), buy(problem, third, second)))) == 2


def test_a_target_must_be_counted_by_all_terms() -> None:
    both = pod_term(WEB, HOSTNAME), pod_term({"tier": "x"}, ZONE)
    owner = pod("owner", cpu="100m", affinity=both)
    full, half, other_half = (
        web("full", labels={**WEB, "tier": "x"}),
        web("half"),
        web("x", labels={"tier": "x"}),
    )

    good, bad = problem_of(owner, full), problem_of(owner, half, other_half)

    assert spread_over(good, a=(owner, full)) == []
    assert (
        "no target there is counted by all of its terms" in spread_over(bad, a=(owner, half, other_half))[0]
    )


def test_of_two_groups_that_could_start_the_right_one_starts_first() -> None:
    narrow = web("narrow", affinity=[pod_term(WEB)])
    wide = pod(
        "wide",
        cpu="100m",
        labels={"app": "db"},
        affinity=[pod_term(selector(None, ("app", "In", ("web", "db"))))],
    )
    problem = problem_of(narrow, wide)

    # wide finds nobody anywhere and starts; then narrow, which counts only web, may start elsewhere.
    assert spread_over(problem, a=(narrow,), b=(wide,)) == []


# Spread.


def spreading(number: int, **details: Any) -> tuple[Pod, ...]:
    options = {key: details.pop(key) for key in ("labels", "node_selector", "tolerations") if key in details}
    return tuple(
        web(f"web-{each}", topology_spread=[spread(WEB, **details)], **options) for each in range(number)
    )


def test_pods_spread_evenly() -> None:
    group = spreading(4)
    problem = problem_of(*group)

    assert spread_over(problem, a=group[:2], b=group[2:3], c=group[3:]) == []
    found = spread_over(problem, a=group[:3], b=group[3:])
    assert len(found) == 3
    assert "allows a skew of 1 by topology.kubernetes.io/zone, but us-east-1a has 3" in found[0]


def test_a_zone_that_could_still_be_bought_counts_as_empty() -> None:
    group = spreading(4)
    problem = problem_of(*group)

    assert len(spread_over(problem, a=group[:2], b=group[2:])) == 4


def test_a_larger_skew_is_allowed_where_asked_for() -> None:
    group = spreading(2, max_skew=2)
    problem = problem_of(*group)

    assert spread_over(problem, a=group) == []


def test_soft_spread_is_only_a_wish() -> None:
    group = spreading(3, soft=True)
    problem = problem_of(*group)

    assert spread_over(problem, a=group) == []


def test_zones_that_the_owner_cannot_go_to_do_not_count() -> None:
    group = spreading(4, node_selector={ARCH: "amd64"})
    only_two = nodepool(requirements=[requirement(ZONE, "In", A, B)])

    assert spread_over(problem_of(*group, nodepools=(only_two,)), a=group[:2], b=group[2:]) == []
    pinned = spreading(4, node_selector={ZONE: A})
    assert spread_over(problem_of(*pinned), a=pinned) == []


def test_pools_that_the_owner_does_not_tolerate_offer_it_no_zones() -> None:
    group = spreading(4)
    elsewhere = nodepool("other", taints=[taint("x")], requirements=[requirement(ZONE, "In", C)])
    here = nodepool(requirements=[requirement(ZONE, "In", A, B)])

    assert spread_over(problem_of(*group, nodepools=(here, elsewhere)), a=group[:2], b=group[2:]) == []


def test_standing_nodes_are_places_by_the_policies() -> None:
    here = nodepool(requirements=[requirement(ZONE, "In", A, B)])
    tainted = node("n", zone=C, taints=[taint("x")])
    parts: dict[str, Any] = {"nodepools": (here,), "nodes": (tainted,)}

    ignoring, honoring = spreading(4), spreading(4, node_taints_policy="Honor")

    assert spread_over(problem_of(*ignoring, **parts), a=ignoring[:2], b=ignoring[2:]) != []
    assert spread_over(problem_of(*honoring, **parts), a=honoring[:2], b=honoring[2:]) == []


def test_node_affinity_decides_which_nodes_are_places_unless_ignored() -> None:
    nodes = (node("n", zone=C, labels={"team": "b"}),)
    here = nodepool(labels={"team": "a"}, requirements=[requirement(ZONE, "In", A)])
    honoring = spreading(2, node_selector={"team": "a"})
    ignoring = spreading(2, node_selector={"team": "a"}, node_affinity_policy="Ignore")

    assert spread_over(problem_of(*honoring, nodepools=(here,), nodes=nodes), a=honoring) == []
    assert spread_over(problem_of(*ignoring, nodepools=(here,), nodes=nodes), a=ignoring) != []


def test_pods_on_nodes_that_are_no_places_do_not_count() -> None:
    others = [web(f"bound-{number}", node_name="n") for number in range(3)]
    nodes = (node("n", zone=A, labels={"team": "b"}, pods=others),)
    own = nodepool(labels={"team": "a"})
    (one,) = spreading(1, node_selector={"team": "a"})
    problem = problem_of(one, nodepools=(own,), nodes=nodes)

    assert spread_over(problem, a=(one,)) == []


def test_bound_pods_count_and_leaving_ones_do_not() -> None:
    (one,) = spreading(1)
    stays, leaves = web("bound", node_name="n"), web("bound", node_name="n", terminating=True)

    assert spread_over(problem_of(one, nodes=(node("n", zone=A, pods=[stays]),)), a=(one,)) != []
    assert spread_over(problem_of(one, nodes=(node("n", zone=A, pods=[leaves]),)), a=(one,)) == []


def test_an_owner_that_does_not_count_itself_is_judged_too() -> None:
    owner = pod("owner", cpu="100m", topology_spread=[spread(WEB)])
    others = tuple(web(f"web-{number}") for number in range(2))
    problem = problem_of(owner, *others)

    assert spread_over(problem, a=others[:1], b=(owner, *others[1:])) == []
    assert len(spread_over(problem, a=(owner, *others))) == 1
    assert spread_over(problem, a=others, b=(owner,)) == []


def test_other_namespaces_do_not_count() -> None:
    (one,) = spreading(1)
    foreign = web("foreign", namespace="shop")
    problem = problem_of(one, foreign)

    assert spread_over(problem, a=(one, foreign)) == []


def test_match_label_keys_part_the_versions() -> None:
    first = web("first", labels={**WEB, "v": "1"}, topology_spread=[spread(WEB, match_label_keys=["v"])])
    second = web("second", labels={**WEB, "v": "2"}, topology_spread=[spread(WEB, match_label_keys=["v"])])
    same = web("same", labels={**WEB, "v": "1"}, topology_spread=[spread(WEB, match_label_keys=["v"])])

    assert spread_over(problem_of(first, second), a=(first, second)) == []
    assert spread_over(problem_of(first, same), a=(first, same)) != []


def test_with_too_few_places_the_emptiest_counts_as_empty() -> None:
    two_zones = nodepool(requirements=[requirement(ZONE, "In", A, B)])
    enough, too_few = spreading(4, min_domains=2), spreading(4, min_domains=3)

    assert spread_over(problem_of(*enough, nodepools=(two_zones,)), a=enough[:2], b=enough[2:]) == []
    assert spread_over(problem_of(*too_few, nodepools=(two_zones,)), a=too_few[:2], b=too_few[2:]) != []


def test_hosts_hold_no_more_than_the_skew() -> None:
    group = spreading(2, key=HOSTNAME)
    problem = problem_of(*group)

    assert judge(problem, plan_of(*(buy(problem, each) for each in group))) == []
    assert len(judge(problem, plan_of(buy(problem, *group)))) == 2


def test_a_place_without_the_label_is_found() -> None:
    (one,) = spreading(1, key="rack")
    problem = problem_of(one)

    assert judge(problem, plan_of(buy(problem, one))) == [
        "new node 0 of pool default has no label rack for pod default/web-0"
    ]


def test_nodes_without_one_of_the_keys_are_no_places() -> None:
    both = web("web-0", topology_spread=[spread(WEB), spread(WEB, HOSTNAME, max_skew=5)])
    bare = node("n", zone=A, pods=[web("bound", node_name="n")])
    labels = {key: value for key, value in bare.labels.items() if key != ZONE}
    (here,) = (type(bare)(name="n", labels=labels, allocatable=bare.allocatable, pods=bare.pods),)
    problem = problem_of(both, nodes=(here,))

    assert spread_over(problem, a=(both,)) == []


def test_nodes_that_could_be_bought_without_one_of_the_keys_are_no_places() -> None:
    both = tuple(
        web(f"web-{number}", topology_spread=[spread(WEB), spread(WEB, "rack", max_skew=5)])
        for number in range(2)
    )
    nodes = (node("n", zone=A, labels={"rack": "r1"}),)
    problem = problem_of(*both, nodes=nodes)
    racked = problem_of(*both, nodes=nodes, nodepools=(nodepool(labels={"rack": "r1"}),))

    assert judge(problem, plan_of(existing={"n": both})) == []
    assert judge(racked, plan_of(existing={"n": both})) != []


def test_spread_over_a_label_of_the_pool() -> None:
    group = spreading(2, key="rack", node_selector={ZONE: A})
    open_rack = nodepool(requirements=[requirement("rack", "In", "r1", "r2")])
    problem = problem_of(*group, nodepools=(open_rack,))

    apart = [
        buy(problem, each, settled={"rack": rack}) for each, rack in zip(group, ("r1", "r2"), strict=True)
    ]
    together = [buy(problem, *group, settled={"rack": "r1"})]
    unsettled = [buy(problem, group[0]), buy(problem, group[1])]

    assert judge(problem, plan_of(*apart)) == []
    assert judge(problem, plan_of(*together)) != []
    assert (
        "has a rule by rack, which new node 0 of pool default leaves open"
        in judge(problem, plan_of(*unsettled))[0]
    )


# Alternatives.


def test_an_alternative_elsewhere_must_not_break_a_rule() -> None:
    one, two = (web(name, anti_affinity=[pod_term(WEB)]) for name in ("one", "two"))
    problem = problem_of(one, two)
    second = buy(problem, two, zone=B)

    bound = plan_of(buy(problem, one, others=[("m5.xlarge", A, "on-demand")]), second)
    loose = plan_of(buy(problem, one, others=[("m5.xlarge", B, "on-demand")]), second)

    assert judge(problem, bound) == []
    assert judge(problem, loose)[0].startswith(
        "if new node 0 of pool default is bought as m5.xlarge on-demand in"
    )


def test_spread_over_capacity_types_is_kept_by_the_alternatives() -> None:
    group = spreading(2, key=CAPACITY_TYPE)
    problem = problem_of(*group)
    spot = buy(problem, group[0], capacity_type="spot")

    assert judge(problem, plan_of(spot, buy(problem, group[1]))) == []
    loose = buy(problem, group[1], others=[("m5.2xlarge", A, "spot")])
    assert any(each.startswith("if new node 1") for each in judge(problem, plan_of(spot, loose)))


def test_tolerating_owners_see_the_zones_of_tainted_pools() -> None:
    group = spreading(4, tolerations=[toleration()])
    elsewhere = nodepool("other", taints=[taint("x")], requirements=[requirement(ZONE, "In", C)])
    here = nodepool(requirements=[requirement(ZONE, "In", A, B)])

    assert spread_over(problem_of(*group, nodepools=(here, elsewhere)), a=group[:2], b=group[2:]) != []


def test_terms_of_node_affinity_bound_the_places() -> None:
    rule = spread(WEB)
    terms = [node_term(expression(ZONE, "In", A)), node_term(expression(ZONE, "In", B))]
    group = tuple(web(f"web-{each}", topology_spread=[rule], node_affinity=terms) for each in range(4))

    assert spread_over(problem_of(*group), a=group[:2], b=group[2:]) == []
