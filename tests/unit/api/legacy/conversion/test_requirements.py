# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.legacy.conversion.requirements import converted_requirements, default_requirements
from tests.unit.api.legacy.builders import converted, journal, machine, provisioner

ALL_DEFAULTS = {
    "kubernetes.io/os": ("In", ["linux"]),
    "kubernetes.io/arch": ("In", ["amd64"]),
    "karpenter.sh/capacity-type": ("In", ["on-demand"]),
    "karpenter.k8s.aws/instance-category": ("In", ["c", "m", "r"]),
    "karpenter.k8s.aws/instance-generation": ("Gt", ["2"]),
}


def defaults(*given: str) -> dict[str, Any]:
    return {each["key"]: (each["operator"], each["values"]) for each in default_requirements(given)}


def test_everything_unsaid_gets_the_old_webhooks_defaults() -> None:
    assert defaults() == ALL_DEFAULTS


@pytest.mark.parametrize(
    "key",
    [
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "karpenter.k8s.aws/instance-family",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/instance-generation",
    ],
)
def test_a_word_about_types_silences_both_defaults_about_types(key: str) -> None:
    assert set(defaults(key)) == {"kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/capacity-type"}


def test_an_old_kubernetes_name_counts_as_said() -> None:
    assert "kubernetes.io/arch" not in defaults("beta.kubernetes.io/arch")


def test_a_label_counts_as_said_for_the_opposite_default_would_leave_nothing() -> None:
    (new,) = converted(provisioner(labels={"kubernetes.io/arch": "arm64"}))

    assert "kubernetes.io/arch" not in [
        each["key"] for each in new["spec"]["template"]["spec"]["requirements"]
    ]


def test_written_requirements_come_first_and_unchanged() -> None:
    own = {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}

    (new,) = converted(provisioner(requirements=[own]))

    requirements = new["spec"]["template"]["spec"]["requirements"]
    assert requirements[0] == own
    assert [each["key"] for each in requirements[1:]] == list(ALL_DEFAULTS)[1:]


def test_a_claim_gets_no_defaults_for_its_pool_had_them() -> None:
    own = {"key": "karpenter.sh/provisioner-name", "operator": "In", "values": ["a"]}

    (new,) = converted(machine(requirements=[own]))

    assert new["spec"]["requirements"] == [{**own, "key": "karpenter.sh/nodepool"}]


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_a_comparison_with_what_is_no_number_is_refused_at_the_value(operator: str) -> None:
    notes = journal()
    own = {"key": "karpenter.k8s.aws/instance-cpu", "operator": operator, "values": ["abc"]}

    converted_requirements([own], "spec.requirements", notes)

    (refusal,) = notes.refusals
    assert str(refusal) == (
        f'Provisioner default: spec.requirements[0].values[0]: "abc" is not a number (operator {operator} needs one)'
    )
    assert refusal.hint == f'for example karpenter.k8s.aws/instance-cpu {operator} "4"'


def test_a_comparison_with_two_numbers_is_refused() -> None:
    notes = journal()

    converted_requirements([{"key": "a", "operator": "Gt", "values": ["1", "2"]}], "spec.requirements", notes)

    assert notes.refusals[0].reason == "operator Gt needs exactly one value, here are 2"


def test_in_without_values_is_refused() -> None:
    notes = journal()

    converted_requirements([{"key": "a", "operator": "In"}], "spec.requirements", notes)

    assert notes.refusals[0].field == "spec.requirements[0].values"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("karpenter.k8s.aws/instance-pods", "maxPods"),
        ("karpenter.k8s.aws/instance-ami-id", "image selector"),
        ("karpenter.sh/machine-name", ""),
    ],
)
def test_a_requirement_on_a_label_that_v1_lacks_is_refused(key: str, hint: str) -> None:
    notes = journal()

    converted_requirements([{"key": key, "operator": "Exists"}], "spec.requirements", notes)

    (refusal,) = notes.refusals
    assert refusal.field == "spec.requirements[0].key"
    assert hint in refusal.hint
