# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

from karpenter.api.schema.defaults import apply_defaults
from karpenter.api.schema.structural import compile_schema

_SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "x"},
            "nullable": {"type": "string", "default": "x", "nullable": True},
            "inner": {"type": "object", "properties": {"b": {"type": "integer", "default": 1}}},
            "whole": {
                "type": "object",
                "default": {},
                "properties": {"c": {"type": "string", "default": "y"}},
            },
            "list": {
                "type": "array",
                "items": {"type": "object", "default": {}, "properties": {"d": {"default": 2}}},
            },
            "map": {"type": "object", "additionalProperties": {"type": "string", "default": "z"}},
        },
    }
)


def test_a_missing_field_takes_its_default_and_defaults_have_defaults() -> None:
    assert apply_defaults({}, _SCHEMA) == {"a": "x", "nullable": "x", "whole": {"c": "y"}}


def test_a_null_takes_the_default_unless_it_is_allowed() -> None:
    filled = apply_defaults({"a": None, "nullable": None, "map": {"k": None}, "list": [None]}, _SCHEMA)

    assert filled["a"] == "x"
    assert filled["nullable"] is None
    assert filled["map"] == {"k": "z"}
    assert filled["list"] == [{"d": 2}]


def test_defaults_reach_into_what_is_there_and_make_nothing_else() -> None:
    filled = apply_defaults({"inner": {}, "list": [{"d": 5}, {}], "unknown": {"x": None}}, _SCHEMA)

    assert filled["inner"] == {"b": 1}
    assert filled["list"] == [{"d": 5}, {"d": 2}]
    assert filled["unknown"] == {"x": None}
    assert "inner" not in apply_defaults({}, _SCHEMA)


def test_neither_the_input_nor_the_default_is_shared() -> None:
    obj: dict[str, Any] = {"inner": {}}
    before = copy.deepcopy(obj)

    first = apply_defaults(obj, _SCHEMA)
    first["whole"]["c"] = "changed"

    assert obj == before
    assert apply_defaults(obj, _SCHEMA)["whole"] == {"c": "y"}
    assert apply_defaults([1, {"a": 1}], None) == [1, {"a": 1}]
