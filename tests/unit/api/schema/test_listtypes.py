# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from karpenter.api.schema.listtypes import duplicate_problems
from karpenter.api.schema.structural import compile_schema

_SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {}},
            "map": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"set": {"x-kubernetes-list-type": "set"}}},
            },
            "byName": {
                "type": "object",
                "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set"},
            },
            "plain": {"type": "array", "items": {}},
        },
    }
)


def duplicates(**fields: Any) -> list[str]:
    return [str(problem) for problem in duplicate_problems(fields, _SCHEMA)]


def test_a_value_given_again_is_told_once_at_its_second_place() -> None:
    assert duplicates(set=["a", "b", "a", "a"]) == ['set[2]: Duplicate value: "a"']
    assert duplicates(set=[1, 1.0, True, "1", None]) == []
    assert duplicates(set=[{"a": 1, "b": 2}, {"b": 2, "a": 1}]) == ['set[1]: Duplicate value: {"a":1,"b":2}']


def test_an_item_is_told_by_its_keys() -> None:
    assert duplicates(map=[{"k": 1, "v": 1}, {"k": 1, "v": 2}]) == ['map[1]: Duplicate value: {"k":1}']
    assert duplicates(map=[{"v": 1}, {"v": 2}]) == ["map[1]: Duplicate value: {}"]
    assert duplicates(map=[None, {}]) == ["map[1]: Duplicate value: {}"]


def test_an_item_without_keys_at_all_ends_the_check() -> None:
    assert duplicates(map=[{"k": 1}, {"k": 1}, "text"]) == [
        'map[2]: Invalid value: "text": must be an object for an array of list-type map'
    ]


def test_lists_inside_lists_and_mappings_are_checked_too() -> None:
    assert duplicates(map=[{"k": 1, "set": ["a", "a"]}]) == ['map[0].set[1]: Duplicate value: "a"']
    assert duplicates(byName={"x/y": [1, 1]}) == ["byName[x/y][1]: Duplicate value: 1"]
    assert duplicates(plain=["a", "a"], unknown=["a", "a"], set="text") == []
