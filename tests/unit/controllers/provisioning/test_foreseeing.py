# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

from karpenter.api.core import Pod
from karpenter.controllers.provisioning.foreseeing import foreseen, left_over, realised_price
from karpenter.model.catalogue import Catalogue
from karpenter.model.instancetypes import InstanceType, Offering
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources, pod_requests, total
from karpenter.model.snapshot import Snapshot
from karpenter.scheduling import NewNode, Plan, Rejection, SolveOptions
from tests.unit.state.worlds import pod

GIB = 2**30


def shop() -> Catalogue:
    """Nodes of 4 and of 8 cores, and one of 16."""
    types = []
    for cores, price in ((4, 1.0), (8, 2.0), (16, 4.4)):
        size = Resources.parse({"cpu": str(cores), "memory": f"{cores * 4}Gi", "pods": "50"})
        types.append(InstanceType(f"t{cores}", {}, size, size, (Offering("us-west-2a", "on-demand", price),)))
    return Catalogue(types)


CATALOGUE = shop()


def wanting(name: str, cpu: str, **parts: Any) -> Pod:
    """A pod of some size."""
    requests = {"cpu": cpu, "memory": "1Gi"}
    return pod(name, containers=[{"name": "c", "resources": {"requests": requests}}], **parts)


def bought(position: int, *pods: Pod, pool: str = "default") -> NewNode:
    """A planned node of the type at a position."""
    return NewNode(
        pool=pool,
        labels={},
        catalogue=CATALOGUE,
        usable=1 << position,
        pods=pods,
        requests=total(map(pod_requests, pods)),
        daemon_overhead=Resources(),
        pool_requirements=Requirements(),
    )


def planned(*nodes: NewNode) -> Plan:
    """A plan of some nodes."""
    return Plan(new_nodes=nodes, price_per_hour=sum(each.price_per_hour for each in nodes))


def tight(**parts: Any) -> Plan:
    """Two pods of 4 cores on an 8-core node and four of 1 on a 4-core node: only so do they fit."""
    small = [wanting(f"a{number}", "1", **parts) for number in range(4)]
    large = [wanting(f"b{number}", "4", **parts) for number in range(2)]
    return planned(bought(1, *large), bought(0, *small))


def test_of_a_tight_plan_pods_are_left_over_when_the_scheduler_spreads_them() -> None:
    assert [each.metadata.name for each in left_over(tight())] == ["b1"]


def test_pods_of_higher_priority_come_first() -> None:
    plan = tight()
    large = [replace_priority(each) for each in plan.new_nodes[0].pods]

    assert left_over(replace(plan, new_nodes=(bought(1, *large), plan.new_nodes[1]))) == ()


def replace_priority(found: Pod) -> Pod:
    """The same pod, more important."""
    return wanting(found.metadata.name, "4", priority=100)


def test_pods_with_rules_of_their_own_stay_where_they_were_planned() -> None:
    assert left_over(tight(nodeSelector={"zone": "a"})) == ()


def test_pods_keep_to_the_pool_that_they_were_planned_for() -> None:
    crowded = bought(0, *(wanting(f"a{number}", "2") for number in range(3)))
    roomy = bought(1, wanting("b", "1"), pool="other")

    assert [each.metadata.name for each in left_over(planned(crowded, roomy))] == ["a2"]


class Solving:
    """Gives prepared plans by tolerance, and a node of its own for each pod that is left over."""

    def __init__(self, **plans: Plan) -> None:
        self.plans = {float(name[1:].replace("_", ".")): plan for name, plan in plans.items()}
        self.asked: list[float] = []

    def __call__(self, snapshot: Snapshot, pods: tuple[Pod, ...], options: SolveOptions) -> Plan:
        del snapshot
        if not pods or pods[0].metadata.name != "question":
            return planned(*(bought(0, each) for each in pods))
        self.asked.append(options.tolerance)
        return self.plans.get(options.tolerance, self.plans[0.01])


QUESTION = (wanting("question", "1"),)


TIGHT = tight()
EVERYBODY = tuple(each for node in TIGHT.new_nodes for each in node.pods)
ROOMY = planned(bought(2, *EVERYBODY))


def test_the_price_of_what_is_left_over_belongs_to_a_plan() -> None:
    solver = Solving(t0_01=TIGHT)

    assert realised_price(solver, Snapshot(), TIGHT, SolveOptions()) == 4.0
    assert realised_price(solver, Snapshot(), ROOMY, SolveOptions()) == 4.4


def test_the_plan_counts_that_is_cheapest_with_what_it_leaves_over() -> None:
    cheap = replace(ROOMY, price_per_hour=3.5)
    solver = Solving(t0_01=TIGHT, t0_05=ROOMY, t0_1=cheap, t0_2=ROOMY)

    found = foreseen(solver, Snapshot(), QUESTION, SolveOptions())

    assert found is cheap
    assert solver.asked == [0.01, 0.05, 0.1]


def test_a_plan_that_leaves_nobody_over_is_taken_at_once() -> None:
    solver = Solving(t0_01=ROOMY)

    assert foreseen(solver, Snapshot(), QUESTION, SolveOptions()) is ROOMY
    assert solver.asked == [0.01]


def test_a_plan_that_refuses_more_pods_does_not_count_and_a_deadline_ends_the_search() -> None:
    refused = Rejection.__new__(Rejection)
    object.__setattr__(refused, "pods", QUESTION)
    refusing = Plan(rejections=(refused,))
    solver = Solving(t0_01=TIGHT, t0_05=refusing)
    late = Solving(t0_01=TIGHT)

    assert foreseen(solver, Snapshot(), QUESTION, SolveOptions()) is TIGHT
    assert foreseen(late, Snapshot(), QUESTION, SolveOptions(expired=lambda: True)) is TIGHT
    assert late.asked == [0.01]
