# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from karpenter.api.schema.structural import MISSING, SchemaError, compile_schema, json_type


def test_every_keyword_is_compiled() -> None:
    node = compile_schema(
        {
            "type": "object",
            "description": "ignored",
            "required": ["a"],
            "maxProperties": 3,
            "properties": {
                "a": {
                    "type": "string",
                    "pattern": "^x$",
                    "enum": ["x"],
                    "format": "date-time",
                    "default": "x",
                },
                "b": {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 1},
                    "x-kubernetes-list-type": "set",
                },
                "c": {"type": "object", "additionalProperties": {"type": "number"}},
                "d": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            },
            "x-kubernetes-validations": [{"rule": " self.a == 'x' ", "message": " m ", "fieldPath": ".a"}],
        }
    )

    assert node.required == ("a",)
    assert node.properties["a"].pattern is not None
    assert node.properties["a"].format == "date-time"
    assert node.properties["b"].items is not None
    assert node.properties["b"].items.minimum == 1
    assert node.properties["c"].below("anything") is node.properties["c"].additional
    assert node.properties["d"].types == ("integer", "string")
    assert node.rules[0].rule == "self.a == 'x'"
    assert node.rules[0].message == "m"


def test_a_format_the_server_does_not_check_is_forgotten() -> None:
    assert compile_schema({"type": "integer", "format": "int32"}).format == ""
    assert compile_schema({"type": "string", "format": "made-up"}).format_check is None


def test_a_null_default_is_none_and_a_whole_float_is_an_integer() -> None:
    assert compile_schema({"default": None}).default is MISSING
    default = compile_schema({"default": {"a": [1.0, 1.5, "x"]}}).default

    assert default == {"a": [1, 1.5, "x"]}
    assert isinstance(default["a"][0], int)


def test_a_mapping_of_anything_is_told_from_no_mapping() -> None:
    assert compile_schema({"additionalProperties": True}).has_additional
    assert not compile_schema({}).has_additional


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/x"}, "schema: $ref is not supported"),
        ({"uniqueItems": True}, "uniqueItems is not supported"),
        (
            {"properties": {"a": {"patternProperties": {}}}},
            "properties[a]: patternProperties is not supported",
        ),
        ({"properties": {"a": 5}}, "properties[a]: must be an object"),
        ({"items": {"type": "text"}}, "items: type may not be 'text'"),
        ({"x-kubernetes-list-type": "bag"}, "x-kubernetes-list-type may not be 'bag'"),
        ({"x-kubernetes-map-type": "loose"}, "x-kubernetes-map-type may not be 'loose'"),
        ({"x-kubernetes-list-type": "map"}, "x-kubernetes-list-map-keys must name the keys"),
        ({"format": "email"}, "format email is checked by the API server but not by this engine"),
        ({"additionalProperties": False}, "additionalProperties may not be false"),
        ({"pattern": "a(?=b)"}, "pattern 'a(?=b)'"),
        ({"allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]}, "allOf[0]: x-kubernetes-validations"),
        ({"not": {"x-kubernetes-validations": [{"rule": "true"}]}}, "not: x-kubernetes-validations"),
        (
            {"x-kubernetes-validations": [{"rule": "true", "reason": "Bad"}]},
            "a rule's reason may not be 'Bad'",
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)

    assert words in caught.value.message
    assert caught.value.hint


def test_json_types_are_those_go_sees() -> None:
    values = ["x", True, {}, [], 5, 2**63, 1.5, None]

    assert [json_type(value) for value in values] == [
        "string",
        "boolean",
        "object",
        "array",
        "integer",
        "number",
        "number",
        "null",
    ]
    assert repr(MISSING) == "MISSING"
