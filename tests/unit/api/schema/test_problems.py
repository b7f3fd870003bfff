# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.api.schema.problems import (
    Problem,
    ProblemType,
    ValidationFailedError,
    child,
    distinct,
    duplicate,
    forbidden,
    indexed,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
    unknown_field,
)
from karpenter.errors import KarpenterError


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (invalid("spec.limits", "x", "message"), 'spec.limits: Invalid value: "x": message'),
        (invalid("spec.weight", 5, "message"), "spec.weight: Invalid value: 5: message"),
        (invalid("spec.weight", 1.5, "message"), "spec.weight: Invalid value: 1.5: message"),
        (invalid("spec.flag", True, "message"), "spec.flag: Invalid value: true: message"),
        (invalid("spec.flag", False, "message"), "spec.flag: Invalid value: false: message"),
        (invalid("<nil>", None, "message"), "<nil>: Invalid value: null: message"),
        (type_invalid("spec", "string", "message"), 'spec: Invalid value: "string": message'),
        (required("spec.a"), "spec.a: Required value"),
        (required("spec.a", "because"), "spec.a: Required value: because"),
        (
            not_supported("spec.a", "x", ["a", "b"]),
            'spec.a: Unsupported value: "x": supported values: "a", "b"',
        ),
        (duplicate("spec.a[1]", {"key": "x"}), 'spec.a[1]: Duplicate value: {"key":"x"}'),
        (forbidden("spec.a", "not here"), "spec.a: Forbidden: not here"),
        (too_long("spec.a", 1), "spec.a: Too long: may not be more than 1 byte"),
        (too_long("spec.a", 63), "spec.a: Too long: may not be more than 63 bytes"),
        (too_many("spec.a", 3, 1), "spec.a: Too many: 3: must have at most 1 item"),
        (too_many("spec.a", 3, 2), "spec.a: Too many: 3: must have at most 2 items"),
        (unknown_field("spec.foo"), 'unknown field "spec.foo"'),
    ],
)
def test_a_problem_reads_like_the_api_server(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_types_have_the_names_of_status_causes() -> None:
    assert str(ProblemType.TYPE_INVALID) == "FieldValueTypeInvalid"
    assert required("a").type == "FieldValueRequired"


def test_paths_are_dotted_and_indexed() -> None:
    assert child("", "spec") == "spec"
    assert child(indexed("spec.a", 2), "b") == "spec.a[2].b"


def test_problems_that_read_the_same_are_told_once() -> None:
    assert distinct([required("a"), required("b"), required("a")]) == (required("a"), required("b"))


def test_an_error_tells_every_problem_on_a_line_of_its_own() -> None:
    problems = [invalid("spec.a[2].b", "x", "no"), required("spec.c")]

    error = ValidationFailedError("NodePool", "default", problems)

    assert isinstance(error, KarpenterError)
    assert error.problems == tuple(problems)
    assert error.message.splitlines() == [
        'NodePool default: spec.a[2].b: Invalid value: "x": no',
        "NodePool default: spec.c: Required value",
    ]
    assert error.hint == "`kubectl explain nodepool.spec.a.b` describes what is allowed"


def test_an_error_without_name_and_field_still_says_what_and_where() -> None:
    error = ValidationFailedError("NodePool", "", [invalid("<nil>", "", "no")])

    assert error.message == 'NodePool: <nil>: Invalid value: "": no'
    assert error.hint == "`kubectl explain nodepool` describes what is allowed"
