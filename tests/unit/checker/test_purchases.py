# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_FAMILY, INSTANCE_TYPE, ZONE
from karpenter.model.requirements import Requirement
from karpenter.model.resources import Resources
from tests.strategies import (
    ZONES,
    daemon,
    expression,
    instance_type,
    node,
    node_term,
    nodepool,
    offering,
    pod,
    pods,
    requirement,
    reserved,
)
from tests.unit.checker.handmade import buy, judge, plan_of, problem_of

A, B, _ = ZONES
ONE = pod()


def test_the_chosen_offering_is_the_first_alternative() -> None:
    problem = problem_of(ONE)
    good = buy(problem, ONE, others=[("m5.xlarge", A, "on-demand")])

    assert judge(problem, plan_of(good)) == []
    found = judge(problem, plan_of(replace(good, alternatives=good.alternatives[1:])))
    assert "chosen is m5.large on-demand in us-east-1a, the first alternative m5.xlarge" in found[0]


def test_alternatives_come_in_the_order_of_their_prices() -> None:
    problem = problem_of(ONE)
    node_ = buy(problem, ONE, others=[("m5.xlarge", A, "on-demand"), ("r5.xlarge", A, "on-demand")])
    first, second, third = node_.alternatives

    found = judge(problem, plan_of(replace(node_, alternatives=(first, third, second))))

    assert "not in the order of their prices" in found[0]


def test_a_choice_that_is_not_the_cheapest_is_found() -> None:
    problem = problem_of(ONE)
    node_ = buy(problem, ONE, others=[("m5.large", A, "spot")])
    spot, on_demand = node_.alternatives
    dear = replace(
        node_,
        capacity_type="on-demand",
        price_per_hour=on_demand.price_per_hour,
        alternatives=(on_demand, spot),
    )

    found = judge(problem, plan_of(dear))

    assert any("an alternative costs" in each for each in found)


def test_a_node_without_alternatives_or_pods_is_found() -> None:
    problem = problem_of(ONE)

    bare = judge(problem, plan_of(replace(buy(problem, ONE), alternatives=())))
    idle = judge(problem, plan_of(buy(problem, ONE), buy(problem)))

    assert "has no alternatives, not even the chosen offering" in bare[0]
    assert "new node 1 of pool default has no pods" in idle


def test_an_offering_that_does_not_exist_is_found() -> None:
    problem = problem_of(ONE)
    good = buy(problem, ONE)
    ghost = replace(good.alternatives[0], instance_type="x9.huge", price_per_hour=1.0)

    found = judge(problem, plan_of(replace(good, alternatives=(*good.alternatives, ghost))))

    assert "as x9.huge on-demand in us-east-1a: no such offering exists" in found[0]


def test_an_offering_that_is_sold_out_is_found() -> None:
    sold_out = instance_type(offerings=[offering(A, price=0.1, available=False), offering(B, price=0.1)])
    problem = problem_of(ONE, types=(sold_out,))

    assert judge(problem, plan_of(buy(problem, ONE, zone=B))) == []
    assert "not sold at 0.1 $/h (0.1 $/h, available: False)" in judge(problem, plan_of(buy(problem, ONE)))[0]


def test_a_wrong_price_is_found() -> None:
    problem = problem_of(ONE)
    good = buy(problem, ONE)
    cheap = replace(
        good, price_per_hour=0.01, alternatives=(replace(good.alternatives[0], price_per_hour=0.01),)
    )

    assert "not sold at 0.01 $/h" in judge(problem, plan_of(cheap))[0]


def test_an_unknown_pool_is_found() -> None:
    problem = problem_of(ONE)
    stray = replace(buy(problem, ONE), pool="stray")

    assert judge(problem, plan_of(stray)) == ["new node 0 of pool stray: there is no such pool"]


