# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from karpenter.api.schema.correlation import Correlation, ListIndex, same
from karpenter.api.schema.structural import compile_schema

_KEYED = compile_schema(
    {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a", "b"],
        "items": {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}},
    }
)
_LIST = compile_schema({"type": "array", "items": {"type": "string"}})
_OBJECT = compile_schema({"type": "object", "properties": {"known": {"type": "string"}}})


def test_values_are_the_same_in_type_and_value() -> None:
    assert same({"a": [1, None]}, {"a": [1, None]})
    assert not same(1, 1.0)
    assert not same(1, True)
    assert not same({"a": 1}, {"b": 1})
    assert not same([1], [1, 2])


def test_an_item_is_found_by_all_its_keys() -> None:
    index = ListIndex(
        _KEYED, [{"a": 1, "b": "x", "c": 1}, {"a": 1, "b": "x", "c": 2}, {"a": 2}, "text", {"a": [], "b": 1}]
    )

    assert index.get({"a": 1, "b": "x", "c": 9}) == {"a": 1, "b": "x", "c": 1}
    assert index.get({"a": True, "b": "x"}) is None
    assert index.get({"a": 2}) is None
    assert index.get("text") is None
    assert ListIndex(_LIST, ["x"]).get("x") is None


def test_a_field_is_correlated_if_both_have_it_and_the_schema_knows_it() -> None:
    both = Correlation({"known": 1, "unknown": 1}, {"known": 2, "unknown": 1}, _OBJECT)

    found = both.field("known")

    assert found is not None
    assert (found.new, found.old) == (1, 2)
    assert both.field("known") is found
    assert both.field("unknown") is None
    assert Correlation({}, {"known": 1}, _OBJECT).field("known") is None
    assert Correlation([], {"known": 1}, _OBJECT).field("known") is None


def test_items_of_lists_without_keys_are_not_correlated() -> None:
    assert Correlation(["a"], ["a"], _LIST).item(0) is None
    assert Correlation(["a"], "a", _LIST).item(0) is None
    assert Correlation(["a"], ["a"], compile_schema({})).item(0) is None


def test_a_keyed_list_is_unchanged_in_any_order() -> None:
    one, two = {"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 2}

    assert Correlation([one, two], [two, one], _KEYED).unchanged()
    assert not Correlation([one], [one, two], _KEYED).unchanged()
    assert not Correlation([one, {**two, "c": 3}], [one, two], _KEYED).unchanged()
    assert not Correlation([one, {"a": 3, "b": 3}], [one, two], _KEYED).unchanged()


def test_a_plain_list_is_unchanged_in_the_same_order_alone() -> None:
    assert Correlation(["a", "b"], ["a", "b"], _LIST).unchanged()
    assert not Correlation(["b", "a"], ["a", "b"], _LIST).unchanged()


def test_an_object_with_fields_of_no_schema_counts_as_changed() -> None:
    assert Correlation({"known": 1}, {"known": 1}, _OBJECT).unchanged()
    assert not Correlation({"unknown": 1}, {"unknown": 1}, _OBJECT).unchanged()
    assert not Correlation({"known": 1}, {}, _OBJECT).unchanged()
