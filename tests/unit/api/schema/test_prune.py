# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy

from karpenter.api.schema.prune import drop_nulls, prune
from karpenter.api.schema.structural import compile_schema

_SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "known": {"type": "string"},
                    "nullable": {"type": "string", "nullable": True},
                    "defaulted": {"type": "string", "default": "x"},
                    "list": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                    },
                    "map": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "properties": {"a": {}}},
                    },
                    "open": {"type": "object", "additionalProperties": True},
                    "kept": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"strict": {"type": "object", "properties": {"a": {}}}},
                    },
                    "keptList": {
                        "type": "array",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "items": {"type": "object", "properties": {"strict": {"type": "object"}}},
                    },
                    "keptScalars": {"x-kubernetes-preserve-unknown-fields": True},
                    "keptMap": {
                        "x-kubernetes-preserve-unknown-fields": True,
                        "additionalProperties": {"type": "object"},
                    },
                    "embedded": {
                        "type": "object",
                        "x-kubernetes-embedded-resource": True,
                        "x-kubernetes-preserve-unknown-fields": True,
                    },
                },
            }
        },
    }
)


def test_unknown_fields_go_and_are_named_in_order() -> None:
    obj = {
        "kind": "X",
        "metadata": {"anything": 1},
        "zzz": 1,
        "spec": {
            "known": "a",
            "unknown": {"b": 1},
            "list": [{"a": "x", "c": 1}, "text"],
            "map": {"k": {"a": 1, "d": 2}},
        },
    }
    before = copy.deepcopy(obj)

    pruned = prune(obj, _SCHEMA)

    assert pruned.object == {
        "kind": "X",
        "metadata": {"anything": 1},
        "spec": {"known": "a", "list": [{"a": "x"}, "text"], "map": {"k": {"a": 1}}},
    }
    assert pruned.paths == ("spec.list[0].c", "spec.map.k.d", "spec.unknown", "zzz")
    assert obj == before


def test_what_may_hold_anything_keeps_it_until_the_schema_speaks_again() -> None:
    obj = {
        "spec": {
            "kept": {"x": [{"y": 1}], "strict": {"a": 1, "b": 2}},
            "keptList": [{"x": 1, "strict": {"b": 1}}, 5],
            "keptScalars": [1, [2]],
            "keptMap": {"x": {"y": 1}},
            "embedded": {"kind": "Pod", "spec": {"a": 1}},
        }
    }

    pruned = prune(obj, _SCHEMA)

    assert pruned.paths == ("spec.kept.strict.b", "spec.keptList[0].strict.b", "spec.keptMap.x.y")
    assert pruned.object["spec"]["kept"] == {"x": [{"y": 1}], "strict": {"a": 1}}
    assert pruned.object["spec"]["keptList"] == [{"x": 1, "strict": {}}, 5]
    assert pruned.object["spec"]["keptScalars"] == [1, [2]]
    assert pruned.object["spec"]["embedded"] == {"kind": "Pod", "spec": {"a": 1}}


def test_a_mapping_of_anything_keeps_scalars_but_not_the_fields_of_objects() -> None:
    pruned = prune({"spec": {"open": {"a": 1, "b": {"c": 1}, "d": [{"e": 1}]}}}, _SCHEMA)

    assert pruned.object == {"spec": {"open": {"a": 1, "b": {}, "d": [{}]}}}
    assert pruned.paths == ("spec.open.b.c", "spec.open.d[0].e")


def test_a_number_that_64_bits_cannot_hold_becomes_a_float() -> None:
    pruned = prune({"spec": {"known": 2**63, "kept": {"x": -(2**64)}}}, _SCHEMA)

    assert isinstance(pruned.object["spec"]["known"], float)
    assert isinstance(pruned.object["spec"]["kept"]["x"], float)


def test_a_null_goes_where_it_is_neither_allowed_nor_replaced() -> None:
    spec = {"known": None, "nullable": None, "defaulted": None, "list": [None], "unknown": None}

    assert drop_nulls({"spec": spec}, _SCHEMA) == {
        "spec": {"nullable": None, "defaulted": None, "list": [None], "unknown": None}
    }
    assert drop_nulls([{"a": None}], None) == [{"a": None}]