def test_the_pool_must_allow_every_alternative() -> None:
    pool = nodepool(
        requirements=[requirement(CAPACITY_TYPE, "In", "on-demand"), requirement(ARCH, "In", "amd64")]
    )
    problem = problem_of(ONE, nodepools=(pool,))

    assert judge(problem, plan_of(buy(problem, ONE, others=[("c5.xlarge", B, "on-demand")]))) == []
    found = judge(problem, plan_of(buy(problem, ONE, others=[("m6g.large", B, "on-demand")])))
    assert any("does not meet the pool's requirement kubernetes.io/arch In [amd64]" in each for each in found)


@pytest.mark.parametrize("operator", ["Gt", "Lt", "Gte", "Lte", "NotIn", "Exists", "DoesNotExist"])
def test_every_operator_of_a_pool_is_judged(operator: str) -> None:
    key = "karpenter.k8s.aws/instance-cpu"
    values = {"Gt": ("2",), "Lt": ("4",), "Gte": ("4",), "Lte": ("2",), "NotIn": ("2",)}.get(operator, ())
    allowed = {
        "m5.large": operator in ("Lt", "Lte", "Exists"),
        "m5.xlarge": operator in ("Gt", "Gte", "NotIn", "Exists"),
    }
    pool = nodepool(requirements=[requirement(key, operator, *values)])
    problem = problem_of(ONE, nodepools=(pool,))

    for kind, is_allowed in allowed.items():
        assert (judge(problem, plan_of(buy(problem, ONE, kind=kind))) == []) is is_allowed


def test_the_claim_must_allow_every_alternative() -> None:
    problem = problem_of(ONE)
    good = buy(problem, ONE, others=[("m5.xlarge", A, "on-demand")])
    narrow = replace(
        good, requirements=good.requirements.plus(Requirement.of(INSTANCE_TYPE, "In", ("m5.large",)))
    )

    assert any("does not meet the claim's requirement" in each for each in judge(problem, plan_of(narrow)))


def test_the_claim_must_not_allow_what_does_not_suit_the_pods() -> None:
    terms = [
        node_term(expression(INSTANCE_TYPE, "In", "m5.large"), expression(ZONE, "In", A)),
        node_term(expression(INSTANCE_TYPE, "In", "r5.large"), expression(ZONE, "In", B)),
    ]
    picky = pod(node_affinity=terms)
    problem = problem_of(picky)

    one_way = buy(problem, picky)
    both_ways = buy(problem, picky, others=[("r5.large", B, "on-demand")])

    assert judge(problem, plan_of(one_way)) == []
    found = judge(problem, plan_of(both_ways))
    assert len(found) == 2
    assert found[0].startswith(
        "the claim of new node 0 of pool default allows m5.large on-demand in us-east-1b, which"
    )
    assert found[1].startswith(
        "the claim of new node 0 of pool default allows r5.large on-demand in us-east-1a, which"
    )


def test_the_amounts_that_are_written_must_be_true() -> None:
    problem = problem_of(ONE, daemons=(daemon(),))
    good = buy(problem, ONE)

    assert judge(problem, plan_of(good)) == []
    assert (
        "says that pods and DaemonSets take"
        in judge(problem, plan_of(replace(good, requests=Resources())))[0]
    )
    assert (
        "says that DaemonSets take {}"
        in judge(problem, plan_of(replace(good, daemon_overhead=Resources())))[0]
    )


# The bill.


def test_the_price_is_the_sum_of_the_choices() -> None:
    problem = problem_of(ONE)
    plan = plan_of(buy(problem, ONE))

    assert judge(problem, plan) == []
    assert "its nodes cost" in judge(problem, replace(plan, price_per_hour=0.0))[0]


def test_the_bound_is_not_above_the_price() -> None:
    problem = problem_of(ONE)
    plan = plan_of(buy(problem, ONE))

    assert judge(problem, replace(plan, lower_bound_per_hour=plan.price_per_hour)) == []
    assert "is above the price" in judge(problem, replace(plan, lower_bound_per_hour=1.0))[0]


# Limits.


