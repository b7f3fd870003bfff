# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.labels import WELL_KNOWN
from karpenter.model.spelling import nearest_label


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("zone", "topology.kubernetes.io/zone"),
        ("failure-domain.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("karpenter.sh/zone", "topology.kubernetes.io/zone"),
        ("topology.kubernetes.io/zome", "topology.kubernetes.io/zone"),
        ("topology.kubernetes.io/zoen", "topology.kubernetes.io/zone"),
        ("karpenter.k8s.aws/instance-familiy", "karpenter.k8s.aws/instance-family"),
        ("node.kubernetes.io/instancetype", "node.kubernetes.io/instance-type"),
        ("team", ""),
        ("example.com/colour", ""),
        ("os", "kubernetes.io/os"),
        ("", ""),
    ],
)
def test_a_mistyped_label_is_recognised_and_a_new_one_left_alone(typed: str, meant: str) -> None:
    assert nearest_label(typed, WELL_KNOWN) == meant


def test_of_namesakes_the_closest_is_meant_and_ties_go_by_the_alphabet() -> None:
    assert (
        nearest_label("team.example.com/tier", frozenset({"team.example.org/tier", "x/tier"}))
        == "team.example.org/tier"
    )
    assert nearest_label("tier", frozenset({"b/tier", "a/tier"})) == "a/tier"


def test_a_known_label_is_not_its_own_correction() -> None:
    assert nearest_label("tier", frozenset({"tier"})) == ""


def test_with_nothing_known_nothing_is_suggested() -> None:
    assert nearest_label("tier", frozenset()) == ""
