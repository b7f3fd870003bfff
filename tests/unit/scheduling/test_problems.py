# SPDX-License-Identifier: Apache-2.0
"""What problem and catalogue files say beyond plain pods and types: nodes on their way, reserved capacity."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karpenter.api.labels import CAPACITY_RESERVATION_ID, INSTANCE_TYPE, NODEPOOL, ZONE
from karpenter.scheduling import Plan, solve
from karpenter.scheduling.problems import Problem, ProblemError, read_catalogue, read_problem
from tests.strategies import Problem as Drawn
from tests.strategies import instance_type, nodepool, offering, pod, taint, to_catalogue, to_problem

KIND = instance_type("m5.large", cpu=2, memory_gib=8, offerings=[offering("us-east-1a", price=0.1)])
LABELS = {NODEPOOL: "default", INSTANCE_TYPE: "m5.large", ZONE: "us-east-1a"}


def claim(name: str = "on-its-way", **changes: Any) -> dict[str, Any]:
    """Make a NodeClaim that is launched and has no node yet."""
    made: dict[str, Any] = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        },
        "status": {
            "providerID": f"aws:///us-east-1a/{name}",
            "allocatable": {"cpu": "1900m", "memory": "7Gi", "pods": "20"},
            "capacity": {"cpu": "2", "memory": "8Gi", "pods": "20"},
        },
    }
    for part, values in changes.items():
        made[part] = {**made[part], **values}
    return made


def read(*objects: dict[str, Any], drawn: Drawn | None = None) -> Problem:
    drawn = drawn or Drawn(pods=(pod("web", cpu="1"),), nodepools=(nodepool(),), types=(KIND,))
    wire = to_problem(drawn)
    wire["objects"] += objects
    catalogue = read_catalogue(json.dumps(to_catalogue(drawn.types)).encode(), "catalogue")
    return read_problem(json.dumps(wire).encode(), catalogue, "problem")


def answer(problem: Problem) -> Plan:
    return solve(problem.snapshot, problem.pods)


def test_a_node_on_its_way_takes_pods_before_another_is_bought() -> None:
    plan = answer(read(claim()))

    assert list(plan.existing) == ["on-its-way"]
    assert plan.new_nodes == ()


def test_a_node_on_its_way_has_what_its_claim_promises() -> None:
    (node,) = read(claim()).snapshot.nodes

    assert (node.pool, node.managed, node.initialized) == ("default", True, False)
    assert node.allocatable["cpu"] == 1900
    assert node.labels[ZONE] == "us-east-1a"


def test_a_claim_without_amounts_has_those_of_its_instance_type() -> None:
    (node,) = read(claim(status={"allocatable": {}, "capacity": {}})).snapshot.nodes

    assert node.allocatable["cpu"] == KIND.allocatable["cpu"]


def test_a_claim_of_which_nothing_is_known_yet_is_no_room_but_counts_as_a_node() -> None:
    problem = read(
        claim(metadata={"labels": {NODEPOOL: "default"}}, status={"allocatable": {}, "capacity": {}}),
        drawn=Drawn(pods=(pod("web"),), nodepools=(nodepool(limits={"nodes": "1"}),), types=(KIND,)),
    )

    assert problem.snapshot.nodes == ()
    assert problem.snapshot.pools[0].limits["nodes"] == 0


def test_a_claim_that_is_being_deleted_is_no_room() -> None:
    gone = claim(metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})

    plan = answer(read(gone))

    assert plan.existing == {}
    assert len(plan.new_nodes) == 1


def test_startup_taints_of_a_claim_vanish_before_pods_come_and_others_stay() -> None:
    starting = {"key": "example.com/starting", "effect": "NoSchedule"}
    kept = {"key": "team", "value": "data", "effect": "NoSchedule"}

    (open_node,) = read(claim(spec={"startupTaints": [starting]})).snapshot.nodes
    (closed,) = read(claim(spec={"taints": [kept]})).snapshot.nodes

    assert open_node.taints == ()
    assert closed.taints == (taint("team", "data"),)


def test_claims_on_their_way_count_against_the_limits_of_their_pool() -> None:
    pool = nodepool(limits={"cpu": "3"})
    drawn = Drawn(pods=(pod("web", cpu="1"),), nodepools=(pool,), types=(KIND,))

    problem = read(claim(spec={"taints": [{"key": "team", "effect": "NoSchedule"}]}), drawn=drawn)

    assert problem.snapshot.pools[0].limits["cpu"] == 1000
    assert [each.pods[0].metadata.name for each in answer(problem).rejections] == ["web"]


@pytest.mark.parametrize("named", [{"nodeName": "n"}, {"providerID": "aws:///us-east-1a/i-1"}])
def test_a_claim_whose_node_is_there_is_counted_once(named: dict[str, str]) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": LABELS},
        "spec": {"providerID": "aws:///us-east-1a/i-1"},
        "status": {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "20"}, "allocatable": {"cpu": "0"}},
    }

    problem = read(claim(status=named), node)

    (view,) = problem.snapshot.nodes
    assert view.name == "n"
    assert view.allocatable["cpu"] == 1900, "a kubelet that has not reported yet has what the claim promises"


def test_a_claim_of_another_node_says_nothing_about_a_node() -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1"}}}

    (claimed, on_its_way) = read(claim(), node).snapshot.nodes

    assert (claimed.name, claimed.pool, claimed.managed) == ("n", "", False)
    assert on_its_way.name == "on-its-way"


def test_nodes_of_no_pool_count_against_no_limits() -> None:
    drawn = Drawn(pods=(), nodepools=(nodepool(limits={"cpu": "3"}),), types=(KIND,))
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}}

    (pool,) = read(node, drawn=drawn).snapshot.pools

    assert pool.limits["cpu"] == 3000


def test_startup_taints_of_a_node_that_is_not_initialized_do_not_count() -> None:
    starting = {"key": "example.com/starting", "effect": "NoSchedule"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": LABELS},
        "spec": {"taints": [starting]},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "20"}},
    }

    (bare,) = read(node).snapshot.nodes
    (claimed,) = read(
        node, claim(spec={"startupTaints": [starting]}, status={"nodeName": "n"})
    ).snapshot.nodes

    assert bare.taints == (taint("example.com/starting"),)
    assert claimed.taints == ()


def catalogue_with(*offerings: Any) -> bytes:
    wire = to_catalogue([KIND])
    wire["instanceTypes"][0]["offerings"] += offerings
    return json.dumps(wire).encode()


RESERVED = {
    "zone": "us-east-1a",
    "capacityType": "reserved",
    "pricePerHour": 0.001,
    "reservationId": "cr-1",
    "reservationCapacity": 1,
}


def test_a_catalogue_states_reserved_capacity() -> None:
    (kind,) = read_catalogue(catalogue_with(RESERVED), "catalogue").types

    held = kind.offerings[-1]
    assert (held.reservation_id, held.reservation_capacity, held.available) == ("cr-1", 1, True)
    assert held.labels == {CAPACITY_RESERVATION_ID: "cr-1"}


def test_reserved_capacity_is_used_as_far_as_it_goes() -> None:
    catalogue = read_catalogue(catalogue_with(RESERVED), "catalogue")
    wire = to_problem(Drawn(pods=(pod("a", cpu="1500m"), pod("b", cpu="1500m")), nodepools=(nodepool(),)))

    plan = answer(read_problem(json.dumps(wire).encode(), catalogue, "problem"))

    assert sorted(each.capacity_type for each in plan.new_nodes) == ["on-demand", "reserved"]


def test_a_reservation_that_is_used_up_is_not_for_sale() -> None:
    (kind,) = read_catalogue(catalogue_with({**RESERVED, "reservationCapacity": 0}), "catalogue").types

    assert not kind.offerings[-1].available


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"reservationId": ""}, 'capacityType "reserved" with reservationId ""'),
        ({"capacityType": "spot"}, 'capacityType "spot" with reservationId "cr-1"'),
        ({"reservationCapacity": -1}, "reservationCapacity: -1 is below 0"),
    ],
)
def test_reserved_capacity_that_contradicts_itself_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ProblemError, match=r"catalogue: instance type m5\.large: offerings\[1\]") as caught:
        read_catalogue(catalogue_with({**RESERVED, **changed}), "catalogue")

    assert said in caught.value.message