@pytest.mark.parametrize("limit", [{"cpu": "4"}, {"memory": "16Gi"}, {"nodes": "2"}])
def test_the_new_nodes_of_a_pool_keep_its_limits(limit: dict[str, str]) -> None:
    three = pods(3)
    problem = problem_of(*three, nodepools=(nodepool(limits=limit),))
    nodes = [buy(problem, each) for each in three]

    assert judge(problem, plan_of(*nodes[:2], rejected=three[2:])) == []
    assert "its new nodes add" in judge(problem, plan_of(*nodes))[0]


def test_what_a_pool_has_already_counts_against_its_limits() -> None:
    problem = problem_of(ONE, nodepools=(nodepool(limits={"cpu": "3"}),), nodes=(node(pool="default"),))
    other = problem_of(ONE, nodepools=(nodepool(limits={"cpu": "3"}),), nodes=(node(pool="other"),))

    assert judge(problem, plan_of(buy(problem, ONE))) == [
        "pool default may add 1000 of cpu, its new nodes add 2000"
    ]
    assert judge(other, plan_of(buy(other, ONE))) == []


def test_an_alternative_that_would_break_a_limit_is_found() -> None:
    problem = problem_of(ONE, nodepools=(nodepool(limits={"cpu": "3"}),))

    assert judge(problem, plan_of(buy(problem, ONE, others=[("r5.large", A, "on-demand")]))) == []
    found = judge(problem, plan_of(buy(problem, ONE, others=[("m5.xlarge", A, "on-demand")])))
    assert "if new node 0 is bought as m5.xlarge on-demand in us-east-1a" in found[0]


# minValues.


@pytest.mark.parametrize("key", [INSTANCE_TYPE, INSTANCE_FAMILY, CAPACITY_TYPE])
def test_min_values_are_kept_open(key: str) -> None:
    pool = nodepool(requirements=[requirement(key, "Exists", min_values=2)])
    problem = problem_of(ONE, nodepools=(pool,))
    wide = buy(problem, ONE, others=[("c5.xlarge", A, "spot")])
    narrow = buy(problem, ONE, others=[("m5.large", B, "on-demand")])

    assert judge(problem, plan_of(wide)) == []
    assert f"keeps 1 values of {key} open, 2 are wanted" in judge(problem, plan_of(narrow))[0]


def test_best_effort_may_keep_fewer_but_must_say_so() -> None:
    pool = nodepool(requirements=[requirement(INSTANCE_TYPE, "Exists", min_values=2)])
    problem = problem_of(ONE, nodepools=(pool,))
    narrow = buy(problem, ONE)
    said = replace(narrow, min_values_relaxed=True)
    needless = replace(buy(problem, ONE, others=[("c5.xlarge", A, "spot")]), min_values_relaxed=True)

    assert judge(problem, plan_of(said), min_values="BestEffort") == []
    assert "does not say so" in judge(problem, plan_of(narrow), min_values="BestEffort")[0]
    assert "says that minValues were relaxed" in judge(problem, plan_of(needless), min_values="BestEffort")[0]


# Reserved capacity.


def test_a_reservation_holds_only_so_many() -> None:
    both = pods(2)
    kind = instance_type(offerings=[reserved("cr-1", 1), reserved("cr-2", 1, B), offering(A)])
    problem = problem_of(*both, types=(kind,))

    def bought(*zones: str) -> list[str]:
        nodes = (
            buy(problem, each, zone=zone, capacity_type="reserved")
            for each, zone in zip(both, zones, strict=True)
        )
        return judge(problem, plan_of(*nodes))

    assert bought(A, B) == []
    assert bought(A, A) == ["new node 1 is reserved capacity, but cr-1 has no instance left for it"]


def test_two_reservations_of_one_kind_hold_together_what_each_holds() -> None:
    three = pods(3)
    kind = instance_type(offerings=[reserved("cr-1", 1), reserved("cr-2", 1)])
    problem = problem_of(*three, types=(kind,))
    nodes = [buy(problem, each, capacity_type="reserved") for each in three]

    assert judge(problem, plan_of(*nodes[:2], rejected=three[2:])) == []
    assert "cr-1, cr-2 has no instance left" in judge(problem, plan_of(*nodes))[0]
