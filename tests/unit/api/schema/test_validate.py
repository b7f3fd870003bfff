# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.schema.correlation import Correlation
from karpenter.api.schema.structural import compile_schema
from karpenter.api.schema.validate import schema_problems


def complaints(schema: dict[str, Any], value: Any, path: str = "spec.x") -> list[str]:
    return [str(problem) for problem in schema_problems(value, compile_schema(schema), path)]


def wrong_type(wanted: str, found: str) -> str:
    return f'spec.x: Invalid value: "{found}": spec.x in body must be of type {wanted}: "{found}"'


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        (
            "string",
            ["", "x"],
            [(5, "integer"), (True, "boolean"), ([], "array"), ({}, "object"), (None, "null")],
        ),
        ("integer", [5, 5.0, -0.0], [("5", "string"), (5.5, "number"), (True, "boolean"), (2**64, "number")]),
        ("number", [5, 5.5, 2**64], [("5", "string"), (False, "boolean")]),
        ("boolean", [True, False], [(1, "integer"), ("true", "string")]),
        ("array", [[]], [({}, "object")]),
        ("object", [{}], [([], "array")]),
    ],
)
def test_a_value_has_the_type_of_its_schema(type_: str, good: list[Any], bad: list[tuple[Any, str]]) -> None:
    for value in good:
        assert complaints({"type": type_}, value) == []
    for value, found in bad:
        assert complaints({"type": type_}, value) == [wrong_type(type_, found)]


def test_a_float_passes_for_an_integer_if_it_is_all_but_whole_and_small() -> None:
    integer = {"type": "integer"}

    assert complaints(integer, 1e9 + 0.1) == []
    assert complaints(integer, 2.0**60) != []
    assert complaints(integer, -1000000000.1) != []
    assert complaints(integer, 0.0000000001) != []
    assert complaints(integer, float("inf")) != []


def test_an_int_or_string_is_either() -> None:
    schema = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}

    assert complaints(schema, 5) == complaints(schema, "5") == []
    assert complaints(schema, True) == [
        wrong_type("integer,string", "boolean"),
        '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
        wrong_type("integer", "boolean"),
    ]


def test_null_is_a_value_only_where_it_is_allowed() -> None:
    assert complaints({"type": "string", "nullable": True}, None) == []
    assert complaints({}, None) == []
    assert complaints({"type": "string", "nullable": True, "enum": ["a"]}, None) == [
        'spec.x: Unsupported value: null: supported values: "a"'
    ]


def test_lengths_are_counted_in_characters_and_one_complaint_is_enough() -> None:
    schema = {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"}

    assert complaints(schema, "ab") == []
    assert complaints(schema, "éé") == [
        "spec.x: Invalid value: \"éé\": spec.x in body should match '^[a-z]+$'"
    ]
    assert complaints(schema, "a") == [
        'spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long'
    ]
    assert complaints(schema, "éééé") == ["spec.x: Too long: may not be more than 3 bytes"]


def test_a_format_is_checked_and_a_list_slips_through() -> None:
    schema = {"type": "string", "format": "date-time"}

    assert complaints(schema, "2025-01-01T00:00:00Z") == []
    assert complaints(schema, "x") == [
        'spec.x: Invalid value: "x": spec.x in body must be of type date-time: "x"'
    ]
    assert complaints(schema, 5) == [
        'spec.x: Invalid value: "int64": spec.x in body must be of type date-time: "int64"'
    ]
    assert complaints(schema, True) == [
        'spec.x: Invalid value: "": spec.x in body must be of type date-time: ""'
    ]
    assert complaints(schema, []) == []


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"minimum": 1}, 0, "0: spec.x in body should be greater than or equal to 1"),
        ({"minimum": 1, "exclusiveMinimum": True}, 1, "1: spec.x in body should be greater than 1"),
        ({"maximum": 5}, 6, "6: spec.x in body should be less than or equal to 5"),
        ({"maximum": 5, "exclusiveMaximum": True}, 5, "5: spec.x in body should be less than 5"),
        ({"maximum": 2.5}, 2.75, "2.75: spec.x in body should be less than or equal to 2.5"),
        ({"multipleOf": 2}, 3, "3: spec.x in body should be a multiple of 2"),
        ({"multipleOf": 0.5}, 0.75, "0.75: spec.x in body should be a multiple of 0.5"),
        ({"multipleOf": 0.5}, 3, "0: factor MultipleOf declared for spec.x must be positive: 0"),
    ],
)
def test_a_number_keeps_its_limits(schema: dict[str, Any], value: float, words: str) -> None:
    assert complaints({"type": "number", **schema}, value) == [f"spec.x: Invalid value: {words}"]


def test_a_number_within_its_limits_is_good() -> None:
    schema = {"type": "number", "minimum": 1, "maximum": 5, "multipleOf": 1}

    assert complaints(schema, 1) == complaints(schema, 5.0) == []
    # A limit meets a whole number as a whole number.
    assert complaints({"maximum": 2.5}, 2) == []


