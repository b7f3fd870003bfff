# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.api import labels as names
from karpenter.kit.clock import FakeClock
from karpenter.model.resources import CPU
from karpenter.state import Member, Nominations, effective, node_view
from tests.unit.state.worlds import claim, node, stored_class, stored_pool

REGISTERED = {names.NODEPOOL: "default", names.REGISTERED: "true", "team": "a"}
INITIALIZED = {**REGISTERED, names.INITIALIZED: "true"}


def test_before_registration_the_claim_speaks_for_labels_and_taints() -> None:
    member = Member(claim("c1", provider_id="p"), node("n1", "p", {"kubernetes.io/arch": "amd64"}))

    assert member.labels[names.NODEPOOL] == "default"
    assert member.labels["kubernetes.io/arch"] == "amd64"
    assert [taint.key for taint in member.taints] == ["team"]
    assert not member.is_registered


def test_until_it_is_initialised_passing_taints_do_not_count() -> None:
    taints = [
        {"key": "team", "effect": "NoSchedule"},
        {"key": "cni", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]
    young = Member(claim("c1", provider_id="p"), node("n1", "p", REGISTERED, taints=taints))
    grown = Member(claim("c1", provider_id="p"), node("n1", "p", INITIALIZED, taints=taints))

    assert [taint.key for taint in young.taints] == ["team"]
    assert len(grown.taints) == 3
    assert young.is_registered
    assert not young.is_initialized
    assert grown.is_initialized


def test_resources_that_are_not_reported_yet_come_from_the_claim() -> None:
    promised = {"cpu": "4", "nvidia.com/gpu": "1"}
    young = Member(
        claim("c1", provider_id="p", allocatable=promised),
        node("n1", "p", REGISTERED, allocatable={"cpu": "3900m", "nvidia.com/gpu": "0"}),
    )
    grown = Member(young.claim, node("n1", "p", INITIALIZED, allocatable={"cpu": "3900m"}))

    view = node_view(young, (), {})

    assert dict(view.allocatable) == {CPU: 3900, "nvidia.com/gpu": 1}
    assert dict(node_view(grown, (), {}).allocatable) == {CPU: 3900}


def test_a_foreign_node_is_taken_as_it_stands() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    member = Member(None, node("n1", taints=[taint]))

    assert member.is_registered
    assert member.is_initialized
    assert not member.is_managed
    assert [each.key for each in member.taints] == ["node.kubernetes.io/not-ready"]
    assert member.pool == ""


def test_nothing_at_all_has_no_name_and_no_taints() -> None:
    assert Member().name == ""
    assert Member().taints == ()
    assert not Member().is_launched


def test_conditions_of_a_claim_are_read() -> None:
    member = Member(claim("c1", provider_id="p", conditions=[{"type": "Launched", "status": "True"}]))

    assert member.has_condition("Launched")
    assert not member.has_condition("Registered")
    assert not Member(None, node("n1")).has_condition("Launched")
    assert member.is_launched


def test_a_pool_written_through_v1beta1_is_read_as_such() -> None:
    old = stored_pool(
        group="",
        disruption={"consolidationPolicy": "WhenUnderutilized", "expireAfter": "24h"},
        weight=5,
    )
    # A read through v1 fills in v1's own default.
    old.spec["template"]["spec"]["expireAfter"] = "720h"

    found = effective([old], [stored_class()])

    pool = found.pools["default"]
    assert found.misread == ()
    assert pool.spec.disruption.consolidation_policy == "WhenEmptyOrUnderutilized"
    assert pool.spec.template.spec.expire_after == "24h"
    assert pool.spec.template.spec.node_class_ref.group == "karpenter.k8s.aws"
    assert (pool.metadata.uid, pool.metadata.generation, pool.status.nodes) == ("uid-default", 3, 2)


def test_a_class_written_through_v1beta1_gets_its_image_terms() -> None:
    old = stored_class(amiSelectorTerms=None, amiFamily="AL2023")

    found = effective([], [old])

    assert found.classes["default"].spec.ami_selector_terms[0].alias == "al2023@latest"
    assert found.classes["default"].metadata.uid == "uid-default"


def test_what_cannot_be_understood_is_named_and_holds_up_nobody() -> None:
    broken = stored_pool("broken", template={"spec": {"requirements": 5, "nodeClassRef": {"group": "g"}}})
    ubuntu = stored_class("old", amiSelectorTerms=None, amiFamily="Ubuntu")

    found = effective([broken, stored_pool("fine")], [ubuntu])

    assert list(found.pools) == ["fine"]
    assert {(each.kind, each.name) for each in found.misread} >= {("NodePool", "broken")}
    assert all(each.problem for each in found.misread)


def test_a_promise_moves_with_the_pod_and_can_be_taken_back() -> None:
    clock = FakeClock()
    book = Nominations(clock)
    book.promise(["a", "b"], "c1", 10)
    book.promise(["a"], "c2", 10)

    assert book.member_of("a") == "c2"
    assert book.pods_of("c1") == ("b",)
    assert book.withdraw_all("c1") == ("b",)
    assert book.withdraw("nobody") is None
    clock.tick(10)
    assert book.pods_of("c2") == ()
    assert len(book) == 0
