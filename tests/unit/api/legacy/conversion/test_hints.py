# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.legacy.conversion.hints import explained
from karpenter.api.legacy.provisioner import ProvisionerSpec
from karpenter.api.nodepool import NodePoolSpec
from karpenter.api.schema import Problem, ProblemType


def explain(field: str, value: Any = None, type_: ProblemType = ProblemType.INVALID) -> tuple[str, str]:
    return explained(Problem(field, type_, value, "should match a pattern"), ProvisionerSpec)


@pytest.mark.parametrize(
    ("field", "value", "reason", "words"),
    [
        ("spec.disruption.expireAfter", "30", '"30" is not a duration', '"30s"'),
        ("spec.disruption.consolidateAfter", "3d", '"3d" is not a duration', '"72h"'),
        ("spec.disruption.budgets[0].duration", "30s", 'budget duration "30s"', '"30m"'),
        ("spec.limits.resources.memory", "10 GB", '"10 GB"', "10Gi"),
        ("spec.kubeletConfiguration.kubeReserved.cpu", "half", '"half"', ""),
    ],
)
def test_the_reader_of_such_texts_knows_what_to_write(
    field: str, value: str, reason: str, words: str
) -> None:
    said, hint = explain(field, value)

    assert reason in said
    assert words in hint


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("spec.taints[0].taints", "one level up"),
        ("spec.ttlSecondAfterEmpty", "did you mean ttlSecondsAfterEmpty?"),
        ("spec.requirements[3].operater", "did you mean operator?"),
        ("spec.kubeletConfiguration.maxPod", "did you mean maxPods?"),
        ("spec.requirements[3].values.x", ""),
        ("spec.colour", ""),
        ("metadata.nam", ""),
    ],
)
def test_an_unknown_field_is_told_where_it_belongs_or_what_was_meant(field: str, words: str) -> None:
    said, hint = explain(field, type_=ProblemType.UNKNOWN_FIELD)

    assert said == "should match a pattern"
    assert hint == words or (words and words in hint)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spec.weight", 1000),
        ("spec.limits.resources.memory", {"a": 1}),
        ("spec.disruption.expireAfter", "30s"),
        ("spec", None),
    ],
)
def test_where_nothing_better_is_known_the_schema_has_the_word(field: str, value: Any) -> None:
    said, hint = explain(field, value)

    assert said.endswith("should match a pattern")
    assert hint == ""


def test_a_value_of_the_wrong_type_keeps_the_schemas_words_and_is_shown_a_good_one() -> None:
    problem = Problem(
        "spec.disruption.expireAfter", ProblemType.TYPE_INVALID, "integer", "must be of type string"
    )

    reason, hint = explained(problem, NodePoolSpec)

    assert reason == problem.message
    assert "720h" in hint
