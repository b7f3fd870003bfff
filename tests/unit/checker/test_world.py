# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_fields

from karpenter.api.core import EphemeralVolumeSource, LocalSource, Pod, ResourceRequirements, Volume
from karpenter.api.labels import HOSTNAME, INSTANCE_CPU, ZONE
from karpenter.model.volumes import Storage
from tests.checker import carried_out
from tests.checker.amounts import pod_amounts
from tests.checker.matching import node_suits
from tests.checker.storage import attached, unreachable, waiting_for
from tests.strategies import (
    NOON,
    ZONES,
    expression,
    instance_type,
    node,
    node_term,
    nodepool,
    offering,
    pod,
    pods,
    reserved,
    storage_class,
    volume,
    volume_claim,
)
from tests.unit.checker.handmade import buy, plan_of, problem_of

A, B, _ = ZONES


def test_amounts_are_rounded_up_once_at_the_end() -> None:
    assert pod_amounts(pod(cpu="1500u", memory="1500m")) == {"cpu": 2, "memory": 2, "pods": 1}


def test_what_a_pod_asks_for_as_a_whole_comes_before_its_containers() -> None:
    own = ResourceRequirements(requests={"cpu": "3", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"})
    base = pod(cpu="1", memory="1Gi")

    whole = replace_fields(base, spec=replace_fields(base.spec, resources=own))

    assert pod_amounts(whole) == {"cpu": 3000, "memory": 2**30, "hugepages-2Mi": 4 * 2**20, "pods": 1}


@pytest.mark.parametrize("bound", ["9" * 70, str(2**63), "0x10", "", "-"])
def test_a_bound_that_is_no_64_bit_integer_is_met_by_nobody(bound: str) -> None:
    wanting = pod(node_affinity=[node_term(expression(INSTANCE_CPU, "Lt", bound))])

    assert not node_suits(wanting, {INSTANCE_CPU: "2"}, "")


def test_a_field_other_than_the_name_is_met_by_nobody() -> None:
    strange = replace_fields(node_term(), match_fields=(expression("metadata.uid", "In", "x"),))

    assert not node_suits(pod(node_affinity=[strange]), {}, "x")


# Storage.


def ephemeral(name: str) -> Pod:
    base = pod(name)
    scratch = Volume(name="scratch", ephemeral=EphemeralVolumeSource())
    plain = Volume(name="config")
    return replace_fields(base, spec=replace_fields(base.spec, volumes=(scratch, plain)))


def test_an_ephemeral_volume_has_a_claim_of_the_pods_name() -> None:
    claim = volume_claim("one-scratch")
    storage = Storage.of([claim], [], [storage_class("ebs", zones=[A], provisioner="kubernetes.io/aws-ebs")])

    assert waiting_for(ephemeral("one"), storage) == []
    assert waiting_for(ephemeral("two"), storage) == ["claim default/two-scratch is missing"]
    assert unreachable(ephemeral("one"), {ZONE: B}, storage) == ["claim default/one-scratch"]
    assert attached([ephemeral("one")], storage) == {"ebs.csi.aws.com": {("default", "one-scratch")}}


def test_what_is_being_deleted_is_waited_for() -> None:
    one = pod(claims=["data"])
    claim = volume_claim("data", volume_name="v")
    going = replace_fields(claim, metadata=replace_fields(claim.metadata, deletion_timestamp=NOON))
    disk = volume("v")
    gone = replace_fields(disk, metadata=replace_fields(disk.metadata, deletion_timestamp=NOON))

    assert waiting_for(one, Storage.of([claim], [disk])) == []
    assert waiting_for(one, Storage.of([going], [disk])) == ["claim default/data is being deleted"]
    assert "missing or being deleted" in waiting_for(one, Storage.of([claim], [gone]))[0]


def test_the_host_of_a_local_volume_is_passed_over() -> None:
    one = pod(claims=["data"])
    term = node_term(expression(HOSTNAME, "In", "n"), expression(ZONE, "In", A))
    only_host = node_term(expression(HOSTNAME, "In", "n"))

    for terms, reached in (([term], False), ([term, only_host], True)):
        disk = volume("v", terms=terms)
        local = replace_fields(disk, spec=replace_fields(disk.spec, local=LocalSource(), csi=None))
        storage = Storage.of([volume_claim("data", volume_name="v")], [local])
        assert (unreachable(one, {ZONE: B, HOSTNAME: "other"}, storage) == []) is reached
        assert unreachable(one, {ZONE: A, HOSTNAME: "other"}, storage) == []
        assert attached([one], storage) == {}


# The cluster after a plan.


def test_a_plan_that_is_carried_out_binds_its_pods_and_uses_up_limits() -> None:
    joined, moved = pods(2)
    problem = problem_of(
        joined, moved, nodes=(node("n"),), nodepools=(nodepool(limits={"cpu": "8", "nodes": "5"}),)
    )
    plan = plan_of(buy(problem, moved, zone=B), existing={"n": (joined,)})

    after = carried_out(problem.snapshot(), plan)

    standing, bought = after.nodes
    assert [each.metadata.name for each in standing.pods] == ["pod-0"]
    assert standing.pods[0].spec.node_name == "n"
    assert (bought.labels[ZONE], bought.pool, bought.name) == (B, "default", "new-0")
    assert bought.pods[0].spec.node_name == "new-0"
    assert after.pools[0].limits == {"cpu": 4000, "nodes": 3}


def test_a_plan_that_is_carried_out_uses_up_reservations() -> None:
    three = pods(3)
    kind = instance_type(offerings=[reserved("cr-1", 1), reserved("cr-2", 3), offering(A)])
    problem = problem_of(*three, types=(kind,))
    plan = plan_of(*(buy(problem, each, capacity_type="reserved") for each in three))

    after = carried_out(problem.snapshot(), plan)

    left = {each.reservation_id: each for each in after.pools[0].catalogue.types[0].offerings}
    assert (left["cr-1"].reservation_capacity, left["cr-1"].available) == (0, False)
    assert (left["cr-2"].reservation_capacity, left["cr-2"].available) == (1, True)
    assert left[""].available


def test_nodes_that_cannot_be_bought_do_not_stand_afterwards() -> None:
    one = pod()
    problem = problem_of(one)
    ghost = replace(buy(problem, one), instance_type="x9.huge")

    assert carried_out(problem.snapshot(), plan_of(ghost)).nodes == ()
