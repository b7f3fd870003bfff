# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.sandbox.kube.kinds.shapes import builtin_shape
from karpenter.sandbox.kube.patching.plain import JsonPatchError, json_patch, merge_patch
from karpenter.sandbox.kube.patching.strategic import StrategicPatchError, strategic_patch

_POD_SPEC = builtin_shape("io.k8s.api.core.v1.PodSpec")
_DEPLOYMENT_SPEC = builtin_shape("io.k8s.api.apps.v1.DeploymentSpec")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def test_null_removes_and_objects_merge() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": 5}, "d": [1]}) == {
        "a": {"c": 2, "e": 5},
        "d": [1],
    }


@given(_JSON, _JSON)
def test_merging_the_same_patch_twice_changes_nothing_more(target: Any, patch: Any) -> None:
    before = copy.deepcopy(target)

    once = merge_patch(target, patch)

    assert merge_patch(once, patch) == once
    assert target == before


def test_all_operations_of_a_json_patch_are_carried_out_in_order() -> None:
    operations = [
        {"op": "test", "path": "/a", "value": [1, 2]},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "add", "path": "/a/0", "value": 0},
        {"op": "replace", "path": "/a/1", "value": 9},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "move", "from": "/b/0", "path": "/c"},
        {"op": "remove", "path": "/a/0"},
        {"op": "add", "path": "/x~1y", "value": True},
    ]

    assert json_patch({"a": [1, 2]}, operations) == {"a": [9, 2, 3], "b": [9, 2, 3], "c": 0, "x/y": True}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/b"},
        {"op": "add", "path": "/b/c/d", "value": 1},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "move", "from": "/nope", "path": "/a"},
        {"op": "twist", "path": "/a"},
        "add",
    ],
)
def test_an_operation_that_does_not_fit_refuses_the_whole_patch(operation: Any) -> None:
    target = {"a": 1, "l": [1]}

    with pytest.raises(JsonPatchError):
        json_patch(target, [{"op": "add", "path": "/new", "value": 1}, operation])

    assert target == {"a": 1, "l": [1]}


def test_a_json_patch_is_a_list_and_not_too_long() -> None:
    with pytest.raises(JsonPatchError) as refused:
        json_patch({}, {"op": "add"})
    assert refused.value.malformed

    with pytest.raises(JsonPatchError, match="maximum"):
        json_patch({}, [{}] * 10_001)


def test_keyed_lists_merge_by_their_key_and_new_items_come_first() -> None:
    target = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}

    merged = strategic_patch(
        target, {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "1"}]}, _POD_SPEC
    )

    assert [(each["name"], each["image"]) for each in merged["containers"]] == [
        ("a", "1"),
        ("b", "2"),
        ("c", "1"),
    ]


def test_directives_delete_replace_and_order() -> None:
    target = {"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1"}}

    deleted = strategic_patch(target, {"containers": [{"name": "a", "$patch": "delete"}]}, _POD_SPEC)
    replaced = strategic_patch(target, {"containers": [{"$patch": "replace"}, {"name": "z"}]}, _POD_SPEC)
    ordered = strategic_patch(
        target, {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}, _POD_SPEC
    )
    emptied = strategic_patch(target, {"nodeSelector": {"$patch": "replace", "y": "2"}}, _POD_SPEC)
    gone = strategic_patch(target, {"$patch": "delete"}, _POD_SPEC)

    assert deleted["containers"] == [{"name": "b"}]
    assert replaced["containers"] == [{"name": "z"}]
    assert [each["name"] for each in ordered["containers"]] == ["b", "a"]
    assert emptied["nodeSelector"] == {"y": "2"}
    assert gone == {}


def test_retained_keys_drop_the_others() -> None:
    target = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}

    merged = strategic_patch(
        target, {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}, _DEPLOYMENT_SPEC
    )

    assert merged["strategy"] == {"type": "Recreate"}


def test_lists_of_plain_values_are_joined_or_replaced_as_the_kind_says() -> None:
    meta = builtin_shape("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")

    joined = strategic_patch({"finalizers": ["a", "b"]}, {"finalizers": ["c"]}, meta)
    less = strategic_patch({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, meta)
    replaced = strategic_patch({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, _POD_SPEC)

    assert joined["finalizers"] == ["c", "a", "b"]
    assert less["finalizers"] == ["b"]
    assert replaced["tolerations"] == [{"key": "b"}]


@pytest.mark.parametrize(
    "patch", [{"$patch": "twist"}, {"containers": [{"image": "x"}]}, {"containers": ["x"]}]
)
def test_a_patch_that_does_not_say_what_it_must_is_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(StrategicPatchError):
        strategic_patch({"containers": [{"name": "a"}]}, patch, _POD_SPEC)
