# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.scheduling.packing import Shape
from karpenter.scheduling.packing.rules import NodeRules, Rules


def _pod(**rules: object) -> Shape:
    return Shape(size=(1,), count=1, mask=1, **rules)  # type: ignore[arg-type]


def test_an_exclusive_pod_shuts_out_its_like() -> None:
    rules = Rules([_pod(counted=1, caps=((0, 1),)), _pod()])
    node = NodeRules()

    shut = rules.enter(node, 0, 1)

    assert shut == 0b01
    assert rules.binding == 0b01
    assert rules.forced == [(0b01, 1)]


def test_a_pod_that_shuns_a_group_is_shunned_by_it() -> None:
    rules = Rules([_pod(caps=((0, 0),)), _pod(counted=1)])

    assert rules.enter(NodeRules(), 0, 1) == 0b10
    assert rules.enter(NodeRules(), 1, 1) == 0b01
    assert rules.forced == []


def test_a_cap_counts_all_pods_of_its_group() -> None:
    rules = Rules([_pod(counted=1, caps=((0, 3),)), _pod(counted=1)])
    node = NodeRules()

    assert rules.most(node, 0) == 3
    assert rules.enter(node, 1, 1) == 0
    assert rules.most(node, 0) == 2
    assert rules.enter(node, 0, 1) == 0
    assert rules.most(node, 1) == 1
    assert rules.enter(node, 1, 1) == 0b11


def test_an_owner_bears_only_as_many_as_its_limit() -> None:
    rules = Rules([_pod(caps=((0, 1),)), _pod(caps=((0, 4),)), _pod(counted=1)])
    node = NodeRules()

    assert rules.enter(node, 2, 1) == 0
    assert rules.enter(node, 2, 1) == 0b001
    assert rules.enter(node, 1, 1) == 0


def test_the_smallest_limit_on_a_node_counts() -> None:
    rules = Rules([_pod(caps=((0, 2),)), _pod(caps=((0, 5),)), _pod(counted=1)])
    node = NodeRules()
    rules.enter(node, 0, 1)
    rules.enter(node, 1, 1)

    assert node.caps == {0: 2}
    assert rules.most(node, 2) == 2
    assert rules.enter(node, 2, 2) == 0b100


def test_pods_that_want_one_port_stand_apart() -> None:
    rules = Rules([_pod(ports=1, port_conflicts=1), _pod(ports=2, port_conflicts=2), _pod()])

    assert rules.enter(NodeRules(), 0, 1) == 0b001
    assert rules.most(NodeRules(), 0) == 1
    assert rules.forced == [(0b001, 1), (0b010, 1)]


def test_a_port_conflict_counts_both_ways() -> None:
    rules = Rules([_pod(ports=1), _pod(port_conflicts=1)])

    assert rules.enter(NodeRules(), 0, 1) == 0b10
    assert rules.enter(NodeRules(), 1, 1) == 0b01
    assert rules.forced == []


def test_a_standing_node_refuses_by_what_it_holds() -> None:
    rules = Rules([_pod(counted=1), _pod(caps=((0, 0),)), _pod(port_conflicts=4), _pod()])

    assert rules.refused(NodeRules({0: 2}, {0: 2}), 0) == 0b0011
    assert rules.refused(NodeRules({0: 1}, {0: 2}), 4) == 0b0110
    assert rules.refused(NodeRules({}, {7: 0}), 0) == 0


def test_a_group_that_only_a_node_caps_counts_too() -> None:
    rules = Rules([_pod(counted=1)])
    node = NodeRules({0: 1}, {0: 2})

    assert rules.refused(node, 0) == 0
    assert rules.enter(node, 0, 1) == 0b1


def test_a_pod_at_odds_with_itself_is_refused_by_an_empty_node() -> None:
    rules = Rules([_pod(counted=1, caps=((0, 0),)), _pod(counted=1, caps=((0, 1),))])

    assert rules.refused(NodeRules(), 0) == 0b01


def test_a_huge_limit_costs_nothing() -> None:
    rules = Rules([_pod(counted=1, caps=((0, 1 << 40),))])

    assert rules.most(NodeRules(), 0) == 1 << 40
    assert rules.enter(NodeRules(), 0, 1000) == 0


def test_sets_that_stand_apart_grow_with_the_limit() -> None:
    rules = Rules([_pod(counted=1, caps=((0, 1),)), _pod(counted=1, caps=((0, 2),))])

    assert rules.forced == [(0b01, 1), (0b11, 2)]
