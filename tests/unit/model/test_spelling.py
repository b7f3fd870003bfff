# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api import labels as names
from karpenter.api.labels import WELL_KNOWN
from karpenter.model.spelling import meant_label, meant_value, nearest_label


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


def test_values_of_another_label_are_told_apart_from_mistyped_ones() -> None:
    values = {names.INSTANCE_CATEGORY: {"c", "m"}, names.ZONE_ID: {"usw2-az1"}}

    def values_of(label: str) -> set[str]:
        return values.get(label, set())

    assert meant_label(names.INSTANCE_TYPE, ["c", "m"], values_of) == names.INSTANCE_CATEGORY
    assert meant_label(names.INSTANCE_TYPE, ["c", "z"], values_of) == ""
    assert meant_label(names.ZONE, ["usw2-az1"], values_of) == names.ZONE_ID
    assert meant_label("team", ["c"], values_of) == ""


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        (names.ARCH, "x86_64", "amd64"),
        (names.ARCH, "X86_64", "amd64"),
        (names.ARCH, "aarch64", "arm64"),
        (names.ARCH, "amd46", "amd64"),
        (names.ARCH, "sparc", ""),
        ("team", "x86_64", ""),
        ("team", "a" * 400, ""),
    ],
)
def test_a_value_is_corrected_where_one_is_meant(key: str, value: str, meant: str) -> None:
    assert meant_value(key, value, frozenset({"amd64", "arm64"})) == meant


def test_an_architecture_that_is_not_offered_is_not_meant() -> None:
    assert meant_value(names.ARCH, "aarch64", frozenset({"amd64"})) == ""