def test_an_enumeration_compares_numbers_by_value_and_nothing_else_across_types() -> None:
    schema = {"enum": [1, 2.5, "a", True, None]}

    assert complaints(schema, 1.0) == complaints(schema, 2.5) == complaints(schema, True) == []
    assert complaints(schema, 1.5) == []
    assert complaints(schema, "b") == [
        'spec.x: Unsupported value: "b": supported values: "1", "2.5", "a", "true", "null"'
    ]
    assert complaints({"enum": ["1"]}, 1) == ['spec.x: Unsupported value: 1: supported values: "1"']
    assert complaints({"enum": [1]}, True) == ['spec.x: Unsupported value: true: supported values: "1"']


def test_lists_and_mappings_have_a_size() -> None:
    several = {"minItems": 1, "maxItems": 2, "minProperties": 1, "maxProperties": 2}

    assert complaints(several, [1]) == complaints(several, {"a": 1}) == []
    assert complaints(several, []) == [
        "spec.x: Invalid value: 0: spec.x in body should have at least 1 items"
    ]
    assert complaints(several, {}) == [
        "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"
    ]
    assert complaints(several, [1, 2, 3]) == ["spec.x: Too many: 3: must have at most 2 items"]
    assert complaints(several, {"a": 1, "b": 2, "c": 3}) == ["spec.x: Too many: 3: must have at most 2 items"]


def test_every_problem_is_found_at_its_own_path() -> None:
    schema = {
        "required": ["r"],
        "properties": {
            "list": {"items": {"properties": {"a": {"type": "string"}}}},
            "map": {"additionalProperties": {"type": "string"}},
            "other": {},
        },
    }
    value = {"list": [{"a": "x"}, {"a": 5}], "map": {"k.e/y": 5}, "unknown": 5, "other": 5}

    problems = schema_problems(value, compile_schema(schema))

    assert [problem.field for problem in problems] == ["list[1].a", "map.k.e/y", "r"]


def test_a_problem_of_the_whole_has_no_field() -> None:
    assert complaints({"type": "object"}, 5, path="") == [
        '<nil>: Invalid value: "integer":  in body must be of type object: "integer"'
    ]


def test_any_of_reports_the_branch_that_came_nearest() -> None:
    schema = {
        "anyOf": [
            {"properties": {"a": {"enum": ["x"]}}, "required": ["b"]},
            {"properties": {"a": {"type": "string", "enum": ["y"]}}},
        ]
    }

    assert complaints(schema, {"a": "y"}) == []
    assert complaints(schema, {"a": "z"}) == [
        '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
        'spec.x.a: Unsupported value: "z": supported values: "y"',
    ]


def test_one_of_wants_exactly_one() -> None:
    schema = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    one = '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '

    assert complaints(schema, {"a": 1}) == []
    assert complaints(schema, {"a": 1, "b": 1}) == [one + "Found 2 valid alternatives"]
    assert complaints(schema, {}) == [one + "Found none valid", "spec.x.a: Required value"]


def test_all_of_wants_all() -> None:
    schema = {"allOf": [{"required": ["a"]}, {"required": ["b"]}]}
    all_ = '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)'

    assert complaints(schema, {"a": 1, "b": 1}) == []
    assert complaints(schema, {"a": 1}) == ["spec.x.b: Required value", all_]
    assert complaints(schema, {})[-1] == all_ + ". None validated"


def test_not_wants_the_opposite() -> None:
    schema = {"not": {"required": ["a"]}}

    assert complaints(schema, {}) == []
    assert complaints(schema, {"a": 1}) == [
        '<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'
    ]


def test_the_same_complaint_is_made_once() -> None:
    assert complaints({"type": "string", "allOf": [{"type": "string"}]}, 5) == [
        wrong_type("string", "integer"),
        '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated',
    ]


def test_what_did_not_change_is_forgiven_but_never_kind_and_version() -> None:
    node = compile_schema(
        {
            "properties": {
                "kind": {"enum": ["A"]},
                "spec": {
                    "properties": {
                        "a": {"type": "string"},
                        "b": {"type": "string"},
                        "keyed": {
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["k"],
                            "items": {"properties": {"v": {"type": "string"}}},
                        },
                        "list": {"items": {"type": "string"}},
                    }
                },
            }
        }
    )
    old = {
        "kind": "B",
        "spec": {"a": 5, "b": "x", "keyed": [{"k": 1, "v": 1}, {"k": 2, "v": 2}], "list": [1]},
    }
    new = {
        "kind": "B",
        "spec": {"a": 5, "b": 6, "keyed": [{"k": 2, "v": 2}, {"k": 3, "v": 3}], "list": [1, 2]},
    }

    problems = schema_problems(new, node, correlation=Correlation(new, old, node))

    assert [problem.field for problem in problems] == [
        "kind",
        "spec.b",
        "spec.keyed[1].v",
        "spec.list[0]",
        "spec.list[1]",
    ]
