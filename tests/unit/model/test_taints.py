# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.core import Taint, Toleration
from karpenter.api.labels import DISRUPTED_TAINT, REGISTERING_TAINT, UNREGISTERED_TAINT
from karpenter.model.taints import (
    canonical_tolerations,
    discouraging_taints,
    forbidding_taints,
    is_ephemeral,
    merge_taints,
    same_taint,
    tolerates,
    tolerates_all,
)

TEAM = Taint(key="team", value="a", effect="NoSchedule")
SLOW = Taint(key="slow", effect="PreferNoSchedule")
BAD = Taint(key="bad", effect="NoExecute")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="team", value="a"), True),
        (Toleration(key="team", value="a", operator=""), True),
        (Toleration(key="team", value="b"), False),
        (Toleration(key="team"), False),
        (Toleration(key="other", value="a"), False),
        (Toleration(key="team", operator="Exists"), True),
        (Toleration(key="team", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="team", operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(value="a"), True),
        (Toleration(key="team", value="a", operator="Gt"), False),
    ],
)
def test_a_toleration_matches_by_key_operator_value_and_effect(
    toleration: Toleration, *, expected: bool
) -> None:
    assert tolerates([toleration], TEAM) is expected


def test_a_taint_that_only_dissuades_is_told_apart_from_those_that_forbid() -> None:
    taints = (TEAM, SLOW, BAD)
    tolerations = (Toleration(key="team", operator="Exists"),)

    assert forbidding_taints(taints, tolerations) == (BAD,)
    assert discouraging_taints(taints, tolerations) == (SLOW,)
    assert forbidding_taints(taints, ()) == (TEAM, BAD)
    assert discouraging_taints((SLOW,), (Toleration(key="slow", operator="Exists"),)) == ()


def test_wishes_of_a_node_count_only_when_heeded() -> None:
    assert tolerates_all((SLOW,), ())
    assert not tolerates_all((SLOW,), (), heed_wishes=True)
    assert tolerates_all((SLOW,), (Toleration(operator="Exists"),), heed_wishes=True)
    assert not tolerates_all((SLOW, TEAM), ())


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        (Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"), True),
        (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"), True),
        (Taint(key="node.kubernetes.io/unreachable", effect="NoSchedule"), True),
        (Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"), False),
        (
            Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule"),
            True,
        ),
        (UNREGISTERED_TAINT, True),
        (REGISTERING_TAINT, True),
        (Taint(key="readiness.k8s.io/network", effect="NoExecute"), True),
        (DISRUPTED_TAINT, False),
        (TEAM, False),
    ],
)
def test_taints_that_a_new_node_loses_by_itself_are_known(taint: Taint, *, expected: bool) -> None:
    assert is_ephemeral(taint) is expected


def test_merging_keeps_the_first_of_the_same_taint_and_the_order() -> None:
    other_value = Taint(key="team", value="b", effect="NoSchedule")

    assert same_taint(TEAM, other_value)
    assert not same_taint(TEAM, Taint(key="team", value="a", effect="NoExecute"))
    assert merge_taints((TEAM, SLOW), (other_value, BAD)) == (TEAM, SLOW, BAD)


def test_tolerations_that_mean_the_same_become_equal() -> None:
    one = (
        Toleration(key="b", operator="Exists", value="x", toleration_seconds=5),
        Toleration(key="a", value="1"),
    )
    other = (
        Toleration(key="a", value="1", operator=""),
        Toleration(key="b", operator="Exists"),
        Toleration(key="a", value="1", toleration_seconds=9),
    )

    assert canonical_tolerations(one) == canonical_tolerations(other)
    assert canonical_tolerations(one) == (
        Toleration(key="a", value="1"),
        Toleration(key="b", operator="Exists"),
    )
